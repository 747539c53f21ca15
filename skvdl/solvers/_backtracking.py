"""FISTA for data terms without a bound on their curvature, such as a network's."""

import torch

from ..energy import Problem
from ._solver import ActiveRows, Result, Solver, next_check

# Growth of the step with each of the first accepted points, and with later ones. The first step
# comes from an estimate of the curvature with all units on, which may be far too high.
_FIRST_GROWTH, _GROWTH = 10.0, 1.5
# Step relative to the inverse of the curvature along the last move. That curvature is an average
# over directions, and the step has to suit the most curved one.
_CAUTION = 0.7
# The flattest direction is assumed to be this flat, relative to the estimated curvature.
_FLATTEST = 1e-3


class BacktrackingFista(Solver):
    """FISTA that takes an extrapolated point only if it lowers the energy, with steps that grow.

    This way, one evaluation gives both value and gradient. It also shows how much the gradient
    changes along the move, whether the point is taken or refused. The step grows as long as that
    curvature allows. If a point is refused, its row loses its momentum, or half its step if it had
    none.

    A short step is not convergence. A row is therefore judged by its gradient mapping, the move
    divided by the step, times a reach that does not depend on the step: the inverse of the
    curvature along the last move. The first moves are in the most curved directions and tell
    nothing of the others, so that the reach is at first the inverse of the smallest curvature that
    the energy can have; this bound halves with each iteration. A row is done when mapping times
    reach is no more than `tol` of its norm; the batch as a whole if its rows are coupled. At the
    kink of a relu no step is short enough, so that a row may still stop above its minimum.

    Parameters
    ----------
    tol : float
        Relative distance from the minimum at which to stop, estimated as above.
    max_iter : int
        Maximum number of iterations.
    """

    def _solve(self, problem: Problem, Z: torch.Tensor) -> Result:
        rows = ActiveRows(Z, problem)
        rows.X = rows.C = Z
        rows.E, rows.G = problem.value_and_grad(Z)
        limits = torch.finfo(Z.dtype)
        rows.age = torch.zeros_like(rows.E)
        curvature = torch.ones_like(rows.E) * problem.curvature()
        rows.step = 1.0 / curvature
        rows.allowed = rows.step
        rows.farthest = 1.0 / (curvature * _FLATTEST).clamp_(min=problem.data.ridge)
        check = 2  # at least one step, however small: the encoder learns from it
        for k in range(1, self.max_iter + 1):
            moved = torch.addcmul(rows.X, rows.step, rows.G, value=-1)
            rows.C_new = problem.shrink(moved, rows.step)
            if k == check:
                check = next_check(k)
                length, size = problem.norms(rows.C_new - rows.X, rows.X)
                mapping = length / rows.step
                reach = rows.allowed.maximum(rows.farthest * 0.5**k)
                done = mapping * reach <= self.tol * size
                result = rows.retire(done, rows.X, k, problem, energy=rows.E)
                if result is not None:
                    return result
            X_new = torch.addcmul(rows.C_new, rows.age / (rows.age + 3), rows.C_new - rows.C)
            if problem.positive:
                X_new.relu_()
            else:
                X_new.mul_(X_new * rows.C_new > 0)
            E_new, G_new = problem.value_and_grad(X_new)
            accept = E_new <= rows.E + rows.E.abs() * (8 * limits.eps)
            rows.allowed = _allowed_step(problem, X_new - rows.X, G_new - rows.G)
            kept = torch.where(rows.age > 0, rows.step, rows.step / 2)
            longer = rows.step * (_FIRST_GROWTH if k < 5 else _GROWTH)
            rows.step = torch.where(accept, longer, kept).minimum(rows.allowed)
            rows.age = torch.where(accept, rows.age + 1, 0.0)
            rows.X = torch.where(accept, X_new, rows.X)
            rows.G = torch.where(accept, G_new, rows.G)
            rows.E = torch.where(accept, E_new, rows.E)
            rows.C = rows.C_new
        return rows.give_up(rows.X, self.max_iter, rows.E)


def _allowed_step(problem: Problem, move: torch.Tensor, bend: torch.Tensor) -> torch.Tensor:
    """Step that suits the curvature along a move, over which the gradient changed by `bend`."""
    length, change = problem.norms(move, bend)
    most = torch.finfo(move.dtype).max
    return torch.where(change > 0, length * _CAUTION / change, most).clamp_(max=most)
