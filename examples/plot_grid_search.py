"""
Choose lam and beta by grid search
==================================

To get a certain share of zeros, set `target_sparsity`; no search is needed. This example is about
the energy of the paper, the l1 norm with the variance hinge, whose two weights can be searched for.

A score of reconstruction alone always prefers the smallest `lam`, and a score of sparsity alone the
largest. Measure both, look at the trade-off, and state what you want: here the best reconstruction
with at least 70 % zeros.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import GridSearchCV

from skvdl import VDL
from skvdl.datasets import load_digits
from skvdl.metrics import psnr_scorer, sparsity, sparsity_scorer
from skvdl.plotting import ReconstructionDisplay, TradeOffDisplay

# %%
# A rule instead of a score
# -------------------------
# The parameter ``refit`` of :class:`~sklearn.model_selection.GridSearchCV` may be a function that
# chooses from all results.


def best_of_the_sparse(results):
    """Index of the best PSNR among the settings with at least 70 % zeros."""
    enough = results["mean_test_sparsity"] > 0.7
    return int(np.argmax(np.where(enough, results["mean_test_psnr"], -np.inf)))


digits = load_digits()
search = GridSearchCV(
    VDL(
        32,
        penalty="l1",
        regularizer="variance",
        batch_size=100,
        max_iter=25,
        learning_rate_init=0.01,
        random_state=0,
    ),
    {"lam": [0.01, 0.03, 0.1, 0.3], "beta": [1, 10]},
    scoring={"sparsity": sparsity_scorer, "psnr": psnr_scorer},
    refit=best_of_the_sparse,
    cv=2,
).fit(digits.X_train)
print("chosen:", search.best_params_)

# %%
# The trade-off
# -------------
# There is one curve for each `beta`, along which `lam` varies, with bars of one standard deviation
# over the folds. Further up and right is better.

display = TradeOffDisplay.from_grid_search(search)
display.ax_.axvspan(0.7, 1, color="0.95", zorder=0)
display.ax_.set_xlim(right=1)
plt.show()

# %%
# What was chosen, on new images
# ------------------------------

codes = search.best_estimator_.transform(digits.X_test)
print(f"{sparsity(codes):.0%} zeros, {psnr_scorer(search.best_estimator_, digits.X_test):.1f} dB")
ReconstructionDisplay.from_estimator(
    search.best_estimator_, digits.X_test, n_images=10, im_kw={"cmap": "gray_r"}
)
plt.show()
