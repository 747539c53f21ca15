"""Atoms of a decoder, or filters of an encoder, in a grid."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils._optional_dependencies import check_matplotlib_support
from sklearn.utils.validation import check_is_fitted

from .._host import to_host
from ._common import new_axes, split_at_last
from ._images import check_count, resolve_image_shape, show, tile

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["AtomsDisplay"]


class AtomsDisplay:
    """Atoms of a decoder, or filters of an encoder, as a grid of images.

    The most used come first, row by row. Zero is in the middle of the colour scale.

    Parameters
    ----------
    atoms : array-like of shape (n_atoms, n_features)
        One image per row.
    image_shape : tuple of int, optional
        (height, width), or (height, width, 3) for RGB. By default square, if possible.
    usage : array-like of shape (n_atoms,), optional
        How much each atom is used. By default the norm of the atom.
    kind : {"decoder", "encoder"}, default="decoder"
        Whether the rows are atoms of a decoder or filters of an encoder.

    Attributes
    ----------
    figure_ : matplotlib.figure.Figure
        The figure.
    ax_ : matplotlib.axes.Axes
        The axes with the grid.
    image_ : matplotlib.image.AxesImage
        The whole grid as one image.
    order_ : ndarray of shape (n_shown,)
        Indices of the atoms that are shown, in their order in the grid.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skvdl import VDL
    >>> from skvdl.plotting import AtomsDisplay
    >>> X = load_digits().data / 16
    >>> vdl = VDL(16, max_iter=5, random_state=0).fit(X)
    >>> display = AtomsDisplay.from_estimator(vdl, X=X)
    >>> display.image_.get_array().shape
    (32, 32)
    """

    def __init__(
        self,
        atoms: ArrayLike,
        image_shape: Sequence[int] | None = None,
        usage: ArrayLike | None = None,
        *,
        kind: Literal["decoder", "encoder"] = "decoder",
    ) -> None:
        self.atoms = atoms
        self.image_shape = image_shape
        self.usage = usage
        self.kind = kind

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        *,
        image_shape: Sequence[int] | None = None,
        X: ArrayLike | None = None,
        kind: Literal["decoder", "encoder"] = "decoder",
        n_atoms: int | None = None,
        scale: Literal["atom", "shared"] = "atom",
        ax: Axes | None = None,
        im_kw: dict[str, Any] | None = None,
    ) -> Self:
        """Draw the atoms of a fitted estimator.

        Parameters
        ----------
        estimator : estimator
            Fitted. In a pipeline, the last step that has atoms is drawn.
        image_shape : tuple of int, optional
            (height, width), or (height, width, 3) for RGB. By default square, if possible.
        X : array-like of shape (n_samples, n_features), optional
            Data: atoms are sorted by the share of its rows whose codes use them. Without data,
            they are sorted by their norm. In a pipeline, the data go through the steps before.
        kind : {"decoder", "encoder"}, default="decoder"
            What to draw: the atoms, each being what a component adds to a reconstruction when
            it alone is active, or the filters of the encoder.
        n_atoms : int, optional
            Largest number of atoms to draw, the most used first. By default all.
        scale : {"atom", "shared"}, default="atom"
            Whether each atom has its own colour scale, which makes weak atoms visible, or all
            share one.
        ax : matplotlib.axes.Axes, optional
            Axes to draw on. By default those of a new figure.
        im_kw : dict, optional
            Keyword arguments for `imshow`, such as ``cmap``.

        Returns
        -------
        AtomsDisplay
            The display, drawn.
        """
        check_matplotlib_support(f"{cls.__name__}.from_estimator")
        check_is_fitted(estimator)
        if kind not in ("decoder", "encoder"):
            raise ValueError(f"kind={kind!r} must be 'decoder' or 'encoder'.")
        before, model = split_at_last(estimator, _has_atoms)
        if model is None:
            raise TypeError(
                f"This {type(estimator).__name__} has no atoms; pass a fitted model that has "
                "components_ or decoder_, or a pipeline with one."
            )
        if kind == "encoder":
            if getattr(model, "encoder_", None) is None:
                raise ValueError(
                    f"This {type(model).__name__} has no encoder, so there are no filters to "
                    "draw; use kind='decoder', or fit with encoder='lista'."
                )
            atoms = to_host(model.encoder_.U)
        elif hasattr(model, "components_"):
            atoms = model.components_
        else:
            atoms = to_host(model.decoder_.atoms())
        usage = None
        if X is not None:
            codes = to_host(X)
            for step in [*before, model]:
                codes = step.transform(codes)
            used = (codes if sparse.issparse(codes) else np.asarray(codes)) != 0
            usage = np.asarray(used.mean(axis=0)).ravel()
        display = cls(atoms, image_shape, usage, kind=kind)
        return display.plot(ax, n_atoms=n_atoms, scale=scale, im_kw=im_kw)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        n_atoms: int | None = None,
        scale: Literal["atom", "shared"] = "atom",
        im_kw: dict[str, Any] | None = None,
    ) -> Self:
        """Draw the atoms.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Axes to draw on. By default those of a new figure.
        n_atoms : int, optional
            Largest number of atoms to draw, the most used first. By default all.
        scale : {"atom", "shared"}, default="atom"
            Whether each atom has its own colour scale, which makes weak atoms visible, or all
            share one.
        im_kw : dict, optional
            Keyword arguments for `imshow`, such as ``cmap``.

        Returns
        -------
        AtomsDisplay
            The display.
        """
        check_matplotlib_support(f"{type(self).__name__}.plot")
        if scale not in ("atom", "shared"):
            raise ValueError(f"scale={scale!r} must be 'atom' or 'shared'.")
        atoms = np.asarray(self.atoms, dtype=float)
        shape = resolve_image_shape(self.image_shape, atoms.shape[1])
        usage = np.linalg.norm(atoms, axis=1) if self.usage is None else np.asarray(self.usage)
        if len(usage) != len(atoms):
            raise ValueError(f"usage has {len(usage)} numbers for {len(atoms)} atoms.")
        check_count("n_atoms", n_atoms)
        order = np.argsort(-usage, kind="stable")[:n_atoms]
        shown = atoms[order]
        limits = np.abs(shown).max(axis=1, keepdims=True)
        limit = limits.max() or 1.0
        if scale == "atom":
            shown = shown / np.where(limits > 0, limits, 1.0)
            limit = 1.0
        n_columns = _n_columns(len(shown), shape)
        grid = tile(shown.reshape(-1, *shape), n_columns, gap=0)
        if ax is None:
            inch = 5.0 / max(grid.shape[:2])
            ax = new_axes(grid.shape[1] * inch, grid.shape[0] * inch + 0.3)
        self.image_ = show(ax, grid, -limit, limit, **{"cmap": "coolwarm", **(im_kw or {})})
        _separate(ax, n_columns, len(grid) // shape[0], shape)
        ax.set_axis_off()
        title = f"{len(atoms)} {'filters' if self.kind == 'encoder' else 'atoms'}, "
        if len(shown) < len(atoms):
            title = f"{len(shown)} of {title}"
        if self.usage is None:
            title += "largest first"
        else:
            title += "most used first"
            if not usage.all():
                title += f" ({np.sum(usage == 0)} never used)"
        ax.set_title(title, loc="left", fontsize="medium")
        self.order_ = order
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _has_atoms(estimator: BaseEstimator) -> bool:
    return hasattr(estimator, "components_") or hasattr(estimator, "decoder_")


def _n_columns(n_tiles: int, shape: tuple[int, ...]) -> int:
    """Return the columns of a grid about square, or wider if that leaves no place empty."""
    square = math.ceil(math.sqrt(n_tiles * shape[0] / shape[1]))
    square = min(max(1, square), n_tiles)
    return next((n for n in range(square, 2 * square + 1) if n_tiles % n == 0), square)


def _separate(ax: Axes, n_columns: int, n_rows: int, shape: tuple[int, ...]) -> None:
    """Draw lines between tiles; gaps would be wide between tiles of few pixels."""
    box = ax.get_window_extent()
    tile = min(box.width / n_columns, box.height / n_rows) * 72 / ax.figure.dpi
    lines: dict[str, Any] = {"color": ax.get_facecolor(), "linewidth": 0.06 * tile}
    height, width = n_rows * shape[0] - 0.5, n_columns * shape[1] - 0.5
    ax.vlines(np.arange(1, n_columns) * shape[1] - 0.5, -0.5, height, **lines)
    ax.hlines(np.arange(1, n_rows) * shape[0] - 0.5, -0.5, width, **lines)
