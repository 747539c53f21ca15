"""The dictionary: a sample is a weighted sum of atoms."""

from functools import cached_property
from typing import Self

import torch
from torch import nn

from ._data_terms import USUAL_EVALUATIONS, DataTerm, QuadraticTerm
from ._decoder import Decoder
from ._weights import eigenvalue_bound, gram_bound, uniform_parameter


class LinearDecoder(Decoder):
    """Dictionary: a sample is a weighted sum of columns, and a bias if there is one.

    Parameters
    ----------
    n_components : int
        Length of a code.
    n_features : int
        Length of a sample.
    bias : bool, default=False
        Whether there is a bias.
    generator : torch.Generator
        Source of the initial weights.
    dtype : torch.dtype
        Type of the weights.

    Attributes
    ----------
    weight : torch.nn.Parameter of shape (n_features, n_components)
        The dictionary, atoms in columns.
    bias : torch.nn.Parameter of shape (n_features,) or None
        What a code of zeros stands for, 0 before learning; None stands for 0.
    """

    quadratic = True

    def __init__(
        self,
        n_components: int,
        n_features: int,
        *,
        bias: bool = False,
        generator: torch.Generator,
        dtype: torch.dtype,
    ) -> None:
        super().__init__(n_components, n_features)
        self.weight = uniform_parameter(
            n_features, n_components, fan_in=n_components, generator=generator, dtype=dtype
        )
        self.bias = nn.Parameter(torch.zeros_like(self.weight[:, 0])) if bias else None

    @classmethod
    def from_weights(cls, weights: dict[str, torch.Tensor]) -> Self:
        """Build a dictionary with the weights of a `state_dict`."""
        n_features, n_components = weights["weight"].shape
        decoder = cls(
            n_components,
            n_features,
            bias="bias" in weights,
            generator=torch.Generator(device="cpu"),
            dtype=weights["weight"].dtype,
        )
        decoder.load_state_dict(weights)
        return decoder

    def forward(self, Z: torch.Tensor) -> torch.Tensor:
        """Reconstruct data from codes."""
        return nn.functional.linear(Z, self.weight, self.bias)

    def data_term(
        self,
        Y: torch.Tensor,
        *,
        seen: torch.Tensor | None = None,
        n_evaluations: int = USUAL_EVALUATIONS,
        curvature: torch.Tensor | None = None,
    ) -> DataTerm:
        """Reconstruction error of a batch, in the form that is cheapest for its shape."""
        W = self.weight.detach().to(Y.dtype)
        if self.bias is not None:
            Y = Y - self.bias.detach().to(Y.dtype)
        return linear_term(Y, W, seen=seen, n_evaluations=n_evaluations)

    @torch.no_grad()
    def set_gradients(
        self,
        Z: torch.Tensor,
        Y: torch.Tensor,
        *,
        seen: torch.Tensor | None = None,
        term: DataTerm | None = None,
    ) -> torch.Tensor:
        """Set the gradient of the dictionary; see `Decoder.set_gradients`.

        Written by hand because autograd makes twice as many passes over tensors of the size of
        the data.
        """
        residual = torch.addmm(Y, Z, self.weight.T, beta=-1)
        if self.bias is not None:
            residual.add_(self.bias)
        if seen is not None:
            residual.mul_(seen)
        error = torch.linalg.vector_norm(residual).square() / Y.numel()
        residual.mul_(2.0 / Y.shape[1])
        if self.bias is not None:
            self.bias.grad = residual.mean(dim=0)
        alpha = 1 / max(1, len(Y))
        self.weight.grad = torch.addmm(self.weight, residual.T, Z, beta=0, alpha=alpha)
        return error

    @torch.no_grad()
    def atoms(self) -> torch.Tensor:
        """Columns of the dictionary, one per row."""
        return self.weight.detach().T.clone()

    @torch.no_grad()
    def start_from(self, samples: torch.Tensor) -> bool:
        """Point the atoms at samples, mixed with a little of their old directions.

        The atoms keep their norms; those for which there is no sample stay as they are.
        """
        weight, samples = self.weight, samples.T
        columns = weight[:, : samples.shape[1]]
        norms = torch.linalg.vector_norm(columns, dim=0)
        # without the old directions, atoms from equal samples would stay equal forever
        size = torch.linalg.vector_norm(samples, dim=0)
        mixed = samples / torch.where(size > 0, size, 1.0) + 0.1 * columns / norms
        columns.copy_(mixed * (norms / torch.linalg.vector_norm(mixed, dim=0)))
        return True

    @torch.no_grad()
    def set_weights(self, weight: torch.Tensor, bias: torch.Tensor) -> None:
        """Replace the dictionary, and the bias if there is one."""
        self.weight.copy_(weight)
        if self.bias is not None:
            self.bias.copy_(bias)

    @torch.no_grad()
    def revive(self, components: torch.Tensor, directions: torch.Tensor) -> torch.Tensor:
        """Point unused atoms in directions of the data, with the mean norm of the others."""
        return replace_columns(self.weight, components, directions.T)


