"""Displays that follow scikit-learn's convention; matplotlib is imported only to draw.

The constructors only store. The methods ``from_...`` compute and draw, and `plot` draws again, on
other axes or with other options. Drawing sets `figure_` and `ax_`.
"""

from ._atoms import AtomsDisplay
from ._reconstruction import ReconstructionDisplay
from ._trade_off import TradeOffDisplay
from ._training import TrainingCurveDisplay

__all__ = ["AtomsDisplay", "ReconstructionDisplay", "TradeOffDisplay", "TrainingCurveDisplay"]
