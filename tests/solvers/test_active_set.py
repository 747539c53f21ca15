"""Lasso codes by the compiled active-set method, against the lasso and other solvers."""

import numpy as np
import pytest
import torch
from _helpers import gaps, make_decoder, make_problem, randn
from sklearn.linear_model import Lasso

from skvdl.energy import EnergySettings, Problem
from skvdl.solvers import ActiveSetLasso, ExactLasso, SolverSettings, _active_set, choose_solver
from skvdl.solvers._kernel import _downdate, _factorise, solve_rows

TOL = 1e-9


def active_set(Y, decoder, *, lam, positive=True, init=None, tol=TOL):
    return ActiveSetLasso(tol, 500).solve(
        make_problem(Y, decoder, lam=lam, positive=positive), init
    )


def lasso(Y, decoder, *, lam, positive=True):
    W = decoder.weight.detach().double().numpy()
    model = Lasso(lam / 2, fit_intercept=False, positive=positive, tol=1e-14, max_iter=200_000)
    return torch.from_numpy(np.stack([model.fit(W, y).coef_ for y in Y.double().numpy()]))


@pytest.mark.parametrize("positive", [True, False])
@pytest.mark.parametrize("shape", [(14, 8), (6, 20), (60, 8), (40, 40)], ids=str)
@pytest.mark.parametrize("lam", [1e-3, 0.05, 10.0])
def test_energy_is_that_of_the_lasso(positive, shape, lam):
    decoder = make_decoder((), *shape, seed=0)
    Y = randn(12, shape[1], seed=1)
    found = active_set(Y, decoder, lam=lam, positive=positive)
    best = make_problem(Y, decoder, lam=lam, positive=positive).energy(
        lasso(Y, decoder, lam=lam, positive=positive)
    )[:, 0]
    assert found.converged.all()
    assert (found.energy <= best * (1 + 1e-9)).all()
    assert (gaps(Y, decoder, found.codes, lam=lam, positive=positive) <= TOL).all()
    energy = make_problem(Y, decoder, lam=lam, positive=positive).energy(found.codes)[:, 0]
    torch.testing.assert_close(found.energy, energy)


def test_codes_are_those_of_the_lasso_where_they_are_unique():
    decoder, Y = make_decoder((), 8, 20, seed=0), randn(9, 20, seed=1)
    for positive in (True, False):
        found = active_set(Y, decoder, lam=0.02, positive=positive, tol=1e-12).codes
        expected = lasso(Y, decoder, lam=0.02, positive=positive)
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
        assert torch.equal(found != 0, expected.abs() > 1e-9)


@pytest.mark.parametrize("positive", [True, False])
def test_start_does_not_matter(positive):
    decoder, Y = make_decoder((), 30, 12, seed=0), randn(10, 12, seed=1)
    expected = active_set(Y, decoder, lam=0.03, positive=positive).energy
    for scale in (1e-6, 1.0, 1e6):
        init = scale * randn(10, 30, seed=2)
        found = active_set(Y, decoder, lam=0.03, positive=positive, init=init)
        torch.testing.assert_close(found.energy, expected, rtol=1e-8, atol=0)


def test_single_precision_meets_the_gap():
    decoder, Y = make_decoder((), 50, 30, seed=0).float(), randn(20, 30, seed=1).float()
    found = active_set(Y, decoder, lam=0.01, tol=1e-5)
    assert found.codes.dtype == found.energy.dtype == torch.float32
    assert (gaps(Y, decoder, found.codes, lam=0.01) <= 1e-5).all()


def exact_gaps(Y, W, codes, lam, positive):
    """Relative duality gaps from their definition, in double precision."""
    Y, W, codes = (np.asarray(part, dtype=np.float64) for part in (Y, W, codes))
    residual = Y - codes @ W.T
    energy = np.mean(residual**2, axis=1) + lam * np.abs(codes).sum(axis=1)
    slope = 2 / len(W) * residual @ W
    peak = (slope if positive else np.abs(slope)).max(axis=1)
    dual = residual * np.minimum(1.0, lam / np.maximum(peak, 1e-300))[:, None]
    return 1 - np.mean(2 * dual * Y - dual**2, axis=1) / energy