@torch.no_grad()
def replace_columns(
    weight: torch.Tensor, components: torch.Tensor, columns: torch.Tensor
) -> torch.Tensor:
    """Give some columns new directions and the mean norm of the others, which is returned."""
    norms = torch.linalg.vector_norm(weight, dim=0)
    others = torch.ones_like(norms).index_fill_(0, components, 0.0)
    size = (norms * others).sum() / others.sum().clamp_min(1)
    size = torch.where(size > 0, size, 1.0)
    columns = columns / torch.linalg.vector_norm(columns, dim=0).clamp_min(1e-12)
    weight[:, components] = columns * size
    return size


def linear_term(
    Y: torch.Tensor,
    W: torch.Tensor,
    *,
    seen: torch.Tensor | None = None,
    n_evaluations: int = USUAL_EVALUATIONS,
) -> QuadraticTerm:
    """Data term of a dictionary in the form that takes fewer multiplications in all.

    Parameters
    ----------
    Y : torch.Tensor of shape (n, d)
        Data.
    W : torch.Tensor of shape (d, l)
        Dictionary, atoms in columns.
    seen : torch.Tensor of shape (n, d), optional
        1 for entries that count, 0 for others. With it each row has its own Gram matrix, so that
        only the residual form is left.
    n_evaluations : int
        Expected number of evaluations: preparing a Gram matrix pays off if there are many.

    Returns
    -------
    GramTerm or ResidualTerm
        The term.
    """
    n, d = Y.shape
    n_components = W.shape[1]
    gram = n_components * d * (n_components + n) + n_evaluations * n * n_components**2
    residual = n_evaluations * 2 * n * d * n_components
    if seen is None and gram < residual:
        return GramTerm(Y, W)
    return ResidualTerm(Y, W, seen)


