"""Exact lasso codes on many dictionaries, against SPAMS.

    SKVDL_DATA_HOME=... python -m benchmarks.bench_exact_codes [--quick] [dictionary ...]

Codes to a relative duality gap of 1e-5, float32, against `spams.lasso` with as many threads, on
the same dictionary and the same energy, from a start of zeros. Dictionaries: of the paper's VDL, of
unit norm after 1 and 14 epochs, Gaussian, and of 8 x 8 patches of photographs; 64 to 1024
components; a lam for each of four shares of zeros. Levels that no lam above 1e-5 reaches are left
out: without any penalty, half or more of non-negative codes can be 0. Rows: 10 000, or 2000 where
SPAMS takes more than a second for 1000, or 400 where it takes more than five. Signed codes are
compared at 80 and 90 % zeros, with 128 and 512 components.


Results are saved after each dictionary; those of dictionaries that are not run are kept.
"""

import json
import sys
from time import perf_counter

import numpy as np
import spams
import torch
from sklearn.datasets import load_sample_images
from sklearn.feature_extraction.image import extract_patches_2d

from skvdl import VarianceDictionaryLearning, paper
from skvdl.energy import EnergySettings, Problem
from skvdl.models import LinearDecoder
from skvdl.solvers import SolverSettings, choose_solver, relative_gaps

from .common import RESULTS, print_table, save, time_side_by_side
from .mnist import load_mnist

GAP = 1e-5
COMPONENTS = (64, 128, 512, 1024)
LEVELS = (0.5, 0.8, 0.9, 0.97)
SIGNED = [(size, level) for size in (128, 512) for level in (0.8, 0.9)]


def standardised(X):
    X = X - X.mean(axis=0)
    return np.ascontiguousarray(X / X.std(), dtype=np.float32)


def digits(n_rows):
    train, test = load_mnist()
    return standardised(train[:10_000]), standardised(test[:n_rows])


def photographs(n_rows):
    grey = [image.mean(axis=2) for image in load_sample_images().images]
    patches = np.concatenate(
        [extract_patches_2d(image, (8, 8), max_patches=10_000, random_state=0) for image in grey]
    )
    patches = standardised(patches.reshape(len(patches), -1))
    patches = patches[np.random.default_rng(0).permutation(len(patches))]
    return patches[:10_000], patches[-n_rows:]


def unit_norm(train, size, epochs):
    model = VarianceDictionaryLearning(
        size, penalty="l1", lam=0.01, init="data", center=False, scale=False, debias=False,
        encoder=None, max_iter=epochs, random_state=0,
    )  # fmt: skip
    return model.fit(train).components_


def gaussian(train, size):
    atoms = np.random.default_rng(size).standard_normal((size, train.shape[1]))
    return atoms / np.linalg.norm(atoms, axis=1, keepdims=True)


def variance(train, size):
    model = paper.make("VDL", n_components=size, lam=0.005, recipe="fast", max_iter=3)
    return model.set_params(random_state=0).fit(train).components_


DICTIONARIES = {
    "VDL": (digits, variance),
    "unit norm, 1 epoch": (digits, lambda train, size: unit_norm(train, size, 1)),
    "unit norm, 14 epochs": (digits, lambda train, size: unit_norm(train, size, 14)),
    "Gaussian": (digits, gaussian),
    "photographs": (photographs, lambda train, size: unit_norm(train, size, 3)),
}


class Ours:
    """Exact codes of a dictionary by the package's solver."""

    def __init__(self, atoms, positive):
        self.positive = positive
        size, n_features = atoms.shape
        how = {"generator": torch.Generator(), "dtype": torch.float32}
        self.decoder = LinearDecoder(size, n_features, **how)
        self.decoder.set_weights(torch.from_numpy(atoms.T), torch.zeros(1))

    def settings(self, lam):
        return EnergySettings(lam=lam, positive=self.positive)

    def __call__(self, X, lam):
        problem = Problem(self.decoder.data_term(torch.from_numpy(X)), self.settings(lam))
        return choose_solver(problem, SolverSettings("auto", GAP, 2000, exact=True)).solve(problem)

    def lam_for(self, X, level):
        """Return the lam with this share of zeros, or None if there is none."""
        low, high = 1e-5, 10.0
        for _ in range(16):
            lam = (low * high) ** 0.5
            zeros = float((self(X, lam).codes == 0).float().mean())
            low, high = (lam, high) if zeros < level else (low, lam)
        return lam if abs(zeros - level) < 0.01 else None