@pytest.mark.parametrize("positive", [True, False])
@pytest.mark.parametrize("lam", [1e-3, 0.02, 0.2])
@pytest.mark.parametrize("offset", [0.0, 30.0])
def test_gap_holds_whatever_the_rounding_of_the_products(positive, lam, offset):
    # an offset that atoms do not see: what is left of products is small next to their terms
    decoder = make_decoder((), 60, 40, seed=0).float()
    W = decoder.weight.detach()
    W -= W.mean(dim=0)
    Y = (randn(50, 40, seed=1) + offset).float()
    found = active_set(Y, decoder, lam=lam, positive=positive, tol=1e-4)
    gap = exact_gaps(Y, W, found.codes, lam, positive)
    assert found.converged.all()
    assert (gap <= 1.001e-4).all()


@pytest.mark.parametrize("share", [-1.0, 1.0])
def test_products_that_are_wrong_by_their_doubts_do_not_matter(share):
    Y, W = randn(30, 20, seed=0), randn(20, 50, seed=1)
    hessian, doubts = W.T @ W * (2 / 20), torch.full((50,), 0.05, dtype=torch.float64)
    wrong = Y @ W + share * 0.05 * Y.norm(dim=1, keepdim=True)
    codes = torch.zeros(30, 50, dtype=torch.float64)
    gaps, energies = codes.new_zeros(2, 30)
    arrays = (hessian, W.T.contiguous(), doubts, Y, wrong)
    results = (codes, gaps, energies, torch.zeros(30, dtype=torch.int64))
    settings = 0.3, True, 1e-8, 100
    solve_rows(*(t.numpy() for t in arrays), *settings, *(t.numpy() for t in results))
    assert (gaps <= 1e-8).all()
    assert (exact_gaps(Y, W, codes, 0.3, True) <= 1.001e-8).all()
    assert 0.5 < (codes == 0).double().mean() < 1


def test_products_in_single_precision_are_within_their_doubts():
    generator = torch.Generator().manual_seed(0)
    for n_features in (1, 5, 64, 784):
        Y = torch.randn(100, n_features, generator=generator) + 100
        W = torch.randn(n_features, 30, generator=generator)
        error = (Y @ W - Y.double() @ W.double()).abs()
        bound = _active_set._doubts(W) * Y.double().norm(dim=1, keepdim=True)
        assert (error <= bound).all()


def test_a_gap_that_rounding_does_not_allow_is_told():
    # codes that explain almost everything: the last digit of an amplitude is most of the energy
    decoder = make_decoder((), 6, 30, seed=0).float()
    Y = decoder(randn(10, 6, seed=1).relu().float() * 1e3).detach()
    found = active_set(Y, decoder, lam=1e-9, tol=1e-5)
    gap = gaps(Y, decoder, found.codes, lam=1e-9)
    assert torch.equal(found.converged, gap <= 1e-5)
    assert not found.converged.all()


def test_atoms_that_are_equal_zero_or_opposite():
    decoder, Y = make_decoder((), 12, 8, seed=0), randn(15, 8, seed=1)
    with torch.no_grad():
        decoder.weight[:, 1] = decoder.weight[:, 0]
        decoder.weight[:, 2] = -decoder.weight[:, 0]
        decoder.weight[:, 3] = 0.0
        decoder.weight[:, 4] = decoder.weight[:, 5] + decoder.weight[:, 6]
    for positive in (True, False):
        found = active_set(Y, decoder, lam=0.01, positive=positive, init=randn(15, 12, seed=2))
        assert (gaps(Y, decoder, found.codes, lam=0.01, positive=positive) <= TOL).all()
        assert not found.codes[:, 3].any()


@pytest.mark.parametrize("shape", [(60, 8, 8), (200, 64, 10), (80, 20, 3)], ids=str)
@pytest.mark.parametrize("lam", [1e-5, 1e-3])
@pytest.mark.parametrize("positive", [True, False])
def test_atoms_that_are_alike_and_outnumber_the_dimensions(monkeypatch, shape, lam, positive):
    size, n_features, rank = shape
    base = randn(rank, n_features, seed=0)
    atoms = (randn(1, rank, seed=1) + 0.05 * randn(size, rank, seed=2)) @ base
    decoder = make_decoder((), size, n_features, seed=0)
    decoder.set_weights((atoms / atoms.norm(dim=1, keepdim=True)).T, torch.zeros(1))
    Y = randn(30, rank, seed=3) @ base + 0.01 * randn(30, n_features, seed=4)
    # no row may be left to the other solver
    monkeypatch.setattr(_active_set, "ExactLasso", None)
    found = active_set(Y, decoder, lam=lam, positive=positive, tol=1e-7)
    assert found.converged.all()
    gap = exact_gaps(Y, decoder.weight.detach(), found.codes, lam, positive)
    assert (gap <= 1.001e-7).all()


