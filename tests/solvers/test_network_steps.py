"""The solver of networks: a short step is not convergence, and the curvature met sets the step."""

import pytest
import torch
from _helpers import autograd, make_decoder, naive_energy, plain_smooth, randn, solve, to_numpy

BETAS = pytest.mark.parametrize("beta", [0.0, 3.0], ids=["rows", "coupled"])
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])


def with_units_off(n_off, weight, *, dtype=torch.float64):
    """Return a network with units that are always off, and weights that suggest otherwise."""
    decoder = make_decoder((12 + n_off,), 6, 8, seed=0, scale=1.5, dtype=dtype)
    with torch.no_grad():
        for matrix in (decoder.weights[0][12:], decoder.weights[1][:, 12:]):
            matrix.mul_(weight)
        decoder.biases[0][12:] = -1e7
    return decoder


def descend_slowly(Y, decoder, Z, *, lam, beta, gamma, target, n_iter, step=0.1):
    """Gradient steps of a constant length with autograd, projected on non-negative codes."""

    def smooth(Z):
        value = plain_smooth(Y, decoder, Z, ridge=2 * gamma / 6, centre=target, tilt=lam).sum()
        return value + beta * torch.relu(0.5 - Z.std(dim=0)).square().sum() if beta else value

    for _ in range(n_iter):
        Z_new = (Z - step * autograd(smooth, Z)).relu()
        if torch.equal(Z_new, Z):
            break
        Z = Z_new
    return Z


@BETAS
@DTYPES
@pytest.mark.parametrize("weight", [10.0, 100.0])
def test_units_that_are_off_do_not_stop_inference(beta, dtype, weight):
    # the estimate of the curvature, with all units on, is up to 1e8 times too high: a step of its
    # inverse moves no code by a noticeable share of its norm
    decoder = with_units_off(10, weight, dtype=dtype)
    Y, target = 2 * randn(9, 8, seed=1, dtype=dtype), randn(9, 6, seed=2, dtype=dtype).relu()
    weights = {"lam": 0.02, "beta": beta, "gamma": 0.3, "target": target}
    slow = descend_slowly(
        Y.double(),
        decoder.double(),
        target.double(),
        **{**weights, "target": target.double()},
        n_iter=1000,
    )
    decoder.to(dtype)
    found = solve(Y, decoder, init=target, tol=1e-3, max_iter=500, **weights)
    before, after, least = (
        naive_energy(Y, decoder, Z, **weights).sum() for Z in (target, found.codes, slow)
    )
    assert found.converged.all()
    assert before > 1.05 * least
    assert before - after > 0.9 * (before - least)


@BETAS
def test_a_few_iterations_do_most_of_the_work(beta):
    decoder = with_units_off(10, 10.0)
    Y, target = 2 * randn(9, 8, seed=1), randn(9, 6, seed=2).relu()
    weights = {"lam": 0.02, "beta": beta, "gamma": 0.3, "target": target}
    energies = [
        solve(Y, decoder, init=target, tol=0.0, max_iter=k, **weights).energy.sum().item()
        for k in (12, 500)
    ]
    before = naive_energy(Y, decoder, target, **weights).sum()
    assert before - energies[0] > 0.8 * (before - energies[1])


@BETAS
@DTYPES
@pytest.mark.parametrize("scale", [1e-2, 1.0, 1e2])
def test_rule_to_stop_has_no_scale(beta, dtype, scale):
    # the same problem in other units: data, codes, biases and thresholds are scaled together
    decoder = make_decoder((7,), 5, 8, seed=0, dtype=dtype)
    Y, init = randn(6, 8, seed=1, dtype=dtype), randn(6, 5, seed=2, dtype=dtype).relu()
    weights = {"beta": beta, "gamma": 0.5, "max_iter": 100}
    plain = solve(Y, decoder, init=init, target=init, lam=0.02, **weights)
    with torch.no_grad():
        decoder.biases[0].mul_(scale)
    scaled = solve(
        Y * scale,
        decoder,
        init=init * scale,
        target=init * scale,
        lam=0.02 * scale,
        variance_threshold=0.5 * scale,
        **weights,
    )
    torch.testing.assert_close(scaled.codes / scale, plain.codes, rtol=1e-3, atol=1e-3)
    if dtype == torch.float64:
        assert torch.equal(scaled.n_iter, plain.n_iter)


@BETAS
@DTYPES
@pytest.mark.parametrize("off", ["hidden", "weights"])
def test_nothing_to_infer_from(beta, dtype, off):
    # all units off, or weights of 0: only proximity, l1 norm and hinge are left
    decoder = make_decoder((7,), 5, 8, seed=0, scale=0.0 if off == "weights" else 1.0, dtype=dtype)
    with torch.no_grad():
        decoder.biases[0].fill_(-1e4)
    Y, target = randn(6, 8, seed=1, dtype=dtype), randn(6, 5, seed=2, dtype=dtype).abs() + 1
    found = solve(
        Y, decoder, init=target, target=target, lam=0.02, gamma=2.5, tol=1e-6, max_iter=500
    )
    assert found.converged.all()
    # d/dz [gamma / l * (z - target)^2 + lam z] = 0
    torch.testing.assert_close(found.codes, target - 0.02, rtol=1e-5, atol=1e-5)
    found = solve(Y, decoder, init=target, lam=0.02, beta=beta, max_iter=500)
    assert found.codes.isfinite().all()
    assert found.energy.isfinite().all()


@BETAS
@DTYPES
def test_a_single_row(beta, dtype):
    decoder = with_units_off(10, 10.0, dtype=dtype)
    Y, target = 2 * randn(1, 8, seed=1, dtype=dtype), randn(1, 6, seed=2, dtype=dtype).relu()
    weights = {"lam": 0.02, "beta": beta, "gamma": 0.3, "target": target}
    short, long = (
        solve(Y, decoder, init=target, tol=t, max_iter=999, **weights) for t in (1e-3, 0)
    )
    assert short.converged.all()
    assert short.energy.item() == pytest.approx(long.energy.item(), rel=1e-3)


@BETAS
def test_same_codes_every_time(beta):
    decoder = with_units_off(10, 10.0)
    Y, init = randn(9, 8, seed=1), randn(9, 6, seed=2)
    first, second = (solve(Y, decoder, init=init, lam=0.02, beta=beta) for _ in range(2))
    assert all(map(torch.equal, first, second))


def test_rows_are_solved_by_themselves_where_units_are_off():
    decoder = with_units_off(10, 10.0)
    Y, init = randn(9, 8, seed=1), randn(9, 6, seed=2)
    together = solve(Y, decoder, init=init, lam=0.02)
    for i in range(9):
        alone = solve(Y[i : i + 1], decoder, init=init[i : i + 1], lam=0.02)
        torch.testing.assert_close(alone.codes[0], together.codes[i], rtol=1e-9, atol=1e-9)
        assert alone.n_iter[0] == together.n_iter[i]


def test_energy_is_that_of_the_codes_where_units_are_off():
    decoder = with_units_off(10, 10.0)
    Y, init = randn(9, 8, seed=1), randn(9, 6, seed=2)
    found = solve(Y, decoder, init=init, lam=0.02)
    expected = naive_energy(Y, decoder, found.codes, lam=0.02)
    assert to_numpy(found.energy) == pytest.approx(expected, rel=1e-10)
