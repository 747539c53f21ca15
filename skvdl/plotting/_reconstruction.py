"""Images above their reconstructions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils._optional_dependencies import check_matplotlib_support

from .._host import to_host
from ..metrics import psnr
from ._common import new_axes
from ._images import check_count, resolve_image_shape, show, tile

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["ReconstructionDisplay"]

# Room for a line of text between rows of images, in inches.
_LINE = 0.24


class ReconstructionDisplay:
    """Images above their reconstructions, with the PSNR of each.

    Parameters
    ----------
    X : array-like of shape (n_images, n_features)
        The clean images.
    reconstruction : array-like of shape (n_images, n_features)
        Their reconstructions.
    noisy : array-like of shape (n_images, n_features), optional
        The images that were reconstructed, if not `X` itself.
    image_shape : tuple of int, optional
        (height, width), or (height, width, 3) for RGB. By default square, if possible.
    data_range : float, optional
        Distance between the smallest and the largest possible value. By default that of `X`.

    Attributes
    ----------
    figure_ : matplotlib.figure.Figure
        The figure.
    ax_ : matplotlib.axes.Axes
        The axes, with all rows.
    images_ : list of matplotlib.image.AxesImage
        One per row.
    psnr_ : dict of ndarray
        PSNR of each image of the row with this name.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skvdl import VDL
    >>> from skvdl.plotting import ReconstructionDisplay
    >>> X = load_digits().data / 16
    >>> vdl = VDL(16, max_iter=5, random_state=0).fit(X)
    >>> display = ReconstructionDisplay.from_estimator(vdl, X, n_images=4)
    >>> display.psnr_["reconstruction"].shape
    (4,)
    """

    def __init__(
        self,
        X: ArrayLike,
        reconstruction: ArrayLike,
        *,
        noisy: ArrayLike | None = None,
        image_shape: Sequence[int] | None = None,
        data_range: float | None = None,
    ) -> None:
        self.X = X
        self.reconstruction = reconstruction
        self.noisy = noisy
        self.image_shape = image_shape
        self.data_range = data_range

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: ArrayLike,
        *,
        noisy: ArrayLike | None = None,
        image_shape: Sequence[int] | None = None,
        n_images: int = 8,
        data_range: float | None = None,
        ax: Axes | None = None,
        im_kw: dict[str, Any] | None = None,
    ) -> Self:
        """Reconstruct images and draw them.

        Parameters
        ----------
        estimator : estimator
            Fitted, with `transform` and `inverse_transform`; may be a pipeline.
        X : array-like of shape (n_samples, n_features)
            Clean images.
        noisy : array-like of shape (n_samples, n_features), optional
            The same images with noise. If given, these are reconstructed.
        image_shape : tuple of int, optional
            (height, width), or (height, width, 3) for RGB. By default square, if possible.
        n_images : int, default=8
            Number of images to draw, from the first.
        data_range : float, optional
            Distance between the smallest and the largest possible value. By default that of `X`.
        ax : matplotlib.axes.Axes, optional
            Axes to draw on. By default those of a new figure.
        im_kw : dict, optional
            Keyword arguments for `imshow`, such as ``cmap``.

        Returns
        -------
        ReconstructionDisplay
            The display, drawn.
        """
        check_matplotlib_support(f"{cls.__name__}.from_estimator")
        check_count("n_images", n_images)
        source = to_host(X if noisy is None else noisy)[:n_images]
        rebuilt = estimator.inverse_transform(estimator.transform(source))
        return cls.from_predictions(
            X,
            rebuilt,
            noisy=noisy,
            image_shape=image_shape,
            n_images=n_images,
            data_range=data_range,
            ax=ax,
            im_kw=im_kw,
        )

    @classmethod
    def from_predictions(
        cls,
        X: ArrayLike,
        reconstruction: ArrayLike,
        *,
        noisy: ArrayLike | None = None,
        image_shape: Sequence[int] | None = None,
        n_images: int = 8,
        data_range: float | None = None,
        ax: Axes | None = None,
        im_kw: dict[str, Any] | None = None,
    ) -> Self:
        """Draw images with given reconstructions.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or (n_samples, height, width[, 3])
            Clean images.
        reconstruction : array-like of the same shape
            Their reconstructions, at least `n_images` of them.
        noisy : array-like of the same shape, optional
            The images that were reconstructed, if not `X` itself.
        image_shape : tuple of int, optional
            (height, width), or (height, width, 3) for RGB. By default that of `X`, or square
            if possible.
        n_images : int, default=8
            Number of images to draw, from the first.
        data_range : float, optional
            Distance between the smallest and the largest possible value. By default that of `X`.
        ax : matplotlib.axes.Axes, optional
            Axes to draw on. By default those of a new figure.
        im_kw : dict, optional
            Keyword arguments for `imshow`, such as ``cmap``.

        Returns
        -------
        ReconstructionDisplay
            The display, drawn.
        """
        check_matplotlib_support(f"{cls.__name__}.from_predictions")
        check_count("n_images", n_images)
        X = np.asarray(to_host(X))
        display = cls(
            X[:n_images],
            np.asarray(to_host(reconstruction))[:n_images],
            noisy=None if noisy is None else np.asarray(to_host(noisy))[:n_images],
            image_shape=image_shape,
            # The range of all images, as in psnr and its scorer.
            data_range=float(X.max()) - float(X.min()) if data_range is None else data_range,
        )
        return display.plot(ax, im_kw=im_kw)

    def plot(self, ax: Axes | None = None, *, im_kw: dict[str, Any] | None = None) -> Self:
        """Draw the images.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Axes to draw on. By default those of a new figure.
        im_kw : dict, optional
            Keyword arguments for `imshow`, such as ``cmap``.

        Returns
        -------
        ReconstructionDisplay
            The display.
        """
        check_matplotlib_support(f"{type(self).__name__}.plot")
        X = np.asarray(self.X, dtype=float)
        given = {"input": X, "noisy": self.noisy, "reconstruction": self.reconstruction}
        rows = {k: np.asarray(v, dtype=float) for k, v in given.items() if v is not None}
        for name, images in rows.items():
            if images.shape != X.shape:
                raise ValueError(
                    f"{name} has shape {images.shape}, but X has {X.shape}; they must be the same "
                    "images."
                )
        shape = X.shape[1:] if self.image_shape is None and X.ndim > 2 else self.image_shape
        rows = {name: images.reshape(len(X), -1) for name, images in rows.items()}
        shape = resolve_image_shape(shape, rows["input"].shape[1])
        low, high = X.min(), X.max()
        data_range = high - low if self.data_range is None else self.data_range
        if not data_range > 0:
            raise ValueError(
                f"The range of the data is {data_range}; if X is constant, pass data_range."
            )
        if low == high:
            high = low + data_range

        gap = max(1, round(shape[1] / 16))
        strips = [tile(images.reshape(-1, *shape), len(X), gap) for images in rows.values()]
        height, width = strips[0].shape[:2]
        if ax is None:
            inch = min(2.5 * len(X), max(7.0, 0.5 * len(X))) / width
            tall = len(rows) * height * inch + (len(rows) - 1) * _LINE
            ax = new_axes(width * inch + 1.0, tall + 0.1)
        else:
            box = ax.get_window_extent()
            inch = min(box.width / width, 0.8 * box.height / (len(rows) * height))
            inch /= ax.figure.dpi
        # No wider than the image below.
        caption = {"fontsize": min(7.0, 15.0 * inch * shape[1]), "ha": "center", "color": "0.3"}
        self.images_, self.psnr_, centres, top = [], {}, [], 0.0
        for (name, images), strip in zip(rows.items(), strips, strict=True):
            if name != "input":
                top += _LINE / inch
                pairs = zip(rows["input"], images, strict=True)
                values = [psnr([x], [y], data_range=data_range) for x, y in pairs]
                self.psnr_[name] = np.array(values)
                for i, value in enumerate(values):
                    x = i * (shape[1] + gap) + shape[1] / 2
                    ax.text(x, top - 0.2 * _LINE / inch, f"{value:.1f} dB", **caption)
            options = {"cmap": "gray", "extent": (0, width, top + height, top), **(im_kw or {})}
            self.images_.append(show(ax, strip, low, high, **options))
            centres.append(top + height / 2)
            top += height
        ax.set(xlim=(0, width), ylim=(top, 0), xticks=[], anchor="W")
        ax.set_yticks(centres, list(rows))
        ax.tick_params(length=0)
        ax.spines[:].set_visible(False)
        self.ax_, self.figure_ = ax, ax.figure
        return self
