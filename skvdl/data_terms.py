"""The smooth part of one batch's energy as a function of its codes, in the cheapest form.

Each term gives, for codes `Z` (n x l), one value a row and the gradient of::

    1/d ||y - D(z)||^2 + ridge/2 ||z - centre||^2 + tilt * sum_j z_j

The last two are there because they fold into a quadratic for free: proximity to the encoder's
prediction is a ridge of 2 gamma / l, and on non-negative codes the l1 norm is linear.
Constants that do not depend on the codes are kept, so that values are true energies.
"""

from typing import NamedTuple

import torch

from ._torch import eigenvalue_bound

__all__ = [
    "FactoredTerm",
    "GramTerm",
    "NetworkTerm",
    "Trace",
    "make_data_term",
    "make_linear_term",
    "network_curvature",
]


class Trace(NamedTuple):
    """What evaluating a network's data term computed on the way: a decoder can learn from it.

    Attributes
    ----------
    codes : torch.Tensor of shape (n, l)
        Where the term was evaluated.
    activations : list of torch.Tensor
        Output of each hidden layer.
    slopes : list of torch.Tensor
        Gradient with respect to what enters the relu of each hidden layer.
    residual : torch.Tensor of shape (n, d)
        Reconstruction minus data.

    Examples
    --------
    >>> from skvdl.data_terms import Trace
    >>> Trace._fields
    ('codes', 'activations', 'slopes', 'residual')
    """

    codes: torch.Tensor
    activations: list
    slopes: list
    residual: torch.Tensor


class GramTerm:
    """Linear decoder through ``H = 2/d W'W``: one l x l product an evaluation.

    Parameters
    ----------
    Y : torch.Tensor of shape (n, d)
        Data.
    W : torch.Tensor of shape (d, l)
        Dictionary, atoms in columns.
    ridge : float, default=0.0
        Weight of the pull to `centre`.
    centre : torch.Tensor of shape (n, l), optional
        Where the ridge pulls to; 0 when not given.
    tilt : float, default=0.0
        Weight of the sum of the codes.

    Examples
    --------
    >>> import torch
    >>> from skvdl.data_terms import GramTerm
    >>> term = GramTerm(torch.tensor([[3.0, 4.0]]), torch.eye(2))
    >>> term.value_and_grad(torch.zeros(1, 2))
    (tensor([12.5000]), tensor([[-3., -4.]]))
    """

    def __init__(self, Y, W, *, ridge=0.0, centre=None, tilt=0.0):
        scale = 2.0 / Y.shape[1]
        self.hessian = (W.T @ W).mul_(scale)
        self.hessian.diagonal().add_(ridge)
        self.ridge = ridge
        self.linear = (Y @ W).mul_(scale).sub_(tilt)
        self.constant = torch.linalg.vector_norm(Y, dim=1).square_() / Y.shape[1]
        self.shift = None
        if ridge and centre is not None:
            self.linear.add_(centre, alpha=ridge)
            self.constant.add_(centre.square().sum(dim=1), alpha=ridge / 2)

    def curvature(self):
        """Upper bound on the second derivative."""
        # of the data part first, to get what the factored form gets
        data = self.hessian.clone()
        data.diagonal().sub_(self.ridge)
        return eigenvalue_bound(data) + self.ridge

    def grad(self, Z):
        """Gradient at the codes."""
        return torch.addmm(self.linear, Z, self.hessian, beta=-1)

    def bend(self, direction):
        """How the gradient changes along directions: the second derivative times them."""
        return direction @ self.hessian

    def set_step(self, step):
        """Fold a step into the quadratic, for `descend`."""
        self.map = self.hessian * -step
        self.map.diagonal().add_(1.0)
        self.shift = self.linear * step

    def descend(self, Z, out=None):
        """Codes after one gradient step, written into `out` where given."""
        return torch.addmm(self.shift, Z, self.map, out=out)

    def value_and_grad(self, Z):
        """Value of each row, and gradient, at the codes."""
        grad = self.grad(Z)
        value = torch.linalg.vecdot(Z, grad - self.linear)
        return torch.add(self.constant, value, alpha=0.5), grad

    def take(self, rows):
        """Keep some rows only."""
        self.linear = self.linear[rows]
        self.constant = self.constant[rows]
        if self.shift is not None:
            self.shift = self.shift[rows]


