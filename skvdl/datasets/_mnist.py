"""MNIST, from IDX files or from OpenML."""

import os
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import datasets as sklearn_datasets
from sklearn.utils import check_random_state

from .._files import read_array
from ..preprocessing import GlobalScaler
from ._dataset import Dataset, find_data_home, scaled_dataset
from ._idx import plain_or_gz, read_idx

__all__ = ["fetch_mnist"]

# Images and labels for training, then for testing.
_FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
_MEAN, _STD = 0.1307, 0.3081


def fetch_mnist(
    data_home: str | os.PathLike[str] | None = None,
    random_state: int | np.random.RandomState | None = 0,
) -> Dataset:
    """Load MNIST from the data home, or fetch it from OpenML.

    The four IDX files are read from the folder ``mnist`` of the data home, plain or with the
    ending ``.gz``. If one is missing, scikit-learn's `fetch_openml` downloads the images and
    keeps them in the data home.

    Parameters
    ----------
    data_home : str or path, default=None
        Folder that contains ``mnist``. By default the environment variable ``SKVDL_DATA_HOME``,
        or scikit-learn's data home if that is not set.
    random_state : int, RandomState instance or None, default=0
        Determines which twelfth of the 60 000 training images is held out for validation, unless
        ``split_train.npy`` and ``split_val.npy`` beside the IDX files list their indices.

    Returns
    -------
    Dataset
        55 000, 5 000 and 10 000 images of 28 x 28 pixels, with labels, minus 0.1307, divided
        by 0.3081.

    Examples
    --------
    From a folder with files of that format, here tiny ones:

    >>> import struct, tempfile
    >>> from pathlib import Path
    >>> from skvdl.datasets import fetch_mnist
    >>> with tempfile.TemporaryDirectory() as home:
    ...     folder = Path(home, "mnist")
    ...     folder.mkdir()
    ...     for name, n in (("train", 24), ("t10k", 6)):
    ...         images = struct.pack(">4I", 2051, n, 28, 28) + bytes(n * 28 * 28)
    ...         _ = (folder / f"{name}-images-idx3-ubyte").write_bytes(images)
    ...         labels = struct.pack(">2I", 2049, n) + bytes(n)
    ...         _ = (folder / f"{name}-labels-idx1-ubyte").write_bytes(labels)
    ...     mnist = fetch_mnist(home)
    >>> mnist.X_train.shape, mnist.X_val.shape, mnist.X_test.shape
    ((22, 784), (2, 784), (6, 784))
    """
    rng = check_random_state(random_state)
    home = find_data_home(data_home)
    folder = home / "mnist"
    files = {name: plain_or_gz(folder / name) for name in _FILES}
    paths = [path for path in files.values() if path is not None]
    split = None
    if len(paths) < len(files):
        missing = [name for name, path in files.items() if path is None]
        train, train_labels, test, test_labels = _fetch_openml(home, folder, missing)
    else:
        train, train_labels = _read_pair(*paths[:2])
        if len(train) < 2:
            raise ValueError(f"{paths[0]} has 1 image; training and validation need one each.")
        test, test_labels = _read_pair(*paths[2:])
        split = _read_split(folder, len(train))
    if split is None:
        order = rng.permutation(len(train))
        split = np.split(order, [len(train) - max(1, len(train) // 12)])
    pixels = [(train[indices], train_labels[indices]) for indices in split]
    parts = [
        (np.divide(images.reshape(len(images), -1), 255, dtype=np.float32), labels)
        for images, labels in (*pixels, (test, test_labels))
    ]
    return scaled_dataset("mnist", test.shape[1:], GlobalScaler(_MEAN, _STD), parts)


def _read_pair(images_path: Path, labels_path: Path) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Read images and their labels."""
    images, labels = read_idx(images_path, 3), read_idx(labels_path, 1)
    if len(images) != len(labels):
        raise ValueError(
            f"{images_path} has {len(images)} images, but {labels_path} has {len(labels)} labels."
        )
    return images, labels.astype(np.int64)


def _read_split(folder: Path, n_images: int) -> list[NDArray[np.integer[Any]]] | None:
    """Read the indices of training and validation images; None if no files list them."""
    paths = [folder / "split_train.npy", folder / "split_val.npy"]
    if not any(path.is_file() for path in paths):
        return None
    split = []
    for path in paths:
        try:
            indices = read_array(path)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
        if indices.ndim != 1 or not len(indices) or not np.issubdtype(indices.dtype, np.integer):
            raise ValueError(f"{path} must hold a list of whole numbers.")
        if indices.min() < 0 or indices.max() >= n_images:
            raise ValueError(
                f"{path} has indices from {indices.min()} to {indices.max()}, but there are "
                f"{n_images} training images."
            )
        split.append(indices)
    if len(np.intersect1d(split[0], split[1])):
        raise ValueError(f"{paths[0]} and {paths[1]} have images in common.")
    return split


def _fetch_openml(
    home: Path, folder: Path, missing: Sequence[str]
) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.uint8], NDArray[np.int64]]:
    """Fetch the arrays of the four files, some of which are missing."""
    try:
        pixels, labels = sklearn_datasets.fetch_openml(
            "mnist_784",
            version=1,
            data_home=str(home),
            return_X_y=True,
            as_frame=False,
            parser="pandas" if find_spec("pandas") else "liac-arff",
        )
    except (OSError, ValueError) as error:
        raise FileNotFoundError(
            f"{folder} lacks {', '.join(missing)} (plain or .gz), and MNIST could not be fetched "
            f"from OpenML ({error}). Put the files there, or set data_home or SKVDL_DATA_HOME to "
            "the folder that has them in a folder mnist."
        ) from error
    images = pixels.astype(np.uint8).reshape(len(pixels), 28, 28)
    # As in the files, the last 10 000 of 70 000 are the test images.
    n_train = len(images) * 6 // 7
    labels = labels.astype(np.int64)
    return images[:n_train], labels[:n_train], images[n_train:], labels[n_train:]
