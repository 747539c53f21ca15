"""What would happen on a GPU, as far as that can be told without one.

Tensors on the device "meta" have a shape and a type but no data: an operation that mixes them with
tensors on the CPU raises as it would for a GPU, and one that looks at values on the host, which a
GPU would have to wait for, raises too.
"""

import pytest
import torch
from _helpers import seeded, training_settings

from skvdl.energy import EnergySettings, Problem
from skvdl.models import LISTA, LinearDecoder, NetworkDecoder
from skvdl.solvers import SolverSettings
from skvdl.solvers._fista import certified_step, start_certified
from skvdl.training import Learner

SOLVER = SolverSettings(step_size="auto", tol=1e-3, max_iter=3)


def make_learner(*, positive=True, unit_norm=False, network=False):
    how = {"generator": seeded(0), "dtype": torch.float32}
    decoder = NetworkDecoder(5, (7,), 6, **how) if network else LinearDecoder(5, 6, **how)
    encoder = LISTA(6, 5, positive=positive, **how)
    energy = EnergySettings(lam=0.01, positive=positive, beta=10.0, gamma=5.0)
    return Learner(decoder, encoder, energy, SOLVER, training_settings(unit_norm=unit_norm))


def devices(learner):
    modules = (learner.decoder, learner.encoder)
    return {p.device.type for module in modules for p in module.parameters()}


@pytest.mark.parametrize("data_on", ["meta", "cpu"])
@pytest.mark.parametrize("positive", [True, False])
@pytest.mark.parametrize("unit_norm", [True, False])
def test_weights_on_another_device_start_from_data_on_either(data_on, positive, unit_norm):
    learner = make_learner(positive=positive, unit_norm=unit_norm).to("meta")
    X = torch.zeros(20, 6, device=data_on)
    learner.start_from(X, torch.arange(20, device=data_on), seeded(1))
    assert devices(learner) == {"meta"}


def test_weights_left_behind_are_noticed():
    learner = make_learner()
    slope = torch.full_like(learner.encoder.b, 0.01)
    with pytest.raises(RuntimeError, match="meta"):
        learner.encoder.imitate(learner.decoder, slope, torch.zeros(20, 6, device="meta"))


@pytest.mark.parametrize("positive", [True, False])
@pytest.mark.parametrize("coupled", [True, False])
@pytest.mark.parametrize("n_evaluations", [1, 1000])
def test_iterations_look_at_nothing_on_the_host(positive, coupled, n_evaluations):
    decoder = make_learner().to("meta").decoder
    Y = torch.zeros(20, 6, device="meta")
    settings = EnergySettings(lam=0.01, positive=positive, beta=10.0 * coupled)
    problem = Problem(decoder.data_term(Y, n_evaluations=n_evaluations), settings)
    problem.set_step(1.0 / problem.curvature())
    rows = start_certified(problem, problem.start(None))
    for _ in range(3):
        certified_step(problem, rows)
    assert rows.C.device.type == "meta"


def test_data_term_of_a_network_stays_on_its_device():
    decoder = make_learner(network=True).to("meta").decoder
    Y, Z = torch.zeros(20, 6, device="meta"), torch.zeros(20, 5, device="meta")
    problem = Problem(decoder.data_term(Y), EnergySettings(lam=0.01, beta=10.0))
    energy, grad = problem.value_and_grad(Z)
    assert {energy.device.type, grad.device.type, problem.curvature().device.type} == {"meta"}
