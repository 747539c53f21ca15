"""The energy of one batch, as solvers see it."""

import math
from dataclasses import dataclass, replace
from typing import Self

import torch

from ..distributed import Share
from ..models import DataTerm, QuadraticTerm
from ._spread import SharedSpread
from ._terms import l0, l1, variance_hinge, variance_hinge_force

# Rows of the batch that the weight of the hinge refers to.
HINGE_ROWS = 250


@dataclass(frozen=True)
class EnergySettings:
    """Weights of the terms of the energy, and which codes are allowed.

    Attributes
    ----------
    lam : float
        Weight of the penalty.
    penalty : {"l1", "l0"}
        What makes codes sparse: the l1 norm, or the number of components that are not 0.
    positive : bool
        Whether codes are non-negative.
    beta : float
        Weight of the variance hinge, per 250 rows. It couples the rows of a batch; without it
        each row is a separate problem.
    variance_threshold : float
        Standard deviation the hinge asks of every component.
    gamma : float
        Weight of the distance to the encoder's prediction.
    """

    lam: float
    penalty: str = "l1"
    positive: bool = True
    beta: float = 0.0
    variance_threshold: float = 0.5
    gamma: float = 0.0

    def by_row(self) -> Self:
        """Return the energy of each row by itself: reconstruction and penalty."""
        return replace(self, beta=0.0, gamma=0.0)

    def hinge_weight(self, n_rows: int) -> float:
        """Weight of the hinge in a batch of this many rows."""
        return self.beta * n_rows / HINGE_ROWS


