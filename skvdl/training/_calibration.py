"""After training: the lam, and the threshold of the encoder, that give the zeros asked for."""

import math
from collections.abc import Callable
from dataclasses import replace

import torch

from ..solvers import SolverSettings, codes_by_row, refit
from ._learner import Learner

# Error in the share of zeros that is good enough, and that is good enough for a first search on
# every so many rows, unless these would be fewer than that.
_CLOSE, _CLOSE_FIRST = 0.002, 0.01
_EVERY_FIRST, _LEAST_FIRST = 4, 100
# Largest factor between one trial of lam and the next.
_LONGEST = math.log(8.0)


@torch.no_grad()
def find_lam(
    learner: Learner,
    X: torch.Tensor,
    solver: SolverSettings,
    *,
    debias: bool,
    start: float,
    n_trials: int,
) -> tuple[float, float]:
    """Find the weight of the penalty at which codes have the share of zeros that was asked for.

    The codes of training are only good enough to learn from, and the hinge and the encoder pull at
    them, so that its weight is not the one for codes of new rows.

    Parameters
    ----------
    learner : Learner
        The trained model; `target_sparsity` says what was asked for.
    X : torch.Tensor of shape (n_samples, n_features)
        Rows to look at.
    solver : SolverSettings
        How codes of new rows are found.
    debias : bool
        Whether these codes are refitted, which may set more of them to 0.
    start : float
        Weight to try first; if there is no target, the only one.
    n_trials : int
        Maximum number of weights to try.

    Returns
    -------
    lam : float
        The weight.
    sparsity : float
        Share of zeros of the codes with it.
    """
    Y, seen = learner.prepare(X)
    init = None if learner.encoder is None else learner.encoder(Y)
    target = learner.training.target_sparsity

    def sparsity(log_lam: float, rows: slice) -> float:
        settings = replace(learner.energy_settings, lam=math.exp(log_lam))
        some, some_seen, some_init = (None if t is None else t[rows] for t in (Y, seen, init))
        assert some is not None
        Z = codes_by_row(
            learner.decoder, some, settings, solver, seen=some_seen, init=some_init
        ).codes
        if debias:
            Z = refit(learner.decoder, some, Z, positive=settings.positive, seen=some_seen)
        return _share_of_zeros(Z)

    if target is None:
        return start, sparsity(math.log(start), slice(None))
    log_lam, found = _search_twice(sparsity, target, math.log(start), n_trials, len(Y))
    return math.exp(log_lam), found


@torch.no_grad()
def cut_encoder(
    learner: Learner, X: torch.Tensor, sparsity: float, *, debias: bool, n_trials: int
) -> None:
    """Set the threshold of the encoder, so that its codes have a share of zeros.

    Amplitudes are compared in units in which all atoms have the same norm.

    Parameters
    ----------
    learner : Learner
        The trained model, whose encoder is changed.
    X : torch.Tensor of shape (n_samples, n_features)
        Rows to look at.
    sparsity : float
        The share of zeros.
    debias : bool
        Whether the codes are refitted, which may set more of them to 0.
    n_trials : int
        Maximum number of thresholds to try.
    """
    encoder = learner.encoder
    if encoder is None:
        return
    Y, seen = learner.prepare(X)
    norms = torch.linalg.vector_norm(learner.decoder.atoms(), dim=1)
    encoder.cut = None
    evidence = encoder.evidence(Y)
    if encoder.threshold is not None:
        evidence = evidence.abs() - encoder.threshold.relu()
    ranked = (evidence * norms).flatten().sort().values

    def cut_at(share: float) -> None:
        place = min(max(round(share * len(ranked)) - 1, 0), len(ranked) - 1)
        # between two amplitudes: rounding would decide whether one at the threshold is above it
        level = ranked[place : place + 2].mean()
        # an atom of zeros is of no use to any code
        encoder.cut = torch.where(norms > 0, level / norms, torch.inf)

    def zeros_at(share: float, rows: slice) -> float:
        cut_at(share)
        some, some_seen = Y[rows], None if seen is None else seen[rows]
        Z = encoder(some)
        if debias:
            positive = learner.energy_settings.positive
            Z = refit(learner.decoder, some, Z, positive=positive, seen=some_seen)
        return _share_of_zeros(Z)

    # the refit makes a nearly constant share of codes 0
    how = {"slope": 1.0, "low": 0.0, "high": 1.0}
    share, _ = _search_twice(zeros_at, sparsity, sparsity, n_trials, len(Y), **how)
    cut_at(share)


def _search_twice(
    function: Callable[[float, slice], float],
    target: float,
    start: float,
    n_trials: int,
    n_rows: int,
    **how: float,
) -> tuple[float, float]:
    """Find where a function of a number and of rows is near a target.

    The first search takes only some of the rows, if there are many, and the second starts where
    it ended.
    """
    if n_rows >= _EVERY_FIRST * _LEAST_FIRST:
        some = slice(None, None, _EVERY_FIRST)
        start, _ = _search(
            lambda x: function(x, some), target, start, n_trials, close=_CLOSE_FIRST, **how
        )
    return _search(lambda x: function(x, slice(None)), target, start, n_trials, **how)


def _search(
    function: Callable[[float], float],
    target: float,
    start: float,
    n_trials: int,
    *,
    slope: float = 0.1,
    low: float = -math.inf,
    high: float = math.inf,
    close: float = _CLOSE,
) -> tuple[float, float]:
    """Find where an increasing function is near a target, by secants in a bracket."""
    x = start
    best = (math.inf, x, 0.0)
    last: tuple[float, float] | None = None
    for _ in range(n_trials):
        value = function(x)
        best = min(best, (abs(value - target), x, value))
        if best[0] <= close:
            break
        low, high = (x, high) if value < target else (low, x)
        if last is not None and x != last[0]:
            slope = max((value - last[1]) / (x - last[0]), 0.02)
        last = x, value
        x += min(max((target - value) / slope, -_LONGEST), _LONGEST)
        if not low < x < high:
            x = (low + high) / 2
    return best[1], best[2]


def _share_of_zeros(Z: torch.Tensor) -> float:
    return (Z == 0).to(Z.dtype).mean().item()
