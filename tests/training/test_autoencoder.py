"""The autoencoder that a dictionary starts from."""

import numpy as np
import pytest
import torch
from _helpers import randn, seeded, training_settings

import skvdl.training._autoencoder as module
from skvdl.energy import EnergySettings
from skvdl.models import LISTA, LinearDecoder
from skvdl.solvers import SolverSettings
from skvdl.training import Learner
from skvdl.training._autoencoder import Autoencoder, keep_largest, principal_axes


def sparse_rows(n=600, n_components=12, n_features=10, seed=0):
    """Sums of two or so of a dozen atoms."""
    atoms = torch.nn.functional.normalize(randn(n_components, n_features, seed=seed))
    active = randn(n, n_components, seed=seed + 1) > 1.0
    return (randn(n, n_components, seed=seed + 2).abs() + 0.5) * active @ atoms


def make(axes, n_components=12, *, sparsity=0.8, positive=True, bias=True, max_steps=300, seed=0):
    return Autoencoder(
        axes,
        n_components,
        sparsity=sparsity,
        positive=positive,
        bias=bias,
        max_steps=max_steps,
        generator=seeded(seed),
    )


def make_learner(bias=True, max_iter=2):
    how = {"generator": seeded(0), "dtype": torch.float64}
    return Learner(
        LinearDecoder(12, 10, bias=bias, **how),
        LISTA(10, 12, **how),
        EnergySettings(lam=0.01, penalty="l0"),
        SolverSettings(step_size="auto", tol=1e-3, max_iter=5),
        training_settings(unit_norm=True, max_iter=max_iter, batch_size=100),
    )


@pytest.mark.parametrize("unit", [1e-30, 1.0, 1e25])
def test_axes_are_those_of_a_singular_value_decomposition(unit):
    # three directions stand out, and two components leave room for four
    Y = randn(200, 3, seed=0) @ randn(3, 20, seed=1) + 1e-2 * randn(200, 20, seed=2)
    axes = principal_axes(Y.float() * unit, 2, seeded(3)).numpy()
    np.testing.assert_allclose(axes.T @ axes, np.eye(4), atol=1e-5)
    expected = np.linalg.svd(Y.numpy(), full_matrices=False)[2][:3]
    np.testing.assert_allclose(np.linalg.norm(expected @ axes, axis=1), 1.0, rtol=1e-4)


@pytest.mark.parametrize("n_components", [5, 30])
def test_no_axis_is_left_out_if_components_could_span_all(n_components):
    Y = randn(200, 10, seed=0) * torch.arange(1.0, 11.0)
    axes = principal_axes(Y, n_components, seeded(1)).numpy()
    np.testing.assert_allclose(axes @ axes.T, np.eye(10), atol=1e-12)
    products = axes.T @ (Y.T @ Y).numpy() @ axes
    np.testing.assert_allclose(products, np.diag(np.diag(products)), atol=1e-9 * products.max())


def test_rows_of_zeros_have_axes_too():
    axes = principal_axes(torch.zeros(5, 4), 3, seeded(0))
    np.testing.assert_allclose(axes.T @ axes, np.eye(1), atol=1e-6)


@pytest.mark.parametrize("n_components", [3, 30])
def test_axes_without_variance_are_left_out(n_components):
    Y = (randn(200, 3, seed=0) @ randn(3, 20, seed=1)).float()
    assert principal_axes(Y, n_components, seeded(1)).shape == (20, 3)


def test_it_does_not_matter_which_way_an_axis_points():
    Y = sparse_rows()
    axes = principal_axes(Y, 12, seeded(0))
    pair = make(axes), make(axes * torch.tensor([1, -1] * 5, dtype=axes.dtype))
    for number in range(20):
        for autoencoder in pair:
            autoencoder.step(Y[number::20], number)
    torch.testing.assert_close(pair[0].dictionary(), pair[1].dictionary())


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 1.0])
def test_the_largest_latents_of_a_batch_are_kept(share):
    latents = randn(6, 5, seed=0)
    n_kept = max(1, round(share * 30))
    limit = sorted(latents.abs().flatten().tolist())[-n_kept]
    expected = [[v if abs(v) >= limit else 0.0 for v in row] for row in latents.tolist()]
    assert keep_largest(latents, share).tolist() == expected


@pytest.mark.parametrize("positive", [True, False])
def test_it_learns_to_reconstruct_with_atoms_of_norm_one(positive):
    Y = sparse_rows()
    autoencoder = make(principal_axes(Y, 12, seeded(0)), positive=positive)

    def error():
        with torch.no_grad():
            inputs = Y @ autoencoder.axes - autoencoder.offset
            latents = inputs @ autoencoder.encoder.T - autoencoder.threshold
            codes = keep_largest(latents.relu() if positive else latents, 0.2)
            weight, bias = autoencoder.dictionary()
            return (Y - codes @ weight.T - bias).square().mean().item()

    before = error()
    for number in range(autoencoder.n_steps):
        autoencoder.step(Y[number % 3 :: 3], number)
    assert error() < 0.25 * before
    weight, _ = autoencoder.dictionary()
    torch.testing.assert_close(weight.norm(dim=0), torch.ones(12, dtype=weight.dtype))


