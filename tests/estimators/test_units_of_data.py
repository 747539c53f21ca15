"""Codes do not depend on the units of the data: the mean and the scale are taken out."""

import numpy as np
import pytest
import torch

from skvdl import VDL, NonLinearVDL
from skvdl.metrics import neg_energy_scorer

BOTH = pytest.mark.parametrize("kind", [VDL, NonLinearVDL])
METHODS = pytest.mark.parametrize("method", ["encoder", "fista"])
REGULARIZERS = ["variance", "unit_norm", "weight_decay", None]


def make(kind=VDL, **params):
    params = {"max_iter": 4, "random_state": 0, "lam": 0.02, **params}
    if kind is NonLinearVDL:
        params.setdefault("hidden_layer_sizes", 10)
    return kind(8, **params)


@pytest.fixture
def other_units(small):
    """The rows of `small` in other units."""
    return 37 * small + 100 * np.random.default_rng(5).normal(size=12)


def assert_close(one, other, rtol):
    np.testing.assert_allclose(one, other, rtol=rtol, atol=rtol * np.abs(other).max())


# --- other units ----------------------------------------------------------------------------


@BOTH
@METHODS
@pytest.mark.parametrize("regularizer", REGULARIZERS)
def test_codes_are_the_same_in_other_units(kind, method, regularizer, small, other_units):
    params = {"transform_method": method, "regularizer": regularizer}
    one, other = make(kind, **params).fit(small), make(kind, **params).fit(other_units)
    codes = other.transform(other_units)
    assert_close(codes, one.transform(small), 1e-6)
    assert other.score(other_units) == pytest.approx(one.score(small), rel=1e-6)
    assert other.scale_ == pytest.approx(37 * one.scale_)
    # reconstructions are in the units of the data
    moved = (other.inverse_transform(codes) - other.mean_) / 37 + one.mean_
    assert_close(moved, one.inverse_transform(one.transform(small)), 1e-6)
    scores = neg_energy_scorer(one, small), neg_energy_scorer(other, other_units)
    assert scores[1] == pytest.approx(scores[0], rel=1e-6)


@pytest.mark.parametrize("params", [{"penalty": "l1"}, {"lam": None}, {"positive_code": False}])
def test_other_ways_to_code_do_not_depend_on_units(params, small, other_units):
    one, other = make(**params).fit(small), make(**params).fit(other_units)
    codes, expected = other.transform(other_units), one.transform(small)
    # a component of one row may be worth its price in one rounding and not in the other
    same = (codes != 0) == (expected != 0)
    assert np.count_nonzero(~same.all(axis=1)) <= 1
    assert_close(codes[same.all(axis=1)], expected[same.all(axis=1)], 1e-6)
    assert other.lam_ == pytest.approx(one.lam_, rel=0.01)


@BOTH
def test_single_precision_does_not_depend_on_units_much(kind, small, other_units):
    one, other = (make(kind).fit(X.astype(np.float32)) for X in (small, other_units))
    scores = one.score(small), other.score(other_units)
    assert scores[1] == pytest.approx(scores[0], abs=0.01)


@BOTH
@pytest.mark.parametrize(
    ("dtype", "unit"),
    [(np.float32, 1e-30), (np.float32, 1e20), (np.float64, 1e-200), (np.float64, 1e200)],
)
def test_numbers_far_from_1(kind, dtype, unit, small):
    # a power of 2, which changes no digit
    unit = 2.0 ** np.round(np.log2(unit))
    near, far = small.astype(dtype), (small * unit).astype(dtype)
    one, other = make(kind).fit(near), make(kind).fit(far)
    rtol = 1e-8 if dtype == np.float64 else 1e-3
    assert_close(other.transform(far), one.transform(near), rtol)
    assert other.score(far) == pytest.approx(one.score(near), rel=rtol)
    rebuilt = other.inverse_transform(other.transform(far))
    assert rebuilt.dtype == dtype
    assert_close(rebuilt / unit, one.inverse_transform(one.transform(near)), rtol)
    assert np.isfinite(neg_energy_scorer(other, far))
    other.partial_fit(far)
    assert np.isfinite(other.transform(far)).all()


# --- what is taken out -------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("scale", [True, False])
def test_mean_and_scale_are_those_of_the_data(kind, center, scale, other_units):
    model = make(kind, center=center, scale=scale).fit(other_units)
    if center:
        np.testing.assert_allclose(model.mean_, other_units.mean(axis=0))
    else:
        assert model.mean_ is None
    left = other_units - other_units.mean(axis=0) if center else other_units
    expected = np.sqrt(np.mean(left**2)) if scale else 1.0
    assert model.scale_ == pytest.approx(expected)


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("scale", [True, False])
def test_components_are_in_the_units_of_the_data(center, scale, other_units):
    model = make(center=center, scale=scale).fit(other_units)
    codes = model.transform(other_units)
    rebuilt = codes @ model.components_ + model.intercept_
    np.testing.assert_allclose(rebuilt, model.inverse_transform(codes))
    assert center == bool((model.intercept_ != 0).any())


