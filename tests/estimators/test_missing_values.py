"""Rows with missing entries: learnt from and coded by what is seen."""

import numpy as np
import pandas as pd
import pytest
import torch
from _helpers import as_published, solve
from sklearn.linear_model import Lasso
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skvdl import VDL, NonLinearVDL
from skvdl.metrics import neg_energy_scorer, psnr_scorer

LAM = 0.02


@pytest.fixture
def holes(small):
    """The rows of `small` with a third of their entries missing, none of the first ten rows."""
    rng = np.random.default_rng(1)
    X = small.copy()
    missing = rng.random(X.shape) < 0.3
    missing[np.arange(60), np.arange(60) % 12] = True
    missing[:10] = False
    X[missing] = np.nan
    return X


def make(kind=VDL, **options):
    if kind is NonLinearVDL:
        options.setdefault("hidden_layer_sizes", 20)
    options = {"lam": LAM, "max_iter": 20, "random_state": 0, "missing_values": "nan"} | options
    return kind(16, **options)


def published(kind=VDL, **options):
    return make(kind, **as_published(kind) | {"lam": LAM} | options)


@pytest.mark.parametrize("positive", [True, False])
@pytest.mark.parametrize("method", ["encoder", "fista"])
def test_codes_are_those_of_the_lasso_on_the_entries_seen(small, holes, positive, method):
    model = published(positive_code=positive, transform_method=method, transform_tol=1e-9)
    model.set_params(transform_max_iter=20_000).fit(small)
    codes = model.transform(holes)
    W = model.components_.T
    for x, z in zip(holes[10:], codes[10:], strict=True):
        seen = ~np.isnan(x)
        # the energy divides by all features, the lasso by those seen
        alpha = LAM / 2 * len(x) / seen.sum()
        lasso = Lasso(alpha, fit_intercept=False, positive=positive, tol=1e-14, max_iter=10**6)
        best = lasso.fit(W[seen], x[seen]).coef_
        energies = [
            np.sum((x[seen] - W[seen] @ c) ** 2) / len(x) + LAM * np.abs(c).sum() for c in (z, best)
        ]
        assert energies[0] <= energies[1] * (1 + 1e-8)
    np.testing.assert_allclose(codes[:10], model.transform(small[:10]), rtol=1e-6, atol=1e-9)


def test_complete_rows_have_the_codes_they_always_have(small, holes):
    model = make().fit(small)
    codes = model.transform(holes)
    plain = model.set_params(missing_values=None).transform(small[:10])
    np.testing.assert_allclose(codes[:10], plain, rtol=1e-12)


def test_codes_of_a_row_do_not_depend_on_its_neighbours(small, holes):
    model = make(transform_tol=1e-8).fit(small)
    together = model.transform(holes)
    for i in (0, 12, 30, 59):
        np.testing.assert_allclose(model.transform(holes[i : i + 1])[0], together[i], atol=1e-6)


def test_network_codes_minimise_the_energy_of_what_is_seen(small, holes):
    model = published(NonLinearVDL, transform_max_iter=5000).fit(small)
    Y = torch.from_numpy(holes[10:])
    seen = Y.isnan().logical_not().to(Y.dtype)
    found = solve(
        Y.nan_to_num(),
        model.decoder_,
        lam=LAM,
        seen=seen,
        exact=True,
        init=model.encoder_(Y.nan_to_num()).detach(),
        max_iter=5000,
    )
    np.testing.assert_allclose(model.transform(holes[10:]), found.codes, atol=1e-9)
    decoded = model.decoder_(found.codes).detach()
    error = ((decoded - Y.nan_to_num()) * seen).square().mean(dim=1)
    torch.testing.assert_close(found.energy, error + LAM * found.codes.abs().sum(dim=1))


def test_reconstruction_fills_the_gaps(small, holes):
    model = make(lam=0.002, max_iter=60).fit(small)
    filled = model.inverse_transform(model.transform(holes))
    gaps = np.isnan(holes)
    mean = np.broadcast_to(small.mean(axis=0), small.shape)
    assert np.mean((filled - small)[gaps] ** 2) < 0.3 * np.mean((mean - small)[gaps] ** 2)


def test_score_counts_what_is_seen(small, holes):
    model = make().fit(small)
    X_hat = model.inverse_transform(model.transform(holes))
    error = np.nansum((holes - X_hat) ** 2)
    total = np.nansum((holes - np.nanmean(holes, axis=0)) ** 2)
    assert model.score(holes) == pytest.approx(1 - error / total, rel=1e-9)


def test_containers_come_back_as_they_came(small, holes):
    model = make().fit(small)
    expected = model.transform(holes)
    tensor = model.transform(torch.from_numpy(holes))
    np.testing.assert_array_equal(tensor.numpy(), expected)
    frame = model.set_output(transform="pandas").transform(pd.DataFrame(holes))
    np.testing.assert_array_equal(frame.to_numpy(), expected)
    assert list(frame.columns[:2]) == ["vdl0", "vdl1"]


