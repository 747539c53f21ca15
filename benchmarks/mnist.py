"""MNIST from IDX files in ``$SKVDL_DATA_HOME/mnist``, scaled as in the paper."""

import gzip
import os
from pathlib import Path

import numpy as np

MEAN, STD = 0.1307, 0.3081


def _read_images(folder, name):
    for path in (folder / name, folder / f"{name}.gz"):
        if path.exists():
            opener = gzip.open if path.suffix == ".gz" else open
            with opener(path, "rb") as file:
                return np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 784)
    raise FileNotFoundError(f"{folder / name}[.gz] not found; set SKVDL_DATA_HOME to its parent")


def load_mnist():
    """Training rows (55 000 where `split_train.npy` lies beside the images) and test rows."""
    folder = Path(os.environ.get("SKVDL_DATA_HOME", ".")) / "mnist"
    train = _read_images(folder, "train-images-idx3-ubyte")
    test = _read_images(folder, "t10k-images-idx3-ubyte")
    split = folder / "split_train.npy"
    train = train[np.load(split)] if split.exists() else train[:55_000]
    return tuple(((x / 255 - MEAN) / STD).astype(np.float32) for x in (train, test))


def to_pixels(X):
    """Back to pixel values in [0, 1]."""
    return X * STD + MEAN