def spams_codes(X, atoms, lam, positive):
    threads = torch.get_num_threads()
    X, D = np.asfortranarray(X.T), np.asfortranarray(atoms.T)
    strength = lam * len(X) / 2
    found = spams.lasso(X, D=D, lambda1=strength, pos=positive, mode=2, numThreads=threads)
    # SPAMS sets the number of threads of the whole process
    torch.set_num_threads(threads)
    return found


def energies(X, codes, atoms, lam):
    X, codes, atoms = (np.asarray(a, dtype=np.float64) for a in (X, codes, atoms))
    return np.mean((X - codes @ atoms) ** 2, axis=1) + lam * np.abs(codes).sum(axis=1)


def compare(ours, X, atoms, level):
    lam = ours.lam_for(X[:200], level)
    if lam is None:
        return None
    start = perf_counter()
    spams_codes(X[:1000], atoms, lam, ours.positive)
    seconds = perf_counter() - start
    slow = seconds > 1.0
    X = X[: 400 if seconds > 5.0 else 2000] if slow else X
    seconds = time_side_by_side(
        {
            "ours": lambda: ours(X, lam),
            "spams": lambda: spams_codes(X, atoms, lam, ours.positive),
        },
        repeats=1 if slow else 3,
    )
    found = ours(X, lam)
    gap = relative_gaps(ours.decoder, torch.from_numpy(X), found.codes, ours.settings(lam))
    peer = spams_codes(X, atoms, lam, ours.positive).toarray().T
    ratio = energies(X, found.codes, atoms, lam) / energies(X, peer, atoms, lam)
    return {
        "components": len(atoms),
        "level": level,
        "positive": ours.positive,
        "rows": len(X),
        "lam": lam,
        "zeros": float((found.codes == 0).float().mean()),
        "seconds": seconds,
        "times_faster": seconds["spams"] / seconds["ours"],
        "largest_gap": float(gap.max()),
        "energy_over_spams": float(ratio.max()),
    }


def run(name, quick):
    prepare, learn = DICTIONARIES[name]
    train, test = prepare(1000 if quick else 10_000)
    results = []
    for size in COMPONENTS[:2] if quick else COMPONENTS:
        atoms = np.ascontiguousarray(learn(train, size), dtype=np.float32)
        points = [(True, level) for level in LEVELS]
        points += [(False, level) for width, level in SIGNED if width == size]
        for positive, level in points:
            result = compare(Ours(atoms, positive), test, atoms, level)
            if result is not None:
                results.append(result)
                print(name, size, result["times_faster"], flush=True)
    return results


def main(arguments):
    quick = "--quick" in arguments
    names = [a for a in arguments if a != "--quick"] or list(DICTIONARIES)
    path = RESULTS / "bench_exact_codes.json"
    results = json.loads(path.read_text())["results"] if path.exists() and not quick else {}
    for name in names:
        results[name] = run(name, quick)
        if not quick:
            save("bench_exact_codes", results=results)
    columns = ("components", "level", "positive", "rows")
    columns += ("times_faster", "largest_gap", "energy_over_spams")
    rows = [(name, *map(r.get, columns)) for name, found in results.items() for r in found]
    print_table(("dictionary", *(column.replace("_", " ") for column in columns)), rows)
    ratios = [r["times_faster"] for found in results.values() for r in found if r["positive"]]
    print(f"non-negative: lowest {min(ratios):.2f}, median {np.median(ratios):.2f}")


if __name__ == "__main__":
    main(sys.argv[1:])
