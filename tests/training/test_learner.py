import copy
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from _helpers import (
    DEVICES,
    LINEAR_AND_MLP,
    device_dtype,
    make_decoder,
    naive_energy,
    randn,
    same_state,
    seeded,
    solve,
    to_numpy,
    training_settings,
)

from skvdl.energy import EnergySettings
from skvdl.models import LISTA
from skvdl.solvers import SolverSettings
from skvdl.training import Learner, batch_slices

N, D, L = 12, 6, 5
DECODERS = pytest.mark.parametrize("hidden", LINEAR_AND_MLP, ids=["linear", "mlp", "mlp2"])
ENCODERS = pytest.mark.parametrize("encoder", [True, False], ids=["lista", "no encoder"])


def make_learner(
    hidden=(),
    *,
    encoder=True,
    beta=2.0,
    dtype=torch.float64,
    energy=None,
    solver=None,
    n_components=L,
    **training,
):
    energy = {"lam": 0.005, "gamma": 5.0 if encoder else 0.0} | (energy or {})
    energy = EnergySettings(beta=beta, **energy)
    lista = None
    if encoder:
        options = {"positive": energy.positive, "dtype": dtype}
        lista = LISTA(D, n_components, generator=seeded(1), **options)
    return Learner(
        make_decoder(hidden, n_components, D, seed=3, dtype=dtype),
        lista,
        energy,
        SolverSettings(**{"step_size": "auto", "tol": 1e-3, "max_iter": 200} | (solver or {})),
        training_settings(**{"batch_size": N, "learning_rate_init": 0.01, **training}),
    )


# What each way to keep codes from collapsing asks of a learner.
REGULARIZERS = {
    "variance": {"beta": 40.0},
    "unit_norm": {"beta": 0.0, "unit_norm": True},
    "weight_decay": {"beta": 0.0, "weight_decay": 0.05},
    "none": {"beta": 0.0},
}


def weights(module):
    return [p.detach().clone() for p in module.parameters()]


