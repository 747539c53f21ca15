"""Codes of 10 000 MNIST rows with 128 atoms: exact ones and the encoder's, against the peers.

    SKVDL_DATA_HOME=... python -m benchmarks.bench_codes

Exact: `transform_method="fista"` to a relative duality gap of 1e-5, against SPAMS with as many
threads and scikit-learn's `lasso_cd`, on the same dictionary and the same energy, non-negative
codes. All in float32 but `lasso_cd`: in float32 most of its rows never reach its tolerance and use
up all iterations, and in float64 it is several times faster. Encoder: against its bare matrix
products.
"""

import copy
import warnings

import numpy as np
import spams
import torch
from sklearn.decomposition import SparseCoder
from sklearn.exceptions import ConvergenceWarning

from skvdl import paper

from .common import print_table, save, time_side_by_side
from .mnist import load_mnist

GAP = 1e-5


def spams_codes(X, atoms, lam):
    """SPAMS minimises 1/2 ||x - D z||^2 + lambda1 ||z||_1 over columns."""
    X, D = np.asfortranarray(X.T), np.asfortranarray(atoms.T)
    threads = torch.get_num_threads()

    def run():
        strength = lam * len(X) / 2
        found = spams.lasso(X, D=D, lambda1=strength, pos=True, mode=2, numThreads=threads)
        # SPAMS sets the number of threads of the whole process
        torch.set_num_threads(threads)
        return found

    return run


def sklearn_codes(X, atoms, lam):
    """scikit-learn's coder on a few rows; coordinate descent takes rows one by one anyway."""
    X = X.astype(np.float64)
    coder = SparseCoder(
        atoms.astype(np.float64),
        transform_algorithm="lasso_cd",
        transform_alpha=lam * X.shape[1] / 2,
        positive_code=True,
        transform_max_iter=1000,
    )

    def run():
        with warnings.catch_warnings():
            # a rival that gives up is no rival
            warnings.simplefilter("error", ConvergenceWarning)
            return coder.transform(X)

    return run


def energies(X, codes, atoms, lam):
    return np.mean((X - codes @ atoms) ** 2, axis=1) + lam * np.abs(codes).sum(axis=1)


def encoder_products(model, X):
    """The bare products of the encoder: one with the data, three with the codes."""
    encoder, Y = model.encoder_, torch.from_numpy(X)
    U, S = encoder.U.detach().T.contiguous(), encoder.S.detach().T.contiguous()

    @torch.no_grad()
    def run():
        Z = Y @ U
        for _ in range(encoder.n_iter):
            Z = Z @ S
        return Z

    return run


def main():
    train, test = load_mnist()
    few = test[:500]
    share = len(few) / len(test)
    results, rows = [], []
    for lam in (0.005, 0.001):
        model = paper.make("VDL", lam=lam, recipe="fast", max_iter=3, random_state=0).fit(train)
        atoms = model.components_
        exact = copy.deepcopy(model)
        exact.set_params(transform_method="fista", transform_tol=GAP, transform_max_iter=2000)
        times = time_side_by_side(
            {
                "fista": lambda exact=exact: exact.transform(test),
                "spams": spams_codes(test, atoms, lam),
                "lasso_cd": sklearn_codes(few, atoms, lam),
                "encoder": lambda model=model: model.transform(test),
                "products": encoder_products(model, test),
            },
            repeats=5,
        )
        times["lasso_cd"] /= share
        codes = exact.transform(test)
        peer = spams_codes(test, atoms, lam)().toarray().T
        gap = exact.duality_gap(test)
        result = {
            "lam": lam,
            "seconds": times,
            "zeros": float((codes == 0).mean()),
            "largest_gap": float(gap.max()),
            "energy_over_spams": float(
                (energies(test, codes, atoms, lam) / energies(test, peer, atoms, lam)).mean()
            ),
            "fista_times_faster_than_spams": times["spams"] / times["fista"],
            "fista_times_faster_than_lasso_cd": times["lasso_cd"] / times["fista"],
            "encoder_times_faster_than_lasso_cd": times["lasso_cd"] / times["encoder"],
            "encoder_over_products": times["encoder"] / times["products"],
        }
        results.append(result)
        for name, value in result.items():
            if name not in ("lam", "seconds"):
                rows.append((f"lam {lam}", name.replace("_", " "), value))
        rows.extend((f"lam {lam}", f"{name}, ms", 1e3 * s) for name, s in times.items())
    print_table(("", "", ""), rows)
    save("bench_codes", runs=results)


if __name__ == "__main__":
    main()
