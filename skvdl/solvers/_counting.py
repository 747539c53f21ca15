"""FISTA for the l0 penalty: few components, and no bias in their amplitudes."""

import torch

from ..energy import Problem
from ..models import QuadraticTerm
from ._solver import ActiveRows, Result, Solver, next_check

# Most iterations that are spent on the l1 norm first.
_MOST_SOFT = 100


class CountingFista(Solver):
    """FISTA on the continuous relaxation of the number of components that are not 0.

    The relaxation is not convex, so that the start decides which minimum is found. The first
    iterations therefore replace it by the l1 norm with the same threshold, which is convex and
    finds a good support. Each component has its own step, and a row whose momentum points uphill
    loses it.

    A row is done when one step moves it by no more than `tol` of its norm, in units in which all
    atoms have the same norm; the batch as a whole if its rows are coupled.
    """

    def _solve(self, problem: Problem, Z: torch.Tensor) -> Result:
        assert isinstance(problem.data, QuadraticTerm)
        # an atom of zeros has no gradient that could turn it off
        Z.mul_(problem.data.diagonal() > 0)
        step = problem.component_steps()
        problem.set_step(step)
        # lengths of moves are comparable after division by the roots of the steps
        weight = 1.0 / step
        rows = ActiveRows(Z, problem)
        rows.X, rows.C = Z.clone(), Z
        rows.C_new, rows.move = torch.empty_like(Z), torch.empty_like(Z)
        # iterations since the last restart, plus 2
        rows.age = torch.full_like(Z[:, :1], 2.0)
        n_soft = min(_MOST_SOFT, self.max_iter // 3)
        check = n_soft + 2
        for k in range(1, self.max_iter + 1):
            problem.descend(rows.X, rows.C_new, rows.move, soft=k <= n_soft)
            torch.sub(rows.C_new, rows.C, out=rows.move)
            uphill = rows.X.sub_(rows.C_new).mul_(rows.move) @ weight > 0
            rows.age.add_(1.0).masked_fill_(uphill[:, None], 2.0)
            if k == check:
                check = next_check(k)
                root = weight.sqrt()
                length, size = problem.norms(rows.move * root, rows.C_new * root)
                done = length <= self.tol * size
                result = rows.retire(done, rows.C_new, k, problem)
                if result is not None:
                    return result
            momentum = (1.0 - 3.0 / rows.age).relu_()
            torch.addcmul(rows.C_new, rows.move, momentum, out=rows.X)
            rows.C, rows.C_new = rows.C_new, rows.C
        return rows.give_up(rows.C, self.max_iter, problem.energy(rows.C))
