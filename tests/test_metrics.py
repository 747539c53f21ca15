import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skvdl import VDL, NonLinearVDL
from skvdl.metrics import (
    n_dead_components,
    neg_energy_scorer,
    psnr,
    psnr_scorer,
    sparsity,
    sparsity_scorer,
)


def test_psnr_is_averaged_over_rows():
    X = np.zeros((2, 4))
    X_hat = np.array([[0.1] * 4, [0.01] * 4])
    assert psnr(X, X_hat, data_range=1.0) == pytest.approx((20 + 40) / 2)
    assert psnr(X, X_hat, data_range=10.0) == pytest.approx((40 + 60) / 2)


def test_psnr_takes_its_range_from_the_data():
    X = np.array([[0.0, 4.0]])
    assert psnr(X, X + 0.4) == pytest.approx(20)


def test_psnr_of_integers_does_not_wrap_around():
    X = np.array([[100, 101]], dtype=np.uint8)
    assert psnr(X, X + 1, data_range=255) == pytest.approx(20 * np.log10(255))
    assert psnr(X + 1, X, data_range=255) == pytest.approx(20 * np.log10(255))


def test_energy_scorer_takes_frames(small):
    model = VDL(4, max_iter=2, random_state=0).fit(small)
    expected = neg_energy_scorer(model, small)
    for container in ("pandas", "polars"):
        model.set_output(transform=container)
        assert neg_energy_scorer(model, small) == pytest.approx(expected)


def test_psnr_of_exact_rows_is_infinite():
    assert psnr(np.ones((1, 3)), np.ones((1, 3)), data_range=1.0) == np.inf


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_matrix, sparse.csr_array])
def test_sparsity_and_dead_components(container):
    codes = container(np.array([[0.0, 1.0, 0.0, -2.0], [0.0, 0.0, 0.0, 2.0]]))
    assert sparsity(codes) == 5 / 8
    assert n_dead_components(codes) == 2


def test_stored_zeros_count_as_zeros():
    codes = sparse.csr_matrix((np.array([0.0, 1.0]), (np.array([0, 1]), np.array([0, 1]))))
    assert sparsity(codes) == 3 / 4
    assert n_dead_components(codes) == 1


@pytest.mark.parametrize("sparse_output", [False, True])
@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("lam", [0.1, None])
@pytest.mark.parametrize(
    "model", [VDL(8), VDL(8, penalty="l1"), NonLinearVDL(8, hidden_layer_sizes=10)], ids=str
)
def test_scorers_equal_a_plain_loop(model, lam, scale, sparse_output, small):
    model = clone(model).set_params(max_iter=3, random_state=0, lam=lam, scale=scale)
    model.set_params(sparse_output=sparse_output).fit(3 * small)
    assert (model.scale_ == 1.0) == (not scale)
    codes = model.transform(3 * small)
    X_hat = model.inverse_transform(codes)
    codes = codes.toarray() if sparse_output else codes
    counts = getattr(model, "penalty", "l1") == "l0"
    span = 3 * (small.max() - small.min())
    energies, ratios = [], []
    for x, x_hat, z in zip(3 * small, X_hat, codes, strict=True):
        # errors are in the units in which the model learns
        mse = np.mean((x - x_hat) ** 2)
        penalty = np.count_nonzero(z) if counts else np.abs(z).sum()
        energies.append(mse / model.scale_**2 + model.lam_ * penalty)
        ratios.append(10 * np.log10(span**2 / mse))
    assert neg_energy_scorer(model, 3 * small) == pytest.approx(-np.mean(energies), rel=1e-10)
    assert psnr_scorer(model, 3 * small) == pytest.approx(np.mean(ratios), rel=1e-10)
    assert sparsity_scorer(model, 3 * small) == pytest.approx(np.mean(codes == 0))


def test_energy_follows_a_lam_that_was_changed_after_fit(small):
    model = VDL(8, max_iter=3, random_state=0).fit(small)
    scores = [neg_energy_scorer(model.set_params(lam=lam), small) for lam in (1e-3, 1e-1)]
    codes = model.transform(small)
    error = (small - model.inverse_transform(codes)) / model.scale_
    expected = np.mean(error**2) + 0.1 * np.count_nonzero(codes) / len(codes)
    assert scores[1] == pytest.approx(-expected, rel=1e-10)
    assert scores[0] != scores[1]


@pytest.mark.parametrize("exponent", [-200, 200])
def test_psnr_does_not_depend_on_the_unit(exponent):
    X = np.array([[0.0, 4.0]]) * 10.0**exponent
    assert psnr(X, 0.9 * X) == pytest.approx(20 * np.log10(10 * np.sqrt(2)))


