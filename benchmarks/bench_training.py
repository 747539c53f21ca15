"""Time to quality on MNIST: the fast recipe of `skvdl.paper` against 200 epochs of autograd.

    SKVDL_DATA_HOME=... python -m benchmarks.bench_training [linear] [network]

The paper's recipe costs 200 epochs; the second of them is timed with the plain loop of
`bench_inference`, at the published rates, and multiplied. The fast recipe is timed whole,
once, with the quality it reaches on the test set. One result a file, so that an interrupted run
loses little.
"""

import sys
from time import perf_counter

import torch

from skvdl import paper
from skvdl.metrics import n_dead_components, psnr, sparsity

from . import bench_inference
from .common import print_table, save
from .mnist import load_mnist, to_pixels

GOALS = {
    ("linear", 0.005): (20.5, 0.68, 50),
    ("linear", 0.02): (17.5, 0.91, 50),
    ("network", 0.003): (22.5, 0.58, 8),
    ("network", 0.02): (18.1, 0.92, 8),
}
PAPER_EPOCHS = 200


def paper_seconds(kind, lam, X):
    """Seconds of the paper's 200 epochs with the autograd loop: its second epoch, times 200."""
    bench_inference.ENERGY["lam"] = lam
    generator = torch.Generator().manual_seed(0)
    decoder = bench_inference.make_decoder(kind, generator)
    encoder = bench_inference.make_encoder(generator)
    learner = bench_inference.AutogradLearner(decoder, encoder, bench_inference.GAMMA[kind])
    for _ in range(2):
        start = perf_counter()
        for Y in torch.from_numpy(X).split(bench_inference.N):
            learner.step(Y)
        seconds = perf_counter() - start
    return seconds * PAPER_EPOCHS


def run(kind, lam, train, test):
    """Fit once with the fast recipe; quality, seconds, and seconds of the paper's recipe."""
    system = "VDL" if kind == "linear" else "VDL-NL"
    model = paper.make(system, lam=lam, recipe="fast", random_state=0, verbose=1)
    start = perf_counter()
    model.fit(train)
    seconds = perf_counter() - start
    codes = model.transform(test)
    rebuilt = to_pixels(model.inverse_transform(codes))
    result = {
        "kind": kind,
        "lam": lam,
        "epochs": model.n_iter_,
        "psnr": psnr(to_pixels(test), rebuilt, data_range=1),
        "zeros": sparsity(codes),
        "dead": n_dead_components(codes),
        "seconds": seconds,
        "paper_seconds": paper_seconds(kind, lam, train),
    }
    result["times_faster"] = result["paper_seconds"] / seconds
    save(f"bench_training_{kind}_{lam}", **result)
    return result


def main(kinds):
    train, test = load_mnist()
    rows = []
    for (kind, lam), (goal_psnr, goal_zeros, goal_speed) in GOALS.items():
        if kind not in kinds:
            continue
        r = run(kind, lam, train, test)
        rows.append((f"{kind}, lam {lam}", "goal", goal_psnr, goal_zeros, "-", "-", goal_speed))
        found = (r["psnr"], r["zeros"], r["epochs"], r["seconds"], r["times_faster"])
        rows.append(("", "found", *found))
    print_table(("", "", "PSNR dB", "zeros", "epochs", "s", "times faster than the paper"), rows)


if __name__ == "__main__":
    main(sys.argv[1:] or ("linear", "network"))
