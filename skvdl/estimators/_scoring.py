"""Share of the variance of data that their reconstructions explain, chunk by chunk."""

import math
from typing import Self

import torch

from ..models import Units


class ExplainedVariance:
    """Sum of squared errors over the variance, in double precision where the device has it.

    Errors are divided by the standard deviation before they are squared, because squares of numbers
    far from 1 would be zero or infinite.

    Parameters
    ----------
    X : torch.Tensor of shape (n_samples, n_features)
        All of the data, or those of one of several parts that are merged in the end.
    look_for_nan : bool
        Whether entries may be missing, marked by NaN: these do not count.
    """

    def __init__(self, X: torch.Tensor, look_for_nan: bool) -> None:
        self.look_for_nan = look_for_nan
        self.units = Units(center=True, scale=True).update(X)
        self.dtype = X.dtype if X.device.type == "mps" else torch.float64
        self.error = 0.0

    def add(self, Y: torch.Tensor, Y_hat: torch.Tensor) -> None:
        """Add some rows and their reconstructions."""
        error = (Y.to(self.dtype) - Y_hat).div_(self.units.size).square_()
        self.error += (error.nansum() if self.look_for_nan else error.sum()).item()

    def merge(self, other: Self) -> Self:
        """Add the rows of another one."""
        size = self.units.size
        self.units.merge(other.units)
        total = self.units.size
        self.error *= (size / total) ** 2
        self.error += other.error * (other.units.size / total) ** 2
        return self

    def share(self) -> float:
        """Return ``1 - error / total``; for constant data 1 if they are reproduced and 0 if not."""
        if not self.units.n_seen:
            raise ValueError("There is nothing to score: every entry of X is missing.")
        if self.units.constant:
            return float(self.error == 0)
        share = 1.0 - self.error / self.units.n_seen
        if not math.isfinite(share):
            raise FloatingPointError("The errors of reconstructions are too large to be squared.")
        return share
