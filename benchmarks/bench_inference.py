"""One FISTA iteration and one training epoch against a plain autograd loop, in one run.

    python -m benchmarks.bench_inference

The problem has the shape of MNIST: batches of 250 rows, 784 features, 128 components, a hidden
layer of 1024 for the network. Both sides compute the same energy in float32; the other side is
the loop below, which leaves every gradient to autograd, as research code does.
"""

import torch
from torch.nn.functional import mse_loss

from skvdl import paper
from skvdl.energy import EnergySettings, Problem
from skvdl.models import LISTA, LinearDecoder, NetworkDecoder
from skvdl.solvers import SolverSettings, choose_solver
from skvdl.training import Learner

from .common import print_table, save, time_side_by_side

N, D, L, HIDDEN = 250, 784, 128, 1024
BATCHES = 20
ENERGY = {"lam": 0.005, "beta": 10.0, "variance_threshold": 0.5}
GAMMA = {"linear": 5.0, "network": 100.0}
STEP, TOL, MAX_ITER = 0.5, 1e-3, 200


def autograd_fista(Y, decoder, *, target, gamma, lam, beta, variance_threshold, tol, max_iter):
    """FISTA with a constant step, everything differentiated by autograd."""
    Z = X = target
    t = 1.0
    for _ in range(max_iter):
        X = X.detach().requires_grad_()
        energy = (decoder(X) - Y).square().mean(dim=1).sum()
        energy = energy + beta * (variance_threshold - X.std(dim=0)).relu().square().sum()
        energy = energy + gamma * (X - target).square().mean(dim=1).sum()
        (grad,) = torch.autograd.grad(energy, X)
        with torch.no_grad():
            Z_new = (X - STEP * grad - STEP * lam).relu()
            t_new = (1 + (1 + 4 * t * t) ** 0.5) / 2
            X = Z_new + (t - 1) / t_new * (Z_new - Z)
            moved = torch.norm(Z_new - Z) / torch.norm(Z)
            Z, t = Z_new, t_new
        if moved < tol:
            break
    return Z


class AutogradLearner:
    """The published training step, written plainly."""

    def __init__(self, decoder, encoder, gamma):
        self.decoder, self.encoder, self.gamma = decoder, encoder, gamma
        self.decoder_optimizer = torch.optim.Adam(decoder.parameters(), lr=3e-4)
        self.encoder_optimizer = torch.optim.Adam(encoder.parameters(), lr=1e-4)

    def step(self, Y):
        """Infer, then one step of each network."""
        prediction = self.encoder(Y)
        options = {"gamma": self.gamma, "tol": TOL, "max_iter": MAX_ITER, **ENERGY}
        Z = autograd_fista(Y, self.decoder, target=prediction.detach(), **options)
        losses = (
            (self.decoder_optimizer, mse_loss(self.decoder(Z), Y)),
            (self.encoder_optimizer, mse_loss(prediction, Z)),
        )
        for optimizer, loss in losses:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def make_decoder(kind, generator):
    if kind == "linear":
        return LinearDecoder(L, D, generator=generator, dtype=torch.float32)
    return NetworkDecoder(L, (HIDDEN,), D, generator=generator, dtype=torch.float32)


def make_encoder(generator):
    return LISTA(D, L, generator=generator, dtype=torch.float32)


def make_data(generator, n_rows):
    """Rows that are sparse non-negative mixtures, with a standard deviation near 1."""
    codes = torch.rand(n_rows, L, generator=generator).mul_(2)
    codes *= torch.rand(n_rows, L, generator=generator) < 0.2
    X = codes @ torch.randn(L, D, generator=generator)
    return X / X.std()


def products(kind, decoder, Y, Z):
    """The matrix products alone that an iteration cannot do without: the floor."""
    weights = [w.detach() for w in decoder.matrices]
    if kind == "linear":
        gram = weights[0].T @ weights[0]
        return lambda: Z @ gram

    def both_ways():
        hidden = Z @ weights[0].T
        return (hidden @ weights[1].T) @ weights[1] @ weights[0]

    return both_ways


def bench_iteration(kind, few=5, many=45):
    """Milliseconds of one iteration: the difference of a long and a short run, without set-up."""
    generator = torch.Generator().manual_seed(0)
    decoder = make_decoder(kind, generator)
    Y = make_data(generator, N)
    target = make_encoder(generator)(Y).detach()
    floor = products(kind, decoder, Y, target)
    energy = EnergySettings(gamma=GAMMA[kind], **ENERGY)

    def run(iterations, step_size="auto"):
        def infer():
            problem = Problem(decoder.data_term(Y, n_evaluations=many), energy, target)
            settings = SolverSettings(step_size, tol=-1.0, max_iter=iterations)
            return choose_solver(problem, settings).solve(problem, target)

        return infer

    def plain(iterations):
        options = {"target": target, "gamma": GAMMA[kind], **ENERGY}
        return lambda: autograd_fista(Y, decoder, tol=-1.0, max_iter=iterations, **options)

    sides = {"autograd": plain, "fixed step": lambda n: run(n, STEP), "auto": run}
    timed = {f"{name} {n}": side(n) for name, side in sides.items() for n in (few, many)}
    timed["floor"] = lambda: [floor() for _ in range(many)]
    seconds = time_side_by_side(timed)
    times = {
        name: 1e3 * (seconds[f"{name} {many}"] - seconds[f"{name} {few}"]) / (many - few)
        for name in sides
    }
    times["floor"] = 1e3 * seconds["floor"] / many
    return times


def bench_epoch(kind):
    """Seconds of an epoch of a few batches, started from the same weights on every side."""

    def learner(step_size):
        generator = torch.Generator().manual_seed(0)
        decoder = make_decoder(kind, generator)
        encoder = make_encoder(generator)
        if step_size is None:
            return AutogradLearner(decoder, encoder, GAMMA[kind])
        system = "VDL" if kind == "linear" else "VDL-NL"
        model = paper.make(system, gamma=GAMMA[kind], step_size=step_size, **ENERGY)
        return Learner(decoder, encoder, *model._settings(N * BATCHES, model.lam))

    X = make_data(torch.Generator().manual_seed(1), N * BATCHES)
    sides = {"autograd": learner(None), "fixed step": learner(STEP), "auto": learner("auto")}

    def epoch(side):
        return lambda: [side.step(Y) for Y in X.split(N)]

    return time_side_by_side({name: epoch(side) for name, side in sides.items()}, repeats=3)


def main():
    iteration, epoch, rows = {}, {}, []
    for kind in ("linear", "network"):
        times = iteration[kind] = bench_iteration(kind)
        for name, ms in times.items():
            rows.append(
                (f"{kind}, iteration", name, ms, times["autograd"] / ms, ms / times["floor"])
            )
        times = epoch[kind] = bench_epoch(kind)
        for name, s in times.items():
            label = f"{kind}, epoch of {BATCHES} batches"
            rows.append((label, name, 1e3 * s, times["autograd"] / s, "-"))
    print_table(("", "way", "ms", "times faster", "times the floor"), rows)
    save("bench_inference", iteration_ms=iteration, epoch_s=epoch)


if __name__ == "__main__":
    main()
