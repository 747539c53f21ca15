"""Files that hold numbers and nothing else: safetensors, with a checksum over every byte.

A *tree* is what a file contains: dicts, lists, tuples, strings, numbers, None and tensors. The
tensors are stored as such, and everything else as JSON in the header of the file.
"""

import hashlib
import json
import math
import os
import uuid
from collections.abc import Mapping
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

#: Version of the format. A file of another version is refused.
FORMAT = 1
# Bytes of a header at most, as in safetensors itself.
_MOST_HEADER = 100_000_000
# Stands for the checksum while it is computed.
_NO_CHECKSUM = "0" * 64
# Keys of the header beside the tensors.
_KEYS = ("format", "kind", "sha256", "tree")


def write_tree(path: str | os.PathLike[str], tree: Any, *, kind: str) -> None:
    """Write a file atomically: afterwards there is the old one or the new one, and no mixture.

    Parameters
    ----------
    path : str or path
        Where to write.
    tree : object
        What to write.
    kind : str
        What the file is, which `read_tree` asks for.
    """
    tensors: dict[str, torch.Tensor] = {}
    text = json.dumps(_encode(tree, tensors, {}), allow_nan=False)
    header = {"format": f"skvdl/{FORMAT}", "kind": kind, "sha256": _NO_CHECKSUM, "tree": text}
    data = bytearray(safetensors.torch.save(tensors, header))
    place = _place(data, _NO_CHECKSUM)
    data[place : place + len(_NO_CHECKSUM)] = hashlib.sha256(data).hexdigest().encode()
    _write_atomically(Path(path), data)


def read_tree(path: str | os.PathLike[str], *, kind: str) -> Any:
    """Read a file that `write_tree` wrote.

    Parameters
    ----------
    path : str or path
        Where to read.
    kind : str
        What the file has to be.

    Returns
    -------
    object
        What was written, on the CPU.

    Raises
    ------
    ValueError
        If any byte has changed, or the file is something else.
    """
    with open(path, "rb") as file:
        data = file.read()
    try:
        header = _header(data)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ValueError(f"{os.fspath(path)!r} is not a file of skvdl, or damaged.") from error
    # before the checksum, because another version may compute it in another way
    if header["format"] != f"skvdl/{FORMAT}" and _known_format(header["format"]):
        raise ValueError(
            f"{os.fspath(path)!r} has the format {header['format']!r}; this version of skvdl "
            f"reads 'skvdl/{FORMAT}'."
        )
    place, whole = _place(data, header["sha256"]), memoryview(data)
    found = hashlib.sha256(whole[:place])
    found.update(_NO_CHECKSUM.encode())
    found.update(whole[place + len(_NO_CHECKSUM) :])
    if found.hexdigest() != header["sha256"]:
        raise ValueError(f"{os.fspath(path)!r} is damaged: its checksum is wrong.")
    if header["kind"] != kind:
        raise ValueError(f"{os.fspath(path)!r} is a {header['kind']}, not a {kind}.")
    try:
        # copies, which are aligned as tensors are that were never stored
        tensors = {name: t.clone() for name, t in safetensors.torch.load(data).items()}
        return _decode(json.loads(header["tree"]), tensors)
    except (
        safetensors.SafetensorError,
        ValueError,
        TypeError,
        KeyError,
        RecursionError,
    ) as error:
        raise ValueError(f"{os.fspath(path)!r} cannot be read: {error}") from error


def hash_tree(tree: Any) -> str:
    """Digest of everything in a tree."""
    tensors: dict[str, torch.Tensor] = {}
    text = json.dumps(_encode(tree, tensors, {}), allow_nan=False)
    digest = hashlib.sha256(text.encode())
    digest.update(safetensors.torch.save(tensors))
    return digest.hexdigest()


def _encode(
    tree: Any, tensors: dict[str, torch.Tensor], names: dict[int, tuple[str, torch.Tensor]]
) -> Any:
    """Turn a tree into JSON and put its tensors aside, each of them once."""
    if isinstance(tree, torch.Tensor):
        if id(tree) not in names:
            # the tensor is kept as well, because another one could get the id of a dead one
            names[id(tree)] = f"{len(names)}", tree
            copy = tree.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
            tensors[names[id(tree)][0]] = copy
        return {"tensor": names[id(tree)][0]}
    if tree is None or isinstance(tree, bool | str):
        return tree
    if isinstance(tree, Integral):
        return int(tree)
    if isinstance(tree, Real):
        value = float(tree)
        return value if math.isfinite(value) else {"float": str(value)}
    if isinstance(tree, list):
        return [_encode(value, tensors, names) for value in tree]
    if isinstance(tree, tuple):
        return {"tuple": [_encode(value, tensors, names) for value in tree]}
    if isinstance(tree, Mapping):
        # pairs, because keys may be numbers
        return {"dict": [[key, _encode(value, tensors, names)] for key, value in tree.items()]}
    raise TypeError(f"A {type(tree).__name__} cannot be stored in a file.")


def _decode(tree: Any, tensors: dict[str, torch.Tensor]) -> Any:
    """Undo `_encode`."""
    if isinstance(tree, list):
        return [_decode(value, tensors) for value in tree]
    if not isinstance(tree, dict):
        return tree
    ((kind, value),) = tree.items()
    if kind == "tensor":
        return tensors[value]
    if kind == "float":
        return float(value)
    if kind == "tuple":
        return tuple(_decode(item, tensors) for item in value)
    if kind == "dict":
        return {key: _decode(item, tensors) for key, item in value}
    raise ValueError(f"unknown kind of value {kind!r}")


def _header(data: bytes) -> dict[str, str]:
    """Metadata of a file, of which nothing is known yet."""
    length = int.from_bytes(data[:8], "little")
    if not 2 <= length <= min(len(data) - 8, _MOST_HEADER):
        raise ValueError("no header")
    header = json.loads(data[8 : 8 + length])["__metadata__"]
    if not all(isinstance(header[key], str) for key in _KEYS):
        raise TypeError("not text")
    if len(header["sha256"]) != len(_NO_CHECKSUM):
        raise ValueError("no checksum")
    _place(data, header["sha256"])
    return header


def _place(data: bytes | bytearray, checksum: str) -> int:
    """Where the checksum is; within the tree, quotes have a backslash."""
    key = b'"sha256":"'
    return data.index(key + checksum.encode()) + len(key)


def _known_format(text: str) -> bool:
    """Whether this is the name of a format, and not a damaged one."""
    name, _, number = text.partition("/")
    return name == "skvdl" and number.isascii() and number.isdigit()


def _write_atomically(path: Path, data: bytearray) -> None:
    draft = path.with_name(f"{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        with open(draft, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    if os.name == "posix":
        # the name of a file is in its folder, which has to reach the disk too
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
