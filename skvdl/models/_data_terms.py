"""What a solver sees of a decoder: the smooth part of a batch's energy that acts row by row.

A data term starts as the reconstruction error ``1/d ||y - D(z)||^2`` of each row, over the
entries that are seen. A problem may add ``ridge/2 ||z - centre||^2 + tilt * sum_j z_j``: proximity
to the encoder's prediction is such a ridge, and on non-negative codes the l1 norm is linear.
They are part of the data term because a quadratic one folds them in at no cost. Constants that do
not depend on the codes are kept, so that values are true energies.
"""

from abc import ABC, abstractmethod

import torch

# How often a term is evaluated unless its user knows better.
USUAL_EVALUATIONS = 50


class DataTerm(ABC):
    """Data term of one batch, with ridge and tilt added to whatever the decoder computes.

    Parameters
    ----------
    Y : torch.Tensor of shape (n, n_features)
        Data.
    n_components : int
        Length of a code.
    """

    def __init__(self, Y: torch.Tensor, n_components: int) -> None:
        self.Y = Y
        self.n_components = n_components
        self.ridge = 0.0
        self.centre: torch.Tensor | None = None
        self.tilt = 0.0

    @abstractmethod
    def error_and_grad(self, Z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Reconstruction error of each row, and its gradient, at the codes."""

    @abstractmethod
    def error_curvature(self) -> torch.Tensor:
        """Second derivative of the reconstruction error: a bound, or an estimate."""

    def take(self, rows: torch.Tensor) -> None:
        """Keep only some rows."""
        self.Y = self.Y[rows]
        if self.centre is not None:
            self.centre = self.centre[rows]

    def add(self, *, ridge: float, centre: torch.Tensor | None, tilt: float) -> None:
        """Add a pull of weight `ridge` to `centre` (0 if None) and a slope of `tilt`."""
        self.ridge, self.centre, self.tilt = ridge, centre, tilt

    def curvature(self) -> torch.Tensor:
        """Second derivative of the whole term: a bound, or an estimate."""
        return self.error_curvature() + self.ridge

    def value_and_grad(self, Z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Value of each row, and gradient, at the codes."""
        value, grad = self.error_and_grad(Z)
        if self.ridge:
            offset = Z if self.centre is None else Z - self.centre
            value = torch.add(value, torch.linalg.vecdot(offset, offset), alpha=self.ridge / 2)
            grad.add_(offset, alpha=self.ridge)
        if self.tilt:
            value = torch.add(value, Z.sum(dim=1), alpha=self.tilt)
            grad.add_(self.tilt)
        return value, grad

    def grad(self, Z: torch.Tensor) -> torch.Tensor:
        """Gradient at the codes."""
        return self.value_and_grad(Z)[1]

    def set_step(self, step: torch.Tensor) -> None:
        """Choose the step of `descend`."""
        self.step = step

    def descend(self, Z: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        """Codes after one gradient step, written into `out` if given."""
        return torch.addcmul(Z, self.grad(Z), self.step, value=-1, out=out)


class QuadraticTerm(DataTerm):
    """Data term of a decoder that is linear in the codes: its `curvature` is an upper bound."""

    @abstractmethod
    def hessian_product(self, direction: torch.Tensor) -> torch.Tensor:
        """How the gradient changes along a direction of each row."""

    @abstractmethod
    def diagonal(self) -> torch.Tensor:
        """Second derivative along each component, as if every entry of the data were seen."""

    @abstractmethod
    def relative_curvature(self) -> torch.Tensor:
        """Bound the second derivative after scaling each component to a `diagonal` of 1."""

    @abstractmethod
    def to(self, dtype: torch.dtype) -> "QuadraticTerm":
        """Rebuild the term in another precision, before anything was added or taken out."""

    def factors(self) -> tuple[torch.Tensor, torch.Tensor] | None:
        """Data and dictionary whose reconstruction error this is, before rows were taken out.

        None if not every entry of the data is seen.
        """
        return None
