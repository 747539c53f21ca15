"""Whether atoms of networks look like noise: their low frequencies against a dictionary's.

    SKVDL_DATA_HOME=... python -m benchmarks.bench_network_atoms [--quick] [dataset ...]

Trains the network and the linear decoder with their defaults on digits, 20 000 rows of MNIST and
40 000 natural patches, and saves after each. Reports the share of an atom's energy below a fifth
of the sampling frequency (median and lowest tenth of the atoms; white noise has the share of the
frequencies themselves), the proximity term of the first and the last epoch, and PSNR and zeros of
the encoder's codes of validation rows. Then trains a network without a regularizer at a constant
rate, whose l1 norm should collapse.
"""

import sys
from time import perf_counter

import numpy as np

from skvdl import NonLinearVDL, VarianceDictionaryLearning
from skvdl.datasets import fetch_mnist, load_digits, load_natural_patches
from skvdl.metrics import psnr, sparsity

from .common import print_table, save

RADIUS = 0.2
DATASETS = {"digits": load_digits, "mnist": fetch_mnist, "natural": load_natural_patches}
# Components, hidden units, rows and epochs; None is everything, or the default.
SIZES = {
    "digits": (64, 256, None, "auto"),
    "mnist": (128, 1024, 20_000, 20),
    "natural": (256, 1024, 40_000, 10),
}
QUICK = {
    "digits": (64, 256, None, 60),
    "mnist": (64, 256, 5000, 10),
    "natural": (64, 256, 5000, 10),
}


def low_share(atoms, shape):
    """Share of each atom's energy in frequencies up to `RADIUS`, and of these frequencies."""
    power = np.abs(np.fft.fft2(atoms.reshape(-1, *shape))) ** 2
    low = np.hypot(np.fft.fftfreq(shape[0])[:, None], np.fft.fftfreq(shape[1])) <= RADIUS
    return power[:, low].sum(axis=1) / power.sum(axis=(1, 2)), low.mean()


def measure(model, train, val, shape):
    start = perf_counter()
    model.fit(train)
    seconds = perf_counter() - start
    codes = model.transform(val)
    share, noise = low_share(model.decoder_.atoms().cpu().numpy().astype(float), shape)
    curves = model.history_
    return {
        "low_share": float(np.median(share)),
        "low_share_lowest_tenth": float(np.quantile(share, 0.1)),
        "low_share_white_noise": float(noise),
        "proximity_first": curves["proximity"][0],
        "proximity_last": curves["proximity"][-1],
        **{f"{name}_first": curves[name][0] for name in ("l0", "l1") if name in curves},
        **{f"{name}_last": curves[name][-1] for name in ("l0", "l1") if name in curves},
        "psnr": float(psnr(val, model.inverse_transform(codes), data_range=np.ptp(val))),
        "zeros": float(sparsity(codes)),
        "epochs": model.n_iter_,
        "seconds": seconds,
    }


def run(name, sizes):
    n_components, hidden, n_rows, epochs = sizes[name]
    data = DATASETS[name]()
    train, val = data.X_train[:n_rows], data.X_val
    shape = (8, 8) if name == "digits" else (28, 28)
    linear = VarianceDictionaryLearning(n_components, random_state=0)
    settings = {"hidden_layer_sizes": hidden, "max_iter": epochs, "random_state": 0}
    network = NonLinearVDL(n_components, **settings)
    found = {
        "linear": measure(linear, train, val, shape),
        "network": measure(network, train, val, shape),
    }
    # a weight that is given: one that is looked for would make up for the collapse
    settings |= {"lam": network.history_["lam"][-1], "debias": False}
    unguarded = NonLinearVDL(n_components, regularizer=None, learning_rate="constant", **settings)
    return found | {"network, no regularizer": measure(unguarded, train, val, shape)}


def main(arguments):
    quick = "--quick" in arguments
    names = [a for a in arguments if a != "--quick"] or list(DATASETS)
    results = {}
    for name in names:
        results[name] = run(name, QUICK if quick else SIZES)
        save("network_atoms", quick=quick, results=results)
    columns = ("low_share", "low_share_lowest_tenth", "proximity_first", "proximity_last")
    columns += ("l1_first", "l1_last", "psnr", "zeros", "seconds")
    rows = [
        (f"{name}, {kind}", *(found.get(column, "-") for column in columns))
        for name, kinds in results.items()
        for kind, found in kinds.items()
    ]
    print_table(("", *columns), rows)


if __name__ == "__main__":
    main(sys.argv[1:])
