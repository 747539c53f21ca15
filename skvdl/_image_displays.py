"""Displays of images: atoms in a grid, reconstructions below what they were made from."""

import math

import numpy as np
from scipy import sparse
from sklearn.utils._optional_dependencies import check_matplotlib_support
from sklearn.utils.validation import check_is_fitted

from .metrics import psnr

__all__ = ["AtomsDisplay", "ReconstructionDisplay", "new_axes", "to_host"]

# Room for a line of text between rows of images, in inches.
_LINE = 0.24


class AtomsDisplay:
    """Atoms of a decoder, or filters of an encoder, as a grid of images.

    The most used come first, row by row. Zero is in the middle of the colour scale.

    Parameters
    ----------
    atoms : array-like of shape (n_atoms, n_features)
        One image a row.
    image_shape : tuple of int, optional
        (height, width), or (height, width, 3) for RGB. By default square, where that is
        possible.
    usage : array-like of shape (n_atoms,), optional
        How much each is used; the norm of the atom when not given.
    kind : {"decoder", "encoder"}, default="decoder"
        Whether they are atoms of a decoder or filters of an encoder.

    Attributes
    ----------
    figure_ : matplotlib.figure.Figure
        The figure.
    ax_ : matplotlib.axes.Axes
        The axes with the grid.
    image_ : matplotlib.image.AxesImage
        The whole grid, one image.
    order_ : ndarray of shape (n_shown,)
        Which atoms are shown, in this order.

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

    def __init__(self, atoms, image_shape=None, usage=None, *, kind="decoder"):
        self.atoms = atoms
        self.image_shape = image_shape
        self.usage = usage
        self.kind = kind

    @classmethod
    def from_estimator(
        cls,
        estimator,
        *,
        image_shape=None,
        X=None,
        kind="decoder",
        n_atoms=None,
        scale="atom",
        ax=None,
        im_kw=None,
    ):
        """Draw what a fitted estimator has learnt.

        Parameters
        ----------
        estimator : estimator
            Fitted, not in a pipeline.
        image_shape : tuple of int, optional
            (height, width), or (height, width, 3) for RGB. By default square, where that is
            possible.
        X : array-like of shape (n_samples, n_features), optional
            Data: atoms are sorted by the share of its rows whose codes use them. Without, by
            their norm.
        kind : {"decoder", "encoder"}, default="decoder"
            What to draw: what each component adds to a reconstruction when it alone is active,
            or the filters by which the encoder looks for it.
        n_atoms : int, optional
            How many at most, the most used; all by default.
        scale : {"atom", "shared"}, default="atom"
            Whether each atom has a colour scale of its own, so that weak ones are seen too.
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure by default.
        im_kw : dict, optional
            Arguments for `imshow`, like ``cmap``.

        Returns
        -------
        AtomsDisplay
            The display, drawn.
        """
        check_matplotlib_support(f"{cls.__name__}.from_estimator")
        check_is_fitted(estimator)
        if kind == "encoder":
            if getattr(estimator, "encoder_", None) is None:
                raise ValueError(
                    f"This {type(estimator).__name__} has no encoder, so there are no filters to "
                    "draw; use kind='decoder', or fit with encoder='lista'."
                )
            atoms = to_host(estimator.encoder_.U)
        elif kind != "decoder":
            raise ValueError(f"kind={kind!r} must be 'decoder' or 'encoder'.")
        elif hasattr(estimator, "components_"):
            atoms = estimator.components_
        elif hasattr(estimator, "decoder_"):
            atoms = to_host(estimator.decoder_.atoms())
        else:
            raise TypeError(
                f"A {type(estimator).__name__} has no atoms; pass the fitted model itself, of a "
                "pipeline the step."
            )
        usage = None
        if X is not None:
            codes = estimator.transform(to_host(X))
            used = (codes if sparse.issparse(codes) else np.asarray(codes)) != 0
            usage = np.asarray(used.mean(axis=0)).ravel()
        display = cls(atoms, image_shape, usage, kind=kind)
        return display.plot(ax, n_atoms=n_atoms, scale=scale, im_kw=im_kw)

    def plot(self, ax=None, *, n_atoms=None, scale="atom", im_kw=None):
        """Draw.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure by default.
        n_atoms : int, optional
            How many at most, the most used; all by default.
        scale : {"atom", "shared"}, default="atom"
            Whether each atom has a colour scale of its own, so that weak ones are seen too.
        im_kw : dict, optional
            Arguments for `imshow`, like ``cmap``.

        Returns
        -------
        AtomsDisplay
            The display.
        """
        check_matplotlib_support(f"{type(self).__name__}.plot")
        if scale not in ("atom", "shared"):
            raise ValueError(f"scale={scale!r} must be 'atom' or 'shared'.")
        atoms = np.asarray(self.atoms, dtype=float)
        shape = _image_shape(self.image_shape, atoms.shape[1])
        usage = np.linalg.norm(atoms, axis=1) if self.usage is None else np.asarray(self.usage)
        if len(usage) != len(atoms):
            raise ValueError(f"usage has {len(usage)} numbers for {len(atoms)} atoms.")
        _check_count("n_atoms", n_atoms)
        order = np.argsort(-usage, kind="stable")[:n_atoms]
        shown = atoms[order]
        limits = np.abs(shown).max(axis=1, keepdims=True)
        limit = limits.max() or 1.0
        if scale == "atom":
            shown = shown / np.where(limits > 0, limits, 1.0)
            limit = 1.0
        n_columns = _n_columns(len(shown), shape)
        grid = _tile(shown.reshape(-1, *shape), n_columns, gap=0)
        if ax is None:
            inch = 5.0 / max(grid.shape[:2])
            ax = new_axes(grid.shape[1] * inch, grid.shape[0] * inch + 0.3)
        self.image_ = _show(ax, grid, -limit, limit, **{"cmap": "coolwarm", **(im_kw or {})})
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


class ReconstructionDisplay:
    """Images above what was made of them, with the PSNR of each.

    Parameters
    ----------
    X : array-like of shape (n_images, n_features)
        The clean images.
    reconstruction : array-like of shape (n_images, n_features)
        Their reconstructions.
    noisy : array-like of shape (n_images, n_features), optional
        What was reconstructed, if it was not `X` itself.
    image_shape : tuple of int, optional
        (height, width), or (height, width, 3) for RGB. By default square, where that is
        possible.
    data_range : float, optional
        Distance between the least and the greatest possible value; that of `X` when not given.

    Attributes
    ----------
    figure_ : matplotlib.figure.Figure
        The figure.
    ax_ : matplotlib.axes.Axes
        The one axes that all rows are in.
    images_ : list of matplotlib.image.AxesImage
        One a row.
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

    def __init__(self, X, reconstruction, *, noisy=None, image_shape=None, data_range=None):
        self.X = X
        self.reconstruction = reconstruction
        self.noisy = noisy
        self.image_shape = image_shape
        self.data_range = data_range

    @classmethod
    def from_estimator(
        cls,
        estimator,
        X,
        *,
        noisy=None,
        image_shape=None,
        n_images=8,
        data_range=None,
        ax=None,
        im_kw=None,
    ):
        """Reconstruct images and draw them.

        Parameters
        ----------
        estimator : estimator
            Fitted, with `transform` and `inverse_transform`; may be a pipeline.
        X : array-like of shape (n_samples, n_features)
            Clean images.
        noisy : array-like of shape (n_samples, n_features), optional
            The same images with noise: these are reconstructed then.
        image_shape : tuple of int, optional
            (height, width), or (height, width, 3) for RGB. By default square, where that is
            possible.
        n_images : int, default=8
            How many to draw, the first ones.
        data_range : float, optional
            Distance between the least and the greatest possible value; that of `X` when not
            given.
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure by default.
        im_kw : dict, optional
            Arguments for `imshow`, like ``cmap``.

        Returns
        -------
        ReconstructionDisplay
            The display, drawn.
        """
        check_matplotlib_support(f"{cls.__name__}.from_estimator")
        _check_count("n_images", n_images)
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
        X,
        reconstruction,
        *,
        noisy=None,
        image_shape=None,
        n_images=8,
        data_range=None,
        ax=None,
        im_kw=None,
    ):
        """Draw images and reconstructions that are already there.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or (n_samples, height, width[, 3])
            Clean images.
        reconstruction : array-like of the same shape
            Their reconstructions; enough of them for `n_images`.
        noisy : array-like of the same shape, optional
            What was reconstructed, if it was not `X` itself.
        image_shape : tuple of int, optional
            (height, width), or (height, width, 3) for RGB. By default that of `X`, or square,
            where that is possible.
        n_images : int, default=8
            How many to draw, the first ones.
        data_range : float, optional
            Distance between the least and the greatest possible value; that of `X` when not
            given.
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure by default.
        im_kw : dict, optional
            Arguments for `imshow`, like ``cmap``.

        Returns
        -------
        ReconstructionDisplay
            The display, drawn.
        """
        check_matplotlib_support(f"{cls.__name__}.from_predictions")
        _check_count("n_images", n_images)
        X = np.asarray(to_host(X))
        display = cls(
            X[:n_images],
            np.asarray(to_host(reconstruction))[:n_images],
            noisy=None if noisy is None else np.asarray(to_host(noisy))[:n_images],
            image_shape=image_shape,
            # of all images, as psnr and its scorer take it
            data_range=float(X.max()) - float(X.min()) if data_range is None else data_range,
        )
        return display.plot(ax, im_kw=im_kw)

    def plot(self, ax=None, *, im_kw=None):
        """Draw.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure by default.
        im_kw : dict, optional
            Arguments for `imshow`, like ``cmap``.

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
                    f"{name} has shape {images.shape}, but X {X.shape}: the rows must be the same "
                    "images."
                )
        shape = X.shape[1:] if self.image_shape is None and X.ndim > 2 else self.image_shape
        rows = {name: images.reshape(len(X), -1) for name, images in rows.items()}
        shape = _image_shape(shape, rows["input"].shape[1])
        low, high = X.min(), X.max()
        data_range = high - low if self.data_range is None else self.data_range
        if not data_range > 0:
            raise ValueError(
                f"The range of the data is {data_range}; if X is constant, pass data_range."
            )
        if low == high:
            high = low + data_range

        gap = max(1, round(shape[1] / 16))
        strips = [_tile(images.reshape(-1, *shape), len(X), gap) for images in rows.values()]
        height, width = strips[0].shape[:2]
        if ax is None:
            inch = min(2.5 * len(X), max(7.0, 0.5 * len(X))) / width
            tall = len(rows) * height * inch + (len(rows) - 1) * _LINE
            ax = new_axes(width * inch + 1.0, tall + 0.1)
        else:
            box = ax.get_window_extent()
            inch = min(box.width / width, 0.8 * box.height / (len(rows) * height))
            inch /= ax.figure.dpi
        # no wider than the image below it
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
            self.images_.append(_show(ax, strip, low, high, **options))
            centres.append(top + height / 2)
            top += height
        ax.set(xlim=(0, width), ylim=(top, 0), xticks=[], anchor="W")
        ax.set_yticks(centres, list(rows))
        ax.tick_params(length=0)
        ax.spines[:].set_visible(False)
        self.ax_, self.figure_ = ax, ax.figure
        return self


def to_host(values):
    """Array of a tensor, wherever it is; anything else as it is."""
    return values.detach().cpu().numpy() if hasattr(values, "detach") else values


def _check_count(name, value):
    if value is not None and value < 1:
        raise ValueError(f"{name}={value} must be at least 1.")


def _image_shape(image_shape, n_features):
    """Check the shape of an image, or guess it: square, grey or RGB."""
    if image_shape is None:
        for channels in ((), (3,)):
            side = math.isqrt(n_features // math.prod(channels))
            if side and math.prod((side, side, *channels)) == n_features:
                return (side, side, *channels)
        raise ValueError(
            f"{n_features} features make no square image, grey or RGB; pass image_shape="
            "(height, width) or (height, width, 3)."
        )
    shape = tuple(image_shape)
    if len(shape) not in (2, 3) or shape[2:] not in ((), (3,)):
        raise ValueError(f"image_shape={shape} must be (height, width) or (height, width, 3).")
    if math.prod(shape) != n_features:
        raise ValueError(
            f"image_shape={shape} has {math.prod(shape)} values, but an image {n_features}."
        )
    return shape


def _n_columns(n_tiles, shape):
    """Columns of a grid that is about square, or wider where that leaves no place empty."""
    square = math.ceil(math.sqrt(n_tiles * shape[0] / shape[1]))
    square = min(max(1, square), n_tiles)
    return next((n for n in range(square, 2 * square + 1) if n_tiles % n == 0), square)


def _tile(images, n_columns, gap):
    """One picture of many, row by row, NaN between them and where there are none."""
    n, height, width, *channels = images.shape
    n_rows = math.ceil(n / n_columns)
    tiles = np.full((n_rows * n_columns, height + gap, width + gap, *channels), np.nan)
    tiles[:n, :height, :width] = images
    tiles = tiles.reshape(n_rows, n_columns, height + gap, width + gap, *channels).swapaxes(1, 2)
    picture = tiles.reshape(n_rows * (height + gap), n_columns * (width + gap), *channels)
    return picture[: len(picture) - gap, : picture.shape[1] - gap]


def _separate(ax, n_columns, n_rows, shape):
    """Draw lines between tiles: unlike gaps, as thin for tiles of few pixels as of many."""
    box = ax.get_window_extent()
    tile = min(box.width / n_columns, box.height / n_rows) * 72 / ax.figure.dpi
    lines = {"color": ax.get_facecolor(), "linewidth": 0.06 * tile}
    height, width = n_rows * shape[0] - 0.5, n_columns * shape[1] - 0.5
    ax.vlines(np.arange(1, n_columns) * shape[1] - 0.5, -0.5, height, **lines)
    ax.hlines(np.arange(1, n_rows) * shape[0] - 0.5, -0.5, width, **lines)


def _show(ax, picture, low, high, **options):
    """Draw values between two limits, nothing where they are NaN."""
    if picture.ndim == 2:
        return ax.imshow(picture, **{"vmin": low, "vmax": high, **options})
    colours = np.clip((picture - low) / (high - low), 0.0, 1.0)
    seen = np.isfinite(picture[..., :1])
    return ax.imshow(np.concatenate([np.where(seen, colours, 1.0), seen], axis=2), **options)


def new_axes(width, height):
    """Axes of a new figure of this size in inches."""
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(width, height), layout="constrained")[1]
