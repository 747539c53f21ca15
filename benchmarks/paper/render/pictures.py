"""Pictures of models, drawn while they are at hand."""

from pathlib import Path

import numpy as np

from skvdl.plotting import AtomsDisplay, ReconstructionDisplay

from .figures import new_figure, save_figure

# Atoms are sorted by how often the test set's first rows use them: with FISTA that takes a while.
_USAGE_ROWS = 1000


def draw_atoms(model, data, title: str, path: Path) -> None:
    """Draw the atoms and, if there is an encoder, its filters."""
    kinds = {"decoder": "atoms"} | ({"encoder": "encoder filters"} if model.encoder_ else {})
    figure, axes = new_figure(1, len(kinds), 6 * len(kinds), 6.3)
    for ax, (kind, name) in zip(axes[0], kinds.items(), strict=True):
        AtomsDisplay.from_estimator(
            model, image_shape=data.image_shape, X=data.X_test[:_USAGE_ROWS], kind=kind, ax=ax
        )
        ax.set_title(f"{title}: {name}", loc="left", fontsize="medium")
    save_figure(figure, path)


def draw_denoising(
    clean: np.ndarray,
    noisy: dict[float, np.ndarray],
    rebuilt: dict[tuple[str, float], np.ndarray],
    image_shape: tuple[int, ...],
    title: str,
    path: Path,
) -> None:
    """Draw images, with noise, and their reconstructions: a column for each kind of codes.

    All images are given as pixels: `noisy` by sigma, `rebuilt` by the kind of codes and sigma, with
    sigma 0 for reconstructions of the clean images.
    """
    names = list(dict.fromkeys(codes for codes, _ in rebuilt))
    levels = list(dict.fromkeys(sigma for _, sigma in rebuilt))
    figure, axes = new_figure(len(levels), len(names), 7.5 * len(names), 2.8 * len(levels))
    for (codes, sigma), images in rebuilt.items():
        ax = axes[levels.index(sigma), names.index(codes)]
        ReconstructionDisplay.from_predictions(
            clean,
            images,
            noisy=noisy[sigma] if sigma else None,
            image_shape=image_shape,
            n_images=len(clean),
            data_range=1.0,
            ax=ax,
            im_kw={"cmap": "gray"},
        )
        noise = f"sigma {sigma:g}" if sigma else "no noise"
        ax.set_title(f"{title}, {codes} codes, {noise}", loc="left", fontsize="medium")
    save_figure(figure, path)
