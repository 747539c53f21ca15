"""Amplitudes without the bias of the penalty: least squares on the support that codes have."""

import torch

from ..energy import EnergySettings, Problem
from ..models import DataTerm, Decoder, QuadraticTerm
from ._active_set import refit_non_negative, suits_kernel
from ._backtracking import BacktrackingFista
from ._exact import minimise_on_face, step_within_face
from ._pivoting import refit_tol, solve_on_supports
from ._threads import one_core

# Rounds of conjugate gradients, each with so many iterations. A round ends where a component
# reaches 0, which it then keeps, or may leave again if the gradient pulls it back.
_ROUNDS = 40
_CONJUGATE = 24
# Iterations for a decoder that is not linear, where no method is exact, and their tolerance.
_STEPS, _STEP_TOL = 30, 1e-6


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
    # too little work for cores that would have to wait for each other
    with one_core():
        term = decoder.data_term(Y, seen=seen)
        if positive and isinstance(term, QuadraticTerm):
            # nothing but rounding would be left of what codes nothing
            codes = codes.where(term.Y.any(dim=1, keepdim=True), 0.0)
        face = codes != 0
    if isinstance(term, QuadraticTerm):
        return _least_squares(term, codes, face, positive)
    problem = Problem(_FaceTerm(term, face), EnergySettings(lam=0.0, positive=positive))
    return BacktrackingFista(_STEP_TOL, _STEPS).solve(problem, codes).codes


def _least_squares(
    term: QuadraticTerm, Z: torch.Tensor, support: torch.Tensor, positive: bool
) -> torch.Tensor:
    """Solve rows directly where that is possible, and the others by conjugate gradients."""
    factors = term.factors()
    if factors is None:
        return _conjugate_gradients(term, Z, support, positive)
    Y, W = factors
    with one_core():
        # more atoms than data do not determine amplitudes: codes should stay near where they are
        small = support.sum(dim=1) <= len(W)
        direct = slice(None) if small.all() else small.nonzero()[:, 0]
        codes, solved = Z.clone(), torch.zeros_like(small)
    if positive and suits_kernel(Z.device, W.shape[1]):
        codes[direct], solved[direct] = refit_non_negative(Y[direct], W, Z[direct])
    else:
        codes[direct], solved[direct] = solve_on_supports(
            Y[direct], W, support[direct], positive=positive
        )
    left = solved.logical_not().nonzero()[:, 0]
    if len(left):
        term.take(left)
        codes[left] = _conjugate_gradients(term, codes[left], support[left], positive)
    return codes


def _conjugate_gradients(
    term: QuadraticTerm, Z: torch.Tensor, support: torch.Tensor, positive: bool
) -> torch.Tensor:
    eps = torch.finfo(Z.dtype).eps
    tol = refit_tol(Z.dtype)
    curvature = term.curvature()
    # a support with more atoms than data has directions that change codes and nothing else
    flat = eps**0.75 * curvature
    codes, index = Z.clone(), torch.arange(len(Z), device=Z.device)
    origin = torch.linalg.vector_norm(term.grad(torch.zeros_like(Z)) * support, dim=1, keepdim=True)
    for _ in range(_ROUNDS):
        grad = term.grad(Z) * support
        face = Z > 0 if positive else support
        size = torch.linalg.vector_norm(grad * face, dim=1, keepdim=True)
        done = size <= tol * origin
        if positive:
            # where nothing else is to be gained, one component at 0 may come back: the one whose
            # growth lowers the error most, for of several some would only be in the way
            slope, back = torch.where(face, 0.0, grad).min(dim=1, keepdim=True)
            free = done & (slope < -tol * origin)
            Z = Z.scatter(1, back, torch.where(free, -slope / curvature, Z.gather(1, back)))
            grad = torch.where(free, term.grad(Z), grad)
            face = Z > 0
            done = done & free.logical_not()
        codes[index] = Z
        left = done.logical_not()[:, 0].nonzero()[:, 0]
        if not len(left):
            break
        # a row that is done stays as it is, however long the others take
        term.take(left)
        index, Z, support, origin = index[left], Z[left], support[left], origin[left]
        face = face[left].to(Z.dtype)
        step = minimise_on_face(term, grad[left] * face, face, _CONJUGATE, flat)
        Z = _step_to_zero(term, Z, step) if positive else Z + step
        codes[index] = Z
    return codes


def _step_to_zero(term: QuadraticTerm, Z: torch.Tensor, step: torch.Tensor) -> torch.Tensor:
    """Codes after a step that sets all to 0 that it would make negative, or just the first."""
    first, all_at_once = step_within_face(Z, step), (Z + step).relu_()
    errors = [term.error_and_grad(codes)[0][:, None] for codes in (first, all_at_once)]
    return torch.where(errors[1] < errors[0], all_at_once, first)


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
