"""Iterations to the same energy: automatic step and restart against the published step.

    SKVDL_DATA_HOME=... python -m benchmarks.bench_iterations [linear] [network]

On models that have learnt from MNIST, for batches of the test set: iterations until the energy
of a batch is within 1e-4 of what a long run reaches, from the encoder's prediction, with the
energy as in training (hinge and proximity included), and as in `transform` (from zero). Then
training with either step, all else equal.
"""

import sys
from bisect import bisect_left

import numpy as np
import torch

from skvdl import paper
from skvdl.energy import Problem
from skvdl.metrics import n_dead_components, psnr, sparsity
from skvdl.solvers import SolverSettings, choose_solver

from .common import print_table, save
from .mnist import load_mnist, to_pixels

STEP = 0.5
ENERGIES = ("training", "transform")
MODELS = {
    "linear, lam 0.005": ("VDL", 0.005, 2),
    "linear, lam 0.02": ("VDL", 0.02, 2),
    "network, lam 0.003": ("VDL-NL", 0.003, 1),
}
LONG = 1000


def energy_after(max_iter, Y, decoder, step_size, settings, target=None):
    """Energy of a batch after so many iterations, from the target or from zero."""
    problem = Problem(decoder.data_term(Y), settings, target)
    solver = choose_solver(problem, SolverSettings(step_size, tol=0.0, max_iter=max_iter))
    return solver.solve(problem, target).energy.sum().item()


def iterations(goal, *problem):
    """Iterations after which the batch's energy is at most `goal`, by bisection."""

    def reached(count):
        return energy_after(count, *problem) <= goal

    count = 1 + bisect_left(range(1, LONG + 1), True, key=reached)
    return count if count <= LONG else None


def compare(model, X):
    """Mean iterations over a few batches, for the energies of training and of transform.

    None where a batch does not get there in a long run.
    """
    counts = {(name, step): [] for name in ENERGIES for step in ("auto", STEP)}
    for Y in torch.from_numpy(X[:500]).split(250):
        with torch.no_grad():
            target = model.encoder_(Y)
        in_training = model._learner.energy_settings
        energies = {"training": (in_training, target), "transform": (in_training.by_row(),)}
        for name, energy in energies.items():
            problems = {step: (Y, model.decoder_, step, *energy) for step in ("auto", STEP)}
            goal = min(energy_after(LONG, *p) for p in problems.values()) * (1 + 1e-4)
            for step, problem in problems.items():
                counts[name, step].append(iterations(goal, *problem))
    return {
        f"{name}, {step}": None if None in values else float(np.mean(values))
        for (name, step), values in counts.items()
    }


def quality(model, test):
    codes = model.transform(test)
    return {
        "psnr": psnr(to_pixels(test), to_pixels(model.inverse_transform(codes)), data_range=1),
        "zeros": sparsity(codes),
        "dead": n_dead_components(codes),
    }


def main(kinds):
    train, test = load_mnist()
    results, rows = {}, []
    for name, (system, lam, epochs) in MODELS.items():
        if not name.startswith(tuple(kinds)):
            continue
        shared = {"lam": lam, "recipe": "fast", "max_iter": epochs, "random_state": 0}
        models = {
            step: paper.make(system, step_size=step, **shared).fit(train) for step in ("auto", STEP)
        }
        counts = compare(models["auto"], test)
        trained = {str(step): quality(model, test) for step, model in models.items()}
        results[name] = {"iterations": counts, "trained_with": trained, "epochs": epochs}
        for energy in ("training", "transform"):
            auto, fixed = counts[f"{energy}, auto"], counts[f"{energy}, {STEP}"]
            cells = [f"over {LONG}" if count is None else count for count in (auto, fixed)]
            ratio = "-" if None in (auto, fixed) else fixed / auto
            rows.append((name, f"iterations, {energy}", *cells, ratio))
        for measure in ("psnr", "zeros", "dead"):
            values = [trained[str(step)][measure] for step in ("auto", STEP)]
            rows.append((name, f"{measure} after {epochs} epochs", *map(float, values), "-"))
    print_table(("", "", "auto", f"step {STEP}", "ratio"), rows)
    for name, result in results.items():
        save("bench_iterations_" + name.replace(", lam ", "_"), model=name, **result)


if __name__ == "__main__":
    main(sys.argv[1:] or ("linear", "network"))