class GramTerm(QuadraticTerm):
    """Dictionary through ``H = 2/d W'W``: one l x l product per evaluation.

    Parameters
    ----------
    Y : torch.Tensor of shape (n, d)
        Data.
    W : torch.Tensor of shape (d, l)
        Dictionary, atoms in columns.
    """

    def __init__(self, Y: torch.Tensor, W: torch.Tensor) -> None:
        super().__init__(Y, W.shape[1])
        self.W = W
        # set by `set_step`
        self.map = self.shift = W[:0]

    @cached_property
    def hessian(self) -> torch.Tensor:
        """Second derivative, of shape (l, l)."""
        hessian = (self.W.T @ self.W).mul_(2.0 / self.Y.shape[1])
        hessian.diagonal().add_(self.ridge)
        return hessian

    @cached_property
    def linear(self) -> torch.Tensor:
        """Minus the gradient at codes of 0, of shape (n, l)."""
        linear = (self.Y @ self.W).mul_(2.0 / self.Y.shape[1]).sub_(self.tilt)
        return linear if self.centre is None else linear.add_(self.centre, alpha=self.ridge)

    @cached_property
    def constant(self) -> torch.Tensor:
        """Value of codes of 0, of shape (n,)."""
        constant = torch.linalg.vector_norm(self.Y, dim=1).square_() / self.Y.shape[1]
        if self.ridge and self.centre is not None:
            constant.add_(self.centre.square().sum(dim=1), alpha=self.ridge / 2)
        return constant

    def to(self, dtype: torch.dtype) -> "GramTerm":
        """Rebuild the term in another precision."""
        return GramTerm(self.Y.to(dtype), self.W.to(dtype))

    def factors(self) -> tuple[torch.Tensor, torch.Tensor] | None:
        """Data and dictionary."""
        return self.Y, self.W

    def error_curvature(self) -> torch.Tensor:
        """Bound the second derivative of the reconstruction error."""
        data = self.hessian.clone()
        data.diagonal().sub_(self.ridge)
        return eigenvalue_bound(data)

    def diagonal(self) -> torch.Tensor:
        """Second derivative along each component."""
        return self.hessian.diagonal()

    def relative_curvature(self) -> torch.Tensor:
        """Bound the second derivative after scaling each component to a `diagonal` of 1."""
        size = _inverse_root(self.diagonal())
        return eigenvalue_bound(self.hessian * size * size[:, None])

    def grad(self, Z: torch.Tensor) -> torch.Tensor:
        """Gradient at the codes."""
        return torch.addmm(self.linear, Z, self.hessian, beta=-1)

    def hessian_product(self, direction: torch.Tensor) -> torch.Tensor:
        """How the gradient changes along a direction of each row."""
        return direction @ self.hessian

    def set_step(self, step: torch.Tensor) -> None:
        """Fold a step into the quadratic, for `descend`."""
        self.map = self.hessian * -step
        self.map.diagonal().add_(1.0)
        self.shift = self.linear * step

    def descend(self, Z: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        """Codes after one gradient step, written into `out` if given."""
        return torch.addmm(self.shift, Z, self.map, out=out)

    def error_and_grad(self, Z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Value of each row, and gradient, with what was folded in."""
        grad = self.grad(Z)
        value = torch.linalg.vecdot(Z, grad - self.linear)
        return torch.add(self.constant, value, alpha=0.5), grad

    value_and_grad = error_and_grad

    def take(self, rows: torch.Tensor) -> None:
        """Keep only some rows; the data themselves are no longer needed."""
        # computed from all rows if they were not yet
        self.linear, self.constant = self.linear[rows], self.constant[rows]
        if len(self.shift):
            self.shift = self.shift[rows]


class ResidualTerm(QuadraticTerm):
    """Dictionary through the residual: two d x l products per evaluation.

    Parameters
    ----------
    Y : torch.Tensor of shape (n, d)
        Data.
    W : torch.Tensor of shape (d, l)
        Dictionary, atoms in columns.
    seen : torch.Tensor of shape (n, d), optional
        1 for entries that count, 0 for others.

    Attributes
    ----------
    residual : torch.Tensor of shape (n, d)
        Reconstruction minus data at the last codes that were evaluated.
    """

    def __init__(self, Y: torch.Tensor, W: torch.Tensor, seen: torch.Tensor | None = None) -> None:
        super().__init__(Y, W.shape[1])
        self.W = W
        self.seen = seen
        self.scale = 2.0 / Y.shape[1]

    def to(self, dtype: torch.dtype) -> "ResidualTerm":
        """Rebuild the term in another precision."""
        seen = None if self.seen is None else self.seen.to(dtype)
        return ResidualTerm(self.Y.to(dtype), self.W.to(dtype), seen)

    def factors(self) -> tuple[torch.Tensor, torch.Tensor] | None:
        """Data and dictionary, if every entry is seen."""
        return (self.Y, self.W) if self.seen is None else None

    def error_curvature(self) -> torch.Tensor:
        """Bound the second derivative; missing entries can only lower it."""
        return gram_bound(self.W) * self.scale

    def diagonal(self) -> torch.Tensor:
        """Second derivative along each component, as if every entry of the data were seen."""
        return self.W.square().sum(dim=0).mul_(self.scale).add_(self.ridge)

    def relative_curvature(self) -> torch.Tensor:
        """Bound the second derivative after scaling each component to a `diagonal` of 1."""
        size = _inverse_root(self.diagonal())
        return gram_bound(self.W * size) * self.scale + (size.square() * self.ridge).amax()

    def hessian_product(self, direction: torch.Tensor) -> torch.Tensor:
        """How the gradient changes along a direction of each row."""
        change = direction @ self.W.T
        if self.seen is not None:
            change.mul_(self.seen)
        return (change @ self.W).mul_(self.scale).add_(direction, alpha=self.ridge)

    def error_and_grad(self, Z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Reconstruction error of each row, and its gradient, at the codes."""
        self.residual = residual = torch.addmm(self.Y, Z, self.W.T, beta=-1)
        if self.seen is not None:
            residual.mul_(self.seen)
        value = torch.linalg.vecdot(residual, residual) * (self.scale / 2)
        return value, (residual @ self.W).mul_(self.scale)

    def take(self, rows: torch.Tensor) -> None:
        """Keep only some rows."""
        super().take(rows)
        if self.seen is not None:
            self.seen = self.seen[rows]


def _inverse_root(diagonal: torch.Tensor) -> torch.Tensor:
    """Root of the inverse; 0 where a component has no curvature, being an atom of zeros."""
    return torch.where(
        diagonal > 0, diagonal.clamp_min(torch.finfo(diagonal.dtype).tiny), torch.inf
    ).rsqrt()
