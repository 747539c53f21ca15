"""A decoder of another kind is one class: no solver, training or estimator is touched."""

import numpy as np
import pytest
import torch
from _helpers import as_published, autograd, make_problem, randn, seeded, solve
from sklearn.linear_model import Lasso
from torch import nn

from skvdl import NonLinearVDL, VarianceDictionaryLearning
from skvdl.models import Decoder


class AffineDecoder(Decoder):
    """A dictionary with a bias, which knows nothing but its forward pass."""

    def __init__(self, n_components, n_features, *, generator, dtype):
        super().__init__(n_components, n_features)
        draw = torch.rand(n_features, n_components, generator=generator, dtype=dtype, device="cpu")
        self.weight = nn.Parameter(draw - 0.5)
        self.bias = nn.Parameter(torch.zeros_like(self.weight[:, 0]))

    def forward(self, Z):
        return nn.functional.linear(Z, self.weight, self.bias)


class ConvolutionalDecoder(Decoder):
    """Few kernels moved along a signal: component `k * places + p` puts kernel k at place p."""

    n_kernels, width = 3, 4

    def __init__(self, n_components, n_features, *, generator, dtype):
        super().__init__(n_components, n_features)
        shape = (self.n_kernels, 1, self.width)
        self.kernels = nn.Parameter(
            torch.rand(shape, generator=generator, dtype=dtype, device="cpu") - 0.3
        )

    def forward(self, Z):
        maps = Z.reshape(len(Z), self.n_kernels, -1)
        return nn.functional.conv_transpose1d(maps, self.kernels)[:, 0]


class AffineVDL(VarianceDictionaryLearning):
    def _make_decoder(self, n_features, generator, dtype):
        return AffineDecoder(self.n_components, n_features, generator=generator, dtype=dtype)


class ConvolutionalVDL(NonLinearVDL):
    def _make_decoder(self, n_features, generator, dtype):
        return ConvolutionalDecoder(self.n_components, n_features, generator=generator, dtype=dtype)

    def _layer_sizes(self, n_features):
        return [self.n_components, n_features]


@pytest.mark.parametrize("seen", [False, True])
def test_default_data_term_against_the_formula(seen):
    decoder = AffineDecoder(5, 7, generator=seeded(0), dtype=torch.float64)
    Y, Z = randn(4, 7, seed=1), randn(4, 5, seed=2)
    mask = (randn(4, 7, seed=3) > 0).to(Y.dtype) if seen else torch.ones_like(Y)
    term = decoder.data_term(Y, seen=mask if seen else None)
    value, grad = term.value_and_grad(Z)

    def plain(Z):
        return ((mask * (decoder(Z) - Y)) ** 2).sum(dim=1) / 7

    torch.testing.assert_close(value, plain(Z).detach())
    torch.testing.assert_close(grad, autograd(plain, Z))
    rows = torch.tensor([2, 0], device="cpu")
    term.take(rows)
    torch.testing.assert_close(term.value_and_grad(Z[rows])[0], value[rows])


def test_default_curvature_of_an_affine_decoder_is_a_close_bound():
    decoder = AffineDecoder(5, 7, generator=seeded(0), dtype=torch.float64)
    exact = 2 / 7 * torch.linalg.matrix_norm(decoder.weight.detach(), 2).item() ** 2
    assert exact <= decoder.curvature().item() <= 1.1 * exact


def test_default_gradients_of_the_weights_are_those_of_the_mean_squared_error():
    decoder = AffineDecoder(5, 7, generator=seeded(0), dtype=torch.float64)
    Y, Z = randn(4, 7, seed=1), randn(4, 5, seed=2)
    loss = ((decoder(Z) - Y) ** 2).mean()
    expected = torch.autograd.grad(loss, list(decoder.parameters()))
    torch.testing.assert_close(decoder.set_gradients(Z, Y), loss.detach())
    for parameter, grad in zip(decoder.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad, grad)


