"""Learning over epochs: shuffling, rates, validation, the best epoch kept, divergence caught."""

import math
from collections import defaultdict

import torch

from .learner import batch_slices

__all__ = ["History", "is_finite", "run_epoch", "train"]


class History:
    """Averages of every epoch, each under its name.

    Attributes
    ----------
    curves : dict of list
        ``energy`` and its four terms, unweighted, as means over rows; ``sparsity``, the share of
        zeros; ``dead``, the number of components no row of the epoch used; ``validation``, the
        energy of the validation rows, where there are any.

    Examples
    --------
    >>> from skvdl.training import History
    >>> history = History()
    >>> history.append(energy=1.0)
    >>> history.curves["energy"]
    [1.0]
    """

    def __init__(self):
        self.curves = defaultdict(list)

    def append(self, **values):
        """Add one epoch."""
        for name, value in values.items():
            self.curves[name].append(value)


class _Averages:
    """Running sums of the statistics of steps, brought to the host once.

    A list of them would keep thousands of small tensors alive between large ones that come and
    go, and fragment the heap by megabytes a second.
    """

    def __init__(self):
        self.n_steps = 0

    def add(self, stats):
        used = stats.pop("used")
        values = torch.stack(list(stats.values()))
        if not self.n_steps:
            self.names, self.totals, self.used = list(stats), values, used
        else:
            self.totals += values
            self.used |= used
        self.n_steps += 1

    def means(self):
        values = (self.totals / self.n_steps).tolist()
        return dict(zip(self.names, values, strict=True))


def run_epoch(learner, X, order, factor=None):
    """Take one step on every batch of `X`, in a given order of its rows.

    Parameters
    ----------
    learner : Learner
        What learns.
    X : torch.Tensor of shape (n_samples, n_features)
        Data, on any device.
    order : torch.Tensor of shape (n_samples,) or None
        The order; as they come when None.
    factor : callable, optional
        From the share of the epoch that is over to the factor of the initial learning rates.

    Returns
    -------
    means : dict
        Averages over the steps.
    used : torch.Tensor of shape (n_components,)
        Which components were active at all.

    Examples
    --------
    >>> import torch
    >>> from skvdl.decoders import LinearDecoder
    >>> from skvdl.learner import InferenceSettings, Learner, TrainingSettings
    >>> from skvdl.regularizers import UnitNorm
    >>> from skvdl.training import run_epoch
    >>> decoder = LinearDecoder(4, 9, generator=torch.Generator().manual_seed(0))
    >>> settings = TrainingSettings(batch_size=10)
    >>> learner = Learner(decoder, None, UnitNorm(), InferenceSettings(), settings)
    >>> means, used = run_epoch(learner, torch.ones(30, 9), order=None)
    >>> learner.n_steps, used.shape
    (3, torch.Size([4]))
    """
    settings = learner.training
    slices = batch_slices(len(X), settings.batch_size)
    averages = _Averages()
    for i, rows in enumerate(slices):
        if factor is not None:
            decoder_factor, encoder_factor = factor(i / len(slices))
            learner.set_rates(
                settings.learning_rate_init * decoder_factor,
                settings.encoder_learning_rate_init * encoder_factor,
            )
        Y = X[rows] if order is None else X[order[rows]]
        stats = learner.step(Y.to(learner.device))
        averages.add(stats)
        if not stats["energy"].isfinite():
            # nothing good can follow, and inference on it would use up all its iterations
            break
    return averages.means(), averages.used


