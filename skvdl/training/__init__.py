"""How a model learns: one step on one batch, epochs, schedules, history, calibration of zeros.

Nothing here knows scikit-learn.
"""

from ._calibration import cut_encoder, find_lam
from ._epochs import is_finite, run_epoch, train
from ._history import History
from ._interrupts import uninterrupted
from ._learner import Learner
from ._schedule import TrainingSettings, batch_slices

__all__ = [
    "History",
    "Learner",
    "TrainingSettings",
    "batch_slices",
    "cut_encoder",
    "find_lam",
    "is_finite",
    "run_epoch",
    "train",
    "uninterrupted",
]
