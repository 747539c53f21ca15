"""The encoder: predicts codes from data in a fixed number of steps."""

from functools import partial

import torch
from torch import nn

from ._decoder import Decoder
from ._weights import gram_bound, uniform_parameter


class LISTA(nn.Module):
    """Learned ISTA: ``u = U y + b``, then a few rounds of ``z = shrink(u + S z)``.

    The shrinkage is a relu for non-negative codes, and a soft threshold with one learned
    threshold per component for signed ones.

    ISTA itself has ``S = I - step W'W``, so that S - I goes through the space of the data. Where
    codes are much longer than samples, S is therefore learnt as ``diag(keep) + B R``, which takes
    fewer multiplications and far less memory.

    Parameters
    ----------
    n_features : int
        Length of a sample.
    n_components : int
        Length of a code.
    generator : torch.Generator
        Source of the initial weights.
    dtype : torch.dtype
        Type of the weights.
    positive : bool, default=True
        Whether codes are non-negative.
    factored : bool, optional
        Whether S is learnt in factors. By default it is if that takes fewer multiplications.

    Attributes
    ----------
    U : torch.nn.Parameter of shape (n_components, n_features)
        From data to codes.
    S : torch.nn.Parameter of shape (n_components, n_components) or None
        From codes to codes; None if it is factored.
    keep : torch.nn.Parameter of shape (n_components,)
        Diagonal, if S is factored.
    R : torch.nn.Parameter of shape (n_features, n_components)
        From codes to data, if S is factored.
    B : torch.nn.Parameter of shape (n_components, n_features)
        From there back to codes, if S is factored.
    b : torch.nn.Parameter of shape (n_components,)
        Bias.
    cut : torch.Tensor of shape (n_components,) or None
        Amplitudes up to which components are set to 0 in the end; negative numbers lower the
        threshold instead. None, as in training, leaves codes as they are.
    """

    #: Rounds after the first estimate ``shrink(u)``, as published.
    n_iter = 3

    def __init__(
        self,
        n_features: int,
        n_components: int,
        *,
        generator: torch.Generator,
        dtype: torch.dtype,
        positive: bool = True,
        factored: bool | None = None,
    ) -> None:
        super().__init__()
        self.U = uniform_parameter(
            n_components, n_features, fan_in=n_features, generator=generator, dtype=dtype
        )
        self.b = uniform_parameter(
            n_components, fan_in=n_features, generator=generator, dtype=dtype
        )
        draw = partial(uniform_parameter, fan_in=n_components, generator=generator, dtype=dtype)
        self.S: nn.Parameter | None
        if n_components > 2 * n_features if factored is None else factored:
            self.register_parameter("S", None)
            self.keep = nn.Parameter(torch.zeros_like(self.b))
            self.R = draw(n_features, n_components)
            self.B = draw(n_components, n_features)
        else:
            self.S = draw(n_components, n_components)
        self.threshold = None if positive else nn.Parameter(torch.full_like(self.b, 0.1))
        self.cut: torch.Tensor | None
        self.register_buffer("cut", None, persistent=False)

    @property
    def positive(self) -> bool:
        """Whether codes are non-negative."""
        return self.threshold is None

    @property
    def biases(self) -> list[nn.Parameter]:
        """Weights that bias decay applies to."""
        return [self.b]

    @property
    def matrices(self) -> list[nn.Parameter]:
        """All other weights."""
        return [p for p in self.parameters() if p is not self.b]

    def _shrink(self, V: torch.Tensor) -> torch.Tensor:
        if self.threshold is None:
            return V.relu_()
        return V.sign() * (V.abs() - self.threshold.relu()).relu()

    def evidence(self, Y: torch.Tensor) -> torch.Tensor:
        """What speaks for each component in the last round, before it is set to 0 or not."""
        U = nn.functional.linear(Y, self.U, self.b)
        V = U.clone()
        for _ in range(self.n_iter):
            V = self._recur(U, self._shrink(V))
        return V

    def _recur(self, U: torch.Tensor, Z: torch.Tensor) -> torch.Tensor:
        """Compute ``U + S Z``, for codes in rows."""
        if self.S is not None:
            return torch.addmm(U, Z, self.S.T)
        return torch.addmm(torch.addcmul(U, Z, self.keep), Z @ self.R.T, self.B.T)

    def forward(self, Y: torch.Tensor) -> torch.Tensor:
        """Predict codes from data."""
        V = self.evidence(Y)
        if self.cut is None:
            return self._shrink(V)
        size = V if self.threshold is None else V.abs() - self.threshold.relu()
        size = torch.where(size > self.cut, size - self.cut.clamp_max(0.0), 0.0)
        return size if self.threshold is None else size * V.sign()

    @torch.no_grad()
    def imitate(self, decoder: Decoder, slope: torch.Tensor, Y: torch.Tensor) -> None:
        """Set the weights to those of ISTA on a decoder's atoms.

        `slope` is the slope of the penalty at 0, one number for each component.

        Components that are off for all of the data `Y` get no threshold, because a unit that is
        always off cannot learn.
        """
        W = decoder.atoms().T
        scale = 2.0 / W.shape[0]
        step = 1.0 / gram_bound(W * scale**0.5)
        self.U.copy_(W.T * (step * scale))
        if self.S is not None:
            self.S.copy_(W.T @ W * (step * -scale))
            self.S.diagonal().add_(1.0)
        else:
            self.keep.fill_(1.0)
            self.R.copy_(W)
            self.B.copy_(self.U).neg_()
        threshold = step * slope
        if self.threshold is None:
            self.b.copy_(-threshold)
        else:
            self.b.zero_()
            self.threshold.copy_(threshold)
        off = (self(Y) == 0).all(dim=0)
        (self.b if self.threshold is None else self.threshold).masked_fill_(off, 0.0)

    @torch.no_grad()
    def revive(self, components: torch.Tensor, filters: torch.Tensor) -> None:
        """Make some components respond to new filters, and to nothing else."""
        self.U[components] = filters
        self.b[components] = 0.0
        if self.S is not None:
            self.S[components] = 0.0
            self.S[:, components] = 0.0
        else:
            self.keep[components] = 0.0
            self.R[:, components] = 0.0
            self.B[components] = 0.0
