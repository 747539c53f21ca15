import numpy as np
import pytest
import torch
from _helpers import (
    DEVICES,
    device_dtype,
    make_decoder,
    make_problem,
    naive_decode,
    randn,
    seeded,
    to_numpy,
)

from skvdl.models import LinearDecoder
from skvdl.solvers import BacktrackingFista

DEPTHS = [(), (7,), (7, 3), (7, 3, 5, 4)]


def make(hidden, seed=0, dtype=torch.float64):
    return make_decoder(hidden, 5, 6, seed=seed, dtype=dtype)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("hidden", DEPTHS)
def test_forward_against_loop(hidden, device):
    dtype = device_dtype(device)
    decoder, Z = make(hidden, dtype=dtype), randn(4, 5, seed=1, dtype=dtype)
    expected = [naive_decode(decoder, z) for z in to_numpy(Z)]
    found = decoder.to(device)(Z.to(device))
    np.testing.assert_allclose(to_numpy(found), expected, rtol=1e-5, atol=1e-6)


def test_linear_decoder_against_loop():
    decoder, Z = LinearDecoder(3, 4, generator=seeded(0), dtype=torch.float64), randn(2, 3, seed=1)
    W = decoder.weight
    expected = [[sum(W[f, j] * z[j] for j in range(3)).item() for f in range(4)] for z in Z]
    np.testing.assert_allclose(decoder(Z).detach(), expected, rtol=1e-12)


def test_a_bias_of_a_dictionary_is_added_and_learnt():
    decoder = LinearDecoder(3, 4, bias=True, generator=seeded(0), dtype=torch.float64)
    Z, Y, bias = randn(5, 3, seed=1), randn(5, 4, seed=2), randn(4, seed=3)
    seen = (randn(5, 4, seed=4) > 0).to(Y.dtype)
    plain = decoder(Z)
    decoder.set_weights(decoder.weight.detach().clone(), bias)
    torch.testing.assert_close(decoder(Z), plain + bias)
    torch.testing.assert_close(decoder.atoms(), decoder.weight.detach().T)
    for mask in (None, seen):
        error = (decoder(Z) - Y).square() if mask is None else (decoder(Z) - Y).square() * seen
        expected = torch.autograd.grad(error.mean(), list(decoder.parameters()))
        told = decoder.set_gradients(Z, Y, seen=mask)
        torch.testing.assert_close(told, error.mean().detach())
        torch.testing.assert_close([p.grad for p in decoder.parameters()], list(expected))
        term = decoder.data_term(Y, seen=mask)
        torch.testing.assert_close(term.error_and_grad(Z)[0], error.mean(dim=1).detach())


@pytest.mark.parametrize("hidden", DEPTHS)
def test_shapes_bias_in_hidden_layers_only(hidden):
    decoder = make(hidden)
    sizes = [5, *hidden, 6]
    shapes = [(sizes[i + 1], sizes[i]) for i in range(len(sizes) - 1)]
    assert [tuple(weight.shape) for weight in decoder.matrices] == shapes
    assert [tuple(bias.shape) for bias in decoder.biases] == [(width,) for width in hidden]
    assert len(list(decoder.parameters())) == 2 * len(hidden) + 1
    assert decoder.layer_sizes == sizes


@pytest.mark.parametrize("hidden", DEPTHS)
def test_atoms_are_what_each_component_adds_alone(hidden):
    decoder = make(hidden)
    at_zero = naive_decode(decoder, np.zeros(5))
    expected = [naive_decode(decoder, unit) - at_zero for unit in np.eye(5)]
    atoms = decoder.atoms()
    np.testing.assert_allclose(atoms, expected, rtol=1e-10, atol=1e-12)
    assert not atoms.requires_grad


def test_zero_codes_of_a_linear_decoder_are_zero_data():
    decoder = LinearDecoder(3, 4, generator=seeded(0), dtype=torch.float32)
    assert torch.equal(decoder(torch.zeros(2, 3)), torch.zeros(2, 4))
    assert decoder.dtype == torch.float32
    assert len(decoder.biases) == 0


