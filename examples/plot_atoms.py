"""
Atoms of a dictionary and of a network
======================================

A linear decoder is a dictionary: a component always adds the same image, its atom, in proportion to
its code. The decoder can also be a network. This example shows what the components of both have
learnt from patches of two photographs, and what only the network can do.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_images
from sklearn.feature_extraction.image import extract_patches_2d

from skvdl import VDL, NonLinearVDL
from skvdl.metrics import sparsity
from skvdl.plotting import AtomsDisplay

# %%
# Patches
# -------
# The photographs are reduced to half their resolution. Patches have 10 x 10 pixels; flat ones are
# left out, and the others are scaled to mean 0 and standard deviation 1.

patches = []
for photograph in load_sample_images().images:
    grey = photograph[:426].mean(axis=2).reshape(213, 2, 320, 2).mean(axis=(1, 3)) / 255
    patches.append(extract_patches_2d(grey, (10, 10), max_patches=8000, random_state=0))
X = np.concatenate(patches).reshape(-1, 100).astype(np.float32)
X -= X.mean(axis=1, keepdims=True)
X = X[X.std(axis=1) > 0.05]
X /= X.std(axis=1, keepdims=True)
X = np.random.default_rng(0).permutation(X)
X_train, X_test = X[:5000], X[5000:6000]

# %%
# Both decoders
# -------------
# Each has 64 components, and both have codes with 80 % zeros.

linear = VDL(64, random_state=0).fit(X_train)
network = NonLinearVDL(64, hidden_layer_sizes=(512,), max_iter=20, random_state=0).fit(X_train)
models = {"dictionary": linear, "network": network}
zeros = {name: sparsity(model.transform(X_test)) for name, model in models.items()}
for name, model in models.items():
    print(f"{name}: {zeros[name]:.0%} zeros, {model.score(X_test):.0%} of the variance explained")

# %%
# What a component adds when it alone is active
# ---------------------------------------------
# For the network, this is its output for a code with a single 1 minus its output for a code of
# zeros. Both have learnt edges, lines and the fine pattern of the palace.

figure, axes = plt.subplots(1, 2, figsize=(10, 5.3), layout="constrained")
for ax, (name, model) in zip(axes, models.items(), strict=True):
    AtomsDisplay.from_estimator(model, X=X_test, ax=ax)
    ax.set_title(f"{name}: {ax.get_title(loc='left')}", loc="left", fontsize="medium")
plt.show()

# %%
# What only a network can do
# --------------------------
# In a dictionary, a component adds the same image whatever the other components are. In a network
# it depends on the rest of the code, because hidden units switch on and off. The grids show what a
# component adds to the reconstruction of real patches: the reconstruction with it minus the one
# without it. Each row has one component and six patches. Of the 24 most used components, the six
# that change most are shown.


def added_in_context(model, n_components=24, n_patches=6):
    """What the most used components add to the patches they are most active in."""
    codes = model.transform(X_test)
    images = []
    for component in np.argsort(-(codes > 0).mean(axis=0))[:n_components]:
        whole = codes[np.argsort(-codes[:, component])[:n_patches]]
        without = whole.copy()
        without[:, component] = 0
        images.append(model.inverse_transform(whole) - model.inverse_transform(without))
    return np.stack(images)


def likeness(images):
    """Mean cosine between the images of each component."""
    unit = images / np.linalg.norm(images, axis=2, keepdims=True)
    cosines = unit @ unit.swapaxes(1, 2)
    return cosines[:, *np.triu_indices(cosines.shape[1], 1)].mean(axis=1)


figure, axes = plt.subplots(1, 2, figsize=(10, 5.3), layout="constrained")
alike = {}
for ax, (name, model) in zip(axes, models.items(), strict=True):
    images = added_in_context(model)
    alike[name] = likeness(images)
    rows = images[np.argsort(alike[name])[:6]].reshape(-1, 100)
    AtomsDisplay(rows, usage=-np.arange(len(rows))).plot(ax)
    title = f"{name}: cosine {alike[name].mean():.2f} in the mean of 24"
    ax.set_title(title, loc="left", fontsize="medium")
plt.show()
