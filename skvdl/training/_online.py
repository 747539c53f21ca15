"""Dictionary updates without a learning rate."""

import torch
from torch import nn

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

    Parameters
    ----------
    weight : torch.Tensor of shape (n_features, n_components)
        The dictionary, for its shape and type.
    """

    gram: torch.Tensor
    cross: torch.Tensor

    def __init__(self, weight: torch.Tensor) -> None:
        super().__init__()
        n_components = weight.shape[1]
        self.register_buffer("gram", weight.new_zeros(n_components, n_components))
        self.register_buffer("cross", torch.zeros_like(weight, requires_grad=False))
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
        weight: torch.Tensor,
        Z: torch.Tensor,
        Y: torch.Tensor,
        *,
        seen: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Update the statistics with a batch and the dictionary with the statistics.

        Parameters
        ----------
        weight : torch.Tensor of shape (d, l)
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
        residual = torch.addmm(Y, Z, weight.T, alpha=-1)
        if seen is not None:
            residual.mul_(seen)
            Y = torch.addmm(residual, Z, weight.T)
        error = torch.linalg.vector_norm(residual).square() / Y.numel()
        kept = self.n_batches / (self.n_batches + _FORGETTING)
        self.gram.mul_(kept).addmm_(Z.T, Z, alpha=1.0 / len(Y))
        self.cross.mul_(kept).addmm_(Y.T, Z, alpha=1.0 / len(Y))
        self.n_batches += 1
        self.n_rows += len(Y)
        if self.n_rows >= weight.shape[1]:
            # a sweep costs as much as coding so many rows
            self._sweep(weight)
            self.n_rows = 0
        return error

    @torch.no_grad()
    def forget(self, components: torch.Tensor) -> None:
        """Drop what is known about some atoms, which now mean something else."""
        self.gram[components] = 0.0
        self.gram[:, components] = 0.0
        self.cross[:, components] = 0.0

    def _sweep(self, weight: torch.Tensor) -> None:
        """Minimise over each block of atoms in turn; an atom that was never used stays."""
        diagonal = self.gram.diagonal()
        # in the unit of the largest, so that the ridge of unused atoms is neither 0 nor large
        unused = diagonal <= torch.finfo(diagonal.dtype).eps * diagonal.amax()
        ridge = torch.where(unused, 1.0, diagonal * _RIDGE)
        for start in range(0, weight.shape[1], _BLOCK):
            block = slice(start, start + _BLOCK)
            slope = self.cross[:, block] - weight @ self.gram[:, block]
            slope.masked_fill_(unused[block], 0.0)
            hessian = self.gram[block, block] + torch.diag(ridge[block])
            factor, _ = torch.linalg.cholesky_ex(hessian)
            weight[:, block].add_(torch.cholesky_solve(slope.T, factor).T)
