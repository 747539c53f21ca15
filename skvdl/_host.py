"""Tensors on any device as arrays."""

from typing import Any

__all__ = ["to_host"]


def to_host(values: Any) -> Any:
    """Return a tensor as a dense array on the CPU, and anything else unchanged."""
    if not hasattr(values, "detach"):
        return values
    return values.detach().cpu().to_dense().numpy()
