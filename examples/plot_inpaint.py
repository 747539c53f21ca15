"""
Fill gaps in a photograph
=========================

Dead pixels, scratches, a line of text across the picture: what is left of a patch is enough to find
its code, and the code gives the whole patch.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import distance_transform_edt
from sklearn.datasets import load_sample_image

from skvdl.images import ImageDenoiser
from skvdl.metrics import psnr

# %%
# Learn from what is whole
# ------------------------
# The dictionary comes from the lower storeys of a pagoda. Of all patches of the image to be
# filled, every third in either direction is used; all of them, with ``stride=1``, take longer and
# are a little better.

photograph = load_sample_image("china.jpg")
denoiser = ImageDenoiser(stride=3, max_patches=3000, random_state=0)
denoiser.fit(photograph[180:340, 60:360])

# %%
# Fill what is not
# ----------------
# In the roof, half of the pixels are lost at random, or all that lie on scratches.
# ``inpaint`` takes missing pixels as NaN or, as here, by a mask. What is seen stays as it is.

roof = photograph[60:160, 120:300]
rows, columns = np.indices(roof.shape[:2])
masks = {
    "lost": np.random.default_rng(0).random(roof.shape[:2]) < 0.5,
    "scratched": ((columns + rows) % 25 < 3) | ((columns - 2 * rows) % 40 < 3),
}
filled = {name: denoiser.inpaint(roof, mask) for name, mask in masks.items()}

# %%
# The simplest way, for comparison: take the nearest pixel that is seen. The PSNR is that of the
# missing pixels alone.


def nearest(image, mask):
    """Fill each gap with the nearest pixel that is seen."""
    where = distance_transform_edt(mask, return_distances=False, return_indices=True)
    return image[tuple(where)]


def quality(image, mask):
    """PSNR of the missing pixels."""
    return psnr(roof[mask].reshape(1, -1), image[mask].reshape(1, -1), data_range=255)


figure, axes = plt.subplots(2, 3, figsize=(11, 4.6), layout="constrained")
gains = {}
for row, (name, mask) in zip(axes, masks.items(), strict=True):
    simple = nearest(roof, mask)
    gains[name] = quality(filled[name], mask) - quality(simple, mask)
    pictures = {
        f"{name}, {mask.mean():.0%}": np.where(mask[..., None], 255, roof),
        f"nearest pixel, {quality(simple, mask):.1f} dB": simple,
        f"inpainted, {quality(filled[name], mask):.1f} dB": filled[name],
    }
    for ax, (title, image) in zip(row, pictures.items(), strict=True):
        ax.imshow(image, interpolation="nearest")
        ax.set_title(title, loc="left", fontsize="medium")
        ax.set_axis_off()
plt.show()
