"""What learns: decoder, encoder and optimisers, and how one step on one batch is taken."""

import copy
import math
from dataclasses import dataclass
from itertools import pairwise

import torch

from .data_terms import network_curvature
from .energy import reconstruction, sparsity, variance_hinge
from .inference import fista

__all__ = ["InferenceSettings", "Learner", "SolverHints", "TrainingSettings", "batch_slices"]


@dataclass(frozen=True)
class InferenceSettings:
    """How codes are inferred while learning.

    Parameters
    ----------
    lam : float
        Weight of the l1 norm.
    gamma : float
        Weight of the distance to the encoder's prediction.
    variance_threshold : float
        Standard deviation the hinge asks of every component.
    positive : bool
        Whether codes are non-negative.
    step_size : float, "auto" or "adaptive"
        Step of FISTA.
    max_iter : int
        Iterations of FISTA at most.
    tol : float
        Relative change at which FISTA stops.
    compile : bool
        Whether to fuse iterations with ``torch.compile``.

    Examples
    --------
    >>> from skvdl.learner import InferenceSettings
    >>> InferenceSettings(lam=0.1).max_iter
    200
    """

    lam: float = 0.005
    gamma: float = 5.0
    variance_threshold: float = 0.5
    positive: bool = True
    step_size: float | str = "auto"
    max_iter: int = 200
    tol: float = 1e-3
    compile: bool = False

    def solver_options(self):
        """Arguments of :func:`skvdl.inference.fista` that do not depend on the batch."""
        names = ("lam", "positive", "step_size", "max_iter", "tol", "compile")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class TrainingSettings:
    """How long and how fast to learn.

    Parameters
    ----------
    batch_size : int
        Rows of a batch, to which the weight of the variance hinge refers.
    max_iter : int
        Epochs.
    learning_rate : {"cosine", "constant"}
        Whether the rates decay to zero over the epochs.
    learning_rate_init : float
        Rate of the decoder.
    encoder_learning_rate_init : float
        Rate of the encoder.
    halve_every : int, optional
        Epochs after which the decoder's rate is halved, again and again.
    decoder_bias_decay : float
        Weight decay of the decoder's biases.
    encoder_bias_decay : float
        Weight decay of the encoder's bias.
    shuffle : bool
        Whether each epoch sees the rows in a new order.
    n_iter_no_change : int, optional
        Epochs without progress after which to stop.
    tol : float
        Relative improvement of the energy that counts as progress.
    revive_dead : bool
        Whether unused components get a new start after each epoch.

    Examples
    --------
    >>> from skvdl.learner import TrainingSettings
    >>> TrainingSettings(max_iter=3).batch_size
    250
    """

    batch_size: int = 250
    max_iter: int = 20
    learning_rate: str = "cosine"
    learning_rate_init: float = 3e-3
    encoder_learning_rate_init: float = 1e-3
    halve_every: int | None = None
    decoder_bias_decay: float = 0.0
    encoder_bias_decay: float = 0.0
    shuffle: bool = True
    n_iter_no_change: int | None = None
    tol: float = 1e-4
    revive_dead: bool = False

    def rate_factor(self, progress):
        """Share of the initial rates in force after a share `progress` of all steps."""
        if self.learning_rate == "constant":
            return 1.0
        return 0.5 * (1.0 + math.cos(math.pi * progress))


