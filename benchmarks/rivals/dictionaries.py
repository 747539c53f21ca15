"""Dictionary learning with non-negative lasso codes: scikit-learn and SPAMS, plain and refitted."""

import warnings
from functools import cached_property
from time import perf_counter

import numpy as np
import torch
from sklearn.decomposition import MiniBatchDictionaryLearning, sparse_encode
from sklearn.exceptions import ConvergenceWarning

from .methods import Fitted, best, find_strength
from .refit import refit

try:
    import spams
except ImportError:  # a rival less, and the runner says so
    spams = None

# Rows per step of SPAMS, its own default.
BATCH = 512


class _Dictionary:
    """Fit once per training strength; then find the coding strength of each level.

    Subclasses name their two entries, learn a dictionary and compute codes:
    ``learn(alpha) -> atoms`` and ``lasso(X, atoms, alpha) -> codes``.
    """

    def __init__(self, data, seed):
        self.data = data
        self.seed = seed

    @cached_property
    def models(self):
        """Learnt dictionaries as (relative strength, atoms, seconds)."""
        row_norm = float(np.sqrt(self.data.train.shape[1]))  # entries have variance 1
        models = []
        for alpha in self.data.effort.alphas:
            start = perf_counter()
            atoms = self.learn(alpha * row_norm)
            models.append((alpha, atoms, perf_counter() - start))
        return models

    def solve(self, level):
        plain, refitted = [], []
        for model in self.models:
            # No code is active above the largest product of a row with an atom.
            high = float(np.max(self.data.val @ model[1].T))
            fitted = self._candidate(level, *model, self.lasso, 1e-4 * high, high)
            plain.append(fitted)
            # Refitting adds zeros, so that a smaller strength is enough, but not by much.
            high = 1.01 * fitted.settings["coding_alpha"]
            refitted.append(self._candidate(level, *model, self._refitted, high / 4, high))
        return dict(zip(self.entries, (best(plain), best(refitted)), strict=True))

    def _candidate(self, level, alpha, atoms, seconds, code, low, high):
        """Codes of one dictionary, with the level's share of zeros on validation rows."""
        rows = self.data.val
        coding = find_strength(lambda a: code(rows, atoms, a), level, low, high)
        return Fitted(
            encode=lambda X: code(X, atoms, coding),
            decode=lambda codes: codes @ atoms,
            fit_seconds=seconds,
            settings={"training_alpha": alpha, "coding_alpha": coding},
            atoms=atoms,
        ).validate(rows)

    def _refitted(self, X, atoms, alpha):
        return refit(X, atoms, self.lasso(X, atoms, alpha))


class ScikitLearn(_Dictionary):
    """MiniBatchDictionaryLearning with coordinate descent, its only solver for positive codes.

    It gets rows in double precision: in single precision its coordinate descent rarely meets its
    stopping rule, and takes five times as long for the same codes.
    """

    entries = ("mbdl", "mbdl-refitted")

    def learn(self, alpha):
        train, visits = self.data.train.astype(np.float64), self.data.effort.sklearn_visits
        model = MiniBatchDictionaryLearning(
            self.data.n_components,
            alpha=alpha,
            fit_algorithm="cd",
            positive_code=True,
            max_iter=max(1, round(visits / len(train))),
            max_no_improvement=None,
            tol=0,
            random_state=self.seed,
        )
        # Coordinate descent stops after 1000 sweeps on a few rows, which does no harm.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(train[:visits])
        return model.components_

    def lasso(self, X, atoms, alpha):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return sparse_encode(
                X.astype(np.float64), atoms, algorithm="lasso_cd", alpha=alpha, positive=True
            )


class Spams(_Dictionary):
    """SPAMS: online dictionary learning and LARS."""

    entries = ("spams", "spams-refitted")

    def learn(self, alpha):
        rng = np.random.default_rng(self.seed)
        # SPAMS visits rows in order and starts from the first ones.
        train = np.asfortranarray(rng.permutation(self.data.train).T)
        atoms = spams.trainDL(
            train,
            K=self.data.n_components,
            lambda1=alpha,
            posAlpha=True,
            batchsize=BATCH,
            iter=max(1, round(self.data.effort.spams_visits / BATCH)),
            verbose=False,
            # otherwise it takes all cores and leaves them to torch
            numThreads=torch.get_num_threads(),
        )
        return np.ascontiguousarray(atoms.T)

    def lasso(self, X, atoms, alpha):
        codes = spams.lasso(
            np.asfortranarray(X.T),
            D=np.asfortranarray(atoms.T),
            lambda1=alpha,
            pos=True,
            numThreads=torch.get_num_threads(),
        )
        return np.ascontiguousarray(codes.toarray().T)
