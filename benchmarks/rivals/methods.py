"""What all methods have in common: a fitted model, and the choice by validation rows.

A method is a class constructed with the data and a seed. `solve(level)` returns one fitted model
for each of its `entries`. What does not depend on the level is computed once and kept.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from .measures import decibels, zeros


@dataclass
class Fitted:
    """A model with its codes at one level of zeros.

    Attributes
    ----------
    encode, decode : callable
        From rows to codes and back.
    fit_seconds : float
        Wall-clock time of this one fit, without the search for its settings.
    settings : dict
        What was chosen.
    atoms : ndarray or None
        To be compared with the true atoms.
    """

    encode: Callable[[np.ndarray], np.ndarray]
    decode: Callable[[np.ndarray], np.ndarray]
    fit_seconds: float
    settings: dict = field(default_factory=dict)
    atoms: np.ndarray | None = None

    def validate(self, rows):
        """Add the signal-to-noise ratio on the validation rows to the settings."""
        self.settings["val_db"] = round(decibels(rows, self.decode(self.encode(rows))), 4)
        return self


def best(candidates):
    """Return the candidate that reconstructs the validation rows best."""
    return max(candidates, key=lambda fitted: fitted.settings["val_db"])


def find_strength(codes_at, level, low, high, tol=0.002, max_iter=20):
    """Find the strength at which codes have a share of zeros, by bisection of its logarithm.

    Each step interpolates between the shares at both ends, which takes about half as many steps as
    the middle would.

    Parameters
    ----------
    codes_at : callable
        Codes of the validation rows at a strength; their zeros grow with it.
    level : float
        The share of zeros.
    low, high : float
        Strengths to search between.
    tol : float, default=0.002
        Sufficient accuracy of the share.
    max_iter : int, default=20
        Number of bisections.

    Returns
    -------
    float
        The strength. If no strength has that share, the end of the interval that comes nearest.
    """
    low, high = np.log(low), np.log(high)
    share_low, share_high = 0.0, 1.0
    for _ in range(max_iter):
        position = (level - share_low) / max(share_high - share_low, tol)
        middle = low + np.clip(position, 0.2, 0.8) * (high - low)
        share = zeros(codes_at(float(np.exp(middle))))
        if abs(share - level) <= tol:
            break
        if share < level:
            low, share_low = middle, share
        else:
            high, share_high = middle, share
    return float(np.exp(middle))
