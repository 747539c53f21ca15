"""Time to fit a dictionary with its defaults, next to the autoencoder that comes nearest.

    SKVDL_DATA_HOME=... python -m benchmarks.bench_fitting [--quick] [data set ...]

VDL is told the share of zeros and nothing else. The rival is the autoencoder with the best
validation rows in `results/rivals.jsonl`, trained once with the settings chosen there; TopK and
BatchTopK are both run where they are within 0.3 dB of each other. Reconstruction is the
signal-to-noise ratio of test rows, in dB, and their PSNR relative to the range of the rows; of VDL
for exact codes and for the encoder's.
"""

import json
import sys
from time import perf_counter

from skvdl import VDL
from skvdl.metrics import psnr

from .common import RESULTS, print_table, save
from .rivals.autoencoders import NEAR, fit_autoencoder
from .rivals.data import DATASETS
from .rivals.measures import decibels, zeros

LEVELS = {"digits": (0.8,), "mnist": (0.6, 0.8), "natural": (0.77,)}
NAMES = ("topk", "batch-topk")


def chosen_rivals(name, level):
    """Settings that were chosen at the nearest level, of the better one or both."""
    lines = (RESULTS / "rivals.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    records = [r for r in records if r["dataset"] == name and r["method"] in NAMES]
    nearest = min({r["level"] for r in records}, key=lambda other: abs(other - level))
    found = {r["method"]: r["settings"] for r in records if r["level"] == nearest}
    best = max(settings["val_db"] for settings in found.values())
    return {m: s for m, s in found.items() if s["val_db"] >= best - NEAR}


def result(data, encode, decode, seconds):
    Z = encode(data.test)
    X_hat = decode(Z)
    return {
        "seconds": seconds,
        "db": float(decibels(data.test, X_hat)),
        "psnr": float(psnr(data.test, X_hat)),
        "zeros": float(zeros(Z)),
    }


def measure(data, level):
    start = perf_counter()
    model = VDL(data.n_components, target_sparsity=level, random_state=0).fit(data.train)
    seconds = perf_counter() - start
    found = {"VDL": result(data, model.transform, model.inverse_transform, seconds)}
    model.set_params(transform_method="encoder")
    found["VDL, encoder"] = result(data, model.transform, model.inverse_transform, seconds)
    for method, settings in chosen_rivals(data.name, level).items():
        k = max(1, round((1 - level) * data.n_components))
        how = method == "batch-topk", settings["learning_rate"], settings["epochs"], 0
        start = perf_counter()
        rival = fit_autoencoder(data.train, data.n_components, k, *how)
        seconds = perf_counter() - start
        found[method] = result(data, rival.encode, rival.decode, seconds)
    return found


def main(arguments):
    quick = "--quick" in arguments
    names = [a for a in arguments if a != "--quick"] or list(LEVELS)
    path = RESULTS / "bench_fitting.json"
    results = json.loads(path.read_text())["results"] if path.exists() and not quick else {}
    for name in names:
        data = DATASETS[name].prepare(name, quick=quick)
        for level in LEVELS[name]:
            found = results[f"{name}, {level}"] = measure(data, level)
            columns = ("seconds", "db", "psnr", "zeros")
            rows = [(f"{name}, {m}", *map(f.get, columns)) for m, f in found.items()]
            print_table(("what", *columns), rows)
            if not quick:
                save("bench_fitting", results=results)


if __name__ == "__main__":
    main(sys.argv[1:])