def test_weights_come_from_the_generator_alone():
    before = torch.get_rng_state()
    first, again, other = make((7,)), make((7,)), make((7,), seed=1)
    for a, b, c in zip(*(m.parameters() for m in (first, again, other)), strict=True):
        assert torch.equal(a, b)
        assert not torch.equal(a, c)
    assert torch.equal(torch.get_rng_state(), before)


def test_every_layer_is_bounded_by_its_inputs():
    decoder = make_decoder((64,), 100, 9, seed=0)
    for parameter, inputs in zip(decoder.parameters(), (100, 64, 100), strict=True):
        assert 0.9 / inputs**0.5 < parameter.abs().max().item() <= 1 / inputs**0.5 * (1 + 1e-6)


def test_made_and_used_on_its_own_device_whatever_the_default():
    with torch.device("meta"):
        decoder = make((7,))
        out = decoder(randn(2, 5, seed=0))
        atoms = decoder.atoms()
    assert {t.device.type for t in (out, atoms, *decoder.parameters())} == {"cpu"}


@pytest.mark.parametrize("hidden", [(), (7,), (7, 5, 6)])
def test_gradients_equal_autograd(hidden):
    decoder = make_decoder(hidden, 4, 6, seed=0)
    Z, Y = randn(5, 4, seed=1), randn(5, 6, seed=2)
    loss = ((decoder(Z) - Y) ** 2).sum() / Y.numel()
    expected = torch.autograd.grad(loss, list(decoder.parameters()))
    error = decoder.set_gradients(Z, Y)
    torch.testing.assert_close(error, loss.detach())
    for parameter, grad in zip(decoder.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad, grad)


@pytest.mark.parametrize("hidden", [(7,), (7, 5, 6)])
@pytest.mark.parametrize("at_the_codes", [True, False])
def test_gradients_from_the_solvers_last_evaluation_equal_autograd(hidden, at_the_codes):
    decoder = make_decoder(hidden, 4, 6, seed=0)
    Z, Y = randn(5, 4, seed=1), randn(5, 6, seed=2)
    term = decoder.data_term(Y, n_evaluations=1)
    term.value_and_grad(Z if at_the_codes else Z + 1)
    loss = ((decoder(Z) - Y) ** 2).mean()
    expected = torch.autograd.grad(loss, list(decoder.parameters()))
    error = decoder.set_gradients(Z, Y, term=term)
    torch.testing.assert_close(error, loss.detach())
    for parameter, grad in zip(decoder.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad, grad)


def test_the_last_evaluation_of_a_solver_is_at_its_codes():
    decoder = make_decoder((7,), 4, 6, seed=0)
    problem = make_problem(randn(5, 6, seed=2), decoder, lam=0.01, beta=1.0, n_evaluations=2)
    found = BacktrackingFista(0.0, 3).solve(problem)
    assert torch.equal(problem.data.trace.activations[0], found.codes)


@pytest.mark.parametrize("hidden", [(), (7,), (7, 5, 6)])
@pytest.mark.parametrize("from_the_solver", [True, False])
def test_gradients_of_incomplete_rows_equal_autograd(hidden, from_the_solver):
    decoder = make_decoder(hidden, 4, 6, seed=0)
    Z, Y = randn(5, 4, seed=1), randn(5, 6, seed=2)
    seen = (randn(5, 6, seed=3) > -0.3).to(Y.dtype)
    term = decoder.data_term(Y, seen=seen)
    term.value_and_grad(Z)
    loss = (seen * (decoder(Z) - Y)).square().mean()
    expected = torch.autograd.grad(loss, list(decoder.parameters()))
    error = decoder.set_gradients(Z, Y, seen=seen, term=term if from_the_solver else None)
    torch.testing.assert_close(error, loss.detach())
    for parameter, grad in zip(decoder.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad, grad)
