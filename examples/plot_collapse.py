"""
What collapse looks like
========================

The l1 norm of the codes can be lowered at no cost: halve every code, double every atom, and the
reconstruction stays the same. If nothing prevents it, this is what training does. This example
shows it, and how three regularizers prevent it.
"""

import matplotlib.pyplot as plt
import numpy as np

from skvdl import VDL
from skvdl.datasets import load_digits
from skvdl.plotting import AtomsDisplay

# %%
# No regularizer and three regularizers
# -------------------------------------
# The parameter ``regularizer`` chooses between the variance hinge, which asks every component of
# the codes for a standard deviation of at least ``variance_threshold`` and leaves the atoms free,
# atoms of unit norm, weight decay, and ``None``. The learning rate is large and does not decay, so
# that 30 epochs are enough to see what otherwise takes longer. There is no encoder, so that the
# codes depend on the energy alone.

X = load_digits().X_train
settings = {
    "penalty": "l1",
    "lam": 0.02,
    "debias": False,
    "center": False,
    "scale": False,
    "encoder": None,
    "max_iter": 30,
    "inference_max_iter": 200,
    "learning_rate": "constant",
    "learning_rate_init": 0.02,
}
regularizers = {
    "none": None,
    "variance": "variance",
    "unit norm": "unit_norm",
    "decay": "weight_decay",
}
models = {
    name: VDL(48, regularizer=regularizer, random_state=0, **settings).fit(X)
    for name, regularizer in regularizers.items()
}

# %%
# The l1 norm shrinks, and zeros are lost
# ---------------------------------------
# Without a regularizer the l1 norm of the codes keeps falling. It counts less and less beside the
# reconstruction, so that the codes become less and less sparse. With any of the regularizers the l1
# norm settles, and far fewer zeros are lost.

colours = dict(zip(regularizers, ("#D55E00", "#0072B2", "#009E73", "#CC79A7"), strict=True))
figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
for ax, curve, title in zip(
    axes, ("l1", "sparsity"), ("l1 norm of a code", "zeros in the codes"), strict=True
):
    for name, model in models.items():
        values = model.history_[curve]
        ax.plot(np.arange(1, len(values) + 1), values, color=colours[name], label=name)
    ax.set_title(title, loc="left", fontsize="medium")
    ax.set_xlabel("epoch")
    ax.grid(color="0.9")
    ax.spines[["top", "right"]].set_visible(False)
axes[0].set_yscale("log")
axes[0].set_yticks([2, 3, 5, 10], [2, 3, 5, 10])
axes[0].minorticks_off()
axes[1].yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
axes[0].legend(title="regularizer", frameon=False, ncols=2, loc="lower left")
plt.show()

# %%
# The atoms grow instead
# ----------------------

norms = {name: np.linalg.norm(m.components_, axis=1).mean() for name, m in models.items()}
for name, model in models.items():
    first, last = model.history_["l1"][0], model.history_["l1"][-1]
    print(f"{name:9}  l1 norm {first:4.1f} -> {last:3.1f}   mean norm of an atom {norms[name]:.1f}")

# %%
# The atoms on a common colour scale:

figure, axes = plt.subplots(1, 2, figsize=(9, 4.4), layout="constrained")
common = {"vmin": -1, "vmax": 1}
for ax, name in zip(axes, ("none", "variance"), strict=True):
    AtomsDisplay.from_estimator(models[name], X=X, n_atoms=36, scale="shared", ax=ax, im_kw=common)
    ax.set_title(f"regularizer: {name}", loc="left", fontsize="medium")
plt.show()

# %%
# For a dictionary, any of the three will do, and with the default ``penalty="l0"`` small codes gain
# nothing. The variance hinge depends on the codes alone, so that it works for any decoder.
# ``skvdl.paper.make("unguarded-NL", lam=0.005)`` builds the published ablation with a network.
