"""Dask collections: codes, reconstructions and scores block by block, and rows for learning.

Dask is imported only if the caller has done so: otherwise nothing can be one of its collections.
"""

import copy
import math
import pickle
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from scipy import sparse
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import validate_data

from ..distributed import Stream
from ._scoring import ExplainedVariance

# Scores of blocks that are merged at once.
_FAN_IN = 16


def is_dask(X: Any) -> bool:
    """Whether X is an array or a data frame of Dask."""
    kinds = [("dask.array", "Array"), ("dask.dataframe", "DataFrame")]
    found = (getattr(sys.modules.get(module), name, None) for module, name in kinds)
    return any(kind is not None and isinstance(X, kind) for kind in found)


def data_blocks(estimator: Any, X: Any, *, reset: bool) -> Any:
    """Check names and number of features, without computing anything.

    Parameters
    ----------
    estimator : estimator
        Estimator whose `n_features_in_` is set or compared with.
    X : dask.array.Array or dask.dataframe.DataFrame of shape (n_samples, n_features)
        Data.
    reset : bool
        Whether to set `n_features_in_` rather than compare with it.

    Returns
    -------
    dask.array.Array of shape (n_samples, n_features)
        The data, whose blocks have all features.
    """
    blocks = code_blocks(X)
    known = X._meta if hasattr(X, "columns") else np.empty((0, blocks.shape[1]))
    validate_data(estimator, known, reset=reset, skip_check_array=True)
    return blocks


def code_blocks(X: Any) -> Any:
    """Return an array of Dask whose blocks have all columns, without computing anything."""
    if hasattr(X, "columns"):
        X = X.to_dask_array()
    if X.ndim != 2:
        raise ValueError(f"Expected 2D array, got {X.ndim}D array instead.")
    return X if X.numblocks[1] == 1 else X.rechunk({1: -1})


def map_blocks(
    estimator: Any, method: str, X: Any, *, n_columns: int, dtype: Any, as_sparse: bool = False
) -> Any:
    """Apply a method of a fitted estimator to each block, when the result is computed.

    The estimator as it is now is a task of its own, on which those of the blocks depend. A worker
    therefore receives it once, however many blocks it works on.

    Parameters
    ----------
    estimator : estimator
        The fitted estimator.
    method : str
        Name of the method.
    X : dask.array.Array of shape (n_samples, n)
        What the method is applied to, with one block along its columns.
    n_columns : int
        Number of columns of the result.
    dtype : numpy.dtype
        Type of the result.
    as_sparse : bool, default=False
        Whether blocks of the result are CSR matrices.

    Returns
    -------
    dask.array.Array of shape (n_samples, n_columns)
        The result, not computed yet.
    """
    if _get_output_config("transform", estimator)["dense"] != "default":
        raise ValueError(
            "Codes of a Dask collection are a Dask array: set_output would load them into memory. "
            'Use set_output(transform="default").'
        )
    empty = sparse.csr_matrix((0, n_columns), dtype=dtype) if as_sparse else None
    empty = np.empty((0, n_columns), dtype=dtype) if empty is None else empty
    return X.map_blocks(
        _apply,
        _ship(estimator),
        method=method,
        empty=empty,
        chunks=(X.chunks[0], (n_columns,)),
        dtype=dtype,
        meta=empty,
    )


def score_blocks(estimator: Any, X: Any) -> float:
    """Compute the share of the variance of all blocks that their reconstructions explain.

    Parameters
    ----------
    estimator : estimator
        The fitted estimator.
    X : dask.array.Array of shape (n_samples, n_features)
        Data, with one block along the features.

    Returns
    -------
    float
        The share.
    """
    from dask.delayed import delayed

    model, score, merge = _ship(estimator), delayed(_score), delayed(_merge)
    parts = [score(block, model) for block in X.to_delayed().ravel()]
    while len(parts) > 1:
        parts = [merge(parts[i : i + _FAN_IN]) for i in range(0, len(parts), _FAN_IN)]
    found = merge(parts).compute()
    if found is None:
        raise ValueError("There is nothing to score: X has no rows.")
    return found.share()


def joined_blocks(X: Any, n_rows: int) -> Iterator[np.ndarray]:
    """Compute blocks one after the other, and join them until they have at least so many rows.

    Parameters
    ----------
    X : dask.array.Array of shape (n_samples, n_features)
        Data, with one block along the features.
    n_rows : int
        Least number of rows, unless there are fewer in all.

    Yields
    ------
    ndarray of shape (n, n_features)
        Rows, in order.
    """
    ready: np.ndarray | None = None
    waiting: list[np.ndarray] = []
    for block in X.to_delayed().ravel():
        waiting.append(block.compute())
        if sum(map(len, waiting)) >= n_rows:
            if ready is not None:
                yield ready
            ready, waiting = np.concatenate(waiting), []
    # a short remainder goes with the last rows that are enough
    left = waiting if ready is None else [ready, *waiting]
    yield np.concatenate(left)


def read_stream(estimator: Any, X: Any) -> Stream:
    """Return the blocks as a stream, of which only a few are in memory at a time.

    Parameters
    ----------
    estimator : estimator
        The estimator, which says what is valid.
    X : dask.array.Array of shape (n_samples, n_features)
        Data, with one block along the features.

    Returns
    -------
    Stream
        The data. A block is computed and checked each time that it is needed.
    """
    blocks = X.to_delayed().ravel()
    dtype = torch.float32 if X.dtype == np.float32 else torch.float64

    def load(number: int) -> torch.Tensor:
        block = blocks[number].compute()
        return estimator._validate(block, reset=False, min_samples=0, dtype=dtype)[0]

    lengths = X.chunks[0]
    if any(math.isnan(length) for length in lengths):
        # those of a data frame are not known before it is computed
        lengths = [len(load(number)) for number in range(len(blocks))]
    if sum(lengths) < 2:
        raise ValueError(f"Found {sum(lengths)} sample(s) while a minimum of 2 is required.")
    return Stream(load, lengths, X.shape[1], dtype)


def _ship(estimator: Any) -> Any:
    """Return the estimator as it is now as a task, without names, which blocks do not have."""
    from dask.delayed import delayed

    model = copy.copy(estimator)
    vars(model).pop("feature_names_in_", None)
    load: Callable[..., Any] = delayed(_load, pure=True)
    return load(pickle.dumps(model))


def _load(model: bytes) -> Any:
    return pickle.loads(model)


def _apply(block: Any, model: Any, *, method: str, empty: Any) -> Any:
    return getattr(model, method)(block) if block.shape[0] else empty


def _score(block: Any, model: Any) -> ExplainedVariance | None:
    return model._explained_variance(block) if block.shape[0] else None


def _merge(parts: list[ExplainedVariance | None]) -> ExplainedVariance | None:
    # copies, because results of other tasks must not be changed
    found = [copy.deepcopy(part) for part in parts if part is not None]
    for part in found[1:]:
        found[0].merge(part)
    return found[0] if found else None
