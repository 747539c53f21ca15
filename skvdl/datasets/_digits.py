"""Digits of 8 x 8 pixels that come with scikit-learn."""

from functools import partial

import numpy as np
from sklearn import datasets as sklearn_datasets
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state

from ..preprocessing import GlobalScaler
from ._dataset import Dataset, scaled_dataset

__all__ = ["load_digits"]


def load_digits(random_state: int | np.random.RandomState | None = 0) -> Dataset:
    """Load scikit-learn's digits, scaled to mean 0 and standard deviation 1.

    Parameters
    ----------
    random_state : int, RandomState instance or None, default=0
        Determines which images go into which part: two thirds for training, a sixth each for
        validation and test.

    Returns
    -------
    Dataset
        1797 images of 8 x 8 pixels, with labels.

    Examples
    --------
    >>> from skvdl.datasets import load_digits
    >>> digits = load_digits()
    >>> digits.X_train.shape, digits.X_val.shape, digits.X_test.shape
    ((1197, 64), (300, 64), (300, 64))
    """
    random_state = check_random_state(random_state)
    pixels, labels = sklearn_datasets.load_digits(return_X_y=True)
    pixels = (pixels / 16).astype(np.float32)
    hold_out = partial(train_test_split, test_size=300, random_state=random_state)
    train, test, train_labels, test_labels = hold_out(pixels, labels, stratify=labels)
    train, val, train_labels, val_labels = hold_out(train, train_labels, stratify=train_labels)
    parts = [(train, train_labels), (val, val_labels), (test, test_labels)]
    return scaled_dataset("digits", (8, 8), GlobalScaler(), parts)
