"""Files that may be anything: what they promise is looked at before they are read."""

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._caller import caller_level

__all__ = ["MOST_PIXELS", "check_size", "decoded", "only_files", "opened_picture", "read_array"]

# Pixels of an image, at most: more are a mistake or an attack far more often than a picture.
MOST_PIXELS = 2**27


def only_files(paths: Iterable[Path]) -> list[Path]:
    """Return the regular files among paths, sorted, and warn of the others.

    Reading from a pipe would wait forever, and a link may lead nowhere.

    Parameters
    ----------
    paths : iterable of Path
        Paths that are named like files to read.

    Returns
    -------
    list of Path
        The regular files.
    """
    paths = sorted(paths)
    others = [path for path in paths if not path.is_file()]
    if others:
        names = ", ".join(str(path) for path in others[:3]) + (", ..." if len(others) > 3 else "")
        warnings.warn(
            f"Skipped because they are not regular files: {names}",
            UserWarning,
            stacklevel=caller_level(),
        )
    return [path for path in paths if path not in set(others)]


def check_size(n_pixels: int) -> None:
    """Refuse images with more pixels than are allowed."""
    if n_pixels > MOST_PIXELS:
        raise ValueError(f"{n_pixels} pixels are too many; images may have {MOST_PIXELS}.")


def read_array(path: Path) -> NDArray[Any]:
    """Read a .npy file, of which no more memory is used than the file has bytes."""
    try:
        # a map refuses a file that is shorter than its header says, before any memory is used
        found = np.load(path, mmap_mode="r")
        if not isinstance(found, np.ndarray):
            found.close()
            raise ValueError("it holds several arrays")
        return np.array(found)
    except OSError:
        raise
    except Exception as error:  # headers are parsed as Python, and archives by other modules
        raise ValueError(f"The file cannot be read as an array: {error}") from error


@contextmanager
def opened_picture(path: Path) -> Iterator[Any]:
    """Open an image file with Pillow, which reads no more than its header."""
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError("Reading images requires Pillow: pip install 'skvdl[images]'") from error
    with path.open("rb") as file:
        try:
            picture = Image.open(file)
        except Exception as error:  # decoders raise whatever they like, SyntaxError among others
            raise _unreadable(error) from error
        with picture:
            check_size(picture.width * picture.height)
            yield picture


def decoded(picture: Any, *modes: str) -> Any:
    """Return the pixels of a picture, converted to one mode after the other."""
    try:
        for mode in modes:
            picture = picture.convert(mode)
    except Exception as error:
        raise _unreadable(error) from error
    return picture


def _unreadable(error: Exception) -> ValueError:
    return ValueError(f"The file cannot be read as an image: {error}")
