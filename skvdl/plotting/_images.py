"""Rows of numbers as pictures: their shape, their place in a grid, their colours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

__all__ = ["check_count", "resolve_image_shape", "show", "tile"]


def check_count(name: str, value: int | None) -> None:
    """Check that a number of images, where it is given, is positive."""
    if value is not None and value < 1:
        raise ValueError(f"{name}={value} must be at least 1.")


def resolve_image_shape(image_shape: Sequence[int] | None, n_features: int) -> tuple[int, ...]:
    """Check the shape of an image, or guess it: square, grey or RGB."""
    if image_shape is None:
        side = math.isqrt(n_features)
        if side and side * side == n_features:
            return side, side
        side = math.isqrt(n_features // 3)
        if side and 3 * side * side == n_features:
            return side, side, 3
        raise ValueError(
            f"{n_features} features do not make a square image, grey or RGB; pass image_shape="
            "(height, width) or (height, width, 3)."
        )
    shape = tuple(image_shape)
    if len(shape) not in (2, 3) or shape[2:] not in ((), (3,)):
        raise ValueError(f"image_shape={shape} must be (height, width) or (height, width, 3).")
    if math.prod(shape) != n_features:
        raise ValueError(
            f"image_shape={shape} has {math.prod(shape)} values, but an image has {n_features}."
        )
    return shape


def tile(images: NDArray[np.float64], n_columns: int, gap: int) -> NDArray[np.float64]:
    """Join images into one picture, row by row; NaN between them and where there are none."""
    n, height, width, *channels = images.shape
    n_rows = math.ceil(n / n_columns)
    tiles = np.full((n_rows * n_columns, height + gap, width + gap, *channels), np.nan)
    tiles[:n, :height, :width] = images
    tiles = tiles.reshape(n_rows, n_columns, height + gap, width + gap, *channels).swapaxes(1, 2)
    picture = tiles.reshape(n_rows * (height + gap), n_columns * (width + gap), *channels)
    return picture[: len(picture) - gap, : picture.shape[1] - gap]


def show(
    ax: Axes, picture: NDArray[np.float64], low: float, high: float, **options: Any
) -> AxesImage:
    """Draw values between two limits, and nothing where they are NaN."""
    if picture.ndim == 2:
        return ax.imshow(picture, **{"vmin": low, "vmax": high, **options})
    colours = np.clip((picture - low) / (high - low), 0.0, 1.0)
    seen = np.isfinite(picture[..., :1])
    return ax.imshow(np.concatenate([np.where(seen, colours, 1.0), seen], axis=2), **options)
