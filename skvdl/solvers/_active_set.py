"""Lasso codes of a dictionary on a CPU, each row by an active-set method of its own."""

import importlib.util
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import torch

from ..energy import Problem
from ..models import QuadraticTerm, linear_term
from ._exact import ExactLasso
from ._pivoting import refit_tol
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
        return problem.is_lasso and suits_kernel(data.Y.device, data.n_components)

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

        single = Y.dtype == torch.float32
        settings = problem.lam, problem.positive, self.tol, single, self._max_rounds
        hessian = _hessian(W)
        codes = W.new_empty(min(_BLOCK, len(Y)), W.shape[1])
        gaps, energies = W.new_empty(2, len(codes))
        n_rounds = torch.empty_like(gaps, dtype=torch.int64)
        for block, linear, constant in _products(Y, W):
            size = len(linear)
            codes[:size] = found.codes[block]
            arrays = [t.numpy() for t in (linear, constant, codes, gaps, energies, n_rounds)]

            def solve(part: slice, arrays: list[Any] = arrays) -> None:
                b, c, *results = (array[part] for array in arrays)
                solve_rows(hessian, b, c, *settings, *results)

            _in_threads(solve, size)
            outcome = codes, n_rounds, energies, gaps <= self.tol
            for values, news in zip(found, outcome, strict=True):
                values[block] = news[:size]


def refit_non_negative(
    Y: torch.Tensor, W: torch.Tensor, codes: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Minimise ``||y - W z||^2`` over the non-negative codes with the support that each row has.

    Parameters
    ----------
    Y : torch.Tensor of shape (n, d)
        Data.
    W : torch.Tensor of shape (d, l)
        Dictionary, atoms in columns.
    codes : torch.Tensor of shape (n, l)
        Codes to start from.

    Returns
    -------
    codes : torch.Tensor of shape (n, l)
        The codes.
    solved : torch.Tensor of shape (n,)
        Whether the codes of a row are the minimum.
    """
    # numba is optional, and takes a while to import
    from ._kernel import refit_rows

    W = W.to(torch.float64)
    hessian, tol = _hessian(W), refit_tol(Y.dtype)
    refitted = codes.relu()
    solved = torch.zeros_like(codes[:, 0], dtype=torch.bool)
    some = W.new_empty(min(_BLOCK, len(Y)), W.shape[1])
    for block, linear, _ in _products(Y, W):
        size = len(linear)
        some[:size] = refitted[block]
        arrays = [t.numpy() for t in (linear, some, solved[block])]

        def solve(part: slice, arrays: list[Any] = arrays) -> None:
            b, *results = (array[part] for array in arrays)
            refit_rows(hessian, b, tol, _ROUNDS, *results)

        _in_threads(solve, size)
        refitted[block] = some[:size]
    return refitted, solved


def suits_kernel(device: torch.device, n_components: int) -> bool:
    """Whether compiled code can be used: a moderate size, on a CPU, and numba is installed."""
    return n_components <= _MOST_COMPONENTS and device.type == "cpu" and _has_numba()


def _hessian(W: torch.Tensor) -> Any:
    """Second derivatives of the mean square error, as an array."""
    return (W.T @ W).mul_(2.0 / len(W)).numpy()


def _products(
    Y: torch.Tensor, W: torch.Tensor
) -> Iterator[tuple[slice, torch.Tensor, torch.Tensor]]:
    """Products of data and dictionary, and squares of the data, for a block of rows at a time."""
    scale = 2.0 / len(W)
    # memory for a block at a time: fresh memory costs more than what is computed in it
    n_rows = max(1, min(_BLOCK, len(Y)))
    rows, linear = W.new_empty(n_rows, len(W)), W.new_empty(n_rows, W.shape[1])
    constant = W.new_empty(n_rows)
    for start in range(0, len(Y), n_rows):
        block = slice(start, min(start + n_rows, len(Y)))
        size = block.stop - start
        rows[:size] = Y[block]
        torch.mm(rows[:size], W, out=linear[:size]).mul_(scale)
        torch.linalg.vecdot(rows[:size], rows[:size], out=constant[:size]).mul_(scale / 2)
        yield block, linear[:size], constant[:size]


def _in_threads(solve: Callable[[slice], None], n_rows: int) -> None:
    """Call a function for pieces of rows, in threads; those of numba do not survive a fork."""
    pieces = [slice(i, min(i + _ROWS, n_rows)) for i in range(0, n_rows, _ROWS)]
    n_threads = torch.get_num_threads()
    if n_threads == 1 or len(pieces) == 1:
        for piece in pieces:
            solve(piece)
        return
    with ThreadPoolExecutor(n_threads) as pool:
        list(pool.map(solve, pieces))


@cache
def _has_numba() -> bool:
    return importlib.util.find_spec("numba") is not None
