"""Numbers that parameters may be: within bounds that arithmetic keeps, and no booleans."""

from numbers import Integral, Real
from typing import Any

from sklearn.utils._param_validation import Interval

__all__ = ["Number", "real", "whole"]

# Beyond these, indices and single precision overflow.
_MOST_WHOLE = 2**31 - 1
_MOST_REAL = 1e30


class Number(Interval):
    """Numbers in an interval. True and False are numbers to Python, but not to users."""

    def is_satisfied_by(self, val: Any) -> bool:
        """Return whether a value is such a number."""
        return not isinstance(val, bool) and bool(super().is_satisfied_by(val))


def whole(least: int) -> Number:
    """Whole numbers from this one on."""
    return Number(Integral, least, _MOST_WHOLE, closed="both")


def real(above: float | None = None, *, least: float | None = None) -> Number:
    """Numbers above a bound, or from a least one on; any number without either."""
    if least is not None:
        return Number(Real, least, _MOST_REAL, closed="both")
    if above is not None:
        return Number(Real, above, _MOST_REAL, closed="right")
    return Number(Real, -_MOST_REAL, _MOST_REAL, closed="neither")
