"""What all displays share: colours, axes, and the way into a pipeline."""

from collections.abc import Callable

from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

__all__ = ["COLOURS", "new_axes", "percent", "split_at_last", "tidy"]

# Okabe and Ito's colours, which everybody can tell apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")


def new_axes(width, height):
    """Axes of a new figure of this size in inches."""
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(width, height), layout="constrained")[1]


def percent(value, _):
    """Text of a tick for a share."""
    return f"{100 * value:.4g}%"


def tidy(ax):
    """Leave out the lines that say nothing."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(color="0.9", linewidth=0.8)
    ax.set_axisbelow(True)


def split_at_last(
    estimator: BaseEstimator, wanted: Callable[[BaseEstimator], bool]
) -> tuple[list[BaseEstimator], BaseEstimator | None]:
    """Find the last wanted step of a pipeline, and the steps before it.

    An estimator that is no pipeline is a single step. There is no last step if none is wanted.
    """
    if not isinstance(estimator, Pipeline):
        return [], estimator if wanted(estimator) else None
    steps = [step for _, step in estimator.steps if step not in (None, "passthrough")]
    for i in reversed(range(len(steps))):
        before, found = split_at_last(steps[i], wanted)
        if found is not None:
            return [*steps[:i], *before], found
    return steps, None
