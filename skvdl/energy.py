"""The four terms of the energy, with their gradients, as pure functions of tensors.

Rows are samples. For a batch `Y` (n x d) with codes `Z` (n x l), the energy is::

    sum_i 1/d ||y_i - D(z_i)||^2                reconstruction
    + beta  * sum_j [(T - std_j(Z))_+]^2        variance hinge, over the batch
    + gamma * sum_i 1/l ||z_i - E(y_i)||^2      proximity to the encoder
    + lam   * sum_i ||z_i||_1                   sparsity

Terms that belong to a row return one number a row, the hinge one number a component.
"""

import torch

__all__ = [
    "proximity",
    "proximity_grad",
    "reconstruction",
    "reconstruction_grad",
    "sparsity",
    "sparsity_grad",
    "variance_hinge",
    "variance_hinge_force",
    "variance_hinge_grad",
]


def reconstruction(Y, Y_hat):
    """Mean squared error of each row.

    Parameters
    ----------
    Y : torch.Tensor of shape (n, d)
        The data.
    Y_hat : torch.Tensor of shape (n, d)
        Their reconstructions.

    Returns
    -------
    torch.Tensor of shape (n,)
        ``1/d ||y - y_hat||^2`` of each row.

    Examples
    --------
    >>> import torch
    >>> from skvdl.energy import reconstruction
    >>> reconstruction(torch.tensor([[1.0, 3.0]]), torch.zeros(1, 2))
    tensor([5.])
    """
    return (Y_hat - Y).square().mean(dim=1)


def reconstruction_grad(Y, Y_hat):
    """Gradient of :func:`reconstruction` with respect to the reconstructions.

    Parameters
    ----------
    Y : torch.Tensor of shape (n, d)
        The data.
    Y_hat : torch.Tensor of shape (n, d)
        Their reconstructions.

    Returns
    -------
    torch.Tensor of shape (n, d)
        ``2/d (y_hat - y)``.

    Examples
    --------
    >>> import torch
    >>> from skvdl.energy import reconstruction_grad
    >>> reconstruction_grad(torch.tensor([[1.0, 3.0]]), torch.zeros(1, 2))
    tensor([[-1., -3.]])
    """
    return (Y_hat - Y) * (2.0 / Y.shape[1])


def _spread(Z, deviation=None, scratch=None):
    """Deviations from the mean, their squared norm, and where that is but rounding error."""
    n = Z.shape[0]
    total = Z.sum(dim=0)
    deviation = torch.sub(Z, total, alpha=1.0 / n, out=deviation)
    square = torch.mul(deviation, deviation, out=scratch).sum(dim=0)
    noise = total.square_().mul_((16 * torch.finfo(Z.dtype).eps) ** 2 / n)
    return deviation, square, square <= noise


def variance_hinge_force(Z, threshold, *, deviation=None, scratch=None):
    """Gradient of the summed hinge in factors, which is how the solver wants it.

    Parameters
    ----------
    Z : torch.Tensor of shape (n, l)
        Codes of one batch, n at least 2.
    threshold : float
        Standard deviation below which a component is penalised.
    deviation : torch.Tensor of shape (n, l), optional
        Where to write the deviations.
    scratch : torch.Tensor of shape (n, l), optional
        Room for intermediate results.

    Returns
    -------
    deviation : torch.Tensor of shape (n, l)
        Codes less their mean over the batch.
    pull : torch.Tensor of shape (l,)
        ``(threshold - std)_+ / std``, 0 where a component does not vary. The gradient is
        ``-2 / (n - 1) * pull * deviation``.

    Examples
    --------
    >>> import torch
    >>> from skvdl.energy import variance_hinge_force
    >>> deviation, pull = variance_hinge_force(torch.tensor([[0.0, 0.0], [0.2, 0.0]]), 0.5)
    >>> deviation
    tensor([[-0.1000,  0.0000],
            [ 0.1000,  0.0000]])
    >>> pull
    tensor([2.5355, 0.0000])
    """
    deviation, square, constant = _spread(Z, deviation, scratch)
    pull = square.rsqrt_().mul_(threshold * (Z.shape[0] - 1) ** 0.5)
    pull.sub_(1.0).clamp_(min=0.0).masked_fill_(constant, 0.0)
    return deviation, pull


