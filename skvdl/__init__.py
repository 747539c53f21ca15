"""Sparse coding with variance regularisation, compatible with scikit-learn.

The two estimators, `ImageDenoiser` and `load` are here. The public modules `datasets`, `images`,
`metrics`, `paper`, `plotting` and `preprocessing` need not be imported. All other modules are
private.
"""

from importlib import import_module
from types import ModuleType

from ._version import __version__ as __version__
from .estimators import VDL, VDLNL, NonLinearVDL, VarianceDictionaryLearning, load
from .images import ImageDenoiser

__all__ = ["VDL", "VDLNL", "ImageDenoiser", "NonLinearVDL", "VarianceDictionaryLearning", "load"]

_SUBMODULES = ("datasets", "images", "metrics", "paper", "plotting", "preprocessing")


def __getattr__(name: str) -> ModuleType:
    if name in _SUBMODULES:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_SUBMODULES])
