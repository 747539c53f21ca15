import numpy as np
import pytest
import torch
from _helpers import DEVICES, device_dtype, make_decoder, randn, seeded, to_numpy

from skvdl.models import LISTA


def make(positive=True, n_iter=3, dtype=torch.float64, seed=0, factored=False):
    how = {"positive": positive, "dtype": dtype, "factored": factored}
    encoder = LISTA(6, 5, generator=seeded(seed), **how)
    if factored:
        with torch.no_grad():
            encoder.keep.uniform_(-0.5, 0.5, generator=seeded(1))
    encoder.n_iter = n_iter
    if not positive:
        with torch.no_grad():
            # one threshold that shrinks nothing, one below zero, which is as good as zero
            thresholds = torch.tensor([0.0, -0.2, 0.05, 0.1, 0.5], dtype=dtype, device="cpu")
            encoder.threshold.copy_(thresholds)
    return encoder


def naive_shrink(v, encoder):
    if encoder.threshold is None:
        return np.array([max(x, 0.0) for x in v])
    thresholds = [max(t, 0.0) for t in encoder.threshold.tolist()]
    pairs = zip(v, thresholds, strict=True)
    return np.array([np.sign(x) * max(abs(x) - t, 0.0) for x, t in pairs])


def recurrence(encoder):
    if encoder.S is not None:
        return to_numpy(encoder.S)
    return np.diag(to_numpy(encoder.keep)) + to_numpy(encoder.B) @ to_numpy(encoder.R)


def naive_lista(encoder, y):
    u = to_numpy(encoder.U) @ y + to_numpy(encoder.b)
    z = naive_shrink(u, encoder)
    for _ in range(encoder.n_iter):
        z = naive_shrink(u + recurrence(encoder) @ z, encoder)
    return z


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("n_iter", [0, 1, 3])
@pytest.mark.parametrize("positive", [True, False])
@pytest.mark.parametrize("factored", [True, False])
def test_forward_against_loop(factored, positive, n_iter, device):
    dtype = device_dtype(device)
    encoder = make(positive, n_iter, dtype, factored=factored)
    Y = randn(20, 6, seed=1, dtype=dtype) * 2
    expected = np.array([naive_lista(encoder, y) for y in to_numpy(Y)])
    found = to_numpy(encoder.to(device)(Y.to(device)))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert (found == 0).any()
    assert (found > 0).any()
    assert (found < 0).any() != positive


@pytest.mark.parametrize("positive", [True, False])
@pytest.mark.parametrize("factored", [True, False])
def test_every_weight_learns(factored, positive):
    encoder = make(positive, factored=factored)
    encoder(randn(20, 6, seed=1) * 2).square().sum().backward()
    for name, parameter in encoder.named_parameters():
        assert parameter.grad.abs().max() > 0, name
    names = {"U", "b", "keep", "R", "B"} if factored else {"U", "b", "S"}
    names |= set() if positive else {"threshold"}
    assert {name for name, _ in encoder.named_parameters()} == names


@pytest.mark.parametrize(("n_components", "factored"), [(12, False), (13, True)])
def test_long_codes_have_factors(n_components, factored):
    encoder = LISTA(6, n_components, generator=seeded(0), dtype=torch.float64)
    assert (encoder.S is None) == factored


@pytest.mark.parametrize("factored", [True, False])
def test_revived_components_respond_to_their_filters_alone(factored):
    encoder, Y = make(factored=factored), randn(20, 6, seed=1)
    filters = randn(2, 6, seed=3)
    encoder.revive(torch.tensor([1, 3]), filters)
    torch.testing.assert_close(encoder(Y)[:, [1, 3]], (Y @ filters.T).relu())
    S = recurrence(encoder)
    assert (S[[1, 3]] == 0).all()
    assert (S[:, [1, 3]] == 0).all()


def test_weights_come_from_the_generator_alone():
    before = torch.get_rng_state()
    first, again, other = make(), make(), make(seed=1)
    for a, b, c in zip(*(m.parameters() for m in (first, again, other)), strict=True):
        assert torch.equal(a, b)
        assert not torch.equal(a, c)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("positive", [True, False])
def test_codes_of_a_row_do_not_depend_on_the_others(positive):
    encoder, Y = make(positive), randn(8, 6, seed=1)
    together = encoder(Y)
    for i in range(8):
        torch.testing.assert_close(encoder(Y[i : i + 1])[0], together[i], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("positive", [True, False])
def test_made_and_used_on_its_own_device_whatever_the_default(positive):
    with torch.device("meta"):
        encoder = make(positive)
        out = encoder(randn(2, 6, seed=0))
    assert {t.device.type for t in (out, *encoder.parameters())} == {"cpu"}


@pytest.mark.parametrize("positive", [True, False])
@pytest.mark.parametrize("factored", [True, False])
def test_imitation_computes_iterations_of_ista(factored, positive):
    decoder = make_decoder((), 5, 7, seed=0)
    encoder = LISTA(
        7,
        5,
        generator=torch.Generator(device="cpu").manual_seed(0),
        positive=positive,
        dtype=torch.float64,
        factored=factored,
    )
    encoder.imitate(decoder, torch.full_like(encoder.b, 0.01), randn(50, 7, seed=2))
    W = decoder.weight.detach().numpy()
    Y = randn(4, 7, seed=1).numpy()
    hessian = 2 / 7 * W.T @ W
    step = float(encoder.U.detach().numpy().ravel() @ (W.T).ravel() / (W.T**2).sum() * 7 / 2)
    assert 0.95 <= step * np.linalg.eigvalsh(hessian).max() <= 1
    Z = np.zeros((4, 5))
    for _ in range(4):
        V = Z - step * (Z @ hessian - 2 / 7 * Y @ W)
        Z = np.sign(V) * np.maximum(np.abs(V) - step * 0.01, 0)
        if positive:
            Z = np.maximum(Z, 0)
    np.testing.assert_allclose(encoder(torch.from_numpy(Y)).detach().numpy(), Z, atol=1e-12)


@pytest.mark.parametrize("positive", [True, False])
def test_imitation_of_a_strong_penalty_stays_alive(positive):
    decoder, Y = make_decoder((), 5, 7, seed=0), randn(50, 7, seed=2)
    encoder = LISTA(7, 5, generator=seeded(0), positive=positive, dtype=torch.float64)
    encoder.imitate(decoder, torch.full_like(encoder.b, 1e3), Y)
    assert (encoder(Y) != 0).any(dim=0).all()
