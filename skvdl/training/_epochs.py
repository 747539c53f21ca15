"""Learning over epochs: shuffling, validation, the best epoch kept, divergence caught."""

import math
from collections.abc import Callable
from typing import Any

import torch

from ._history import History, RunningMeans
from ._learner import EnergyParts, Learner
from ._schedule import batch_slices


def train(
    learner: Learner,
    X: torch.Tensor,
    *,
    generator: torch.Generator,
    history: History,
    index: torch.Tensor | None = None,
    held_out: torch.Tensor | None = None,
    on_epoch: Callable[[History], None] | None = None,
) -> None:
    """Run epochs until `max_iter` is reached or the validation energy stops improving.

    With rows held out, the weights of the epoch with the lowest validation energy are kept.

    Parameters
    ----------
    learner : Learner
        The learner, which is changed in place.
    X : torch.Tensor of shape (n_samples, n_features)
        Data, on any device.
    generator : torch.Generator
        Source of the shuffling, on the CPU.
    history : History
        The curves, to which every epoch is added.
    index : torch.Tensor of shape (n_rows,), optional
        Rows to learn from, on the device of the data; all by default.
    held_out : torch.Tensor of shape (n_validation,), optional
        Rows to judge epochs by, on the device of the data.
    on_epoch : callable, optional
        Called with the history after every epoch.

    Raises
    ------
    FloatingPointError
        When the energy is no longer finite; the learner then has its last good weights.
    """
    settings = learner.training
    if index is None:
        index = torch.arange(len(X), device=X.device)
    best = _Best(settings.tol)
    last_good = learner.state()
    try:
        for epoch in range(settings.max_iter):
            order = torch.randperm(len(index), generator=generator, device=generator.device)
            order = index[order.to(index.device)]
            means, used = run_epoch(learner, X, order=order, epoch=epoch)
            if not is_finite(means, learner):
                learner.load_state(last_good)
                raise FloatingPointError(_divergence_message(learner, epoch))
            last_good = learner.state()
            if held_out is not None:
                if epoch % settings.judge_every == 0:
                    energy = learner.energy(X, held_out)
                    best.offer(energy, learner.energy_settings.lam, epoch, last_good)
                means["validation"] = best.latest
            history.append(**means)
            if on_epoch is not None:
                on_epoch(history)
            stale = epoch - best.progress
            if best.state and settings.n_iter_no_change and stale >= settings.n_iter_no_change:
                break
            if settings.revive_dead and means["dead"] and epoch + 1 < settings.max_iter:
                learner.revive(used.logical_not(), X[order[: settings.batch_size]])
    except KeyboardInterrupt:
        # it may have come in the middle of a step, or of a divergence that was not noticed yet
        if not learner.is_finite():
            learner.load_state(last_good)
        if settings.unit_norm:
            learner.decoder.normalise()
        raise
    finally:
        # also after an interrupt or divergence
        if best.state is not None:
            learner.load_state(best.state)


def run_epoch(
    learner: Learner,
    X: torch.Tensor,
    *,
    order: torch.Tensor | None = None,
    epoch: int | None = None,
) -> tuple[dict[str, float], torch.Tensor]:
    """Take one step on every batch of `X`.

    Parameters
    ----------
    learner : Learner
        The learner.
    X : torch.Tensor of shape (n_samples, n_features)
        Data, on any device.
    order : torch.Tensor of shape (n_rows,), optional
        Rows to learn from, in order; by default all as they are.
    epoch : int, optional
        Number of epochs before this one, which sets the learning rates. By default the rates
        stay as they are.

    Returns
    -------
    means : dict of float
        Means over the steps, and the number of ``dead`` components.
    used : torch.Tensor of shape (n_components,)
        Which components were active at all.
    """
    n_rows = len(X) if order is None else len(order)
    slices = batch_slices(n_rows, learner.training.batch_size)
    running = RunningMeans()
    for i, rows in enumerate(slices):
        if epoch is not None:
            learner.set_rates(*learner.training.rates(epoch + i / len(slices)))
        Y = X[rows] if order is None else X[order[rows]]
        stats = learner.step(Y)
        running.add(stats)
        if not stats["energy"].isfinite():
            # later steps cannot recover, and their inference would use up all iterations
            break
    return running.means(), running.used


def is_finite(means: dict[str, float], learner: Learner) -> bool:
    """Whether the means of an epoch and all weights are finite."""
    return all(math.isfinite(value) for value in means.values()) and learner.is_finite()


class _Best:
    """The best epoch so far, and the last one with progress of more than `tol`."""

    def __init__(self, tol: float) -> None:
        self.tol = tol
        self.parts: EnergyParts | None = None
        self.state: dict[str, Any] | None = None
        self.progress = 0
        self.latest = math.inf

    def offer(self, parts: EnergyParts, lam: float, epoch: int, state: dict[str, Any]) -> None:
        """Compare the energy of the rows held out after an epoch with that of the best one."""
        # lam may have changed since the best epoch: both are compared at the present one
        self.latest = parts.total(lam)
        best = math.inf if self.parts is None else self.parts.total(lam)
        if self.parts is None or self.latest < best - self.tol * abs(best):
            self.progress = epoch
        if self.latest < best:
            self.parts, self.state = parts, state


def _divergence_message(learner: Learner, epoch: int) -> str:
    step_size = learner.solver_settings.step_size
    remedy = "lower learning_rate_init, or scale the data to a standard deviation near 1"
    if not isinstance(step_size, str):
        remedy = f"use step_size='auto' instead of {step_size}, {remedy}"
    kept = "The last good weights are kept." if epoch else ""
    return (
        f"The energy is no longer finite in epoch {epoch + 1}: inference or learning diverged. "
        f"To cure it, {remedy}. {kept}"
    )
