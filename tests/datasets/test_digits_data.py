"""Digits of scikit-learn."""

import numpy as np
import pytest
import sklearn.datasets
from _parts import PARTS, part

from skvdl.datasets import load_digits


def test_digits_are_scaled_by_their_training_part():
    data = load_digits()
    assert data.X_train.mean() == pytest.approx(0, abs=1e-6)
    assert data.X_train.std() == pytest.approx(1, abs=1e-6)
    assert data.X_test.mean() != pytest.approx(0, abs=1e-6)


def test_digits_fall_into_three_parts_and_come_back_as_pixels():
    data = load_digits()
    pixels, labels = [], []
    for name in PARTS:
        X, y = part(data, name)
        assert X.dtype == np.float32
        assert y.dtype == np.int64
        pixels.append(data.to_pixels(X, name))
        labels.append(y)
        balance = np.bincount(sklearn.datasets.load_digits().target) / 1797
        np.testing.assert_allclose(np.bincount(y), balance * len(y), atol=1.5)
    found = np.hstack([np.vstack(pixels) * 16, np.concatenate(labels)[:, None]])
    expected = np.column_stack(sklearn.datasets.load_digits(return_X_y=True))
    order = [np.lexsort(rows.round().T) for rows in (found, expected)]
    np.testing.assert_allclose(found[order[0]], expected[order[1]], atol=1e-4)


def test_digits_depend_on_the_seed_only():
    one, same, other = load_digits(), load_digits(0), load_digits(1)
    np.testing.assert_array_equal(one.X_val, same.X_val)
    assert not np.array_equal(one.X_val, other.X_val)
