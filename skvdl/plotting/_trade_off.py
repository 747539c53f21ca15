"""Sparsity against PSNR."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils._optional_dependencies import check_matplotlib_support
from sklearn.utils.validation import check_is_fitted

from .. import metrics
from .._host import to_host
from ._common import COLOURS, new_axes, percent, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.container import ErrorbarContainer

__all__ = ["TradeOffDisplay"]

# With seven colours, enough for 35 different curves.
_MARKERS = "os^Dv"


class TradeOffDisplay:
    """Sparsity of codes against PSNR of reconstructions: further up and right is better.

    Parameters
    ----------
    sparsity : array-like of shape (n_points,) or (n_points, n_repeats)
        Share of zeros of each model. Of repeats of a model, such as seeds or folds, the mean is
        drawn with bars of one standard deviation. Missing repeats are NaN.
    psnr : array-like of the same shape
        PSNR of the same models in dB.
    labels : sequence of str, optional
        Name of the curve of each point. By default there is one curve. The points of a curve
        are joined in the order of their sparsity.
    names : sequence of str, optional
        Text next to each point. Equal names are written once, at the highest of their points.

    Attributes
    ----------
    figure_ : matplotlib.figure.Figure
        The figure.
    ax_ : matplotlib.axes.Axes
        The axes.
    curves_ : dict of matplotlib.container.ErrorbarContainer
        The curves, by label.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skvdl import VDL
    >>> from skvdl.plotting import TradeOffDisplay
    >>> X = load_digits().data / 16
    >>> models = [VDL(16, lam=lam, max_iter=5, random_state=0).fit(X) for lam in (0.001, 0.01)]
    >>> display = TradeOffDisplay.from_estimators({"VDL": models}, X)
    >>> len(display.sparsity)
    2
    """

    def __init__(
        self,
        sparsity: ArrayLike,
        psnr: ArrayLike,
        *,
        labels: Sequence[str] | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        self.sparsity = sparsity
        self.psnr = psnr
        self.labels = labels
        self.names = names

    @classmethod
    def from_estimators(
        cls,
        estimators: Mapping[str, Any],
        X: ArrayLike,
        *,
        data_range: float | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Measure fitted models on data and draw them.

        Parameters
        ----------
        estimators : dict
            From the name of each curve to a fitted model or a list of them. A list in place of
            a model holds repeats of it, models that differ only in their seed.
        X : array-like of shape (n_samples, n_features)
            Data, preferably not those that the models were fitted to.
        data_range : float, optional
            Distance between the smallest and the largest possible value. By default that of `X`.
        ax : matplotlib.axes.Axes, optional
            Axes to draw on. By default those of a new figure.

        Returns
        -------
        TradeOffDisplay
            The display, drawn.
        """
        check_matplotlib_support(f"{cls.__name__}.from_estimators")
        if not isinstance(estimators, Mapping):
            raise TypeError("estimators must be a dict, from names to fitted models or lists.")
        X = to_host(X)
        labels, points = [], []
        for label, models in estimators.items():
            for repeats in _as_list(models):
                labels.append(label)
                points.append([_measure(model, X, data_range) for model in _as_list(repeats)])
        if not all(points) or not points:
            raise ValueError("There is no model to draw: estimators, or a list in it, is empty.")
        values = np.full((len(points), max(map(len, points)), 2), np.nan)
        for i, repeats in enumerate(points):
            values[i, : len(repeats)] = repeats
        return cls(values[..., 0], values[..., 1], labels=labels).plot(ax)

    @classmethod
    def from_grid_search(
        cls,
        search: BaseEstimator,
        *,
        along: str = "lam",
        sparsity: str = "sparsity",
        psnr: str = "psnr",
        ax: Axes | None = None,
    ) -> Self:
        """Draw the scores of a search over parameters, with bars over its folds.

        The search needs both scores, under names of your choice::

            from skvdl.metrics import psnr_scorer, sparsity_scorer

            search = GridSearchCV(
                VDL(),
                {"lam": [0.002, 0.005, 0.02], "beta": [1, 10]},
                scoring={"sparsity": sparsity_scorer, "psnr": psnr_scorer},
                refit="psnr",  # or False
            ).fit(X)

        Parameters
        ----------
        search : GridSearchCV, RandomizedSearchCV or similar
            Fitted.
        along : str, default="lam"
            Parameter that varies along a curve; its values are written at the points. For a
            pipeline, with or without the name of the step. Each combination of the other
            parameters is a curve of its own.
        sparsity : str, default="sparsity"
            Name of the score for the share of zeros.
        psnr : str, default="psnr"
            Name of the score for the PSNR.
        ax : matplotlib.axes.Axes, optional
            Axes to draw on. By default those of a new figure.

        Returns
        -------
        TradeOffDisplay
            The display, drawn.
        """
        check_matplotlib_support(f"{cls.__name__}.from_grid_search")
        check_is_fitted(search, "cv_results_")
        results = search.cv_results_
        start = "mean_test_"
        scores = [key.removeprefix(start) for key in results if key.startswith(start)]
        missing = [name for name in (sparsity, psnr) if name not in scores]
        if missing:
            raise ValueError(
                f"The search has no score named {' or '.join(map(repr, missing))}, only "
                f"{', '.join(map(repr, scores))}. Search with scoring={{'sparsity': "
                "skvdl.metrics.sparsity_scorer, 'psnr': skvdl.metrics.psnr_scorer}, "
                "refit='psnr', or pass the names it has."
            )
        settings = results["params"]
        varied = {key for setting in settings for key in setting}
        key = next((k for k in sorted(varied) if k == along or k.endswith(f"__{along}")), None)
        if key is None:
            raise ValueError(
                f"The search did not vary {along!r}; pass as along one of {sorted(varied)}."
            )
        others = [{k: v for k, v in setting.items() if k != key} for setting in settings]
        alone = type(search.estimator).__name__
        return cls(
            *(
                np.stack([results[f"split{i}_test_{name}"] for i in range(search.n_splits_)], 1)
                for name in (sparsity, psnr)
            ),
            labels=[", ".join(map(_describe, o, o.values())) or alone for o in others],
            names=[_describe(key, setting[key]) if key in setting else "" for setting in settings],
        ).plot(ax)

    @classmethod
    def from_predictions(
        cls,
        sparsity: ArrayLike,
        psnr: ArrayLike,
        *,
        labels: Sequence[str] | None = None,
        names: Sequence[str] | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Draw given numbers.

        Parameters
        ----------
        sparsity : array-like of shape (n_points,) or (n_points, n_repeats)
            Share of zeros of each model.
        psnr : array-like of the same shape
            PSNR of the same models in dB.
        labels : sequence of str, optional
            Name of the curve of each point. By default there is one curve.
        names : sequence of str, optional
            Text next to each point. Equal names are written once, at the highest of their points.
        ax : matplotlib.axes.Axes, optional
            Axes to draw on. By default those of a new figure.

        Returns
        -------
        TradeOffDisplay
            The display, drawn.
        """
        return cls(sparsity, psnr, labels=labels, names=names).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw the curves.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Axes to draw on. By default those of a new figure.

        Returns
        -------
        TradeOffDisplay
            The display.
        """
        check_matplotlib_support(f"{type(self).__name__}.plot")
        zeros, quality = (np.array(v, dtype=float) for v in (self.sparsity, self.psnr))
        if zeros.shape != quality.shape or zeros.ndim not in (1, 2):
            raise ValueError(
                f"sparsity {zeros.shape} and psnr {quality.shape} must have the same shape, "
                "(n_points,) or (n_points, n_repeats)."
            )
        labels = np.asarray([""] * len(zeros) if self.labels is None else self.labels)
        names = np.asarray([""] * len(zeros) if self.names is None else self.names)
        if not len(zeros) == len(labels) == len(names):
            raise ValueError(
                f"There are {len(zeros)} points, {len(labels)} labels and {len(names)} names."
            )
        zeros, quality = zeros.reshape(len(zeros), -1), quality.reshape(len(zeros), -1)
        measured = np.isfinite(zeros) & np.isfinite(quality)
        if not measured.any():
            raise ValueError("There is no point with a finite sparsity and PSNR.")
        values = np.ma.array(np.stack([zeros, quality]), mask=np.stack([~measured] * 2))
        if ax is None:
            ax = new_axes(width=5.5, height=4.0)
        self.curves_: dict[str, ErrorbarContainer] = {}
        tops: dict[str, list[float]] = {}
        for i, label in enumerate(dict.fromkeys(labels.tolist())):
            points = np.flatnonzero((labels == label) & measured.any(axis=1))
            if not len(points):
                continue
            points = points[np.argsort(values[0, points].mean(axis=1), kind="stable")]
            x, y = values[:, points].mean(axis=2).data
            bars = values[:, points].std(axis=2).data
            repeated = (measured[points].sum(axis=1) > 1).any()
            self.curves_[label] = ax.errorbar(
                x,
                y,
                xerr=bars[0] if repeated else None,
                yerr=bars[1] if repeated else None,
                label=label or None,
                color=COLOURS[i % len(COLOURS)],
                marker=_MARKERS[i % len(_MARKERS)],
                markersize=5,
                elinewidth=1,
            )
            for name, *where in zip(names[points], x, y, strict=True):
                tops[name] = max(tops.get(name, where), where, key=itemgetter(1))
        for name, where in tops.items():
            ax.annotate(
                name,
                (where[0], where[1]),
                xytext=(5, 4),
                textcoords="offset points",
                fontsize="small",
                color="0.3",
            )
        ax.set_xlabel("zeros in the codes")
        ax.set_ylabel("PSNR (dB)")
        ax.xaxis.set_major_formatter(percent)
        ax.margins(x=0.12)
        if len(self.curves_) > 1:
            ax.legend(frameon=False)
        tidy(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _as_list(one_or_many: Any) -> list[Any]:
    return list(one_or_many) if isinstance(one_or_many, list | tuple) else [one_or_many]


def _measure(model: BaseEstimator, X: ArrayLike, data_range: float | None) -> tuple[float, float]:
    """Return the sparsity and the PSNR of a fitted model."""
    codes = model.transform(X)
    rebuilt = model.inverse_transform(codes)
    return metrics.sparsity(codes), metrics.psnr(X, rebuilt, data_range=data_range)


def _describe(parameter: str, value: Any) -> str:
    """Return a short text for the value of a parameter."""
    number = isinstance(value, Real) and not isinstance(value, bool)
    return f"{parameter.rpartition('__')[2]}={format(value, 'g') if number else value}"
