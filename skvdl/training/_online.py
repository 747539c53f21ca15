"""Dictionary updates without a learning rate."""

import torch
from torch import nn

from ..models import LinearDecoder

# Memory of the statistics: after t batches, a batch counts as much as t / _FORGETTING do together.
_FORGETTING = 25
# Atoms that are updated at once.
_BLOCK = 32
# Ridge of a block, relative to the diagonal, that keeps atoms used together from exploding.
_RIDGE = 1e-3


class OnlineUpdate(nn.Module):
    """Least squares for a dictionary, over running statistics of data and codes.

    Reconstruction is quadratic in the dictionary. Its Hessian is the Gram matrix of the codes, and
    its gradient follows from that and from the products of data and codes. Sums of both over past
    batches, the older the less weight, say all there is to know about them. A sweep over the
    dictionary then minimises over a block of atoms at a time. Unlike a gradient step it needs no
    rate, whatever the units of the data and the norms of the atoms.

    A bias is the atom of a component that is always 1.

    Parameters
    ----------
    decoder : LinearDecoder
        The dictionary, for its shape and type.

    Attributes
    ----------
    gram : torch.Tensor of shape (n_components + 1, n_components + 1)
        Mean products of codes with codes.
    cross : torch.Tensor of shape (n_features, n_components + 1)
        Mean products of data with codes.
    """

    gram: torch.Tensor
    cross: torch.Tensor

    def __init__(self, decoder: LinearDecoder) -> None:
        super().__init__()
        size = decoder.n_components + 1
        weight = decoder.weight.detach()
        self.register_buffer("gram", weight.new_zeros(size, size))
        self.register_buffer("cross", weight.new_zeros(decoder.n_features, size))
        # plain numbers, which decide on the host when to sweep
        self.n_batches = 0
        self.n_rows = 0

    def get_extra_state(self) -> torch.Tensor:
        """Counts, to be stored with the statistics."""
        return torch.tensor([self.n_batches, self.n_rows], device="cpu")

    def set_extra_state(self, state: torch.Tensor) -> None:
        """Restore the counts."""
        self.n_batches, self.n_rows = state.tolist()

    @torch.no_grad()
    def learn(
        self,
        decoder: LinearDecoder,
        Z: torch.Tensor,
        Y: torch.Tensor,
        *,
        seen: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Update the statistics with a batch and the dictionary with the statistics.

        Parameters
        ----------
        decoder : LinearDecoder
            The dictionary, changed in place.
        Z : torch.Tensor of shape (n, l)
            Codes.
        Y : torch.Tensor of shape (n, d)
            Data.
        seen : torch.Tensor of shape (n, d), optional
            1 for entries that count. Others are filled in by the reconstruction.

        Returns
        -------
        torch.Tensor of shape ()
            Mean squared error before the update.
        """
        Z, Y, error = self._complete(decoder, Z, Y, seen)
        self.gram.mul_(self._kept).addmm_(Z.T, Z, alpha=1.0 / len(Y))
        self.cross.mul_(self._kept).addmm_(Y.T, Z, alpha=1.0 / len(Y))
        self._after_batch(decoder, len(Y))
        return error

    @torch.no_grad()
    def moments(
        self,
        decoder: LinearDecoder,
        Z: torch.Tensor,
        Y: torch.Tensor,
        *,
        seen: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Compute what `learn` needs of a part of a batch: means over its rows.

        Parameters
        ----------
        decoder : LinearDecoder
            The dictionary.
        Z : torch.Tensor of shape (n, l)
            Codes.
        Y : torch.Tensor of shape (n, d)
            Data.
        seen : torch.Tensor of shape (n, d), optional
            1 for entries that count.

        Returns
        -------
        error : torch.Tensor of shape ()
            Mean squared error.
        gram : torch.Tensor of shape (l + 1, l + 1)
            Mean products of codes with codes.
        cross : torch.Tensor of shape (d, l + 1)
            Mean products of data with codes.
        """
        Z, Y, error = self._complete(decoder, Z, Y, seen)
        n_rows = max(1, len(Y))
        return error, Z.T @ Z / n_rows, Y.T @ Z / n_rows

    @torch.no_grad()
    def learn_moments(
        self, decoder: LinearDecoder, gram: torch.Tensor, cross: torch.Tensor, n_rows: int
    ) -> None:
        """Do what `learn` does, with the moments of a batch of so many rows."""
        self.gram.mul_(self._kept).add_(gram)
        self.cross.mul_(self._kept).add_(cross)
        self._after_batch(decoder, n_rows)

    @torch.no_grad()
    def forget(self, components: torch.Tensor) -> None:
        """Drop what is known about some atoms, which now mean something else."""
        self.gram[components] = 0.0
        self.gram[:, components] = 0.0
        self.cross[:, components] = 0.0

    @property
    def _kept(self) -> float:
        """What is left of the statistics when the next batch joins them."""
        return self.n_batches / (self.n_batches + _FORGETTING)

    def _complete(
        self, decoder: LinearDecoder, Z: torch.Tensor, Y: torch.Tensor, seen: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Codes with a component for the bias, data without gaps, and the mean squared error."""
        reconstruction = decoder(Z)
        residual = Y - reconstruction
        if seen is not None:
            residual.mul_(seen)
            Y = reconstruction.add_(residual)
        error = torch.linalg.vector_norm(residual).square() / Y.numel()
        return nn.functional.pad(Z, (0, 1), value=1.0), Y, error

    def _after_batch(self, decoder: LinearDecoder, n_rows: int) -> None:
        """Count a batch, and sweep if there are enough new rows."""
        self.n_batches += 1
        self.n_rows += n_rows
        if self.n_rows >= decoder.n_components:
            # a sweep costs as much as coding so many rows
            self._sweep(decoder)
            self.n_rows = 0

    def _sweep(self, decoder: LinearDecoder) -> None:
        """Minimise over each block of atoms in turn; an atom that was never used stays."""
        weight, bias = decoder.weight, decoder.bias
        gram, cross = self.gram[:-1, :-1], self.cross[:, :-1]
        diagonal = gram.diagonal()
        # in the unit of the largest, so that the ridge of unused atoms is neither 0 nor large
        largest = diagonal.amax()
        unused = diagonal <= torch.finfo(diagonal.dtype).eps * largest
        ridge = torch.where(unused, 1.0, diagonal * _RIDGE)
        if bias is not None:
            # whatever the atoms are, the best bias makes the mean residual 0
            share = self.gram[-1] / self.gram[-1, -1]
            gram = gram - torch.outer(share[:-1], self.gram[-1, :-1])
            cross = cross - torch.outer(self.cross[:, -1], share[:-1])
        for start in range(0, decoder.n_components, _BLOCK):
            block = slice(start, start + _BLOCK)
            slope = cross[:, block] - weight @ gram[:, block]
            # NaN after an overflow, and not as if no atom were used
            slope.masked_fill_(unused[block], 0.0).add_(0.0 * largest)
            # their products with other atoms may be large nevertheless
            apart = unused[block] | unused[block, None]
            hessian = gram[block, block].masked_fill(apart, 0.0) + torch.diag(ridge[block])
            factor, _ = torch.linalg.cholesky_ex(hessian)
            weight[:, block].addmm_(slope, torch.cholesky_inverse(factor))
        if bias is not None:
            bias.copy_(self.cross[:, -1] / self.gram[-1, -1] - weight @ share[:-1])