def variance_hinge(Z, threshold=0.5):
    """Squared hinge on the standard deviation of each component over the batch.

    Parameters
    ----------
    Z : torch.Tensor of shape (n, l)
        Codes of one batch.
    threshold : float, default=0.5
        Standard deviation below which a component is penalised.

    Returns
    -------
    torch.Tensor of shape (l,)
        ``[(threshold - std)_+]^2``, the deviation taken with n - 1; 0 for a single row, which
        has none.

    Examples
    --------
    >>> import torch
    >>> from skvdl.energy import variance_hinge
    >>> variance_hinge(torch.tensor([[0.0, 0.0], [0.0, 4.0]]))
    tensor([0.2500, 0.0000])
    """
    n = Z.shape[0]
    if n < 2:
        return torch.zeros_like(Z[0])
    _, square, _ = _spread(Z)
    return (threshold - square.sqrt_() * (n - 1) ** -0.5).clamp_(min=0.0).square_()


def variance_hinge_grad(Z, threshold=0.5):
    """Gradient of the sum of :func:`variance_hinge` over components.

    Parameters
    ----------
    Z : torch.Tensor of shape (n, l)
        Codes of one batch.
    threshold : float, default=0.5
        Standard deviation below which a component is penalised.

    Returns
    -------
    torch.Tensor of shape (n, l)
        The gradient; 0 where a component does not vary at all, where none is defined.

    Examples
    --------
    >>> import torch
    >>> from skvdl.energy import variance_hinge_grad
    >>> variance_hinge_grad(torch.zeros(3, 1)).flatten().abs()
    tensor([0., 0., 0.])
    """
    n = Z.shape[0]
    if n < 2:
        return torch.zeros_like(Z)
    deviation, pull = variance_hinge_force(Z, threshold)
    return deviation * (pull * (-2.0 / (n - 1)))


def proximity(Z, target):
    """Mean squared distance of each code to its target.

    Parameters
    ----------
    Z : torch.Tensor of shape (n, l)
        Codes.
    target : torch.Tensor of shape (n, l)
        What they should stay close to: the encoder's prediction.

    Returns
    -------
    torch.Tensor of shape (n,)
        ``1/l ||z - target||^2`` of each row.

    Examples
    --------
    >>> import torch
    >>> from skvdl.energy import proximity
    >>> proximity(torch.tensor([[1.0, 3.0]]), torch.zeros(1, 2))
    tensor([5.])
    """
    return reconstruction(target, Z)


def proximity_grad(Z, target):
    """Gradient of :func:`proximity` with respect to the codes.

    Parameters
    ----------
    Z : torch.Tensor of shape (n, l)
        Codes.
    target : torch.Tensor of shape (n, l)
        What they should stay close to.

    Returns
    -------
    torch.Tensor of shape (n, l)
        ``2/l (z - target)``.

    Examples
    --------
    >>> import torch
    >>> from skvdl.energy import proximity_grad
    >>> proximity_grad(torch.tensor([[1.0, 3.0]]), torch.zeros(1, 2))
    tensor([[1., 3.]])
    """
    return reconstruction_grad(target, Z)


def sparsity(Z):
    """The l1 norm of each code.

    Parameters
    ----------
    Z : torch.Tensor of shape (n, l)
        Codes.

    Returns
    -------
    torch.Tensor of shape (n,)
        ``||z||_1`` of each row.

    Examples
    --------
    >>> import torch
    >>> from skvdl.energy import sparsity
    >>> sparsity(torch.tensor([[1.0, -3.0]]))
    tensor([4.])
    """
    return Z.abs().sum(dim=1)


def sparsity_grad(Z):
    """Subgradient of :func:`sparsity` of least norm.

    Parameters
    ----------
    Z : torch.Tensor of shape (n, l)
        Codes.

    Returns
    -------
    torch.Tensor of shape (n, l)
        The sign of each entry, 0 at 0.

    Examples
    --------
    >>> import torch
    >>> from skvdl.energy import sparsity_grad
    >>> sparsity_grad(torch.tensor([[1.0, 0.0, -3.0]]))
    tensor([[ 1.,  0., -1.]])
    """
    return Z.sign()
