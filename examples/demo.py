"""The main job end to end, on scikit-learn's digits: codes, atoms, denoising, few labels.

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

OUTPUT = Path("demo_output")
N_COMPONENTS = 64
LABELS_PER_CLASS = 5
DRAWS = 20
NOISE = 0.25  # of the range of the pixels


def probe_accuracy(train, y_train, test, y_test):
    """Mean accuracy of a linear classifier that sees a few labels of each class."""
    rng = np.random.default_rng(0)
    accuracies = []
    for _ in range(DRAWS):
        few = np.concatenate(
            [rng.choice(np.flatnonzero(y_train == c), LABELS_PER_CLASS) for c in range(10)]
        )
        probe = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
        accuracies.append(probe.fit(train[few], y_train[few]).score(test, y_test))
    return np.mean(accuracies)


def draw_grid(axes, images):
    """Show small grey images, zero in the middle of the scale."""
    for ax in axes.ravel():
        ax.axis("off")
    for ax, image in zip(axes.ravel(), images, strict=False):
        limit = np.abs(image).max()
        ax.imshow(image.reshape(8, 8), cmap="RdBu_r", vmin=-limit, vmax=limit)


def draw_atoms(name, model, codes):
    """Draw what each component adds to an image, most used first."""
    order = np.argsort(-(codes > 0).mean(axis=0))
    atoms = model.decoder_.atoms().cpu().numpy()[order]
    figure, axes = plt.subplots(8, 8, figsize=(6, 6.4))
    figure.subplots_adjust(left=0.02, right=0.98, bottom=0.02, top=0.92, hspace=0.08, wspace=0.08)
    draw_grid(axes, atoms)
    figure.suptitle(f"{name}: what each component adds")
    return figure


def draw_denoising(rows):
    """Draw images below each other, each row with its name and PSNR."""
    figure, axes = plt.subplots(len(rows), 12, figsize=(12, 1.3 * len(rows)))
    figure.subplots_adjust(left=0.01, right=0.99, bottom=0.01, top=0.94, hspace=0.3, wspace=0.05)
    for line, (name, images) in zip(axes, rows, strict=True):
        for ax, image in zip(line, images, strict=False):
            ax.imshow(image.reshape(8, 8), cmap="gray_r", vmin=0, vmax=1)
            ax.axis("off")
        line[0].set_title(name, loc="left", fontsize=9)
    return figure


def main():
    start = perf_counter()
    X, y = load_digits(return_X_y=True)
    X = (X / 16).astype(np.float32)
    X_train, X_test, y_train, y_test = train_test_split(
        X, y, test_size=0.3, stratify=y, random_state=0
    )
    mean, scale = X_train.mean(), X_train.std()

    def normalise(pixels):
        return (pixels - mean) / scale

    noisy = X_test + NOISE * np.random.default_rng(0).normal(size=X_test.shape).astype(np.float32)
    models = {
        "VDL (linear)": VarianceDictionaryLearning(N_COMPONENTS, random_state=0, verbose=1),
        "VDL-NL (network)": NonLinearVDL(
            N_COMPONENTS, hidden_layer_sizes=(256,), random_state=0, verbose=1
        ),
    }
    raw = probe_accuracy(normalise(X_train), y_train, normalise(X_test), y_test)
    table = [
        ("raw pixels", "-", "-", "-", f"{raw:.1%}", f"{psnr(X_test, noisy, data_range=1):.1f}")
    ]
    rows = [("clean", X_test), (f"noisy, {table[0][-1]} dB", noisy)]
    OUTPUT.mkdir(exist_ok=True)
    for name, model in models.items():
        model.fit(normalise(X_train))
        codes = model.transform(normalise(X_test))
        rebuilt = model.inverse_transform(codes) * scale + mean
        # a stronger penalty for noisy data, codes by FISTA: the dictionary stays as it is
        model.set_params(transform_method="fista", lam=4 * model.lam)
        denoised = model.inverse_transform(model.transform(normalise(noisy))) * scale + mean
        model.set_params(transform_method="encoder", lam=model.lam / 4)
        accuracy = probe_accuracy(model.transform(normalise(X_train)), y_train, codes, y_test)
        quality = psnr(X_test, denoised, data_range=1)
        table.append(
            (
                name,
                f"{psnr(X_test, rebuilt, data_range=1):.1f}",
                f"{sparsity(codes):.1%}",
                f"{n_dead_components(codes)}",
                f"{accuracy:.1%}",
                f"{quality:.1f}",
            )
        )
        rows.append((f"denoised by {name}, {quality:.1f} dB", denoised))
        slug = type(model).__name__
        draw_atoms(name, model, codes).savefig(OUTPUT / f"atoms_{slug}.png", dpi=120)
    draw_denoising(rows).savefig(OUTPUT / "denoising.png", dpi=120)

    header = ("digits, test set", "PSNR dB", "zeros", "dead", "probe accuracy", "denoised dB")
    widths = [max(len(row[i]) for row in [header, *table]) for i in range(len(header))]
    print()
    for row in [header, *table]:
        print("  ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True)))
    print(
        f"\nprobe accuracy: logistic regression with {LABELS_PER_CLASS} labels a class, mean of "
        f"{DRAWS} draws\ndenoised: noise of {NOISE} of the pixel range, PSNR before and after"
    )
    print(f"Pictures: {OUTPUT.resolve()}, {', '.join(p.name for p in sorted(OUTPUT.iterdir()))}")
    print(f"All in {perf_counter() - start:.0f} s.")


if __name__ == "__main__":
    main()