class Problem:
    """Energy of a batch of codes: value, gradient of its smooth part, step and shrinkage.

    Parameters
    ----------
    data : DataTerm
        Data term of the batch, fresh from its decoder: the problem adds to it.
    settings : EnergySettings
        Weights of the other terms.
    target : torch.Tensor of shape (n, l), optional
        The encoder's prediction, which codes should stay close to; 0 by default.
    share : Share, optional
        What this process has of the batch; by default all of it. Of coupled rows, energies and
        norms are those of the whole batch, and all processes have to ask for them together.
    """

    def __init__(
        self,
        data: DataTerm,
        settings: EnergySettings,
        target: torch.Tensor | None = None,
        share: Share | None = None,
    ) -> None:
        self.share = Share.whole(data.Y) if share is None else share
        n_rows = self.share.n_rows
        self.data = data
        self.settings = settings
        self.lam = settings.lam
        self.counts = settings.penalty == "l0"
        self.positive = settings.positive
        # a single row has no standard deviation
        self.beta = settings.hinge_weight(n_rows) if n_rows > 1 else 0.0
        # what turns the force of the hinge into minus its gradient
        self.strength = 2.0 * self.beta / max(1, n_rows - 1)
        self._spread: SharedSpread | None = None
        if self.coupled and not self.share.alone:
            self._spread = SharedSpread(self.share)
        # whether the spread is already that of the codes to descend from
        self._asked = False
        data.add(
            ridge=2.0 * settings.gamma / data.n_components,
            centre=target,
            tilt=self.lam if self.positive and not self.counts else 0.0,
        )
        # slope of the penalty at 0, along each component
        self.slope = data.Y.new_full((data.n_components,), self.lam)
        if self.counts:
            self._relax_counting()

    @property
    def coupled(self) -> bool:
        """Whether the rows of the batch depend on each other."""
        return self.beta > 0

    @property
    def is_lasso(self) -> bool:
        """Whether each row is a lasso, for which there is a duality gap."""
        plain = not (self.coupled or self.counts or self.data.ridge) and self.lam > 0
        return plain and isinstance(self.data, QuadraticTerm)

    def to(self, dtype: torch.dtype) -> "Problem":
        """Restate a lasso in another precision, before any row was taken out."""
        assert isinstance(self.data, QuadraticTerm)
        return Problem(self.data.to(dtype), self.settings)

    def start(self, init: torch.Tensor | None) -> torch.Tensor:
        """Return a copy of the codes to start from, clipped at 0 if codes are non-negative."""
        if init is None:
            return self.data.Y.new_zeros(len(self.data.Y), self.data.n_components)
        return init.relu() if self.positive else init.clone()

    def take(self, rows: torch.Tensor) -> None:
        """Keep only some rows."""
        self.data.take(rows)

    def curvature(self) -> torch.Tensor:
        """Second derivative of the smooth part: a bound, or an estimate, as of the data term."""
        # The hinge is concave except along the deviations themselves, where it bends this much.
        return self.data.curvature() + self.strength

    def value_and_grad(self, Z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Energy as a column, and gradient of the smooth part.

        The column has one number per row, or a single one for all rows if they are coupled.
        """
        value, grad = self.data.value_and_grad(Z)
        if self.counts:
            value = torch.add(value, l0(Z), alpha=self.lam)
        elif not self.positive:
            value = torch.add(value, l1(Z), alpha=self.lam)
        if self.coupled:
            threshold = self.settings.variance_threshold
            if self._spread is None:
                total = value.sum()
                deviation, pull = variance_hinge_force(Z, threshold)
                hinge = variance_hinge(Z, threshold).sum()
            else:
                (total,) = self._spread.ask(Z, value.sum())
                self._asked = False
                deviation, pull = self._spread.force(Z, threshold)
                hinge = self._spread.hinge(threshold).sum()
            grad.addcmul_(deviation, pull, value=-self.strength)
            value = torch.add(total, hinge, alpha=self.beta).reshape(1)
        return value[:, None], grad

    def energy(self, Z: torch.Tensor) -> torch.Tensor:
        """Energy as a column, as in `value_and_grad`."""
        return self.value_and_grad(Z)[0]

    def total(self, energies: torch.Tensor) -> torch.Tensor:
        """Sum of the energies of rows, over the whole batch if rows are coupled."""
        total = energies.sum()
        return total if self._spread is None else self.share.group.sum(total)[0]

    def norms(self, *tensors: torch.Tensor) -> list[torch.Tensor]:
        """Norm of each row of tensors as a column, or of the whole batch if rows are coupled."""
        dim = (0, 1) if self.coupled else 1
        norms = [torch.linalg.vector_norm(V, dim=dim, keepdim=True) for V in tensors]
        if self._spread is None:
            return norms
        return [square.sqrt() for square in self.share.group.sum(*map(torch.square, norms))]

    def length(self, V: torch.Tensor, following: torch.Tensor | None = None) -> float:
        """Norm of coupled rows, as a number.

        `following` says from which codes `descend` is called next, whose spread then comes in the
        same message.
        """
        norm = torch.linalg.vector_norm(V)
        if self._spread is None:
            return norm.item()
        if following is None:
            (square,) = self.share.group.sum(norm.square())
        else:
            (square,) = self._spread.ask(following, norm.square())
            self._asked = True
        return math.sqrt(square.item())

    def forget_following(self) -> None:
        """Say that `descend` is called from other codes than was announced."""
        self._asked = False

    def relative_gap(self, Z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Duality gap of a lasso over its energy, and the energy, as columns.

        The gap bounds how far the energy of a row is above its minimum. The residual, shrunk until
        its correlation with no atom exceeds lam, is a feasible point of the dual problem; its value
        follows from energy and gradient at the codes.
        """
        energy, grad = self.value_and_grad(Z)
        if self.positive:
            grad = grad - self.lam
            excess = grad.amin(dim=1, keepdim=True).neg_()
        else:
            excess = grad.abs().amax(dim=1, keepdim=True)
        error = energy - self.lam * l1(Z)[:, None]
        overlap = error - torch.linalg.vecdot(grad, Z)[:, None] / 2
        tiny = torch.finfo(Z.dtype).tiny
        shrink = (self.lam / excess.clamp_min(tiny)).clamp_(max=1.0)
        gap = energy - shrink * (2 * overlap - shrink * error)
        return gap / energy.clamp_min(tiny), energy

    def component_steps(self) -> torch.Tensor:
        """Longest steps, one per component, with which `descend` is safe on a quadratic term.

        Atoms of very different norms would make a common step far too short for most of them.
        """
        assert isinstance(self.data, QuadraticTerm)
        curvature = self.data.relative_curvature() * self.data.diagonal() + self.strength
        return 1.0 / curvature.clamp_min(torch.finfo(curvature.dtype).tiny)

    def set_step(self, step: torch.Tensor) -> None:
        """Choose the step of `descend`, one for all components or one for each."""
        self.step = step
        self.hinge_step = step * self.strength
        self.data.set_step(step)
        if self.counts:
            self.threshold = step * self.slope
            # below its reach the relaxation is a parabola, and stretches what the threshold leaves
            room = (1.0 - step * self.bend).clamp_min_(torch.finfo(self.bend.dtype).eps)
            self.stretch = 1.0 / room
            self.offset = self.threshold * -self.stretch

    def descend(
        self, Z: torch.Tensor, out: torch.Tensor, deviation: torch.Tensor, *, soft: bool = False
    ) -> torch.Tensor:
        """Write the codes after one gradient step and the shrinkage into `out`.

        Fresh memory for every intermediate result would cost more than computing it, so the
        caller lends `deviation` too. With `soft`, the l1 norm whose threshold is that of the l0
        penalty takes its place.
        """
        if self.coupled:
            threshold = self.settings.variance_threshold
            if self._spread is None:
                _, pull = variance_hinge_force(Z, threshold, deviation=deviation, scratch=out)
            else:
                if not self._asked:
                    self._spread.ask(Z)
                self._asked = False
                _, pull = self._spread.force(Z, threshold, deviation)
            self.data.descend(Z, out=out)
            out.addcmul_(deviation, pull.mul_(self.hinge_step))
        else:
            self.data.descend(Z, out=out)
        if self.counts:
            return self.shrink_count(out, deviation, soft)
        return self.shrink(out, self.step)

    def shrink(self, V: torch.Tensor, step: torch.Tensor) -> torch.Tensor:
        """Apply the proximal map of the l1 norm in place."""
        if self.positive:
            # the threshold is part of the gradient
            return V.relu_()
        return _soft_threshold(V, step * self.lam)

    def shrink_count(self, V: torch.Tensor, room: torch.Tensor, soft: bool) -> torch.Tensor:
        """Apply the proximal map of the relaxed count in place, using `room` of the same shape.

        With `soft`, the l1 norm with the same threshold takes its place.
        """
        if self.positive:
            if soft:
                return V.sub_(self.threshold).relu_()
            # what is stretched is smaller than V below the reach, and larger above it
            torch.addcmul(self.offset, V, self.stretch, out=room)
            return torch.minimum(V, room, out=V).relu_()
        if soft:
            return _soft_threshold(V, self.threshold)
        stretched = _soft_threshold(room.copy_(V), self.threshold).mul_(self.stretch)
        return V.copy_(torch.where(V.abs() < self.reach, stretched, V))

    def _relax_counting(self) -> None:
        """Replace the count by its tightest continuous relaxation with the same minima (CEL0).

        Along a component whose second derivative is h, the relaxation starts at 0 with the slope
        ``sqrt(2 lam h)``, bends down with -h, and is constant, lam, beyond ``sqrt(2 lam / h)``.
        """
        if not isinstance(self.data, QuadraticTerm):
            raise ValueError('penalty="l0" needs a dictionary as the decoder; use penalty="l1".')
        self.bend = self.data.diagonal()
        self.slope = (2.0 * self.lam * self.bend).sqrt_()
        tiny = torch.finfo(self.bend.dtype).tiny
        self.reach = (2.0 * self.lam / self.bend.clamp_min(tiny)).sqrt_()


def _soft_threshold(V: torch.Tensor, threshold: torch.Tensor) -> torch.Tensor:
    return V.sub_(torch.minimum(torch.maximum(V, -threshold), threshold))