def train(learner, X, *, generator, X_validation=None, history=None, on_epoch=None):
    """Run epochs until they are used up or nothing improves any more.

    With validation rows the weights of the epoch with the lowest validation energy are kept.

    Parameters
    ----------
    learner : Learner
        What learns; it is changed in place.
    X : torch.Tensor of shape (n_samples, n_features)
        Data, on any device.
    generator : torch.Generator
        Source of the shuffling, on the CPU.
    X_validation : torch.Tensor of shape (n_validation, n_features), optional
        Rows to judge epochs by.
    history : History, optional
        Where the curves are written as they come; a new one when not given.
    on_epoch : callable, optional
        Called with the history after every epoch.

    Returns
    -------
    History
        The curves.

    Raises
    ------
    FloatingPointError
        When the energy is no longer finite; the learner then has its last good weights.

    Examples
    --------
    >>> import torch
    >>> from skvdl.decoders import LinearDecoder
    >>> from skvdl.regularizers import UnitNorm
    >>> from skvdl.learner import InferenceSettings, Learner, TrainingSettings
    >>> from skvdl.training import train
    >>> generator = torch.Generator().manual_seed(0)
    >>> decoder = LinearDecoder(4, 9, generator=generator)
    >>> settings = TrainingSettings(max_iter=5)
    >>> learner = Learner(decoder, None, UnitNorm(), InferenceSettings(), settings)
    >>> history = train(learner, torch.rand(50, 9), generator=generator)
    >>> len(history.curves["energy"])
    5
    """
    settings = learner.training
    history = History() if history is None else history
    if X_validation is not None:
        X_validation = X_validation.to(learner.device)
    best = _Best(settings.tol, keep=X_validation is not None)
    last_good = learner.state()
    try:
        for epoch in range(settings.max_iter):
            order = _order(X, generator) if settings.shuffle else None
            means, used = run_epoch(learner, X, order, _rate_factors(settings, epoch))
            if not is_finite(means, learner):
                learner.load_state(last_good)
                raise FloatingPointError(_divergence_message(learner, epoch))
            means["dead"] = int(used.logical_not().sum())
            judged = means["energy"]
            if X_validation is not None:
                judged = means["validation"] = learner.energy(X_validation).item()
            last_good = learner.state()
            best.offer(judged, last_good)
            history.append(**means)
            if on_epoch is not None:
                on_epoch(history)
            if settings.n_iter_no_change and best.stale >= settings.n_iter_no_change:
                break
            if settings.revive_dead and means["dead"] and epoch + 1 < settings.max_iter:
                rows = slice(0, settings.batch_size)
                sample = X[rows] if order is None else X[order[rows]]
                learner.revive(used.logical_not(), sample.to(learner.device))
    except KeyboardInterrupt:
        # it may have come in the middle of a step, or of a divergence not noticed yet
        if not is_finite({}, learner):
            learner.load_state(last_good)
        learner.regularizer.after_step(learner.decoder)
        raise
    finally:
        # also after an interrupt or divergence
        if best.state is not None:
            learner.load_state(best.state)
    return history


class _Best:
    """The best epoch so far, and for how many there was no progress worth the name."""

    def __init__(self, tol, keep):
        self.tol = tol
        self.keep = keep
        self.energy = math.inf
        self.state = None
        self.stale = 0

    def offer(self, energy, state):
        progress = energy < self.energy - self.tol * abs(self.energy) or self.energy == math.inf
        self.stale = 0 if progress else self.stale + 1
        if energy < self.energy:
            self.energy = energy
            self.state = state if self.keep else None


def _order(X, generator):
    return torch.randperm(len(X), generator=generator, device=generator.device).to(X.device)


def _rate_factors(settings, epoch):
    """Function from the share of the epoch that is over to the factors of both rates."""
    halvings = epoch // settings.halve_every if settings.halve_every else 0

    def factors(share):
        common = settings.rate_factor((epoch + share) / settings.max_iter)
        return common * 0.5**halvings, common

    return factors


def is_finite(means, learner):
    """Whether averages of an epoch and all weights are finite.

    Parameters
    ----------
    means : dict of float
        The averages.
    learner : Learner
        Whose weights.

    Returns
    -------
    bool
        Whether they all are.

    Examples
    --------
    >>> import torch
    >>> from skvdl.decoders import LinearDecoder
    >>> from skvdl.learner import InferenceSettings, Learner, TrainingSettings
    >>> from skvdl.regularizers import UnitNorm
    >>> from skvdl.training import is_finite
    >>> decoder = LinearDecoder(4, 9, generator=torch.Generator().manual_seed(0))
    >>> learner = Learner(decoder, None, UnitNorm(), InferenceSettings(), TrainingSettings())
    >>> is_finite({"energy": 1.0}, learner), is_finite({"energy": float("nan")}, learner)
    (True, False)
    """
    finite = all(math.isfinite(value) for value in means.values())
    return finite and all(bool(p.isfinite().all()) for p in learner.parameters())


def _divergence_message(learner, epoch):
    settings = learner.inference
    remedy = "lower learning_rate_init, or scale the data to a standard deviation near 1"
    if not isinstance(settings.step_size, str):
        remedy = f"use step_size='auto' instead of {settings.step_size}, {remedy}"
    return (
        f"The energy is no longer finite in epoch {epoch + 1}: inference or learning diverged. "
        f"To cure it, {remedy}. " + ("The last good weights are kept." if epoch else "")
    )
