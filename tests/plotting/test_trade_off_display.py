"""Sparsity against PSNR."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from _pictures import plain_psnr
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skvdl import VDL
from skvdl.metrics import psnr_scorer, sparsity_scorer
from skvdl.plotting import (
    TradeOffDisplay,
)


def drawn(curve):
    """Points of a curve, and half lengths of its bars along x and y."""
    line, _, bars = curve.lines
    segments = [np.array(bar.get_segments()) for bar in bars]
    halves = [np.ptp(s, axis=1)[:, i] / 2 for i, s in enumerate(segments)]
    return line.get_xdata(), line.get_ydata(), halves


def test_models_are_measured_and_joined_by_sparsity(X):
    models = [VDL(8, lam=lam, max_iter=3, random_state=0).fit(X) for lam in (0.1, 0.001, 0.02)]
    display = TradeOffDisplay.from_estimators({"curve": models, "one": models[0]}, X)
    expected = []
    for model in models:
        codes = model.transform(X)
        rebuilt = model.inverse_transform(codes)
        ratios = [plain_psnr(x, y, np.ptp(X)) for x, y in zip(X, rebuilt, strict=True)]
        expected.append((np.mean(codes == 0), np.mean(ratios)))
    x, y, bars = drawn(display.curves_["curve"])
    np.testing.assert_allclose(np.transpose([x, y]), sorted(expected))
    assert bars == []
    x, y, _ = drawn(display.curves_["one"])
    np.testing.assert_allclose([*x, *y], expected[0])
    texts = [t.get_text() for t in display.ax_.get_legend().get_texts()]
    assert texts == ["curve", "one"]
    assert display.ax_.get_xlabel() == "zeros in the codes"
    assert display.ax_.get_ylabel() == "PSNR (dB)"


def test_range_of_the_data_moves_the_psnr(linear, X):
    heights = [
        drawn(TradeOffDisplay.from_estimators({"a": linear}, X, data_range=r).curves_["a"])[1]
        for r in (1.0, 10.0)
    ]
    assert heights[1] - heights[0] == pytest.approx(20)


def test_seeds_become_a_mean_with_bars(X):
    seeds = [VDL(8, max_iter=1, init="random", random_state=s).fit(X) for s in range(3)]
    one = VDL(8, lam=0.1, max_iter=1, random_state=0).fit(X)
    display = TradeOffDisplay.from_estimators({"a": [seeds, one]}, X)
    points = [(sparsity_scorer(m, X), psnr_scorer(m, X)) for m in [*seeds, one]]
    first = 0 if np.mean(points[:3], axis=0)[0] < points[3][0] else 1
    x, y, (x_bars, y_bars) = drawn(display.curves_["a"])
    np.testing.assert_allclose([x[first], y[first]], np.mean(points[:3], axis=0))
    np.testing.assert_allclose([x[1 - first], y[1 - first]], points[3])
    np.testing.assert_allclose([x_bars[first], y_bars[first]], np.std(points[:3], axis=0))
    np.testing.assert_allclose([x_bars[1 - first], y_bars[1 - first]], 0, atol=1e-12)


@pytest.fixture(scope="module")
def search(X):
    return GridSearchCV(
        make_pipeline(StandardScaler(with_std=False), VDL(8, max_iter=2, random_state=0)),
        {
            "variancedictionarylearning__lam": [0.001, 0.05],
            "variancedictionarylearning__beta": [1, 10],
        },
        scoring={"zeros": sparsity_scorer, "quality": psnr_scorer},
        refit=False,
        cv=3,
    ).fit(X)


def test_search_is_drawn_a_curve_for_each_setting_of_the_other_parameters(search):
    display = TradeOffDisplay.from_grid_search(search, sparsity="zeros", psnr="quality")
    results = search.cv_results_
    assert list(display.curves_) == ["beta=1", "beta=10"]
    for label, curve in display.curves_.items():
        beta = int(label.removeprefix("beta="))
        chosen = [
            i
            for i, params in enumerate(results["params"])
            if params["variancedictionarylearning__beta"] == beta
        ]
        chosen.sort(key=lambda i: results["mean_test_zeros"][i])
        x, y, (x_bars, y_bars) = drawn(curve)
        np.testing.assert_allclose(x, results["mean_test_zeros"][chosen])
        np.testing.assert_allclose(y, results["mean_test_quality"][chosen])
        np.testing.assert_allclose(x_bars, results["std_test_zeros"][chosen])
        np.testing.assert_allclose(y_bars, results["std_test_quality"][chosen])
    # each value once, at the uppermost of its points
    tops = {}
    for params, x, y in zip(
        results["params"], results["mean_test_zeros"], results["mean_test_quality"], strict=True
    ):
        name = f"lam={params['variancedictionarylearning__lam']}"
        tops[name] = max(tops.get(name, (x, y)), (x, y), key=lambda point: point[1])
    texts = {text.get_text(): text.xy for text in display.ax_.texts}
    assert texts.keys() == tops.keys()
    assert len(display.ax_.texts) == 2
    for name, where in texts.items():
        np.testing.assert_allclose(where, tops[name])


def test_search_along_another_parameter(search):
    display = TradeOffDisplay.from_grid_search(
        search, along="beta", sparsity="zeros", psnr="quality"
    )
    assert list(display.curves_) == ["lam=0.001", "lam=0.05"]
    assert {text.get_text() for text in display.ax_.texts} == {"beta=1", "beta=10"}


def test_search_over_one_parameter_is_one_curve_without_legend(X):
    search = GridSearchCV(
        VDL(4, max_iter=1, random_state=0),
        {"lam": [0.001, 0.05]},
        scoring={"sparsity": sparsity_scorer, "psnr": psnr_scorer},
        refit="psnr",
        cv=2,
    ).fit(X)
    display = TradeOffDisplay.from_grid_search(search)
    assert list(display.curves_) == ["VarianceDictionaryLearning"]
    assert display.ax_.get_legend() is None


def test_search_without_the_scores_says_how_to_get_them(search, X):
    with pytest.raises(ValueError, match=r"'sparsity' or 'psnr', only 'zeros', 'quality'.*scoring"):
        TradeOffDisplay.from_grid_search(search)
    single = GridSearchCV(VDL(4, max_iter=1), {"lam": [0.01]}, cv=2, refit=False).fit(X)
    with pytest.raises(ValueError, match=r"only 'score'. Search with scoring={'sparsity'"):
        TradeOffDisplay.from_grid_search(single)
    with pytest.raises(ValueError, match=r"did not vary 'gamma'; pass as along one of \['vari"):
        TradeOffDisplay.from_grid_search(search, along="gamma", sparsity="zeros", psnr="quality")
    with pytest.raises(NotFittedError):
        TradeOffDisplay.from_grid_search(GridSearchCV(VDL(), {"lam": [1]}))
    assert not plt.get_fignums()


def test_numbers_are_drawn_as_given():
    display = TradeOffDisplay.from_predictions(
        [0.9, 0.1, 0.5], [10, 30, 20], labels=["b", "a", "b"], names=["p", "q", "r"]
    )
    assert list(display.curves_) == ["b", "a"]
    x, y, _ = drawn(display.curves_["b"])
    assert (list(x), list(y)) == ([0.5, 0.9], [20, 10])
    assert {t.get_text(): tuple(t.xy) for t in display.ax_.texts} == {
        "p": (0.9, 10),
        "q": (0.1, 30),
        "r": (0.5, 20),
    }
    display.figure_.canvas.draw()
    ticks = [t.get_text() for t in display.ax_.get_xticklabels()]
    assert "50%" in ticks or "40%" in ticks
    curves = [curve.lines[0] for curve in display.curves_.values()]
    assert curves[0].get_color() != curves[1].get_color()
    assert curves[0].get_marker() != curves[1].get_marker()


def test_what_was_not_measured_is_left_out():
    zeros = [[0.1, 0.3, 0.9], [np.nan, np.nan, np.nan], [0.5, 0.5, np.nan]]
    quality = [[20, 22, np.nan], [10, 10, 10], [10, 14, 3]]
    x, y, (x_bars, y_bars) = drawn(TradeOffDisplay(zeros, quality).plot().curves_[""])
    np.testing.assert_allclose(x, [0.2, 0.5])
    np.testing.assert_allclose(y, [21, 12])
    np.testing.assert_allclose(x_bars, [0.1, 0], atol=1e-12)
    np.testing.assert_allclose(y_bars, [1, 2])
    display = TradeOffDisplay([0.1, np.nan], [20, 10], labels=["a", "b"]).plot()
    assert list(display.curves_) == ["a"]


def test_trade_offs_that_cannot_be_drawn(linear, X):
    with pytest.raises(NotFittedError):
        TradeOffDisplay.from_estimators({"a": VDL()}, X)
    with pytest.raises(TypeError, match="must be a dict"):
        TradeOffDisplay.from_estimators([linear], X)
    for empty in ({}, {"a": []}, {"a": [linear, []]}):
        with pytest.raises(ValueError, match="no model to draw"):
            TradeOffDisplay.from_estimators(empty, X)
    with pytest.raises(ValueError, match="must have the same shape"):
        TradeOffDisplay.from_predictions([0.1, 0.2], [20.0])
    with pytest.raises(ValueError, match=r"must have the same shape, \(n_points,\)"):
        TradeOffDisplay.from_predictions(0.1, 20.0)
    with pytest.raises(ValueError, match="2 points, 1 labels and 2 names"):
        TradeOffDisplay.from_predictions([0.1, 0.2], [20.0, 10.0], labels=["a"])
    with pytest.raises(ValueError, match="no point with a finite"):
        TradeOffDisplay.from_predictions([np.nan], [20.0])
    assert not plt.get_fignums()
