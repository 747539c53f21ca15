"""
A linear probe with few labels
==============================

Images are often plentiful and labels expensive. Codes can be learnt from all images, labelled or
not, and a linear classifier on the codes from the few labels that exist.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import LearningCurveDisplay
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skvdl import VDL
from skvdl.datasets import load_digits

# %%
# Codes from all images
# ---------------------
# :func:`~skvdl.datasets.load_digits` returns scikit-learn's digits in three parts, scaled. The
# model sees the training images but no labels. A classifier likes other codes than a
# reconstruction: many components that start as images, predicted by the encoder, whose codes
# change less from one image to a similar one, and not refitted. This was chosen with the
# validation images.

digits = load_digits()
settings = {"target_sparsity": 0.9, "transform_method": "encoder", "debias": False}
vdl = VDL(256, init="data", **settings, random_state=0).fit(digits.X_train)

# %%
# A classifier from few labels
# ----------------------------
# In a pipeline, ``fit`` would fit the model again, to the labelled images alone.
# :class:`~sklearn.frozen.FrozenEstimator` keeps it as it is.

raw = make_pipeline(StandardScaler(), LogisticRegression(max_iter=600))
probe = make_pipeline(FrozenEstimator(vdl), StandardScaler(), LogisticRegression(max_iter=600))

# %%
# How many labels it takes
# ------------------------
# The learning curve is averaged over ten draws of the labelled images. Each draw is a random order
# of the training images, of which the first ones are labelled. All classifiers are judged by the
# same test images, which no model has seen.

X = np.concatenate([digits.X_train, digits.X_test])
y = np.concatenate([digits.y_train, digits.y_test])
n_train = len(digits.X_train)
rng = np.random.default_rng(0)
draws = [(rng.permutation(n_train), np.arange(n_train, len(X))) for _ in range(10)]
n_labels = [30, 50, 100, 200, 400]

figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
accuracies = {}
for name, classifier, colour in [("codes", probe, "#0072B2"), ("raw pixels", raw, "#D55E00")]:
    curve = LearningCurveDisplay.from_estimator(
        classifier,
        X,
        y,
        cv=draws,
        train_sizes=n_labels,
        score_type="test",
        ax=ax,
        line_kw={"color": colour, "marker": "o"},
        fill_between_kw={"color": colour, "alpha": 0.15, "linewidth": 0},
    )
    accuracies[name] = curve.test_scores.mean(axis=1)
ax.legend(ax.lines, accuracies, frameon=False, loc="lower right")
ax.set(xscale="log", xlabel="labelled images", ylabel="accuracy on the test images")
ax.set_xticks(n_labels, n_labels)
ax.minorticks_off()
ax.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
ax.grid(color="0.9")
ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# Codes help however many labels there are.

for n, *scores in zip(n_labels, accuracies["codes"], accuracies["raw pixels"], strict=True):
    print("{:4} labels: codes {:.1%}, raw pixels {:.1%}".format(n, *scores))
