"""Pictures in scikit-learn's Display convention; matplotlib is imported only to draw.

The methods ``from_...`` compute and draw, `plot` draws again, elsewhere or otherwise. Drawing
sets `figure_` and `ax_`; the constructors only store.
"""

from ._curve_displays import TradeOffDisplay, TrainingCurveDisplay
from ._image_displays import AtomsDisplay, ReconstructionDisplay

__all__ = ["AtomsDisplay", "ReconstructionDisplay", "TradeOffDisplay", "TrainingCurveDisplay"]
