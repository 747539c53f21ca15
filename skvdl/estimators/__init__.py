"""What users construct: signatures, documentation and the scikit-learn contract."""

from ._linear import VDL, VarianceDictionaryLearning
from ._nonlinear import VDLNL, NonLinearVDL

__all__ = ["VDL", "VDLNL", "NonLinearVDL", "VarianceDictionaryLearning"]
