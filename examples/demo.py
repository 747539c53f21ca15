"""The main tasks end to end on scikit-learn's digits: codes, atoms, denoising, few labels.

Fits both estimators, prints one table and writes pictures into ``demo_output``.
"""

from pathlib import Path
from time import perf_counter

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skvdl import NonLinearVDL, VarianceDictionaryLearning
from skvdl.metrics import n_dead_components, psnr, sparsity
from skvdl.plotting import AtomsDisplay, ReconstructionDisplay

OUTPUT = Path("demo_output")
N_COMPONENTS = 64
LABELS_PER_CLASS = 5
DRAWS = 20
NOISE = 0.25  # of the range of the pixels
INK = {"cmap": "gray_r"}


def probe_accuracy(train, y_train, test, y_test):
    """Mean accuracy of a linear classifier trained with a few labels per class."""
    rng = np.random.default_rng(0)
    accuracies = []
    for _ in range(DRAWS):
        few = np.concatenate(
            [
                rng.choice(np.flatnonzero(y_train == c), LABELS_PER_CLASS, replace=False)
                for c in range(10)
            ]
        )
        probe = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
        accuracies.append(probe.fit(train[few], y_train[few]).score(test, y_test))
    return np.mean(accuracies)


def main():
    start = perf_counter()
    X, y = load_digits(return_X_y=True)
    X = (X / 16).astype(np.float32)
    X_train, X_test, y_train, y_test = train_test_split(
        X, y, test_size=0.3, stratify=y, random_state=0
    )
    noisy = X_test + NOISE * np.random.default_rng(0).normal(size=X_test.shape).astype(np.float32)
    shared = {"n_components": N_COMPONENTS, "random_state": 0, "verbose": 1}
    models = {
        "VDL (linear)": VarianceDictionaryLearning(**shared),
        "VDL-NL (network)": NonLinearVDL(hidden_layer_sizes=(256,), max_iter=150, **shared),
    }
    raw = probe_accuracy(X_train, y_train, X_test, y_test)
    table = [
        ("raw pixels", "-", "-", "-", f"{raw:.1%}", f"{psnr(X_test, noisy, data_range=1):.1f}")
    ]
    OUTPUT.mkdir(exist_ok=True)
    denoising, axes = plt.subplots(len(models), 1, figsize=(11, 6.8), layout="constrained")
    for ax, (name, model) in zip(axes, models.items(), strict=True):
        model.fit(X_train)
        codes = model.transform(X_test)
        rebuilt = model.inverse_transform(codes)
        accuracy = probe_accuracy(model.transform(X_train), y_train, codes, y_test)
        # a larger lam for noisy data, and codes by FISTA: the decoder stays as it is
        model.set_params(transform_method="fista", lam=4 * model.lam_)
        denoised = model.inverse_transform(model.transform(noisy))
        model.set_params(lam=None)
        quality = f"{psnr(X_test, denoised, data_range=1):.1f}"
        table.append(
            (
                name,
                f"{psnr(X_test, rebuilt, data_range=1):.1f}",
                f"{sparsity(codes):.1%}",
                f"{n_dead_components(codes)}",
                f"{accuracy:.1%}",
                quality,
            )
        )
        atoms = AtomsDisplay.from_estimator(model, X=X_test)
        atoms.ax_.set_title(f"{name}: {atoms.ax_.get_title(loc='left')}", loc="left")
        atoms.figure_.savefig(OUTPUT / f"atoms_{type(model).__name__}.png", dpi=120)
        ReconstructionDisplay.from_predictions(
            X_test, denoised, noisy=noisy, n_images=12, data_range=1, ax=ax, im_kw=INK
        )
        ax.set_title(f"{name}: noisy {table[0][-1]} dB, denoised {quality} dB", loc="left")
    denoising.savefig(OUTPUT / "denoising.png", dpi=120)

    header = ("digits, test set", "PSNR dB", "zeros", "dead", "probe accuracy", "denoised dB")
    widths = [max(len(row[i]) for row in [header, *table]) for i in range(len(header))]
    print()
    for row in [header, *table]:
        print("  ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True)))
    print(
        f"\nprobe accuracy: logistic regression with {LABELS_PER_CLASS} labels per class, mean of "
        f"{DRAWS} draws\ndenoised: noise of {NOISE} of the pixel range, PSNR before and after"
    )
    print(f"Pictures: {OUTPUT.resolve()}, {', '.join(p.name for p in sorted(OUTPUT.iterdir()))}")
    print(f"All in {perf_counter() - start:.0f} s.")


if __name__ == "__main__":
    main()
