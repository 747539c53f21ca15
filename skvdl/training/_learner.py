"""What learns: decoder, encoder and their optimisers, one step on one batch at a time."""

import math
from dataclasses import replace
from typing import Any, NamedTuple, Self

import torch

from ..distributed import Rows, Share
from ..energy import (
    HINGE_ROWS,
    EnergySettings,
    Problem,
    SharedSpread,
    l0,
    l1,
    mean_squared_error,
    variance_hinge,
)
from ..models import LISTA, DataTerm, Decoder, LinearDecoder, Units
from ..solvers import SolverSettings, choose_solver, codes_by_row
from ._autoencoder import Autoencoder, principal_axes
from ._interrupts import uninterrupted
from ._online import OnlineUpdate
from ._schedule import TrainingSettings, batch_slices

# Steps after which a curvature that is only estimated is computed again.
_RENEW_CURVATURE = 10
# How much the logarithm of lam changes per step, for each unit of sparsity that is missing.
_LAM_GAIN = 0.2
_LEAST_LAM = 1e-30
# Zeros of the autoencoder that a dictionary starts from, if those of the codes are not known.
_USUAL_SPARSITY = 0.8
# Epochs that it takes at most, because it learns few rows by heart.
_AUTOENCODER_EPOCHS = 300
# Rows that the principal axes of the data are computed from, at most.
_AXES_ROWS = 10_000


class EnergyParts(NamedTuple):
    """Mean energy of rows in two parts, which can be weighed anew.

    Attributes
    ----------
    fixed : float
        Reconstruction and hinge.
    penalty : float
        The penalty, without its weight.
    """

    fixed: float
    penalty: float

    def total(self, lam: float) -> float:
        """Energy with this weight of the penalty."""
        return self.fixed + lam * self.penalty


