"""Dictionary updates without a rate, against numpy's least squares."""

import copy
from itertools import pairwise

import numpy as np
import pytest
import torch
from _helpers import randn

import skvdl.training._online
from skvdl.training._online import OnlineUpdate


@pytest.fixture
def exact(monkeypatch):
    """All atoms at once, with as good as no ridge."""
    monkeypatch.setattr(skvdl.training._online, "_BLOCK", 1000)
    monkeypatch.setattr(skvdl.training._online, "_RIDGE", 1e-12)


def batch(seed=0, n=50, n_components=6, n_features=9, dtype=torch.float64):
    """Sparse codes, data that are not quite made of them, and a wrong dictionary."""
    Z = randn(n, n_components, seed=seed).abs() * (randn(n, n_components, seed=seed + 1) > 0)
    Y = Z @ randn(n_components, n_features, seed=seed + 2) + 0.1 * randn(
        n, n_features, seed=seed + 3
    )
    return Z.to(dtype), Y.to(dtype), randn(n_features, n_components, seed=seed + 4).to(dtype)


def error(weight, Z, Y):
    return (Y - Z @ weight.T).square().mean().item()


def test_one_batch_gives_the_dictionary_of_least_squares(exact):
    Z, Y, weight = batch()
    before = error(weight, Z, Y)
    told = OnlineUpdate(weight).learn(weight, Z, Y)
    assert told.item() == pytest.approx(before)
    expected = np.linalg.lstsq(Z.numpy(), Y.numpy(), rcond=None)[0].T
    np.testing.assert_allclose(weight, expected, rtol=1e-6, atol=1e-8)


def test_the_ridge_changes_it_by_as_much_as_it_is_large(monkeypatch):
    monkeypatch.setattr(skvdl.training._online, "_BLOCK", 1000)
    Z, Y, weight = batch()
    expected = np.linalg.lstsq(Z.numpy(), Y.numpy(), rcond=None)[0].T
    distance = np.abs(weight.numpy() - expected).max()
    OnlineUpdate(weight).learn(weight, Z, Y)
    assert np.abs(weight.numpy() - expected).max() < 0.02 * distance


def test_past_batches_count_the_less_the_older_they_are(exact, monkeypatch):
    monkeypatch.setattr(skvdl.training._online, "_FORGETTING", 3)
    batches = [batch(seed=10 * i) for i in range(4)]
    weight = batches[0][2]
    update = OnlineUpdate(weight)
    for Z, Y, _ in batches:
        update.learn(weight, Z, Y)
    # after t batches all that is known is multiplied by t / (t + 3)
    shares = [np.prod([t / (t + 3) for t in range(i + 1, 4)]) for i in range(4)]
    gram = sum(s * (Z.T @ Z).numpy() / 50 for s, (Z, _, _) in zip(shares, batches, strict=True))
    cross = sum(s * (Y.T @ Z).numpy() / 50 for s, (Z, Y, _) in zip(shares, batches, strict=True))
    np.testing.assert_allclose(update.gram, gram, rtol=1e-10)
    np.testing.assert_allclose(weight, np.linalg.solve(gram, cross.T).T, rtol=1e-6)


@pytest.mark.parametrize("block", [1, 2, 4])
def test_sweeps_over_blocks_end_at_the_same_place(block, monkeypatch):
    monkeypatch.setattr(skvdl.training._online, "_BLOCK", block)
    Z, Y, weight = batch()
    expected = np.linalg.lstsq(Z.numpy(), Y.numpy(), rcond=None)[0].T
    update = OnlineUpdate(weight)
    errors = [error(weight, Z, Y)]
    for _ in range(200):
        update.learn(weight, Z, Y)
        errors.append(error(weight, Z, Y))
    assert all(b <= a * (1 + 1e-12) for a, b in pairwise(errors))
    np.testing.assert_allclose(weight, expected, rtol=1e-5, atol=1e-7)


