"""Amplitudes refitted on a support, against scipy's and numpy's least squares."""

import numpy as np
import pytest
import torch
from _helpers import make_decoder, randn
from scipy.optimize import nnls

from skvdl.solvers import _refit, refit
from skvdl.solvers._pivoting import solve_on_supports


@pytest.fixture(autouse=True, params=["compiled", "batched"])
def method(request, monkeypatch):
    """With compiled code, and without it, as on GPUs."""
    if request.param == "batched":
        monkeypatch.setattr(_refit, "suits_kernel", lambda device, n_components: False)
    return request.param


def random_codes(n, n_components, *, seed, share=0.3, positive=True):
    """Codes with some components at random, of the wrong size."""
    Z = randn(n, n_components, seed=seed)
    Z = Z.abs() if positive else Z
    return Z * (torch.rand(Z.shape, generator=torch.Generator("cpu").manual_seed(seed)) < share)


def least_squares(W, y, support, positive):
    """Best amplitudes on a support, and 0 elsewhere."""
    z = np.zeros(W.shape[1])
    if support.any():
        A = W[:, support]
        z[support] = nnls(A, y)[0] if positive else np.linalg.lstsq(A, y, rcond=None)[0]
    return z


@pytest.mark.parametrize("n_rows", [1, 40])
@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("positive", [True, False])
def test_amplitudes_are_those_of_least_squares(positive, gaps, n_rows):
    decoder = make_decoder((), 25, 16, seed=0)
    Y, Z = randn(n_rows, 16, seed=1), random_codes(n_rows, 25, seed=2, positive=positive)
    seen = (randn(n_rows, 16, seed=3) > -0.7).to(Y.dtype) if gaps else None
    found = refit(decoder, Y, Z, positive=positive, seen=seen)
    W = decoder.weight.detach().numpy()
    for i in range(n_rows):
        at = seen[i].bool().numpy() if gaps else np.ones(16, dtype=bool)
        expected = least_squares(W[at], Y[i].numpy()[at], (Z[i] != 0).numpy(), positive)
        if positive or (Z[i] != 0).sum() <= at.sum():
            atol = 1e-4 * max(1, abs(expected).max())
            np.testing.assert_allclose(found[i], expected, atol=atol)
        errors = [np.sum((Y[i].numpy() - W @ z)[at] ** 2) for z in (found[i].numpy(), expected)]
        assert errors[0] <= errors[1] * (1 + 1e-6) + 1e-12


@pytest.mark.parametrize("positive", [True, False])
def test_a_support_larger_than_the_data_is_solved_too(positive):
    decoder = make_decoder((), 30, 8, seed=0)
    Y, Z = randn(20, 8, seed=1), random_codes(20, 30, seed=2, share=0.8, positive=positive)
    found = refit(decoder, Y, Z, positive=positive)
    W = decoder.weight.detach().numpy()
    for i in range(20):
        expected = least_squares(W, Y[i].numpy(), (Z[i] != 0).numpy(), positive)
        errors = [np.sum((Y[i].numpy() - W @ z) ** 2) for z in (found[i].numpy(), expected)]
        assert errors[0] <= errors[1] + 1e-9 * np.sum(Y[i].numpy() ** 2)
        assert abs(found[i]).max() < 1e3


def test_support_never_grows_and_empty_ones_stay_empty():
    decoder = make_decoder((), 25, 16, seed=0)
    Y, Z = randn(40, 16, seed=1), random_codes(40, 25, seed=2)
    Z[5:9] = 0.0
    found = refit(decoder, Y, Z, positive=True)
    assert (found[5:9] == 0).all()
    assert not ((found != 0) & (Z == 0)).any()
    assert (found >= 0).all()


def test_components_that_least_squares_sets_to_0_are_0():
    decoder = make_decoder((), 25, 16, seed=0)
    Y, Z = randn(40, 16, seed=1), random_codes(40, 25, seed=2, share=0.5)
    found = refit(decoder, Y, Z, positive=True)
    W = decoder.weight.detach().numpy()
    zeros = [
        np.count_nonzero(least_squares(W, y, s, True) == 0)
        for y, s in zip(Y.numpy(), (Z != 0).numpy(), strict=True)
    ]
    assert sum(zeros) > 40 * 25 * 0.6
    assert (found == 0).sum().item() == sum(zeros)


@pytest.mark.parametrize("positive", [True, False])
def test_equal_atoms_and_atoms_of_zeros_do_no_harm(positive):
    decoder = make_decoder((), 12, 16, seed=0)
    with torch.no_grad():
        decoder.weight[:, 1] = decoder.weight[:, 0]
        decoder.weight[:, 2] = 0.0
    Y, Z = randn(30, 16, seed=1), random_codes(30, 12, seed=2, share=0.5, positive=positive)
    found = refit(decoder, Y, Z, positive=positive)
    assert found.isfinite().all()
    W = decoder.weight.detach().numpy()
    for y, z, support in zip(Y.numpy(), found.numpy(), (Z != 0).numpy(), strict=True):
        best = least_squares(W, y, support, positive)
        errors = [np.sum((y - W @ z) ** 2) for z in (z, best)]
        assert errors[0] <= errors[1] * (1 + 1e-6)


