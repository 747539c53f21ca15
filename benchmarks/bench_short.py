"""Short benchmarks of the package against itself and its floor, compared with committed figures.

    python -m benchmarks.bench_short [--save]

Every figure is a ratio of two times measured side by side, so that figures of different machines
can be compared; lower is better. `make bench` runs it. With `--save`, what was measured replaces
the committed figures. Data are generated: sparse mixtures of random atoms, with noise. Bare
products are those of as many iterations as a row takes on average, in the form that is cheaper for
the shape. scikit-learn's `lasso_cd` gets float64, in which it converges.
"""

import json
import sys
import warnings

import numpy as np
import torch
from sklearn.decomposition import sparse_encode
from sklearn.exceptions import ConvergenceWarning

from skvdl import VDL
from skvdl.solvers import codes_by_row, refit
from skvdl.training import run_epoch

from .common import RESULTS, bare_products, print_table, save, time_side_by_side

# Components and features.
SHAPES = [(64, 64), (256, 64), (128, 784), (512, 784)]
N_ROWS = 1000
# What is slower than before by more than this is pointed out.
NOTICEABLE = 1.3


def make_data(n_components, n_features, n_rows=N_ROWS):
    rng = np.random.default_rng(0)
    atoms = rng.standard_normal((n_components, n_features))
    atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
    codes = rng.exponential(size=(n_rows, n_components))
    codes *= rng.random(codes.shape) < min(0.1, n_features / n_components / 8)
    X = codes @ atoms + 0.02 * rng.standard_normal((n_rows, n_features))
    return X.astype(np.float32)


def ratios_of_codes(shape):
    """Codes over their bare products, the refit over the codes, a step over its bare products."""
    X = make_data(*shape)
    model = VDL(shape[0], init="data", max_iter=3, target_sparsity=0.9, random_state=0).fit(X)
    learner, settings = model._learner, model._coder()
    Y, _ = learner.prepare(torch.from_numpy(X))
    how = learner.decoder, Y, settings.energy_settings, settings.solver_settings
    found = codes_by_row(*how)
    n_iter = int(found.n_iter.float().mean())
    batch = torch.from_numpy(X[:250])

    def refit_found():
        refit(learner.decoder, Y, found.codes, positive=True)

    seconds = time_side_by_side(
        {
            "codes": lambda: codes_by_row(*how),
            "products": bare_products(N_ROWS, *shape, lambda: n_iter),
            "refit": refit_found,
            "step": lambda: run_epoch(learner, batch),
            "step products": bare_products(250, *shape, lambda: learner.hints["n_iter"]),
        },
        repeats=3,
    )
    return {
        "l0 codes / bare products": seconds["codes"] / seconds["products"],
        "refit / l0 codes": seconds["refit"] / seconds["codes"],
        "step of training / bare products": seconds["step"] / seconds["step products"],
    }


def ratios_of_lasso(shape):
    """Exact lasso codes over those of scikit-learn, and their refit over them."""
    X = make_data(*shape)
    model = VDL(
        shape[0], penalty="l1", lam=0.02, init="data", max_iter=2, debias=False, random_state=0
    ).fit(X)
    learner, settings = model._learner, model._coder()
    Y, _ = learner.prepare(torch.from_numpy(X))
    how = learner.decoder, Y, settings.energy_settings, settings.solver_settings
    codes = codes_by_row(*how).codes
    atoms, alpha = learner.decoder.atoms().numpy(), model.lam * X.shape[1] / 2
    rows = (Y - learner.decoder(torch.zeros_like(codes[:1]))).detach().numpy()[:200]
    rows, atoms = rows.astype(np.float64), atoms.astype(np.float64)

    def lasso_cd():
        with warnings.catch_warnings():
            # a rival that gives up is no rival
            warnings.simplefilter("error", ConvergenceWarning)
            sparse_encode(rows, atoms, algorithm="lasso_cd", alpha=alpha, positive=True)

    seconds = time_side_by_side(
        {
            "lasso": lambda: codes_by_row(*how),
            "lasso_cd": lasso_cd,
            "refit": lambda: refit(learner.decoder, Y, codes, positive=True),
        },
        repeats=3,
    )
    per_row = seconds["lasso_cd"] / len(rows) * N_ROWS
    return {
        "exact lasso codes / scikit-learn's lasso_cd": seconds["lasso"] / per_row,
        "refit / exact lasso codes": seconds["refit"] / seconds["lasso"],
    }


def measure():
    found = {}
    for shape in SHAPES:
        for ratios in (ratios_of_codes(shape), ratios_of_lasso(shape)):
            for name, ratio in ratios.items():
                found[f"{name}, {shape[0]} components, {shape[1]} features"] = ratio
    return found


def main(arguments):
    found = measure()
    path = RESULTS / "bench_short.json"
    known = json.loads(path.read_text())["ratios"] if path.exists() else {}
    rows = []
    for name, ratio in found.items():
        change = ratio / known[name] if name in known else float("nan")
        rows.append((name, known.get(name, "-"), ratio, change, change > NOTICEABLE))
    print_table(("ratio of times", "committed", "now", "change", "slower"), rows)
    if "--save" in arguments:
        save("bench_short", ratios=found)


if __name__ == "__main__":
    main(sys.argv[1:])
