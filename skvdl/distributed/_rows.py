"""The rows of data that training reads: all of them here, or some of them in each process."""

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any, NamedTuple, Self

import torch

from ._group import ALONE, Group


class Share(NamedTuple):
    """What this process has of a batch.

    Attributes
    ----------
    n_rows : int
        Number of rows of the batch in all processes.
    n_here : int
        Number of those in this process; there may be none.
    group : Group
        The processes.
    """

    n_rows: int
    n_here: int
    group: Group = ALONE

    @classmethod
    def whole(cls, Y: torch.Tensor) -> Self:
        """Return the share of the only process."""
        return cls(len(Y), len(Y))

    @property
    def alone(self) -> bool:
        """Whether there is only this process."""
        return self.group.size == 1

    def average(self, *means: torch.Tensor) -> Sequence[torch.Tensor]:
        """Turn means over the rows of this process into means over the batch, in a message."""
        if self.alone:
            return means
        weight = self.n_here / self.n_rows
        # a mean over no rows is nan
        own = [mean * weight if self.n_here else torch.zeros_like(mean) for mean in means]
        return self.group.sum(*own)


class Rows:
    """Data that are all in the memory of this process.

    Parameters
    ----------
    X : torch.Tensor of shape (n_samples, n_features)
        Data.
    """

    def __init__(self, X: torch.Tensor) -> None:
        self.local = X
        self.group: Group = ALONE

    @classmethod
    def of(cls, X: "torch.Tensor | Rows") -> "Rows":
        """Return rows as they are, and a tensor as rows."""
        return cls(X) if isinstance(X, torch.Tensor) else X

    def __len__(self) -> int:
        """Number of rows in all processes."""
        return len(self.local)

    @property
    def n_features(self) -> int:
        """Length of a row."""
        return self.local.shape[1]

    @property
    def dtype(self) -> torch.dtype:
        """Type of the data."""
        return self.local.dtype

    @property
    def device(self) -> torch.device:
        """Where the data are, and indices of rows should be."""
        return self.local.device

    def take(self, index: Any) -> tuple[torch.Tensor, Share]:
        """Return those of some rows, a slice or indices, that this process has, and its share."""
        Y = self.local[index]
        return Y, Share.whole(Y)

    def gather(self, index: Any) -> torch.Tensor:
        """Return some rows, in order, in every process; meant for a few."""
        return self.local[index]

    def parts(self) -> Iterator[torch.Tensor]:
        """Yield all rows of this process."""
        yield self.local

    def shuffle(self, index: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """Return indices of rows in the order of an epoch."""
        order = torch.randperm(len(index), generator=generator, device=generator.device)
        return index[order.to(index.device)]

    def at_hand(self, index: torch.Tensor) -> torch.Tensor:
        """Return those of the rows `index` that can be read in any order, again and again."""
        return index


class Shard(Rows):
    """Data of which each process has some pieces.

    Rows are numbered as if the pieces were joined in order, so that a row has the same number
    however they are distributed. All processes draw the same numbers and therefore learn from the
    same batches as a single one that has all pieces.

    Parameters
    ----------
    pieces : sequence of torch.Tensor of shape (n, n_features)
        The pieces of this process.
    group : Group
        The processes.
    places : sequence of int, optional
        Place of each piece in the order of all; by default one piece, in the order of ranks.
    """

    def __init__(
        self,
        pieces: Sequence[torch.Tensor],
        group: Group,
        places: Sequence[int] | None = None,
    ) -> None:
        super().__init__(pieces[0] if len(pieces) == 1 else torch.cat(list(pieces)))
        self.group = group
        self.pieces = pieces
        places = [group.rank] if places is None else places
        own = zip(places, map(len, pieces), accumulate(map(len, pieces), initial=0), strict=False)
        known = group.exchange(list(own))
        table = sorted((*piece, rank) for rank, found in enumerate(known) for piece in found)
        lengths = [length for _, length, _, _ in table]
        self.n_rows = sum(lengths)
        self.places = places
        starts = list(accumulate(lengths[:-1], initial=0))
        numbers = zip(starts, (first for _, _, first, _ in table), strict=True)
        self._starts = torch.tensor(starts, device=self.device)
        # what turns the number of a row into its place in this process
        self._shift = torch.tensor([first - start for start, first in numbers], device=self.device)
        self._mine = torch.tensor([rank == group.rank for *_, rank in table], device=self.device)

    def __len__(self) -> int:
        """Number of rows in all processes."""
        return self.n_rows

    def take(self, index: Any) -> tuple[torch.Tensor, Share]:
        """Return those of some rows, a slice or indices, that this process has, and its share."""
        index = self._numbers(index)
        piece, mine = self._find(index)
        places = (index + self._shift[piece])[mine]
        return self.local[places], Share(len(index), len(places), self.group)

    def gather(self, index: Any) -> torch.Tensor:
        """Return some rows, in order, in every process; meant for a few."""
        index = self._numbers(index)
        _, mine = self._find(index)
        rows = self.local.new_zeros(len(index), self.n_features)
        rows[mine] = self.take(index)[0]
        # every row is added to zeros, which does not change it
        return self.group.sum(rows)[0]

    def _numbers(self, index: Any) -> torch.Tensor:
        if isinstance(index, slice):
            return torch.arange(*index.indices(len(self)), device=self.device)
        assert isinstance(index, torch.Tensor)
        return index.contiguous()

    def _find(self, index: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the piece of each row, and whether this process has it."""
        piece = torch.searchsorted(self._starts, index, right=True) - 1
        return piece, self._mine[piece]
