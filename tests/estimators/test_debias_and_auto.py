"""Codes without bias, as users get them, and training that ends by itself."""

import numpy as np
import pytest
import torch
from scipy.optimize import nnls

import skvdl.estimators._base
from skvdl import VDL, NonLinearVDL

BOTH = pytest.mark.parametrize("kind", [VDL, NonLinearVDL])
METHODS = pytest.mark.parametrize("method", ["encoder", "fista"])


def make(kind=VDL, **params):
    params = {"max_iter": 5, "random_state": 0, "lam": 0.02, **params}
    if kind is NonLinearVDL:
        params.setdefault("hidden_layer_sizes", 20)
    return kind(16, **params)


# --- codes without bias -------------------------------------------------------------------------


@METHODS
@pytest.mark.parametrize("penalty", ["l0", "l1"])
@pytest.mark.parametrize("positive", [True, False])
@pytest.mark.parametrize("gaps", [False, True])
def test_amplitudes_are_those_of_least_squares_on_the_support(
    method, penalty, positive, gaps, small
):
    params = {"penalty": penalty, "positive_code": positive, "transform_method": method}
    model = make(missing_values="nan", **params).fit(small)
    X = small.copy()
    if gaps:
        X[np.random.default_rng(1).random(X.shape) < 0.2] = np.nan
    biased = model.set_params(debias=False).transform(X)
    codes = model.set_params(debias=True).transform(X)
    assert not ((codes != 0) & (biased == 0)).any()
    Y, W = (X - model.intercept_) / model.scale_, model.components_.T / model.scale_
    for y, z, support in zip(Y, codes, biased != 0, strict=True):
        at = ~np.isnan(y)
        A, best = W[at][:, support], np.zeros(16)
        if support.any():
            best[support] = (
                nnls(A, y[at])[0] if positive else np.linalg.lstsq(A, y[at], rcond=None)[0]
            )
        errors = [np.sum((y - W @ c)[at] ** 2) for c in (z, best)]
        assert errors[0] <= errors[1] + 1e-9 * np.sum(y[at] ** 2)
        if support.sum() <= at.sum() // 2:
            np.testing.assert_allclose(z, best, atol=1e-4 * max(1, np.abs(best).max()))


@METHODS
@pytest.mark.parametrize("positive", [True, False])
def test_error_of_a_network_never_rises(method, positive, small):
    model = make(NonLinearVDL, positive_code=positive, transform_method=method).fit(small)
    biased = model.set_params(debias=False).transform(small)
    codes = model.set_params(debias=True).transform(small)
    assert not ((codes != 0) & (biased == 0)).any()
    errors = [np.sum((small - model.inverse_transform(c)) ** 2, axis=1) for c in (biased, codes)]
    assert (errors[1] <= errors[0] * (1 + 1e-9)).all()
    assert errors[1].sum() < errors[0].sum()


def test_the_gap_is_that_of_codes_before_they_are_refitted(small):
    model = make(penalty="l1", transform_tol=1e-6).fit(small)
    with_bias = model.set_params(debias=False).duality_gap(small)
    np.testing.assert_array_equal(model.set_params(debias=True).duality_gap(small), with_bias)
    assert with_bias.max() <= 1.01e-6


# --- training that ends by itself ---------------------------------------------------------------


@pytest.fixture
def many():
    """Three hundred rows: enough to hold some out."""
    rng = np.random.default_rng(0)
    codes = rng.exponential(size=(300, 5)) * (rng.random((300, 5)) < 0.4)
    return codes @ rng.normal(size=(5, 12)) + 0.05 * rng.normal(size=(300, 12))


@BOTH
def test_easy_data_end_training_early(kind, many, monkeypatch):
    monkeypatch.setattr(kind, "_auto_steps", 400)
    monkeypatch.setattr(skvdl.estimators._base, "_AUTO_PATIENCE", 20)
    model = make(kind, max_iter="auto", batch_size=90).fit(many)
    assert 1 <= model.n_iter_ <= 400 / 3 + 1
    assert model.n_steps_ <= 402
    assert len(model.validation_curve_) == model.n_iter_
    if kind is VDL:
        assert model.n_steps_ < 400
        best = int(np.argmin(model.validation_curve_))
        assert model.n_iter_ - best >= 20 // 3


@BOTH
def test_at_least_one_epoch_is_run(kind, many, monkeypatch):
    monkeypatch.setattr(kind, "_auto_steps", 1)
    model = make(kind, max_iter="auto", batch_size=30).fit(many)
    assert (model.n_iter_, model.n_steps_) == (1, 8)


@pytest.mark.parametrize(
    ("params", "learnt"),
    [
        ({"max_iter": "auto"}, 250),
        ({"max_iter": 2}, 300),
        ({"max_iter": 2, "lam": None}, 250),
        ({"max_iter": 2, "early_stopping": True, "validation_fraction": 0.25}, 225),
    ],
)
def test_rows_held_out_are_not_learnt_from(params, learnt, many, monkeypatch):
    monkeypatch.setattr(VDL, "_auto_steps", 3)
    monkeypatch.setattr(skvdl.estimators._base, "_AUTO_PATIENCE", 10**6)
    seen = set()
    step = skvdl.training.Learner.step

    def watched(self, Y, share):
        seen.update(map(tuple, Y.tolist()))
        return step(self, Y, share)

    monkeypatch.setattr(skvdl.training.Learner, "step", watched)
    make(**params).fit(many)
    assert len(seen) == learnt


def test_few_rows_are_all_learnt_from(small, monkeypatch):
    monkeypatch.setattr(VDL, "_auto_steps", 3)
    model = make(max_iter="auto", lam=None).fit(small)
    assert model.n_steps_ == 3
    assert model.validation_curve_ is None
    assert torch.isfinite(torch.from_numpy(model.transform(small))).all()
