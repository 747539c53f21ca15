"""What predicts codes from data in a fixed number of steps."""

import torch
from torch import nn

from ._torch import eigenvalue_bound, uniform_parameter

__all__ = ["LISTA"]


class LISTA(nn.Module):
    """Learned ISTA: ``u = U y + b``, then a few rounds of ``z = shrink(u + S z)``.

    The shrinkage is a relu for non-negative codes, and a soft threshold with one learned
    threshold a component for signed ones.

    Parameters
    ----------
    n_features : int
        Length of a sample.
    n_components : int
        Length of a code.
    generator : torch.Generator
        Source of the initial weights.
    n_iter : int, default=3
        Rounds after the first estimate ``shrink(u)``.
    positive : bool, default=True
        Whether codes are non-negative.
    dtype : torch.dtype, default=torch.float32
        Type of the weights.

    Attributes
    ----------
    U : torch.nn.Parameter of shape (n_components, n_features)
        From data to codes.
    S : torch.nn.Parameter of shape (n_components, n_components)
        From codes to codes.
    b : torch.nn.Parameter of shape (n_components,)
        Bias.

    Examples
    --------
    >>> import torch
    >>> from skvdl.encoders import LISTA
    >>> encoder = LISTA(9, 4, generator=torch.Generator().manual_seed(0))
    >>> bool((encoder(torch.ones(2, 9)) >= 0).all())
    True
    """

    def __init__(
        self, n_features, n_components, *, generator, n_iter=3, positive=True, dtype=torch.float32
    ):
        super().__init__()
        make = {"generator": generator, "dtype": dtype}
        self.n_iter = n_iter
        self.U = uniform_parameter(n_components, n_features, fan_in=n_features, **make)
        self.b = uniform_parameter(n_components, fan_in=n_features, **make)
        self.S = uniform_parameter(n_components, n_components, fan_in=n_components, **make)
        self.threshold = None if positive else nn.Parameter(torch.full_like(self.b, 0.1))

    @torch.no_grad()
    def imitate(self, decoder, lam, Y):
        """Set the weights to those of ISTA on a dictionary.

        Components that are off for all of some data get no threshold, for a unit that is always
        off cannot learn.

        Parameters
        ----------
        decoder : LinearDecoder
            Decoder whose codes to predict.
        lam : float
            Weight of the l1 norm.
        Y : torch.Tensor of shape (n, n_features)
            Some data.
        """
        (W,) = decoder.weights
        hessian = (W.T @ W) * (2.0 / W.shape[0])
        step = 1.0 / eigenvalue_bound(hessian)
        self.U.copy_(W.T * (step * 2.0 / W.shape[0]))
        self.S.copy_(hessian * -step)
        self.S.diagonal().add_(1.0)
        threshold = step * lam
        if self.threshold is None:
            self.b.copy_(-threshold.expand_as(self.b))
        else:
            self.b.zero_()
            self.threshold.copy_(threshold.expand_as(self.b))
        off = (self(Y) == 0).all(dim=0)
        (self.b if self.threshold is None else self.threshold)[off] = 0.0

    def _shrink(self, V):
        if self.threshold is None:
            return V.relu_()
        return V.sign() * (V.abs() - self.threshold.relu()).relu()

    def forward(self, Y):
        """Predict codes.

        Parameters
        ----------
        Y : torch.Tensor of shape (n, n_features)
            Data.

        Returns
        -------
        torch.Tensor of shape (n, n_components)
            Their codes.
        """
        U = nn.functional.linear(Y, self.U, self.b)
        Z = self._shrink(U.clone())
        for _ in range(self.n_iter):
            Z = self._shrink(torch.addmm(U, Z, self.S.T))
        return Z
