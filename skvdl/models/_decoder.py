"""What every decoder has; autograd does for a new one what the others do by hand."""

from abc import ABC, abstractmethod
from typing import Self

import torch
from torch import nn

from ._data_terms import USUAL_EVALUATIONS, DataTerm
from ._weights import gram_bound


class Decoder(nn.Module, ABC):
    """Map codes to data. A subclass needs only its parameters and `forward`.

    Parameters
    ----------
    n_components : int
        Length of a code.
    n_features : int
        Length of a sample.
    """

    #: Whether data terms are quadratic in the codes, and know their own curvature.
    quadratic = False

    def __init__(self, n_components: int, n_features: int) -> None:
        super().__init__()
        self.n_components = n_components
        self.n_features = n_features

    @abstractmethod
    def forward(self, Z: torch.Tensor) -> torch.Tensor:
        """Reconstruct data from codes."""

    @classmethod
    def from_weights(cls, weights: dict[str, torch.Tensor]) -> Self:
        """Build a decoder with the weights of a `state_dict`, to which its shape is fitted."""
        raise TypeError(f"A {cls.__name__} cannot be built from its weights alone.")

    @property
    def layer_sizes(self) -> list[int]:
        """Width of each layer, from the code to the data."""
        return [self.n_components, self.n_features]

    @property
    def matrices(self) -> list[nn.Parameter]:
        """Weights that weight decay applies to, and whose columns can be held at unit norm."""
        return [p for p in self.parameters() if p.ndim > 1]

    @property
    def biases(self) -> list[nn.Parameter]:
        """All other weights."""
        return [p for p in self.parameters() if p.ndim <= 1]

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        """Type of the weights."""
        return next(self.parameters()).dtype

    def data_term(
        self,
        Y: torch.Tensor,
        *,
        seen: torch.Tensor | None = None,
        n_evaluations: int = USUAL_EVALUATIONS,
        curvature: torch.Tensor | None = None,
    ) -> DataTerm:
        """Reconstruction error of a batch as a function of its codes.

        Parameters
        ----------
        Y : torch.Tensor of shape (n, n_features)
            Data, whose type the term computes in.
        seen : torch.Tensor of shape (n, n_features), optional
            1 for entries that count, 0 for others, which may be any finite number.
        n_evaluations : int
            Expected number of evaluations: the more, the more preparation pays off.
        curvature : torch.Tensor of shape (), optional
            `curvature` of the decoder, if it is roughly known, so that it need not be computed. A
            decoder whose terms are quadratic ignores it.

        Returns
        -------
        DataTerm
            The term.
        """
        return AutogradTerm(self, Y, seen, curvature)

    @torch.no_grad()
    def curvature(self) -> torch.Tensor:
        """Second derivative of the reconstruction error if reconstructions were sums of atoms.

        An upper bound for an affine decoder; otherwise an estimate, neither an upper nor a lower
        bound.
        """
        return gram_bound(self.atoms()) * (2.0 / self.n_features)

    def set_gradients(
        self,
        Z: torch.Tensor,
        Y: torch.Tensor,
        *,
        seen: torch.Tensor | None = None,
        term: DataTerm | None = None,
    ) -> torch.Tensor:
        """Set the gradients of all weights for the mean squared error of reconstructions.

        Of no rows at all, whose mean is not defined, gradients may be anything.

        Parameters
        ----------
        Z : torch.Tensor of shape (n, n_components)
            Codes.
        Y : torch.Tensor of shape (n, n_features)
            Data.
        seen : torch.Tensor of shape (n, n_features), optional
            1 for entries that count, 0 for others.
        term : DataTerm, optional
            The data term that the codes were found with, whose last evaluation may be reused.

        Returns
        -------
        torch.Tensor of shape ()
            The mean squared error.
        """
        self.zero_grad()
        with torch.enable_grad():
            residual = self(Z) - Y
            error = (residual if seen is None else residual * seen).square().mean()
            error.backward()
        return error.detach()

    @torch.no_grad()
    def normalise(self) -> None:
        """Scale the columns of all matrices to norm 1; a column of zeros stays as it is."""
        if any(weight.ndim != 2 for weight in self.matrices):
            raise ValueError(
                f"{type(self).__name__} has weights without columns, whose norm could be 1; use "
                "another regularizer, or a decoder that overrides normalise."
            )
        for weight in self.matrices:
            # on CPUs some ten times as fast as torch.linalg.vector_norm down the columns
            norm = weight.square().sum(dim=0).sqrt_()
            weight.div_(torch.where(norm > 0, norm, 1.0))

    @torch.no_grad()
    def atoms(self) -> torch.Tensor:
        """What each component adds to the reconstruction when it alone is active.

        Returns
        -------
        torch.Tensor of shape (n_components, n_features)
            ``D(e_i) - D(0)`` for every unit vector ``e_i``.
        """
        unit = torch.eye(self.n_components, dtype=self.dtype, device=self.device)
        return self(unit) - self(torch.zeros_like(unit[:1]))

    def start_from(self, samples: torch.Tensor) -> bool:
        """Improve the random weights with the help of data, if the decoder knows how.

        Parameters
        ----------
        samples : torch.Tensor of shape (n, n_features)
            Samples drawn at random, at most as many as there are components.

        Returns
        -------
        bool
            Whether the atoms now look like the data, so that an encoder can imitate them.
        """
        return False

    def revive(self, components: torch.Tensor, directions: torch.Tensor) -> torch.Tensor:
        """Point unused components in directions of the data.

        Parameters
        ----------
        components : torch.Tensor of shape (k,)
            Indices of the components.
        directions : torch.Tensor of shape (k, n_features)
            The directions, with norm 1.

        Returns
        -------
        torch.Tensor of shape ()
            Norm that the components were given.
        """
        raise ValueError(
            f"{type(self).__name__} has no way to revive components; use revive_dead=False."
        )


class AutogradTerm(DataTerm):
    """Data term of any decoder, differentiated by autograd."""

    def __init__(
        self,
        decoder: Decoder,
        Y: torch.Tensor,
        seen: torch.Tensor | None,
        curvature: torch.Tensor | None,
    ) -> None:
        super().__init__(Y, decoder.n_components)
        self.decoder = decoder
        self.seen = seen
        self.known_curvature = curvature

    def error_curvature(self) -> torch.Tensor:
        """Estimate the second derivative."""
        known = self.known_curvature
        return self.decoder.curvature() if known is None else known

    # Solvers work in inference mode, whose tensors autograd refuses.
    @torch.inference_mode(False)
    def error_and_grad(self, Z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Reconstruction error of each row, and its gradient, at the codes."""
        with torch.enable_grad():
            Z = Z.clone().requires_grad_()
            residual = self.decoder(Z) - self.Y
            if self.seen is not None:
                residual = residual * self.seen
            error = residual.square().mean(dim=1)
            (grad,) = torch.autograd.grad(error.sum(), Z)
        return error.detach(), grad

    @torch.inference_mode(False)
    def take(self, rows: torch.Tensor) -> None:
        """Keep only some rows."""
        super().take(rows)
        if self.seen is not None:
            self.seen = self.seen[rows]
