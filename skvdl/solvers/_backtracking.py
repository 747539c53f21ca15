"""FISTA for data terms without a bound on their curvature, such as a network's."""

import torch

from ..energy import Problem
from ._solver import ActiveRows, Result, Solver, next_check, row_norms

# Growth of the step with each accepted point, before and after the first refusal. Faster growth
# overshoots at first and is refused often later.
_GROWTH = 1.25, 1.02


class BacktrackingFista(Solver):
    """FISTA that takes an extrapolated point only if it lowers the energy.

    This way, one evaluation gives both value and gradient. If a point is refused, its row loses its
    momentum, or half its step if it had no momentum: the step comes from an estimate of the
    curvature, which may be too low.

    The estimate may also be far too high, and then a row that hardly moves can be far from its
    minimum. With `grow`, the step of each row grows, and no row is done before one of its points
    was refused, which shows that its step is about as long as it can be. At the kink of a relu no
    step is short enough, so that a row may still stop above its minimum.

    A row is done when one step moves it by no more than `tol` of its norm; the batch as a whole if
    its rows are coupled.

    Parameters
    ----------
    tol : float
        Relative change at which to stop.
    max_iter : int
        Maximum number of iterations.
    grow : bool
        Whether steps may grow.
    """

    def __init__(self, tol: float, max_iter: int, *, grow: bool) -> None:
        super().__init__(tol, max_iter)
        self.grow = grow

    def _solve(self, problem: Problem, Z: torch.Tensor) -> Result:
        coupled = problem.coupled
        rows = ActiveRows(Z)
        rows.X = rows.C = Z
        rows.E, rows.G = problem.value_and_grad(Z)
        limits = torch.finfo(Z.dtype)
        rows.slack = rows.E.abs() * (8 * limits.eps)
        rows.age = torch.zeros_like(rows.E)
        rows.step = rows.estimate = torch.ones_like(rows.E) * (1.0 / problem.curvature())
        rows.limited = torch.zeros_like(rows.E, dtype=torch.bool)
        check = 2  # at least one step, however small: the encoder learns from it
        for k in range(1, self.max_iter + 1):
            moved = torch.addcmul(rows.X, rows.step, rows.G, value=-1)
            rows.C_new = problem.shrink(moved, rows.step)
            if k == check:
                check = next_check(k)
                length = row_norms(rows.C_new - rows.X, coupled)
                done = length <= self.tol * row_norms(rows.X, coupled)
                if self.grow:
                    done = done.logical_and(rows.limited.logical_or(length == 0))
                result = rows.retire(done, rows.X, k, problem, energy=rows.E)
                if result is not None:
                    return result
            X_new = torch.addcmul(rows.C_new, rows.age / (rows.age + 3), rows.C_new - rows.C)
            if problem.positive:
                X_new.relu_()
            else:
                X_new.mul_(X_new * rows.C_new > 0)
            E_new, G_new = problem.value_and_grad(X_new)
            accept = E_new <= rows.E + rows.slack
            rows.step = torch.where(accept.logical_or(rows.age > 0), rows.step, rows.step / 2)
            if self.grow:
                self._grow(rows, accept, E_new)
            rows.age = torch.where(accept, rows.age + 1, 0.0)
            rows.X = torch.where(accept, X_new, rows.X)
            rows.G = torch.where(accept, G_new, rows.G)
            rows.E = torch.where(accept, E_new, rows.E)
            rows.C = rows.C_new
        return rows.give_up(rows.X, self.max_iter, rows.E)

    @staticmethod
    def _grow(rows: ActiveRows, accept: torch.Tensor, E_new: torch.Tensor) -> None:
        """Lengthen the steps of rows whose points were accepted."""
        limits = torch.finfo(E_new.dtype)
        first, later = _GROWTH
        step = rows.step
        rows.limited = rows.limited.logical_or(accept.logical_not())
        longer = torch.where(rows.limited, step * later, step * first).clamp_(max=limits.max)
        # where rounding hides whether the energy falls, a long step may oscillate forever
        shorter = torch.maximum(step / 2, torch.minimum(step, rows.estimate))
        hidden = rows.limited.logical_and(E_new >= rows.E - rows.slack)
        rows.step = torch.where(accept, torch.where(hidden, shorter, longer), step)
        # growing steps could exploit the larger slack of a start with a high energy
        rows.slack = torch.where(accept, E_new, rows.E).abs() * (8 * limits.eps)
