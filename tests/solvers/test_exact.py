"""Codes to a given gap: conjugate gradients on faces, against direct solutions and the lasso."""

import numpy as np
import pytest
import torch
from _helpers import gaps, make_decoder, randn, solve
from sklearn.linear_model import Lasso

from skvdl.models._linear import GramTerm, ResidualTerm
from skvdl.solvers import _active_set
from skvdl.solvers._exact import minimise_on_face, step_within_face


@pytest.fixture(autouse=True)
def _no_numba(monkeypatch):
    monkeypatch.setattr(_active_set, "_has_numba", lambda: False)


@pytest.mark.parametrize("kind", [GramTerm, ResidualTerm])
@pytest.mark.parametrize("ridge", [0.0, 0.3])
def test_hessian_product_is_the_second_derivative(kind, ridge):
    Y, W = randn(5, 6, seed=0), randn(6, 4, seed=1)
    term = kind(Y, W)
    term.add(ridge=ridge, centre=None, tilt=0.0)
    Z, direction = randn(5, 4, seed=2), randn(5, 4, seed=3)
    expected = term.grad(Z + direction) - term.grad(Z)
    torch.testing.assert_close(term.hessian_product(direction), expected)


@pytest.mark.parametrize("kind", [GramTerm, ResidualTerm])
def test_minimum_on_a_face_is_that_of_the_normal_equations(kind):
    Y, W = randn(7, 9, seed=0), randn(9, 6, seed=1)
    term = kind(Y, W)
    term.add(ridge=0.0, centre=None, tilt=0.1)
    Z = randn(7, 6, seed=2).relu()
    Z[0], Z[1] = 0.0, 1.0  # an empty and a full face
    step = minimise_on_face(term, term.grad(Z), (Z != 0).to(Z.dtype), n_iter=6, flat=1e-15)
    hessian = 2 / 9 * W.T @ W
    for z, g, s in zip(Z, term.grad(Z), step, strict=True):
        on = z != 0
        expected = torch.zeros_like(z)
        expected[on] = -torch.linalg.solve(hessian[on][:, on], g[on])
        torch.testing.assert_close(s, expected)


def test_step_within_a_face_ends_at_the_first_sign_change():
    Z = torch.tensor([[1.0, 2.0, -1.0, 0.0], [1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    step = torch.tensor([[-4.0, -4.0, 0.5, 0.0], [0.5, -0.5, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    expected = [[0.0, 1.0, -0.875, 0.0], [1.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]
    torch.testing.assert_close(step_within_face(Z, step), torch.tensor(expected))


def as_lasso(Y, decoder, lam, positive):
    W = decoder.weight.detach().double().numpy()
    alpha = lam / 2
    lasso = Lasso(alpha, fit_intercept=False, positive=positive, tol=1e-14, max_iter=200_000)
    return np.stack([lasso.fit(W, y).coef_ for y in Y.double().numpy()])


@pytest.mark.parametrize("positive", [True, False])
@pytest.mark.parametrize("shape", [(14, 8), (6, 20), (300, 8)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_energy_is_that_of_the_lasso(positive, shape, dtype):
    decoder = make_decoder((), *shape, seed=0).to(dtype)
    Y = randn(12, shape[1], seed=1).to(dtype)
    tol, rounding = (1e-5, 1e-6) if dtype == torch.float32 else (1e-9, 0.0)
    options = {"lam": 0.02, "positive": positive}
    found = solve(Y, decoder, exact=True, tol=tol, max_iter=20_000, **options)
    assert found.converged.all()
    assert found.codes.dtype == dtype
    W = decoder.weight.detach().double()
    codes = torch.from_numpy(as_lasso(Y, decoder, **options))
    best = (Y - codes @ W.T).square().mean(dim=1) + 0.02 * codes.abs().sum(dim=1)
    assert ((found.energy.double() - best) / best <= tol + rounding).all()


@pytest.mark.parametrize("positive", [True, False])
def test_equal_and_useless_atoms_do_no_harm(positive):
    decoder = make_decoder((), 12, 8, seed=0)
    with torch.no_grad():
        W = decoder.weight
        W[:, 6:11] = W[:, :5]  # a face with both of a pair has no unique minimum
        W[:, 11] = 0.0
    Y = torch.cat([randn(10, 8, seed=1), torch.zeros(1, 8, dtype=torch.float64)])
    found = solve(Y, decoder, lam=0.02, positive=positive, exact=True, tol=1e-8, max_iter=5000)
    assert found.converged.all()
    assert found.codes.isfinite().all()
    assert (found.codes[-1] == 0).all()


@pytest.mark.parametrize("max_iter", [1, 7, 33])
def test_unfinished_rows_are_told_and_never_end_above_their_start(max_iter):
    decoder = make_decoder((), 40, 30, seed=0, scale=3.0)
    Y, init = randn(20, 30, seed=1), randn(20, 40, seed=2).relu()
    start = solve(Y, decoder, lam=0.01, init=init, tol=0.0, max_iter=1, step_size=1e-12).energy
    found = solve(Y, decoder, lam=0.01, init=init, exact=True, tol=1e-14, max_iter=max_iter)
    assert not found.converged.any()
    assert (found.n_iter == max_iter).all()
    assert (found.energy <= start).all()


def test_rows_do_not_depend_on_their_company():
    decoder = make_decoder((), 40, 30, seed=0)
    Y = randn(30, 30, seed=1)
    together = solve(Y, decoder, lam=0.01, exact=True, tol=1e-6, max_iter=5000)
    for i in (0, 7, 29):
        alone = solve(Y[i : i + 1], decoder, lam=0.01, exact=True, tol=1e-6, max_iter=5000)
        assert alone.n_iter == together.n_iter[i]
        torch.testing.assert_close(alone.codes[0], together.codes[i], rtol=1e-9, atol=1e-10)


def test_gap_of_codes_as_returned_keeps_what_was_asked():
    decoder = make_decoder((), 64, 49, seed=0).float()
    Y = randn(200, 49, seed=1).float()
    found = solve(Y, decoder, lam=0.005, exact=True, tol=1e-5, max_iter=5000)
    assert found.converged.all()
    assert (gaps(Y, decoder, found.codes, lam=0.005) <= 1e-5).all()
