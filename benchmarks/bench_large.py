"""The shape of a sparse autoencoder: thousands of components, a handful of them active.

    python -m benchmarks.bench_large [--quick]

A dictionary of 16 384 components on 768 features with 32 active ones per row, against a TopK
autoencoder of the same shape: rows per second of training and of coding, and memory beyond the
data. Rows are sparse combinations of random atoms, generated. Training is timed for some batches
of 250 rows in memory after the first ones. `bench_scale` shows for another shape that time grows
like the number of rows, and that memory does not grow.

VDL learns with Adam, because the statistics of least squares are a matrix of 16 384 x 16 384, and
with five iterations of inference per batch. Codes are the encoder's, as CSR.
"""

import resource
import sys
from time import perf_counter

import numpy as np
import torch

from skvdl import VDL
from skvdl.training import run_epoch

from .common import print_table, save
from .rivals.autoencoders import fit_autoencoder

SHAPE, ACTIVE, BATCH = (16_384, 768), 32, 250
STEPS, ROWS_TO_CODE = 4, 2000


def make_rows(atoms, n_rows, seed):
    rng = np.random.default_rng(seed)
    X = 0.05 * rng.standard_normal((n_rows, atoms.shape[1]), dtype=np.float32)
    for row in X:
        active = rng.integers(0, len(atoms), ACTIVE)
        row += rng.exponential(size=ACTIVE).astype(np.float32) @ atoms[active]
    return X


def make_atoms(shape):
    atoms = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    return atoms / np.linalg.norm(atoms, axis=1, keepdims=True)


def megabytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def seconds_of(function):
    start = perf_counter()
    function()
    return perf_counter() - start


def measure(shape):
    atoms = make_atoms(shape)
    X = make_rows(atoms, ROWS_TO_CODE, 1)
    before = megabytes()
    model = VDL(
        shape[0], init="data", target_sparsity=1 - ACTIVE / shape[0], learning_rate_init=0.01,
        inference_max_iter=5, transform_method="encoder", debias=False, sparse_output=True,
        transform_max_iter=100, random_state=0,
    )  # fmt: skip
    found = {"components": shape[0], "features": shape[1], "active": ACTIVE}
    found["seconds of the first partial_fit"] = seconds_of(lambda: model.partial_fit(X[:BATCH]))
    batches = torch.from_numpy(X[BATCH : (STEPS + 1) * BATCH])
    ours = {"fit": seconds_of(lambda: run_epoch(model._learner, batches)) / STEPS}
    ours["transform"] = seconds_of(lambda: model.transform(X))
    found["zeros of the codes"] = 1 - model.transform(X).nnz / (len(X) * shape[0])
    found["megabytes of ours"] = megabytes() - before
    found["megabytes of the weights"] = 2 * shape[0] * shape[1] * 4 / 2**20

    def rival(n_rows):
        return fit_autoencoder(X[:n_rows], shape[0], ACTIVE, False, 1e-3, 1, 0)

    # the start is the same for both numbers of steps
    seconds = [seconds_of(lambda n=n: rival(n * BATCH)) for n in (1, STEPS + 1)]
    theirs = {"fit": (seconds[1] - seconds[0]) / STEPS}
    autoencoder = rival(BATCH)
    theirs["transform"] = seconds_of(lambda: autoencoder.encode(X))
    for name, n_rows in (("fit", BATCH), ("transform", len(X))):
        found[f"rows per second, {name}"] = n_rows / ours[name]
        found[f"rows per second, {name}, TopK"] = n_rows / theirs[name]
        found[f"share of TopK's speed, {name}"] = theirs[name] / ours[name]
    return found


def main(arguments):
    quick = "--quick" in arguments
    found = measure((512, 64) if quick else SHAPE)
    print_table(("what", "figure"), list(found.items()))
    if not quick:
        save("bench_large", **found)


if __name__ == "__main__":
    main(sys.argv[1:])
