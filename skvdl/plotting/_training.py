"""How training went, epoch by epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils._optional_dependencies import check_matplotlib_support
from sklearn.utils.validation import check_is_fitted

from ._common import COLOURS, new_axes, percent, split_at_last, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

__all__ = ["TrainingCurveDisplay"]

# Terms of the energy by name, as in the legend, with the parameter that weighs them.
_TERMS = {
    "reconstruction": ("reconstruction", None),
    "l1": ("l1 norm", "lam"),
    "l0": ("non-zeros", "lam"),
    "hinge": ("hinge", "beta"),
    "proximity": ("encoder", "gamma"),
}


class TrainingCurveDisplay:
    """How training went, epoch by epoch, in four panels that share their epochs.

    The panels show the energy, also of the validation rows if there were any, the terms of the
    energy, the zeros in the codes, and the dead components.

    Parameters
    ----------
    history : dict of sequence
        Curves by name, as in `history_` of an estimator.
    weights : dict of float, optional
        Weights `lam`, `beta` and `gamma`. The terms are multiplied by them, so that they add up
        to the energy; terms with weight 0 are left out. By default all terms are drawn as they
        are.

    Attributes
    ----------
    figure_ : matplotlib.figure.Figure
        The figure.
    ax_ : matplotlib.axes.Axes or None
        The axes that were divided into panels; None if the panels were given.
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

    def __init__(
        self,
        history: Mapping[str, Sequence[float]],
        *,
        weights: Mapping[str, float] | None = None,
    ) -> None:
        self.history = history
        self.weights = weights

    @classmethod
    def from_estimator(
        cls, estimator: BaseEstimator, *, ax: Axes | Sequence[Axes] | None = None
    ) -> Self:
        """Draw the history of a fitted estimator.

        Parameters
        ----------
        estimator : VarianceDictionaryLearning or NonLinearVDL
            Fitted; may be a step of a pipeline.
        ax : matplotlib.axes.Axes or array-like of four, optional
            Axes to divide into panels, or the four panels. By default those of a new figure.

        Returns
        -------
        TrainingCurveDisplay
            The display, drawn.
        """
        check_matplotlib_support(f"{cls.__name__}.from_estimator")
        check_is_fitted(estimator)
        _, model = split_at_last(estimator, _has_history)
        if model is None:
            raise TypeError(
                f"This {type(estimator).__name__} has no training history; pass a fitted "
                "VarianceDictionaryLearning or NonLinearVDL, or a pipeline with one."
            )
        # The weights of training: the model's parameters may have been changed since.
        settings = model._learner.energy_settings
        weights = {"beta": settings.beta, "lam": settings.lam, "gamma": settings.gamma}
        return cls(model.history_, weights=weights).plot(ax)

    def plot(self, ax: Axes | Sequence[Axes] | None = None) -> Self:
        """Draw the panels.

        Parameters
        ----------
        ax : matplotlib.axes.Axes or array-like of four, optional
            Axes to divide into panels, or the four panels. By default those of a new figure.

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
        self.lines_: dict[str, Line2D] = {}
        weights = self.weights

        def draw(
            panel: Axes, name: str, label: str | None, factor: Any = 1.0, **style: Any
        ) -> None:
            values = np.multiply(factor, self.history[name])
            epochs = np.arange(1, len(values) + 1)
            style = {"marker": "o" if len(values) == 1 else None, **style}
            (self.lines_[name],) = panel.plot(epochs, values, label=label, **style)

        draw(energy, "energy", "training", color=COLOURS[0])
        if len(self.history.get("validation", ())):
            draw(energy, "validation", "validation", color=COLOURS[1], linestyle="--")
            energy.legend(frameon=False, fontsize="small", loc="upper right")
        present = {name: term for name, term in _TERMS.items() if name in self.history}
        for colour, (name, (label, parameter)) in zip(COLOURS, present.items(), strict=False):
            weight: Any = 1.0
            if weights is not None and parameter is not None:
                # a weight that training itself looked for has a curve of its own
                weight = self.history.get(parameter, weights.get(parameter, 1.0))
            if np.any(weight):
                draw(terms, name, label, weight, color=colour)
        draw(zeros, "sparsity", None, color=COLOURS[0])
        draw(dead, "dead", None, color=COLOURS[0], clip_on=False)
        for panel in (energy, terms):
            panel.set_yscale("log", nonpositive="mask")
            low, high = np.log10(panel.get_ylim())
            subs = (1, 1.5, 2, 3, 5, 7) if high - low < 1 else (1, 2, 5) if high - low < 2 else (1,)
            panel.yaxis.set_major_locator(LogLocator(subs=subs))
            panel.yaxis.set_minor_locator(NullLocator())
            panel.yaxis.set_major_formatter("{x:g}")
        # Room for the legend above the curves.
        bottom, top = terms.get_ylim()
        terms.set_ylim(bottom, top * (top / bottom) ** 0.35)
        compact = {"ncols": 2, "handlelength": 1.2, "columnspacing": 1.0}
        terms.legend(frameon=False, fontsize="small", loc="upper right", **compact)
        zeros.yaxis.set_major_formatter(percent)
        dead.yaxis.set_major_locator(MaxNLocator(integer=True))
        dead.set_ylim(0, max(1.0, dead.get_ylim()[1]))
        sort = "" if weights is None else ", weighted"
        titles = ("energy", f"its terms{sort}", "zeros in the codes", "dead components")
        for panel, title in zip(self.axes_.ravel(), titles, strict=True):
            panel.set_title(title, loc="left", fontsize="medium")
            panel.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
            tidy(panel)
        for panel in (zeros, dead) if self.ax_ is not None else self.axes_.ravel():
            panel.set_xlabel("epoch")
        return self

    def _make_panels(self, ax: Axes | Sequence[Axes] | None) -> None:
        """Find or make the four panels."""
        from matplotlib.axes import Axes

        if ax is None:
            ax = new_axes(width=8.0, height=5.0)
        if not isinstance(ax, Axes):
            axes = np.asarray(ax, dtype=object)
            if axes.size != 4:
                raise ValueError(f"There are four panels, but {axes.size} axes were given.")
            self.ax_, self.axes_, self.figure_ = None, axes, axes.ravel()[0].figure
            return
        place = ax.get_subplotspec()
        if not ax.axison or place is None:
            raise ValueError(
                "ax cannot be divided into panels: it already was, or it is not part of a grid "
                "of subplots. Pass four axes, such as display.axes_."
            )
        ax.set_axis_off()
        self.ax_, self.figure_ = ax, ax.figure
        self.axes_ = np.asarray(place.subgridspec(2, 2).subplots(sharex=True))


def _has_history(estimator: BaseEstimator) -> bool:
    return hasattr(estimator, "history_")
