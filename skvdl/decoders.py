"""What turns codes into data: a linear dictionary, or a network with hidden layers."""

from itertools import pairwise

import torch
from torch import nn

from ._torch import uniform_parameter
from .data_terms import Trace

__all__ = ["LinearDecoder", "MLPDecoder"]


class MLPDecoder(nn.Module):
    """Network with relu hidden layers, biases in these, and none at the end.

    Parameters
    ----------
    n_components : int
        Length of a code.
    hidden_layer_sizes : sequence of int
        Width of each hidden layer, from the code outwards.
    n_features : int
        Length of a sample.
    generator : torch.Generator
        Source of the initial weights.
    dtype : torch.dtype, default=torch.float32
        Type of the weights.

    Attributes
    ----------
    weights : torch.nn.ParameterList
        One matrix a layer, of shape (outputs, inputs).
    biases : torch.nn.ParameterList
        One vector a hidden layer.

    Examples
    --------
    >>> import torch
    >>> from skvdl.decoders import MLPDecoder
    >>> decoder = MLPDecoder(4, (16,), 9, generator=torch.Generator().manual_seed(0))
    >>> decoder(torch.zeros(2, 4)).shape
    torch.Size([2, 9])
    """

    def __init__(
        self, n_components, hidden_layer_sizes, n_features, *, generator, dtype=torch.float32
    ):
        super().__init__()
        sizes = [n_components, *hidden_layer_sizes, n_features]
        make = {"generator": generator, "dtype": dtype}
        self.weights = nn.ParameterList(
            uniform_parameter(outputs, inputs, fan_in=inputs, **make)
            for inputs, outputs in pairwise(sizes)
        )
        self.biases = nn.ParameterList(
            uniform_parameter(width, fan_in=inputs, **make)
            for inputs, width in pairwise(sizes[:-1])
        )

    @property
    def hidden(self):
        """Pairs of weight and bias of the hidden layers.

        Returns
        -------
        list of tuple
            (weight, bias) of each hidden layer, from the code outwards.
        """
        return list(zip(self.weights, self.biases, strict=False))

    def forward(self, Z):
        """Reconstruct data from codes.

        Parameters
        ----------
        Z : torch.Tensor of shape (n, n_components)
            Codes.

        Returns
        -------
        torch.Tensor of shape (n, n_features)
            Reconstructions.
        """
        for weight, bias in self.hidden:
            Z = nn.functional.linear(Z, weight, bias).relu()
        return nn.functional.linear(Z, self.weights[-1])

    @torch.no_grad()
    def backward(self, Z, Y, trace=None):
        """Set the gradients of all weights for the mean squared error of reconstructions.

        By hand, for autograd takes twice as many passes over what has the size of the data.

        Parameters
        ----------
        Z : torch.Tensor of shape (n, n_components)
            Codes.
        Y : torch.Tensor of shape (n, n_features)
            Data.
        trace : Trace, optional
            Last evaluation of the data term by the solver. If that was at the codes, half of
            the work is done.

        Returns
        -------
        torch.Tensor of shape ()
            The mean squared error.
        """
        if trace is None or not torch.equal(trace.codes, Z):
            trace = self._trace(Z, Y)
        error = torch.linalg.vector_norm(trace.residual).square() / Y.numel()
        inputs = [Z, *trace.activations]
        # slopes are those of a sum over rows of means over features
        slopes = [*trace.slopes, trace.residual * (2.0 / Y.shape[1])]
        for weight, slope, entered in zip(self.weights, slopes, inputs, strict=True):
            weight.grad = torch.addmm(weight, slope.T, entered, beta=0, alpha=1 / len(Y))
        for bias, slope in zip(self.biases, slopes, strict=False):
            bias.grad = slope.mean(dim=0)
        return error

    def _trace(self, Z, Y):
        activations, slopes = [Z], []
        for weight, bias in self.hidden:
            activations.append(torch.addmm(bias, activations[-1], weight.T).relu_())
        residual = torch.addmm(Y, activations[-1], self.weights[-1].T, beta=-1)
        slope = residual * (2.0 / Y.shape[1])
        for layer in range(len(self.biases), 0, -1):
            slope = slope @ self.weights[layer]
            slope = torch.ops.aten.threshold_backward(slope, activations[layer], 0.0)
            slopes.insert(0, slope)
        return Trace(Z, activations[1:], slopes, residual)

    @torch.no_grad()
    def atoms(self):
        """What each component adds to the reconstruction when it alone is active.

        Returns
        -------
        torch.Tensor of shape (n_components, n_features)
            ``D(e_i) - D(0)`` for every unit vector ``e_i``.
        """
        first = self.weights[0]
        unit = torch.eye(first.shape[1], dtype=first.dtype, device=first.device)
        return self(unit) - self(torch.zeros_like(unit[:1]))


class LinearDecoder(MLPDecoder):
    """Dictionary: a sample is a weighted sum of columns, without bias.

    Parameters
    ----------
    n_components : int
        Length of a code.
    n_features : int
        Length of a sample.
    generator : torch.Generator
        Source of the initial weights.
    dtype : torch.dtype, default=torch.float32
        Type of the weights.

    Examples
    --------
    >>> import torch
    >>> from skvdl.decoders import LinearDecoder
    >>> decoder = LinearDecoder(4, 9, generator=torch.Generator().manual_seed(0))
    >>> torch.equal(decoder.atoms(), decoder.weights[0].detach().T)
    True
    """

    def __init__(self, n_components, n_features, *, generator, dtype=torch.float32):
        super().__init__(n_components, (), n_features, generator=generator, dtype=dtype)

    @torch.no_grad()
    def start_from(self, X, generator):
        """Point the atoms at samples drawn at random, with a little of what they were.

        The atoms keep their norms; those for which there is no sample stay as they are.

        Parameters
        ----------
        X : torch.Tensor of shape (n, n_features)
            Data.
        generator : torch.Generator
            Source of the draw, on the CPU.
        """
        (weight,) = self.weights
        drawn = torch.randperm(len(X), generator=generator, device=generator.device)
        samples = X[drawn[: weight.shape[1]].to(X.device)].to(weight.device).T
        columns = weight[:, : samples.shape[1]]
        norms = torch.linalg.vector_norm(columns, dim=0)
        # without the rest, atoms from equal samples would stay equal for ever
        size = torch.linalg.vector_norm(samples, dim=0)
        mixed = samples / torch.where(size > 0, size, 1.0) + 0.1 * columns / norms
        columns.copy_(mixed * (norms / torch.linalg.vector_norm(mixed, dim=0)))
