"""Images as users have them: arrays or files, one or many."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._files import decoded, only_files, opened_picture, read_array

# What is taken from a folder. Pillow reads all of these, and numpy .npy.
_SUFFIXES = (
    ".avif",
    ".bmp",
    ".gif",
    ".jfif",
    ".jp2",
    ".jpe",
    ".jpeg",
    ".jpg",
    ".npy",
    ".pbm",
    ".pgm",
    ".png",
    ".pnm",
    ".ppm",
    ".tga",
    ".tif",
    ".tiff",
    ".webp",
)
# Pillow's modes that are neither grey nor RGB, and what they become.
_PLAIN_MODES = {
    "1": "L",
    "LA": "L",
    "La": "L",
    "P": "RGB",
    "PA": "RGB",
    "RGBA": "RGB",
    "RGBa": "RGB",
    "RGBX": "RGB",
    "CMYK": "RGB",
    "YCbCr": "RGB",
}


@dataclass(frozen=True)
class Source:
    """One image as the user gave it.

    Parameters
    ----------
    given : array-like or Path
        Pixels, or the file that holds them.
    name : str, default=""
        What errors about the image call it. Not needed where it is the only one.
    """

    given: ArrayLike | Path
    name: str = ""

    @contextmanager
    def opened(self) -> Iterator[np.ndarray]:
        """Provide the pixels, and put the name before errors about them."""
        try:
            yield _read(self.given) if isinstance(self.given, Path) else np.asarray(self.given)
        except ValueError as error:
            if not self.name:
                raise
            raise ValueError(f"{self.name}: {error}") from error


def images_of(X: Any) -> tuple[list[Source], Callable[[list[np.ndarray]], Any]]:
    """Return the images of any input, and what joins results of each to a result for all."""
    if isinstance(X, str | os.PathLike):
        path = Path(X)
        if path.is_dir():
            return [_file(p) for p in _files_in(path)], list
        return [_file(path)], _only
    if isinstance(X, list | tuple):
        if not X:
            raise ValueError("The list holds no image.")
        are_files = [isinstance(image, str | os.PathLike) for image in X]
        # rows may be arrays too, but images are never only nested lists
        are_arrays = [not isinstance(image, list | tuple) and np.ndim(image) >= 2 for image in X]
        if any(are_files) or any(are_arrays):
            sources = [
                _file(Path(image)) if is_file else Source(image, f"image {i}")
                for i, (image, is_file) in enumerate(zip(X, are_files, strict=True))
            ]
            return sources, list
    try:
        X = np.asarray(X)
    except ValueError as error:
        raise ValueError(
            "The nested list is no array. Images of different sizes are a list of arrays."
        ) from error
    if X.ndim == 4 or (X.ndim == 3 and X.shape[2] > 4):
        if not len(X):
            raise ValueError("The stack holds no image.")
        return [Source(image, f"image {i}") for i, image in enumerate(X)], np.stack
    return [Source(X)], _only


def one_image(X: Any) -> Source:
    """Return the image of an input that holds one."""
    sources, join = images_of(X)
    if join is not _only:
        raise ValueError("inpaint takes one image, or the path of one, at a time.")
    return sources[0]


def _only(results: list[np.ndarray]) -> np.ndarray:
    return results[0]


def _file(path: Path) -> Source:
    return Source(path, str(path))


def _files_in(folder: Path) -> list[Path]:
    visible = (path for path in folder.iterdir() if not path.name.startswith("."))
    files = only_files(path for path in visible if path.suffix.lower() in _SUFFIXES)
    if not files:
        supported = ", ".join(_SUFFIXES)
        raise ValueError(f"The folder {folder} holds no image. Supported are {supported} files.")
    return files


def _read(path: Path) -> np.ndarray:
    """Return the pixels of an image file."""
    if path.is_dir():
        raise ValueError("This is a folder. A list takes image files; pass a folder by itself.")
    if not path.is_file():
        raise FileNotFoundError(f"There is no image file or folder {path}.")
    if path.suffix.lower() == ".npy":
        return read_array(path)
    with opened_picture(path) as picture:
        mode = _PLAIN_MODES.get(picture.mode, picture.mode)
        return np.asarray(decoded(picture, mode))
