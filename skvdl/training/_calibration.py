"""After training: the lam, and the threshold of the encoder, that give the zeros asked for."""

import math
from collections.abc import Callable
from dataclasses import replace

import torch

from ..solvers import SolverSettings, codes_by_row, refit
from ._learner import Learner

# Error in the share of zeros that is good enough.
_CLOSE = 0.002
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

    def sparsity(log_lam: float) -> float:
        settings = replace(learner.energy_settings, lam=math.exp(log_lam))
        Z = codes_by_row(learner.decoder, Y, settings, solver, seen=seen, init=init).codes
        if debias:
            Z = refit(learner.decoder, Y, Z, positive=settings.positive, seen=seen)
        return _share_of_zeros(Z)

    if target is None:
        return start, sparsity(math.log(start))
    log_lam, found = _search(sparsity, target, math.log(start), n_trials)
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

    def cut_at(share: float) -> float:
        place = min(max(round(share * len(ranked)) - 1, 0), len(ranked) - 1)
        # between two amplitudes: rounding would decide whether one at the threshold is above it
        level = ranked[place : place + 2].mean()
        # an atom of zeros is of no use to any code
        encoder.cut = torch.where(norms > 0, level / norms, torch.inf)
        Z = encoder(Y)
        if debias:
            positive = learner.energy_settings.positive
            Z = refit(learner.decoder, Y, Z, positive=positive, seen=seen)
        return _share_of_zeros(Z)

    low, high = 0.0, 1.0
    share = sparsity
    for _ in range(n_trials):
        found = cut_at(share)
        if abs(found - sparsity) <= _CLOSE:
            break
        low, high = (share, high) if found < sparsity else (low, share)
        # the refit makes a nearly constant share of codes 0; bisection where it does not
        guess = share + sparsity - found
        share = guess if low < guess < high else (low + high) / 2


def _search(
    function: Callable[[float], float], target: float, start: float, n_trials: int
) -> tuple[float, float]:
    """Find where an increasing function is near a target, by secants in a bracket."""
    low, high = -math.inf, math.inf
    x, slope = start, 0.1
    best = (math.inf, x, 0.0)
    last: tuple[float, float] | None = None
    for _ in range(n_trials):
        value = function(x)
        best = min(best, (abs(value - target), x, value))
        if best[0] <= _CLOSE:
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
