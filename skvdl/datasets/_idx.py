"""Arrays of bytes in IDX files, the format of MNIST."""

import gzip
import math
import struct
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

__all__ = ["plain_or_gz", "read_idx"]


def plain_or_gz(path: Path) -> Path | None:
    """Return the path, or that with the ending .gz, whichever is a file."""
    candidates = (path, path.with_name(path.name + ".gz"))
    return next((candidate for candidate in candidates if candidate.is_file()), None)


def read_idx(path: Path, n_dimensions: int) -> NDArray[np.uint8]:
    """Read an IDX file: magic number, shape, numbers."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            content = file.read()
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path} is truncated or damaged ({error}); download it again.") from error
    start = 4 * (1 + n_dimensions)
    if len(content) < start:
        raise ValueError(f"{path} is truncated: it has {len(content)} bytes; download it again.")
    magic, *shape = struct.unpack_from(f">{1 + n_dimensions}I", content)
    if magic != 0x800 + n_dimensions:
        kind = "images" if n_dimensions == 3 else "labels"
        raise ValueError(
            f"{path} is not an IDX file of {kind}: it starts with the number {magic} instead of "
            f"{0x800 + n_dimensions}."
        )
    if len(content) - start != math.prod(shape):
        raise ValueError(
            f"{path} is truncated or damaged: its header promises {math.prod(shape)} bytes, there "
            f"are {len(content) - start}; download it again."
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)
