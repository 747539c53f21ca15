"""What is promised whatever the input: a good result, or a clear error that changes nothing."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy import sparse

# NotFittedError is a ValueError.
CLEAR = (ValueError, TypeError, FloatingPointError)
COUNTS = {"calls": 0, "errors": 0}


@dataclass
class Outcome:
    """A result, or the error in its place."""

    result: Any = None
    error: BaseException | None = None

    @property
    def good(self):
        return self.error is None


def attempt(function, *args, **kwargs):
    """Call a function; any error but the clear ones is a defect."""
    COUNTS["calls"] += 1
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return Outcome(function(*args, **kwargs))
        except CLEAR as error:
            outcome = Outcome(error=error)
    COUNTS["errors"] += 1
    assert len(str(outcome.error)) > 10, "an error that says nothing"
    return outcome


def snapshot(value):
    """Everything that an estimator is, to be compared."""
    if isinstance(value, torch.Tensor):
        return value.detach().cpu().numpy().tobytes()
    if isinstance(value, np.ndarray):
        return (
            value.shape,
            value.dtype.str,
            value.tobytes() if value.dtype != object else str(value),
        )
    if isinstance(value, torch.nn.Module | torch.optim.Optimizer):
        return {name: snapshot(v) for name, v in value.state_dict().items()}
    if isinstance(value, dict):
        return {name: snapshot(v) for name, v in value.items()}
    if isinstance(value, list | tuple):
        return [snapshot(v) for v in value]
    if isinstance(value, str | int | float | complex | bool | bytes | np.generic | type(None)):
        return repr(value)
    if hasattr(value, "__dict__") and type(value).__module__.startswith("skvdl"):
        return {name: snapshot(v) for name, v in vars(value).items()}
    return id(value)


def dense(values):
    """Any result as an array."""
    if isinstance(values, torch.Tensor):
        return values.to_dense().detach().cpu().numpy()
    return values.toarray() if sparse.issparse(values) else np.asarray(values)


def check_matrix(values, shape, *, like, dtype=None, is_sparse=False):
    """Whether a result is finite, in the right shape, type and container."""
    if isinstance(like, torch.Tensor):
        assert isinstance(values, torch.Tensor)
        assert (values.layout == torch.sparse_csr) == is_sparse
    elif is_sparse:
        assert sparse.issparse(values)
        assert values.format == "csr"
    else:
        assert type(values) is np.ndarray
    found = dense(values)
    assert found.shape == shape
    assert np.isfinite(found).all()
    if dtype is not None:
        assert str(found.dtype) == str(dtype).removeprefix("torch.")
