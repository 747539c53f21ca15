"""MNIST, from tiny files and from OpenML."""

import gzip
import struct
import subprocess
import sys
from urllib.error import URLError

import numpy as np
import pytest
import sklearn.datasets
from _parts import PARTS, part

from skvdl.datasets import _mnist, fetch_mnist

NAMES = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}


def idx(array):
    array = np.asarray(array, dtype=np.uint8)
    return struct.pack(f">{1 + array.ndim}I", 0x800 + array.ndim, *array.shape) + array.tobytes()


def write(path, content):
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "wb") as file:
        file.write(content)


@pytest.fixture(params=["", ".gz"])
def suffix(request):
    return request.param


@pytest.fixture
def mnist(tmp_path, rng, suffix):
    """Data home with 24 images to learn from and 6 to test with, of 4 x 5 pixels."""
    (tmp_path / "mnist").mkdir()
    arrays = {}
    for name, n in (("train", 24), ("test", 6)):
        arrays[name] = rng.integers(0, 256, (n, 4, 5)), rng.integers(0, 10, n)
        for file, array in zip(NAMES[name], arrays[name], strict=True):
            write(tmp_path / "mnist" / (file + suffix), idx(array))
    return tmp_path, arrays


@pytest.fixture
def offline(monkeypatch):
    def fail(*args, **kwargs):
        raise URLError("no network")

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fail)


@pytest.mark.usefixtures("offline")
def test_mnist_from_files(mnist):
    home, arrays = mnist
    data = fetch_mnist(home)
    assert (data.name, data.image_shape) == ("mnist", (4, 5))
    assert [len(part(data, name)[0]) for name in PARTS] == [22, 2, 6]
    X_test, y_test = part(data, "test")
    images, labels = arrays["test"]
    assert X_test.dtype == np.float32
    np.testing.assert_allclose(X_test, (images.reshape(6, 20) / 255 - 0.1307) / 0.3081, rtol=1e-5)
    np.testing.assert_array_equal(y_test, labels)
    assert y_test.dtype == np.int64
    np.testing.assert_allclose(data.to_pixels(X_test) * 255, images.reshape(6, 20), atol=1e-3)


@pytest.mark.usefixtures("offline")
def test_mnist_without_split_holds_out_a_twelfth(mnist):
    home, arrays = mnist
    data = fetch_mnist(home)
    X, y = np.vstack([data.X_train, data.X_val]), np.concatenate([data.y_train, data.y_val])
    found = {
        (*np.rint(data.to_pixels(x[None])[0] * 255), label) for x, label in zip(X, y, strict=True)
    }
    expected = zip(arrays["train"][0].reshape(24, 20), arrays["train"][1], strict=True)
    assert found == {(*image, label) for image, label in expected}
    np.testing.assert_array_equal(fetch_mnist(home, random_state=0).X_val, data.X_val)
    assert not np.array_equal(fetch_mnist(home, random_state=1).X_val, data.X_val)


@pytest.mark.usefixtures("offline")
def test_mnist_with_split_files(mnist):
    home, arrays = mnist
    split = {"train": np.array([5, 3, 8], dtype=np.int32), "val": np.array([0, 23])}
    for name, indices in split.items():
        np.save(home / "mnist" / f"split_{name}.npy", indices)
    data = fetch_mnist(home)
    for name, indices in split.items():
        X, y = part(data, name)
        images, labels = (array[indices] for array in arrays["train"])
        np.testing.assert_allclose(data.to_pixels(X, name) * 255, images.reshape(-1, 20), atol=1e-3)
        np.testing.assert_array_equal(y, labels)


@pytest.mark.usefixtures("offline")
def test_data_home_is_the_argument_then_the_variable_then_that_of_scikit_learn(
    mnist, tmp_path, monkeypatch
):
    home, _ = mnist
    empty = tmp_path / "empty"
    monkeypatch.setenv("SKVDL_DATA_HOME", str(empty))
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(empty))
    assert len(fetch_mnist(home).X_test) == 6
    monkeypatch.setenv("SKVDL_DATA_HOME", str(home))
    assert len(fetch_mnist().X_test) == 6
    monkeypatch.delenv("SKVDL_DATA_HOME")
    with pytest.raises(FileNotFoundError, match="empty"):
        fetch_mnist()
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(home))
    assert len(fetch_mnist().X_test) == 6


