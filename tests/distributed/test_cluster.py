"""`fit` on Dask: on the workers of a cluster, or block by block in this process."""

import os
import pickle
import time
import weakref
from contextlib import nullcontext

import numpy as np
import pandas as pd
import pytest
import torch
from _recipes import recipe
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skvdl import VDL, VDLNL
from skvdl.estimators import _cluster

da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")
import dask  # noqa: E402

HOW = {"n_components": 6, "max_iter": 3, "batch_size": 25, "random_state": 0}
KINDS = {
    "linear": VDL(**HOW),
    "hinge": VDL(**HOW, regularizer="variance", penalty="l1"),
    "network": VDLNL(hidden_layer_sizes=5, **HOW),
}


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(0)
    codes = rng.exponential(size=(160, 5)) * (rng.random((160, 5)) < 0.4)
    return codes @ rng.normal(size=(5, 12)) + 0.05 * rng.normal(size=(160, 12))


@pytest.fixture
def lazy(X):
    """Uneven blocks, cut along the features too, and one without rows."""
    return da.from_array(X, chunks=((25, 0, 61, 33, 41), (5, 7)))


@pytest.fixture(scope="module")
def cluster():
    how = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(**how) as cluster:
        yield cluster


@pytest.fixture
def client(cluster):
    with distributed.Client(cluster) as client:
        yield client


def assert_equal_models(one, other):
    for a, b in zip(one.decoder_.parameters(), other.decoder_.parameters(), strict=True):
        np.testing.assert_allclose(a.detach(), b.detach(), rtol=0, atol=1e-9)
    assert one.n_steps_ == other.n_steps_


