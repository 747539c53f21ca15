"""Files of data sets and images with any bytes in them."""

import io
import struct
import tempfile
from pathlib import Path
from unittest import mock

import numpy as np
import sklearn.datasets
from _promises import attempt
from _strategies import ODD, SEEDS, arrays, containers
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from skvdl.datasets import Dataset, _natural, fetch_mnist, load_digits, load_natural_patches
from skvdl.images import _files

NAMES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte")
NAMES += ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


def idx(array):
    array = np.asarray(array, dtype=np.uint8)
    return struct.pack(f">{1 + array.ndim}I", 0x800 + array.ndim, *array.shape) + array.tobytes()


def spoil(draw, content):
    """Return bytes with something wrong: some changed, some missing, some more."""
    content = bytearray(content)
    how = draw(st.sampled_from(["nothing", "change", "cut", "add", "replace"]))
    if how == "change":
        for _ in range(draw(st.integers(1, 4))):
            place = draw(st.one_of(st.integers(0, 40), st.integers(0, len(content) - 1)))
            content[min(place, len(content) - 1)] = draw(st.integers(0, 255))
    elif how == "cut":
        del content[draw(st.integers(0, len(content))) :]
    elif how == "add":
        content += draw(st.binary(max_size=30))
    elif how == "replace":
        content = draw(st.binary(max_size=40))
    return bytes(content)


def npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


@given(st.data())
def test_mnist(data):
    n = data.draw(st.sampled_from([1, 2, 3, 20]))
    rng = np.random.default_rng(data.draw(SEEDS))
    arrays_ = [rng.integers(0, 256, (n, 2, 3)), rng.integers(0, 9, n)] * 2
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home, "mnist")
        folder.mkdir()
        spoilt = data.draw(st.integers(-3, 5))
        for i, (name, array) in enumerate(zip(NAMES, arrays_, strict=True)):
            content = idx(array)
            (folder / name).write_bytes(spoil(data.draw, content) if i == spoilt else content)
        if spoilt > 3:
            order = npy(rng.permutation(n)), npy(data.draw(arrays()))
            for name, content in zip(("split_train.npy", "split_val.npy"), order, strict=True):
                (folder / name).write_bytes(spoil(data.draw, content) if spoilt > 3 else content)
        with mock.patch.object(sklearn.datasets, "fetch_openml", side_effect=OSError("offline")):
            found = attempt(
                fetch_mnist, home, random_state=data.draw(st.sampled_from([0, 0, 0, "x", -1]))
            )
        if found.good:
            for X in (found.result.X_train, found.result.X_val, found.result.X_test):
                assert np.isfinite(X).all()
                pixels = found.result.to_pixels(X)
                assert pixels.min() > -1e-4
                assert pixels.max() < 1 + 1e-4


@given(st.data())
def test_pictures(data):
    shape = data.draw(st.sampled_from([(60, 55), (8, 9), (60, 70, 3), (1, 1)]))
    pixels = np.random.default_rng(data.draw(SEEDS)).integers(0, 256, shape, dtype=np.uint8)
    kind = data.draw(st.sampled_from(["png", "bmp", "jpeg", "gif", "tiff", "webp", "ppm", "npy"]))
    file = io.BytesIO()
    if kind == "npy":
        np.save(file, pixels)
    else:
        Image.fromarray(pixels).save(file, kind)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"image.{kind}")
        path.write_bytes(spoil(data.draw, file.getvalue()))
        found = attempt(_files._read, path)
        assert not found.good or isinstance(found.result, np.ndarray)
        if kind != "npy":
            found = attempt(_natural._read_grey, path)
            assert not found.good or min(found.result.shape) == 256


@given(st.data())
def test_natural_patches(data):
    counts = {
        f"n_{part}": data.draw(st.one_of(st.integers(1, 4), ODD)) for part in ("train", "val")
    }
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(_natural, "_TRIAL_CROPS", 6):
        for i in range(data.draw(st.integers(0, 4))):
            flat = data.draw(st.booleans())
            pixels = np.random.default_rng(i).integers(0, 1 if flat else 256, (256, 60))
            Image.fromarray(pixels.astype(np.uint8)).save(Path(folder, f"{i}.png"))
        found = attempt(load_natural_patches, folder, n_test=2, **counts)
    assert not found.good or isinstance(found.result, Dataset)


DIGITS = load_digits()


@given(st.data())
def test_pixels(data):
    assert attempt(load_digits, data.draw(ODD)) is not None
    X = data.draw(containers(shape=data.draw(st.sampled_from([(3, 64), (64,), None]))))
    part = data.draw(st.sampled_from(["train", "val", "test", "x", None, 3]))
    found = attempt(DIGITS.to_pixels, X, part)
    assert not found.good or np.isfinite(found.result).all()