@pytest.mark.parametrize(
    ("X", "X_hat", "data_range", "message"),
    [
        (np.ones((3, 4)), np.ones((1, 4)), 1.0, r"\(3, 4\) and \(1, 4\)"),
        (np.ones((4, 4)), np.ones(4), 1.0, r"\(4, 4\) and \(4,\)"),
        (np.ones((2, 4, 4)), np.ones((2, 4, 4)), 1.0, "one row per sample"),
        (np.ones((0, 4)), np.ones((0, 4)), 1.0, "empty"),
        (np.ones((2, 4)), np.zeros((2, 4)), None, "range of the data is 0.*pass data_range"),
        (np.eye(4), np.eye(4), -1.0, "data_range=-1.0 must be positive"),
        (np.eye(4), np.eye(4), np.nan, "data_range=nan must be positive"),
    ],
)
def test_psnr_refuses_what_it_cannot_compare(X, X_hat, data_range, message):
    with pytest.raises(ValueError, match=message):
        psnr(X, X_hat, data_range=data_range)


@pytest.mark.parametrize("measure", [sparsity, n_dead_components])
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_matrix])
def test_measures_of_empty_codes_are_refused(measure, container):
    with pytest.raises(ValueError, match=r"codes of shape \(0, 3\) are empty"):
        measure(container(np.empty((0, 3))))


def test_components_are_columns():
    with pytest.raises(ValueError, match=r"codes of shape \(2,\) must have one row per sample"):
        n_dead_components([0.0, 1.0])


def test_components_that_cancel_or_overflow_are_not_dead():
    assert n_dead_components(np.array([[-128, 0], [64, 0], [64, 0]], dtype=np.int8)) == 1
    assert n_dead_components(np.full((3, 2), np.finfo(np.float32).max, np.float32)) == 0
    assert n_dead_components([[np.nan, 0.0]]) == 1
    assert sparsity([[np.nan, 0.0]]) == 0.5


def test_entries_stored_twice_count_once():
    where = (np.array([0, 0, 1, 1]), np.array([0, 0, 1, 1]))
    codes = sparse.coo_matrix((np.array([1.0, 1.0, 2.0, -2.0]), where), shape=(2, 2))
    assert sparsity(codes) == 3 / 4
    assert n_dead_components(codes) == 1


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
def test_tensors_are_measured_too():
    codes = torch.tensor([[0.0, 1.0, 0.0], [0.0, 0.0, 2.0]], requires_grad=True)
    for kind in (codes, codes.detach().to_sparse(), codes.detach().to_sparse_csr()):
        assert sparsity(kind) == pytest.approx(2 / 3)
        assert n_dead_components(kind) == 1
    assert psnr(codes, codes + 0.2) == pytest.approx(20)


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
@pytest.mark.parametrize("scorer", [psnr_scorer, sparsity_scorer, neg_energy_scorer])
@pytest.mark.parametrize("sparse_output", [False, True])
def test_scorers_take_tensors(scorer, sparse_output, small):
    model = VDL(8, max_iter=2, random_state=0, sparse_output=sparse_output).fit(small)
    assert scorer(model, torch.from_numpy(small)) == pytest.approx(scorer(model, small))


def test_energy_of_a_pipeline_is_that_of_its_model_on_what_reaches_it(small):
    pipeline = make_pipeline(StandardScaler(), VDL(8, max_iter=2, random_state=0)).fit(small)
    scaler, model = pipeline
    expected = neg_energy_scorer(model, scaler.transform(small))
    assert neg_energy_scorer(pipeline, small) == pytest.approx(expected)
    alone = make_pipeline(model)
    assert neg_energy_scorer(alone, small) == pytest.approx(neg_energy_scorer(model, small))


def test_energy_needs_a_weight_of_the_penalty(small):
    scaler = StandardScaler().fit(small)
    for estimator in (scaler, make_pipeline(scaler)):
        with pytest.raises(TypeError, match="StandardScaler has no lam_"):
            neg_energy_scorer(estimator, small)


def test_energy_is_summed_in_double_precision(small):
    class Nothing:
        """Reconstructs zeros."""

        lam = lam_ = 0.0
        scale_ = 1.0

        def transform(self, X):
            return np.ones_like(X)

        def inverse_transform(self, codes):
            return np.zeros_like(codes)

    X = np.full((2, 3), 1e25, dtype=np.float32)
    assert neg_energy_scorer(Nothing(), X) == pytest.approx(-1e50, rel=1e-5)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_psnr_of_what_is_not_finite_is_refused(value):
    X = np.eye(3)
    with pytest.raises(ValueError, match=r"NaN or infinity|missing"):
        psnr(X, np.full((3, 3), value))
    with pytest.raises(ValueError, match=r"NaN or infinity|missing"):
        psnr(np.where(X > 0, value, X), X)


def test_psnr_of_the_largest_numbers():
    X = np.array([[-1.7e308, 1.7e308]])
    assert np.isfinite(psnr(X, X * 0.9))
    with pytest.raises(FloatingPointError, match="too large"):
        psnr(np.eye(2), np.full((2, 2), 1e300))
