"""How much longer codes take when another process keeps a core busy.

    python -m benchmarks.bench_busy

Time beside a busy loop over time without, for codes of one model each, with as many threads as
torch has by default. On n cores, a fair share for n threads beside one more costs (n + 1) / n times
the time without, and threads that have to wait for the last one twice the time. Data are generated.
"""

import multiprocessing
import os
from statistics import median
from time import perf_counter, sleep

from skvdl import VDL, VDLNL

from .bench_short import make_data
from .common import print_table, save

REPEATS = 7


def spin():
    while True:
        pass


def seconds_of(function):
    function()
    found = []
    for _ in range(REPEATS):
        sleep(0.02)
        start = perf_counter()
        function()
        found.append(perf_counter() - start)
    return median(found)


def models(X):
    settings = {"init": "data", "max_iter": 2, "random_state": 0}
    yield "exact lasso codes", VDL(128, penalty="l1", target_sparsity=0.8, **settings)
    yield "l0 codes, refitted", VDL(128, target_sparsity=0.8, **settings)
    exact = {"transform_method": "fista", "transform_max_iter": 100, "transform_tol": 1e-3}
    yield "codes of a network", VDLNL(64, max_iter=2, random_state=0, **exact)


def main():
    X = make_data(128, 784, 4000)
    functions = {}
    for name, model in models(X):
        model.fit(X)
        functions[name] = lambda model=model: model.transform(X)
    quiet = {name: seconds_of(function) for name, function in functions.items()}
    other = multiprocessing.get_context("spawn").Process(target=spin, daemon=True)
    other.start()
    try:
        # until the process has started and spins
        sleep(2)
        busy = {name: seconds_of(function) for name, function in functions.items()}
    finally:
        other.kill()
    ratios = {name: busy[name] / quiet[name] for name in functions}
    save("bench_busy", cores=os.cpu_count(), quiet=quiet, busy=busy, ratios=ratios)
    rows = [(name, quiet[name], busy[name], ratios[name]) for name in functions]
    print_table(("what", "seconds, quiet", "seconds, busy", "ratio"), rows)


if __name__ == "__main__":
    main()
