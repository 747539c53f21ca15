"""Means and one scale of data, gathered in pieces, against plain numpy."""

import copy
import pickle

import numpy as np
import pytest
import torch

import skvdl.models._units
from skvdl.models import Units


@pytest.fixture
def X():
    rng = np.random.default_rng(0)
    return rng.normal(size=(57, 6)) * rng.uniform(0.1, 10, size=6) + rng.normal(size=6) * 20


def gathered(X, pieces=(57,), center=True, scale=True):
    """Units of rows that come in pieces of these sizes."""
    units = Units(center, scale)
    for piece in np.split(X, np.cumsum(pieces)[:-1]):
        units.update(torch.from_numpy(piece))
    return units


def plain_scale(X, center=True):
    """Root mean square of all entries that are seen, after centring."""
    return np.sqrt(np.nanmean((X - np.nanmean(X, axis=0) if center else X) ** 2))


PIECES = [(57,), (1, 56), (56, 1), (20, 20, 17), (1,) * 57, (2, 3, 50, 2)]


@pytest.mark.parametrize("pieces", PIECES, ids=len)
@pytest.mark.parametrize("gaps", [False, True])
def test_mean_and_scale_are_those_of_all_rows(X, pieces, gaps):
    if gaps:
        X[np.random.default_rng(1).random(X.shape) < 0.3] = np.nan
        X[:3, 0] = np.nan  # nothing of this feature in the first pieces
    units = gathered(X, pieces)
    np.testing.assert_allclose(units.mean, np.nanmean(X, axis=0), rtol=1e-12)
    assert units.scale == pytest.approx(plain_scale(X), rel=1e-12)


@pytest.mark.parametrize("pieces", PIECES, ids=len)
def test_center_or_scale_alone(X, pieces):
    centred = gathered(X, pieces, scale=False)
    np.testing.assert_allclose(centred.mean, X.mean(axis=0), rtol=1e-12)
    assert centred.scale == 1.0
    scaled = gathered(X, pieces, center=False)
    assert scaled.mean is None
    assert scaled.scale == pytest.approx(plain_scale(X, center=False), rel=1e-12)


def test_rows_in_these_units_have_no_mean_and_a_mean_square_of_1(X):
    units = gathered(X)
    Y = units.apply(torch.from_numpy(X))
    np.testing.assert_allclose(Y.mean(dim=0), np.zeros(6), atol=1e-13)
    assert Y.square().mean().item() == pytest.approx(1.0, rel=1e-12)
    np.testing.assert_allclose(units.undo(Y), X, rtol=1e-12)


def test_without_either_nothing_is_touched(X):
    Y = torch.from_numpy(X)
    units = Units(center=False, scale=False).update(Y)
    assert units.apply(Y) is Y
    assert units.undo(Y) is Y
    assert (units.mean, units.scale) == (None, 1.0)


@pytest.mark.parametrize(
    ("dtype", "unit"),
    [(np.float32, 1e-30), (np.float32, 1e20), (np.float64, 1e-200), (np.float64, 1e200)],
)
def test_numbers_far_from_1(X, dtype, unit):
    far, near = (gathered((X * u).astype(dtype), (20, 37)) for u in (unit, 1.0))
    np.testing.assert_allclose(far.mean.numpy() / unit, near.mean, rtol=1e-6)
    assert far.scale / unit == pytest.approx(near.scale, rel=1e-6)
    Y = far.apply(torch.from_numpy((X * unit).astype(dtype)))
    assert Y.dtype == torch.from_numpy(np.empty(0, dtype)).dtype
    assert Y.double().square().mean().item() == pytest.approx(1.0, rel=1e-5)


@pytest.mark.parametrize("value", [0.0, 0.1, -7e8, 1e-200])
@pytest.mark.parametrize("pieces", PIECES, ids=len)
def test_scale_of_constant_features_is_1_and_not_their_rounding_error(value, pieces):
    X = np.full((57, 3), value) * [1.0, 3.0, 7.0]
    units = gathered(X, pieces)
    assert units.scale == 1.0
    np.testing.assert_allclose(units.mean, X[0], rtol=1e-14)


def test_scale_is_taken_from_the_features_that_vary(X):
    X[:, 2] = 0.1
    units = gathered(X)
    assert units.scale == pytest.approx(plain_scale(X), rel=1e-12)
    assert units.apply(torch.from_numpy(X))[:, 2].abs().max() < 1e-15


def test_later_rows_may_vary_where_the_first_did_not(X):
    X[:10] = 0.0
    units = gathered(X, (10, 47))
    assert units.scale == pytest.approx(plain_scale(X), rel=1e-12)


def test_small_spread_on_a_large_mean_is_not_lost(X):
    Y = X + 1e7
    units = gathered(Y, (20, 37))
    assert units.scale == pytest.approx(plain_scale(X), rel=1e-7)


def test_features_that_are_never_seen_have_mean_0(X):
    X[:, 1] = np.nan
    units = gathered(X, (20, 37))
    assert units.mean[1] == 0.0
    assert units.scale == pytest.approx(plain_scale(np.delete(X, 1, axis=1)), rel=1e-12)
    assert gathered(np.full_like(X, np.nan)).scale == 1.0


def test_single_precision_is_summed_in_double_precision():
    X = np.full((200_000, 1), 0.1, dtype=np.float32)
    X[::2] += 1
    units = Units(center=True, scale=True).update(torch.from_numpy(X))
    assert units.mean.item() == pytest.approx(X.mean(dtype=np.float64), rel=1e-12)
    assert units.scale == pytest.approx(X.std(dtype=np.float64), rel=1e-9)


def test_chunks_change_nothing(X, monkeypatch):
    whole = gathered(X)
    monkeypatch.setattr(skvdl.models._units, "_CHUNK_ELEMENTS", 30)
    chunks = gathered(X)
    np.testing.assert_allclose(chunks.mean, whole.mean, rtol=1e-13)
    assert chunks.scale == pytest.approx(whole.scale, rel=1e-13)


def test_a_copy_goes_on_by_itself(X):
    units = gathered(X[:30], (30,))
    for twin in (copy.deepcopy(units), pickle.loads(pickle.dumps(units))):
        before = units.scale
        twin.update(torch.from_numpy(X[30:]))
        assert twin.scale == pytest.approx(plain_scale(X), rel=1e-12)
        assert units.scale == before


@pytest.mark.parametrize("unit", [1e-150, 1.0, 1e150])
@pytest.mark.parametrize("center", [True, False])
def test_merged_units_are_those_of_all_rows(X, center, unit):
    X = X * unit
    X[5:9, 0] = np.nan
    # the rows of one part are far smaller than the others
    X[:10] *= 1e-9
    parts = [gathered(rows, (len(rows),), center) for rows in (X[:10], X[10:11], X[11:])]
    merged = Units(center, scale=True)
    for part in parts:
        merged.merge(part)
    merged.merge(Units(center, scale=True))
    assert merged.n_seen == np.isfinite(X).sum()
    assert merged.scale == pytest.approx(plain_scale(X / unit, center) * unit, rel=1e-12)
    if center:
        mean = np.nanmean(X / unit, axis=0) * unit
        np.testing.assert_allclose(merged.mean, mean, rtol=1e-12)
