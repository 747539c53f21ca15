"""The one border between what callers hold (arrays, frames, tensors) and the engine's tensors."""

import warnings
from collections.abc import Iterable
from itertools import chain
from typing import Any

import numpy as np
import torch
from scipy import sparse
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

_DTYPES = [np.float64, np.float32]
# Numbers that are checked together, to bound memory.
_CHUNK_ELEMENTS = 2**21


class Container:
    """The kind of container that a caller passed, in which results are returned.

    Parameters
    ----------
    device : torch.device, optional
        Device of the caller's tensor; None for arrays.
    """

    def __init__(self, device: torch.device | None = None) -> None:
        self.device = device

    def dense(self, tensor: torch.Tensor) -> Any:
        """Wrap a dense result."""
        if self.device is None:
            return tensor.cpu().numpy()
        return tensor.to(self.device)

    def sparse(self, tensor: torch.Tensor) -> Any:
        """Wrap a result that is mostly zeros."""
        if self.device is None:
            return sparse.csr_matrix(tensor.cpu().numpy())
        return tensor.to(self.device).to_sparse()

    def join(self, parts: Iterable[Any], n_rows: int) -> Any:
        """Concatenate chunks, each as soon as it is computed."""
        parts = iter(parts)
        first = next(parts)
        if sparse.issparse(first):
            return sparse.vstack([first, *parts], format="csr")
        if isinstance(first, torch.Tensor) and first.is_sparse:
            return _to_csr(torch.cat([first, *parts]))
        if first.shape[0] == n_rows:
            return first
        joined: Any
        if isinstance(first, torch.Tensor):
            joined = first.new_empty((n_rows, *first.shape[1:]))
        else:
            joined = np.empty((n_rows, *first.shape[1:]), dtype=first.dtype)
        start = 0
        for part in chain([first], parts):
            joined[start : start + len(part)] = part
            start += len(part)
        return joined


def _to_csr(tensor: torch.Tensor) -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        return tensor.coalesce().to_sparse_csr()


def _wrap_array(array: np.ndarray) -> torch.Tensor:
    """Return a tensor that shares the memory of an array; nothing here writes to it."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(array)


def _check_tensor(
    X: torch.Tensor, dtype: torch.dtype | None, min_samples: int, allow_nan: bool = False
) -> torch.Tensor:
    """Do for a tensor, on any device, what `check_array` does for an array."""
    if X.layout != torch.strided:
        raise ValueError("Sparse tensors are not supported as data; use X.to_dense().")
    if X.ndim != 2:
        raise ValueError(f"Expected 2D tensor, got {X.ndim}D tensor instead.")
    if X.is_complex():
        raise ValueError("Complex data not supported.")
    for axis, least in (("sample", min_samples), ("feature", 1)):
        found = X.shape[0 if axis == "sample" else 1]
        if found < least:
            raise ValueError(
                f"Found tensor with {found} {axis}(s) (shape={tuple(X.shape)}) while a minimum of "
                f"{least} is required."
            )
    X = X.detach()
    if X.is_inference():
        # autograd refuses them, even where it needs no gradient of them
        X = X.clone()
    X = X.to(_float_dtype(X) if dtype is None else dtype)
    # in chunks, because every test of a number takes memory for its result
    for rows in X.split(max(1, _CHUNK_ELEMENTS // X.shape[1])):
        finite = rows.isinf().logical_not_() if allow_nan else rows.isfinite()
        if not bool(finite.all()):
            raise ValueError(
                f"Input X contains {'' if allow_nan else 'NaN, '}infinity or a value too large "
                f"for {X.dtype}."
            )
    return X


def _float_dtype(X: torch.Tensor) -> torch.dtype:
    """Type to compute in: single precision if it holds every number of the tensor's own type."""
    exact = X.dtype.itemsize <= (4 if X.dtype.is_floating_point else 2)
    return torch.float32 if exact or X.device.type == "mps" else torch.float64


def data_to_tensor(
    estimator: Any,
    X: Any,
    *,
    reset: bool,
    dtype: torch.dtype | None = None,
    min_samples: int = 1,
    allow_nan: bool = False,
) -> tuple[torch.Tensor, Container]:
    """Check data as scikit-learn does and make a tensor of it, without a copy where possible.

    Parameters
    ----------
    estimator : estimator
        Estimator whose `n_features_in_` is set or compared with.
    X : {array-like, torch.Tensor} of shape (n_samples, n_features)
        Data.
    reset : bool
        Whether to set `n_features_in_` rather than compare with it.
    dtype : torch.dtype, optional
        Type of the result. By default that of the data; integers become float64, in tensors
        float32 if they have 16 bits or less.
    min_samples : int, default=1
        Minimum number of rows.
    allow_nan : bool, default=False
        Whether NaN may stand for missing entries.

    Returns
    -------
    tensor : torch.Tensor of shape (n_samples, n_features)
        The data, on the device they were on.
    container : Container
        What to wrap results in.
    """
    if isinstance(X, torch.Tensor):
        tensor = _check_tensor(X, dtype, min_samples, allow_nan)
        if reset:
            estimator.n_features_in_ = tensor.shape[1]
            vars(estimator).pop("feature_names_in_", None)
        elif tensor.shape[1] != estimator.n_features_in_:
            raise ValueError(
                f"X has {tensor.shape[1]} features, but {type(estimator).__name__} is expecting "
                f"{estimator.n_features_in_} features as input."
            )
        return tensor, Container(X.device)
    array = validate_data(
        estimator,
        X,
        reset=reset,
        dtype=_DTYPES if dtype is None else _numpy_dtype(dtype),
        order="C",
        ensure_all_finite="allow-nan" if allow_nan else True,
        ensure_min_samples=min_samples,
    )
    return _wrap_array(array), Container()


def codes_to_tensor(Z: Any, dtype: torch.dtype) -> tuple[Any, Container]:
    """Check codes and make a tensor of them, or leave them as a CSR matrix.

    Parameters
    ----------
    Z : {array-like, sparse matrix, torch.Tensor} of shape (n_samples, n_components)
        Codes.
    dtype : torch.dtype
        Type of the result.

    Returns
    -------
    codes : torch.Tensor or CSR matrix of shape (n_samples, n_components)
        The codes, on the device they were on, for :func:`rows_to_tensor`.
    container : Container
        What to wrap results in.
    """
    if isinstance(Z, torch.Tensor):
        dense = Z if Z.layout == torch.strided else Z.to_dense()
        return _check_tensor(dense, dtype, 1), Container(Z.device)
    array = check_array(Z, accept_sparse="csr", dtype=_numpy_dtype(dtype), order="C")
    return (array if sparse.issparse(array) else _wrap_array(array)), Container()


def rows_to_tensor(rows: Any, device: torch.device) -> torch.Tensor:
    """Move some rows of data or codes to where they are needed, dense.

    Parameters
    ----------
    rows : torch.Tensor or CSR matrix
        The rows.
    device : torch.device
        Target device.

    Returns
    -------
    torch.Tensor
        The same rows.
    """
    if sparse.issparse(rows):
        rows = torch.from_numpy(rows.toarray())
    return rows.to(device)


def _numpy_dtype(dtype: torch.dtype) -> type:
    return np.float32 if dtype == torch.float32 else np.float64
