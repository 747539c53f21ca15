"""Sparse coding with variance regularisation, compatible with scikit-learn."""

from .estimators import VDL, VDLNL, NonLinearVDL, VarianceDictionaryLearning

__all__ = ["VDL", "VDLNL", "NonLinearVDL", "VarianceDictionaryLearning"]
__version__ = "0.1.0"
