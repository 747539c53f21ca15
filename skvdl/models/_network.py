"""The multi-layer decoder: relu hidden layers in front of a dictionary."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple, Self

import torch
from torch import nn

from ._data_terms import USUAL_EVALUATIONS, DataTerm, QuadraticTerm
from ._decoder import Decoder
from ._linear import ResidualTerm, linear_term, replace_columns
from ._weights import eigenvalue_bound, uniform_parameter


class NetworkDecoder(Decoder):
    """Network with relu hidden layers; only these have biases.

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
    dtype : torch.dtype
        Type of the weights.

    Attributes
    ----------
    weights : torch.nn.ParameterList
        One matrix per layer, of shape (outputs, inputs).
    hidden_biases : torch.nn.ParameterList
        One vector per hidden layer.
    """

    def __init__(
        self,
        n_components: int,
        hidden_layer_sizes: Sequence[int],
        n_features: int,
        *,
        generator: torch.Generator,
        dtype: torch.dtype,
    ) -> None:
        super().__init__(n_components, n_features)
        sizes = [n_components, *hidden_layer_sizes, n_features]
        self.weights = nn.ParameterList(
            uniform_parameter(outputs, inputs, fan_in=inputs, generator=generator, dtype=dtype)
            for inputs, outputs in pairwise(sizes)
        )
        self.hidden_biases = nn.ParameterList(
            uniform_parameter(width, fan_in=inputs, generator=generator, dtype=dtype)
            for inputs, width in pairwise(sizes[:-1])
        )

    @classmethod
    def from_weights(cls, weights: dict[str, torch.Tensor]) -> Self:
        """Build a network with the weights of a `state_dict`."""
        layers = [value for name, value in weights.items() if name.startswith("weights.")]
        sizes = [layers[0].shape[1], *(len(layer) for layer in layers)]
        if any(
            layer.shape != (b, a) for layer, (a, b) in zip(layers, pairwise(sizes), strict=True)
        ):
            raise ValueError("the layers do not fit together")
        generator = torch.Generator(device="cpu")
        dtype = layers[0].dtype
        decoder = cls(sizes[0], sizes[1:-1], sizes[-1], generator=generator, dtype=dtype)
        decoder.load_state_dict(weights)
        return decoder

    @property
    def layer_sizes(self) -> list[int]:
        """Width of each layer, from the code to the data."""
        return [self.n_components, *(weight.shape[0] for weight in self.weights)]

    @property
    def hidden(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Weight and bias of each hidden layer, from the code outwards."""
        return list(zip(self.weights, self.hidden_biases, strict=False))

    def forward(self, Z: torch.Tensor) -> torch.Tensor:
        """Reconstruct data from codes."""
        return nn.functional.linear(_activations(self.hidden, Z)[-1], self.weights[-1])

    def data_term(
        self,
        Y: torch.Tensor,
        *,
        seen: torch.Tensor | None = None,
        n_evaluations: int = USUAL_EVALUATIONS,
        curvature: torch.Tensor | None = None,
    ) -> "NetworkTerm":
        """Reconstruction error of a batch, its last layer in the cheapest form."""
        W = self.weights[-1].detach()
        last = linear_term(Y, W, seen=seen, n_evaluations=n_evaluations)
        return NetworkTerm(self, last, curvature)

    @torch.no_grad()
    def curvature(self) -> torch.Tensor:
        """Second derivative of the reconstruction error if every unit were active.

        An estimate; neither an upper nor a lower bound: units that are off make it too large,
        the kinks of the relus too small.
        """
        product = self.weights[0].detach()
        for weight in self.weights[1:]:
            product = weight @ product
        return eigenvalue_bound(product.T @ product) * (2.0 / product.shape[0])

    @torch.no_grad()
    def set_gradients(
        self,
        Z: torch.Tensor,
        Y: torch.Tensor,
        *,
        seen: torch.Tensor | None = None,
        term: DataTerm | None = None,
    ) -> torch.Tensor:
        """Set the gradients of all weights; see `Decoder.set_gradients`.

        If the term was last evaluated at the codes, half of the work is done.
        """
        trace = term.trace if isinstance(term, NetworkTerm) else None
        if trace is None or not torch.equal(trace.activations[0], Z):
            last = ResidualTerm(Y, self.weights[-1].detach(), seen)
            fresh = NetworkTerm(self, last, None)
            fresh.error_and_grad(Z)
            trace = fresh.trace
            assert trace is not None
        error = torch.linalg.vector_norm(trace.residual).square() / Y.numel()
        # slopes are those of a sum over rows of means over features
        slopes = [*trace.slopes[1:], trace.residual * (2.0 / Y.shape[1])]
        alpha = 1 / max(1, len(Y))
        for weight, slope, entered in zip(self.weights, slopes, trace.activations, strict=True):
            weight.grad = torch.addmm(weight, slope.T, entered, beta=0, alpha=alpha)
        for bias, slope in zip(self.hidden_biases, slopes, strict=False):
            bias.grad = slope.mean(dim=0)
        return error

    @torch.no_grad()
    def revive(self, components: torch.Tensor, directions: torch.Tensor) -> torch.Tensor:
        """Point unused components in directions of the data, mapped back to the first layer."""
        columns = directions.T
        for weight in reversed(list(self.weights)[1:]):
            columns = weight.T @ columns
        return replace_columns(self.weights[0], components, columns)


