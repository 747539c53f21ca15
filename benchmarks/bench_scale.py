"""Growth with rows and with components, and memory.

    python -m benchmarks.bench_scale [largest number of rows]

Rows: one epoch and one transform on memory-mapped float32 data with 784 features, each in a
process of its own, with the memory it takes beyond the mapped file. Components: one FISTA run in
the Gram and in the factored form, and which of them the package picks.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np
import torch

from skvdl import VarianceDictionaryLearning
from skvdl.models import LinearDecoder
from skvdl.models._linear import GramTerm, ResidualTerm

from .common import print_table, save, time_side_by_side

D = 784
ROWS = (10_000, 100_000, 1_000_000)


def anonymous_memory():
    """Bytes of this process that are its own, mapped files not counted."""
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(x.split()[1]) * 1024 for x in status if x.startswith("RssAnon"))


def write_rows(path, n_rows):
    rng = np.random.default_rng(0)
    mixing = rng.normal(size=(64, D)).astype(np.float32)
    data = np.memmap(path, dtype=np.float32, mode="w+", shape=(n_rows, D))
    for start in range(0, n_rows, 10_000):
        codes = rng.exponential(size=(10_000, 64)).astype(np.float32)
        codes *= rng.random((10_000, 64)) < 0.1
        data[start : start + 10_000] = codes @ mixing
    data.flush()


def measure(path, n_rows):
    """Seconds of an epoch and of a transform, and the most memory seen after either."""
    X = np.memmap(path, dtype=np.float32, mode="r", shape=(n_rows, D))
    model = VarianceDictionaryLearning(128, random_state=0, sparse_output=True)
    model.partial_fit(X[:2000]).transform(X[:2000])
    before = anonymous_memory()
    model = VarianceDictionaryLearning(128, max_iter=1, random_state=0)
    start = perf_counter()
    model.fit(X)
    fit = perf_counter() - start
    after_fit = anonymous_memory()
    start = perf_counter()
    codes = model.transform(X)
    transform = perf_counter() - start
    extra = max(after_fit, anonymous_memory() - codes.nbytes) - before
    print(json.dumps({"rows": n_rows, "fit": fit, "transform": transform, "extra": extra}))


def bench_rows(largest):
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for n_rows in (n for n in ROWS if n <= largest):
            path = os.path.join(folder, "rows.memmap")
            write_rows(path, n_rows)
            command = [sys.executable, "-m", "benchmarks.bench_scale", "--measure", path]
            output = subprocess.run(
                [*command, str(n_rows)], check=True, capture_output=True, text=True
            )
            results.append(json.loads(output.stdout.splitlines()[-1]))
    return results


def bench_components():
    results = []
    for d in (64, 784):
        for n_components in (128, 512, 1024, 4096):
            generator = torch.Generator().manual_seed(0)
            decoder = LinearDecoder(n_components, d, generator=generator, dtype=torch.float32)
            Y = torch.randn(250, d, generator=generator)
            Z = torch.rand(250, n_components, generator=generator)
            W = decoder.weight.detach()

            def run(form, Y=Y, W=W, Z=Z):
                term = form(Y, W)
                for _ in range(20):
                    term.value_and_grad(Z)

            forms = {"gram": lambda r=run: r(GramTerm), "residual": lambda r=run: r(ResidualTerm)}
            seconds = time_side_by_side(forms, repeats=3)
            picked = type(decoder.data_term(Y, n_evaluations=20)).__name__
            picked = {"GramTerm": "gram", "ResidualTerm": "residual"}[picked]
            best = min(seconds, key=seconds.get)
            results.append({"d": d, "l": n_components, **seconds, "picked": picked, "best": best})
    return results


def main():
    if sys.argv[1:2] == ["--measure"]:
        measure(sys.argv[2], int(sys.argv[3]))
        return
    rows = bench_rows(int(sys.argv[1]) if sys.argv[1:] else ROWS[-1])
    per_row = [
        (r["rows"], r["fit"], r["transform"], 1e6 * r["fit"] / r["rows"], r["extra"] / 1e6)
        for r in rows
    ]
    print_table(("rows", "epoch s", "transform s", "epoch us per row", "extra MB"), per_row)
    print()
    components = bench_components()
    print_table(
        ("d, l", "gram s", "residual s", "picked", "best"),
        [
            (f"{c['d']}, {c['l']}", c["gram"], c["residual"], c["picked"], c["best"])
            for c in components
        ],
    )
    save("bench_scale", rows=rows, components=components)


if __name__ == "__main__":
    main()
