import pytest
import torch
from _helpers import (
    DEVICES,
    autograd,
    central_differences,
    device_dtype,
    make_decoder,
    plain_smooth,
    randn,
)

from skvdl.models._linear import GramTerm, ResidualTerm
from skvdl.models._network import NetworkTerm

N, D, L = 5, 6, 4

EXTRAS = {
    "plain": {},
    "ridge": {"ridge": 0.7},
    "centre": {"ridge": 0.7, "centre": randn(N, L, seed=3)},
    "tilt": {"tilt": 0.3},
    "all": {"ridge": 0.7, "centre": randn(N, L, seed=3), "tilt": 0.3},
}
KINDS = {
    "gram": (),
    "residual": (),
    "gram-1": (7,),
    "residual-1": (7,),
    "gram-3": (7, 5, 6),
    "residual-3": (7, 5, 6),
}


def make(kind, Y, decoder, **extra):
    """Build a term of a given kind by hand, whatever is cheapest for the shapes."""
    linear = GramTerm if kind.startswith("gram") else ResidualTerm
    term = linear(Y, decoder.matrices[-1].detach())
    if not decoder.quadratic:
        term = NetworkTerm(decoder, term, None)
    term.add(**{"ridge": 0.0, "centre": None, "tilt": 0.0} | extra)
    return term


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.mark.parametrize("name", EXTRAS)
@pytest.mark.parametrize("seed", range(2))
def test_value_and_gradient_against_the_plain_formula(kind, name, seed):
    Y, Z = randn(N, D, seed=seed), randn(N, L, seed=seed + 10)
    decoder = make_decoder(KINDS[kind], L, D, seed=seed, scale=2.0)
    term = make(kind, Y, decoder, **EXTRAS[name])

    def plain(Z):
        return plain_smooth(Y, decoder, Z, **EXTRAS[name])

    value, grad = term.value_and_grad(Z)
    torch.testing.assert_close(value, plain(Z).detach(), rtol=1e-11, atol=1e-11)
    torch.testing.assert_close(grad, autograd(plain, Z), rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(term.grad(Z), grad, rtol=1e-12, atol=1e-12)
    differences = central_differences(lambda Z: term.value_and_grad(Z)[0], Z)
    torch.testing.assert_close(grad, differences, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("device", DEVICES)
def test_value_and_gradient_on_every_device(kind, device):
    dtype = device_dtype(device)
    Y, Z = randn(N, D, seed=0, dtype=dtype), randn(N, L, seed=1, dtype=dtype)
    decoder = make_decoder(KINDS[kind], L, D, seed=0, dtype=dtype)
    expected = plain_smooth(Y, decoder, Z, ridge=0.5).detach()
    term = make(kind, Y.to(device), decoder.to(device), ridge=0.5)
    value, grad = term.value_and_grad(Z.to(device))
    torch.testing.assert_close(value.cpu(), expected, rtol=1e-5, atol=1e-5)
    assert grad.device.type == device


@pytest.mark.parametrize("rows", [[0], [4, 1], [2, 2, 0, 3]])
def test_take_keeps_the_right_rows(kind, rows):
    Y, Z = randn(N, D, seed=0), randn(N, L, seed=1)
    decoder = make_decoder(KINDS[kind], L, D, seed=0)
    term = make(kind, Y, decoder, **EXTRAS["all"])
    value, grad = term.value_and_grad(Z)
    rows = torch.tensor(rows, device="cpu")
    term.take(rows)
    kept_value, kept_grad = term.value_and_grad(Z[rows])
    torch.testing.assert_close(kept_value, value[rows], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(kept_grad, grad[rows], rtol=1e-12, atol=1e-12)


def test_take_twice(kind):
    Y, Z = randn(N, D, seed=0), randn(N, L, seed=1)
    term = make(kind, Y, make_decoder(KINDS[kind], L, D, seed=0), **EXTRAS["all"])
    expected = term.value_and_grad(Z)[0][3:4]
    term.take(torch.tensor([1, 3, 4], device="cpu"))
    term.take(torch.tensor([1], device="cpu"))
    torch.testing.assert_close(term.value_and_grad(Z[3:4])[0], expected)


def test_inputs_are_not_written_to(kind):
    Y, Z, centre = randn(N, D, seed=0), randn(N, L, seed=1), randn(N, L, seed=2)
    decoder = make_decoder(KINDS[kind], L, D, seed=0)
    tensors = [Y, Z, centre, *(p.detach() for p in decoder.parameters())]
    copies = [tensor.clone() for tensor in tensors]
    term = make(kind, Y, decoder, ridge=0.5, centre=centre, tilt=0.1)
    for _ in range(2):
        term.value_and_grad(Z), term.grad(Z)
    term.curvature()
    term.set_step(torch.tensor(0.1, dtype=torch.float64, device="cpu"))
    term.descend(Z)
    term.take(torch.tensor([1, 0], device="cpu"))
    assert all(map(torch.equal, tensors, copies))


def hessian(term, n_components):
    """Second derivative at a random row, by differences of the gradient, exact for a quadratic."""
    z = randn(1, n_components, seed=5)
    unit = torch.eye(n_components, dtype=torch.float64, device="cpu")
    return torch.cat([(term.grad(z + e * 1e-3) - term.grad(z - e * 1e-3)) / 2e-3 for e in unit])


@pytest.mark.parametrize("ridge", [0.0, 0.7])
@pytest.mark.parametrize(("n_components", "n_features"), [(4, 6), (6, 4), (1, 3), (3, 1)])
@pytest.mark.parametrize("linear", ["gram", "residual"])
def test_curvature_of_a_linear_decoder_is_a_close_bound(linear, n_components, n_features, ridge):
    decoder = make_decoder((), n_components, n_features, seed=0)
    term = make(linear, randn(1, n_features, seed=0), decoder, ridge=ridge)
    largest = torch.linalg.eigvalsh(hessian(term, n_components))[-1].item()
    assert largest * (1 - 1e-9) <= term.curvature().item() <= largest * 6 ** (1 / 32) * (1 + 1e-9)


@pytest.mark.parametrize("hidden", [(7,), (7, 5, 6)])
def test_curvature_of_a_network_is_a_close_bound_where_all_units_are_active(hidden):
    decoder = make_decoder(hidden, L, D, seed=0)
    with torch.no_grad():
        for bias in decoder.biases:
            bias.fill_(50.0)
        for weight in decoder.matrices[1:]:
            weight.abs_()
    term = make("residual", randn(1, D, seed=0), decoder)
    largest = torch.linalg.eigvalsh(hessian(term, L))[-1].item()
    estimate = decoder.curvature().item()
    assert largest * (1 - 1e-6) <= estimate <= largest * L ** (1 / 32) * (1 + 1e-6)


@pytest.mark.parametrize("extra", EXTRAS)
def test_descend_is_a_step_against_the_gradient(kind, extra):
    Y, Z = randn(N, D, seed=0), randn(N, L, seed=1)
    term = make(kind, Y, make_decoder(KINDS[kind], L, D, seed=0), **EXTRAS[extra])
    expected = Z - 0.3 * term.value_and_grad(Z)[1]
    term.set_step(torch.tensor(0.3, dtype=torch.float64, device="cpu"))
    torch.testing.assert_close(term.descend(Z), expected)
    rows = torch.tensor([3, 1], device="cpu")
    term.take(rows)
    torch.testing.assert_close(term.descend(Z[rows]), expected[rows])


# (n, d, l, evaluations) and the form with fewer multiplications, counted by hand:
# Gram l d (l + n) + evaluations n l^2, residual evaluations 2 n d l.
CHOICES = [
    (5, 10, 200, 50, ResidualTerm),  # 410 000 + 10 000 000 against 1 000 000
    (25, 78, 12, 50, GramTerm),  # 34 632 + 180 000 against 2 340 000
    (1, 78, 12, 5, ResidualTerm),  # 12 168 + 720 against 9 360
    (1, 78, 12, 10, GramTerm),  # 12 168 + 1 440 against 18 720
    (1, 8, 14, 50, ResidualTerm),  # 1 680 + 9 800 against 11 200
    (50, 8, 14, 50, GramTerm),  # 7 168 + 490 000 against 560 000
    (500, 8, 16, 1000, ResidualTerm),  # twice as many components as features: never Gram
    (2, 78, 12, 1, ResidualTerm),  # 13 104 + 288 against 3 744
]


@pytest.mark.parametrize(("n", "d", "l", "evaluations", "expected"), CHOICES)
def test_form_follows_the_count_of_multiplications(n, d, l, evaluations, expected):  # noqa: E741
    Y = randn(n, d, seed=0)
    linear = make_decoder((), l, d, seed=0).data_term(Y, n_evaluations=evaluations)
    assert type(linear) is expected
    network = make_decoder((l,), 3, d, seed=0).data_term(Y, n_evaluations=evaluations)
    assert type(network) is NetworkTerm
    assert type(network.last) is expected


@pytest.mark.parametrize("hidden", [(), (7,), (7, 5, 6)])
@pytest.mark.parametrize("evaluations", [1, 1000])
def test_the_term_made_has_the_decoder_and_all_extras(hidden, evaluations):
    Y, Z = randn(N, D, seed=0), randn(N, L, seed=1)
    decoder = make_decoder(hidden, L, D, seed=0)
    term = decoder.data_term(Y, n_evaluations=evaluations)
    term.add(**EXTRAS["all"])
    expected = plain_smooth(Y, decoder, Z, **EXTRAS["all"]).detach()
    value, grad = term.value_and_grad(Z)
    torch.testing.assert_close(value, expected, rtol=1e-11, atol=1e-11)
    assert not grad.requires_grad
