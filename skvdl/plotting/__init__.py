"""Pictures in scikit-learn's Display convention; matplotlib is imported only to draw.

The methods ``from_...`` compute and draw, `plot` draws again, elsewhere or otherwise. Drawing
sets `figure_` and `ax_`; the constructors only store.
"""

from ._atoms import AtomsDisplay
from ._reconstruction import ReconstructionDisplay
from ._trade_off import TradeOffDisplay
from ._training import TrainingCurveDisplay

__all__ = ["AtomsDisplay", "ReconstructionDisplay", "TradeOffDisplay", "TrainingCurveDisplay"]
