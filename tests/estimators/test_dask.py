"""Dask collections: the results of in-memory containers, lazily and block by block."""

import copy
import threading

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from skvdl import VDL, VDLNL
from skvdl.estimators import _blocks

da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
import dask  # noqa: E402


@pytest.fixture(autouse=True)
def _one_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture
def fitted(small):
    return VDL(8, max_iter=3, random_state=0).fit(small)


def blocks_of(X):
    """Uneven blocks, cut along the features too, and one without rows."""
    return da.from_array(X, chunks=((25, 0, 1, 34), (5, 7)))


@pytest.mark.parametrize("method", ["encoder", "fista"])
def test_codes_and_reconstructions_are_those_of_arrays(small, fitted, method):
    fitted.set_params(transform_method=method)
    Z = fitted.transform(blocks_of(small))
    X_hat = fitted.inverse_transform(Z)
    assert isinstance(Z, da.Array)
    assert isinstance(X_hat, da.Array)
    assert Z.chunks == ((25, 0, 1, 34), (8,))
    assert Z.dtype == np.float64
    known = fitted.transform(small)
    np.testing.assert_allclose(Z.compute(), known, atol=1e-10)
    np.testing.assert_allclose(X_hat.compute(), fitted.inverse_transform(known), atol=1e-10)


def test_network_in_single_precision(small):
    X = small.astype(np.float32)
    fitted = VDLNL(6, hidden_layer_sizes=(5,), max_iter=2, random_state=0).fit(X)
    Z = fitted.transform(blocks_of(X))
    assert Z.dtype == Z.compute().dtype == np.float32
    # rounding decides when iterations stop, so that they are compared block by block
    known = [fitted.transform(X[rows]) for rows in (slice(0, 25), slice(25, 26), slice(26, 60))]
    np.testing.assert_array_equal(Z.compute(), np.vstack(known))


def test_nothing_is_computed_before_it_is_asked_for(small, fitted):
    def fail(block):
        raise AssertionError

    X = da.from_array(small, chunks=(20, 12)).map_blocks(fail, dtype=small.dtype, meta=small[:0])
    fitted.inverse_transform(fitted.transform(X))


def test_sparse_blocks(small, fitted):
    fitted.set_params(sparse_output=True)
    Z = fitted.transform(blocks_of(small))
    assert all(sparse.issparse(block.compute()) for block in Z.to_delayed().ravel())
    assert sparse.issparse(Z.compute())
    known = fitted.transform(small)
    np.testing.assert_allclose(Z.compute().toarray(), known.toarray(), atol=1e-10)
    X_hat = fitted.inverse_transform(Z).compute()
    np.testing.assert_allclose(X_hat, fitted.inverse_transform(known), atol=1e-10)


@pytest.mark.parametrize("far", [0.0, 1e6, 1e160])
def test_score_is_that_of_the_array(small, far):
    X = small * max(1.0, far / 100) + far * np.arange(12)
    fitted = VDL(8, max_iter=3, random_state=0).fit(X)
    assert fitted.score(blocks_of(X)) == pytest.approx(fitted.score(X), rel=1e-9)


def test_score_of_missing_entries(small):
    X = small.copy()
    X[::3, 2] = np.nan
    X[25] = np.nan  # the block with one row
    fitted = VDL(5, missing_values="nan", max_iter=2, random_state=0).fit(X)
    assert fitted.score(blocks_of(X)) == pytest.approx(fitted.score(X), rel=1e-9)
    with pytest.raises(ValueError, match="nothing to score"):
        fitted.score(blocks_of(np.full_like(X, np.nan)))


def test_many_blocks_are_merged_in_rounds(small, fitted):
    X = da.from_array(small, chunks=(1, 12))
    assert fitted.score(X) == pytest.approx(fitted.score(small), rel=1e-9)


def test_partial_fit_learns_like_pieces_of_the_array(small):
    a = VDL(5, batch_size=20, random_state=0).partial_fit(da.from_array(small, chunks=(7, 12)))
    b = VDL(5, batch_size=20, random_state=0)
    # blocks of 7 rows, joined until there are 20, with the remainder in the last piece
    for rows in (slice(0, 21), slice(21, 60)):
        b.partial_fit(small[rows])
    assert a.n_steps_ == b.n_steps_
    np.testing.assert_array_equal(a.components_, b.components_)


def test_frames_keep_their_names(small):
    frame = pd.DataFrame(small, columns=[f"f{i}" for i in range(12)])
    lazy = dd.from_pandas(frame, npartitions=3)
    fitted = VDL(5, random_state=0).partial_fit(lazy)
    assert list(fitted.feature_names_in_) == list(frame.columns)
    Z = fitted.transform(lazy)
    assert isinstance(Z, da.Array)
    np.testing.assert_allclose(Z.compute(), fitted.transform(frame), atol=1e-10)
    assert fitted.score(lazy) == pytest.approx(fitted.score(frame))
    with pytest.raises(ValueError, match="feature names"):
        fitted.transform(lazy.rename(columns={"f0": "other"}))


def test_the_model_is_that_of_the_call(small, fitted):
    Z, known = fitted.transform(da.from_array(small, chunks=(20, 12))), fitted.transform(small)
    fitted.partial_fit(3 * small)
    np.testing.assert_allclose(Z.compute(), known, atol=1e-10)


def test_the_model_is_loaded_once_for_all_blocks(small, fitted, monkeypatch):
    loaded, lock, load = [], threading.Lock(), _blocks._load

    def counted(model):
        with lock:
            loaded.append(1)
        return load(model)

    monkeypatch.setattr(_blocks, "_load", counted)
    Z = fitted.transform(da.from_array(small, chunks=(10, 12)))
    with dask.config.set(scheduler="threads", num_workers=2):
        Z.compute()
    assert len(loaded) == 1


def test_two_workers(small, fitted):
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": False}
    quiet = {"dashboard_address": None, "host": "127.0.0.1", "protocol": "tcp"}
    with distributed.Client(**options, **quiet, set_as_default=False) as client:
        X = da.from_array(small, chunks=(10, 12))
        Z = client.compute(fitted.transform(X)).result(timeout=60)
    np.testing.assert_allclose(Z, fitted.transform(small), atol=1e-10)


def test_what_cannot_be_done_is_said(small, fitted):
    X = da.from_array(small, chunks=(20, 12))
    with pytest.raises(ValueError, match="torchrun"):
        VDL(5, distributed=True).partial_fit(X)
    with pytest.raises(ValueError, match="features"):
        fitted.transform(X[:, :5])
    with pytest.raises(ValueError, match="columns"):
        fitted.inverse_transform(X[:, :5])
    with pytest.raises(ValueError, match="2D"):
        fitted.transform(X[:, 0])
    with pytest.raises(ValueError, match="NaN"):
        fitted.transform(da.full((4, 12), np.nan)).compute()
    with pytest.raises(ValueError, match="set_output"):
        copy.deepcopy(fitted).set_output(transform="pandas").transform(X)


def test_a_first_block_that_fails_leaves_nothing(small):
    frame = pd.DataFrame(np.full_like(small, np.nan), columns=[f"f{i}" for i in range(12)])
    vdl = VDL(5, random_state=0)
    before = set(vars(vdl))
    with pytest.raises(ValueError, match="NaN"):
        vdl.partial_fit(dd.from_pandas(frame, npartitions=2))
    assert set(vars(vdl)) == before
