"""A fit that is killed goes on from its checkpoint, and ends as if nothing had happened."""

import os
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from skvdl import NonLinearVDL, VarianceDictionaryLearning, load
from skvdl.estimators._fingerprint import hash_rows
from skvdl.training import Checkpoint, Learner, _checkpoint

X = np.random.default_rng(0).normal(size=(300, 7)).astype(np.float32)
HOW = {"n_components": 5, "batch_size": 50, "max_iter": 4, "random_state": 0, "device": "cpu"}
STOPPING = {"early_stopping": True, "n_iter_no_change": 2, "tol": 0.5, "max_iter": 20}
MODELS = {
    "default": VarianceDictionaryLearning(**HOW),
    "auto": VarianceDictionaryLearning(**(HOW | {"max_iter": "auto"})),
    "stopping": VarianceDictionaryLearning(**(HOW | STOPPING)),
    "hinge": VarianceDictionaryLearning(regularizer="variance", penalty="l1", lam=0.1, **HOW),
    "revive": VarianceDictionaryLearning(lam=0.3, revive_dead=True, learning_rate_init=0.1, **HOW),
    "no encoder": VarianceDictionaryLearning(encoder=None, positive_code=False, **HOW),
    "network": NonLinearVDL(hidden_layer_sizes=6, **HOW),
    "deep": NonLinearVDL(hidden_layer_sizes=(6, 6), **(HOW | STOPPING)),
}


class Killed(BaseException):
    """Stands for the end of the process."""


@pytest.fixture
def every_step(monkeypatch):
    """Write after every step, and leave the disk alone."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    monkeypatch.setattr(_checkpoint, "_SECONDS", 0.0)
    monkeypatch.setattr(_checkpoint, "_SHARE", np.inf)


def fit_until(n_writes, estimator, data=X):
    """Fit, and stop after so many states were written; return whether that many were."""
    write, n = Checkpoint.write, 0

    def write_and_stop(self, state):
        nonlocal n
        write(self, state)
        n += 1
        if n == n_writes:
            raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Checkpoint, "write", write_and_stop)
        try:
            estimator.fit(data)
        except Killed:
            return True
    return False


def assert_same(a, b, data=X):
    for x, y in zip(a.decoder_.parameters(), b.decoder_.parameters(), strict=True):
        assert torch.equal(x, y)
    assert np.array_equal(a.transform(data), b.transform(data))
    assert a.history_ == b.history_
    assert (a.lam_, a.n_iter_, a.n_steps_) == (b.lam_, b.n_iter_, b.n_steps_)


@pytest.mark.parametrize("name", MODELS)
def test_a_killed_fit_goes_on(tmp_path, every_step, monkeypatch, name):
    monkeypatch.setattr(VarianceDictionaryLearning, "_auto_steps", 20)
    expected = clone(MODELS[name]).fit(X)
    estimator = clone(MODELS[name]).set_params(checkpoint=tmp_path)
    # at the start, within an epoch, and at the end of one
    for n_writes in (1, 4, 7, 2):
        assert fit_until(n_writes, clone(estimator))
        assert list(tmp_path.glob("*.safetensors"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_same(estimator.fit(X), expected)
    assert not os.listdir(tmp_path)


def test_what_was_done_is_not_done_again(tmp_path, every_step):
    estimator = VarianceDictionaryLearning(**HOW, checkpoint=tmp_path)
    # the first is written before the first step
    assert fit_until(1 + 3, clone(estimator))
    n_writes = 0
    while fit_until(1, clone(estimator)):
        n_writes += 1
    # an epoch has 5 or 6 batches and a state after it
    steps = clone(estimator).set_params(checkpoint=None).fit(X).n_steps_
    assert n_writes == steps + HOW["max_iter"] - 3


def test_state_after_the_last_epoch(tmp_path, every_step, monkeypatch):
    estimator = VarianceDictionaryLearning(**(HOW | STOPPING), checkpoint=tmp_path)
    expected = clone(estimator).set_params(checkpoint=None).fit(X)
    assert expected.n_iter_ < STOPPING["max_iter"]

    def killed(*args):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(VarianceDictionaryLearning, "_calibrate", killed)
        with pytest.raises(Killed):
            clone(estimator).fit(X)
    assert_same(estimator.fit(X), expected)


@pytest.mark.parametrize("name", ["default", "network"])
def test_warm_start(tmp_path, every_step, name):
    first = clone(MODELS[name]).set_params(warm_start=True).fit(X)
    first.save(tmp_path / "first")
    expected = first.fit(X)
    folder = tmp_path / "folder"
    assert fit_until(8, load(tmp_path / "first").set_params(checkpoint=folder))
    # not the start of this one
    fresh = clone(MODELS[name]).set_params(warm_start=True, checkpoint=folder)
    assert_same(fresh.fit(X), clone(MODELS[name]).fit(X))
    assert len(list(folder.glob("*.safetensors"))) == 1
    assert_same(load(tmp_path / "first").set_params(checkpoint=folder).fit(X), expected)
    assert not os.listdir(folder)


def test_grid_search_in_one_folder(tmp_path, every_step):
    estimator = VarianceDictionaryLearning(init="random", **(HOW | {"max_iter": 2}))
    search = GridSearchCV(estimator, {"n_components": [3, 4]}, cv=2)
    expected = clone(search).fit(X)
    search.set_params(estimator__checkpoint=tmp_path)
    for n_writes in (4, 12, 15, 25):
        assert fit_until(n_writes, clone(search))
        assert len(list(tmp_path.glob("*.safetensors"))) == 1
    search.fit(X)
    assert np.array_equal(
        search.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"]
    )
    assert_same(search.best_estimator_, expected.best_estimator_)
    assert not os.listdir(tmp_path)


def test_a_seed_that_was_drawn(tmp_path, every_step, monkeypatch):
    estimator = VarianceDictionaryLearning(**(HOW | {"random_state": None}), checkpoint=tmp_path)
    splits = []
    split = VarianceDictionaryLearning._split
    monkeypatch.setattr(
        VarianceDictionaryLearning,
        "_split",
        lambda *args: splits.append(split(*args)) or splits[-1],
    )
    assert fit_until(3, estimator)
    estimator.fit(X)
    clone(estimator).fit(X)
    # the rows held out are the same after a kill, and others in a new fit
    assert torch.equal(splits[0][1], splits[1][1])
    assert not torch.equal(splits[0][1], splits[2][1])


def test_a_generator_is_a_seed(tmp_path, every_step):
    estimator = VarianceDictionaryLearning(**HOW, checkpoint=tmp_path)
    expected = clone(estimator).set_params(random_state=np.random.RandomState(3)).fit(X)
    assert fit_until(5, estimator.set_params(random_state=np.random.RandomState(3)))
    other = clone(estimator).set_params(random_state=np.random.RandomState(4)).fit(X)
    assert not np.array_equal(other.components_, expected.components_)
    assert_same(estimator.set_params(random_state=np.random.RandomState(3)).fit(X), expected)


def killed_file(folder):
    """Path of the file of a fit that was killed, and the estimator."""
    estimator = VarianceDictionaryLearning(**HOW, checkpoint=folder)
    assert fit_until(4, clone(estimator))
    (path,) = folder.glob("*.safetensors")
    return path, estimator


def beginnings(estimator, data):
    """Messages, shown as often as possible, that a fit does not go on from what is there."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        estimator.fit(data)
    return [str(warning.message) for warning in caught]