def test_error_on_what_is_known_never_rises():
    _, _, weight = batch(n_components=80, n_features=20)
    update = OnlineUpdate(weight)
    for i in range(20):
        Z, Y, _ = batch(seed=10 * i, n_components=80, n_features=20)
        before = weight.clone()
        update.learn(weight, Z, Y)
        costs = [
            (w @ update.gram * w).sum().item() - 2 * (w * update.cross).sum().item()
            for w in (before, weight)
        ]
        assert costs[1] <= costs[0] + 1e-10 * abs(costs[0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("unit", [1e-12, 1.0, 1e12])
def test_atoms_that_were_never_used_stay(dtype, unit):
    Z, Y, weight = batch(dtype=dtype)
    Z[:, [1, 4]] = 0.0
    weight /= unit
    before = weight.clone()
    OnlineUpdate(weight).learn(weight, Z * unit, Y)
    assert torch.equal(weight[:, [1, 4]], before[:, [1, 4]])
    best = np.linalg.lstsq(Z.double().numpy(), Y.double().numpy(), rcond=None)[0].T
    least = np.mean((Y.double().numpy() - Z.double().numpy() @ best.T) ** 2)
    assert error(weight * unit, Z, Y) == pytest.approx(least, rel=1e-3)


def test_nothing_is_learnt_from_codes_of_zeros():
    Z, Y, weight = batch()
    before = weight.clone()
    OnlineUpdate(weight).learn(weight, torch.zeros_like(Z), Y)
    assert torch.equal(weight, before)


def test_codes_of_equal_components_are_solved_too():
    Z, Y, weight = batch()
    Z[:, 1] = Z[:, 0]
    before = error(weight, Z, Y)
    OnlineUpdate(weight).learn(weight, Z, Y)
    assert weight.isfinite().all()
    assert weight.abs().max() < 100
    assert error(weight, Z, Y) < 0.1 * before


def test_entries_that_are_missing_do_not_count(exact):
    Z, Y, weight = batch()
    seen = (randn(50, 9, seed=7) > -0.5).to(Y.dtype)
    other = weight.clone()
    told = OnlineUpdate(weight).learn(weight, Z, Y * seen, seen=seen)
    residual = (Y - Z @ other.T) * seen
    assert told.item() == pytest.approx(residual.square().sum().item() / Y.numel())
    # what is missing may be anything
    OnlineUpdate(other).learn(other, Z, Y * seen + 1e3 * (1 - seen), seen=seen)
    torch.testing.assert_close(weight, other)


def test_filling_in_what_is_missing_leads_to_least_squares_on_what_is_seen(exact, monkeypatch):
    monkeypatch.setattr(skvdl.training._online, "_FORGETTING", 1e12)  # only the last batch
    Z, Y, weight = batch()
    seen = (randn(50, 9, seed=7) > -0.5).to(Y.dtype)
    update = OnlineUpdate(weight)
    for _ in range(300):
        update.learn(weight, Z, Y * seen, seen=seen)
    for j in range(9):
        at = seen[:, j].bool().numpy()
        expected = np.linalg.lstsq(Z.numpy()[at], Y.numpy()[at, j], rcond=None)[0]
        np.testing.assert_allclose(weight[j], expected, rtol=1e-4, atol=1e-5)


def test_small_batches_are_gathered_before_a_sweep():
    Z, Y, weight = batch(n=4)
    before, update = weight.clone(), OnlineUpdate(weight)
    update.learn(weight, Z, Y)
    assert torch.equal(weight, before)
    update.learn(weight, Z, Y)
    assert not torch.equal(weight, before)


def test_what_is_forgotten_does_not_come_back():
    Z, Y, weight = batch()
    update = OnlineUpdate(weight)
    update.learn(weight, Z, Y)
    update.forget(torch.tensor([2, 3], device="cpu"))
    assert (update.gram[[2, 3]] == 0).all()
    assert (update.gram[:, [2, 3]] == 0).all()
    assert (update.cross[:, [2, 3]] == 0).all()
    weight[:, [2, 3]] = 7.0
    Z[:, [2, 3]] = 0.0
    update.learn(weight, Z, Y)
    assert (weight[:, [2, 3]] == 7).all()


def test_state_is_all_that_is_known():
    update, others = OnlineUpdate(batch()[2]), [batch(seed=10 * i) for i in range(1, 5)]
    weight = others[0][2]
    for Z, Y, _ in others[:2]:
        update.learn(weight, Z[:4], Y[:4])
    twin, twin_weight = OnlineUpdate(weight), weight.clone()
    twin.load_state_dict(copy.deepcopy(update.state_dict()))
    for Z, Y, _ in others[2:]:
        update.learn(weight, Z[:3], Y[:3])
        twin.learn(twin_weight, Z[:3], Y[:3])
    assert torch.equal(weight, twin_weight)
    assert (twin.n_batches, twin.n_rows) == (update.n_batches, update.n_rows)


def test_nothing_of_it_needs_gradients():
    weight = torch.nn.Parameter(batch()[2])
    update = OnlineUpdate(weight)
    Z, Y, _ = batch()
    update.learn(weight.detach(), Z, Y)
    assert not list(update.parameters())
    assert not update.gram.requires_grad
    assert not update.cross.requires_grad