@pytest.mark.parametrize("pandas", [True, False])
def test_mnist_is_fetched_where_files_are_missing(tmp_path, rng, monkeypatch, pandas):
    pixels, labels = rng.integers(0, 256, (84, 784)), rng.integers(0, 10, 84)
    asked = {}

    def fetch_openml(name, **kwargs):
        asked.update(kwargs, name=name)
        return pixels.astype(np.float64), labels.astype(str).astype(object)

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch_openml)
    monkeypatch.setattr(_mnist, "find_spec", lambda name: pandas or None)
    data = fetch_mnist(tmp_path)
    assert asked["name"] == "mnist_784"
    assert asked["data_home"] == str(tmp_path)
    assert asked["parser"] == ("pandas" if pandas else "liac-arff")
    assert data.image_shape == (28, 28)
    assert [len(part(data, name)[0]) for name in PARTS] == [66, 6, 12]
    np.testing.assert_allclose(data.to_pixels(data.X_test) * 255, pixels[72:], atol=1e-3)
    np.testing.assert_array_equal(data.y_test, labels[72:])


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize("suffix", [""], indirect=True)
def test_mnist_incomplete_and_no_network(mnist, tmp_path):
    home, _ = mnist
    (home / "mnist" / NAMES["test"][1]).unlink()
    with pytest.raises(FileNotFoundError, match=r"lacks t10k-labels-idx1-ubyte \(.*no network"):
        fetch_mnist(home)
    with pytest.raises(FileNotFoundError, match=r"lacks train-images-\S+, train-.*SKVDL_DATA_HOME"):
        fetch_mnist(tmp_path / "nowhere")


@pytest.mark.usefixtures("offline")
def test_mnist_truncated_file(mnist, suffix):
    home, _ = mnist
    path = home / "mnist" / (NAMES["train"][0] + suffix)
    whole = path.read_bytes()
    for n_bytes in (len(whole) - 3, 30, 6, 0):
        path.write_bytes(whole[:n_bytes])
        with pytest.raises(ValueError, match=r"train-images-idx3-ubyte\S* is truncated"):
            fetch_mnist(home)
    path.write_bytes(whole)
    fetch_mnist(home)


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize("suffix", [".gz"], indirect=True)
def test_mnist_damaged_archive(mnist):
    home, _ = mnist
    path = home / "mnist" / (NAMES["train"][0] + ".gz")
    whole = path.read_bytes()
    for damaged in (b"no archive", whole[:200] + b"\xff" * 20 + whole[220:], whole[:-8] + b"x" * 8):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"\.gz is truncated or damaged"):
            fetch_mnist(home)


@pytest.mark.usefixtures("offline")
def test_mnist_wrong_magic_number(mnist, suffix, rng):
    home, _ = mnist
    images, labels = (home / "mnist" / (name + suffix) for name in NAMES["test"])
    write(labels, idx(rng.integers(0, 9, (6, 4, 5))))
    with pytest.raises(ValueError, match=r"t10k-labels.* 2051 instead of 2049"):
        fetch_mnist(home)
    write(images, b"\x89PNG" + bytes(100))
    with pytest.raises(ValueError, match=r"t10k-images.* not an IDX file of images"):
        fetch_mnist(home)