def _activations(
    hidden: list[tuple[torch.Tensor, torch.Tensor]], Z: torch.Tensor
) -> list[torch.Tensor]:
    """Codes and the output of each hidden layer."""
    outputs = [Z]
    for weight, bias in hidden:
        outputs.append(torch.addmm(bias, outputs[-1], weight.T).relu_())
    return outputs


def _slopes(
    hidden: list[tuple[torch.Tensor, torch.Tensor]],
    activations: list[torch.Tensor],
    grad: torch.Tensor,
) -> list[torch.Tensor]:
    """Carry a gradient back from the last hidden layer's output.

    Returns the gradients with respect to the codes and to what enters each relu.
    """
    slopes: list[torch.Tensor] = []
    for (weight, _), active in zip(hidden[::-1], activations[:0:-1], strict=True):
        # the backward pass of a relu, which is 0 where its output is
        slopes.insert(0, torch.ops.aten.threshold_backward(grad, active, 0.0))
        grad = slopes[0] @ weight
    return [grad, *slopes]


class Trace(NamedTuple):
    """Intermediate results of evaluating a network's data term.

    Attributes
    ----------
    activations : list of torch.Tensor
        Codes and the output of each hidden layer.
    slopes : list of torch.Tensor
        Gradient with respect to the codes and to what enters each relu.
    residual : torch.Tensor of shape (n, d)
        Reconstruction minus data.
    """

    activations: list[torch.Tensor]
    slopes: list[torch.Tensor]
    residual: torch.Tensor


class NetworkTerm(DataTerm):
    """Data term of a network: that of its last layer, seen through the hidden ones.

    Parameters
    ----------
    decoder : NetworkDecoder
        The network.
    last : GramTerm or ResidualTerm
        Data term of the last layer, a function of the last hidden activations.
    curvature : torch.Tensor of shape () or None
        The decoder's curvature, if roughly known.

    Attributes
    ----------
    trace : Trace or None
        The last evaluation, if the last layer works through the residual.
    """

    def __init__(
        self,
        decoder: NetworkDecoder,
        last: QuadraticTerm,
        curvature: torch.Tensor | None,
    ) -> None:
        super().__init__(last.Y, decoder.n_components)
        self.decoder = decoder
        # once: looking a parameter up takes longer than adding a bias to a few rows
        self.hidden = [(weight.detach(), bias.detach()) for weight, bias in decoder.hidden]
        self.last = last
        self.known_curvature = curvature
        self.trace: Trace | None = None

    def error_curvature(self) -> torch.Tensor:
        """Estimate the second derivative."""
        known = self.known_curvature
        return self.decoder.curvature() if known is None else known

    def error_and_grad(self, Z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Reconstruction error of each row, and its gradient, at the codes."""
        activations = _activations(self.hidden, Z)
        value, grad = self.last.error_and_grad(activations[-1])
        slopes = _slopes(self.hidden, activations, grad)
        if isinstance(self.last, ResidualTerm):
            self.trace = Trace(activations, slopes, self.last.residual)
        return value, slopes[0]

    def take(self, rows: torch.Tensor) -> None:
        """Keep only some rows."""
        self.last.take(rows)
        if self.centre is not None:
            self.centre = self.centre[rows]
