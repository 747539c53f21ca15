"""What all displays share: colours, axes, and the way into a pipeline."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["COLOURS", "new_axes", "percent", "split_at_last", "tidy"]

# The palette of Okabe and Ito, made for all kinds of colour vision.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")


def new_axes(width: float, height: float) -> Axes:
    """Return the axes of a new figure of this size in inches."""
    import matplotlib.pyplot as plt

    _, ax = plt.subplots(figsize=(width, height), layout="constrained")
    return ax


def percent(value: float, position: float) -> str:
    """Format a share as the text of a tick."""
    return f"{100 * value:.4g}%"


def tidy(ax: Axes) -> None:
    """Remove the frame at the top and on the right, and add a light grid."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(color="0.9", linewidth=0.8)
    ax.set_axisbelow(True)


def split_at_last(
    estimator: BaseEstimator, wanted: Callable[[BaseEstimator], bool]
) -> tuple[list[BaseEstimator], BaseEstimator | None]:
    """Return the steps of a pipeline before the last one that is wanted, and that one.

    An estimator that is not a pipeline counts as a single step. If no step is wanted, None is
    returned in its place.
    """
    if not isinstance(estimator, Pipeline):
        return [], estimator if wanted(estimator) else None
    steps = [step for _, step in estimator.steps if step not in (None, "passthrough")]
    for i in reversed(range(len(steps))):
        before, found = split_at_last(steps[i], wanted)
        if found is not None:
            return [*steps[:i], *before], found
    return steps, None
