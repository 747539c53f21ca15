"""Timing side by side, a description of the machine, tables and JSON."""

import json
import os
import platform
from pathlib import Path
from statistics import median
from time import perf_counter, sleep

import numpy
import scipy
import sklearn
import torch

import skvdl

RESULTS = Path(__file__).parent / "results"


def time_side_by_side(functions, repeats=7):
    """Median seconds of each function, called in turn so that noise hits all alike.

    Parameters
    ----------
    functions : dict of str to callable
        What to time.
    repeats : int, default=7
        Rounds, after one to warm up.

    Returns
    -------
    dict of str to float
        Median seconds.
    """
    seconds = {name: [] for name in functions}
    for round_number in range(repeats + 1):
        for name, function in functions.items():
            # threads of the last one keep their cores for some milliseconds
            sleep(0.02)
            start = perf_counter()
            function()
            elapsed = perf_counter() - start
            if round_number:
                seconds[name].append(elapsed)
    return {name: median(values) for name, values in seconds.items()}


def bare_products(n_rows, n_components, n_features, count):
    """Return a function that computes the matrix products of `count()` iterations, and no more.

    They go through the Gram matrix, or through the data and back where that is cheaper. Nothing is
    allocated: fresh memory would be no floor.
    """
    Z = torch.rand(n_rows, n_components)
    back = torch.empty_like(Z)
    factored = 2 * n_features < n_components
    M = torch.rand(n_components, n_features if factored else n_components)
    out = Z @ M

    def run():
        for _ in range(count()):
            torch.mm(Z, M, out=out)
            if factored:
                torch.mm(out, M.T, out=back)

    return run


def machine():
    """What the figures were measured on."""
    return {
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "torch_threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "skvdl": skvdl.__version__,
        **{m.__name__: m.__version__ for m in (torch, numpy, scipy, sklearn)},
    }


def print_table(header, rows):
    """Print rows of cells, numbers to three digits."""
    cells = [[f"{c:.3g}" if isinstance(c, float) else str(c) for c in row] for row in rows]
    widths = [max(len(row[i]) for row in [header, *cells]) for i in range(len(header))]
    for row in [header, *cells]:
        first, *rest = (cell.ljust(w) for cell, w in zip(row, widths, strict=True))
        print("  ".join([first, *(c.strip().rjust(len(c)) for c in rest)]))


def save(name, **results):
    """Write results with the machine's description as JSON and say where."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps({"machine": machine(), **results}, indent=2) + "\n")
    print(
        f"\nwritten to {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}"
    )
