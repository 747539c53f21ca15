"""Amplitudes without the bias of the penalty: least squares on the support that codes have."""

import torch

from ..energy import EnergySettings, Problem
from ..models import DataTerm, Decoder, QuadraticTerm
from ._backtracking import BacktrackingFista
from ._exact import minimise_on_face, step_within_face

# Rounds of conjugate gradients, each with so many iterations. A round ends where a component
# reaches 0, which it then keeps, or may leave again if the gradient pulls it back.
_ROUNDS = 12
_CONJUGATE = 24
# Gradient, relative to that at 0, at which a row is done.
_TOL = 1e-6
# Iterations for a decoder that is not linear, where no method is exact.
_STEPS = 30


@torch.no_grad()
def refit(
    decoder: Decoder,
    Y: torch.Tensor,
    codes: torch.Tensor,
    *,
    positive: bool,
    seen: torch.Tensor | None = None,
) -> torch.Tensor:
    """Minimise the reconstruction error of each row over the codes with its support.

    Parameters
    ----------
    decoder : Decoder
        The decoder.
    Y : torch.Tensor of shape (n, d)
        Data.
    codes : torch.Tensor of shape (n, l)
        Codes whose support to keep.
    positive : bool
        Whether codes are non-negative: amplitudes are then those of non-negative least squares,
        and components that it sets to 0 leave the support.
    seen : torch.Tensor of shape (n, d), optional
        1 for entries that count, 0 for others.

    Returns
    -------
    torch.Tensor of shape (n, l)
        Codes, exact for a linear decoder. For a network, the error is lowered by some steps.
    """
    term = decoder.data_term(Y, seen=seen)
    face = codes != 0
    if isinstance(term, QuadraticTerm):
        return _least_squares(term, codes, face, positive)
    problem = Problem(_FaceTerm(term, face), EnergySettings(lam=0.0, positive=positive))
    return BacktrackingFista(_TOL, _STEPS).solve(problem, codes).codes


def _least_squares(
    term: QuadraticTerm, Z: torch.Tensor, support: torch.Tensor, positive: bool
) -> torch.Tensor:
    curvature = term.curvature()
    flat = torch.finfo(Z.dtype).eps * curvature
    codes, index = Z.clone(), torch.arange(len(Z), device=Z.device)
    origin = torch.linalg.vector_norm(term.grad(torch.zeros_like(Z)) * support, dim=1, keepdim=True)
    for _ in range(_ROUNDS):
        grad = term.grad(Z)
        if positive:
            # a component at 0 is free again if the error falls when it grows
            grad.masked_fill_(support.logical_not() | ((Z <= 0) & (grad >= 0)), 0.0)
            back = (Z <= 0) & (grad < 0)
            Z = torch.where(back, -grad / curvature, Z)
            grad = torch.where(back.any(dim=1, keepdim=True), term.grad(Z), grad)
            face = Z > 0
        else:
            face = support
        grad = grad * face
        size = torch.linalg.vector_norm(grad, dim=1, keepdim=True)
        codes[index] = Z
        left = (size > _TOL * origin)[:, 0].nonzero()[:, 0]
        if not len(left):
            break
        # a row that is done stays as it is, however long the others take
        term.take(left)
        index, Z, support, origin = index[left], Z[left], support[left], origin[left]
        face = face[left].to(Z.dtype)
        step = minimise_on_face(term, grad[left], face, _CONJUGATE, flat)
        Z = step_within_face(Z, step) if positive else Z + step
        codes[index] = Z
    return codes


class _FaceTerm(DataTerm):
    """Another data term whose gradient is 0 outside of the support, so that codes keep it."""

    def __init__(self, term: DataTerm, face: torch.Tensor) -> None:
        super().__init__(term.Y, term.n_components)
        self.term = term
        self.face = face

    def error_and_grad(self, Z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Reconstruction error of each row, and its gradient on the support."""
        error, grad = self.term.error_and_grad(Z)
        return error, grad * self.face

    def error_curvature(self) -> torch.Tensor:
        """Second derivative of the reconstruction error: a bound, or an estimate."""
        return self.term.error_curvature()

    def take(self, rows: torch.Tensor) -> None:
        """Keep only some rows."""
        self.term.take(rows)
        self.face = self.face[rows]
