"""What the dictionary is learnt from, and the estimator that learns it by default."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from ..estimators import VarianceDictionaryLearning
from ._files import Source
from ._inpainting import smooth_over
from ._noise import estimate_noise
from ._patches import PatchGrid, channel_means
from ._pixels import check_image, mean_of, std_of, to_tensor

# The smallest divisor of a picture before learning, as a share of its standard deviation.
_LEAST_SCALE = 0.1


def default_estimator(n_features: int, random: np.random.RandomState) -> VarianceDictionaryLearning:
    """Return dictionary learning that codes nothing below 3.5 standard deviations of the noise."""
    return VarianceDictionaryLearning(
        256,
        init="data",
        penalty="l1",
        lam=2 * 3.5 / n_features,
        debias=False,
        # patches have no mean, and their noise a variance of 1
        center=False,
        scale=False,
        regularizer="unit_norm",
        encoder=None,
        positive_code=False,
        max_iter=5,
        learning_rate_init=0.02,
        # 30 iterations change the PSNR of denoised photographs by 0.02 dB at most
        inference_max_iter=20,
        batch_size=250,
        random_state=random.randint(2**31 - 1),
    )


def draw_patches(
    sources: Sequence[Source],
    *,
    patch_size: int,
    sigma: float | None,
    max_patches: int,
    random: np.random.RandomState,
) -> tuple[np.ndarray, int]:
    """Draw patches to learn from, minus their means and scaled to noise of variance 1.

    Parameters
    ----------
    sources : sequence of Source
        Images.
    patch_size : int
        Height and width of a patch.
    sigma : float or None
        Standard deviation of the noise; None estimates it.
    max_patches : int
        Largest number of patches to return.
    random : RandomState
        Source of the draw.

    Returns
    -------
    patches : ndarray of shape (n, d)
        The patches.
    n_channels : int
        Channels of the images.
    """
    drawn: list[Tensor] = []
    n_channels = None
    # more than needed, because some contain only noise
    quota = max(2, -(-4 * max_patches // len(sources)))
    for source in sources:
        with source.opened() as image:
            check_image(image, patch_size, n_channels=n_channels, gaps=True)
            tensor = _scaled(image, sigma)
        grid = PatchGrid(tensor.shape, patch_size, 1)
        rows, columns = (
            torch.from_numpy(random.randint(n, size=quota))
            for n in (len(grid.rows), len(grid.columns))
        )
        patches = tensor.flatten()[grid.pixels(grid.place(rows, columns))]
        drawn.append(patches - channel_means(patches, grid.channels))
        n_channels = grid.channels
    found = torch.cat(drawn)
    # two standard deviations above the squared norm of noise alone
    freedom = found.shape[1] - grid.channels
    lively = found[found.square().sum(dim=1) > freedom + 2 * (2 * freedom) ** 0.5]
    found = lively if len(lively) >= 2 else found
    order = random.permutation(len(found))[:max_patches]
    return found[torch.from_numpy(order)].numpy(), grid.channels


def _scaled(image: np.ndarray, sigma: float | None) -> Tensor:
    """Return an image as a tensor with noise of variance 1."""
    if image.dtype.kind == "f" and np.isnan(image).any():
        image = smooth_over(image)
        # where pixels were made up, differences say nothing about noise
        noise = sigma or 0.0
    else:
        noise = estimate_noise(image) if sigma is None else sigma
    scale = max(noise, _LEAST_SCALE * std_of(image)) or 1.0
    return to_tensor(image, mean_of(image), scale)