@pytest.mark.parametrize(
    ("change", "data", "reason"),
    [
        ({"n_components": 6}, X, "other parameters"),
        ({"lam": 0.01}, X, "other parameters"),
        ({"max_iter": 5}, X, "other parameters"),
        ({"random_state": 1}, X, "other parameters"),
        ({}, X[:-1], "other data"),
        ({}, X[::-1], "other data"),
        ({}, X.astype(np.float64), "other data"),
        ({}, np.maximum(X, X.min() + 1e-3), "other data"),
    ],
)
def test_the_file_of_a_similar_fit_is_mentioned_once(tmp_path, every_step, change, data, reason):
    path, estimator = killed_file(tmp_path)
    other = clone(estimator).set_params(**change)
    with pytest.warns(UserWarning, match="starts from the beginning") as caught:
        fitted = clone(other).fit(data)
    assert_same(fitted, clone(other).set_params(checkpoint=None).fit(data), data)
    assert caught[0].filename == __file__
    message = str(caught[0].message)
    assert f"starts from the beginning: {str(path)!r}" in message
    assert reason in message
    assert not beginnings(other, data)
    # it is still there, and its fit says nothing when it goes on
    assert not beginnings(estimator, X)
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize(
    ("estimator", "data"),
    [
        (VarianceDictionaryLearning(**(HOW | {"n_components": 6})), X[:-1]),
        (NonLinearVDL(hidden_layer_sizes=6, **HOW), X),
        (VarianceDictionaryLearning(**HOW, warm_start=True).fit(X), X),
    ],
)
def test_files_of_unlike_fits_are_not_mentioned(tmp_path, every_step, estimator, data):
    killed_file(tmp_path)
    assert not beginnings(estimator.set_params(checkpoint=tmp_path), data)
    assert list(tmp_path.glob("*.safetensors"))


