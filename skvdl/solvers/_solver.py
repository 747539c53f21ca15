"""What every solver offers, and how rows that are done are taken out of the work."""

from abc import ABC, abstractmethod
from types import SimpleNamespace
from typing import NamedTuple

import torch

from ..energy import Problem


class Result(NamedTuple):
    """What a solver found.

    Attributes
    ----------
    codes : torch.Tensor of shape (n, l)
        The codes.
    n_iter : torch.Tensor of shape (n,)
        Iterations that each row took.
    energy : torch.Tensor of shape (n,)
        Energy of each row at its codes. The variance hinge belongs to the batch and is shared out
        equally, so that the sum is the energy of the batch.
    converged : torch.Tensor of shape (n,)
        Whether the row met the tolerance.
    """

    codes: torch.Tensor
    n_iter: torch.Tensor
    energy: torch.Tensor
    converged: torch.Tensor


class Solver(ABC):
    """A way to minimise the energy of a batch over its codes.

    Parameters
    ----------
    tol : float
        Tolerance at which a row is done; what it measures depends on the solver.
    max_iter : int
        Maximum number of iterations.
    """

    def __init__(self, tol: float, max_iter: int) -> None:
        self.tol = tol
        self.max_iter = max_iter

    def solve(self, problem: Problem, init: torch.Tensor | None = None) -> Result:
        """Minimise the energy.

        Parameters
        ----------
        problem : Problem
            What to minimise. It cannot be used again, because rows that are done are taken out.
        init : torch.Tensor of shape (n, l), optional
            Codes to start from; 0 by default.

        Returns
        -------
        Result
            Codes, iterations, energy, and whether each row converged.
        """
        with torch.inference_mode():
            Z = problem.start(init)
            if not (len(Z) or problem.coupled):
                # other processes have all rows of the batch, and do not need this one
                found = ActiveRows(Z).give_up(Z, 0, Z[:, :1])
            else:
                found = self._solve(problem, Z)
        # copies made out here can take part in gradients again
        return Result(*(part.clone() for part in found))

    @abstractmethod
    def _solve(self, problem: Problem, Z: torch.Tensor) -> Result:
        """Minimise the energy from feasible codes, which may be overwritten."""


class ActiveRows(SimpleNamespace):
    """Rows that are not done yet; a solver keeps its state of them as attributes.

    Every attribute set by the solver is a tensor with one entry per active row along its first
    axis, or one for all rows if they are coupled, in which case they stop together.

    Parameters
    ----------
    codes : torch.Tensor of shape (n, l)
        Codes to start from.
    problem : Problem, optional
        What says how many rows share the energy, if they are coupled.
    """

    def __init__(self, codes: torch.Tensor, problem: Problem | None = None) -> None:
        super().__init__()
        coupled = problem is not None and problem.coupled
        self._n_coupled = problem.share.n_rows if problem is not None and coupled else 0
        self._index = torch.arange(codes.shape[0], device=codes.device)
        self._result = Result(
            codes=torch.empty_like(codes),
            n_iter=torch.zeros_like(self._index),
            energy=torch.empty_like(codes[:, 0]),
            converged=torch.zeros_like(self._index, dtype=torch.bool),
        )

    def retire(
        self,
        done: torch.Tensor,
        codes: torch.Tensor,
        n_iter: int,
        *problems: Problem,
        energy: torch.Tensor | None = None,
    ) -> Result | None:
        """Store the results of the rows that are done, and keep the others.

        Parameters
        ----------
        done : torch.Tensor of shape (n, 1) or (1, 1)
            Which rows are done.
        codes : torch.Tensor of shape (n, l)
            Codes of all active rows.
        n_iter : int
            Iterations so far.
        *problems : Problem
            Problems to take the rows out of; the first says what the energy is.
        energy : torch.Tensor of shape (n, 1) or (1, 1), optional
            Energy at the codes, if known.

        Returns
        -------
        Result or None
            The result, when no row is left.
        """
        if not done.any():
            return None
        energy = problems[0].energy(codes) if energy is None else energy
        done = done[:, 0].expand(codes.shape[0])
        self._store(done.nonzero()[:, 0], codes, n_iter, energy, converged=True)
        left = done.logical_not().nonzero()[:, 0]
        if not len(left):
            return self._result
        for name, value in vars(self).items():
            if isinstance(value, torch.Tensor):
                setattr(self, name, value[left])
        for problem in problems:
            problem.take(left)
        return None

    def give_up(self, codes: torch.Tensor, n_iter: int, energy: torch.Tensor) -> Result:
        """Store the results of the remaining rows as not converged."""
        every = torch.arange(codes.shape[0], device=codes.device)
        self._store(every, codes, n_iter, energy, converged=False)
        return self._result

    def _store(
        self,
        which: torch.Tensor,
        codes: torch.Tensor,
        n_iter: int,
        energy: torch.Tensor,
        *,
        converged: bool,
    ) -> None:
        rows, result = self._index[which], self._result
        if self._n_coupled:
            energy = energy.expand(codes.shape[0], 1) / self._n_coupled
        result.codes[rows] = codes[which].to(result.codes.dtype)
        result.energy[rows] = energy[which, 0].to(result.energy.dtype)
        result.n_iter[rows] = n_iter
        result.converged[rows] = converged


def next_check(k: int) -> int:
    """Iteration after `k` at which to look for converged rows.

    Looking costs a host synchronisation, so the intervals grow. They must not depend on the data,
    because the iteration at which a row stops would then depend on the other rows.
    """
    return max(k + 1, k + k // 6)
