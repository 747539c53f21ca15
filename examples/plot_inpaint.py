"""
Fill gaps in a photograph
=========================

Some pixels may be missing because of dead sensors, scratches or a line of text. What is left of a
patch is enough to find its code, and the code gives the whole patch.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import distance_transform_edt
from sklearn.datasets import load_sample_image

from skvdl import ImageDenoiser
from skvdl.metrics import psnr

# %%
# Two kinds of damage
# -------------------
# In a part of a photograph, half of the pixels are lost at random, or all pixels on scratches. NaN
# marks them.

roof = load_sample_image("china.jpg")[60:160, 120:300].astype(float)
rows, columns = np.indices(roof.shape[:2])
masks = {
    "lost": np.random.default_rng(0).random(roof.shape[:2]) < 0.5,
    "scratched": ((columns + rows) % 25 < 3) | ((columns - 2 * rows) % 40 < 3),
}
damaged = {name: np.where(mask[..., None], np.nan, roof) for name, mask in masks.items()}

# %%
# Learn from the damaged image, and fill it
# -----------------------------------------
# ``fit`` smooths over the gaps to learn a dictionary. ``inpaint`` then codes what is seen of each
# patch, and leaves the seen pixels as they are. Once the gaps are filled, there is a better image
# to learn from: a second round gains half a decibel. Here every third patch in either direction is
# used. All patches, with ``stride=1``, take longer and give slightly better results.

denoiser = ImageDenoiser(stride=3, max_patches=3000, random_state=0)
filled = {}
for name, image in damaged.items():
    first = denoiser.fit(image).inpaint(image)
    filled[name] = denoiser.fit(first).inpaint(image)

# %%
# For comparison, the simplest method takes the nearest pixel that is seen. The PSNR is that of the
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
        ax.imshow(image.astype(np.uint8), interpolation="nearest")
        ax.set_title(title, loc="left", fontsize="medium")
        ax.set_axis_off()
plt.show()
