"""
Denoise a photograph
====================

Given nothing but a noisy photograph, learn a dictionary from it and rebuild it without the noise.
Nobody has to say how strong the noise is.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import gaussian_filter
from sklearn.datasets import load_sample_image

from skvdl.images import ImageDenoiser, estimate_noise
from skvdl.metrics import psnr
from skvdl.plotting import ReconstructionDisplay

# %%
# A noisy photograph
# ------------------
# A part of scikit-learn's flower, with white noise of a standard deviation of 25, rounded and
# clipped as a file would be.

clean = load_sample_image("flower.jpg")[100:260, 220:380]
rng = np.random.default_rng(0)
noisy = (clean + rng.normal(0, 25, clean.shape)).clip(0, 255).astype(np.uint8)
print(f"estimated noise: {estimate_noise(noisy):.1f}")

# %%
# Denoise it
# ----------
# Two lines. The result has the shape, the type and the range of what was given. For a photograph
# of yours, ``denoiser.fit_transform("my_photograph.png")``.

denoiser = ImageDenoiser(random_state=0)
denoised = denoiser.fit_transform(noisy)

# %%
# The clean photograph is for judging the result. Smoothing, at its best width, is what to beat.


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
# Petals come out smooth and edges sharp. What is as fine as the noise is lost.


def details(image):
    """Four parts of an image, as a stack."""
    places = [(0, 0), (20, 100), (60, 50), (110, 90)]
    return np.stack([image[i : i + 40, j : j + 40] for i, j in places])


ReconstructionDisplay.from_predictions(
    details(clean), details(denoised), noisy=details(noisy), data_range=255
)
plt.show()
