"""The lam, and the threshold of the encoder, for a share of zeros that was asked for."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from _helpers import make_decoder, randn, seeded, training_settings

from skvdl.energy import EnergySettings
from skvdl.models import LISTA
from skvdl.solvers import SolverSettings, codes_by_row, refit
from skvdl.training import Learner, cut_encoder, find_lam
from skvdl.training._calibration import _search

SOLVER = SolverSettings("auto", 1e-5, 500, exact=True)


def make_learner(
    *, hidden=(), encoder=True, positive=True, penalty="l1", target=0.8, lam=0.01, **changes
):
    decoder = make_decoder(hidden, 20, 12, seed=0)
    lista = LISTA(12, 20, generator=seeded(1), dtype=torch.float64, positive=positive)
    return Learner(
        decoder,
        lista if encoder else None,
        EnergySettings(lam=lam, penalty=penalty, positive=positive),
        SolverSettings("auto", 1e-3, 50),
        training_settings(target_sparsity=target, **changes),
    )


def zeros(learner, X, lam, debias):
    settings = replace(learner.energy_settings, lam=lam)
    init = None if learner.encoder is None else learner.encoder(X).detach()
    Z = codes_by_row(learner.decoder, X, settings, SOLVER, init=init).codes
    Z = refit(learner.decoder, X, Z, positive=settings.positive) if debias else Z
    return (Z == 0).double().mean().item()


def encoder_zeros(learner, X, debias):
    with torch.no_grad():
        Z = learner.encoder(X)
    if debias:
        Z = refit(learner.decoder, X, Z, positive=learner.energy_settings.positive)
    return (Z == 0).double().mean().item()


# --- the search ---------------------------------------------------------------------------


@pytest.mark.parametrize("start", [-12.0, -3.0, 0.0, 4.0])
@pytest.mark.parametrize("target", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("width", [0.3, 1.0, 3.0])
def test_search_finds_where_an_increasing_function_has_a_value(start, target, width):
    calls = []

    def function(x):
        calls.append(x)
        return 1 / (1 + math.exp(-(x + 5) / width))

    x, value = _search(function, target, start, 25)
    assert value == pytest.approx(target, abs=0.003)
    assert function(x) == value
    assert len(calls) <= 26


def test_search_stops_at_once_where_it_started_well():
    calls = []
    found = _search(lambda x: calls.append(x) or 0.5, 0.5, 1.0, 10)
    assert found == (1.0, 0.5)
    assert calls == [1.0]


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_search_of_a_constant_ends_and_gives_what_there_is(value):
    calls = []
    x, found = _search(lambda x: calls.append(x) or value, 0.8, -3.0, 12)
    assert found == value
    assert len(calls) == 12
    assert math.isfinite(x)
    assert np.isfinite(calls).all()


def test_search_over_a_jump_gives_the_nearer_side():
    x, found = _search(lambda x: 0.75 if x < 0.3 else 0.95, 0.8, 0.0, 20)
    assert found == 0.75
    assert x < 0.3


def test_search_never_leaps_far():
    calls = []
    _search(lambda x: calls.append(x) or 0.0, 0.9, 0.0, 5)
    assert max(np.diff(calls)) <= math.log(8) + 1e-12


# --- lam ------------------------------------------------------------------------------------


@pytest.mark.parametrize("debias", [True, False])
@pytest.mark.parametrize("encoder", [True, False])
@pytest.mark.parametrize(
    ("hidden", "penalty", "positive"),
    [((), "l1", True), ((), "l1", False), ((), "l0", True), ((), "l0", False), ((15,), "l1", True)],
)
def test_lam_gives_the_zeros_asked_for(hidden, penalty, positive, encoder, debias):
    how = {"hidden": hidden, "penalty": penalty, "positive": positive, "encoder": encoder}
    learner, X = make_learner(**how), randn(150, 12, seed=2)
    weights = [p.clone() for p in learner.decoder.parameters()]
    lam, found = find_lam(learner, X, SOLVER, debias=debias, start=0.01, n_trials=15)
    assert found == pytest.approx(0.8, abs=0.01)
    assert zeros(learner, X, lam, debias) == pytest.approx(found, abs=1e-12)
    assert all(
        torch.equal(a, b) for a, b in zip(weights, learner.decoder.parameters(), strict=True)
    )


def test_without_a_target_lam_stays_and_its_zeros_are_told():
    learner, X = make_learner(target=None), randn(50, 12, seed=2)
    lam, found = find_lam(learner, X, SOLVER, debias=True, start=0.03, n_trials=12)
    assert lam == 0.03
    assert found == pytest.approx(zeros(learner, X, 0.03, True))


@pytest.mark.parametrize("penalty", ["l1", "l0"])
def test_data_of_zeros_have_a_lam_too(penalty):
    learner = make_learner(penalty=penalty)
    X = torch.zeros(20, 12, dtype=torch.float64)
    lam, found = find_lam(learner, X, SOLVER, debias=True, start=0.01, n_trials=12)
    assert found == 1.0
    assert 0 < lam < math.inf


# --- the encoder's threshold ------------------------------------------------------------------


@pytest.mark.parametrize("debias", [True, False])
@pytest.mark.parametrize("positive", [True, False])
@pytest.mark.parametrize("hidden", [(), (15,)])
@pytest.mark.parametrize("sparsity", [0.05, 0.5, 0.8, 0.95])
def test_encoder_has_the_zeros_asked_for(hidden, positive, debias, sparsity):
    # with random weights about half of its codes are 0: both more and fewer are asked for
    learner, X = make_learner(hidden=hidden, positive=positive), randn(150, 12, seed=2)
    cut_encoder(learner, X, sparsity, debias=debias, n_trials=12)
    found = encoder_zeros(learner, X, debias)
    if debias and sparsity == 0.05 and positive:
        # non-negative least squares leaves no more
        assert found > sparsity
    else:
        assert found == pytest.approx(sparsity, abs=0.02)


def test_no_encoder_has_no_threshold():
    learner = make_learner(encoder=False)
    cut_encoder(learner, randn(20, 12, seed=2), 0.8, debias=True, n_trials=12)
    assert learner.encoder is None


def test_an_encoder_that_is_too_sparse_gets_a_lower_threshold():
    learner, X = make_learner(), randn(150, 12, seed=2)
    with torch.no_grad():
        learner.encoder.b.fill_(-100.0)
    assert encoder_zeros(learner, X, False) == 1.0
    cut_encoder(learner, X, 0.8, debias=False, n_trials=12)
    assert encoder_zeros(learner, X, False) == pytest.approx(0.8, abs=0.01)
    with torch.no_grad():
        Z = learner.encoder(X)
    assert Z.isfinite().all()
    assert (Z >= 0).all()


@pytest.mark.parametrize("debias", [True, False])
def test_data_of_zeros_do_no_harm(debias):
    learner, X = make_learner(), torch.zeros(20, 12, dtype=torch.float64)
    cut_encoder(learner, X, 0.8, debias=debias, n_trials=12)
    with torch.no_grad():
        assert learner.encoder(randn(5, 12, seed=3)).isfinite().all()


@pytest.mark.parametrize("debias", [True, False])
def test_an_atom_of_zeros_is_left_out(debias):
    learner, X = make_learner(), randn(150, 12, seed=2)
    with torch.no_grad():
        learner.decoder.weight[:, 3] = 0.0
    cut_encoder(learner, X, 0.6, debias=debias, n_trials=12)
    with torch.no_grad():
        Z = learner.encoder(X)
    assert Z.isfinite().all()
    assert (Z[:, 3] == 0).all()


def test_rounding_does_not_decide_what_is_above_the_threshold():
    learner, X = make_learner(), randn(150, 12, seed=2)
    cut_encoder(learner, X, 0.8, debias=False, n_trials=12)
    with torch.no_grad():
        size = learner.encoder.evidence(X)
        distance = (size - learner.encoder.cut).abs() / learner.encoder.cut
    assert distance.min() > 1e-9


def test_threshold_is_set_aside_when_training_goes_on():
    learner, X = make_learner(), randn(50, 12, seed=2)
    cut_encoder(learner, X, 0.9, debias=False, n_trials=12)
    assert learner.encoder.cut is not None
    learner.configure(learner.energy_settings, learner.solver_settings, learner.training)
    assert learner.encoder.cut is None


def test_amplitudes_above_the_threshold_stay_as_they_are():
    for positive in (True, False):
        learner, X = make_learner(positive=positive), randn(50, 12, seed=2)
        with torch.no_grad():
            before = learner.encoder(X)
            cut_encoder(learner, X, 0.9, debias=False, n_trials=12)
            after = learner.encoder(X)
        kept = after != 0
        torch.testing.assert_close(after[kept], before[kept])
        assert kept.double().mean().item() == pytest.approx(0.1, abs=0.01)


def test_lam_never_vanishes_while_there_is_nothing_to_code():
    learner = make_learner(lam=1e-29)
    X = torch.zeros(20, 12, dtype=torch.float64)
    for _ in range(100):
        learner.step(X)
    lam = learner.energy_settings.lam
    assert lam > 0
    for _ in range(5):
        learner.step(randn(20, 12, seed=2))
    assert learner.energy_settings.lam > lam
