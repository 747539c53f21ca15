"""The units of data: one mean per feature and one scale for all, taken out before learning."""

import copy
import math
from collections.abc import Iterator
from typing import Self

import torch

from ..distributed import Group

# Numbers looked at together: few enough to stay in the cache of a processor.
_CHUNK_ELEMENTS = 2**17


class Units:
    """Running mean of each feature and one scale, over all rows seen so far.

    The scale is the root of the mean square that centring leaves, so that data in these units have
    a mean square of 1. Entries that are NaN do not count.

    Parameters
    ----------
    center : bool
        Whether the mean is taken out.
    scale : bool
        Whether the scale is taken out.

    Attributes
    ----------
    mean : torch.Tensor of shape (n_features,) or None
        What is subtracted, in double precision where the device has it; None without centring.
    scale : float
        What is divided by; 1 without scaling, or if nothing is left after centring.
    constant : bool
        Whether nothing is left after centring.
    """

    def __init__(self, center: bool, scale: bool) -> None:
        self.center = center
        self.scaled = scale
        self.mean: torch.Tensor | None = None
        self.scale = 1.0
        self.constant = True
        self._counts: torch.Tensor | None = None
        self._means: torch.Tensor
        self._squares: torch.Tensor
        self._reference: float

    @property
    def n_seen(self) -> int:
        """Number of entries that counted so far."""
        return 0 if self._counts is None else int(self._counts.sum().item())

    @property
    def size(self) -> float:
        """The scale, or the size of the entries if nothing is left after centring."""
        return self._reference if self.constant else self.scale

    @torch.no_grad()
    def update(self, X: torch.Tensor) -> Self:
        """Take more rows into account, in chunks."""
        if not (self.center or self.scaled) or not len(X):
            return self
        for chunk in self._chunks(X):
            self._add(chunk)
        return self._summarise()

    @torch.no_grad()
    def merge(self, other: "Units") -> Self:
        """Take the rows into account that other units have seen."""
        if other._counts is None:
            return self
        if self._counts is None:
            vars(self).update(vars(other))
            return self
        # in the larger reference, so that squares cannot overflow
        reference = max(self._reference, other._reference)
        own, factor = self._reference / reference, other._reference / reference
        self._reference = reference
        self._means, self._squares = self._means * own, self._squares * own**2
        self._join(other._counts, other._means * factor, other._squares * factor**2)
        return self._summarise()

    @torch.no_grad()
    def merge_all(self, group: Group) -> Self:
        """Take the rows into account that units in other processes have seen."""
        if group.size == 1 or not (self.center or self.scaled):
            return self
        # in the order of ranks, so that all processes end with the same bits
        own = copy.copy(self).to("cpu")
        merged = Units(self.center, self.scaled)
        for units in group.exchange(own):
            merged.merge(units)
        vars(self).update(vars(merged))
        return self

    def _summarise(self) -> Self:
        """Derive mean and scale from the statistics."""
        assert self._counts is not None
        if self.center:
            self.mean = self._means * self._reference
        if self.scaled:
            squares = self._squares.sum().item()
            # of constant data only the rounding error of the mean is left
            rounding = 16 * torch.finfo(self._means.dtype).eps * self._means
            self.constant = squares <= (rounding.square() * self._counts).sum().item()
            self.scale = 1.0
            if not self.constant:
                self.scale = math.sqrt(squares / self.n_seen) * self._reference
        return self

    def apply(self, Y: torch.Tensor) -> torch.Tensor:
        """Return rows in these units."""
        if self.mean is not None:
            Y = Y - self.mean.to(Y)
        return Y if self.scale == 1.0 else Y / self.scale

    def undo(self, Y: torch.Tensor) -> torch.Tensor:
        """Return rows in the units of the data."""
        if self.scale != 1.0:
            Y = Y * self.scale
        return Y if self.mean is None else Y + self.mean.to(Y)

    def to(self, device: torch.device | str) -> Self:
        """Move everything to a device."""
        for name, value in vars(self).items():
            if isinstance(value, torch.Tensor):
                setattr(self, name, value.to(device))
        return self

    def _chunks(self, X: torch.Tensor) -> Iterator[torch.Tensor]:
        n_rows = max(1, _CHUNK_ELEMENTS // X.shape[1])
        for start in range(0, len(X), n_rows):
            yield X[start : start + n_rows]

    def _add(self, X: torch.Tensor) -> None:
        """Merge the counts, means and squared deviations of some rows with those so far."""
        X = X.to(X.dtype if X.device.type == "mps" else torch.float64)
        missing = X.isnan()
        complete = not bool(missing.any())
        if not complete:
            X = X.masked_fill(missing, 0.0)
        if self._counts is None:
            peak = X.abs().amax().item()
            # squares of numbers far from 1 would be zero or infinite; a power of 2 costs no digits
            self._reference = 2.0 ** math.floor(math.log2(peak)) if peak > 0 else 1.0
            self._counts = torch.zeros_like(X[0])
            self._means = torch.zeros_like(X[0])
            self._squares = torch.zeros_like(X[0])
        X = X / self._reference
        n = torch.full_like(self._counts, len(X))
        if not complete:
            n -= missing.sum(dim=0)
        mean = X.sum(dim=0) / n.clamp_min(1) if self.center else torch.zeros_like(n)
        deviation = X.sub_(mean)
        if not complete:
            deviation.masked_fill_(missing, 0.0)
        self._join(n, mean, deviation.square_().sum(dim=0))

    def _join(self, n: torch.Tensor, mean: torch.Tensor, squares: torch.Tensor) -> None:
        """Merge counts, means and squared deviations, in the same reference, with those so far."""
        assert self._counts is not None
        total = self._counts + n
        shift = torch.where(n > 0, mean - self._means, 0.0)
        self._means = self._means + shift * (n / total.clamp_min(1))
        self._squares = (
            self._squares + squares + shift.square() * (self._counts * n / total.clamp_min(1))
        )
        self._counts = total
