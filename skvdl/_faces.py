"""Lasso codes to a given duality gap: FISTA finds the support, conjugate gradients solve on it.

The codes with a given support and given signs are a face. On a face the energy is quadratic, and
a few conjugate gradients do what takes FISTA a hundred iterations; FISTA in turn finds the right
face in a few dozen. Both run in the precision of the data. Gradients that start a face's solution,
and gaps that judge it, are in double precision: single cannot certify a gap below 1e-3.
"""

import torch

from ._loops import Rows, certified_iteration
from ._objective import Objective
from .data_terms import make_linear_term

__all__ = ["finer_dtype", "lasso_on_faces"]

# Iterations of FISTA, then of conjugate gradients, in each round. The later ones are for the few
# rows that have not found their face, or have one that is badly conditioned.
_ROUNDS = [(30, 16), (10, 16), (10, 16)]
_LAST_ROUNDS = [(20 * 2**i, 32 * 2**i) for i in range(10)]


def finer_dtype(Y):
    """Double precision where the device has it."""
    return Y.dtype if Y.device.type == "mps" else torch.float64


def _descend(objective, C, n_iter):
    """Codes after iterations of FISTA, without looking at any row."""
    X, C = C.clone(), C.clone()
    C_new, move = torch.empty_like(C), torch.empty_like(C)
    age = momentum = last = torch.zeros_like(C[:, :1])
    for _ in range(n_iter):
        age, momentum, last, _ = certified_iteration(
            objective, X, C, C_new, move, age, momentum, last
        )
    return C


def _minimise_on_face(term, grad, face, n_iter, flat):
    """Step from where the gradient is `grad` to the minimum over the components in `face`.

    Conjugate gradients. Along a direction whose curvature is no more than `flat`, as where two
    atoms are equal, no step is taken: FISTA will decide between such components.
    """
    residual = grad * face
    direction = residual.neg()
    step = torch.zeros_like(residual)
    square = torch.linalg.vecdot(residual, residual)[:, None]
    for _ in range(n_iter):
        bent = term.bend(direction).mul_(face)
        curvature = torch.linalg.vecdot(direction, bent)[:, None]
        length = torch.where(curvature > flat * square, square / curvature, 0.0)
        step.addcmul_(direction, length)
        residual.addcmul_(bent, length)
        last, square = square, torch.linalg.vecdot(residual, residual)[:, None]
        direction = torch.addcmul(-residual, direction, torch.where(last > 0, square / last, 0.0))
    return step


def _step_within_face(Z, step):
    """Codes after as much of a step as changes no sign, which cannot raise the energy."""
    towards_zero = Z * step < 0
    room = torch.where(towards_zero, -Z / step, torch.inf)
    share = room.amin(dim=1, keepdim=True).clamp_max_(1.0)
    # what was in the way ends at 0 exactly, so that its component leaves the face
    return torch.where(room <= share, 0.0, torch.addcmul(Z, step, share))


def lasso_on_faces(Y, decoder, Z, lam, positive, gap_tol, max_iter, expected_iter):
    """Codes of a linear decoder, each row to a relative duality gap of `gap_tol`."""
    (W,) = decoder.weights
    tilt = lam if positive else 0.0

    def objective_in(dtype, step=None):
        term = make_linear_term(
            Y.to(dtype), W.detach().to(dtype), n_evaluations=expected_iter, tilt=tilt
        )
        objective = Objective(term, lam, 0.0, 0.0, positive, len(Y))
        objective.set_step(1.0 / term.curvature() if step is None else step.to(dtype))
        return objective

    rough = objective_in(Y.dtype)
    fine = rough if finer_dtype(Y) == Y.dtype else objective_in(finer_dtype(Y), rough.step)
    rows = Rows(Z)
    spent = 0
    Z = Z.to(fine.step.dtype)
    for number, (n_fista, n_conjugate) in enumerate(_ROUNDS + _LAST_ROUNDS):
        if number == len(_ROUNDS):
            rough = fine
        dtype = rough.step.dtype
        n_fista = min(n_fista, max_iter - spent)
        n_conjugate = min(n_conjugate, max_iter - spent - n_fista)
        Z = _descend(rough, Z.to(dtype), n_fista).to(Z.dtype)
        slope = fine.term.grad(Z)
        if not positive:
            slope.add_(Z.sign(), alpha=lam)
        face = (Z != 0).to(dtype)
        flat = torch.finfo(dtype).eps / rough.step
        step = _minimise_on_face(rough.term, slope.to(dtype), face, n_conjugate, flat)
        Z = _step_within_face(Z, step.to(Z.dtype))
        spent += n_fista + n_conjugate
        # half, for rounding the codes to the precision of the data widens the gap a little
        gap, energy = fine.relative_gap(Z)
        left = rows.retire(gap <= gap_tol / 2, Z, lambda _, energy=energy: energy, spent)
        if left is None:
            return rows.table
        if isinstance(left, torch.Tensor):
            Z = Z[left]
            for objective in {rough, fine}:
                objective.term.take(left)
        if spent == max_iter:
            break
    return rows.give_up(Z, fine.energy, spent)
