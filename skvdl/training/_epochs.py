"""Learning over epochs: shuffling, validation, the best epoch kept, divergence caught."""

import math
from collections.abc import Callable

import torch

from ..distributed import Rows
from ._checkpoint import Checkpoint
from ._history import History, RunningMeans
from ._learner import Learner
from ._run import Best, Run
from ._schedule import batch_slices


def train(
    learner: Learner,
    X: torch.Tensor | Rows,
    *,
    generator: torch.Generator,
    history: History,
    index: torch.Tensor | None = None,
    held_out: torch.Tensor | None = None,
    on_epoch: Callable[[History], bool | None] | None = None,
    best: Best | None = None,
    checkpoint: Checkpoint | None = None,
) -> None:
    """Run epochs until `max_iter` is reached or the validation energy stops improving.

    With rows held out, the weights of the epoch with the lowest validation energy are kept.

    Parameters
    ----------
    learner : Learner
        The learner, which is changed in place.
    X : torch.Tensor or Rows of shape (n_samples, n_features)
        Data, on any device. If several processes have some of them each, all of them call this
        function and end with the same weights.
    generator : torch.Generator
        Source of the shuffling, on the CPU.
    history : History
        The curves, to which every epoch is added.
    index : torch.Tensor of shape (n_rows,), optional
        Rows to learn from, on the device of the data; all by default.
    held_out : torch.Tensor of shape (n_validation,), optional
        Rows to judge epochs by, on the device of the data.
    on_epoch : callable, optional
        Called with the history after every epoch; training stops if it returns True.
    best : Best, optional
        Where the best epoch is kept.
    checkpoint : Checkpoint, optional
        Where the state is written to now and then. Training goes on from what it has saved.

    Raises
    ------
    FloatingPointError
        When the energy is no longer finite; the learner then has its last good weights.
    """
    settings, X = learner.training, Rows.of(X)
    if index is None:
        index = torch.arange(len(X), device=X.device)
    best = Best() if best is None else best
    checkpoint = Checkpoint(None) if checkpoint is None else checkpoint
    run = Run(learner, generator, history, best, checkpoint)
    try:
        for epoch in range(run.epoch, settings.max_iter):
            order = run.shuffle(X, index)
            means, used = run_epoch(
                learner, X, order=order, epoch=epoch, running=run.running, on_step=run.after_step
            )
            if not is_finite(means, learner):
                learner.load_state(run.last_good)
                raise FloatingPointError(_divergence_message(learner, epoch))
            run.last_good = learner.state()
            if held_out is not None:
                if epoch % settings.judge_every == 0:
                    best.offer(learner, X, held_out, epoch, run.last_good)
                means["validation"] = best.latest
            history.append(**means)
            stops = on_epoch is not None and X.group.any(bool(on_epoch(history)))
            if best.state and settings.n_iter_no_change:
                stops |= epoch - best.progress >= settings.n_iter_no_change
            stops |= epoch + 1 == settings.max_iter
            if settings.revive_dead and means["dead"] and not stops:
                learner.revive(used.logical_not(), X.gather(order[: settings.batch_size]))
            run.after_epoch(settings.max_iter if stops else epoch + 1)
            if stops:
                break
    except KeyboardInterrupt:
        # it may have come in the middle of a step, or of a divergence that was not noticed yet
        if not learner.is_finite():
            learner.load_state(run.last_good)
        if settings.unit_norm:
            learner.decoder.normalise()
        raise
    finally:
        # also after an interrupt or divergence
        if best.state is not None:
            learner.load_state(best.state)


def run_epoch(
    learner: Learner,
    X: torch.Tensor | Rows,
    *,
    order: torch.Tensor | None = None,
    epoch: int | None = None,
    running: RunningMeans | None = None,
    on_step: Callable[[], None] | None = None,
) -> tuple[dict[str, float], torch.Tensor]:
    """Take one step on every batch of `X`.

    Parameters
    ----------
    learner : Learner
        The learner.
    X : torch.Tensor or Rows of shape (n_samples, n_features)
        Data, on any device.
    order : torch.Tensor of shape (n_rows,), optional
        Rows to learn from, in order; by default all as they are.
    epoch : int, optional
        Number of epochs before this one, which sets the learning rates. By default the rates
        stay as they are.
    running : RunningMeans, optional
        Statistics of the steps of this epoch that were taken already, to which the others are
        added; none by default.
    on_step : callable, optional
        Called after every step.

    Returns
    -------
    means : dict of float
        Means over the steps, and the number of ``dead`` components.
    used : torch.Tensor of shape (n_components,)
        Which components were active at all.
    """
    X = Rows.of(X)
    n_rows = len(X) if order is None else len(order)
    slices = batch_slices(n_rows, learner.training.batch_size)
    running = RunningMeans() if running is None else running
    for i, rows in enumerate(slices[running.n_steps :], running.n_steps):
        if epoch is not None:
            learner.set_rates(*learner.training.rates(epoch + i / len(slices)))
        Y, share = X.take(rows if order is None else order[rows])
        stats = learner.step(Y, share)
        running.add(stats)
        if not stats["energy"].isfinite():
            # later steps cannot recover, and their inference would use up all iterations
            break
        if on_step is not None:
            on_step()
    return running.means(), running.used


def is_finite(means: dict[str, float], learner: Learner) -> bool:
    """Whether the means of an epoch and all weights are finite."""
    return all(math.isfinite(value) for value in means.values()) and learner.is_finite()


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
