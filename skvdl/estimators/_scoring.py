"""Share of the variance of data that their reconstructions explain, chunk by chunk."""

import math

import torch


class ExplainedVariance:
    """Sums of squares of data and of errors, in double precision where the device has it.

    Squares of numbers far from 1 would be zero or infinite, so that all are divided first.

    Parameters
    ----------
    X : torch.Tensor of shape (n_samples, n_features)
        All of the data.
    look_for_nan : bool
        Whether entries may be missing, marked by NaN: these do not count.
    """

    def __init__(self, X: torch.Tensor, look_for_nan: bool) -> None:
        self.add_up = torch.nansum if look_for_nan else torch.sum
        dtype = X.dtype if X.device.type == "mps" else torch.float64
        if look_for_nan:
            missing = X.isnan()
            if missing.all():
                raise ValueError("There is nothing to score: every entry of X is missing.")
            self.mean = X.nanmean(dim=0, dtype=dtype)
            lowest = X.masked_fill(missing, torch.inf).amin(dim=0)
            highest = X.masked_fill(missing, -torch.inf).amax(dim=0)
        else:
            self.mean = X.mean(dim=0, dtype=dtype)
            lowest, highest = X.amin(dim=0), X.amax(dim=0)
        # the mean of equal numbers need not be one of them
        self.constant = bool((highest <= lowest).all())
        peak = torch.where(highest >= lowest, highest - lowest, 0.0).amax().item()
        self.unit = peak if 0 < peak < math.inf else 1.0
        self.error = self.total = 0.0

    def add(self, Y: torch.Tensor, Y_hat: torch.Tensor) -> None:
        """Add some rows and their reconstructions."""
        mean = self.mean.to(Y.device)
        Y = Y.to(mean.dtype)
        self.error += self.add_up(((Y - Y_hat) / self.unit).square()).item()
        self.total += self.add_up(((Y - mean) / self.unit).square()).item()

    def share(self) -> float:
        """Return ``1 - error / total``; for constant data 1 if they are reproduced and 0 if not."""
        if self.constant:
            return float(self.error == 0)
        return 1.0 - self.error / self.total