@pytest.mark.parametrize("positive", [True, False])
def test_codes_of_an_affine_decoder_are_those_of_the_lasso(positive):
    decoder = AffineDecoder(9, 7, generator=seeded(0), dtype=torch.float64)
    with torch.no_grad():
        decoder.bias.copy_(randn(7, seed=4))
    Y = randn(6, 7, seed=1)
    found = solve(Y, decoder, lam=0.05, positive=positive, exact=True, tol=1e-8, max_iter=20_000)
    lasso = Lasso(alpha=0.025, fit_intercept=False, positive=positive, tol=1e-12, max_iter=10**6)
    W, shifted = decoder.weight.detach().numpy(), (Y - decoder.bias.detach()).numpy()
    for codes, y in zip(found.codes, shifted, strict=True):
        np.testing.assert_allclose(codes, lasso.fit(W, y).coef_, atol=1e-3)


def test_rows_coupled_by_the_hinge_are_solved_too():
    decoder = AffineDecoder(5, 7, generator=seeded(0), dtype=torch.float64)
    Y, init = randn(20, 7, seed=1), 0.1 * randn(20, 5, seed=2).abs()
    options = {"lam": 0.3, "init": init, "max_iter": 500}
    free, held = (solve(Y, decoder, beta=b, **options).codes.std(dim=0) for b in (0.0, 20.0))
    assert held.min() > 0.4 > free.min()
    before = make_problem(Y, decoder, lam=0.3, beta=20.0).energy(init)
    assert solve(Y, decoder, beta=20.0, **options).energy.sum() < before


@pytest.mark.parametrize(
    ("regularizer", "encoder"),
    [("variance", "lista"), ("unit_norm", "lista"), ("weight_decay", "lista"), ("variance", None)],
)
def test_affine_decoder_is_learnt(small, regularizer, encoder):
    options = as_published(AffineVDL) | {"regularizer": regularizer, "encoder": encoder}
    options |= {"lam": 0.01, "random_state": 0, "transform_method": "fista"}
    options |= {"max_iter": 60, "batch_size": 30, "learning_rate_init": 0.05}
    options["inference_max_iter"] = 50
    shifted = small + 3.0
    model = AffineVDL(10, **options).fit(shifted)
    assert model.score(shifted) > 0.9
    assert np.abs(model.decoder_.bias.detach().numpy()).max() > 0.2
    if regularizer == "unit_norm":
        np.testing.assert_allclose(np.linalg.norm(model.components_, axis=1), 1.0)
    more = model.partial_fit(shifted[:20]).transform(shifted)
    assert np.isfinite(more).all()


def test_kernels_of_a_convolution_are_learnt():
    rng = np.random.default_rng(0)
    codes = rng.exponential(size=(200, 3, 9)) * (rng.random((200, 3, 9)) < 0.08)
    kernels = np.array([[1.0, -1, 1, -1], [1, 2, 1, 0], [1, 0, 0, -2]])
    X = np.zeros((200, 12))
    for place in range(9):
        X[:, place : place + 4] += codes[:, :, place] @ kernels
    options = {"lam": 0.01, "max_iter": 120, "batch_size": 50, "random_state": 0}
    options["learning_rate_init"] = 0.02
    model = ConvolutionalVDL(27, transform_method="fista", **options).fit(X)
    assert model.score(X) > 0.9
    assert model.transform(X).shape == (200, 27)


def test_unit_norm_of_what_has_no_columns_is_refused():
    model = ConvolutionalVDL(27, regularizer="unit_norm", max_iter=1, random_state=0)
    with pytest.raises(ValueError, match="ConvolutionalDecoder has weights without columns"):
        model.fit(np.ones((20, 12)))


def test_there_is_no_gap_for_a_decoder_without_a_quadratic_term(small):
    model = AffineVDL(10, max_iter=1, random_state=0, **as_published(AffineVDL)).fit(small)
    with pytest.raises(ValueError, match="duality gap"):
        model.duality_gap(small)


def test_components_that_a_decoder_cannot_revive_are_refused_clearly(small):
    options = as_published(AffineVDL) | {"lam": 100.0, "revive_dead": True}
    model = AffineVDL(10, max_iter=5, random_state=0, **options)
    with pytest.raises(ValueError, match="AffineDecoder has no way to revive"):
        model.fit(small)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"penalty": "l0"}, 'penalty="l0" needs a dictionary'),
        (
            {"learning_rate_init": None, "regularizer": "unit_norm"},
            "AffineDecoder cannot be learnt without a rate",
        ),
    ],
)
def test_what_needs_a_dictionary_is_refused_clearly(small, change, message):
    model = AffineVDL(10, max_iter=1, random_state=0, **as_published(AffineVDL) | change)
    with pytest.raises(ValueError, match=message):
        model.fit(small)