class Learner:
    """Decoder, encoder and their optimisers; takes one step on one batch.

    Parameters
    ----------
    decoder : Decoder
        Decoder.
    encoder : LISTA or None
        Encoder.
    energy_settings : EnergySettings
        What inference minimises.
    solver_settings : SolverSettings
        How it is minimised.
    training : TrainingSettings
        Rates and decays.
    units : Units, optional
        What is taken out of the data first; nothing by default.

    Attributes
    ----------
    n_steps : int
        Number of batches learnt from.
    hints : dict
        What the last steps tell the solver about the next one: iterations per row, and the
        curvature if it is only estimated. They affect only speed and rounding.
    """

    def __init__(
        self,
        decoder: Decoder,
        encoder: LISTA | None,
        energy_settings: EnergySettings,
        solver_settings: SolverSettings,
        training: TrainingSettings,
        units: Units | None = None,
    ) -> None:
        self.decoder = decoder
        self.encoder = encoder
        self.units = Units(center=False, scale=False) if units is None else units
        self.online: OnlineUpdate | None = None
        # the first optimiser makes torch import modules, which must not be left half imported
        with uninterrupted():
            self.decoder_optimizer = _adam(decoder)
            self.encoder_optimizer = None if encoder is None else _adam(encoder)
        self.configure(energy_settings, solver_settings, training)
        self._bound_decoder()
        self.n_steps = 0
        self.hints: dict[str, Any] = {"n_iter": 20, "curvature": None, "age": 0}

    def configure(
        self,
        energy_settings: EnergySettings,
        solver_settings: SolverSettings,
        training: TrainingSettings,
    ) -> None:
        """Replace the settings, for example when training continues with changed parameters."""
        self.energy_settings = energy_settings
        self.solver_settings = solver_settings
        self.training = training
        if training.online and self.online is None:
            if not isinstance(self.decoder, LinearDecoder):
                raise ValueError(
                    f"A {type(self.decoder).__name__} cannot be learnt without a rate; set "
                    "learning_rate_init."
                )
            self.online = OnlineUpdate(self.decoder)
        elif not training.online:
            self.online = None
        if self.encoder is not None:
            # a threshold set after training would hide components from learning
            self.encoder.cut = None
        self.set_rates(*training.rates(0))
        decoder_decay, encoder_decay = training.bias_decay
        _set_decays(self.decoder_optimizer, training.weight_decay, decoder_decay)
        if self.encoder_optimizer is not None:
            _set_decays(self.encoder_optimizer, 0.0, encoder_decay)

    def set_rates(self, decoder_rate: float, encoder_rate: float) -> None:
        """Set both learning rates."""
        rated = [(self.decoder_optimizer, decoder_rate), (self.encoder_optimizer, encoder_rate)]
        for optimizer, rate in rated:
            for group in optimizer.param_groups if optimizer else ():
                group["lr"] = rate

    def start_from(
        self, X: torch.Tensor | Rows, index: torch.Tensor, generator: torch.Generator
    ) -> None:
        """Improve the random weights with the help of the rows `index` of data.

        Nothing happens if the decoder does not know how.
        """
        X = Rows.of(X)
        order = torch.randperm(len(index), generator=generator, device=generator.device)
        drawn = index[order[: self.decoder.n_components].to(index.device)]
        if self.decoder.start_from(self.prepare(X.gather(drawn))[0]):
            self._bound_decoder()
            self._start_encoder(X, index)

    def start_from_autoencoder(
        self, X: torch.Tensor | Rows, index: torch.Tensor, generator: torch.Generator
    ) -> None:
        """Give the dictionary the atoms of an autoencoder of the rows `index` of data.

        It takes no more steps than training. After an interrupt the dictionary has what was learnt
        until then. Another decoder starts from samples.
        """
        if not isinstance(self.decoder, LinearDecoder):
            return self.start_from(X, index, generator)

        X = Rows.of(X)

        def draw(n_rows: int) -> torch.Tensor:
            # every process trains the whole autoencoder, which takes little time
            drawn = torch.randint(
                len(index), (n_rows,), generator=generator, device=generator.device
            )
            return self.prepare(X.gather(index[drawn.to(index.device)]))[0]

        n_components, sparsity = self.decoder.n_components, self.training.target_sparsity
        n_batches = len(batch_slices(len(index), self.training.batch_size))
        some = draw(min(_AXES_ROWS, len(index)))
        autoencoder = Autoencoder(
            principal_axes(some, n_components, generator),
            n_components,
            sparsity=_USUAL_SPARSITY if sparsity is None else sparsity,
            positive=self.energy_settings.positive,
            bias=self.decoder.bias is not None,
            max_steps=min(self.training.max_iter, _AUTOENCODER_EPOCHS) * n_batches,
            generator=generator,
        )
        try:
            for number in range(autoencoder.n_steps):
                autoencoder.step(draw(len(index) // n_batches), number)
        finally:
            self.decoder.set_weights(*autoencoder.dictionary())
            self._bound_decoder()
            self._start_encoder(X, index)

    def _start_encoder(self, X: Rows, index: torch.Tensor) -> None:
        """Set the encoder to ISTA on the atoms of the decoder."""
        if self.encoder is not None:
            some, _ = self.prepare(X.gather(index[: self.training.batch_size]))
            slope = Problem(self.decoder.data_term(some), self.energy_settings.by_row()).slope
            self.encoder.imitate(self.decoder, slope, some)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.decoder.device

    def to(self, device: torch.device | str) -> Self:
        """Move weights and optimiser state to a device."""
        for module in (self.decoder, self.encoder, self.online):
            if module is not None:
                module.to(device)
        self.units.to(device)
        if self.hints["curvature"] is not None:
            self.hints["curvature"] = self.hints["curvature"].to(device)
        for optimizer in (self.decoder_optimizer, self.encoder_optimizer):
            for state in optimizer.state.values() if optimizer else ():
                for key, value in state.items():
                    state[key] = value.to(device)
        return self

    def state(self) -> dict[str, Any]:
        """Copy of all weights, optimiser state and hints."""
        state = {
            name: _copy(part.state_dict())
            for name, part in vars(self).items()
            if isinstance(part, torch.nn.Module | torch.optim.Optimizer)
        }
        return state | {"hints": self.hints.copy(), "lam": self.energy_settings.lam}

    def load_state(self, state: dict[str, Any]) -> None:
        """Go back to a copy made by `state`."""
        with uninterrupted():
            for name, value in state.items():
                if name == "hints":
                    self.hints = value.copy()
                    if self.hints["curvature"] is not None:
                        self.hints["curvature"] = self.hints["curvature"].to(self.device)
                elif name == "lam":
                    self.energy_settings = replace(self.energy_settings, lam=value)
                else:
                    # an optimiser takes tensors as they are and would write into the copy
                    getattr(self, name).load_state_dict(_copy(value))

    def is_finite(self) -> bool:
        """Whether all weights are finite."""
        modules = [module for module in (self.decoder, self.encoder) if module is not None]
        return all(bool(p.isfinite().all()) for module in modules for p in module.parameters())

    @torch.enable_grad()
    def step(self, Y: torch.Tensor, share: Share | None = None) -> dict[str, torch.Tensor]:
        """Infer codes of one batch, then take one step of the decoder and one of the encoder.

        Parameters
        ----------
        Y : torch.Tensor of shape (n, n_features)
            The batch, or the part of it that this process has.
        share : Share, optional
            What part that is; by default all of it.

        Returns
        -------
        dict of torch.Tensor
            Means over the rows of the energy and its terms, the share of zeros, and which
            components were ``used``.
        """
        share = Share.whole(Y) if share is None else share
        Y, seen = self.prepare(Y)
        prediction = None if self.encoder is None else self.encoder(Y)
        target = None if prediction is None else prediction.detach()
        term = self.decoder.data_term(
            Y, seen=seen, n_evaluations=self.hints["n_iter"], curvature=self._curvature()
        )
        problem = Problem(term, self.energy_settings, target, share)
        found = choose_solver(problem, self.solver_settings).solve(problem, target)
        Z = found.codes
        active = Z != 0
        stats = {"energy": found.energy.mean()}
        if share.alone:
            self.hints["n_iter"] = max(1, round(found.n_iter.sum().item() / len(Y)))
            with uninterrupted():
                stats |= self._update(Y, seen, Z, prediction, term)
            stats["hinge"] = self._hinge(Z) / HINGE_ROWS
            stats[self.energy_settings.penalty] = self._penalty(Z).mean()
            stats["sparsity"] = 1 - active.to(Z.dtype).mean()
            stats["used"] = active.any(dim=0)
        else:
            stats |= {
                "n_iter": found.n_iter.to(Z.dtype).mean(),
                self.energy_settings.penalty: self._penalty(Z).mean(),
                "used": active.to(Z.dtype).mean(dim=0),
                "first": Z.mean(dim=0),
                "second": Z.square().mean(dim=0),
            }
            stats = self._update_together(Y, seen, Z, prediction, term, share, stats)
        stats["lam"] = torch.full_like(stats["energy"], self.energy_settings.lam)
        if self.training.target_sparsity is not None:
            missing = self.training.target_sparsity - stats["sparsity"].item()
            # data without any variation would let it vanish, and it could never grow again
            lam = max(self.energy_settings.lam * math.exp(_LAM_GAIN * missing), _LEAST_LAM)
            self.energy_settings = replace(self.energy_settings, lam=lam)
        return stats

    def _update(
        self,
        Y: torch.Tensor,
        seen: torch.Tensor | None,
        Z: torch.Tensor,
        prediction: torch.Tensor | None,
        term: DataTerm,
    ) -> dict[str, torch.Tensor]:
        """Take one step of the decoder and one of the encoder towards the codes of a batch."""
        stats = {}
        if self.online is not None:
            assert isinstance(self.decoder, LinearDecoder)
            stats["reconstruction"] = self.online.learn(self.decoder, Z, Y, seen=seen)
        else:
            stats["reconstruction"] = self.decoder.set_gradients(Z, Y, seen=seen, term=term)
            self.decoder_optimizer.step()
        stats["proximity"] = self._set_encoder_gradients(Z, prediction)
        self._step_encoder()
        return stats

    def _update_together(
        self,
        Y: torch.Tensor,
        seen: torch.Tensor | None,
        Z: torch.Tensor,
        prediction: torch.Tensor | None,
        term: DataTerm,
        share: Share,
        own: dict[str, torch.Tensor],
    ) -> dict[str, torch.Tensor]:
        """Do the same with several processes, and average statistics, all with one message."""
        online, learnt = self.online, list[torch.Tensor]()
        if online is not None:
            assert isinstance(self.decoder, LinearDecoder)
            own["reconstruction"], *learnt = online.moments(self.decoder, Z, Y, seen=seen)
        else:
            own["reconstruction"] = self.decoder.set_gradients(Z, Y, seen=seen, term=term)
            learnt = _gradients(self.decoder)
        own["proximity"] = self._set_encoder_gradients(Z, prediction)
        encoder_learnt = [] if self.encoder is None else _gradients(self.encoder)
        names = list(own)
        averages = share.average(*own.values(), *learnt, *encoder_learnt)
        stats = dict(zip(names, averages, strict=False))
        with uninterrupted():
            for own_mean, average in zip(
                learnt + encoder_learnt, averages[len(names) :], strict=True
            ):
                own_mean.copy_(average)
            if online is not None:
                assert isinstance(self.decoder, LinearDecoder)
                online.learn_moments(self.decoder, learnt[0], learnt[1], share.n_rows)
            else:
                self.decoder_optimizer.step()
            self._step_encoder()
        self.hints["n_iter"] = max(1, round(stats.pop("n_iter").item()))
        variance = stats.pop("second") - stats.pop("first").square()
        variance *= share.n_rows / max(1, share.n_rows - 1)
        std = variance.clamp_min(0.0).sqrt()
        stats["hinge"] = (self.energy_settings.variance_threshold - std).relu().square().sum()
        stats["hinge"] = stats["hinge"] / HINGE_ROWS
        stats["sparsity"] = 1 - stats["used"].mean()
        stats["used"] = stats["used"] > 0
        return stats

    def _set_encoder_gradients(
        self, Z: torch.Tensor, prediction: torch.Tensor | None
    ) -> torch.Tensor:
        """Set the gradients of the encoder, and return its mean squared error."""
        if self.encoder_optimizer is None or prediction is None:
            return torch.zeros_like(Z.sum())
        loss = torch.nn.functional.mse_loss(prediction, Z)
        self.encoder_optimizer.zero_grad()
        loss.backward()
        return loss.detach()

    def _step_encoder(self) -> None:
        """Finish a step, of which the decoder has taken its part."""
        if self.encoder_optimizer is not None:
            self.encoder_optimizer.step()
        self._bound_decoder()
        self.n_steps += 1

    @torch.no_grad()
    def codes(self, Y: torch.Tensor, seen: torch.Tensor | None = None) -> torch.Tensor:
        """Codes of each row by itself, as good as training sees them.

        From the encoder, or from the solver where there is none or codes are to be unbiased.
        """
        init = None if self.encoder is None else self.encoder(Y)
        if init is not None and self.energy_settings.penalty == "l1":
            return init
        settings = self.energy_settings, self.solver_settings
        return codes_by_row(self.decoder, Y, *settings, seen=seen, init=init).codes

    @torch.no_grad()
    def energy(self, X: torch.Tensor | Rows, index: torch.Tensor | None = None) -> EnergyParts:
        """Mean energy of rows at their `codes`, with the hinge in batches as in training.

        The rows are those of `index`, all by default; only a batch of them is copied at a time.
        """
        X, settings = Rows.of(X), self.energy_settings
        fixed, penalty = torch.zeros(2, dtype=X.dtype, device=self.device)
        n_rows = len(X) if index is None else len(index)
        for rows in batch_slices(n_rows, self.training.batch_size):
            some, share = X.take(rows if index is None else index[rows])
            Y, seen = self.prepare(some)
            Z = self.codes(Y, seen)
            fixed += mean_squared_error(Y, self.decoder(Z), seen).sum()
            if settings.beta:
                # each process adds an equal part of it
                weight = settings.hinge_weight(share.n_rows) / share.group.size
                fixed += self._hinge(Z, share) * weight
            penalty += self._penalty(Z).sum()
        fixed, penalty = X.group.sum(fixed, penalty)
        return EnergyParts((fixed / n_rows).item(), (penalty / n_rows).item())

    @torch.no_grad()
    def revive(self, dead: torch.Tensor, X: torch.Tensor) -> None:
        """Point unused components at the rows of `X` that are reconstructed worst.

        Of several processes, each is given the same rows.
        """
        Y, seen = self.prepare(X)
        residual = Y - self.decoder(self.codes(Y, seen))
        if seen is not None:
            residual.mul_(seen)
        worst = residual.square().sum(dim=1).argsort(descending=True)
        components = dead.nonzero()[: len(worst), 0]
        directions = residual[worst[: len(components)]]
        directions /= torch.linalg.vector_norm(directions, dim=1, keepdim=True).clamp_min(1e-12)
        with uninterrupted():
            size = self.decoder.revive(components, directions)
            if self.encoder is not None:
                self.encoder.revive(components, directions / size)
            if self.online is not None:
                self.online.forget(components)

    def prepare(self, X: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Bring rows to the device, out of their units, and split off what is missing.

        Returns
        -------
        Y : torch.Tensor of shape (n, d)
            Data with 0 for missing entries.
        seen : torch.Tensor of shape (n, d) or None
            1 for entries that are seen; None if all are.
        """
        Y = self.units.apply(X.to(self.device))
        if not self.training.look_for_nan:
            return Y, None
        missing = Y.isnan()
        if not missing.any():
            return Y, None
        return Y.nan_to_num(nan=0.0), missing.logical_not_().to(Y.dtype)

    def _bound_decoder(self) -> None:
        if self.training.unit_norm:
            self.decoder.normalise()

    def _penalty(self, Z: torch.Tensor) -> torch.Tensor:
        return l0(Z) if self.energy_settings.penalty == "l0" else l1(Z)

    def _hinge(self, Z: torch.Tensor, share: Share | None = None) -> torch.Tensor:
        threshold = self.energy_settings.variance_threshold
        if share is None or share.alone or share.n_rows < 2:
            return variance_hinge(Z, threshold).sum()
        spread = SharedSpread(share)
        spread.ask(Z)
        return spread.hinge(threshold).sum()

    def _curvature(self) -> torch.Tensor | None:
        """Return an estimate that may be some steps old; the solver corrects a wrong one."""
        if self.decoder.quadratic:
            return None
        if self.hints["age"] % _RENEW_CURVATURE == 0:
            self.hints["curvature"] = self.decoder.curvature()
        self.hints["age"] += 1
        return self.hints["curvature"]


def _gradients(model: torch.nn.Module) -> list[torch.Tensor]:
    """Gradients of all weights that are learnt, of which those without any become 0."""
    for weight in model.parameters():
        if weight.grad is None:
            weight.grad = torch.zeros_like(weight)
    return [weight.grad for weight in model.parameters() if weight.grad is not None]


def _copy(state: Any) -> Any:
    """Copy of nested dicts and lists of tensors, in a fraction of the time of `copy.deepcopy`."""
    if isinstance(state, torch.Tensor):
        return state.detach().clone()
    if isinstance(state, dict):
        return {key: _copy(value) for key, value in state.items()}
    return [_copy(value) for value in state] if isinstance(state, list) else state


def _adam(model: Decoder | LISTA) -> torch.optim.Adam:
    groups = [{"params": model.matrices}]
    if model.biases:
        groups.append({"params": model.biases})
    # fused: one kernel per step, and the only kind that keeps its step count on the device
    return torch.optim.Adam(groups, fused=True)


def _set_decays(optimizer: torch.optim.Adam, matrices: float, biases: float) -> None:
    for group, decay in zip(optimizer.param_groups, (matrices, biases), strict=False):
        group["weight_decay"] = decay
