"""Lasso codes to a given duality gap: FISTA finds the support, conjugate gradients solve on it.

The codes with a given support and given signs are a face. On a face the energy is quadratic, and
a few conjugate gradients do what takes FISTA a hundred iterations; FISTA in turn finds the right
face in a few dozen. Both run in the precision of the data. The gradients that start a face's
solution, and the gaps that judge it, are in double precision: single precision cannot certify a gap
below 1e-3.
"""

import torch

from ..energy import EnergySettings, Problem
from ..models import Decoder, QuadraticTerm
from ._fista import certified_step, start_certified
from ._solver import ActiveRows, Result, Solver

# Iterations of FISTA, then of conjugate gradients, in each round. The later ones are for the few
# rows that have not found their face, or have one that is badly conditioned.
_ROUNDS = [(30, 16), (10, 16), (10, 16)]
_LAST_ROUNDS = [(20 * 2**i, 32 * 2**i) for i in range(10)]


class ExactLasso(Solver):
    """Codes of a lasso, each row to a relative duality gap of `tol`.

    Parameters
    ----------
    tol : float
        Duality gap at which a row is done, relative to its energy.
    max_iter : int
        Maximum number of iterations, of FISTA and of conjugate gradients together.
    """

    def _solve(self, problem: Problem, Z: torch.Tensor) -> Result:
        rough = problem
        fine = rough if _finer_dtype(Z) == Z.dtype else problem.to(_finer_dtype(Z))
        rough.set_step(1.0 / rough.curvature())
        if fine is not rough:
            fine.set_step(rough.step.to(_finer_dtype(Z)))
        problems = [fine] if fine is rough else [fine, rough]
        rows = ActiveRows(Z)
        rows.Z = Z.to(fine.step.dtype)
        spent = 0
        for number, (n_fista, n_conjugate) in enumerate(_ROUNDS + _LAST_ROUNDS):
            if number == len(_ROUNDS):
                rough, problems = fine, [fine]
            n_fista = min(n_fista, self.max_iter - spent)
            n_conjugate = min(n_conjugate, self.max_iter - spent - n_fista)
            Z = _descend(rough, rows.Z.to(rough.step.dtype), n_fista).to(rows.Z.dtype)
            rows.Z = _solve_on_face(rough, fine, Z, n_conjugate)
            spent += n_fista + n_conjugate
            # half, because rounding the codes to the precision of the data widens the gap a little
            gap, energy = fine.relative_gap(rows.Z)
            result = rows.retire(gap <= self.tol / 2, rows.Z, spent, *problems, energy=energy)
            if result is not None:
                return result
            if spent == self.max_iter:
                break
        return rows.give_up(rows.Z, spent, fine.energy(rows.Z))


@torch.no_grad()
def relative_gaps(
    decoder: Decoder,
    Y: torch.Tensor,
    codes: torch.Tensor,
    settings: EnergySettings,
    *,
    seen: torch.Tensor | None = None,
) -> torch.Tensor:
    """Relative duality gap of any codes of a linear decoder, one per row."""
    fine = _finer_dtype(Y)
    # with nothing to prepare the term works through the residual, which is the more accurate form
    seen = None if seen is None else seen.to(fine)
    term = decoder.data_term(Y.to(fine), seen=seen, n_evaluations=0)
    if not isinstance(term, QuadraticTerm):
        raise ValueError(f"There is no duality gap for a {type(decoder).__name__}.")
    problem = Problem(term, settings.by_row())
    return problem.relative_gap(codes.to(fine))[0][:, 0].to(Y.dtype)


def _finer_dtype(Y: torch.Tensor) -> torch.dtype:
    """Double precision where the device has it."""
    return Y.dtype if Y.device.type == "mps" else torch.float64


def _descend(problem: Problem, Z: torch.Tensor, n_iter: int) -> torch.Tensor:
    """Codes after some iterations of FISTA, without checks for convergence."""
    rows = start_certified(problem, Z)
    for _ in range(n_iter):
        certified_step(problem, rows)
    return rows.C


def _solve_on_face(rough: Problem, fine: Problem, Z: torch.Tensor, n_iter: int) -> torch.Tensor:
    """Codes after conjugate gradients on the face they are on."""
    dtype = rough.step.dtype
    slope = fine.data.grad(Z)
    if not fine.positive:
        slope.add_(Z.sign(), alpha=fine.lam)
    face = (Z != 0).to(dtype)
    flat = torch.finfo(dtype).eps / rough.step
    assert isinstance(rough.data, QuadraticTerm)
    step = minimise_on_face(rough.data, slope.to(dtype), face, n_iter, flat)
    return step_within_face(Z, step.to(Z.dtype))


def minimise_on_face(
    term: QuadraticTerm, grad: torch.Tensor, face: torch.Tensor, n_iter: int, flat: torch.Tensor
) -> torch.Tensor:
    """Step from where the gradient is `grad` to the minimum over the components in `face`.

    Along a direction whose curvature is no more than `flat`, for example if two atoms are equal, no
    step is taken: FISTA will decide between such components.
    """
    residual = grad * face
    direction = residual.neg()
    step = torch.zeros_like(residual)
    square = torch.linalg.vecdot(residual, residual)[:, None]
    # what is left below this is rounding error, which a flat direction would blow up
    least = square * torch.finfo(grad.dtype).eps ** 2
    for _ in range(n_iter):
        bent = term.hessian_product(direction).mul_(face)
        curvature = torch.linalg.vecdot(direction, bent)[:, None]
        size = torch.linalg.vecdot(direction, direction)[:, None]
        useful = (curvature > flat * size) & (square > least)
        length = torch.where(useful, square / curvature, 0.0)
        step.addcmul_(direction, length)
        residual.addcmul_(bent, length)
        last, square = square, torch.linalg.vecdot(residual, residual)[:, None]
        direction = torch.addcmul(-residual, direction, torch.where(last > 0, square / last, 0.0))
    return step


def step_within_face(Z: torch.Tensor, step: torch.Tensor) -> torch.Tensor:
    """Codes after as much of a step as changes no sign, which cannot raise the energy."""
    towards_zero = Z * step < 0
    room = torch.where(towards_zero, -Z / step, torch.inf)
    share = room.amin(dim=1, keepdim=True).clamp_max_(1.0)
    # what was in the way ends at 0 exactly, so that its component leaves the face
    return torch.where(room <= share, 0.0, torch.addcmul(Z, step, share))
