"""What all data sets have in common."""

import dataclasses

import pytest

from skvdl.datasets import load_digits


def test_dataset_is_frozen_and_says_little():
    data = load_digits()
    with pytest.raises(dataclasses.FrozenInstanceError):
        data.X_test = None
    assert repr(data) == "Dataset(name='digits', image_shape=(8, 8))"


def test_pixels_of_rows_that_do_not_belong_are_refused():
    data = load_digits()
    with pytest.raises(ValueError, match="part='all'"):
        data.to_pixels(data.X_test, "all")
    with pytest.raises(ValueError, match=r"shape \(300, 63\).*rows of 64"):
        data.to_pixels(data.X_test[:, 1:])
    with pytest.raises(ValueError, match=r"shape \(64,\)"):
        data.to_pixels(data.X_test[0])


def test_pixels_are_not_clipped():
    data = load_digits()
    assert data.to_pixels(data.X_test + 10).max() > 2
