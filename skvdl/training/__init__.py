"""How a model learns: steps, epochs, schedules, history, checkpoints, calibration of zeros.

Nothing here knows scikit-learn.
"""

from ._calibration import cut_encoder, find_lam
from ._checkpoint import Checkpoint
from ._epochs import is_finite, run_epoch, train
from ._history import History
from ._learner import Learner
from ._run import Best
from ._schedule import TrainingSettings, batch_slices
from ._store import hash_tree, read_tree, write_tree

__all__ = [
    "Best",
    "Checkpoint",
    "History",
    "Learner",
    "TrainingSettings",
    "batch_slices",
    "cut_encoder",
    "find_lam",
    "hash_tree",
    "is_finite",
    "read_tree",
    "run_epoch",
    "train",
    "write_tree",
]
