"""Images as users have them, arrays or files, one or many: to arrays, one by one."""

import os
from pathlib import Path

import numpy as np

__all__ = ["images_of", "load"]

_SUFFIXES = (".bmp", ".jpeg", ".jpg", ".npy", ".png", ".tif", ".tiff")


def images_of(X):
    """Images, or paths of such, and what makes of a list of results what `X` is."""
    if isinstance(X, str | os.PathLike):
        path = Path(X)
        return (_files_in(path), list) if path.is_dir() else ([path], _first)
    if isinstance(X, list | tuple) and X and all(np.ndim(image) >= 2 for image in X):
        return X, list
    X = np.asarray(X)
    if X.ndim == 4 or (X.ndim == 3 and X.shape[2] > 4):
        if not len(X):
            raise ValueError("The stack holds no image.")
        return X, np.stack
    return [X], _first


def _first(results):
    return results[0]


def _files_in(folder):
    files = sorted(path for path in folder.iterdir() if path.suffix.lower() in _SUFFIXES)
    if not files:
        raise ValueError(f"The folder {folder} holds no image ({', '.join(_SUFFIXES)}).")
    return files


def load(image):
    """Pixels of an image, read from a file where it is the path of one."""
    if not isinstance(image, Path):
        return np.asarray(image)
    if not image.is_file():
        raise FileNotFoundError(f"There is no image file or folder {image}.")
    if image.suffix.lower() == ".npy":
        return np.load(image)
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError("Reading image files takes Pillow: pip install pillow.") from error
    with Image.open(image) as picture:
        plain = {"1": "L", "LA": "L", "P": "RGB", "RGBA": "RGB", "CMYK": "RGB"}
        return np.asarray(picture.convert(plain.get(picture.mode, picture.mode)))
