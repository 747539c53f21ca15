"""The whole energy of a batch as the solver sees it: value, gradient, step and shrinkage."""

import torch

from .energy import sparsity, variance_hinge, variance_hinge_force

__all__ = ["Objective"]


class Objective:
    """Energy of a batch of codes, its gradient where smooth, and the step for the rest."""

    def __init__(self, term, lam, beta, variance_threshold, positive, n_rows):
        self.term = term
        self.lam = lam
        self.beta = beta if n_rows > 1 else 0.0
        self.variance_threshold = variance_threshold
        self.positive = positive
        # what turns the force of the hinge into minus its gradient
        self.strength = 2.0 * self.beta / max(1, n_rows - 1)

    @property
    def coupled(self):
        """Whether the rows of the batch depend on each other."""
        return self.beta > 0

    def curvature(self, data_curvature):
        """Curvature of the smooth part, given that of the data term."""
        # The hinge is concave but along the deviations themselves, where it bends this much.
        return data_curvature + self.strength

    def value_and_grad(self, Z):
        """Energy as a column (one number a row, or one in all where coupled), and gradient."""
        value, grad = self.term.value_and_grad(Z)
        if not self.positive:
            value = torch.add(value, sparsity(Z), alpha=self.lam)
        if self.coupled:
            deviation, pull = variance_hinge_force(Z, self.variance_threshold)
            grad.addcmul_(deviation, pull, value=-self.strength)
            hinge = variance_hinge(Z, self.variance_threshold).sum()
            value = torch.add(value.sum(), hinge, alpha=self.beta).reshape(1)
        return value[:, None], grad

    def energy(self, Z):
        """Energy as a column, as in `value_and_grad`."""
        return self.value_and_grad(Z)[0]

    def relative_gap(self, Z):
        """Duality gap over energy, and energy, as columns.

        The gap tells how far a row of a lasso can be from its minimum.

        The residual, shrunk until its correlation with no atom exceeds lam, is a feasible point
        of the dual problem. Its value needs but energy and gradient at the codes.
        """
        energy, grad = self.value_and_grad(Z)
        if self.positive:
            grad = grad - self.lam
            excess = grad.amin(dim=1, keepdim=True).neg_()
        else:
            excess = grad.abs().amax(dim=1, keepdim=True)
        error = energy - self.lam * sparsity(Z)[:, None]
        overlap = error - torch.linalg.vecdot(grad, Z)[:, None] / 2
        shrink = (self.lam / excess.clamp_min(torch.finfo(Z.dtype).tiny)).clamp_(max=1.0)
        gap = energy - shrink * (2 * overlap - shrink * error)
        return gap / energy.clamp_min(torch.finfo(Z.dtype).tiny), energy

    def set_step(self, step):
        """Choose the step of `descend`."""
        self.step = step
        self.hinge_step = step * self.strength
        self.term.set_step(step)

    def descend(self, Z, out, deviation):
        """Write the codes after one gradient step and the shrinkage into `out`.

        Fresh memory for every intermediate result would cost more than computing it.
        """
        if not self.coupled:
            return self.shrink(self.term.descend(Z, out=out), self.step)
        rooms = {"deviation": deviation, "scratch": out}
        _, pull = variance_hinge_force(Z, self.variance_threshold, **rooms)
        self.term.descend(Z, out=out)
        out.addcmul_(deviation, pull.mul_(self.hinge_step))
        return self.shrink(out, self.step)

    def shrink(self, V, step):
        """Shrink in place; on non-negative codes the threshold is part of the gradient."""
        if self.positive:
            return V.relu_()
        threshold = step * self.lam
        return V.sub_(torch.minimum(torch.maximum(V, -threshold), threshold))
