"""Dictionary updates without a rate, against numpy's least squares."""

import copy
from itertools import pairwise

import numpy as np
import pytest
import torch
from _helpers import randn, seeded

import skvdl.training._online
from skvdl.models import LinearDecoder
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
    weight = randn(n_features, n_components, seed=seed + 4).to(dtype)
    return Z.to(dtype), Y.to(dtype), dictionary(weight)


def dictionary(weight, bias=False):
    n_features, n_components = weight.shape
    decoder = LinearDecoder(
        n_components, n_features, bias=bias, generator=seeded(0), dtype=weight.dtype
    )
    decoder.set_weights(weight, torch.zeros_like(weight[:, 0]))
    return decoder.requires_grad_(False)


def error(decoder, Z, Y):
    return (Y - decoder(Z)).square().mean().item()


def test_one_batch_gives_the_dictionary_of_least_squares(exact):
    Z, Y, decoder = batch()
    before = error(decoder, Z, Y)
    told = OnlineUpdate(decoder).learn(decoder, Z, Y)
    assert told.item() == pytest.approx(before)
    expected = np.linalg.lstsq(Z.numpy(), Y.numpy(), rcond=None)[0].T
    np.testing.assert_allclose(decoder.weight, expected, rtol=1e-6, atol=1e-8)


def test_the_ridge_changes_it_by_as_much_as_it_is_large(monkeypatch):
    monkeypatch.setattr(skvdl.training._online, "_BLOCK", 1000)
    Z, Y, decoder = batch()
    expected = np.linalg.lstsq(Z.numpy(), Y.numpy(), rcond=None)[0].T
    distance = np.abs(decoder.weight.numpy() - expected).max()
    OnlineUpdate(decoder).learn(decoder, Z, Y)
    assert np.abs(decoder.weight.numpy() - expected).max() < 0.02 * distance


def test_past_batches_count_the_less_the_older_they_are(exact, monkeypatch):
    monkeypatch.setattr(skvdl.training._online, "_FORGETTING", 3)
    batches = [batch(seed=10 * i) for i in range(4)]
    decoder = batches[0][2]
    update = OnlineUpdate(decoder)
    for Z, Y, _ in batches:
        update.learn(decoder, Z, Y)
    # after t batches all that is known is multiplied by t / (t + 3)
    shares = [np.prod([t / (t + 3) for t in range(i + 1, 4)]) for i in range(4)]
    gram = sum(s * (Z.T @ Z).numpy() / 50 for s, (Z, _, _) in zip(shares, batches, strict=True))
    cross = sum(s * (Y.T @ Z).numpy() / 50 for s, (Z, Y, _) in zip(shares, batches, strict=True))
    np.testing.assert_allclose(update.gram[:-1, :-1], gram, rtol=1e-10)
    np.testing.assert_allclose(decoder.weight, np.linalg.solve(gram, cross.T).T, rtol=1e-6)


@pytest.mark.parametrize("block", [1, 2, 4])
def test_sweeps_over_blocks_end_at_the_same_place(block, monkeypatch):
    monkeypatch.setattr(skvdl.training._online, "_BLOCK", block)
    Z, Y, decoder = batch()
    expected = np.linalg.lstsq(Z.numpy(), Y.numpy(), rcond=None)[0].T
    update = OnlineUpdate(decoder)
    errors = [error(decoder, Z, Y)]
    for _ in range(200):
        update.learn(decoder, Z, Y)
        errors.append(error(decoder, Z, Y))
    assert all(b <= a * (1 + 1e-12) for a, b in pairwise(errors))
    np.testing.assert_allclose(decoder.weight, expected, rtol=1e-5, atol=1e-7)