def test_a_row_with_nothing_seen_has_no_active_component(small):
    codes = make().fit(small).transform(np.full((2, 12), np.nan))
    assert (codes == 0).all()


def test_missing_entries_work_in_a_pipeline(small, holes):
    pipe = make_pipeline(FunctionTransformer(), make()).fit(small)
    np.testing.assert_array_equal(pipe.transform(holes), pipe[-1].transform(holes))


@pytest.mark.parametrize("convert", [np.asarray, torch.from_numpy])
def test_missing_entries_are_refused_unless_allowed(small, holes, convert):
    model = make(missing_values=None).fit(small)
    for method in (model.transform, model.score):
        with pytest.raises(ValueError, match="NaN"):
            method(convert(holes))
    for method in (model.fit, model.partial_fit):
        with pytest.raises(ValueError, match="NaN"):
            method(convert(holes))
    model = make(penalty="l1").fit(small)
    with pytest.raises(ValueError, match="duality_gap needs complete rows"):
        model.duality_gap(convert(holes))
    infinite = convert(np.where(np.isnan(holes), np.inf, holes))
    with pytest.raises(ValueError, match="infinity"):
        model.transform(infinite)


@pytest.mark.parametrize("kind", [VDL, NonLinearVDL])
@pytest.mark.parametrize("encoder", ["lista", None])
def test_learning_from_incomplete_rows_fills_the_gaps(kind, encoder):
    # five directions in twelve features: two thirds of the entries tell where a row is
    rng = np.random.default_rng(0)
    codes = rng.exponential(size=(300, 5)) * (rng.random((300, 5)) < 0.4)
    X = codes @ rng.normal(size=(5, 12))
    gaps = rng.random(X.shape) < 0.3
    holes = np.where(gaps, np.nan, X)
    rates = {"learning_rate_init": 0.02, "batch_size": 50, "inference_max_iter": 20}
    model = make(kind, lam=0.01, max_iter=40, encoder=encoder, **rates).fit(holes)
    filled = model.inverse_transform(model.transform(holes))
    mean = np.broadcast_to(np.nanmean(holes, axis=0), X.shape)
    assert np.mean((filled - X)[gaps] ** 2) < 0.6 * np.mean((mean - X)[gaps] ** 2)
    assert model.partial_fit(holes).n_iter_ == 41


@pytest.mark.parametrize("kind", [VDL, NonLinearVDL])
@pytest.mark.parametrize("options", [{}, {"encoder": None}, {"revive_dead": True, "lam": 0.3}])
def test_complete_rows_are_learnt_as_ever(small, kind, options):
    options = {"early_stopping": True, "init": "random"} | options
    if kind is NonLinearVDL:
        options.pop("init")
    plain, looking = (make(kind, missing_values=m, **options).fit(small) for m in (None, "nan"))
    np.testing.assert_allclose(looking.loss_curve_, plain.loss_curve_, rtol=1e-6)
    np.testing.assert_allclose(looking.validation_curve_, plain.validation_curve_, rtol=1e-6)


def test_what_is_missing_has_no_part_in_learning(small, holes):
    # zeros in place of the gaps are data, gaps are not
    model = make(max_iter=3).fit(holes)
    other = make(max_iter=3).fit(np.nan_to_num(holes))
    assert not np.allclose(model.components_, other.components_)
    assert model.loss_curve_[0] < other.loss_curve_[0]


@pytest.mark.parametrize("kind", [VDL, NonLinearVDL])
@pytest.mark.parametrize(
    "options",
    [
        {"early_stopping": True},
        {"revive_dead": True, "lam": 0.5},
        {"encoder": None},
        {"sparse_output": True},
        {"warm_start": True},
    ],
    ids=str,
)
def test_every_way_to_learn_takes_incomplete_rows(holes, kind, options):
    X = holes.astype(np.float32)
    model = make(kind, **options).fit(X).partial_fit(X).fit(X)
    codes = model.transform(X)
    assert codes.dtype == np.float32
    assert np.isfinite(model.inverse_transform(codes)).all()
    assert np.isfinite(model.loss_curve_).all()


def test_batches_without_gaps_cost_no_more(small):
    model = make(batch_size=30).fit(small)
    Y, seen = model._learner.prepare(torch.from_numpy(small))
    assert seen is None
    np.testing.assert_allclose(Y, (small - model.mean_) / model.scale_)


def test_score_of_nothing_is_an_error(small):
    model = make().fit(small)
    with pytest.raises(ValueError, match="every entry of X is missing"):
        model.score(np.full((3, 12), np.nan))
    constant = np.full((3, 12), 0.1)
    constant[0, 0] = np.nan
    assert model.score(constant) in (0.0, 1.0)


@pytest.mark.parametrize("scorer", [psnr_scorer, neg_energy_scorer])
def test_scorers_refuse_incomplete_rows(small, holes, scorer):
    with pytest.raises(ValueError, match="missing"):
        scorer(make().fit(small), holes)
