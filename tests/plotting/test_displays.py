"""What all displays have in common."""

import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest

from skvdl import VDL
from skvdl.plotting import (
    AtomsDisplay,
    ReconstructionDisplay,
    TradeOffDisplay,
    TrainingCurveDisplay,
)


def rendered(display):
    """Pixels of the figure."""
    display.figure_.canvas.draw()
    return np.asarray(display.figure_.canvas.buffer_rgba())[..., :3]


@pytest.mark.parametrize(
    ("draw", "caller"),
    [
        (lambda: AtomsDisplay.from_estimator(VDL()), "AtomsDisplay.from_estimator"),
        (lambda: AtomsDisplay(np.eye(4)).plot(), "AtomsDisplay.plot"),
        (
            lambda: ReconstructionDisplay.from_estimator(VDL(), np.eye(4)),
            "ReconstructionDisplay.from_estimator",
        ),
        (
            lambda: ReconstructionDisplay.from_predictions(np.eye(4), np.eye(4)),
            "ReconstructionDisplay.from_predictions",
        ),
        (lambda: TradeOffDisplay.from_estimators({}, np.eye(4)), "TradeOffDisplay"),
        (lambda: TradeOffDisplay.from_grid_search(None), "TradeOffDisplay"),
        (lambda: TradeOffDisplay.from_predictions([0.1], [20]), "TradeOffDisplay"),
        (lambda: TrainingCurveDisplay.from_estimator(VDL()), "TrainingCurveDisplay"),
        (lambda: TrainingCurveDisplay({}).plot(), "TrainingCurveDisplay.plot"),
    ],
)
def test_missing_matplotlib_is_said_before_anything_else(draw, caller, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=f"{caller}.*requires matplotlib"):
        draw()


def test_constructors_only_store():
    things = [object() for _ in range(5)]
    for display, names in [
        (AtomsDisplay(*things[:3], kind=things[3]), "atoms image_shape usage kind"),
        (
            ReconstructionDisplay(
                *things[:2], noisy=things[2], image_shape=things[3], data_range=things[4]
            ),
            "X reconstruction noisy image_shape data_range",
        ),
        (
            TradeOffDisplay(*things[:2], labels=things[2], names=things[3]),
            "sparsity psnr labels names",
        ),
        (TrainingCurveDisplay(things[0], weights=things[1]), "history weights"),
    ]:
        assert vars(display) == dict(zip(names.split(), things, strict=False))
    assert not plt.get_fignums()


def test_one_axes_given_is_the_one_used(linear, X):
    draws = [
        lambda ax: AtomsDisplay.from_estimator(linear, ax=ax),
        lambda ax: ReconstructionDisplay.from_estimator(linear, X, ax=ax),
        lambda ax: ReconstructionDisplay.from_predictions(X, X + 0.1, ax=ax),
        lambda ax: TradeOffDisplay.from_estimators({"a": linear}, X, ax=ax),
        lambda ax: TradeOffDisplay.from_predictions([0.5], [20.0], ax=ax),
        lambda ax: TrainingCurveDisplay.from_estimator(linear, ax=ax),
    ]
    figure, axes = plt.subplots(1, len(draws))
    for draw, ax in zip(draws, axes, strict=True):
        display = draw(ax)
        assert display.ax_ is ax
        assert display.figure_ is figure
    assert len(plt.get_fignums()) == 1


def test_plot_returns_the_display_with_a_figure_of_its_own(linear, X):
    for display in (
        AtomsDisplay.from_estimator(linear),
        ReconstructionDisplay.from_estimator(linear, X),
        TradeOffDisplay.from_estimators({"a": linear}, X),
        TrainingCurveDisplay.from_estimator(linear),
    ):
        first = display.figure_
        assert display.plot() is display
        assert display.figure_ is not first
        assert display.ax_.figure is display.figure_
        assert rendered(display).std() > 0
