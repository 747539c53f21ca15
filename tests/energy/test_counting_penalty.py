"""The penalty that counts: its relaxation and its proximal map against brute force."""

import numpy as np
import pytest
import torch
from _helpers import make_decoder, randn

from skvdl.energy import EnergySettings, Problem, l0

LAM = 0.05


def make_problem(decoder, Y, *, positive=True, lam=LAM, **settings):
    settings = EnergySettings(lam=lam, penalty="l0", positive=positive, **settings)
    return Problem(decoder.data_term(Y), settings)


def relaxation(z, lam, bend):
    """Number of non-zeros, made continuous, of codes along a component that bends this much."""
    reach = np.sqrt(2 * lam / bend)
    inside = np.abs(z) < reach
    return np.where(inside, lam - bend / 2 * (np.abs(z) - reach) ** 2, lam)


def shrink_count(problem, V, soft=False):
    return problem.shrink_count(V.clone(), torch.empty_like(V), soft)


def test_count_is_the_number_of_components_that_are_not_0():
    Z = torch.tensor([[0.0, 1e-30, -2.0], [0.0, 0.0, 0.0]], device="cpu")
    assert l0(Z).tolist() == [2.0, 0.0]


def test_energy_counts():
    decoder = make_decoder((), 5, 7, seed=0)
    Y, Z = randn(4, 7, seed=1), randn(4, 5, seed=2).relu()
    for positive in (True, False):
        error = ((Y - decoder(Z)) ** 2).mean(dim=1) + LAM * (Z != 0).sum(dim=1)
        found = make_problem(decoder, Y, positive=positive).energy(Z)
        torch.testing.assert_close(found[:, 0], error.detach())


@pytest.mark.parametrize("share", [0.05, 0.5, 0.95])
@pytest.mark.parametrize("positive", [True, False])
def test_shrinkage_minimises_distance_and_relaxation(positive, share):
    decoder = make_decoder((), 3, 7, seed=0, scale=3.0)
    with torch.no_grad():
        decoder.weight.mul_(torch.tensor([0.2, 1.0, 4.0], dtype=torch.float64, device="cpu"))
    problem = make_problem(decoder, randn(2, 7, seed=1), positive=positive)
    bend = problem.data.diagonal().numpy()
    reach = np.sqrt(2 * LAM / bend)
    # along a component the relaxed energy is convex for steps up to 1 / bend
    step = share / bend
    V = np.linspace(-2.5, 2.5, 42)[:, None] * reach
    problem.set_step(torch.from_numpy(step))
    found = shrink_count(problem, torch.from_numpy(V)).numpy()
    for j in range(3):
        grid = np.linspace(0 if positive else -3, 3, 30_001) * reach[j]
        for v, z in zip(V[:, j], found[:, j], strict=True):
            cost = (grid - v) ** 2 / (2 * step[j]) + relaxation(grid, LAM, bend[j])
            best = grid[np.argmin(cost)]
            at = (z - v) ** 2 / (2 * step[j]) + relaxation(z, LAM, bend[j])
            assert at <= cost.min() * (1 + 1e-9) + 1e-15
            assert z == pytest.approx(best, abs=2e-4 * reach[j])
    assert (found >= 0).all() or not positive


@pytest.mark.parametrize("positive", [True, False])
def test_soft_shrinkage_has_the_same_threshold(positive):
    decoder = make_decoder((), 3, 7, seed=0)
    problem = make_problem(decoder, randn(2, 7, seed=1), positive=positive)
    step = 0.5 / problem.data.diagonal()
    threshold = step * (2 * LAM * problem.data.diagonal()).sqrt()
    V = torch.linspace(-3, 3, 61, dtype=torch.float64, device="cpu")[:, None] * threshold
    problem.set_step(step)
    hard, soft = shrink_count(problem, V), shrink_count(problem, V, soft=True)
    assert torch.equal(hard != 0, soft != 0)
    size = (V.abs() - threshold).relu()
    torch.testing.assert_close(soft, size * (V > 0) if positive else size * V.sign())


def test_slope_of_the_relaxation_at_0():
    decoder = make_decoder((), 3, 7, seed=0)
    problem = make_problem(decoder, randn(2, 7, seed=1))
    bend = problem.data.diagonal().numpy()
    width = 1e-7 * np.sqrt(2 * LAM / bend)
    np.testing.assert_allclose(problem.slope, relaxation(width, LAM, bend) / width, rtol=1e-6)
