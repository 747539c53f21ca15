"""Which solver suits a problem."""

from dataclasses import dataclass

import torch

from ..energy import EnergySettings, Problem, l1
from ..models import Decoder, QuadraticTerm
from ._active_set import ActiveSetLasso
from ._backtracking import BacktrackingFista
from ._counting import CountingFista
from ._exact import ExactLasso, relative_gaps
from ._fista import Fista, RestartingFista
from ._solver import Result, Solver
from ._threads import one_core, share

# Pieces of the rows for each thread, and rows of a piece for which threads are worth being started.
_PIECES, _FEWEST = 1, 64


@dataclass(frozen=True)
class SolverSettings:
    """How codes are inferred.

    Attributes
    ----------
    step_size : float or "auto"
        A number gives FISTA as published. Otherwise the step comes from the curvature, and adapts
        if the curvature is only estimated.
    tol : float
        Tolerance at which to stop.
    max_iter : int
        Maximum number of iterations.
    exact : bool
        Whether codes should be as close to the minimum as possible, rather than just good enough
        to learn from. The solver then stops at a duality gap if there is one.
    """

    step_size: float | str
    tol: float
    max_iter: int
    exact: bool = False


def choose_solver(problem: Problem, settings: SolverSettings) -> Solver:
    """Choose the solver for a problem."""
    step, tol, max_iter = settings.step_size, settings.tol, settings.max_iter
    if not isinstance(step, str):
        return Fista(step, tol, max_iter)
    if not isinstance(problem.data, QuadraticTerm):
        return BacktrackingFista(tol, max_iter)
    if problem.counts:
        return CountingFista(tol, max_iter)
    if settings.exact and ActiveSetLasso.suits(problem):
        return ActiveSetLasso(tol, max_iter)
    if settings.exact and problem.is_lasso:
        return ExactLasso(tol, max_iter)
    return RestartingFista(tol, max_iter)


def codes_by_row(
    decoder: Decoder,
    Y: torch.Tensor,
    energy_settings: EnergySettings,
    solver_settings: SolverSettings,
    *,
    seen: torch.Tensor | None = None,
    init: torch.Tensor | None = None,
) -> Result:
    """Compute the codes of each row by itself, from reconstruction and penalty only.

    Parameters
    ----------
    decoder : Decoder
        The decoder.
    Y : torch.Tensor of shape (n, d)
        Data.
    energy_settings : EnergySettings
        Weights of the terms; hinge and proximity are ignored.
    settings : SolverSettings
        How to minimise.
    seen : torch.Tensor of shape (n, d), optional
        1 for entries that count, 0 for others.
    init : torch.Tensor of shape (n, l), optional
        Codes to start from; 0 by default.

    Returns
    -------
    Result
        The codes.
    """
    n_threads = torch.get_num_threads()
    size = -(-len(Y) // (n_threads * _PIECES))
    if n_threads == 1 or Y.device.type != "cpu" or size < _FEWEST:
        return _codes(decoder, Y, energy_settings, solver_settings, seen, init)
    parts = [slice(start, start + size) for start in range(0, len(Y), size)]
    found: dict[int, Result] = {}

    def solve(part: slice) -> None:
        some, some_seen, some_init = (None if t is None else t[part] for t in (Y, seen, init))
        assert some is not None
        found[part.start] = _codes(
            decoder, some, energy_settings, solver_settings, some_seen, some_init
        )

    with one_core():
        share(solve, parts, n_threads)
    return Result(*map(torch.cat, zip(*(found[part.start] for part in parts), strict=True)))


def _codes(
    decoder: Decoder,
    Y: torch.Tensor,
    energy_settings: EnergySettings,
    solver_settings: SolverSettings,
    seen: torch.Tensor | None,
    init: torch.Tensor | None,
) -> Result:
    problem = Problem(decoder.data_term(Y, seen=seen), energy_settings.by_row())
    solver = choose_solver(problem, solver_settings)
    found = solver.solve(problem, init)
    if isinstance(solver, ExactLasso) and Y.dtype == torch.float32:
        assert isinstance(problem.data, QuadraticTerm)
        # solved in double precision, and rounded then: no gradient changes by more than this
        change = l1(found.codes) * (torch.finfo(Y.dtype).eps * problem.data.diagonal().amax())
        # the gap widens by as much relative to lam; half of the tolerance was left for that
        wide = (change > problem.lam * solver_settings.tol / 2).nonzero()[:, 0]
        if len(wide):
            some = None if seen is None else seen[wide]
            gaps = relative_gaps(decoder, Y[wide], found.codes[wide], energy_settings, seen=some)
            found.converged[wide] &= gaps <= solver_settings.tol
    return found