def test_rows_do_not_depend_on_each_other_or_on_threads():
    decoder, Y = make_decoder((), 30, 12, seed=0), randn(1100, 12, seed=1)
    threads = torch.get_num_threads()
    together = active_set(Y, decoder, lam=0.03)
    try:
        torch.set_num_threads(3 - min(threads, 2))
        others = active_set(Y, decoder, lam=0.03)
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(together.codes, others.codes)
    for i in (0, 127, 128, 1023, 1024, 1099):
        alone = active_set(Y[i : i + 1], decoder, lam=0.03)
        torch.testing.assert_close(alone.codes[0], together.codes[i], rtol=1e-9, atol=1e-12)


def test_rows_that_are_not_done_are_left_to_the_other_solver(monkeypatch):
    decoder, Y = make_decoder((), 30, 40, seed=0), randn(20, 40, seed=1)
    expected = active_set(Y, decoder, lam=0.001)
    monkeypatch.setattr(_active_set, "_ROUNDS", 2)
    found = active_set(Y, decoder, lam=0.001)
    assert found.converged.all()
    # some rows take more than two rounds, and now as many iterations as the other solver
    assert (found.n_iter != expected.n_iter).any()
    assert (gaps(Y, decoder, found.codes, lam=0.001) <= TOL).all()


def test_missing_entries_are_left_to_the_other_solver():
    decoder, Y = make_decoder((), 10, 12, seed=0), randn(6, 12, seed=1)
    seen = (randn(6, 12, seed=2) > -0.5).to(Y.dtype)
    problems = [make_problem(Y, decoder, lam=0.02, seen=seen) for _ in range(2)]
    found, expected = ActiveSetLasso(TOL, 500), ExactLasso(TOL, 500)
    torch.testing.assert_close(
        found.solve(problems[0]).codes, expected.solve(problems[1]).codes, rtol=0, atol=0
    )


def test_it_is_chosen_for_exact_codes_on_a_cpu_with_numba(monkeypatch):
    decoder, Y = make_decoder((), 10, 12, seed=0), randn(6, 12, seed=1)

    def chosen(exact=True, **settings):
        term = decoder.data_term(Y)
        problem = Problem(term, EnergySettings(**{"lam": 0.1} | settings))
        return type(choose_solver(problem, SolverSettings("auto", 1e-4, 100, exact=exact)))

    assert chosen() is ActiveSetLasso
    assert ActiveSetLasso not in (chosen(exact=False), chosen(beta=1.0), chosen(lam=0.0))
    assert chosen(penalty="l0") is not ActiveSetLasso
    monkeypatch.setattr(_active_set, "_has_numba", lambda: False)
    assert chosen() is ExactLasso


@pytest.mark.parametrize("removed", [0, 3, 6])
def test_downdated_factor_is_that_of_the_smaller_matrix(removed):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((9, 7))
    gram, factor = A.T @ A, np.zeros((7, 7))
    assert _factorise(gram, factor, 0, 7) == 7
    np.testing.assert_allclose(np.tril(factor), np.linalg.cholesky(gram))
    _downdate(factor, removed, 7, np.zeros(7), np.zeros(7))
    kept = np.delete(np.arange(7), removed)
    expected = np.linalg.cholesky(gram[np.ix_(kept, kept)])
    np.testing.assert_allclose(np.tril(factor[:6, :6]), expected, rtol=1e-10, atol=1e-12)


def test_factor_ends_before_an_atom_that_is_a_combination_of_others():
    A = np.random.default_rng(0).standard_normal((9, 7))
    A[:, 4] = A[:, 1] - 2 * A[:, 3]
    gram, factor = A.T @ A, np.zeros((7, 7))
    assert _factorise(gram, factor, 0, 7) == 4
    np.testing.assert_allclose(np.tril(factor[:4, :4]), np.linalg.cholesky(gram[:4, :4]))
