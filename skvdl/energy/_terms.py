"""Terms of the energy as pure functions of tensors.

Terms that belong to a row return one number per row, the hinge one number per component.
"""

import torch


def mean_squared_error(
    Y: torch.Tensor, Y_hat: torch.Tensor, seen: torch.Tensor | None = None
) -> torch.Tensor:
    """Mean squared error ``1/d ||y - y_hat||^2`` of each row; entries not seen count as 0."""
    residual = Y_hat - Y
    return (residual if seen is None else residual * seen).square().mean(dim=1)


def l1(Z: torch.Tensor) -> torch.Tensor:
    """The l1 norm of each row."""
    return Z.abs().sum(dim=1)


def l0(Z: torch.Tensor) -> torch.Tensor:
    """The number of components of each row that are not 0."""
    return (Z != 0).to(Z.dtype).sum(dim=1)


def variance_hinge(Z: torch.Tensor, threshold: float) -> torch.Tensor:
    """Squared hinge ``[(threshold - std)_+]^2`` on each component's deviation over the batch.

    The standard deviation is computed with n - 1. The hinge is 0 for a single row, which has no
    standard deviation.
    """
    n = Z.shape[0]
    if n < 2:
        return torch.zeros_like(Z[0])
    _, square, _ = _spread(Z)
    return (threshold - square.sqrt_() * (n - 1) ** -0.5).clamp_(min=0.0).square_()


def variance_hinge_force(
    Z: torch.Tensor,
    threshold: float,
    *,
    deviation: torch.Tensor | None = None,
    scratch: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Gradient of the summed hinge in two factors.

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
        Codes minus their mean over the batch.
    pull : torch.Tensor of shape (l,)
        ``(threshold - std)_+ / std``, 0 where a component does not vary. The gradient is
        ``-2 / (n - 1) * pull * deviation``.
    """
    deviation, square, constant = _spread(Z, deviation, scratch)
    pull = square.rsqrt_().mul_(threshold * (Z.shape[0] - 1) ** 0.5)
    pull.sub_(1.0).clamp_(min=0.0).masked_fill_(constant, 0.0)
    return deviation, pull


def _spread(
    Z: torch.Tensor,
    deviation: torch.Tensor | None = None,
    scratch: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Deviations from the mean, their squared norm, and where that is only rounding error."""
    n = Z.shape[0]
    total = Z.sum(dim=0)
    deviation = torch.sub(Z, total, alpha=1.0 / n, out=deviation)
    square = torch.mul(deviation, deviation, out=scratch).sum(dim=0)
    noise = total.square_().mul_((16 * torch.finfo(Z.dtype).eps) ** 2 / n)
    return deviation, square, square <= noise