@pytest.mark.parametrize("n_components", [12, 40])
def test_rows_without_data_have_amplitudes_of_0(n_components):
    """Exactly, because whether a component is used is asked by comparing it with 0."""
    decoder = make_decoder((), n_components, 16, seed=0)
    Z = random_codes(20, n_components, seed=2, share=0.9)
    Y = decoder(Z).detach()
    Y[::2] = 0.0
    found = refit(decoder, Y, Z, positive=True)
    assert (found[::2] == 0).all()
    assert (found[1::2] > 0).any(dim=1).all()
    seen = torch.ones_like(Y)
    seen[:, 0] = 0.0
    found = refit(decoder, Y * seen, Z, positive=True, seen=seen)
    assert (found[::2] == 0).all()


@pytest.mark.parametrize("hidden", [(), (20,)], ids=["dictionary", "network"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_row_does_not_wait_for_the_others(hidden, dtype):
    # rows of many lengths of work: small supports, large ones, empty ones, gaps between atoms
    decoder = make_decoder(hidden, 25, 16, seed=0, dtype=dtype)
    Y = randn(60, 16, seed=1).to(dtype)
    Z = torch.cat([random_codes(15, 25, seed=s, share=s / 4) for s in range(4)]).to(dtype)
    together = refit(decoder, Y, Z, positive=True)
    assert together.dtype == dtype
    apart = torch.cat(
        [refit(decoder, Y[i : i + 1], Z[i : i + 1], positive=True) for i in range(60)]
    )
    tol = 1e-9 if dtype == torch.float64 else 1e-2
    torch.testing.assert_close(together, apart, atol=tol * together.max().item(), rtol=tol)


@pytest.mark.parametrize("positive", [True, False])
@pytest.mark.parametrize("hidden", [(20,), (20, 15)], ids=str)
@pytest.mark.parametrize("gaps", [False, True])
def test_error_of_a_network_never_rises_and_its_support_never_grows(hidden, positive, gaps):
    decoder = make_decoder(hidden, 25, 16, seed=0, scale=2.0)
    Y, Z = randn(40, 16, seed=1), random_codes(40, 25, seed=2, positive=positive)
    seen = (randn(40, 16, seed=3) > -0.7).to(Y.dtype) if gaps else torch.ones_like(Y)
    found = refit(decoder, Y, Z, positive=positive, seen=seen if gaps else None)
    with torch.no_grad():
        before, after = (((Y - decoder(C)) * seen).square().sum(dim=1) for C in (Z, found))
    assert (after <= before * (1 + 1e-12)).all()
    assert after.mean() < 0.9 * before.mean()
    assert not ((found != 0) & (Z == 0)).any()
    assert not positive or (found >= 0).all()


def test_codes_given_are_not_written_to():
    for hidden in ((), (20,)):
        decoder = make_decoder(hidden, 25, 16, seed=0)
        Y, Z = randn(40, 16, seed=1), random_codes(40, 25, seed=2)
        copies = Y.clone(), Z.clone()
        refit(decoder, Y, Z, positive=True)
        assert torch.equal(Y, copies[0])
        assert torch.equal(Z, copies[1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("positive", [True, False])
@pytest.mark.parametrize("shape", [(12, 30), (40, 30), (200, 30)], ids=str)
def test_direct_solutions_are_least_squares_on_supports_of_any_size(shape, positive, dtype):
    n_components, n_features = shape
    W = make_decoder((), n_components, n_features, seed=0).weight.detach()
    Y = randn(30, n_features, seed=1)
    # from nothing to as many atoms as there are features
    sizes = torch.arange(30) % (min(shape) + 1)
    support = torch.rand(30, n_components, generator=torch.Generator("cpu").manual_seed(2))
    support = support.argsort(dim=1).argsort(dim=1) < sizes[:, None]
    codes, solved = solve_on_supports(Y.to(dtype), W.to(dtype), support, positive=positive)
    assert codes.dtype == dtype
    assert not codes[~support].any()
    assert solved.double().mean() > 0.9
    for i in range(30):
        expected = least_squares(W.numpy(), Y[i].numpy(), support[i].numpy(), positive)
        errors = [
            np.sum((Y[i].numpy() - W.numpy() @ z) ** 2)
            for z in (codes[i].double().numpy(), expected)
        ]
        if solved[i]:
            bound = 1e-5 if dtype == torch.float32 else 1e-9
            assert errors[0] <= errors[1] + bound * np.sum(Y[i].numpy() ** 2)
        assert not positive or (codes[i] >= 0).all()


def test_zero_atoms_and_no_rows_are_solved():
    W = randn(6, 8, seed=0)
    W[:, :4] = 0
    support = torch.ones(3, 8, dtype=torch.bool)
    support[:, 6:] = False
    codes, _ = solve_on_supports(randn(3, 6, seed=1), W, support, positive=True)
    assert codes.isfinite().all()
    assert not codes[:, :4].any()
    codes, solved = solve_on_supports(randn(0, 6, seed=1), W, support[:0], positive=True)
    assert codes.shape == (0, 8)
    assert solved.shape == (0,)
