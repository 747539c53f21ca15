"""Whole images: remove noise and fill gaps by coding their patches."""

from ._denoiser import ImageDenoiser
from ._noise import estimate_noise

__all__ = ["ImageDenoiser", "estimate_noise"]
