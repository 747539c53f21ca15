"""Callbacks of scikit-learn: what they are told, and that they change nothing."""

import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skvdl import NonLinearVDL, VarianceDictionaryLearning
from skvdl.metrics import psnr_scorer, sparsity_scorer
from skvdl.training import _checkpoint

X = np.random.default_rng(0).normal(size=(300, 7)).astype(np.float32)
HOW = {"n_components": 5, "batch_size": 50, "max_iter": 3, "random_state": 0}


@pytest.fixture
def callback():
    return pytest.importorskip("sklearn.callback")


class Recorder:
    """Remember what was said, and stop in some epoch."""

    max_propagation_depth = None

    def __init__(self, stop=None):
        self.stop = stop
        self.said = []
        self.scores = []

    def setup(self, estimator, context):
        self.said.append("setup")

    def teardown(self, estimator, context):
        self.said.append("teardown")

    def on_fit_task_begin(self, estimator, context):
        self.said.append(f"begin {context.task_name} {context.task_id}")

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, fitted_estimator=None):
        self.said.append(f"end {context.task_name} {context.task_id}")
        if isinstance(fitted_estimator, VarianceDictionaryLearning | NonLinearVDL):
            self.scores.append((fitted_estimator.n_iter_, fitted_estimator.score(X, y)))
        return context.task_name == "epoch" and context.task_id == self.stop


def epochs(n):
    return [f"{what} epoch {i}" for i in range(n) for what in ("begin", "end")]


@pytest.mark.parametrize(
    "estimator",
    [
        VarianceDictionaryLearning(**HOW),
        VarianceDictionaryLearning(early_stopping=True, **HOW),
        NonLinearVDL(hidden_layer_sizes=4, **HOW),
    ],
)
def test_what_callbacks_are_told(callback, estimator):
    recorder = Recorder()
    watched = clone(estimator).set_callbacks(recorder).fit(X)
    assert recorder.said == [
        "setup",
        "begin fit 0",
        *epochs(3),
        "end fit 0",
        "teardown",
    ]
    # being watched changes nothing, and each state is that of a fit that ends there
    assert watched.history_ == estimator.fit(X).history_
    assert [n for n, _ in recorder.scores] == [1, 2, 3, 3]
    assert recorder.scores[2][1] == recorder.scores[3][1] == watched.score(X)


def test_a_callback_can_stop_training(callback):
    recorder = Recorder(stop=1)
    estimator = VarianceDictionaryLearning(**HOW).set_callbacks(recorder).fit(X)
    assert estimator.n_iter_ == 2
    assert recorder.said[2:-2] == epochs(2)


def test_early_stopping_ends_what_was_begun(callback):
    recorder = Recorder()
    how = HOW | {"max_iter": 50, "early_stopping": True, "n_iter_no_change": 1, "tol": 0.9}
    estimator = VarianceDictionaryLearning(**how).set_callbacks(recorder).fit(X)
    assert estimator.n_iter_ < 50
    assert recorder.said[2:-2] == epochs(estimator.n_iter_ + 1)
    assert recorder.said[-1] == "teardown"


def test_callbacks_are_cleaned_up_after_errors(callback):
    recorder = Recorder()
    estimator = VarianceDictionaryLearning(**HOW).set_callbacks(recorder)
    with pytest.raises(ValueError, match="NaN"):
        estimator.fit(X * np.nan)
    assert recorder.said == ["setup", "teardown"]
    assert not hasattr(estimator, "_callback_fit_ctx")


def test_callbacks_in_pipelines_and_searches(callback):
    recorder = Recorder()
    pipeline = make_pipeline(StandardScaler(), VarianceDictionaryLearning(**HOW))
    pipeline.set_callbacks(recorder).fit(X)
    assert [said for said in recorder.said if "epoch" in said] == epochs(3)
    pipeline.set_callbacks()
    recorder = Recorder()
    grid = {"variancedictionarylearning__n_components": [3, 4]}
    GridSearchCV(pipeline, grid, cv=2).set_callbacks(recorder).fit(X)
    assert [said for said in recorder.said if "epoch" in said] == epochs(3) * 5


def test_scoring_monitor(callback):
    monitor = callback.ScoringMonitor(scoring={"psnr": psnr_scorer, "zeros": sparsity_scorer})
    estimator = VarianceDictionaryLearning(**HOW).set_callbacks(monitor).fit(X)
    rows = monitor.get_logs().data
    assert [row["task_name"] for row in rows] == ["fit", *["epoch"] * 3]
    assert rows[0]["psnr"] == rows[-1]["psnr"] == psnr_scorer(estimator, X)
    assert rows[1]["psnr"] != rows[2]["psnr"]
    search = GridSearchCV(estimator, {"n_components": [3, 4]}, cv=2).fit(X)
    scores = [row["psnr"] for row in monitor.get_logs().data if row["task_name"] == "epoch"]
    assert len(scores) == 3 * 5
    assert psnr_scorer(search.best_estimator_, X) in scores


def test_progress_bar(callback, capsys):
    pytest.importorskip("rich")
    bar = callback.ProgressBar()
    VarianceDictionaryLearning(**HOW).set_callbacks(bar).fit(X)
    shown = capsys.readouterr().out
    assert "VarianceDictionaryLearning" in shown
    assert "100%" in shown


def test_after_a_kill_only_what_is_left_is_told(callback, tmp_path, monkeypatch):
    monkeypatch.setattr(_checkpoint, "_SHARE", np.inf)
    estimator = VarianceDictionaryLearning(**HOW, checkpoint=tmp_path)

    class Killer(Recorder):
        def on_fit_task_begin(self, estimator, context):
            if context.task_id == 2:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        clone(estimator).set_callbacks(Killer()).fit(X)
    recorder = Recorder()
    estimator.set_callbacks(recorder).fit(X)
    # it was interrupted before the state after the second epoch was written
    assert recorder.said[2:-2] == epochs(2)
    assert estimator.n_iter_ == 3


def test_without_callbacks():
    """scikit-learn has callbacks since 1.9."""
    code = """
import sys
sys.modules["sklearn.callback"] = None
import numpy as np
from skvdl.estimators import _callbacks
callbacks = _callbacks.FitCallbacks(object(), None, None)
callbacks.begin(2)
print(callbacks.after_epoch(dict), callbacks.end())
print(hasattr(_callbacks.CallbackSupportMixin, "set_callbacks"))
"""
    # only this one module, because this scikit-learn does not start without its own callbacks
    code = code.replace("import sys\n", "import sys, sklearn.base, sklearn.pipeline\n")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["False", "None", "False"], done.stderr
