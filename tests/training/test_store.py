"""Files of trees: what is written is read, and nothing else is."""

import hashlib
import json
import math
import os
import pickle

import pytest
import safetensors.torch
import torch

from skvdl.training import _store, hash_tree, read_tree, write_tree

TREE = {
    "numbers": [1, -2.5, True, None, 1e-320, 0.1, 2**70],
    "text": 'with "sha256":"' + "0" * 64 + '" in it, ü and \\',
    3: {"keys": {0: "are numbers", "or": "text"}},
    "tuple": (1, (2.0, "three"), []),
    "tensors": [torch.arange(6.0).reshape(2, 3).T, torch.tensor(7), torch.ones(0, 4)],
    "mask": torch.tensor([True, False]),
}


def rewritten(path, **changes):
    """Change the metadata of a file and give it the checksum that belongs to it."""
    data = path.read_bytes()
    header = _store._header(data) | changes | {"sha256": _store._NO_CHECKSUM}
    data = bytearray(safetensors.torch.save(safetensors.torch.load(data), header))
    place = _store._place(data, _store._NO_CHECKSUM)
    data[place : place + 64] = hashlib.sha256(data).hexdigest().encode()
    path.write_bytes(data)


def same(a, b):
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and a.shape == b.shape and torch.equal(a, b)
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "tree.safetensors"
    write_tree(path, TREE, kind="test")
    return path


def test_what_is_written_is_read(path):
    assert same(read_tree(path, kind="test"), TREE)
    assert os.listdir(path.parent) == [path.name]


def test_numbers_that_json_does_not_know(path):
    write_tree(path, [math.inf, -math.inf, math.nan], kind="test")
    found = read_tree(path, kind="test")
    assert found[:2] == [math.inf, -math.inf]
    assert math.isnan(found[2])


def test_a_tensor_is_stored_once(path):
    tensor = torch.zeros(1000, dtype=torch.float64)
    write_tree(path, [tensor] * 5, kind="test")
    assert path.stat().st_size < 2 * 8000
    first, *others = read_tree(path, kind="test")
    assert all(other is first for other in others)


def test_every_changed_byte_is_noticed(path):
    data = path.read_bytes()
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= 1 << place % 8
        path.write_bytes(changed)
        with pytest.raises(ValueError, match=r"tree\.safetensors"):
            read_tree(path, kind="test")


def test_every_other_length_is_noticed(path):
    data = path.read_bytes()
    for changed in [*(data[:length] for length in range(0, len(data), 5)), data + b" ", data * 2]:
        path.write_bytes(changed)
        with pytest.raises(ValueError, match=r"tree\.safetensors"):
            read_tree(path, kind="test")


def nested(depth):
    header = b'{"__metadata__":' + b"[" * depth
    return len(header).to_bytes(8, "little") + header


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"some text that is longer than eight bytes",
        pickle.dumps({"a": 1}),
        safetensors.torch.save({"a": torch.ones(2)}),
        safetensors.torch.save({"a": torch.ones(2)}, {"format": "pt"}),
        (2**60).to_bytes(8, "little") + b"{}",
        nested(100_000),
    ],
)
def test_other_files_are_refused(path, content):
    path.write_bytes(content)
    with pytest.raises(ValueError, match="not a file of skvdl"):
        read_tree(path, kind="test")


def test_another_kind_is_refused(path):
    with pytest.raises(ValueError, match="is a test, not a model"):
        read_tree(path, kind="model")


def test_another_format_is_refused(path):
    rewritten(path, format="skvdl/2")
    with pytest.raises(ValueError, match="'skvdl/2'; this version of skvdl reads 'skvdl/1'"):
        read_tree(path, kind="test")


@pytest.mark.parametrize(
    "tree", ['{"tensor": "99"}', '{"call": "f"}', '{"float": "x"}', '{"dict": 3}', "[[", "{}"]
)
def test_trees_that_make_no_sense_are_refused(path, tree):
    rewritten(path, tree=tree)
    with pytest.raises(ValueError, match="cannot be read"):
        read_tree(path, kind="test")


def test_a_rewritten_file_is_accepted(path):
    rewritten(path, tree=json.dumps([1, 2]))
    assert read_tree(path, kind="test") == [1, 2]


@pytest.mark.parametrize("call", ["replace", "fsync"])
def test_a_failure_leaves_the_old_file(path, monkeypatch, call):
    def fail(*args):
        raise OSError("disk full")

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(OSError, match="disk full"):
        write_tree(path, [1], kind="test")
    assert same(read_tree(path, kind="test"), TREE)
    assert os.listdir(path.parent) == [path.name]


def test_what_has_no_place_in_a_file_is_refused(path):
    with pytest.raises(TypeError, match="A function cannot be stored"):
        write_tree(path, [same], kind="test")
    assert same(read_tree(path, kind="test"), TREE)


def test_digests_tell_trees_apart():
    trees = [TREE, {**TREE, "more": None}, {**TREE, "mask": torch.tensor([True, True])}, []]
    assert len({hash_tree(tree) for tree in trees}) == len(trees)
    assert hash_tree(TREE) == hash_tree(TREE)
