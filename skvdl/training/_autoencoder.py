"""A dictionary to start from: that of a linear autoencoder which keeps the largest codes.

Alternating between codes and dictionary ends in a minimum near its start. An autoencoder moves
decoder and encoder with one gradient, does not depend much on its own start, and takes little time,
because its codes are one matrix product away.
"""

import torch
from torch import nn

from ._interrupts import uninterrupted

# Most steps, and the share of them over which the rate falls to 0 in the end.
_STEPS, _COOLING = 750, 0.3
# Latents that are kept at first, if more are in the end, and the share of the steps over which
# their number grows. Few latents find atoms that samples have in common, and many of them would
# hardly move afterwards.
_FIRST_SHARE, _GROWING = 0.1, 0.5
# Rate times the root of the number of dimensions: the rate relative to the entries of an atom.
_RATE = 0.4
# Dimensions that are kept, relative to the number of atoms.
_DIMENSIONS = 2
# Rounds of the power iteration that finds them.
_ROUNDS = 2


class Autoencoder(nn.Module):
    """Linear encoder and decoder between which only the largest latents of a batch are kept.

    It works on the principal axes of the data: there, rates that adapt to each weight make up for
    variances that differ by orders of magnitude, and axes with hardly any can be left out.

    Parameters
    ----------
    axes : torch.Tensor of shape (n_features, n_axes)
        The principal axes.
    n_components : int
        Number of latents.
    sparsity : float
        Share of latents that are set to 0.
    positive : bool
        Whether latents are non-negative.
    bias : bool
        Whether an offset is learnt, which the dictionary then needs as its bias.
    max_steps : int
        Steps to take at most.
    generator : torch.Generator
        Source of the first weights, on the CPU.

    Attributes
    ----------
    n_steps : int
        Steps to take.
    """

    def __init__(
        self,
        axes: torch.Tensor,
        n_components: int,
        *,
        sparsity: float,
        positive: bool,
        bias: bool,
        max_steps: int,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.share = 1.0 - sparsity
        self.positive = positive
        self.n_steps = min(max_steps, _STEPS)
        self.axes = axes
        drawn = torch.randn(
            n_components, axes.shape[0], generator=generator, device="cpu", dtype=axes.dtype
        )
        # drawn in the space of the data, so that it does not matter which way an axis points
        self.decoder = nn.Parameter(nn.functional.normalize(drawn.to(axes.device) @ axes))
        self.encoder = nn.Parameter(self.decoder.detach().clone())
        self.threshold = nn.Parameter(torch.zeros_like(self.decoder[:, 0]))
        self.offset = nn.Parameter(torch.zeros_like(self.decoder[0]), requires_grad=bias)
        self.optimizer = torch.optim.Adam(self.parameters(), fused=True)

    @torch.enable_grad()
    def step(self, Y: torch.Tensor, number: int) -> None:
        """Take the step of this number, from 0, on a batch."""
        progress = number / self.n_steps
        growth = max(1.0, self.share / _FIRST_SHARE)
        share = self.share * growth ** -max(0.0, 1.0 - progress / _GROWING)
        rate = _RATE / self.axes.shape[1] ** 0.5 * min(1.0, (1.0 - progress) / _COOLING)
        self.optimizer.param_groups[0]["lr"] = rate
        Y = Y @ self.axes - self.offset
        latents = nn.functional.linear(Y, self.encoder, -self.threshold)
        codes = keep_largest(latents.relu() if self.positive else latents, share)
        self.optimizer.zero_grad()
        nn.functional.mse_loss(codes @ self.decoder, Y).backward()
        with torch.no_grad(), uninterrupted():
            atoms, slope = self.decoder, self.decoder.grad
            assert slope is not None
            # a change of the norms would only be undone
            slope.sub_(atoms * torch.linalg.vecdot(slope, atoms)[:, None])
            self.optimizer.step()
            atoms.copy_(nn.functional.normalize(atoms))

    @torch.no_grad()
    def dictionary(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Atoms with norm 1, in columns, and the bias."""
        return self.axes @ self.decoder.T, self.axes @ self.offset


def principal_axes(Y: torch.Tensor, n_components: int, generator: torch.Generator) -> torch.Tensor:
    """Orthonormal axes along which rows vary most, nearly.

    There are at most twice as many as components, and none without any variance.

    Parameters
    ----------
    Y : torch.Tensor of shape (n, d)
        Rows.
    n_components : int
        Number of components, which cannot span more axes than that.
    generator : torch.Generator
        Source of the first guess, on the CPU.

    Returns
    -------
    torch.Tensor of shape (d, n_axes)
        The axes, in columns, at least one.

    Raises
    ------
    FloatingPointError
        If rows are not finite.
    """
    # on the CPU, because not every device has these decompositions, and squares must not overflow
    rows = Y.cpu()
    if not rows.isfinite().all():
        raise FloatingPointError(
            f"Data overflow in {Y.dtype} when they are centred; divide them by their scale first, "
            "or pass them as float64."
        )
    rows = rows / rows.abs().amax().clamp_min(torch.finfo(rows.dtype).tiny)
    n_features, n_axes = rows.shape[1], min(_DIMENSIONS * n_components, rows.shape[1])
    basis = torch.eye(n_features, dtype=rows.dtype, device="cpu")
    if n_axes < n_features:
        basis = torch.randn(n_features, n_axes, generator=generator, device="cpu", dtype=rows.dtype)
        for _ in range(_ROUNDS):
            basis = torch.linalg.qr(rows.T @ (rows @ basis))[0]
    along = rows @ basis
    variances, rotation = torch.linalg.eigh(along.T @ along)
    # along the others there is only rounding error; the last is the largest
    real = variances > n_features * torch.finfo(rows.dtype).eps * variances[-1]
    real[-1] = True
    return (basis @ rotation[:, real]).to(Y.device)


def keep_largest(latents: torch.Tensor, share: float) -> torch.Tensor:
    """Set all but this share of the latents of a batch, the largest, to 0."""
    flat = latents.flatten()
    index = flat.abs().topk(max(1, round(share * len(flat))), sorted=False).indices
    return torch.zeros_like(flat).scatter(0, index, flat[index]).reshape(latents.shape)
