import numpy as np
import pytest
from scipy import sparse

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
@pytest.mark.parametrize("kind", [VDL, NonLinearVDL])
def test_scorers_equal_a_plain_loop(kind, sparse_output, small):
    model = kind(8, lam=0.1, max_iter=3, random_state=0, sparse_output=sparse_output).fit(small)
    codes = model.transform(small)
    X_hat = model.inverse_transform(codes)
    codes = codes.toarray() if sparse_output else codes
    span = small.max() - small.min()
    energies, ratios = [], []
    for x, x_hat, z in zip(small, X_hat, codes, strict=True):
        mse = np.mean((x - x_hat) ** 2)
        energies.append(mse + 0.1 * np.abs(z).sum())
        ratios.append(10 * np.log10(span**2 / mse))
    assert neg_energy_scorer(model, small) == pytest.approx(-np.mean(energies), rel=1e-10)
    assert psnr_scorer(model, small) == pytest.approx(np.mean(ratios), rel=1e-10)
    assert sparsity_scorer(model, small) == pytest.approx(np.mean(codes == 0))
