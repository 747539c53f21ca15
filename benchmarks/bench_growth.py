"""How the time of training grows with the number of components.

    SKVDL_DATA_HOME=... python -m benchmarks.bench_growth [--quick] [digits] [mnist]

For 64 to 4096 components, on digits (64 features) and on MNIST (784 features): the time of a step
on 250 rows, the iterations of inference that a row takes, and the time of the bare matrix products
of as many iterations, in the form that is cheaper for the shape. Steps are those of a model that
has seen an epoch. The time of a default `fit` on the 1797 digits is reported too.
"""

import sys
from time import perf_counter

import numpy as np
import torch
from sklearn.datasets import load_digits

from skvdl import VDL
from skvdl.training import run_epoch

from .common import bare_products, print_table, save, time_side_by_side
from .mnist import load_mnist

COMPONENTS = (64, 128, 256, 512, 1024, 2048, 4096)
BATCH = 250
STEPS = 4


def load(name):
    if name == "digits":
        return load_digits().data.astype(np.float32)
    return np.asarray(load_mnist()[0][:4000], dtype=np.float32)


def measure(X, size):
    model = VDL(size, init="data", max_iter=1, batch_size=BATCH, random_state=0).fit(X)
    learner, rows = model._learner, torch.from_numpy(X[: STEPS * BATCH])
    n_iter = []
    start = perf_counter()
    run_epoch(learner, rows, on_step=lambda: n_iter.append(learner.hints["n_iter"]))
    seconds = (perf_counter() - start) / STEPS
    mean = float(np.mean(n_iter))
    run = bare_products(BATCH, size, X.shape[1], lambda: round(mean))
    bare = time_side_by_side({"bare": run}, repeats=3)["bare"]
    return {"components": size, "step": seconds, "iterations": mean, "bare": bare}


def fit_seconds(X, size):
    start = perf_counter()
    model = VDL(size, random_state=0).fit(X)
    seconds = perf_counter() - start
    zeros = float((model.transform(X) == 0).mean())
    return {"fit": seconds, "steps": model.n_steps_, "zeros": zeros, "score": model.score(X)}


def main(arguments):
    quick = "--quick" in arguments
    names = [a for a in arguments if a != "--quick"] or ["digits", "mnist"]
    VDL(8, max_iter=1, random_state=0).fit(load("digits")[:300])
    results = {}
    for name in names:
        X, results[name] = load(name), []
        for size in COMPONENTS[:3] if quick else COMPONENTS:
            result = measure(X, size)
            if name == "digits":
                result |= fit_seconds(X, size)
            results[name].append(result)
            print(name, result, flush=True)
    if not quick:
        save("bench_growth", results=results)
    columns = ("components", "step", "iterations", "bare", "fit", "steps", "zeros", "score")
    rows = [(name, *map(r.get, columns)) for name, found in results.items() for r in found]
    print_table(("data", *columns), rows)


if __name__ == "__main__":
    main(sys.argv[1:])