@pytest.mark.parametrize("n_rows", [1, 2, 9, 10, 11, 19, 20, 25, 99])
@pytest.mark.parametrize("batch_size", [1, 2, 10, 33])
def test_batches_cover_all_rows_once_and_none_is_small(n_rows, batch_size):
    batches = [list(range(n_rows))[rows] for rows in batch_slices(n_rows, batch_size)]
    assert [row for batch in batches for row in batch] == list(range(n_rows))
    sizes = [len(batch) for batch in batches]
    assert min(sizes) >= min(2, n_rows)
    assert max(sizes) - min(sizes) <= 1
    # no other number of batches comes closer, but for those that would leave a batch of one
    for other in range(1, max(1, n_rows // 2) + 1):
        assert abs(n_rows / batch_size - len(sizes)) <= abs(n_rows / batch_size - other)


@pytest.mark.parametrize("device", DEVICES)
@DECODERS
@pytest.mark.parametrize("name", REGULARIZERS)
def test_one_step_changes_every_weight(hidden, name, device):
    learner = make_learner(hidden, dtype=device_dtype(device), **REGULARIZERS[name]).to(device)
    before = weights(learner.decoder) + weights(learner.encoder)
    learner.step(randn(N, D, seed=2, dtype=device_dtype(device)).to(device))
    after = weights(learner.decoder) + weights(learner.encoder)
    assert not any(map(torch.equal, before, after))
    assert learner.n_steps == 1
    assert learner.device.type == device


@pytest.mark.parametrize("hidden", LINEAR_AND_MLP)
def test_unit_norm_holds_from_the_start_and_after_a_step(hidden):
    learner = make_learner(hidden, unit_norm=True)
    for _ in range(2):
        for weight in learner.decoder.matrices:
            norms = weight.detach().square().sum(dim=0).sqrt()
            torch.testing.assert_close(norms, torch.ones_like(norms))
        learner.step(randn(N, D, seed=2))


def codes_in_training(learner, Y):
    """Codes a step should infer: the paper's energy, from the encoder's prediction."""
    settings, solver = learner.energy_settings, learner.solver_settings
    target = None if learner.encoder is None else learner.encoder(Y).detach()
    found = solve(
        Y,
        learner.decoder,
        lam=settings.lam,
        beta=settings.beta * len(Y) / 250,
        gamma=settings.gamma,
        variance_threshold=settings.variance_threshold,
        target=target,
        init=target,
        positive=settings.positive,
        step_size=solver.step_size,
        max_iter=solver.max_iter,
        tol=solver.tol,
    )
    return found.codes, target


@DECODERS
@ENCODERS
@pytest.mark.parametrize("name", ["variance", "weight_decay"])
@pytest.mark.parametrize("positive", [True, False])
def test_steps_are_those_of_plain_adam(hidden, encoder, name, positive):
    learner = make_learner(
        hidden,
        encoder=encoder,
        energy={
            "positive": positive,
            "lam": 0.002,
            "gamma": 0.5 if encoder else 0.0,
            "variance_threshold": 0.7,
        },
        bias_decay=(0.3, 0.2),
        encoder_learning_rate_init=0.02,
        **REGULARIZERS[name],
    )
    mirror = copy.deepcopy(learner)
    decay = 0.05 if name == "weight_decay" else 0.0
    groups = [{"params": mirror.decoder.matrices, "weight_decay": decay}]
    groups.append({"params": mirror.decoder.biases, "weight_decay": 0.3})
    plain = {"fused": False, "foreach": False}
    optimizers = [torch.optim.Adam([g for g in groups if g["params"]], lr=0.01, **plain)]
    if encoder:
        others = [p for name, p in mirror.encoder.named_parameters() if name != "b"]
        groups = [{"params": others}, {"params": [mirror.encoder.b], "weight_decay": 0.2}]
        optimizers.append(torch.optim.Adam(groups, lr=0.02, **plain))
    for seed in range(3):
        Y = randn(N, D, seed=seed + 5)
        learner.hints["age"] = 0  # the curvature anew, as below
        Z, _ = codes_in_training(mirror, Y)
        assert (Z != 0).any()
        loss = ((Y - mirror.decoder(Z)) ** 2).sum() / Y.numel()
        if encoder:
            loss = loss + ((mirror.encoder(Y) - Z) ** 2).sum() / Z.numel()
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        learner.step(Y)
        torch.testing.assert_close(weights(learner.decoder), weights(mirror.decoder))
        if encoder:
            torch.testing.assert_close(weights(learner.encoder), weights(mirror.encoder))


@pytest.mark.parametrize(
    ("options", "changed"),
    [
        ({"bias_decay": (50.0, 0.0)}, {"decoder.hidden_biases.0", "decoder.hidden_biases.1"}),
        ({"bias_decay": (0.0, 50.0)}, {"encoder.b"}),
        (
            {"weight_decay": 50.0},
            {"decoder.weights.0", "decoder.weights.1", "decoder.weights.2"},
        ),
    ],
)
def test_each_decay_acts_on_its_own_weights_only(options, changed):
    found = []
    for extra in ({}, options):
        learner = make_learner((7, 6), beta=0.0, **extra)
        learner.step(randn(N, D, seed=2))
        found.append(
            {f"decoder.{k}": v for k, v in learner.decoder.state_dict().items()}
            | {f"encoder.{k}": v for k, v in learner.encoder.state_dict().items()}
        )
    without, with_decay = found
    assert {k for k in without if not torch.equal(without[k], with_decay[k])} == changed


@DECODERS
@ENCODERS
def test_statistics_of_a_step(hidden, encoder):
    learner = make_learner(hidden, encoder=encoder, energy={"lam": 0.1, "gamma": 0.5 * encoder})
    Y = randn(N - 2, D, seed=2)
    Z, target = codes_in_training(learner, Y)
    with torch.no_grad():
        Y_hat = learner.decoder(Z)
    energy = naive_energy(
        Y,
        learner.decoder,
        Z,
        lam=0.1,
        beta=2.0 * len(Y) / 250,
        gamma=0.5 if encoder else 0.0,
        target=target,
    )
    stats = learner.step(Y)
    z = to_numpy(Z)
    expected = {
        "energy": energy.mean(),
        "reconstruction": np.mean((to_numpy(Y) - to_numpy(Y_hat)) ** 2),
        "proximity": np.mean((z - to_numpy(target)) ** 2) if encoder else 0.0,
        "hinge": sum(max(0.5 - np.std(c, ddof=1), 0.0) ** 2 for c in z.T) / 250,
        "l1": np.abs(z).sum() / len(Y),
        "sparsity": np.mean(z == 0),
    }
    assert {k: stats[k].item() for k in expected} == pytest.approx(expected, rel=1e-8)
    assert stats["used"].tolist() == (z != 0).any(axis=0).tolist()


@DECODERS
@ENCODERS
@pytest.mark.parametrize("positive", [True, False])
@pytest.mark.parametrize("n_rows", [1, 12, 29])
def test_energy_against_loop(hidden, encoder, positive, n_rows):
    learner = make_learner(
        hidden, encoder=encoder, batch_size=10, energy={"positive": positive, "lam": 0.1}
    )
    Y = randn(n_rows, D, seed=2)
    edges = {1: [0, 1], 12: [0, 12], 29: [0, 9, 19, 29]}[n_rows]
    total = 0.0
    for start, stop in pairwise(edges):
        Z = learner.codes(Y[start:stop])
        beta = 2.0 * (stop - start) / 250
        total += naive_energy(Y[start:stop], learner.decoder, Z, lam=0.1, beta=beta).sum()
    lam = learner.energy_settings.lam
    assert learner.energy(Y).total(lam) == pytest.approx(total / n_rows, rel=1e-9)


def test_codes_come_from_the_encoder_or_from_fista():
    Y = randn(N, D, seed=2)
    with_encoder, without = make_learner(), make_learner(encoder=False)
    assert torch.equal(with_encoder.codes(Y), with_encoder.encoder(Y).detach())
    expected = solve(Y, without.decoder, lam=without.energy_settings.lam).codes
    assert torch.equal(without.codes(Y), expected)
    assert not with_encoder.codes(Y).requires_grad


# Twice as many components as features: the data term has one form, whatever was seen before.
@ENCODERS
@pytest.mark.parametrize("hidden", [(), (2 * D,)], ids=["linear", "mlp"])
def test_state_goes_and_comes_back_to_the_last_bit(hidden, encoder):
    learner, fresh = (make_learner(hidden, encoder=encoder, n_components=2 * D) for _ in range(2))
    batches = [randn(N, D, seed=seed) for seed in range(4)]
    for Y in batches[:2]:
        learner.step(Y)
    state, kept = learner.state(), copy.deepcopy(learner.state())
    for Y in batches[2:]:
        learner.step(Y)
    later = learner.state()
    assert same_state(state, kept)
    assert not same_state(later, state)
    for one in (learner, fresh):
        one.load_state(copy.deepcopy(kept))
        assert same_state(one.state(), kept)
        for Y in batches[2:]:
            one.step(Y)
        assert same_state(one.state(), later)


@ENCODERS
def test_state_can_be_loaded_again_after_learning_went_on(encoder):
    learner = make_learner(encoder=encoder)
    learner.step(randn(N, D, seed=0))
    state = learner.state()
    kept = copy.deepcopy(state)
    for _ in range(2):
        learner.load_state(state)
        learner.step(randn(N, D, seed=1))
        assert same_state(state, kept)


@pytest.mark.parametrize("device", DEVICES)
@ENCODERS
def test_moving_to_a_device_takes_everything_along(device, encoder):
    dtype = device_dtype(device)
    Y, Y_next = randn(N, D, seed=2, dtype=dtype), randn(N, D, seed=3, dtype=dtype)
    stays, moves = (make_learner((7,), encoder=encoder, dtype=dtype) for _ in range(2))
    for learner in (stays, moves):
        learner.step(Y)
    assert moves.to(device) is moves
    assert moves.device.type == device
    for optimizer in filter(None, (moves.decoder_optimizer, moves.encoder_optimizer)):
        values = [v for state in optimizer.state.values() for v in state.values()]
        assert {v.device.type for v in values} == {device}
    stays.step(Y_next)
    moves.step(Y_next.to(device))
    moves.to("cpu")
    for found, expected in zip(weights(moves.decoder), weights(stays.decoder), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_new_settings_take_effect():
    learner = make_learner((7,))
    training = replace(
        learner.training,
        learning_rate_init=0.5,
        encoder_learning_rate_init=0.25,
        weight_decay=0.3,
        bias_decay=(0.1, 0.2),
    )
    learner.configure(EnergySettings(lam=9.0), learner.solver_settings, training)
    decoder, encoder = (
        [(g["lr"], g["weight_decay"]) for g in optimizer.param_groups]
        for optimizer in (learner.decoder_optimizer, learner.encoder_optimizer)
    )
    assert decoder == [(0.5, 0.3), (0.5, 0.1)]
    assert encoder == [(0.25, 0.0), (0.25, 0.2)]
    assert learner.energy_settings.lam == 9.0
    learner.set_rates(0.2, 0.1)
    assert {g["lr"] for g in learner.decoder_optimizer.param_groups} == {0.2}
    assert {g["lr"] for g in learner.encoder_optimizer.param_groups} == {0.1}


def with_dead_components(hidden, encoder, dead):
    """Return a learner some of whose components can never be active, whatever the data."""
    solver = {"tol": 1e-6, "max_iter": 1000}
    learner = make_learner(hidden, encoder=encoder, beta=0.0, energy={"lam": 1e-3}, solver=solver)
    with torch.no_grad():
        learner.decoder.matrices[0][:, dead] = 0.0
        for bias in learner.decoder.biases:
            bias.fill_(5.0)
        for weight in learner.decoder.matrices[1:-1]:
            weight.abs_()
        if encoder:
            # predictions so small that the residual of a row is close to the row itself
            learner.encoder.U.mul_(0.01)
            learner.encoder.S.zero_()
            learner.encoder.b.zero_()
            learner.encoder.b[dead] = -1e6
    return learner


@ENCODERS
@pytest.mark.parametrize("dead", [[1], [0, 3], [0, 1, 2, 3, 4]])
def test_revived_components_point_at_the_worst_rows_and_are_used(encoder, dead):
    learner = with_dead_components((), encoder, dead)
    Y = randn(N, D, seed=2) * torch.arange(1, N + 1, device="cpu")[:, None]
    Z = learner.codes(Y)
    assert (Z[:, dead] == 0).all()
    W = to_numpy(learner.decoder.matrices[0])
    residual = to_numpy(Y) - to_numpy(Z) @ W.T
    worst = np.argsort(-np.sum(residual**2, axis=1))
    alive = [j for j in range(L) if j not in dead]
    mask = torch.tensor([j in dead for j in range(L)], device="cpu")
    learner.revive(mask, Y)
    revived = to_numpy(learner.decoder.matrices[0])
    size = np.linalg.norm(W[:, alive], axis=0).mean() if alive else 1.0
    for component, row in zip(dead, worst, strict=False):
        direction = residual[row] / np.linalg.norm(residual[row])
        np.testing.assert_allclose(revived[:, component], direction * size, rtol=1e-9)
    np.testing.assert_array_equal(revived[:, alive], W[:, alive])
    used = (learner.codes(Y) != 0).any(dim=0)
    assert used[dead].all()
    after = learner.decoder(learner.codes(Y)).detach()
    assert (Y - after).square().sum() < np.sum(residual**2)


@ENCODERS
@pytest.mark.parametrize("hidden", [(7,), (7, 6)])
def test_revived_components_of_a_network_reduce_the_worst_residuals(hidden, encoder):
    dead = [0, 3]
    learner = with_dead_components(hidden, encoder, dead)
    Y = randn(N, D, seed=2)
    Z = learner.codes(Y)
    with torch.no_grad():
        residual = Y - learner.decoder(Z)
    worst = residual.square().sum(dim=1).argsort(descending=True)
    before = weights(learner.decoder)
    mask = torch.tensor([j in dead for j in range(L)], device="cpu")
    learner.revive(mask, Y)
    for component, row in zip(dead, worst.tolist(), strict=False):
        nudged = Z[row : row + 1].clone()
        nudged[0, component] += 1e-4
        with torch.no_grad():
            closer = (Y[row] - learner.decoder(nudged)).square().sum()
            still = (Y[row] - learner.decoder(Z[row : row + 1])).square().sum()
        assert closer < still
    after = weights(learner.decoder)
    alive = [1, 2, 4]
    assert torch.equal(after[0][:, alive], before[0][:, alive])
    assert all(map(torch.equal, after[1:], before[1:]))
    size = before[0][:, alive].norm(dim=0).mean()
    torch.testing.assert_close(after[0][:, dead].norm(dim=0), size.expand(2))


def test_more_dead_components_than_rows():
    learner = with_dead_components((), True, [0, 1, 2, 3])
    before = learner.decoder.matrices[0].detach().clone()
    mask = torch.tensor([True, True, True, True, False], device="cpu")
    learner.revive(mask, randn(2, D, seed=2))
    changed = (learner.decoder.matrices[0] != before).any(dim=0)
    assert changed.tolist() == [True, True, False, False, False]
    assert all(p.isfinite().all() for p in learner.decoder.parameters())


@ENCODERS
@DECODERS
@pytest.mark.parametrize("name", ["variance", "unit_norm"])
def test_learns_on_its_own_device_whatever_the_default(hidden, encoder, name):
    results = []
    for default in ("cpu", "meta"):
        with torch.device(default):
            learner = make_learner(hidden, encoder=encoder, **REGULARIZERS[name])
            learner.step(randn(N, D, seed=2))
            learner.revive(torch.ones(L, dtype=torch.bool, device="cpu"), randn(N, D, seed=3))
            energy = learner.energy(randn(N, D, seed=4)).total(learner.energy_settings.lam)
            learner.load_state(learner.to("cpu").state())
        results.append((learner.state(), energy))
    assert same_state(*results)
