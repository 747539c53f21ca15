"""Spread of codes over a batch whose rows several processes share."""

import torch

from ..distributed import Share


class SharedSpread:
    """Means and deviations over all rows of a batch, with one message per evaluation.

    Sums of codes and of their squares can be sent together, but their difference loses digits. So
    both are of codes minus a pivot, their mean at the last evaluation, from which the mean has
    hardly moved.

    Parameters
    ----------
    share : Share
        What this process has of the batch.

    Attributes
    ----------
    mean, square, constant : torch.Tensor of shape (l,)
        Of the codes that were evaluated last: their mean, the squared norm of the deviations from
        it, and whether that is only rounding error.
    """

    def __init__(self, share: Share) -> None:
        self.share = share
        self.mean: torch.Tensor | None = None
        self.square: torch.Tensor
        self.constant: torch.Tensor

    def ask(self, Z: torch.Tensor, *others: torch.Tensor) -> list[torch.Tensor]:
        """Evaluate the spread of codes, and add up other tensors in the same message."""
        n, add = self.share.n_rows, self.share.group.sum
        if self.mean is None:
            self.mean = add(Z.sum(dim=0))[0] / n
        moved = Z - self.mean
        total, square, *sums = add(moved.sum(dim=0), moved.square_().sum(dim=0), *others)
        shift = total / n
        self.mean = self.mean + shift
        between = total * shift
        self.square = (square - between).clamp_min_(0.0)
        rounding = 16 * torch.finfo(Z.dtype).eps
        self.constant = self.square <= (self.mean * rounding).square() * n + between * rounding
        return sums

    def hinge(self, threshold: float) -> torch.Tensor:
        """Squared hinge on the deviation of each component, as `variance_hinge`."""
        std = self.square.sqrt() * (self.share.n_rows - 1) ** -0.5
        return (threshold - std).clamp_(min=0.0).square_()

    def force(
        self, Z: torch.Tensor, threshold: float, deviation: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Gradient of the summed hinge in two factors, as `variance_hinge_force`."""
        assert self.mean is not None
        deviation = torch.sub(Z, self.mean, out=deviation)
        pull = self.square.rsqrt().mul_(threshold * (self.share.n_rows - 1) ** 0.5)
        return deviation, pull.sub_(1.0).clamp_(min=0.0).masked_fill_(self.constant, 0.0)
