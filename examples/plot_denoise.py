"""
Denoise a photograph
====================

Given only a noisy photograph, learn a dictionary from it and rebuild it without the noise. The
strength of the noise is estimated.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import gaussian_filter
from sklearn.datasets import load_sample_image

from skvdl import ImageDenoiser
from skvdl.images import estimate_noise
from skvdl.metrics import psnr
from skvdl.plotting import ReconstructionDisplay

# %%
# A noisy photograph
# ------------------
# A part of scikit-learn's flower, with white noise of standard deviation 25, rounded and clipped as
# in a file.

clean = load_sample_image("flower.jpg")[100:260, 220:380]
rng = np.random.default_rng(0)
noisy = (clean + rng.normal(0, 25, clean.shape)).clip(0, 255).astype(np.uint8)
print(f"estimated noise: {estimate_noise(noisy):.1f}")

# %%
# Denoise it
# ----------
# This takes two lines. The result has the shape, type and range of the input. For a photograph of
# your own, use ``denoiser.fit_transform("my_photograph.png")``.

denoiser = ImageDenoiser(random_state=0)
denoised = denoiser.fit_transform(noisy)

# %%
# The clean photograph is used only to judge the result, in comparison with smoothing at its best
# width.


def quality(image):
    """PSNR of a whole image."""
    return psnr(clean.reshape(1, -1), image.reshape(1, -1), data_range=255)


widths = [0.5, 0.7, 1.0, 1.4]
smooth = max((gaussian_filter(noisy, (w, w, 0)) for w in widths), key=quality)
results = {"noisy": noisy, "smoothed": smooth, "denoised": denoised, "clean": clean}
figure, axes = plt.subplots(1, 4, figsize=(12, 3.3), layout="constrained")
for ax, (name, image) in zip(axes, results.items(), strict=True):
    ax.imshow(image, interpolation="nearest")
    ax.set_title(name if image is clean else f"{name}, {quality(image):.1f} dB", loc="left")
    ax.set_axis_off()
plt.show()

# %%
# Details
# -------
# Petals come out smooth and edges sharp. Details as fine as the noise are lost.


def details(image):
    """Four parts of an image, as a stack."""
    places = [(0, 0), (20, 100), (60, 50), (110, 90)]
    return np.stack([image[i : i + 40, j : j + 40] for i, j in places])


ReconstructionDisplay.from_predictions(
    details(clean), details(denoised), noisy=details(noisy), data_range=255
)
plt.show()