def test_a_worker_that_is_added_takes_part_in_the_next_fit(X, lazy, cluster, client):
    expected = VDL(**HOW).fit(X)
    assert_equal_models(VDL(**HOW).fit(lazy), expected)
    cluster.scale(2)
    client.wait_for_workers(2, timeout=60)
    parts = _cluster._assign(client, client.compute(list(lazy.to_delayed()[:, 0])))
    assert sorted(map(len, parts.values())) == [2, 3]
    assert_equal_models(VDL(**HOW).fit(lazy), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_workers_learn_what_one_process_learns_in_memory(X, lazy, client, kind):
    found, expected = clone(KINDS[kind]).fit(lazy), clone(KINDS[kind]).fit(X)
    assert_equal_models(found, expected)
    assert found.score(lazy) == pytest.approx(expected.score(X), rel=1e-5)
    # a plain estimator, which needs neither Dask nor the workers
    assert b"dask" not in pickle.dumps(found)
    assert found.transform(X).shape == (160, 6)
    assert found.n_features_in_ == 12


def test_frames_warm_starts_and_pipelines(X, client):
    frame = pd.DataFrame(X, columns=[f"f{i}" for i in range(12)])
    vdl = VDL(**HOW, warm_start=True).fit(dd.from_pandas(frame, npartitions=3))
    expected = VDL(**HOW, warm_start=True).fit(frame)
    assert list(vdl.feature_names_in_) == list(frame.columns)
    assert_equal_models(vdl, expected)
    assert_equal_models(vdl.fit(dd.from_pandas(frame, npartitions=3)), expected.fit(frame))
    pipe = make_pipeline(_Scaler(), VDL(**HOW)).fit(da.from_array(X, chunks=(40, 12)))
    Z = pipe.transform(da.from_array(X, chunks=(40, 12)))
    assert isinstance(Z, da.Array)
    expected = make_pipeline(StandardScaler(), VDL(**HOW)).fit(X)
    assert_equal_models(pipe[-1], expected[-1])
    assert pipe.score(da.from_array(X, chunks=(40, 12))) == pytest.approx(
        expected.score(X), rel=0.01
    )


class _Scaler(StandardScaler):
    """A step that gives Dask arrays back, as those of dask-ml do."""

    def fit(self, X, y=None):
        self.mean, self.std = dask.compute(X.mean(axis=0), X.std(axis=0))
        return self

    def fit_transform(self, X, y=None):
        return self.fit(X).transform(X)

    def transform(self, X):
        return (X - self.mean) / self.std


def test_bad_blocks_say_so(X, client):
    bad = X.copy()
    bad[150] = np.nan
    model = VDL(**HOW)
    before = set(vars(model))
    with pytest.raises(ValueError, match="NaN"):
        model.fit(da.from_array(bad, chunks=(40, 12)))
    assert set(vars(model)) == before
    with pytest.raises(ValueError, match="torchrun"):
        VDL(**HOW, distributed=True).fit(da.from_array(X, chunks=(40, 12)))

    def fail(block):
        raise OSError("no such file")

    with pytest.raises(OSError, match="no such file"):
        model.fit(da.from_array(X, chunks=(40, 12)).map_blocks(fail, meta=X[:0]))


@pytest.mark.parametrize("name", ["cluster.py", "search.py"])
def test_recipes_of_the_documentation_run(name, cluster, monkeypatch):
    # workers that are there already take the place of new ones
    monkeypatch.setattr(distributed, "LocalCluster", lambda **how: nullcontext(cluster))
    names = {"__name__": "__main__"}
    exec(recipe(name), names)
    with distributed.Client(cluster) as client:
        # workers do not compete for cores
        assert set(client.run(torch.get_num_threads).values()) == {1}
    if name == "cluster.py":
        assert names["score"] > 0.5
        assert 0.6 < names["zeros"] < 0.95
        assert names["X_hat"].shape == (2000, 20)
    else:
        assert min(names["search"].cv_results_["mean_test_score"]) > 0.3


class _Dying(VDL):
    """Kills the second of two workers after some steps, the first time."""

    def _learn(self, read, group, callbacks):
        from skvdl.training import Learner, _checkpoint

        _checkpoint._SECONDS, _checkpoint._SHARE = 0.0, float("inf")
        step = Learner.step

        def killed(learner, *batch):
            if group.rank == 1 and learner.n_steps == 5 and not os.path.exists(self.flag):
                open(self.flag, "x").close()
                os._exit(1)
            return step(learner, *batch)

        Learner.step = killed
        try:
            return super()._learn(read, group, callbacks)
        finally:
            Learner.step = step


def test_a_worker_that_dies_is_an_error_and_the_fit_resumes(X, lazy, client, tmp_path):
    how = HOW | {"checkpoint": tmp_path / "states"}
    model = _Dying(**how)
    model.flag = str(tmp_path / "flag")
    start = time.monotonic()
    with pytest.raises(RuntimeError, match="lost"):
        model.fit(lazy)
    assert time.monotonic() - start < 60
    assert os.listdir(tmp_path / "states")
    # on the worker that is left, or with one that has taken the place of the other
    assert_equal_models(model.fit(lazy), VDL(**HOW).fit(X))
    assert not os.listdir(tmp_path / "states")


@pytest.mark.parametrize("kind", KINDS)
def test_blocks_are_streamed_without_a_client(X, lazy, kind, tmp_path):
    with dask.config.set(scheduler="synchronous"):
        model = clone(KINDS[kind]).set_params(checkpoint=tmp_path).fit(lazy)
        again = clone(KINDS[kind]).fit(lazy)
    assert model.n_steps_ == clone(KINDS[kind]).fit(X).n_steps_
    assert_equal_models(model, again)
    assert model.score(X) > 0.8 * clone(KINDS[kind]).fit(X).score(X)


def test_a_stream_has_few_blocks_in_memory(X, monkeypatch):
    monkeypatch.setattr("skvdl.estimators._base._STREAM_ROWS", 30)
    alive, most = [], []

    class Block(np.ndarray):
        pass

    def watch(block):
        block = block.copy().view(Block)
        alive.append(weakref.ref(block))
        most.append(sum(reference() is not None for reference in alive))
        return block

    lazy = da.from_array(X, chunks=(10, 12)).map_blocks(watch, meta=X[:0])
    how = HOW | {"max_iter": 2, "batch_size": 8, "revive_dead": True}
    with dask.config.set(scheduler="synchronous"):
        model = VDL(**how, early_stopping=True).fit(lazy)
    # besides the two blocks that a batch may need, there is the one that is computed
    assert max(most) <= 3
    assert len(model.validation_curve_) == 2
