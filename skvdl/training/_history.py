"""What is remembered of every epoch."""

from collections import defaultdict

import torch

from ._interrupts import uninterrupted


class History:
    """Averages of every epoch, each under its name.

    Attributes
    ----------
    curves : dict of list
        ``energy`` and its four terms, unweighted, as means over rows; ``sparsity``, the share of
        zeros; ``lam``, the weight of the penalty; ``dead``, the number of components that no row
        of the epoch used; ``validation``, the energy of the validation rows, where there are any.
    """

    def __init__(self) -> None:
        self.curves: dict[str, list[float]] = defaultdict(list)

    def append(self, **values: float) -> None:
        """Add one epoch."""
        # all curves have the same length at any time
        with uninterrupted():
            for name, value in values.items():
                self.curves[name].append(value)


class RunningMeans:
    """Means of the statistics of steps, brought to the host once.

    A list of the statistics would keep thousands of small tensors alive between large ones that
    come and go, and fragment the heap by megabytes per second.
    """

    def __init__(self) -> None:
        self.n_steps = 0

    def add(self, stats: dict[str, torch.Tensor]) -> None:
        """Add the statistics of one step; those of ``used`` are joined instead."""
        used = stats.pop("used")
        values = torch.stack(list(stats.values()))
        if not self.n_steps:
            self.names, self.totals, self.used = list(stats), values, used
        else:
            self.totals += values
            self.used |= used
        self.n_steps += 1

    def means(self) -> dict[str, float]:
        """Means by name, and the number of components that no step used."""
        values = (self.totals / self.n_steps).tolist()
        dead = int(self.used.logical_not().sum())
        return dict(zip(self.names, values, strict=True)) | {"dead": dead}