def test_error_on_what_is_known_never_rises():
    _, _, decoder = batch(n_components=80, n_features=20)
    update = OnlineUpdate(decoder)
    for i in range(20):
        Z, Y, _ = batch(seed=10 * i, n_components=80, n_features=20)
        before = decoder.weight.clone()
        update.learn(decoder, Z, Y)
        costs = [
            (w @ update.gram[:-1, :-1] * w).sum().item()
            - 2 * (w * update.cross[:, :-1]).sum().item()
            for w in (before, decoder.weight)
        ]
        assert costs[1] <= costs[0] + 1e-10 * abs(costs[0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("unit", [1e-12, 1.0, 1e12])
def test_atoms_that_were_never_used_stay(dtype, unit):
    Z, Y, decoder = batch(dtype=dtype)
    Z[:, [1, 4]] = 0.0
    decoder.weight.div_(unit)
    before = decoder.weight.clone()
    OnlineUpdate(decoder).learn(decoder, Z * unit, Y)
    assert torch.equal(decoder.weight[:, [1, 4]], before[:, [1, 4]])
    best = np.linalg.lstsq(Z.double().numpy(), Y.double().numpy(), rcond=None)[0].T
    least = np.mean((Y.double().numpy() - Z.double().numpy() @ best.T) ** 2)
    assert error(dictionary(decoder.weight * unit), Z, Y) == pytest.approx(least, rel=1e-3)


def test_nothing_is_learnt_from_codes_of_zeros():
    Z, Y, decoder = batch()
    before = decoder.weight.clone()
    OnlineUpdate(decoder).learn(decoder, torch.zeros_like(Z), Y)
    assert torch.equal(decoder.weight, before)


def test_codes_of_equal_components_are_solved_too():
    Z, Y, decoder = batch()
    Z[:, 1] = Z[:, 0]
    before = error(decoder, Z, Y)
    OnlineUpdate(decoder).learn(decoder, Z, Y)
    assert decoder.weight.isfinite().all()
    assert decoder.weight.abs().max() < 100
    assert error(decoder, Z, Y) < 0.1 * before


def test_entries_that_are_missing_do_not_count(exact):
    Z, Y, decoder = batch()
    seen = (randn(50, 9, seed=7) > -0.5).to(Y.dtype)
    other = copy.deepcopy(decoder)
    told = OnlineUpdate(decoder).learn(decoder, Z, Y * seen, seen=seen)
    residual = (Y - other(Z)) * seen
    assert told.item() == pytest.approx(residual.square().sum().item() / Y.numel())
    # what is missing may be anything
    OnlineUpdate(other).learn(other, Z, Y * seen + 1e3 * (1 - seen), seen=seen)
    torch.testing.assert_close(decoder.weight, other.weight)


def test_filling_in_what_is_missing_leads_to_least_squares_on_what_is_seen(exact, monkeypatch):
    monkeypatch.setattr(skvdl.training._online, "_FORGETTING", 1e12)  # only the last batch
    Z, Y, decoder = batch()
    seen = (randn(50, 9, seed=7) > -0.5).to(Y.dtype)
    update = OnlineUpdate(decoder)
    for _ in range(300):
        update.learn(decoder, Z, Y * seen, seen=seen)
    for j in range(9):
        at = seen[:, j].bool().numpy()
        expected = np.linalg.lstsq(Z.numpy()[at], Y.numpy()[at, j], rcond=None)[0]
        np.testing.assert_allclose(decoder.weight[j], expected, rtol=1e-4, atol=1e-5)


def test_small_batches_are_gathered_before_a_sweep():
    Z, Y, decoder = batch(n=4)
    before, update = decoder.weight.clone(), OnlineUpdate(decoder)
    update.learn(decoder, Z, Y)
    assert torch.equal(decoder.weight, before)
    update.learn(decoder, Z, Y)
    assert not torch.equal(decoder.weight, before)


def test_what_is_forgotten_does_not_come_back():
    Z, Y, decoder = batch()
    update = OnlineUpdate(decoder)
    update.learn(decoder, Z, Y)
    update.forget(torch.tensor([2, 3], device="cpu"))
    assert (update.gram[[2, 3]] == 0).all()
    assert (update.gram[:, [2, 3]] == 0).all()
    assert (update.cross[:, [2, 3]] == 0).all()
    decoder.weight[:, [2, 3]] = 7.0
    Z[:, [2, 3]] = 0.0
    update.learn(decoder, Z, Y)
    assert (decoder.weight[:, [2, 3]] == 7).all()


def test_state_is_all_that_is_known():
    update, others = OnlineUpdate(batch()[2]), [batch(seed=10 * i) for i in range(1, 5)]
    decoder = others[0][2]
    for Z, Y, _ in others[:2]:
        update.learn(decoder, Z[:4], Y[:4])
    twin, twin_decoder = OnlineUpdate(decoder), copy.deepcopy(decoder)
    twin.load_state_dict(copy.deepcopy(update.state_dict()))
    for Z, Y, _ in others[2:]:
        update.learn(decoder, Z[:3], Y[:3])
        twin.learn(twin_decoder, Z[:3], Y[:3])
    assert torch.equal(decoder.weight, twin_decoder.weight)
    assert (twin.n_batches, twin.n_rows) == (update.n_batches, update.n_rows)


def test_nothing_of_it_needs_gradients():
    Z, Y, decoder = batch()
    update = OnlineUpdate(decoder.requires_grad_())
    update.learn(decoder, Z, Y)
    assert not list(update.parameters())
    assert not update.gram.requires_grad
    assert not update.cross.requires_grad


def test_with_a_bias_one_batch_gives_the_regression_with_intercept(exact):
    Z, Y, decoder = batch()
    Y += 3.0
    decoder = dictionary(decoder.weight, bias=True)
    OnlineUpdate(decoder).learn(decoder, Z, Y)
    expected = np.linalg.lstsq(np.c_[Z.numpy(), np.ones(50)], Y.numpy(), rcond=None)[0]
    np.testing.assert_allclose(decoder.weight, expected[:-1].T, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(decoder.bias, expected[-1], rtol=1e-6)


def test_a_bias_alone_is_the_mean():
    Z, Y, decoder = batch()
    decoder = dictionary(decoder.weight, bias=True)
    before = decoder.weight.clone()
    OnlineUpdate(decoder).learn(decoder, torch.zeros_like(Z), Y)
    assert torch.equal(decoder.weight, before)
    torch.testing.assert_close(decoder.bias, Y.mean(dim=0))


def test_filling_in_what_is_missing_leads_to_a_regression_with_intercept(exact, monkeypatch):
    monkeypatch.setattr(skvdl.training._online, "_FORGETTING", 1e12)  # only the last batch
    Z, Y, decoder = batch()
    Y += 3.0
    decoder = dictionary(decoder.weight, bias=True)
    seen = (randn(50, 9, seed=7) > -0.5).to(Y.dtype)
    update = OnlineUpdate(decoder)
    for _ in range(400):
        update.learn(decoder, Z, Y * seen, seen=seen)
    for j in range(9):
        at = seen[:, j].bool().numpy()
        inputs = np.c_[Z.numpy()[at], np.ones(at.sum())]
        expected = np.linalg.lstsq(inputs, Y.numpy()[at, j], rcond=None)[0]
        found = np.r_[decoder.weight[j].numpy(), decoder.bias[j].item()]
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("bias", [False, True])
def test_codes_of_any_sizes_give_weights(bias):
    for seed in range(300):
        rng = np.random.default_rng(seed)
        Z, Y = rng.random((4, 5)), rng.normal(size=(4, 3))
        scales = 10.0 ** rng.uniform(-100, 100, 5)
        # an atom may have hardly been used, compared with others
        Z = torch.from_numpy(Z * scales * (rng.random((4, 5)) < 0.7))
        decoder = dictionary(randn(3, 5, seed=seed), bias=bias)
        update = OnlineUpdate(decoder)
        for _ in range(3):
            update.learn(decoder, Z, torch.from_numpy(Y))
            assert not update.gram.isfinite().all() or decoder.weight.isfinite().all()


def test_an_overflow_is_not_hidden():
    Z, Y, decoder = batch()
    OnlineUpdate(decoder).learn(decoder, 1e160 * Z, Y)
    assert not decoder.weight.isfinite().all()
