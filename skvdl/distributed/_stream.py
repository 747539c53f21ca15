"""Data that are computed or read block by block, whenever they are needed."""

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Any

import torch

from ._group import ALONE
from ._rows import Rows, Share

# Blocks in memory: a batch may begin in one and end in the next.
_IN_MEMORY = 2


class Stream(Rows):
    """Blocks of data that do not fit into memory together.

    An epoch visits the blocks in random order and shuffles the rows of each. What needs rows in any
    order, again and again, takes them from a sample that is kept in memory.

    Parameters
    ----------
    load : callable
        Takes the number of a block and returns it as a tensor.
    lengths : sequence of int
        Number of rows of each block.
    n_features : int
        Length of a row.
    dtype : torch.dtype
        Type of the data.
    """

    def __init__(
        self,
        load: Callable[[int], torch.Tensor],
        lengths: Sequence[int],
        n_features: int,
        dtype: torch.dtype,
    ) -> None:
        super().__init__(torch.empty(0, n_features, dtype=dtype, device="cpu"))
        self.lengths = lengths
        self._load = load
        self._starts = torch.tensor(list(accumulate(lengths[:-1], initial=0)), device="cpu")
        self._recent: dict[int, torch.Tensor] = {}
        # rows in memory, sorted by their numbers
        self._known = torch.empty(0, dtype=torch.int64, device="cpu")

    def __len__(self) -> int:
        """Number of rows in all blocks."""
        return sum(self.lengths)

    def keep(self, index: torch.Tensor) -> None:
        """Load some rows, to have them in memory from now on."""
        known = index.sort().values
        self.local = self.gather(known)
        self._known = known

    def take(self, index: Any) -> tuple[torch.Tensor, Share]:
        """Return some rows, a slice or indices, and a share that is all of them."""
        Y = self.gather(index)
        return Y, Share(len(Y), len(Y), ALONE)

    def gather(self, index: Any) -> torch.Tensor:
        """Return some rows, in order."""
        if isinstance(index, slice):
            index = torch.arange(*index.indices(len(self)), device="cpu")
        place = torch.searchsorted(self._known, index)
        if len(self._known) and bool(self._is_known(index, place).all()):
            return self.local[place]
        block = torch.searchsorted(self._starts, index, right=True) - 1
        rows = self.local.new_empty(len(index), self.n_features)
        for number in block.unique().tolist():
            here = block == number
            rows[here] = self._block(number)[index[here] - self._starts[number]]
        return rows

    def parts(self) -> Iterator[torch.Tensor]:
        """Yield all rows, block by block."""
        for number, length in enumerate(self.lengths):
            if length:
                yield self._block(number)

    def shuffle(self, index: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """Return indices of rows in the order of an epoch: blocks at random, and rows in each."""
        order = torch.randperm(len(index), generator=generator, device="cpu")
        place = torch.randperm(len(self.lengths), generator=generator, device="cpu")
        mixed = index[order]
        block = torch.searchsorted(self._starts, mixed, right=True) - 1
        return mixed[place[block].argsort(stable=True)]

    def at_hand(self, index: torch.Tensor) -> torch.Tensor:
        """Return those of the rows `index` that are in memory."""
        return index[self._is_known(index, torch.searchsorted(self._known, index))]

    def _is_known(self, index: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
        return self._known[place.clamp_max(len(self._known) - 1)] == index

    def _block(self, number: int) -> torch.Tensor:
        if number not in self._recent:
            while len(self._recent) >= _IN_MEMORY:
                # the one that was loaded first
                del self._recent[next(iter(self._recent))]
            self._recent[number] = self._load(number)
        return self._recent[number]
