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
    "variance_hinge_grad",
    "variance_hinge_parts",
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


def variance_hinge_parts(Z, threshold):
    """Hinge of each component, and its gradient in the form ``slope * (Z - mean)``.

    The solver wants value and gradient together and the gradient unexpanded; everyone else is
    better served by :func:`variance_hinge` and :func:`variance_hinge_grad`.

    Parameters
    ----------
    Z : torch.Tensor of shape (n, l)
        Codes of one batch.
    threshold : float
        Standard deviation below which a component is penalised.

    Returns
    -------
    hinge : torch.Tensor of shape (l,)
        ``[(threshold - std)_+]^2``; 0 when the batch has a single row, which has no spread.
    slope : torch.Tensor of shape (l,)
        ``-2/(n-1) (threshold - std)_+ / std``; 0 where the component does not vary.
    mean : torch.Tensor of shape (l,)
        Mean of each component.

    Examples
    --------
    >>> import torch
    >>> from skvdl.energy import variance_hinge_parts
    >>> hinge, slope, mean = variance_hinge_parts(torch.tensor([[0.0], [0.0]]), 0.5)
    >>> hinge.item(), slope.item(), mean.item()
    (0.25, -0.0, 0.0)
    """
    n = Z.shape[0]
    if n < 2:
        zero = torch.zeros_like(Z[0])
        return zero, zero, Z[0]
    mean = Z.mean(dim=0)
    # two passes: several times faster than var_mean over columns, and as accurate
    std = ((Z - mean).square_().sum(dim=0) / (n - 1)).sqrt()
    shortfall = (threshold - std).clamp_(min=0.0)
    # A constant column has a spread of rounding errors at most, in no meaningful direction.
    varies = std > mean.abs() * (16 * torch.finfo(Z.dtype).eps)
    slope = torch.where(varies, shortfall / std, 0.0) * (-2.0 / (n - 1))
    return shortfall.square(), slope, mean


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
        ``[(threshold - std)_+]^2``, the deviation taken with n - 1.

    Examples
    --------
    >>> import torch
    >>> from skvdl.energy import variance_hinge
    >>> variance_hinge(torch.tensor([[0.0, 0.0], [0.0, 4.0]]))
    tensor([0.2500, 0.0000])
    """
    return variance_hinge_parts(Z, threshold)[0]


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
    _, slope, mean = variance_hinge_parts(Z, threshold)
    return slope * (Z - mean)


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
