import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from _helpers import (
    DEVICES,
    device_dtype,
    make_decoder,
    randn,
    same_state,
    seeded,
    training_settings,
)

from skvdl.energy import EnergySettings
from skvdl.models import LISTA
from skvdl.solvers import SolverSettings
from skvdl.training import History, Learner, run_epoch, train

N, D, L = 22, 6, 5
X, X_VALIDATION = randn(N, D, seed=7), randn(9, D, seed=8)
ENERGY = EnergySettings(lam=0.005, beta=100.0, gamma=5.0)
SOLVER = SolverSettings(step_size="auto", tol=1e-3, max_iter=200)
FAR = replace(SOLVER, step_size=1e6)  # diverges
ENCODERS = pytest.mark.parametrize("encoder", [True, False], ids=["lista", "no encoder"])


class Recorder(Learner):
    """Learner that writes down every batch and the rates in force."""

    def step(self, Y, share=None):
        self.__dict__.setdefault("batches", []).append(Y.clone())
        rates = [self.decoder_optimizer.param_groups[0]["lr"]]
        if self.encoder is not None:
            rates.append(self.encoder_optimizer.param_groups[-1]["lr"])
        self.__dict__.setdefault("rates", []).append(rates)
        return super().step(Y)


def energy_of(learner, X):
    return learner.energy(X).total(learner.energy_settings.lam)


def make_learner(
    kind=Learner, *, encoder=True, dtype=torch.float64, energy=ENERGY, solver=SOLVER, **training
):
    options = {"batch_size": 5, "max_iter": 4, "learning_rate_init": 0.01, **training}
    energy = energy if encoder else replace(energy, gamma=0.0)
    return kind(
        make_decoder((), L, D, seed=0, dtype=dtype),
        LISTA(D, L, generator=seeded(1), dtype=dtype) if encoder else None,
        energy,
        solver,
        training_settings(**options),
    )


def weights(learner):
    """All weights, without the optimisers."""
    return {k: v for k, v in learner.state().items() if not k.endswith("optimizer")}


def run(learner, *, seed=0, validation=False, on_epoch=None, X=X):
    history = History()
    rows = torch.arange(len(X) + len(X_VALIDATION), device="cpu")
    train(
        learner,
        torch.cat([X, X_VALIDATION.to(X)]),
        generator=seeded(seed),
        history=history,
        index=rows[: len(X)],
        held_out=rows[len(X) :] if validation else None,
        on_epoch=on_epoch,
    )
    return history