class _UnfoldedTerm:
    """Ridge and tilt for terms with nothing to fold them into."""

    def __init__(self, ridge, centre, tilt):
        self.ridge = ridge
        self.centre = centre
        self.tilt = tilt

    def grad(self, Z):
        """Gradient at the codes."""
        return self.value_and_grad(Z)[1]

    def set_step(self, step):
        """Take note of a step, for `descend`."""
        self.step = step

    def descend(self, Z, out=None):
        """Codes after one gradient step, written into `out` where given."""
        return torch.addcmul(Z, self.grad(Z), self.step, value=-1, out=out)

    def value_and_grad(self, Z):
        """Value of each row, and gradient, at the codes."""
        value, grad = self._data_value_and_grad(Z)
        if self.ridge:
            offset = Z if self.centre is None else Z - self.centre
            value = torch.add(value, torch.linalg.vecdot(offset, offset), alpha=self.ridge / 2)
            grad.add_(offset, alpha=self.ridge)
        if self.tilt:
            value = torch.add(value, Z.sum(dim=1), alpha=self.tilt)
            grad.add_(self.tilt)
        return value, grad

    def take(self, rows):
        """Keep some rows only."""
        if self.centre is not None:
            self.centre = self.centre[rows]


class FactoredTerm(_UnfoldedTerm):
    """Linear decoder through the residual: two d x l products an evaluation.

    Parameters
    ----------
    Y : torch.Tensor of shape (n, d)
        Data.
    W : torch.Tensor of shape (d, l)
        Dictionary, atoms in columns.
    ridge : float, default=0.0
        Weight of the pull to `centre`.
    centre : torch.Tensor of shape (n, l), optional
        Where the ridge pulls to; 0 when not given.
    tilt : float, default=0.0
        Weight of the sum of the codes.

    Examples
    --------
    >>> import torch
    >>> from skvdl.data_terms import FactoredTerm
    >>> FactoredTerm(torch.ones(1, 2), torch.eye(2)).value_and_grad(torch.zeros(1, 2))
    (tensor([1.]), tensor([[-1., -1.]]))
    """

    def __init__(self, Y, W, *, ridge=0.0, centre=None, tilt=0.0):
        super().__init__(ridge, centre, tilt)
        self.Y = Y
        self.W = W
        self.scale = 2.0 / Y.shape[1]

    def curvature(self):
        """Upper bound on the second derivative."""
        W = self.W if self.W.shape[0] < self.W.shape[1] else self.W.T
        return eigenvalue_bound(W @ W.T) * self.scale + self.ridge

    def bend(self, direction):
        """How the gradient changes along directions: the second derivative times them."""
        bent = ((direction @ self.W.T) @ self.W).mul_(self.scale)
        return bent.add_(direction, alpha=self.ridge)

    def _data_value_and_grad(self, Z):
        self.residual = residual = torch.addmm(self.Y, Z, self.W.T, beta=-1)
        value = torch.linalg.vecdot(residual, residual) * (self.scale / 2)
        return value, (residual @ self.W).mul_(self.scale)

    def take(self, rows):
        """Keep some rows only."""
        super().take(rows)
        self.Y = self.Y[rows]


class NetworkTerm(_UnfoldedTerm):
    """Decoder with relu hidden layers in front of a linear one.

    Parameters
    ----------
    hidden : list of (torch.Tensor, torch.Tensor)
        Weight and bias of each hidden layer, from the code outwards.
    last : GramTerm or FactoredTerm
        The data term of the last layer, a function of the last hidden activations.
    ridge : float, default=0.0
        Weight of the pull to `centre`.
    centre : torch.Tensor of shape (n, l), optional
        Where the ridge pulls to; 0 when not given.
    tilt : float, default=0.0
        Weight of the sum of the codes.

    Examples
    --------
    >>> import torch
    >>> from skvdl.data_terms import FactoredTerm, NetworkTerm
    >>> last = FactoredTerm(torch.ones(1, 2), torch.eye(2))
    >>> term = NetworkTerm([(torch.eye(2), torch.zeros(2))], last)
    >>> term.value_and_grad(torch.tensor([[2.0, -1.0]]))
    (tensor([1.]), tensor([[1., 0.]]))
    """

    def __init__(self, hidden, last, *, ridge=0.0, centre=None, tilt=0.0):
        super().__init__(ridge, centre, tilt)
        self.hidden = hidden
        self.last = last
        self.trace = None

    def _data_value_and_grad(self, Z):
        activations, slopes = [Z], []
        for weight, bias in self.hidden:
            activations.append(torch.addmm(bias, activations[-1], weight.T).relu_())
        value, grad = self.last.value_and_grad(activations[-1])
        for (weight, _), active in zip(self.hidden[::-1], activations[:0:-1], strict=True):
            # the backward pass of a relu, which is 0 where its output is
            slopes.insert(0, torch.ops.aten.threshold_backward(grad, active, 0.0))
            grad = slopes[0] @ weight
        if isinstance(self.last, FactoredTerm):
            self.trace = Trace(Z, activations[1:], slopes, self.last.residual)
        return value, grad

    def take(self, rows):
        """Keep some rows only."""
        super().take(rows)
        self.last.take(rows)


