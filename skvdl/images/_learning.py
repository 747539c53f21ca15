"""What the dictionary is learnt from, and by what unless the user says otherwise."""

from collections.abc import Sequence

import numpy as np
import torch

from ..estimators import VarianceDictionaryLearning
from ._files import load
from ._inpainting import smooth_over
from ._noise import estimate_noise
from ._patches import PatchGrid, channel_means
from ._pixels import check_image, to_tensor

# What a picture without noise is divided by before learning, as a share of its deviation.
_LEAST_SCALE = 0.1


def default_estimator(n_features: int, random: np.random.RandomState) -> VarianceDictionaryLearning:
    """Dictionary learning at the level of the noise: what is below 3.5 deviations is not coded."""
    return VarianceDictionaryLearning(
        256,
        lam=2 * 3.5 / n_features,
        regularizer="unit_norm",
        encoder=None,
        positive_code=False,
        max_iter=5,
        learning_rate_init=0.02,
        inference_max_iter=30,
        inference_tol=1e-2,
        random_state=random.randint(2**31 - 1),
    )


def draw_patches(
    images: Sequence,
    *,
    patch_size: int,
    sigma: float | None,
    max_patches: int,
    random: np.random.RandomState,
) -> tuple[np.ndarray, int]:
    """Draw patches to learn from, less their means and scaled to noise of variance 1.

    Parameters
    ----------
    images : sequence of array-like or Path
        Images.
    patch_size : int
        Height and width of a patch.
    sigma : float or None
        Standard deviation of the noise; None estimates it.
    max_patches : int
        How many patches to return at most.
    random : RandomState
        Source of the draw.

    Returns
    -------
    patches : ndarray of shape (n, d)
        The patches.
    n_channels : int
        Channels of the images.
    """
    drawn, n_channels = [], set()
    # some will have nothing but noise in them
    quota = max(2, -(-4 * max_patches // len(images)))
    for image in map(load, images):
        check_image(image, patch_size, gaps=True)
        has_gaps = image.dtype.kind == "f" and np.isnan(image).any()
        if has_gaps:
            image = smooth_over(image)
            # where pixels were made up, differences say nothing about noise
            noise = sigma or 0.0
        else:
            noise = estimate_noise(image) if sigma is None else sigma
        scale = max(noise, _LEAST_SCALE * float(np.std(image))) or 1.0
        tensor = to_tensor(image, float(np.mean(image)), scale)
        grid = PatchGrid(tensor.shape, patch_size, 1)
        rows, columns = (
            torch.from_numpy(random.randint(n, size=quota))
            for n in (len(grid.rows), len(grid.columns))
        )
        patches = tensor.flatten()[grid.pixels(grid.place(rows, columns))]
        drawn.append(patches - channel_means(patches, grid.channels))
        n_channels.add(grid.channels)
    if len(n_channels) > 1:
        raise ValueError("Some images are grey and some RGB; fit takes one kind at a time.")
    (channels,) = n_channels
    found = torch.cat(drawn)
    # two deviations above the energy of noise alone
    freedom = found.shape[1] - channels
    lively = found[found.square().sum(dim=1) > freedom + 2 * (2 * freedom) ** 0.5]
    found = lively if len(lively) >= 2 else found
    order = random.permutation(len(found))[:max_patches]
    return found[torch.from_numpy(order)].numpy(), channels
