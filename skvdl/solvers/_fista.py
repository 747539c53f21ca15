"""FISTA with a constant step: as published, and with restarts."""

import math

import torch

from ..energy import Problem
from ._solver import ActiveRows, Result, Solver, next_check


class Fista(Solver):
    """FISTA as published: a step that is given, and Nesterov's momentum.

    A row is done when one step moves it by no more than `tol` of its norm; the batch as a whole if
    its rows are coupled.

    Parameters
    ----------
    step : float
        Step of the gradient.
    tol : float
        Relative change at which to stop.
    max_iter : int
        Maximum number of iterations.
    """

    def __init__(self, step: float, tol: float, max_iter: int) -> None:
        super().__init__(tol, max_iter)
        self.step = step

    def _solve(self, problem: Problem, Z: torch.Tensor) -> Result:
        problem.set_step(Z.new_full((), self.step))
        if problem.coupled:
            return solve_together(problem, Z, self.tol, self.max_iter, restart=False)
        rows = ActiveRows(Z)
        rows.X, rows.C = Z.clone(), Z
        rows.C_new, rows.move = torch.empty_like(Z), torch.empty_like(Z)
        t = 1.0
        for k in range(1, self.max_iter + 1):
            problem.descend(rows.X, rows.C_new, rows.move)
            torch.sub(rows.C_new, rows.C, out=rows.move)
            length, size = problem.norms(rows.move, rows.C)
            done = length <= self.tol * size
            t, momentum = _next_momentum(t)
            torch.add(rows.C_new, rows.move, alpha=momentum, out=rows.X)
            rows.C, rows.C_new = rows.C_new, rows.C
            result = rows.retire(done.logical_and_(length.isfinite()), rows.C, k, problem)
            if result is not None:
                return result
        return rows.give_up(rows.C, self.max_iter, problem.energy(rows.C))


class RestartingFista(Solver):
    """FISTA for quadratic data terms, whose energy never rises.

    The step is that of the curvature's upper bound. If the smooth part is convex, a step from an
    extrapolated point ends no higher than the last iterate provided it ends at least as far from
    it as it started. That certificate needs no energy; a step without it is dropped, and its row
    loses its momentum. The hinge is not convex and voids the certificate; if the batch ends above
    its start, it is solved again without momentum, which needs no certificate.

    Rows are done as in `Fista`.
    """

    def _solve(self, problem: Problem, Z: torch.Tensor) -> Result:
        problem.set_step(1.0 / problem.curvature())
        if not problem.coupled:
            return self._iterate(problem, Z)
        if Z.device.type == "cpu":
            # one decision for all rows, and reading it costs nothing here
            found = solve_together(problem, Z, self.tol, self.max_iter, restart=True)
        else:
            found = self._iterate(problem, Z)
        if problem.total(found.energy) > problem.energy(Z):
            return self._iterate(problem, Z, accelerate=False)
        return found

    def _iterate(self, problem: Problem, Z: torch.Tensor, accelerate: bool = True) -> Result:
        rows = start_certified(problem, Z)
        check = 1
        for k in range(1, self.max_iter + 1):
            certified = certified_step(problem, rows, accelerate)
            if k != check:
                continue
            check = next_check(k)
            done = rows.last <= self.tol * problem.norms(rows.C)[0]
            result = rows.retire(done.logical_and_(certified > 0), rows.C, k, problem)
            if result is not None:
                return result
        return rows.give_up(rows.C, self.max_iter, problem.energy(rows.C))


def start_certified(problem: Problem, Z: torch.Tensor) -> ActiveRows:
    """State of `certified_step` before the first one."""
    rows = ActiveRows(Z, problem)
    rows.X, rows.C = Z.clone(), Z.clone()
    rows.C_new, rows.move = torch.empty_like(Z), torch.empty_like(Z)
    rows.age = Z.new_zeros(1 if problem.coupled else len(Z), 1)
    rows.momentum = rows.last = rows.age
    return rows


def certified_step(problem: Problem, rows: ActiveRows, accelerate: bool = True) -> torch.Tensor:
    """Take one step from the extrapolated point; return 1 where it was kept and 0 elsewhere."""
    problem.descend(rows.X, rows.C_new, rows.move)
    torch.sub(rows.C_new, rows.C, out=rows.move)
    (length,) = problem.norms(rows.move)
    certified = (length >= rows.momentum * rows.last).to(length.dtype)
    rows.age = (rows.age + 1) * certified
    # without acceleration the momentum stays 0, and every step has its certificate
    rows.momentum = rows.age / (rows.age + 3) if accelerate else rows.momentum
    rows.last = length
    rows.C.lerp_(rows.C_new, certified)
    torch.addcmul(rows.C, rows.move, rows.momentum, out=rows.X)
    return certified


def solve_together(
    problem: Problem, Z: torch.Tensor, tol: float, max_iter: int, *, restart: bool
) -> Result:
    """Iterate a batch whose rows are coupled, with decisions made on the host.

    With `restart`, a step that ends closer to the last iterate than it started is dropped, and
    the momentum with it, as in `certified_step`.
    """
    rows = ActiveRows(Z, problem)
    X, C = Z.clone(), Z.clone()
    C_new, move = torch.empty_like(Z), torch.empty_like(Z)
    t, momentum, last = 1.0, 0.0, 0.0
    reach = problem.length(Z, following=X)
    for k in range(1, max_iter + 1):
        problem.descend(X, C_new, move)
        torch.sub(C_new, C, out=move)
        # as if the step were kept, so that its length and the spread are one message
        t_new, momentum_new = _next_momentum(t)
        torch.add(C_new, move, alpha=momentum_new, out=X)
        length = problem.length(move, following=X)
        if restart and length < momentum * last:
            X.copy_(C)
            problem.forget_following()
            t, momentum = 1.0, 0.0
            continue
        last, t, momentum = length, t_new, momentum_new
        # the norm itself is worth computing only if its bound does not decide
        done = length <= tol * reach and math.isfinite(length)
        if done:
            reach = problem.length(C)
            done = length <= tol * reach
        reach += length
        C, C_new = C_new, C
        if done:
            everything = C.new_ones(1, 1, dtype=torch.bool)
            result = rows.retire(everything, C, k, problem)
            assert result is not None
            return result
    return rows.give_up(C, max_iter, problem.energy(C))


def _next_momentum(t: float) -> tuple[float, float]:
    """Nesterov's sequence: its next member, and the share of the last move to add."""
    t_new = (1 + (1 + 4 * t * t) ** 0.5) / 2
    return t_new, (t - 1) / t_new
