"""Tensors, wherever they are, as arrays."""

from typing import Any

__all__ = ["to_host"]


def to_host(values: Any) -> Any:
    """Return the array of a tensor, dense and on the CPU; anything else as it is."""
    if not hasattr(values, "detach"):
        return values
    return values.detach().cpu().to_dense().numpy()