def test_few_latents_are_kept_at_first_and_the_rate_falls_to_zero(monkeypatch):
    shares, rates = [], []
    monkeypatch.setattr(
        module, "keep_largest", lambda latents, share: shares.append(share) or latents
    )
    autoencoder = make(torch.eye(4, dtype=torch.float64), 5, sparsity=0.6, max_steps=10)
    for number in range(10):
        autoencoder.step(randn(8, 4, seed=number), number)
        rates.append(autoencoder.optimizer.param_groups[0]["lr"])
    np.testing.assert_allclose(shares[:6], 0.1 * 4 ** (np.arange(6) / 5))
    assert shares[6:] == [pytest.approx(0.4)] * 4
    np.testing.assert_allclose(rates, 0.2 * np.minimum(1, np.arange(10, 0, -1) / 3))


def test_sparser_codes_are_sparse_from_the_start(monkeypatch):
    shares = []
    monkeypatch.setattr(
        module, "keep_largest", lambda latents, share: shares.append(share) or latents
    )
    make(torch.eye(4, dtype=torch.float64), 5, sparsity=0.95).step(randn(8, 4, seed=0), 0)
    assert shares == [pytest.approx(0.05)]


def test_it_takes_at_most_so_many_steps():
    axes = torch.eye(4)
    assert make(axes, 5, max_steps=7).n_steps == 7
    assert make(axes, 5, max_steps=10**6).n_steps == 750


def test_a_step_looks_at_nothing_on_the_host():
    autoencoder = make(torch.eye(4, device="meta"), 5)
    autoencoder.optimizer = torch.optim.Adam(autoencoder.parameters(), foreach=True)
    autoencoder.step(torch.zeros(8, 4, device="meta"), 0)
    assert autoencoder.dictionary()[0].device.type == "meta"


def test_a_dictionary_starts_from_it():
    Y = sparse_rows()
    every = torch.arange(len(Y), device="cpu")
    before = torch.get_rng_state()
    learner, again = make_learner(), make_learner()
    for each in (learner, again):
        each.start_from_autoencoder(Y, every, seeded(1))
    assert torch.equal(learner.decoder.weight, again.decoder.weight)
    assert torch.equal(torch.get_rng_state(), before)
    norms = learner.decoder.weight.norm(dim=0)
    torch.testing.assert_close(norms, torch.ones_like(norms))
    assert learner.decoder.bias.abs().max() > 0
    # the encoder is ISTA on these atoms
    encoder = make_learner().encoder
    slope = torch.full_like(encoder.b, (2 * 0.01 * 2 / 10) ** 0.5)
    encoder.imitate(learner.decoder, slope, Y[:100])
    torch.testing.assert_close(encoder.state_dict(), learner.encoder.state_dict())


def test_an_interrupt_keeps_what_was_learnt(monkeypatch):
    Y = sparse_rows()
    step = Autoencoder.step

    def interrupted(self, rows, number):
        if number == 5:
            raise KeyboardInterrupt
        step(self, rows, number)

    monkeypatch.setattr(Autoencoder, "step", interrupted)
    learner = make_learner()
    before = learner.decoder.weight.clone()
    with pytest.raises(KeyboardInterrupt):
        learner.start_from_autoencoder(Y, torch.arange(len(Y), device="cpu"), seeded(1))
    assert not torch.equal(learner.decoder.weight, before)
    norms = learner.decoder.weight.norm(dim=0)
    torch.testing.assert_close(norms, torch.ones_like(norms))


def test_atoms_of_a_dictionary_without_a_bias_explain_the_mean():
    # all rows are near one point, which an offset would take away from the atoms
    X = 5.0 + 0.1 * randn(200, 10, seed=0)
    learner = make_learner(bias=False, max_iter=100)
    learner.start_from_autoencoder(X, torch.arange(200), seeded(1))
    directions = torch.nn.functional.normalize(learner.decoder.weight.detach(), dim=0)
    assert (directions.sum(dim=0) / 10**0.5).max() > 0.99


def test_offset_is_learnt_only_with_a_bias():
    Y = 1.0 + randn(50, 4, seed=0)
    for bias in (True, False):
        autoencoder = make(torch.eye(4, dtype=Y.dtype), 5, bias=bias, max_steps=20)
        for number in range(autoencoder.n_steps):
            autoencoder.step(Y, number)
        assert bool((autoencoder.dictionary()[1] != 0).any()) == bias
