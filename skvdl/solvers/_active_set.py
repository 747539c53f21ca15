"""Lasso codes of a dictionary on a CPU, each row by an active-set method of its own."""

import importlib.util
from functools import cache
from typing import Any

import torch

from ..energy import Problem
from ..models import QuadraticTerm, linear_term
from ._exact import ExactLasso
from ._pivoting import refit_tol
from ._solver import Result, Solver
from ._threads import in_threads, one_core

# Rounds of adding components to the support, before a row is left to `ExactLasso`.
_ROUNDS = 100
# Most components, because each thread needs two matrices of this size.
_MOST_COMPONENTS = 4096
# How much dearer single products of two atoms are than those of all with all.
_DEARER = 4


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

    def solve(self, problem: Problem, init: torch.Tensor | None = None) -> Result:
        """Minimise the energy."""
        with one_core() as self._n_threads:
            return super().solve(problem, init)

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
        self._solve_rows(problem, Y, W, found)
        # other rows that missed the gap are as good as the precision of their codes allows
        missed = found.converged.logical_not() & (found.n_iter == self._max_rounds)
        left = missed.nonzero()[:, 0]
        if len(left):
            rest = Problem(linear_term(Y[left], W), problem.settings)
            better = ExactLasso(self.tol, self.max_iter).solve(rest, Z[left])
            for values, news in zip(found, better, strict=True):
                values[left] = news
        return found

    def _solve_rows(
        self, problem: Problem, Y: torch.Tensor, W: torch.Tensor, found: Result
    ) -> None:
        """Solve rows from the codes in `found` on, and write there what comes out."""
        # numba is optional, and takes a while to import
        from ._kernel import solve_rows

        settings = problem.lam, problem.positive, self.tol, self._max_rounds
        hessian, doubts = _hessian(W, self._n_threads), _doubts(W)
        gaps, energies = doubts.new_empty(2, len(Y))
        atoms, doubt, data = (t.numpy() for t in (W.T.contiguous(), doubts, Y))
        arrays: list[Any] = [t.numpy() for t in (found.codes, gaps, energies, found.n_iter)]

        def solve(part: slice) -> None:
            linear = (Y[part] @ W).numpy()
            results = (array[part] for array in arrays)
            solve_rows(hessian, atoms, doubt, data[part], linear, *settings, *results)

        in_threads(solve, len(Y), self._n_threads)
        found.energy.copy_(energies)
        found.converged.copy_(gaps <= self.tol)


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

    with one_core() as n_threads:
        refitted = codes.relu()
        sizes = (refitted != 0).sum(dim=1).double()
        few = _DEARER * sizes.square().sum() < W.shape[1] ** 2
        hessian = _hessian(W[:, :0] if few else W, n_threads)
        atoms = W.T.contiguous().numpy()
        settings = refit_tol(Y.dtype), _ROUNDS
        solved = torch.zeros_like(codes[:, 0], dtype=torch.bool)
        data, *arrays = (t.numpy() for t in (Y, refitted, solved))

        def solve(part: slice) -> None:
            refit_rows(hessian, atoms, data[part], *settings, *(array[part] for array in arrays))

        in_threads(solve, len(Y), n_threads)
    return refitted, solved


def suits_kernel(device: torch.device, n_components: int) -> bool:
    """Whether compiled code can be used: a moderate size, on a CPU, and numba is installed."""
    return n_components <= _MOST_COMPONENTS and device.type == "cpu" and _has_numba()


def _hessian(W: torch.Tensor, n_threads: int) -> Any:
    """Second derivatives of the mean square error, as an array."""
    W = W.to(torch.float64)
    hessian = W.new_empty(W.shape[1], W.shape[1])

    def fill(part: slice) -> None:
        torch.mm(W.T[part], W, out=hessian[part]).mul_(2.0 / len(W))

    in_threads(fill, len(hessian), n_threads)
    return hessian.numpy()


def _doubts(W: torch.Tensor) -> torch.Tensor:
    """Bound what rounding does to the products of atoms with a row of norm 1, in any order."""
    norms = torch.linalg.vector_norm(W, dim=0, dtype=torch.float64)
    return norms * (len(W) * torch.finfo(W.dtype).eps)


@cache
def _has_numba() -> bool:
    return importlib.util.find_spec("numba") is not None
