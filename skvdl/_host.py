"""Arrays: tensors on any device as arrays, and results that have to be finite."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["finite", "to_host"]


def to_host(values: Any) -> Any:
    """Return a tensor as a dense array on the CPU, and anything else unchanged."""
    if not hasattr(values, "detach"):
        return values
    return values.detach().cpu().to_dense().numpy()


def finite(values: NDArray[Any], what: str) -> NDArray[Any]:
    """Return values if all of them are finite, and raise FloatingPointError otherwise."""
    if not np.isfinite(values).all():
        raise FloatingPointError(
            f"{what} are not finite: the data are too large for {values.dtype}; scale them first."
        )
    return values
