"""What changes while a model is trained: written to a checkpoint, and restored from it."""

import math
from typing import Any

import torch

from ..distributed import Rows
from ._checkpoint import Checkpoint
from ._history import History, RunningMeans
from ._learner import EnergyParts, Learner


class Best:
    """The best epoch so far, and the last one with progress.

    Attributes
    ----------
    state : dict or None
        State of the learner after the best epoch.
    progress : int
        The last epoch with progress of more than the `tol` of the learner.
    latest : float
        Validation energy when it was computed last.
    """

    def __init__(self) -> None:
        self.parts: EnergyParts | None = None
        self.state: dict[str, Any] | None = None
        self.progress = 0
        self.latest = math.inf

    def offer(
        self,
        learner: Learner,
        X: Rows,
        held_out: torch.Tensor,
        epoch: int,
        state: dict[str, Any],
    ) -> None:
        """Compare the energy of the rows held out after an epoch with that of the best one."""
        parts, lam = learner.energy(X, held_out), learner.energy_settings.lam
        # lam may have changed since the best epoch: both are compared at the present one
        self.latest = parts.total(lam)
        best = math.inf if self.parts is None else self.parts.total(lam)
        if self.parts is None or self.latest < best - learner.training.tol * abs(best):
            self.progress = epoch
        if self.latest < best:
            self.parts, self.state = parts, state


class Run:
    """Everything that changes in training, between any two steps.

    Parameters
    ----------
    learner : Learner
        The learner, which is changed if the checkpoint has a state.
    generator : torch.Generator
        Source of the shuffling; changed too.
    history : History
        The curves; changed too.
    best : Best
        The best epoch; changed too.
    checkpoint : Checkpoint
        Where the state is written to.

    Attributes
    ----------
    epoch : int
        The epoch to begin or to go on with.
    running : RunningMeans
        Statistics of its steps so far.
    last_good : dict
        State of the learner after the last epoch.
    """

    def __init__(
        self,
        learner: Learner,
        generator: torch.Generator,
        history: History,
        best: Best,
        checkpoint: Checkpoint,
    ) -> None:
        self.learner = learner
        self.generator = generator
        self.history = history
        self.best = best
        self.checkpoint = checkpoint
        self.epoch = 0
        self.running = RunningMeans()
        self.last_good = learner.state()
        if checkpoint.saved is not None:
            self._restore(checkpoint.saved)
        self._drawn_from = generator.get_state()
        if checkpoint.saved is None:
            checkpoint.write(self._state())

    def shuffle(self, X: Rows, index: torch.Tensor) -> torch.Tensor:
        """Indices of rows in the order of this epoch."""
        self._drawn_from = self.generator.get_state()
        return X.shuffle(index, self.generator)

    def after_step(self) -> None:
        """Write the state within a long epoch."""
        if self.checkpoint.is_due(within_epoch=True):
            self.checkpoint.write(self._state())

    def after_epoch(self, following: int) -> None:
        """Write the state before the epoch that follows, if there is one."""
        self.epoch = following
        self.running = RunningMeans()
        self._drawn_from = self.generator.get_state()
        if self.checkpoint.is_due(within_epoch=False):
            self.checkpoint.write(self._state())

    def _state(self) -> dict[str, Any]:
        best = self.best
        return {
            "learner": self.learner.state(),
            "n_steps": self.learner.n_steps,
            "last_good": self.last_good,
            "best": [best.parts, best.state, best.progress, best.latest],
            "history": dict(self.history.curves),
            "seed": self.generator.initial_seed(),
            "generator": self._drawn_from,
            "epoch": self.epoch,
            "running": self.running.state(),
        }

    def _restore(self, saved: dict[str, Any]) -> None:
        try:
            self.learner.load_state(saved["learner"])
            self.learner.n_steps = saved["n_steps"]
            self.last_good = saved["last_good"]
            parts, self.best.state, self.best.progress, self.best.latest = saved["best"]
            self.best.parts = None if parts is None else EnergyParts(*parts)
            self.history.curves.update(saved["history"])
            self.generator.set_state(saved["generator"])
            self.epoch = saved["epoch"]
            self.running = RunningMeans(saved["running"], self.learner.device)
        except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
            raise ValueError(
                f"The checkpoint {str(self.checkpoint.path)!r} does not have the state of this "
                f"fit; remove it. {error}"
            ) from error