# 22 rows in batches of 5: 4 steps per epoch.
@pytest.mark.parametrize("schedule", ["cosine", "constant", 1, 2])
@ENCODERS
def test_rates_of_every_step(schedule, encoder):
    learner = make_learner(
        Recorder,
        encoder=encoder,
        max_iter=5,
        learning_rate=schedule,
        learning_rate_init=0.04,
        encoder_learning_rate_init=0.02,
    )
    run(learner)
    expected = []
    for step in range(20):
        factor = (1 + math.cos(math.pi * step / 20)) / 2 if schedule == "cosine" else 1.0
        halvings = (step // 4) // schedule if isinstance(schedule, int) else 0
        rates = [0.04 * factor / 2**halvings, 0.02 * factor]
        expected.append(rates if encoder else rates[:1])
    np.testing.assert_allclose(learner.rates, expected, rtol=1e-12)


def test_without_an_order_rows_come_as_they_are():
    learner = make_learner(Recorder)
    run_epoch(learner, X)
    assert torch.equal(torch.cat(learner.batches), X)
    assert [len(batch) for batch in learner.batches] == [5, 6, 5, 6]


def test_every_epoch_has_all_rows_in_another_order():
    learner = make_learner(Recorder, max_iter=3)
    run(learner)
    epochs = torch.cat(learner.batches).reshape(3, N, D)
    for epoch in epochs:
        assert sorted(epoch.tolist()) == sorted(X.tolist())
    orders = {tuple(epoch[:, 0].tolist()) for epoch in [X, *epochs]}
    assert len(orders) == 4


@ENCODERS
def test_same_seed_gives_the_same_weights_to_the_last_bit(encoder):
    states, before = [], torch.get_rng_state()
    for seed in (0, 0, 1):
        learner = make_learner(encoder=encoder)
        run(learner, seed=seed)
        states.append(learner.state())
    assert same_state(states[0], states[1])
    assert not same_state(states[0], states[2])
    assert torch.equal(torch.get_rng_state(), before)


def test_learning_lowers_the_energy():
    learner = make_learner(max_iter=30, learning_rate_init=0.03)
    before = energy_of(learner, X)
    curve = run(learner).curves["energy"]
    assert len(curve) == 30
    assert curve[-1] < 0.9 * curve[0]
    assert energy_of(learner, X) < 0.9 * before


@ENCODERS
def test_curves_are_the_averages_of_the_steps(encoder):
    twin, learner = (make_learner(encoder=encoder, max_iter=1) for _ in range(2))
    order = torch.randperm(N, generator=seeded(0), device="cpu")
    edges, steps = [0, 5, 11, 16, 22], []
    for i in range(4):
        factor = (1 + math.cos(math.pi * i / 4)) / 2
        twin.set_rates(0.01 * factor, twin.training.encoder_learning_rate_init * factor)
        steps.append(twin.step(X[order[edges[i] : edges[i + 1]]]))
    curves = run(learner).curves
    names = {"energy", "reconstruction", "proximity", "hinge", "l1", "sparsity", "lam"}
    assert set(curves) == names | {"dead"}
    for name in names:
        expected = np.mean([step[name].item() for step in steps])
        assert curves[name] == pytest.approx([expected], rel=1e-10), name
    used = torch.stack([step["used"] for step in steps]).any(dim=0)
    assert curves["dead"] == [L - used.sum().item()]
    assert same_state(learner.state(), twin.state())


def test_run_epoch_follows_an_order_and_counts_the_used():
    learner = make_learner(Recorder)
    with torch.no_grad():
        learner.decoder.weight[:, 2] = 0.0
        learner.encoder.b[2] = -1e6
        learner.encoder.S[2] = 0.0
    learner.configure(EnergySettings(lam=0.005, gamma=5.0), SOLVER, learner.training)
    order = torch.arange(N - 1, -1, -1, device="cpu")
    means, used = run_epoch(learner, X, order=order)
    assert means["dead"] == 1
    assert torch.equal(torch.cat(learner.batches), X.flip(0))
    assert used.tolist() == [True, True, False, True, True]
    assert {rate for rates in learner.rates for rate in rates} == {0.01, 0.001}


def test_history_grows_in_the_one_given():
    history = History()
    for _ in range(2):
        train(make_learner(max_iter=2), X, generator=seeded(0), history=history)
    assert len(history.curves["energy"]) == 4
    assert history.curves["energy"][:2] == history.curves["energy"][2:]


# Rates so high that the epochs go up and down, and the last is not the best.
RESTLESS = {
    "max_iter": 8,
    "learning_rate": "constant",
    "learning_rate_init": 1.0,
    "encoder_learning_rate_init": 0.3,
}


@ENCODERS
def test_validation_keeps_the_best_epoch(encoder):
    learner = make_learner(encoder=encoder, **RESTLESS)
    seen, states = [], []

    def on_epoch(history):
        states.append(learner.state())
        seen.append(energy_of(learner, X_VALIDATION))

    history = run(learner, validation=True, on_epoch=on_epoch)
    best = int(np.argmin(seen))
    assert best < 7
    assert history.curves["validation"] == seen
    assert same_state(learner.state(), states[best])
    assert energy_of(learner, X_VALIDATION) == min(seen)


def test_without_validation_the_last_epoch_is_kept():
    learner = make_learner(**RESTLESS)
    states = []
    history = run(learner, on_epoch=lambda _: states.append(learner.state()))
    assert len(states) == 8
    assert same_state(learner.state(), states[-1])
    assert "validation" not in history.curves


@pytest.mark.parametrize("validation", [True, False])
@pytest.mark.parametrize("patience", [1, 3])
def test_stops_on_a_plateau_of_the_validation_energy(patience, validation):
    learner = make_learner(
        max_iter=20,
        learning_rate_init=0.0,
        encoder_learning_rate_init=0.0,
        n_iter_no_change=patience,
    )
    history = run(learner, validation=validation)
    assert len(history.curves["energy"]) == (1 + patience if validation else 20)


@pytest.mark.parametrize(("tol", "epochs"), [(0.0, 12), (0.9, 3)])
def test_progress_is_what_exceeds_the_tolerance(tol, epochs):
    # an energy that falls steadily, but never by nine tenths
    learner = make_learner(max_iter=12, n_iter_no_change=2, tol=tol)
    curve = run(learner, validation=True).curves["validation"]
    assert len(curve) == epochs
    assert (np.diff(curve) < 0).all()


def test_does_not_stop_early_unless_asked():
    options = {"learning_rate_init": 0.0, "encoder_learning_rate_init": 0.0}
    curve = run(make_learner(max_iter=6, **options), validation=True).curves["validation"]
    assert len(set(curve)) == 1
    assert len(curve) == 6


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@ENCODERS
def test_divergence_at_once_leaves_the_initial_weights(encoder, dtype):
    energy = EnergySettings(lam=0.0, beta=100.0, gamma=1.0)
    learner = make_learner(encoder=encoder, dtype=dtype, energy=energy, solver=FAR)
    start = learner.state()
    history = History()
    with pytest.raises(FloatingPointError, match=r"epoch 1:.*step_size='auto' instead of 1000000"):
        train(learner, X.to(dtype), generator=seeded(0), history=history)
    assert same_state(weights(learner), {k: start[k] for k in weights(learner)})
    assert not history.curves


@pytest.mark.parametrize("validation", [True, False])
def test_divergence_later_leaves_the_last_good_weights_or_the_best(validation):
    learner = make_learner(**RESTLESS)
    states, seen = [], []

    def on_epoch(history):
        states.append(learner.state())
        seen.extend(history.curves["validation"][-1:])
        if len(states) == 5:
            learner.configure(replace(ENERGY, lam=0.0), FAR, learner.training)

    with pytest.raises(FloatingPointError, match=r"epoch 6:.*learning_rate_init.*last good"):
        run(learner, validation=validation, on_epoch=on_epoch)
    expected = int(np.argmin(seen)) if validation else 4
    assert len(states) == 5
    assert same_state(learner.state(), states[expected])


def test_divergence_of_learning_names_the_rate_and_not_the_step():
    learner = make_learner(learning_rate_init=1e200)
    with pytest.raises(FloatingPointError, match="lower learning_rate_init") as caught:
        run(learner)
    assert "step_size" not in str(caught.value)
    assert all(p.isfinite().all() for p in learner.decoder.parameters())


def test_divergence_of_the_encoder_leaves_finite_weights():
    # A hidden estimate of 1e200 that the second round takes back to 0: the loss of the only
    # batch is finite, its gradient is not.
    learner = make_learner(batch_size=N, max_iter=3)
    with torch.no_grad():
        encoder = learner.encoder
        encoder.n_iter = 1
        for parameter in encoder.parameters():
            parameter.zero_()
        encoder.b[0] = 1e200
        encoder.S[0, 0] = -1.0
        encoder.b[1] = 1e120
    learner.configure(EnergySettings(lam=0.005), SOLVER, learner.training)
    with pytest.raises(FloatingPointError):
        run(learner)
    assert all(p.isfinite().all() for p in learner.encoder.parameters())


@pytest.mark.parametrize("validation", [True, False])
def test_interrupt_leaves_what_was_learnt(validation):
    learner = make_learner(**RESTLESS)
    start, states, seen = learner.state(), [], []

    def on_epoch(history):
        states.append(learner.state())
        seen.extend(history.curves["validation"][-1:])
        if len(states) == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(learner, validation=validation, on_epoch=on_epoch)
    assert len(states) == 6
    expected = int(np.argmin(seen)) if validation else 5
    assert expected < 5 or not validation
    assert same_state(learner.state(), states[expected])
    assert not same_state(weights(learner)["decoder"], start["decoder"])


@pytest.mark.parametrize("revive", [True, False])
def test_dead_components_come_back_only_if_asked(revive):
    learner = make_learner(max_iter=3, revive_dead=revive)
    with torch.no_grad():
        learner.encoder.b[2] = -1e6
        learner.encoder.S[2] = 0.0
        learner.encoder.U[2] = 0.0
        learner.decoder.weight[:, 2] = 0.0
    learner.configure(EnergySettings(lam=0.005, gamma=5.0), SOLVER, learner.training)
    curve = run(learner).curves["dead"]
    assert curve[0] == 1
    assert curve[1:] == ([0, 0] if revive else [1, 1])


@pytest.mark.parametrize("device", DEVICES)
@ENCODERS
def test_learns_the_same_on_every_device_from_data_on_the_cpu(device, encoder):
    dtype = device_dtype(device)
    curves = []
    for where in ("cpu", device):
        learner = make_learner(encoder=encoder, dtype=dtype).to(where)
        curves.append(run(learner, validation=True, X=X.to(dtype)).curves)
        assert learner.device.type == where
    for name, curve in curves[0].items():
        assert curves[1][name] == pytest.approx(curve, rel=1e-3, abs=1e-5), name


@ENCODERS
def test_learns_on_its_own_device_whatever_the_default(encoder):
    states = []
    for default in ("cpu", "meta"):
        with torch.device(default):
            learner = make_learner(encoder=encoder, revive_dead=True, n_iter_no_change=3)
            run(learner, validation=True)
        states.append(learner.state())
    assert same_state(*states)
