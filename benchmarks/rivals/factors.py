"""NMF with an l1 penalty, PCA, and the raw features that a probe is compared with."""

import warnings
from functools import cached_property
from time import perf_counter

import numpy as np
from sklearn.decomposition import NMF as SklearnNMF
from sklearn.decomposition import PCA as SklearnPCA
from sklearn.exceptions import ConvergenceWarning

from .methods import Fitted, best, find_strength

MOST_ROWS = 10_000


class NMF:
    """Fit once per training strength to the rows with their mean; then find the coding strength.

    The penalty is on both factors in training, because their scales are exchangeable. NMF learns
    from at most 10 000 rows: its cost is that of 100 sweeps over all of them.
    """

    entries = ("nmf",)

    def __init__(self, data, seed):
        self.data = data
        self.seed = seed

    def _rows(self, X):
        return np.clip(X + self.data.offset, 0, None).astype(np.float32)

    @cached_property
    def models(self):
        models = []
        for alpha in self.data.effort.nmf_alphas:
            model = SklearnNMF(
                self.data.n_components,
                alpha_W=alpha,
                alpha_H="same",
                l1_ratio=1,
                max_iter=100,
                random_state=self.seed,
            )
            start = perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                model.fit(self._rows(self.data.train[:MOST_ROWS]))
            models.append((alpha, model, perf_counter() - start))
        return models

    def solve(self, level):
        candidates = [self._candidate(level, *model) for model in self.models]
        # NMF can have more zeros than asked for even without a penalty, but not fewer.
        enough = [c for c in candidates if c.settings["val_zeros"] > level - 0.01]
        return {"nmf": best(enough or candidates)}

    def _candidate(self, level, alpha, model, seconds):
        rows, atoms = self.data.val, model.components_

        def encode(X, coding):
            model.set_params(alpha_W=coding)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                return model.transform(self._rows(X))

        # The penalty counts per feature: above the largest product over it, all codes are zero.
        high = float(np.max(self._rows(rows) @ atoms.T)) / rows.shape[1]
        coding = find_strength(lambda a: encode(rows, a), level, 1e-6 * high, high)
        fitted = Fitted(
            encode=lambda X: encode(X, coding),
            decode=lambda codes: codes @ atoms - self.data.offset,
            fit_seconds=seconds,
            settings={
                "training_alpha": alpha,
                "coding_alpha": coding,
                "val_zeros": round(float(np.mean(encode(rows, coding) == 0)), 4),
            },
        )
        return fitted.validate(rows)


class PCA:
    """As many components as other methods have active entries; its codes have no zeros."""

    entries = ("pca",)

    def __init__(self, data, seed):
        self.data = data
        self.seed = seed

    def solve(self, level):
        k = max(1, round((1 - level) * self.data.n_components))
        k = min(k, *self.data.train.shape)
        start = perf_counter()
        model = SklearnPCA(k, random_state=self.seed).fit(self.data.train)
        seconds = perf_counter() - start
        fitted = Fitted(model.transform, model.inverse_transform, seconds, {"n_components": k})
        return {"pca": fitted.validate(self.data.val)}


class RawFeatures:
    """No model at all: what the probe reaches on the rows themselves."""

    entries = ("raw",)

    def __init__(self, data, seed):
        pass

    def solve(self, level):
        return {"raw": Fitted(lambda X: X, lambda X: X, 0.0)}
