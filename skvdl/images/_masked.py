"""Sparse codes of rows of which only some entries are seen."""

import torch
from torch import Tensor

from ..models._weights import eigenvalue_bound

# Duality gap, as a share of the energy of the code 0, at which a row is done.
_TOL = 1e-3
_MAX_ITER = 1000


def code_seen(Y: Tensor, seen: Tensor, atoms: Tensor, lam: float) -> Tensor:
    """Minimise ``1/d ||seen * (y - z atoms)||^2 + lam ||z||_1`` over the code z of each row.

    Parameters
    ----------
    Y : torch.Tensor of shape (n, d)
        Data; entries that are not seen may be any finite number.
    seen : torch.Tensor of shape (n, d)
        1 for entries that are seen, 0 for others.
    atoms : torch.Tensor of shape (l, d)
        Atoms.
    lam : float
        Weight of the l1 norm.

    Returns
    -------
    torch.Tensor of shape (n, l)
        The codes, to a duality gap of 1e-3 of the energy of the code 0.
    """
    Y = Y * seen
    scale = 2.0 / Y.shape[1]
    # hiding entries can only lower the curvature
    step = 1.0 / (scale * eigenvalue_bound(atoms @ atoms.T))
    codes = Y.new_zeros(len(Y), len(atoms))
    active = torch.arange(len(Y), device=Y.device)
    Z = X = codes
    age = torch.zeros_like(Y[:, :1])
    for k in range(_MAX_ITER):
        residual = (X @ atoms).sub_(Y).mul_(seen)
        V = X - step * scale * (residual @ atoms.T)
        Z_new = V - V.clamp(-step * lam, step * lam)
        move = Z_new - Z
        # momentum that points uphill is dropped
        age = torch.where(torch.linalg.vecdot(X - Z_new, move)[:, None] > 0, 0.0, age + 1)
        X, Z = Z_new + move * (age / (age + 3)), Z_new
        if k % 10 == 9:
            left = (_gap(Y, seen, atoms, Z, lam) > _TOL).nonzero()[:, 0]
            if len(left) < len(active):
                codes[active] = Z
                active = active[left]
                Y, seen, X, Z, age = (v[left] for v in (Y, seen, X, Z, age))
            if not len(active):
                break
    codes[active] = Z
    return codes


def _gap(Y: Tensor, seen: Tensor, atoms: Tensor, Z: Tensor, lam: float) -> Tensor:
    """Duality gap of each row over its energy without any atom."""
    scale = 2.0 / Y.shape[1]
    residual = (Y - Z @ atoms).mul_(seen)
    excess = (residual @ atoms.T).abs_().amax(dim=1) * scale
    shrink = (lam / excess.clamp_min(torch.finfo(Y.dtype).tiny)).clamp_(max=1.0)
    error = residual.square().sum(dim=1)
    overlap = torch.linalg.vecdot(residual, Y)
    energy = error * (scale / 2) + lam * Z.abs().sum(dim=1)
    gap = energy - (scale / 2) * shrink * (2 * overlap - shrink * error)
    size = Y.square().sum(dim=1) * (scale / 2)
    return gap / size.clamp_min(torch.finfo(Y.dtype).tiny)