@torch.no_grad()
def network_curvature(decoder):
    """Second derivative of a network's data term if every unit were active.

    An estimate, neither bound: units that are off make it too large, the kinks of the relus
    too small.

    Parameters
    ----------
    decoder : MLPDecoder
        The network.

    Returns
    -------
    torch.Tensor of shape ()
        The estimate.

    Examples
    --------
    >>> import torch
    >>> from skvdl.data_terms import network_curvature
    >>> from skvdl.decoders import MLPDecoder
    >>> decoder = MLPDecoder(3, (5,), 8, generator=torch.Generator().manual_seed(0))
    >>> product = decoder.weights[1].detach() @ decoder.weights[0].detach()
    >>> exact = 2 / 8 * torch.linalg.matrix_norm(product, 2) ** 2
    >>> bool(exact <= network_curvature(decoder) < 1.1 * exact)
    True
    """
    product = decoder.weights[0].detach()
    for weight in decoder.weights[1:]:
        product = weight @ product
    return eigenvalue_bound(product.T @ product) * (2.0 / product.shape[0])


def make_linear_term(Y, W, *, n_evaluations=50, **extra):
    """Data term of a dictionary in the form that takes fewer multiplications in all.

    Parameters
    ----------
    Y : torch.Tensor of shape (n, d)
        Data.
    W : torch.Tensor of shape (d, l)
        Dictionary, atoms in columns.
    n_evaluations : int, default=50
        How often the term is likely to be evaluated: preparing a Gram matrix pays if often.
    **extra : dict
        Further arguments of :class:`GramTerm` and :class:`FactoredTerm`.

    Returns
    -------
    GramTerm or FactoredTerm
        The term.

    Examples
    --------
    >>> import torch
    >>> from skvdl.data_terms import make_linear_term
    >>> type(make_linear_term(torch.ones(50, 90), torch.ones(90, 10))).__name__
    'GramTerm'
    """
    n, d = Y.shape
    n_components = W.shape[1]
    gram = n_components * d * (n_components + n) + n_evaluations * n * n_components**2
    factored = n_evaluations * 2 * n * d * n_components
    return (GramTerm if gram < factored else FactoredTerm)(Y, W, **extra)


def make_data_term(Y, decoder, *, n_evaluations=50, ridge=0.0, centre=None, tilt=0.0):
    """Data term of a decoder in the form that is cheapest for the shapes at hand.

    Parameters
    ----------
    Y : torch.Tensor of shape (n, d)
        Data.
    decoder : MLPDecoder
        Decoder, linear or with hidden layers.
    n_evaluations : int, default=50
        How often the term is likely to be evaluated: preparing a Gram matrix pays if often.
    ridge : float, default=0.0
        Weight of the pull to `centre`.
    centre : torch.Tensor of shape (n, l), optional
        Where the ridge pulls to; 0 when not given.
    tilt : float, default=0.0
        Weight of the sum of the codes.

    Returns
    -------
    GramTerm, FactoredTerm or NetworkTerm
        The term.

    Examples
    --------
    >>> import torch
    >>> from skvdl.data_terms import make_data_term
    >>> from skvdl.decoders import LinearDecoder
    >>> wide = LinearDecoder(200, 10, generator=torch.Generator().manual_seed(0))
    >>> type(make_data_term(torch.ones(5, 10), wide)).__name__
    'FactoredTerm'
    """
    extra = {"ridge": ridge, "centre": centre, "tilt": tilt}
    last = decoder.weights[-1].detach()
    hidden = [(weight.detach(), bias.detach()) for weight, bias in decoder.hidden]
    if not hidden:
        return make_linear_term(Y, last, n_evaluations=n_evaluations, **extra)
    last = make_linear_term(Y, last, n_evaluations=n_evaluations)
    return NetworkTerm(hidden, last, **extra)
