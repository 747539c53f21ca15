"""Which solver suits a problem."""

from dataclasses import dataclass

import torch

from ..energy import EnergySettings, Problem
from ..models import Decoder, QuadraticTerm
from ._backtracking import BacktrackingFista
from ._exact import ExactLasso
from ._fista import Fista, RestartingFista
from ._solver import Result, Solver


@dataclass(frozen=True)
class SolverSettings:
    """How codes are inferred.

    Attributes
    ----------
    step_size : float, "auto" or "adaptive"
        A number gives FISTA as published. Otherwise the step comes from the curvature; with
        "adaptive" it may also grow, where the curvature is only estimated.
    tol : float
        When to stop.
    max_iter : int
        Iterations at most.
    exact : bool
        Whether codes are to be as close to the minimum as they can be, rather than good enough
        to learn from: to a duality gap where there is one, and with steps that grow elsewhere.
    """

    step_size: float | str
    tol: float
    max_iter: int
    exact: bool = False


def choose_solver(problem: Problem, settings: SolverSettings) -> Solver:
    """Solver for a problem."""
    step, tol, max_iter = settings.step_size, settings.tol, settings.max_iter
    if not isinstance(step, str):
        return Fista(step, tol, max_iter)
    if not isinstance(problem.data, QuadraticTerm):
        return BacktrackingFista(tol, max_iter, grow=settings.exact or step == "adaptive")
    if settings.exact and problem.is_lasso:
        return ExactLasso(tol, max_iter)
    return RestartingFista(tol, max_iter)


def codes_by_row(
    decoder: Decoder,
    Y: torch.Tensor,
    energy: EnergySettings,
    settings: SolverSettings,
    *,
    seen: torch.Tensor | None = None,
    init: torch.Tensor | None = None,
) -> Result:
    """Codes of data, each row by itself: reconstruction and l1 norm only.

    Parameters
    ----------
    decoder : Decoder
        The decoder.
    Y : torch.Tensor of shape (n, d)
        Data.
    energy : EnergySettings
        Of which hinge and proximity are ignored.
    settings : SolverSettings
        How to solve.
    seen : torch.Tensor of shape (n, d), optional
        1 for entries that count, 0 for others.
    init : torch.Tensor of shape (n, l), optional
        Where to start; 0 when not given.

    Returns
    -------
    Result
        The codes.
    """
    problem = Problem(decoder.data_term(Y, seen=seen), energy.by_row())
    return choose_solver(problem, settings).solve(problem, init)