@BOTH
def test_one_or_both_taken_out_by_hand_is_the_same(kind, other_units):
    model = make(kind).fit(other_units)
    X = (other_units - other_units.mean(axis=0)) / model.scale_
    ways = [{}, {"scale": False}]
    if kind is NonLinearVDL:
        # a dictionary without centring has no intercept to learn
        ways += [{"center": False}, {"center": False, "scale": False}]
    for params in ways:
        other = make(kind, **params).fit(X)
        assert_close(other.transform(X), model.transform(other_units), 1e-6)


@BOTH
def test_with_both_off_nothing_is_computed_with(kind, small, monkeypatch):
    model = make(kind, center=False, scale=False).fit(small)
    expected = model.transform(small)
    rebuilt = model.inverse_transform(expected)
    monkeypatch.setattr("skvdl.models.Units.apply", lambda self, X: X)
    monkeypatch.setattr("skvdl.models.Units.undo", lambda self, X: X)
    monkeypatch.setattr("skvdl.models.Units.update", lambda self, X: self)
    plain = make(kind, center=False, scale=False).fit(small)
    np.testing.assert_array_equal(plain.transform(small), expected)
    np.testing.assert_array_equal(plain.inverse_transform(expected), rebuilt)


@BOTH
@pytest.mark.parametrize("pieces", [(60,), (20, 40), (2, 30, 28)])
def test_streams_have_the_mean_and_scale_of_all_rows_so_far(kind, pieces, other_units):
    model = make(kind)
    for piece in np.split(other_units, np.cumsum(pieces)[:-1]):
        model.partial_fit(piece)
    np.testing.assert_allclose(model.mean_, other_units.mean(axis=0), rtol=1e-10)
    expected = np.sqrt(np.mean((other_units - other_units.mean(axis=0)) ** 2))
    assert model.scale_ == pytest.approx(expected, rel=1e-10)


def test_a_stream_that_fails_leaves_mean_and_scale(small):
    model = make().partial_fit(small)
    before = model.mean_.copy(), model.scale_
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(small[:, :5])
    bad = small.copy()
    bad[0, 0] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        model.partial_fit(bad + 100)
    np.testing.assert_array_equal(model.mean_, before[0])
    assert model.scale_ == before[1]
    assert model._learner.units.scale == before[1]


def test_fit_starts_again_and_warm_start_takes_the_new_rows(small, other_units):
    model = make(warm_start=True).fit(small).fit(other_units)
    np.testing.assert_allclose(model.mean_, other_units.mean(axis=0))
    again = make().fit(other_units).fit(small)
    np.testing.assert_allclose(again.mean_, small.mean(axis=0))


# --- edges ---------------------------------------------------------------------------------


@BOTH
@METHODS
@pytest.mark.parametrize("value", [0.0, 0.1, -7e8])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_constant_data_are_their_mean(kind, method, value, dtype):
    X = np.full((20, 5), value, dtype=dtype)
    model = make(kind, transform_method=method, lam=0.01).fit(X)
    assert model.scale_ == 1.0
    codes = model.transform(X)
    assert np.isfinite(codes).all()
    rebuilt = model.inverse_transform(codes)
    np.testing.assert_allclose(rebuilt, X, rtol=1e-6, atol=0.7)


def test_constant_features_are_reproduced(small):
    X = np.hstack([small, np.full((60, 2), 0.1)])
    model = make(max_iter=40).fit(X)
    rebuilt = model.inverse_transform(model.transform(X))
    assert np.abs(rebuilt[:, 12:] - 0.1).max() < 0.05


@BOTH
def test_missing_entries_do_not_count(kind, other_units):
    X = other_units.copy()
    X[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
    model = make(kind, missing_values="nan").fit(X)
    np.testing.assert_allclose(model.mean_, np.nanmean(X, axis=0))
    left = X - np.nanmean(X, axis=0)
    assert model.scale_ == pytest.approx(np.sqrt(np.nanmean(left**2)))
    assert np.isfinite(model.transform(X)).all()
    # a row of which nothing is seen has a code of zeros
    nothing = model.transform(np.full((1, 12), np.nan))
    if kind is VDL:
        np.testing.assert_allclose(model.inverse_transform(nothing)[0], model.intercept_)


def test_tensors_are_taken_as_they_are(small):
    model = make().fit(torch.from_numpy(small))
    assert isinstance(model.mean_, np.ndarray)
    np.testing.assert_allclose(model.mean_, small.mean(axis=0))
    assert isinstance(model.scale_, float)
