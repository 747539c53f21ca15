"""Displays of curves: sparsity against PSNR, and how training went."""

from collections.abc import Mapping
from numbers import Real
from operator import itemgetter

import numpy as np
from sklearn.utils._optional_dependencies import check_matplotlib_support
from sklearn.utils.validation import check_is_fitted

from . import metrics
from ._image_displays import new_axes, to_host

__all__ = ["TradeOffDisplay", "TrainingCurveDisplay"]

# Okabe and Ito's colours, which everybody can tell apart; with the markers 35 curves differ.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKERS = "os^Dv"
# Terms of the energy by name, as in the legend, with the parameter that weighs them.
_TERMS = {
    "reconstruction": ("reconstruction", None),
    "l1": ("l1 norm", "lam"),
    "hinge": ("hinge", "beta"),
    "proximity": ("encoder", "gamma"),
}


class TradeOffDisplay:
    """Sparsity of codes against PSNR of reconstructions: further up and right is better.

    Parameters
    ----------
    sparsity : array-like of shape (n_points,) or (n_points, n_repeats)
        Share of zeros of each model. With several repeats of a model, say seeds or folds, their
        mean is drawn with bars of one standard deviation. NaN where there are fewer repeats.
    psnr : array-like of the same shape
        PSNR of the same models in dB.
    labels : sequence of str, optional
        For each point, the name of its curve; one curve when not given. The points of a curve
        are joined in the order of their sparsity.
    names : sequence of str, optional
        For each point, what to write next to it; equal names only at the uppermost.

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

    def __init__(self, sparsity, psnr, *, labels=None, names=None):
        self.sparsity = sparsity
        self.psnr = psnr
        self.labels = labels
        self.names = names

    @classmethod
    def from_estimators(cls, estimators, X, *, data_range=None, ax=None):
        """Measure fitted models on data and draw them.

        Parameters
        ----------
        estimators : dict
            From the name of a curve to one fitted model or a list of them. In the place of a
            model there may be a list, of models that differ in their seed alone.
        X : array-like of shape (n_samples, n_features)
            Data, best not those the models were fitted to.
        data_range : float, optional
            Distance between the least and the greatest possible value; that of `X` when not
            given.
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure by default.

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
            raise ValueError("There is no model to draw in estimators, or a list is empty.")
        values = np.full((len(points), max(map(len, points)), 2), np.nan)
        for i, repeats in enumerate(points):
            values[i, : len(repeats)] = repeats
        return cls(values[..., 0], values[..., 1], labels=labels).plot(ax)

    @classmethod
    def from_grid_search(cls, search, *, along="lam", sparsity="sparsity", psnr="psnr", ax=None):
        """Draw what a search over parameters has measured, with bars over its folds.

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
            Parameter that varies along a curve, for a pipeline with or without the name of the
            step; its values are written at the points. Every setting of the other parameters
            makes a curve of its own.
        sparsity : str, default="sparsity"
            Name of the score that is the share of zeros.
        psnr : str, default="psnr"
            Name of the score that is the PSNR.
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure by default.

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
    def from_predictions(cls, sparsity, psnr, *, labels=None, names=None, ax=None):
        """Draw numbers that are already there.

        Parameters
        ----------
        sparsity : array-like of shape (n_points,) or (n_points, n_repeats)
            Share of zeros of each model.
        psnr : array-like of the same shape
            PSNR of the same models in dB.
        labels : sequence of str, optional
            For each point, the name of its curve; one curve when not given.
        names : sequence of str, optional
            For each point, what to write next to it; equal names only at the uppermost.
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        TradeOffDisplay
            The display, drawn.
        """
        return cls(sparsity, psnr, labels=labels, names=names).plot(ax)

    def plot(self, ax=None):
        """Draw.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure by default.

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
        self.curves_, tops = {}, {}
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
                color=_COLOURS[i % len(_COLOURS)],
                marker=_MARKERS[i % len(_MARKERS)],
                markersize=5,
                elinewidth=1,
            )
            for name, *where in zip(names[points], x, y, strict=True):
                tops[name] = max(tops.get(name, where), where, key=itemgetter(1))
        for name, where in tops.items():
            beside = {"xytext": (5, 4), "textcoords": "offset points"}
            ax.annotate(name, where, fontsize="small", color="0.3", **beside)
        ax.set_xlabel("zeros in the codes")
        ax.set_ylabel("PSNR (dB)")
        ax.xaxis.set_major_formatter(_percent)
        ax.margins(x=0.12)
        if len(self.curves_) > 1:
            ax.legend(frameon=False)
        _tidy(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self


class TrainingCurveDisplay:
    """How training went, epoch by epoch, in four panels that share their epochs.

    Energy (with that of the validation rows, if there were any), the terms it is the sum of,
    zeros in the codes, and dead components.

    Parameters
    ----------
    history : dict of sequence
        Curves as in `history_` of an estimator.
    weights : dict of float, optional
        Weights `lam`, `beta` and `gamma`, by which the terms are multiplied so that they add up
        to the energy. Terms of no weight are left out. All terms as they are when not given.

    Attributes
    ----------
    figure_ : matplotlib.figure.Figure
        The figure.
    ax_ : matplotlib.axes.Axes or None
        The axes that was divided into panels; None if the panels were given.
    axes_ : ndarray of matplotlib.axes.Axes
        The panels, of shape (2, 2) or as given: energy, terms, zeros, dead components.
    lines_ : dict of matplotlib.lines.Line2D
        The curves, by their name in `history`.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skvdl import VDL
    >>> from skvdl.plotting import TrainingCurveDisplay
    >>> X = load_digits().data / 16
    >>> vdl = VDL(16, max_iter=5, random_state=0).fit(X)
    >>> display = TrainingCurveDisplay.from_estimator(vdl)
    >>> len(display.lines_["energy"].get_xdata())
    5
    """

    def __init__(self, history, *, weights=None):
        self.history = history
        self.weights = weights

    @classmethod
    def from_estimator(cls, estimator, *, ax=None):
        """Draw the history of a fitted estimator.

        Parameters
        ----------
        estimator : VarianceDictionaryLearning or NonLinearVDL
            Fitted.
        ax : matplotlib.axes.Axes or array-like of four of them, optional
            Axes to be divided into panels, or the panels; a new figure by default.

        Returns
        -------
        TrainingCurveDisplay
            The display, drawn.
        """
        check_matplotlib_support(f"{cls.__name__}.from_estimator")
        check_is_fitted(estimator)
        # the learner's, for the estimator's parameters may have been set anew since
        learner = estimator._learner
        weights = {"beta": learner.regularizer.beta, "lam": learner.inference.lam}
        weights["gamma"] = 0.0 if learner.encoder is None else learner.inference.gamma
        return cls(estimator.history_, weights=weights).plot(ax)

    def plot(self, ax=None):
        """Draw.

        Parameters
        ----------
        ax : matplotlib.axes.Axes or array-like of four of them, optional
            Axes to be divided into panels, or the panels; a new figure by default.

        Returns
        -------
        TrainingCurveDisplay
            The display.
        """
        check_matplotlib_support(f"{type(self).__name__}.plot")
        from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

        if not len(self.history.get("energy", ())):
            raise ValueError("There is nothing to draw: training did not complete an epoch.")
        self._make_panels(ax)
        energy, terms, zeros, dead = self.axes_.ravel()
        self.lines_, weights = {}, self.weights

        def draw(panel, name, label, factor=1.0, **style):
            values = factor * np.asarray(self.history[name], dtype=float)
            epochs = np.arange(1, len(values) + 1)
            style = {"marker": "o" if len(values) == 1 else None, **style}
            (self.lines_[name],) = panel.plot(epochs, values, label=label, **style)

        draw(energy, "energy", "training", color=_COLOURS[0])
        if len(self.history.get("validation", ())):
            draw(energy, "validation", "validation", color=_COLOURS[1], linestyle="--")
            energy.legend(frameon=False, fontsize="small", loc="upper right")
        for colour, (name, (label, parameter)) in zip(_COLOURS, _TERMS.items(), strict=False):
            weight = 1.0 if weights is None else weights.get(parameter, 1.0)
            if weight:
                draw(terms, name, label, weight, color=colour)
        draw(zeros, "sparsity", None, color=_COLOURS[0])
        draw(dead, "dead", None, color=_COLOURS[0], clip_on=False)
        for panel in (energy, terms):
            panel.set_yscale("log", nonpositive="mask")
            low, high = np.log10(panel.get_ylim())
            subs = (1, 1.5, 2, 3, 5, 7) if high - low < 1 else (1, 2, 5) if high - low < 2 else (1,)
            panel.yaxis.set_major_locator(LogLocator(subs=subs))
            panel.yaxis.set_minor_locator(NullLocator())
            panel.yaxis.set_major_formatter("{x:g}")
        # room for the legend above the curves
        bottom, top = terms.get_ylim()
        terms.set_ylim(bottom, top * (top / bottom) ** 0.35)
        compact = {"ncols": 2, "handlelength": 1.2, "columnspacing": 1.0}
        terms.legend(frameon=False, fontsize="small", loc="upper right", **compact)
        zeros.yaxis.set_major_formatter(_percent)
        dead.yaxis.set_major_locator(MaxNLocator(integer=True))
        dead.set_ylim(0, max(1.0, dead.get_ylim()[1]))
        sort = "" if weights is None else ", weighted"
        titles = ("energy", f"its terms{sort}", "zeros in the codes", "dead components")
        for panel, title in zip(self.axes_.ravel(), titles, strict=True):
            panel.set_title(title, loc="left", fontsize="medium")
            panel.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
            _tidy(panel)
        for panel in (zeros, dead) if self.ax_ is not None else self.axes_.ravel():
            panel.set_xlabel("epoch")
        return self

    def _make_panels(self, ax):
        """Find or make the four panels."""
        import matplotlib.pyplot as plt

        if ax is None:
            ax = new_axes(width=8.0, height=5.0)
        if not isinstance(ax, plt.Axes):
            axes = np.asarray(ax, dtype=object)
            if axes.size != 4:
                raise ValueError(f"There are four panels, but {axes.size} axes.")
            self.ax_, self.axes_, self.figure_ = None, axes, axes.ravel()[0].figure
            return
        if not ax.axison or ax.get_subplotspec() is None:
            raise ValueError(
                "ax cannot be divided into panels, for it already was or is not part of a grid "
                "of subplots; pass four axes, like display.axes_."
            )
        ax.set_axis_off()
        grid = ax.get_subplotspec().subgridspec(2, 2)
        self.ax_, self.figure_ = ax, ax.figure
        self.axes_ = grid.subplots(sharex=True)


def _as_list(one_or_many):
    return list(one_or_many) if isinstance(one_or_many, list | tuple) else [one_or_many]


def _measure(model, X, data_range):
    """Sparsity and PSNR of a fitted model."""
    codes = model.transform(X)
    rebuilt = model.inverse_transform(codes)
    return metrics.sparsity(codes), metrics.psnr(X, rebuilt, data_range=data_range)


def _describe(parameter, value):
    """Short text for the setting of a parameter."""
    number = isinstance(value, Real) and not isinstance(value, bool)
    return f"{parameter.rpartition('__')[2]}={format(value, 'g') if number else value}"


def _percent(value, _):
    """Text of a tick for a share."""
    return f"{100 * value:.4g}%"


def _tidy(ax):
    """Leave out the lines that say nothing."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(color="0.9", linewidth=0.8)
    ax.set_axisbelow(True)
