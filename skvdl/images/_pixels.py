"""Arrays of pixels: what is accepted as an image, and the way to tensors and back."""

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor


def check_image(
    image: np.ndarray, patch_size: int, *, n_channels: int | None = None, gaps: bool = False
) -> None:
    """Refuse what is not one grey or RGB image that patches can be cut from.

    Parameters
    ----------
    image : ndarray
        What should be an image.
    patch_size : int
        Height and width of a patch, which have to fit into the image.
    n_channels : int, optional
        Channels that the image should have.
    gaps : bool, default=False
        Whether NaN is allowed.
    """
    if image.dtype.kind not in "iuf":
        raise ValueError(f"An image has numbers as pixels, not {image.dtype}.")
    if image.ndim not in (2, 3) or (image.ndim == 3 and image.shape[2] not in (1, 3)):
        raise ValueError(
            f"An image is of shape (height, width) or (height, width, 3), not {image.shape}. "
            "Leave out an alpha channel: image[..., :3]."
        )
    own_channels = image.shape[2] if image.ndim == 3 else 1
    if n_channels not in (None, own_channels):
        raise ValueError(
            f"The image has {own_channels} channel(s) where {n_channels} are expected. Images are "
            "either all grey or all RGB, in fit and afterwards."
        )
    if min(image.shape[:2]) < patch_size:
        raise ValueError(
            f"An image of {image.shape[0]} x {image.shape[1]} pixels has no patch of patch_size="
            f"{patch_size}; use a larger image or smaller patches."
        )
    if gaps and np.isinf(image).any():
        raise ValueError("The image contains infinity. Use NaN for missing pixels.")
    if not gaps and image.dtype.kind == "f" and not np.isfinite(image).all():
        raise ValueError(
            "The image contains NaN or infinity. NaN stands for missing pixels, which inpaint "
            "fills: inpaint(image)."
        )


def mean_of(image: np.ndarray) -> float:
    """Return the mean of the pixels, in double precision for any type."""
    return float(np.mean(image, dtype=np.float64))


def std_of(image: np.ndarray) -> float:
    """Return the standard deviation of the pixels, in double precision for any type."""
    return float(np.std(image, dtype=np.float64))


def to_tensor(image: np.ndarray, mean: float, scale: float) -> Tensor:
    """Return the pixels minus a mean and scaled, with channels, in single precision."""
    image = image.reshape(*image.shape[:2], -1)
    pixels = np.empty(image.shape, dtype=np.float32)
    # row by row, so that a large image is not copied in double precision
    for row, out in zip(image, pixels, strict=True):
        out[:] = (row.astype(np.float64) - mean) / scale
    return torch.from_numpy(pixels)


def to_image(
    tensor: Tensor, mean: float, scale: float, *, like: np.ndarray, within: tuple[float, float]
) -> np.ndarray:
    """Undo `to_tensor`: return pixels within a range, in the shape and type of an image."""
    image = np.empty(tuple(tensor.shape), dtype=like.dtype)
    for row, out in zip(tensor.numpy(), image, strict=True):
        pixels = np.clip(row.astype(np.float64) * scale + mean, *within)
        out[:] = pixels if like.dtype.kind == "f" else np.rint(pixels)
    return image.reshape(like.shape)


def mask_like(image: np.ndarray, mask: ArrayLike) -> np.ndarray:
    """Return a mask in the shape of an image."""
    mask = np.asarray(mask, dtype=bool)
    if mask.shape not in (image.shape, image.shape[:2]):
        raise ValueError(f"The mask is of shape {mask.shape}, the image of shape {image.shape}.")
    if mask.ndim < image.ndim:
        mask = np.repeat(mask[:, :, None], image.shape[2], axis=2)
    return mask
