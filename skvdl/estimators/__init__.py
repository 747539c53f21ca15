"""What users construct: signatures, documentation and the scikit-learn contract."""

from ._files import SaveMixin, from_tree, load, savable, to_tree
from ._linear import VDL, VarianceDictionaryLearning
from ._nonlinear import VDLNL, NonLinearVDL

__all__ = [
    "VDL",
    "VDLNL",
    "NonLinearVDL",
    "SaveMixin",
    "VarianceDictionaryLearning",
    "from_tree",
    "load",
    "savable",
    "to_tree",
]
