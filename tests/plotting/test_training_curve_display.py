"""How training went."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from _helpers import as_published
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skvdl import VDL
from skvdl.plotting import (
    TrainingCurveDisplay,
)


@pytest.mark.parametrize("kind", ["linear", "network"])
def test_weighted_terms_add_up_to_the_energy(kind, linear, network):
    model = linear if kind == "linear" else network
    display = TrainingCurveDisplay.from_estimator(model)
    history, lines = model.history_, display.lines_
    factors = {"l1": model.lam, "hinge": model.beta, "proximity": model.gamma}
    for name, line in lines.items():
        assert list(line.get_xdata()) == [1, 2, 3, 4]
        expected = factors.get(name, 1) * np.array(history[name])
        np.testing.assert_allclose(line.get_ydata(), expected)
    terms = [lines[name].get_ydata() for name in ("reconstruction", "l1", "hinge", "proximity")]
    np.testing.assert_allclose(np.sum(terms, axis=0), lines["energy"].get_ydata(), rtol=1e-6)

    energy, weighted, zeros, dead = display.axes_.ravel()
    assert [ax.get_title("left") for ax in (energy, weighted, zeros, dead)] == [
        "energy",
        "its terms, weighted",
        "zeros in the codes",
        "dead components",
    ]
    assert lines["energy"].axes is energy
    assert {line.axes for line in lines.values()} == {energy, weighted, zeros, dead}
    assert all(lines[name].axes is weighted for name in ("reconstruction", *factors))
    assert lines["sparsity"].axes is zeros
    assert lines["dead"].axes is dead
    assert ("validation" in lines) == (kind == "linear")
    if kind == "linear":
        assert lines["validation"].axes is energy
    assert energy.get_yscale() == weighted.get_yscale() == "log"
    assert dead.get_ylim()[0] == 0


def test_weights_are_those_of_training(X):
    settings = as_published(VDL) | {"lam": 0.02, "max_iter": 2}
    model = VDL(4, random_state=0, **settings).fit(X)
    model.set_params(lam=1.0, beta=0.0, gamma=7.0)
    lines = TrainingCurveDisplay.from_estimator(model).lines_
    np.testing.assert_allclose(lines["l1"].get_ydata(), 0.02 * np.array(model.history_["l1"]))
    assert "hinge" in lines


@pytest.mark.parametrize(
    ("params", "missing"), [({"regularizer": None}, "hinge"), ({"encoder": None}, "proximity")]
)
def test_terms_of_no_weight_are_left_out(params, missing, X):
    model = VDL(4, max_iter=2, random_state=0, **as_published(VDL) | params).fit(X)
    display = TrainingCurveDisplay.from_estimator(model)
    assert missing not in display.lines_
    assert len(display.axes_[0, 1].get_legend().get_texts()) == 3
    bare = TrainingCurveDisplay(model.history_).plot()
    np.testing.assert_array_equal(bare.lines_["l1"].get_ydata(), model.history_["l1"])
    assert missing in bare.lines_
    assert bare.axes_[0, 1].get_title("left") == "its terms"


@pytest.mark.parametrize("lam", [0.01, None])
def test_terms_of_the_defaults_add_up_too(lam, X):
    model = VDL(4, lam=lam, max_iter=3, random_state=0).fit(X)
    display = TrainingCurveDisplay.from_estimator(model)
    lines, history = display.lines_, model.history_
    weight = np.array(history["lam"]) if lam is None else lam
    np.testing.assert_allclose(lines["l0"].get_ydata(), weight * np.array(history["l0"]))
    assert "l1" not in lines
    assert "proximity" not in lines
    labels = [text.get_text() for text in display.axes_[0, 1].get_legend().get_texts()]
    assert labels == ["reconstruction", "non-zeros"]
    terms = [lines[name].get_ydata() for name in ("reconstruction", "l0")]
    # lam changes with every step, and an epoch has only its mean
    rtol = 1e-6 if lam else 0.02
    np.testing.assert_allclose(np.sum(terms, axis=0), lines["energy"].get_ydata(), rtol=rtol)


@pytest.mark.parametrize("lams", [(0.01, None), (None, 0.01)])
def test_streaming_with_another_lam_is_drawn_with_the_lam_of_its_time(lams, X):
    first, then = lams
    model = VDL(4, lam=first, max_iter=2, random_state=0).fit(X)
    model.set_params(lam=then).partial_fit(X)
    history = model.history_
    lines = TrainingCurveDisplay.from_estimator(model).lines_
    assert len(history["lam"]) == 3
    assert history["lam"][2 if first is None else 0] == pytest.approx(0.01)
    expected = np.multiply(history["lam"], history["l0"])
    np.testing.assert_allclose(lines["l0"].get_ydata(), expected)


def test_panels_share_their_epochs_and_count_whole_ones(network):
    display = TrainingCurveDisplay.from_estimator(network)
    panels = display.axes_.ravel()
    panels[0].set_xlim(0, 3)
    assert all(panel.get_xlim() == (0, 3) for panel in panels)
    display.figure_.canvas.draw()
    for axis in (panels[3].xaxis, panels[3].yaxis):
        assert all(tick == round(tick) for tick in axis.get_ticklocs())
    assert [panel.get_xlabel() for panel in panels] == ["", "", "epoch", "epoch"]


def test_one_axes_is_divided_into_panels(network):
    figure, axes = plt.subplots(1, 2)
    display = TrainingCurveDisplay.from_estimator(network, ax=axes[1])
    assert not axes[1].axison
    assert display.axes_.shape == (2, 2)
    assert len(figure.axes) == 6
    bounds = axes[1].get_position(original=True)
    for panel in display.axes_.ravel():
        box = panel.get_position()
        assert bounds.x0 - 1e-9 <= box.x0 < box.x1 <= bounds.x1 + 1e-9
    with pytest.raises(ValueError, match=r"already was.*Pass four axes, such as display.axes_"):
        TrainingCurveDisplay.from_estimator(network, ax=axes[1])
    with pytest.raises(ValueError, match="not part of a grid"):
        TrainingCurveDisplay.from_estimator(network, ax=figure.add_axes((0, 0, 0.1, 0.1)))


def test_four_axes_are_the_panels(network):
    figure, axes = plt.subplots(1, 4)
    display = TrainingCurveDisplay.from_estimator(network, ax=axes)
    assert display.ax_ is None
    assert display.figure_ is figure
    assert list(display.axes_) == list(axes)
    assert all(ax.lines and ax.get_xlabel() == "epoch" for ax in axes)
    with pytest.raises(ValueError, match="four panels, but 3 axes"):
        TrainingCurveDisplay.from_estimator(network, ax=axes[:3])


def test_dead_components_and_a_single_epoch_are_seen():
    history = {
        "energy": [1.0],
        "reconstruction": [0.7],
        "l1": [3.0],
        "hinge": [0.0],
        "proximity": [0.0],
        "sparsity": [0.9],
        "dead": [7],
    }
    weights = {"lam": 0.1, "beta": 10.0, "gamma": 1.0}
    display = TrainingCurveDisplay(history, weights=weights).plot()
    assert display.lines_["dead"].get_marker() == "o"
    assert display.axes_[1, 1].get_ylim()[1] > 7
    assert list(display.lines_["hinge"].get_ydata()) == [0]


def test_streaming_after_validation_is_drawn_to_the_end(X):
    model = VDL(4, max_iter=2, early_stopping=True, random_state=0).fit(X).partial_fit(X)
    lines = TrainingCurveDisplay.from_estimator(model).lines_
    assert list(lines["energy"].get_xdata()) == [1, 2, 3]
    assert list(lines["validation"].get_xdata()) == [1, 2]


@pytest.mark.parametrize("place", ["last", "middle", "nested"])
def test_model_is_found_in_a_pipeline(place, X, digits):
    classifier = LogisticRegression(max_iter=2000)
    steps = {
        "last": [StandardScaler(with_std=False), VDL(4, max_iter=2, random_state=0)],
        "middle": [VDL(4, max_iter=2, random_state=0), classifier],
        "nested": [make_pipeline(VDL(4, max_iter=2, random_state=0)), classifier],
    }
    pipeline = make_pipeline(*steps[place]).fit(X, digits[1][:300])
    model = {"last": pipeline[-1], "middle": pipeline[0]}.get(place) or pipeline[0][0]
    display = TrainingCurveDisplay.from_estimator(pipeline)
    assert display.history is model.history_
    assert display.weights == TrainingCurveDisplay.from_estimator(model).weights


def test_training_that_cannot_be_drawn(X):
    with pytest.raises(NotFittedError):
        TrainingCurveDisplay.from_estimator(make_pipeline(StandardScaler(), VDL()))
    for other in (PCA(2).fit(X), make_pipeline(StandardScaler(), PCA(2)).fit(X)):
        message = rf"{type(other).__name__} has no training history.*VarianceDictionaryLearning"
        with pytest.raises(TypeError, match=message):
            TrainingCurveDisplay.from_estimator(other)
    with pytest.raises(NotFittedError):
        TrainingCurveDisplay.from_estimator(VDL())
    with pytest.raises(ValueError, match="did not complete an epoch"):
        TrainingCurveDisplay({"energy": []}).plot()
    assert not plt.get_fignums()