def batch_slices(n_rows, batch_size):
    """Cut rows into batches of nearly equal size, as close to what is asked for as that allows.

    A remainder is spread over the batches rather than left as a small last one, which would
    have a poor standard deviation, or none: there is never a batch of one among others.

    Parameters
    ----------
    n_rows : int
        Rows in all.
    batch_size : int
        Rows of a batch.

    Returns
    -------
    list of slice
        The batches.

    Examples
    --------
    >>> from skvdl.learner import batch_slices
    >>> batch_slices(7, 3)
    [slice(0, 3, None), slice(3, 7, None)]
    """
    n_batches = max(1, min(round(n_rows / batch_size), n_rows // 2))
    edges = [n_rows * i // n_batches for i in range(n_batches + 1)]
    return [slice(a, b) for a, b in pairwise(edges)]


class SolverHints:
    """What the last steps tell the solver about the next: it affects speed, and rounding.

    Parameters
    ----------
    renew_every : int, default=10
        Steps after which the curvature is computed anew.

    Examples
    --------
    >>> from skvdl.learner import SolverHints
    >>> SolverHints().n_iter
    20
    """

    def __init__(self, renew_every=10):
        self.renew_every = renew_every
        self.n_iter = 20
        self.curvature = None
        self.steps = 0

    def curvature_of(self, decoder):
        """Estimate for a network, not quite up to date: the solver makes up for a wrong one."""
        if not decoder.hidden:
            return None
        if self.steps % self.renew_every == 0:
            self.curvature = network_curvature(decoder)
        self.steps += 1
        return self.curvature

    def to(self, device):
        """Move to a device."""
        if self.curvature is not None:
            self.curvature = self.curvature.to(device)

    def state_dict(self):
        """Return everything, by name."""
        return vars(self).copy()

    def load_state_dict(self, state):
        """Take over everything from `state_dict`."""
        vars(self).update(state)


class Learner:
    """Decoder, encoder and their optimisers; takes one step on one batch.

    Parameters
    ----------
    decoder : MLPDecoder
        Decoder.
    encoder : LISTA or None
        Encoder.
    regularizer : NoGuard
        What keeps the codes from collapsing.
    inference : InferenceSettings
        How codes are inferred.
    training : TrainingSettings
        Rates and decays.

    Examples
    --------
    >>> import torch
    >>> from skvdl.decoders import LinearDecoder
    >>> from skvdl.regularizers import UnitNorm
    >>> from skvdl.learner import InferenceSettings, Learner, TrainingSettings
    >>> decoder = LinearDecoder(4, 9, generator=torch.Generator().manual_seed(0))
    >>> learner = Learner(decoder, None, UnitNorm(), InferenceSettings(), TrainingSettings())
    >>> stats = learner.step(torch.ones(10, 9))
    >>> sorted(stats)
    ['energy', 'hinge', 'l1', 'proximity', 'reconstruction', 'sparsity', 'used']
    """

    def __init__(self, decoder, encoder, regularizer, inference, training):
        self.decoder = decoder
        self.encoder = encoder
        self.decoder_optimizer = _adam(
            decoder.weights, regularizer.weight_decay, decoder.biases, training.decoder_bias_decay
        )
        self.encoder_optimizer = None
        if encoder is not None:
            matrices = [p for p in encoder.parameters() if p is not encoder.b]
            self.encoder_optimizer = _adam(matrices, 0.0, [encoder.b], training.encoder_bias_decay)
        self.configure(regularizer, inference, training)
        regularizer.after_step(decoder)
        self.n_steps = 0
        self.hints = SolverHints()

    def configure(self, regularizer, inference, training):
        """Take other settings, as when training goes on after they were changed."""
        self.regularizer = regularizer
        self.inference = inference
        self.training = training
        self.set_rates(training.learning_rate_init, training.encoder_learning_rate_init)
        decays = [regularizer.weight_decay, training.decoder_bias_decay]
        for group, decay in zip(self.decoder_optimizer.param_groups, decays, strict=False):
            group["weight_decay"] = decay
        if self.encoder is not None:
            self.encoder_optimizer.param_groups[1]["weight_decay"] = training.encoder_bias_decay

    def set_rates(self, decoder_rate, encoder_rate):
        """Set both learning rates."""
        rated = [(self.decoder_optimizer, decoder_rate), (self.encoder_optimizer, encoder_rate)]
        for optimizer, rate in rated:
            for group in optimizer.param_groups if optimizer else ():
                group["lr"] = rate

    def parameters(self):
        """All weights, of decoder and encoder."""
        modules = (self.decoder, self.encoder)
        return [p for module in modules if module is not None for p in module.parameters()]

    @property
    def device(self):
        """Where the weights are."""
        return self.decoder.weights[0].device

    def to(self, device):
        """Move weights and optimiser state to a device."""
        for part in (self.decoder, self.encoder, self.hints):
            if part is not None:
                part.to(device)
        for optimizer in (self.decoder_optimizer, self.encoder_optimizer):
            for state in optimizer.state.values() if optimizer else ():
                for key, value in state.items():
                    state[key] = value.to(device)
        return self

    def state(self):
        """Copy of all weights and optimiser state."""
        return {
            name: copy.deepcopy(part.state_dict())
            for name, part in vars(self).items()
            if isinstance(part, torch.nn.Module | torch.optim.Optimizer | SolverHints)
        }

    def load_state(self, state):
        """Go back to a copy made by `state`."""
        for name, value in state.items():
            # an optimiser takes tensors as they are and would write into the copy
            getattr(self, name).load_state_dict(copy.deepcopy(value))

    def beta_for(self, n_rows):
        """Weight of the hinge in a batch of this many rows.

        The hinge is one sum a batch where all else is a sum over rows: in proportion to the
        rows, it pulls on each of them equally in a batch of any size.
        """
        return self.regularizer.beta * n_rows / self.training.batch_size

    @torch.enable_grad()
    def step(self, Y):
        """Infer codes of one batch, then take one step of the decoder and one of the encoder."""
        settings = self.inference
        prediction = None if self.encoder is None else self.encoder(Y)
        target = None if prediction is None else prediction.detach()
        found = fista(
            Y,
            self.decoder,
            beta=self.beta_for(len(Y)),
            gamma=0.0 if target is None else settings.gamma,
            variance_threshold=settings.variance_threshold,
            target=target,
            init=target,
            expected_iter=self.hints.n_iter,
            curvature=self.hints.curvature_of(self.decoder),
            **settings.solver_options(),
        )
        Z = found.codes
        self.hints.n_iter = max(1, round(found.n_iter.sum().item() / len(Y)))
        stats = {"energy": found.energy.mean()}
        stats["reconstruction"] = self.decoder.backward(Z, Y, found.trace)
        self.decoder_optimizer.step()
        stats["proximity"] = torch.zeros_like(stats["energy"])
        if prediction is not None:
            loss = torch.nn.functional.mse_loss(prediction, Z)
            self.encoder_optimizer.zero_grad()
            loss.backward()
            self.encoder_optimizer.step()
            stats["proximity"] = loss.detach()
        self.regularizer.after_step(self.decoder)
        self.n_steps += 1
        active = Z != 0
        stats["hinge"] = (
            variance_hinge(Z, settings.variance_threshold).sum() / self.training.batch_size
        )
        stats["l1"] = sparsity(Z).mean()
        stats["sparsity"] = 1 - active.to(Z.dtype).mean()
        stats["used"] = active.any(dim=0)
        return stats

    @torch.no_grad()
    def codes(self, Y):
        """Codes of each row by itself: from the encoder, or by FISTA where there is none."""
        if self.encoder is not None:
            return self.encoder(Y)
        return fista(Y, self.decoder, **self.inference.solver_options()).codes

    @torch.no_grad()
    def energy(self, Y):
        """Mean energy of rows at the codes of `codes`, the hinge in batches as in training."""
        settings = self.inference
        total = torch.zeros_like(Y[0, 0])
        for rows in batch_slices(len(Y), self.training.batch_size):
            Z = self.codes(Y[rows])
            total += reconstruction(Y[rows], self.decoder(Z)).sum()
            total += sparsity(Z).sum() * settings.lam
            hinge = variance_hinge(Z, settings.variance_threshold).sum()
            total += hinge * self.beta_for(len(Z))
        return total / len(Y)

    @torch.no_grad()
    def revive(self, dead, Y):
        """Point unused components at the rows of `Y` that are reconstructed worst."""
        residual = Y - self.decoder(self.codes(Y))
        worst = residual.square().sum(dim=1).argsort(descending=True)
        components = dead.nonzero()[: len(worst), 0]
        directions = residual[worst[: len(components)]]
        directions /= torch.linalg.vector_norm(directions, dim=1, keepdim=True).clamp_min(1e-12)
        # carry the directions back through the later layers to the one the codes enter
        columns = directions.T
        for weight in reversed(list(self.decoder.weights)[1:]):
            columns = weight.T @ columns
        columns /= torch.linalg.vector_norm(columns, dim=0).clamp_min(1e-12)
        first = self.decoder.weights[0]
        norms = torch.linalg.vector_norm(first, dim=0)
        alive = dead.logical_not()
        size = (norms * alive).sum() / alive.sum().clamp_min(1)
        first[:, components] = columns * torch.where(size > 0, size, 1.0)
        if self.encoder is not None:
            self.encoder.U[components] = directions / torch.where(size > 0, size, 1.0)
            self.encoder.b[components] = 0.0
            self.encoder.S[components] = 0.0
            self.encoder.S[:, components] = 0.0


def _adam(matrices, decay, biases, bias_decay):
    groups = [{"params": list(matrices), "weight_decay": decay}]
    if len(biases):
        groups.append({"params": list(biases), "weight_decay": bias_decay})
    # fused: one kernel a step, and the only kind that keeps its step count on the weights' device
    return torch.optim.Adam(groups, fused=True)
