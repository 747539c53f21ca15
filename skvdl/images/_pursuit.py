"""The first estimate: patches approximated by as few atoms as their noise allows."""

import torch
from torch import Tensor


def matching_pursuit(
    Y: Tensor, atoms: Tensor, *, max_error: float, max_atoms: int
) -> tuple[Tensor, Tensor]:
    """Approximate rows by as few atoms as their noise allows: orthogonal matching pursuit.

    Parameters
    ----------
    Y : torch.Tensor of shape (n, d)
        Data.
    atoms : torch.Tensor of shape (l, d)
        Atoms of unit norm.
    max_error : float
        Squared error at which a row is done.
    max_atoms : int
        Largest number of atoms of a row.

    Returns
    -------
    approximation : torch.Tensor of shape (n, d)
        The projections of the rows on the atoms chosen for them.
    n_atoms : torch.Tensor of shape (n,)
        Number of atoms of each row.
    """
    residual = Y.clone()
    n_atoms = torch.zeros_like(Y[:, 0], dtype=torch.long)
    active = (Y.square().sum(dim=1) > max_error).nonzero()[:, 0]
    rest = Y[active]
    # orthonormal directions that span the atoms of each row so far
    spans = rest[:, None, :][:, :0]
    smallest = 1e3 * torch.finfo(Y.dtype).eps
    for _ in range(max_atoms):
        if not len(active):
            break
        direction = atoms[(rest @ atoms.T).abs_().argmax(dim=1)][:, None]
        direction = direction - direction @ spans.transpose(1, 2) @ spans
        length = torch.linalg.vector_norm(direction, dim=2, keepdim=True)
        direction = direction / length.clamp_min(smallest)
        rest = rest - (rest[:, None] @ direction.transpose(1, 2) @ direction)[:, 0]
        # if the best atom is within the span of the others, no atom can lower the error any more
        useful = length[:, 0, 0] > smallest
        residual[active[useful]] = rest[useful]
        n_atoms[active[useful]] += 1
        left = (useful & (rest.square().sum(dim=1) > max_error)).nonzero()[:, 0]
        active, rest = active[left], rest[left]
        spans = torch.cat([spans[left], direction[left]], dim=1)
    return Y - residual, n_atoms
