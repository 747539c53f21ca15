"""Arrays of bytes in IDX files, the format of MNIST."""

import gzip
import math
import struct
import zlib
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

__all__ = ["plain_or_gz", "read_idx"]

# Numbers in a file, at most: twenty times those of MNIST.
_MOST_BYTES = 2**30


def plain_or_gz(path: Path) -> Path | None:
    """Return the path, or that with the ending .gz, whichever is a file."""
    candidates = (path, path.with_name(path.name + ".gz"))
    return next((candidate for candidate in candidates if candidate.is_file()), None)


def read_idx(path: Path, n_dimensions: int) -> NDArray[np.uint8]:
    """Read an IDX file: magic number, shape, and as many numbers as the shape promises."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            shape = _read_shape(file, path, n_dimensions)
            n_promised = math.prod(shape)
            # one more shows whether there are too many, and an archive may unpack to any number
            content = file.read(n_promised + 1)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path} is truncated or damaged ({error}); download it again.") from error
    if len(content) != n_promised:
        found = f"more than {n_promised}" if len(content) > n_promised else len(content)
        raise ValueError(
            f"{path} is truncated or damaged: its header promises {n_promised} bytes, there are "
            f"{found}; download it again."
        )
    return np.frombuffer(content, np.uint8).reshape(shape)


def _read_shape(file: gzip.GzipFile | IO[bytes], path: Path, n_dimensions: int) -> list[int]:
    """Read the header, and refuse what is not of this kind or too large."""
    header = file.read(4 * (1 + n_dimensions))
    if len(header) < 4 * (1 + n_dimensions):
        raise ValueError(f"{path} is truncated: it has {len(header)} bytes; download it again.")
    magic, *shape = struct.unpack(f">{1 + n_dimensions}I", header)
    if magic != 0x800 + n_dimensions:
        kind = "images" if n_dimensions == 3 else "labels"
        raise ValueError(
            f"{path} is not an IDX file of {kind}: it starts with the number {magic} instead of "
            f"{0x800 + n_dimensions}."
        )
    if not 0 < math.prod(shape) <= _MOST_BYTES:
        raise ValueError(
            f"{path} has a header that promises {math.prod(shape)} bytes of shape {tuple(shape)}; "
            f"files may have from 1 to {_MOST_BYTES}."
        )
    return shape
