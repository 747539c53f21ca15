"""Lasso codes of a dictionary on a CPU, each row by an active-set method of its own."""

import importlib.util
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import torch

from ..energy import Problem
from ..models import QuadraticTerm, linear_term
from ._exact import ExactLasso
from ._solver import Result, Solver

# Rows whose products are computed together, and rows that a thread solves at a time.
_BLOCK, _ROWS = 1024, 128
# Rounds of adding components to the support, before a row is left to `ExactLasso`.
_ROUNDS = 100
# Most components, because each thread needs two matrices of this size.
_MOST_COMPONENTS = 4096


class ActiveSetLasso(Solver):
    """Codes of a lasso, each row to a relative duality gap of `tol`, compiled by numba.

    The support grows from that of the start. Coordinate descent and the exact solution on the
    support take turns with adding the components that would lower the energy most. Unlike the time
    of FISTA, that of this method depends on the number of components that are not 0, and hardly on
    how atoms are correlated. Rows that are not done in the end are left to `ExactLasso`.

    Parameters
    ----------
    tol : float
        Duality gap at which a row is done, relative to its energy.
    max_iter : int
        Maximum number of rounds, and of iterations of `ExactLasso`.
    """

    @staticmethod
    def suits(problem: Problem) -> bool:
        """Whether the problem is a lasso of moderate size on a CPU, and numba is installed."""
        data = problem.data
        small = data.n_components <= _MOST_COMPONENTS and data.Y.device.type == "cpu"
        return small and problem.is_lasso and _has_numba()

    @property
    def _max_rounds(self) -> int:
        return min(_ROUNDS, self.max_iter)

    def _solve(self, problem: Problem, Z: torch.Tensor) -> Result:
        assert isinstance(problem.data, QuadraticTerm)
        factors = problem.data.factors()
        if factors is None:
            return ExactLasso(self.tol, self.max_iter).solve(problem, Z)
        Y, W = factors
        every = torch.zeros_like(Z[:, 0])
        found = Result(Z, every.long(), every, every.bool())
        self._solve_blocks(problem, Y, W.to(torch.float64), found)
        # other rows that missed the gap are as good as the precision of their codes allows
        missed = found.converged.logical_not() & (found.n_iter == self._max_rounds)
        left = missed.nonzero()[:, 0]
        if len(left):
            rest = Problem(linear_term(Y[left], W), problem.settings)
            better = ExactLasso(self.tol, self.max_iter).solve(rest, Z[left])
            for values, news in zip(found, better, strict=True):
                values[left] = news
        return found

    def _solve_blocks(
        self, problem: Problem, Y: torch.Tensor, W: torch.Tensor, found: Result
    ) -> None:
        """Solve rows from the codes in `found` on, and write there what comes out."""
        # numba is optional, and takes a while to import
        from ._kernel import solve_rows

        scale = 2.0 / len(W)
        hessian = (W.T @ W).mul_(scale)
        single = Y.dtype == torch.float32
        settings = problem.lam, problem.positive, self.tol, single, self._max_rounds
        # memory for a block at a time: fresh memory costs more than what is computed in it
        n_rows = min(_BLOCK, len(Y))
        rows, linear, codes = (W.new_empty(n_rows, size) for size in (*W.shape, W.shape[1]))
        constant, gaps, energies = W.new_empty(3, n_rows)
        n_rounds = torch.empty_like(gaps, dtype=torch.int64)
        by_row = [t.numpy() for t in (linear, constant, codes, gaps, energies, n_rounds)]

        def solve(part: slice) -> None:
            b, c, *results = (array[part] for array in by_row)
            solve_rows(hessian.numpy(), b, c, *settings, *results)

        # threads of its own, because those of numba do not survive a fork
        n_threads = torch.get_num_threads()
        with ThreadPoolExecutor(n_threads) as pool:
            run = pool.map if n_threads > 1 else map
            for start in range(0, len(Y), n_rows):
                block = slice(start, min(start + n_rows, len(Y)))
                size = block.stop - start
                rows[:size] = Y[block]
                torch.mm(rows[:size], W, out=linear[:size]).mul_(scale)
                torch.linalg.vecdot(rows[:size], rows[:size], out=constant[:size]).mul_(scale / 2)
                codes[:size] = found.codes[block]
                list(run(solve, (slice(i, min(i + _ROWS, size)) for i in range(0, size, _ROWS))))
                outcome = codes, n_rounds, energies, gaps <= self.tol
                for values, news in zip(found, outcome, strict=True):
                    values[block] = news[:size]


@cache
def _has_numba() -> bool:
    return importlib.util.find_spec("numba") is not None