def test_a_search_mentions_a_killed_fit_at_most_once(tmp_path, every_step):
    estimator = VarianceDictionaryLearning(**(HOW | {"max_iter": 2}), checkpoint=tmp_path)
    search = GridSearchCV(estimator, {"n_components": [3, 4, 5], "lam": [0.01, 0.02]}, cv=3)
    # some fit after the first ones, whose files are gone
    assert fit_until(100, clone(search))
    (path,) = tmp_path.glob("*.safetensors")
    (message,) = beginnings(search, X)
    assert path.name in message
    assert not os.listdir(tmp_path)


def test_fits_in_progress_are_not_mentioned(tmp_path, every_step):
    others = []

    class Other(VarianceDictionaryLearning):
        """Fits with other parameters and with other data, while this one is in progress."""

        def _start(self, learner, *args, **kwargs):
            super()._start(learner, *args, **kwargs)
            if not others:
                others.append(None)
                assert not beginnings(clone(self).set_params(n_components=6), X)
                assert not beginnings(clone(self), X[:-1])
                assert not beginnings(clone(self), X)

    assert not beginnings(Other(**HOW, checkpoint=tmp_path), X)
    assert others
    assert not os.listdir(tmp_path)


def test_a_look_at_a_file_does_not_take_it_from_its_fit(tmp_path, monkeypatch):
    names = {"a-x": {"a-*": "other data"}, "a-y": {"a-*": "other data"}}
    with Checkpoint(tmp_path) as killed:
        killed.find("a-x", {}, 1)
        killed.write({"of": "x"})
    take, seen = _checkpoint._Lock.take, []

    def look(path):
        """While another fit looks at the file, start the one that it belongs to."""
        lock = take(path)
        if path.name == "a-x.lock" and not seen:
            seen.append(threading.Thread(target=go_on))
            seen[0].start()
            # long enough for it to find the lock taken
            seen[0].join(0.2)
        return lock

    found = []

    def go_on():
        with Checkpoint(tmp_path) as checkpoint:
            checkpoint.find("a-x", {}, 1, names["a-x"])
            found.append(checkpoint.saved)

    monkeypatch.setattr(_checkpoint._Lock, "take", look)
    with Checkpoint(tmp_path) as other, pytest.warns(UserWarning, match="other data"):
        other.find("a-y", {}, 1, names["a-y"])
    seen[0].join()
    assert found == [{"of": "x"}]


def test_parameters_without_effect(tmp_path, every_step):
    estimator = VarianceDictionaryLearning(**HOW, checkpoint=tmp_path)
    assert fit_until(4, clone(estimator))
    estimator.set_params(transform_method="encoder", sparse_output=True, checkpoint=str(tmp_path))
    estimator.fit(X)
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("damage", ["truncated", "changed", "empty", "text", "model"])
def test_damaged_files_are_reported_and_not_used(tmp_path, every_step, damage):
    path, estimator = killed_file(tmp_path)
    data = path.read_bytes()
    changed = {"truncated": data[:-100], "changed": data[:-1] + b"x", "empty": b"", "text": b"hi"}
    if damage == "model":
        VarianceDictionaryLearning(**HOW).fit(X).save(path)
    else:
        path.write_bytes(changed[damage])
    with pytest.warns(UserWarning, match="training starts again") as caught:
        estimator.fit(X)
    assert caught[0].filename == __file__
    assert path.name in str(caught[0].message)
    assert_same(estimator, VarianceDictionaryLearning(**HOW).fit(X))
    assert not os.listdir(tmp_path)


def test_files_of_other_versions_are_reported_and_not_used(tmp_path, every_step, monkeypatch):
    path, estimator = killed_file(tmp_path)
    monkeypatch.setattr("skvdl.estimators._fingerprint.__version__", "99.0")
    with pytest.warns(UserWarning, match="is of another version of skvdl"):
        estimator.fit(X)
    assert_same(estimator, VarianceDictionaryLearning(**HOW).fit(X))
    assert not path.exists()


def test_files_of_other_fits_are_reported_and_not_used(tmp_path, every_step):
    path, _ = killed_file(tmp_path / "a")
    other = VarianceDictionaryLearning(**HOW, checkpoint=tmp_path / "b")
    assert fit_until(4, clone(other), X[:200])
    (other_path,) = (tmp_path / "b").glob("*.safetensors")
    path.rename(other_path)
    with pytest.warns(UserWarning, match="is of another data set"):
        other.fit(X[:200])
    assert_same(other, VarianceDictionaryLearning(**HOW).fit(X[:200]))


def test_a_state_that_does_not_fit_is_an_error(tmp_path, every_step):
    path, estimator = killed_file(tmp_path)
    tree = _checkpoint.read_tree(path, kind="checkpoint")
    weight = tree["state"]["learner"]["decoder"]["weight"]
    tree["state"]["learner"]["decoder"]["weight"] = weight[:, 1:]
    _checkpoint.write_tree(path, tree, kind="checkpoint")
    with pytest.raises(ValueError, match="does not have the state of this fit; remove it"):
        estimator.fit(X)
    assert not hasattr(estimator, "components_")