@pytest.mark.usefixtures("offline")
def test_mnist_images_and_labels_of_different_counts(mnist, suffix):
    home, _ = mnist
    write(home / "mnist" / (NAMES["test"][1] + suffix), idx(np.zeros(7)))
    with pytest.raises(ValueError, match=r"has 6 images, but .* 7 labels"):
        fetch_mnist(home)


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize("suffix", [""], indirect=True)
@pytest.mark.parametrize(
    ("train", "val", "message"),
    [
        ([0, 24], [1], "split_train.* 0 to 24.* 24 training images"),
        ([0, 2], [-1], "split_val.* from -1"),
        ([0, 2], [2, 3], "in common"),
        ([0.5, 2], [1], "split_train.* whole numbers"),
        ([[0, 2]], [1], "split_train.* whole numbers"),
        ([0, 2], np.array([], dtype=int), "split_val.* whole numbers"),
    ],
)
def test_mnist_bad_split(mnist, train, val, message):
    home, _ = mnist
    np.save(home / "mnist" / "split_train.npy", train)
    np.save(home / "mnist" / "split_val.npy", val)
    with pytest.raises(ValueError, match=message):
        fetch_mnist(home)


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize("suffix", [""], indirect=True)
def test_mnist_unreadable_or_lonely_split(mnist):
    home, _ = mnist
    path = home / "mnist" / "split_train.npy"
    for content in (b"", b"no array"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"split_train.* cannot be read"):
            fetch_mnist(home)
    np.save(path, [0, 1])
    with pytest.raises(FileNotFoundError, match=r"split_val\.npy"):
        fetch_mnist(home)


@pytest.mark.usefixtures("offline")
def test_mnist_believes_no_header(mnist, suffix):
    """A small archive may unpack to gigabytes: no more is read than the header promises."""
    home, _ = mnist
    path = home / "mnist" / (NAMES["train"][0] + suffix)
    whole = path.read_bytes() if not suffix else gzip.decompress(path.read_bytes())
    write(path, whole + bytes(2**20))
    with pytest.raises(ValueError, match=r"promises 480 bytes, there are more than 480"):
        fetch_mnist(home)
    for shape in ((2**32 - 1, 28, 28), (0, 28, 28), (24, 0, 5)):
        write(path, struct.pack(">4I", 2051, *shape) + bytes(100))
        with pytest.raises(ValueError, match=r"train-images.* header that promises \d+ bytes"):
            fetch_mnist(home)


BOMB = """
import resource, sys
from pathlib import Path
from skvdl.datasets._idx import read_idx
resource.setrlimit(resource.RLIMIT_AS, (8 * 2**30, 8 * 2**30))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    read_idx(Path(sys.argv[1]), 3)
except ValueError as error:
    print(error)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""


def test_mnist_archive_that_unpacks_to_much_more(tmp_path):
    path = tmp_path / "bomb.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(struct.pack(">4I", 2051, 10, 4, 5))
        for _ in range(200):
            file.write(bytes(2**20))
    run = [sys.executable, "-c", BOMB, str(path)]
    message, grown = subprocess.run(run, capture_output=True, text=True).stdout.splitlines()
    assert "there are more than 200" in message
    assert float(grown) < 20


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize("suffix", [""], indirect=True)
def test_mnist_with_too_few_images(mnist, rng):
    home, _ = mnist
    images, labels = (home / "mnist" / name for name in NAMES["train"])
    write(images, idx(rng.integers(0, 256, (1, 4, 5))))
    write(labels, idx([1]))
    with pytest.raises(ValueError, match=r"train-images.* has 1 image"):
        fetch_mnist(home)
    write(images, idx(np.empty((0, 4, 5))))
    with pytest.raises(ValueError, match=r"train-images.* promises 0 bytes"):
        fetch_mnist(home)


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize("suffix", [""], indirect=True)
def test_mnist_split_of_another_kind(mnist):
    home, _ = mnist
    np.save(home / "mnist" / "split_val.npy", [0, 1])
    path = home / "mnist" / "split_train.npy"
    with path.open("wb") as file:
        np.savez(file, indices=[2, 3])
    for content in (path.read_bytes(), b"PK\x03\x04 no archive", b"\x80\x04no pickle"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"split_train\.npy.* cannot be read as an array"):
            fetch_mnist(home)
    np.lib.format.open_memmap(path, "w+", np.int64, (10,)).flush()
    header = path.read_bytes().replace(b"(10,), }       ", b"(10000000000,),}")
    path.write_bytes(header)
    with pytest.raises(ValueError, match=r"split_train\.npy.* cannot be read as an array"):
        fetch_mnist(home)
