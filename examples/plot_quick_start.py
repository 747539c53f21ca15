"""
Quick start
===========

Learn a dictionary from scikit-learn's digits, and look at its atoms, its sparse codes and its
reconstructions. This takes only ``fit``, ``transform`` and ``inverse_transform``.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from skvdl import VDL
from skvdl.metrics import sparsity
from skvdl.plotting import AtomsDisplay, ReconstructionDisplay, TrainingCurveDisplay

# %%
# Fit
# ---
# Data may come in any units: the mean of each feature and one scale for all of them are taken out
# first. The one number to choose is the share of zeros that codes should have.

X_train, X_test = train_test_split(load_digits().data, random_state=0)
vdl = VDL(n_components=64, target_sparsity=0.85, random_state=0).fit(X_train)

# %%
# Codes
# -----
# A code has 64 numbers, none of them negative and most of them zero.

codes = vdl.transform(X_test)
active = (codes > 0).sum(axis=1).mean()
explained = vdl.score(X_test)
print(f"codes of new digits: {sparsity(codes):.0%} zeros, {active:.0f} of 64 atoms per digit")
print(f"they explain {explained:.0%} of the variance")

# %%
# Back to pixels
# --------------
# ``inverse_transform`` reconstructs the digits, here some that the model has never seen.

ReconstructionDisplay.from_estimator(vdl, X_test, n_images=10, im_kw={"cmap": "gray_r"})
plt.show()

# %%
# Atoms
# -----
# Each atom is a small image: what its component adds when it is active. Red adds ink, blue removes
# it.

AtomsDisplay.from_estimator(vdl, X=X_test)
plt.show()

# %%
# The reconstruction of a digit is the intercept, which is the same for all digits, plus a sum of
# atoms, each multiplied by its number in the code. These are the largest parts of one digit, and
# the sum of all its parts.

digit = 3
parts = codes[digit, :, None] * vdl.components_
figure, axes = plt.subplots(1, 3, figsize=(8, 2.9), layout="constrained")
for ax, image, title in [
    (axes[0], X_test[digit] - vdl.intercept_, "digit minus the intercept"),
    (axes[2], parts.sum(axis=0), "sum of all its parts"),
]:
    AtomsDisplay(image[None]).plot(ax)
    ax.set_title(title, loc="left", fontsize="medium")
AtomsDisplay(parts).plot(axes[1], n_atoms=9, scale="shared")
axes[1].set_title("its largest parts", loc="left", fontsize="medium")
plt.show()

# %%
# How training went
# -----------------
# Training starts with a good dictionary. The price of a component is then adjusted until codes have
# the zeros asked for, which is why the energy need not fall, and no component is dead. A component
# is dead if no row of an epoch uses it.

TrainingCurveDisplay.from_estimator(vdl)
plt.show()