def test_equal_fits_at_the_same_time_have_files_of_their_own(tmp_path):
    names = []
    with Checkpoint(tmp_path) as a, Checkpoint(tmp_path) as b:
        for checkpoint in (a, b):
            checkpoint.find("fit", {}, 1)
            checkpoint.write({"of": len(names)})
            names.append(checkpoint.path.name)
    assert names == ["fit.safetensors", "fit-1.safetensors"]
    # both were killed: each of the next two goes on with one
    with Checkpoint(tmp_path) as a, Checkpoint(tmp_path) as b:
        for number, checkpoint in enumerate((a, b)):
            checkpoint.find("fit", {}, 1)
            assert checkpoint.saved == {"of": number}
            checkpoint.remove()
    assert not os.listdir(tmp_path)


def test_an_interrupted_fit_keeps_its_file(tmp_path, every_step, monkeypatch):
    estimator = VarianceDictionaryLearning(**HOW, checkpoint=tmp_path)
    step, n = Learner.step, 0

    def interrupted(self, *batch):
        nonlocal n
        n += 1
        if n == 9:
            raise KeyboardInterrupt
        return step(self, *batch)

    with monkeypatch.context() as patch:
        patch.setattr(Learner, "step", interrupted)
        with pytest.raises(KeyboardInterrupt):
            estimator.fit(X)
    assert hasattr(estimator, "components_")
    assert list(tmp_path.glob("*.safetensors"))
    assert_same(estimator.fit(X), VarianceDictionaryLearning(**HOW).fit(X))


def test_divergence_is_the_same_after_a_kill(tmp_path, every_step, monkeypatch):
    step = Learner.step

    def diverge(self, *batch):
        stats = step(self, *batch)
        if self.n_steps == 14:
            stats["energy"] = stats["energy"] * np.nan
        return stats

    monkeypatch.setattr(Learner, "step", diverge)
    estimator = VarianceDictionaryLearning(**HOW, checkpoint=tmp_path)
    expected = clone(estimator).set_params(checkpoint=None)
    with pytest.raises(FloatingPointError, match="in epoch 3") as error:
        expected.fit(X)
    # in the epoch before, and in the same one
    for n_writes in (10, 5):
        assert fit_until(n_writes, clone(estimator))
    with pytest.raises(FloatingPointError) as again:
        estimator.fit(X)
    assert str(again.value) == str(error.value)
    assert_same(estimator, expected)
    assert not os.listdir(tmp_path)


def test_a_full_disk_does_not_end_training(tmp_path, every_step, monkeypatch):
    def fail(*args):
        raise OSError("disk full")

    monkeypatch.setattr("skvdl.training._store.os.fsync", fail)
    estimator = VarianceDictionaryLearning(**HOW, checkpoint=tmp_path)
    with pytest.warns(UserWarning, match="training goes on without: disk full"):
        estimator.fit(X)
    assert_same(estimator, VarianceDictionaryLearning(**HOW).fit(X))


def test_a_folder_that_is_a_file_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FileExistsError, match="file"):
        VarianceDictionaryLearning(**HOW, checkpoint=tmp_path / "file").fit(X)


def test_writing_takes_a_bounded_share_of_the_time(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(_checkpoint.time, "monotonic", lambda: now[0])
    checkpoint = Checkpoint(tmp_path)
    checkpoint.find("fit", {}, 1)
    assert checkpoint.is_due(within_epoch=False)
    assert not checkpoint.is_due(within_epoch=True)

    def slow(*args, **kwargs):
        now[0] += 5.0

    monkeypatch.setattr(_checkpoint, "write_tree", slow)
    checkpoint.write({})
    now[0] += 99.0
    assert not checkpoint.is_due(within_epoch=False)
    now[0] += 2.0
    assert checkpoint.is_due(within_epoch=False)
    assert checkpoint.is_due(within_epoch=True)
    checkpoint.__exit__(None, None, None)
    assert not Checkpoint(None).is_due(within_epoch=False)


def test_digest_of_data(monkeypatch):
    data = torch.from_numpy(X)
    expected = hash_rows(data)
    assert hash_rows(data.T.contiguous().T) == expected
    monkeypatch.setattr("skvdl.estimators._fingerprint._CHUNK_ELEMENTS", 10)
    assert hash_rows(data) == expected
    for place in (0, -1):
        other = data.clone()
        other.view(-1)[place] += 1e-6
        assert hash_rows(other) != expected
    assert hash_rows(data.reshape(-1, 14)) != expected


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_real_kills(tmp_path):
    script = Path(__file__).with_name("_killed.py")
    path = os.pathsep.join([str(Path(_checkpoint.__file__).parents[2]), str(script.parent)])
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["equal"] * 3
