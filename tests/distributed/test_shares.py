"""What several processes compute together, with groups that live in one process."""

import pytest
import torch
from _helpers import make_decoder, randn, seeded, training_settings

from skvdl.distributed import Group, Share, Stream
from skvdl.energy import EnergySettings, Problem, SharedSpread, variance_hinge
from skvdl.energy._terms import variance_hinge_force
from skvdl.models import LISTA
from skvdl.solvers import SolverSettings
from skvdl.solvers._fista import certified_step, start_certified
from skvdl.training import Learner


class Twins(Group):
    """Two processes with equal rows, of which this is either; counts messages and numbers."""

    size = 2

    def __init__(self):
        self.n_messages = self.n_numbers = 0

    def sum(self, *tensors):
        self.n_messages += 1
        self.n_numbers += sum(t.numel() for t in tensors)
        return [2 * t for t in tensors]


def share_of(Y):
    return Share(2 * len(Y), len(Y), Twins())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("constant", [0.0, 1.0, 1e3])
def test_spread_is_that_of_all_rows(dtype, constant):
    Z = randn(30, 5, seed=0, dtype=dtype)
    Z[:, 1] = constant
    Z[:, 2] = 1e-2 * Z[:, 2] + constant
    spread = SharedSpread(share_of(Z))
    spread.ask(Z - 0.01)
    spread.ask(Z)
    both, eps = torch.cat([Z, Z]), torch.finfo(dtype).eps
    tol = 100 * eps**0.5
    torch.testing.assert_close(spread.hinge(0.8), variance_hinge(both, 0.8), rtol=tol, atol=tol)
    for found, expected in zip(spread.force(Z, 0.8), variance_hinge_force(both, 0.8), strict=True):
        torch.testing.assert_close(
            found, expected[: len(found)], rtol=tol, atol=1e-3 * tol + eps * constant
        )
    assert spread.force(Z, 0.8)[1][1] == 0


def make_learner(hidden, **settings):
    decoder = make_decoder(hidden, 6, 9, seed=0)
    encoder = LISTA(9, 6, generator=seeded(1), dtype=torch.float64)
    energy = EnergySettings(lam=0.01, beta=settings.pop("beta", 0.0), gamma=1.0)
    solver = SolverSettings(step_size="auto", tol=0.0, max_iter=20)
    return Learner(decoder, encoder, energy, solver, training_settings(**settings))


@pytest.mark.parametrize(
    ("hidden", "settings", "most"),
    [
        ((), {}, 1),
        ((), {"online": True, "unit_norm": True}, 1),
        # one per iteration, and few at the ends; after a restart one more
        ((), {"beta": 5.0}, 20 + 10),
        # two per iteration, because the step follows from how the gradient has changed, and one
        # more where convergence is checked
        ((7,), {"beta": 5.0}, 2 * 20 + 20),
    ],
)
def test_a_step_is_that_of_all_rows_and_sends_few_messages(hidden, settings, most):
    Y = randn(30, 9, seed=2)
    one, two = make_learner(hidden, **settings), make_learner(hidden, **settings)
    expected = one.step(torch.cat([Y, Y]))
    share = share_of(Y)
    found = two.step(Y, share)
    for a, b in zip(one.decoder.parameters(), two.decoder.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-12)
    assert found.keys() == expected.keys()
    for name in found:
        torch.testing.assert_close(found[name], expected[name], rtol=0, atol=1e-10, msg=name)
    assert share.group.n_messages <= most
    weights = sum(p.numel() for m in (two.decoder, two.encoder) for p in m.parameters())
    # with the statistics of a step, and for each iteration two sums per component and a norm
    assert share.group.n_numbers <= weights + 49 + 100 + (most - 1) * 13


def test_iterations_look_at_nothing_on_the_host():
    Y = torch.zeros(20, 9, device="meta")
    decoder = make_decoder((), 6, 9, seed=0).to("meta")
    settings = EnergySettings(lam=0.01, beta=10.0)
    problem = Problem(decoder.data_term(Y), settings, share=share_of(Y))
    problem.set_step(1.0 / problem.curvature())
    rows = start_certified(problem, problem.start(None))
    for _ in range(3):
        certified_step(problem, rows)
    assert rows.C.device.type == "meta"


def test_a_stream_has_the_rows_of_its_blocks():
    X = randn(50, 3, seed=0)
    lengths = [7, 0, 20, 23]
    blocks = X.split(lengths)
    stream = Stream(lambda number: blocks[number], lengths, 3, X.dtype)
    index = torch.randint(50, (80,), generator=seeded(1))
    assert torch.equal(stream.gather(index), X[index])
    assert torch.equal(stream.take(slice(5, 40))[0], X[5:40])
    kept = torch.tensor([30, 2, 11])
    stream.keep(kept)
    assert torch.equal(stream.gather(kept), X[kept])
    assert torch.equal(stream.gather(index), X[index])
    assert stream.at_hand(torch.tensor([0, 11, 30, 49])).tolist() == [11, 30]
    assert torch.equal(torch.cat(list(stream.parts())), X)
    order = stream.shuffle(torch.arange(50), seeded(2))
    assert order.sort().values.tolist() == list(range(50))
    block = torch.repeat_interleave(torch.arange(4), torch.tensor(lengths))[order]
    # each block in one piece, shuffled
    assert len(block.unique_consecutive()) == 3
    assert (order.diff() != 1).sum() > 30
