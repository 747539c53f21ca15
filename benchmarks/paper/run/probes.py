"""Classifiers that see a few labels: linear ones on given features, and LISTA from scratch."""

import copy
import warnings
from collections.abc import Callable

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import RepeatedStratifiedKFold, StratifiedShuffleSplit

from skvdl.models import LISTA

# Inverse strengths of the l2 penalty to choose from, for features whose rows have a norm near 1.
PENALTIES = (0.1, 1.0, 10.0, 100.0)
# With more labels per class than this the penalty hardly matters and each fit takes seconds: one
# is enough.
_MANY = 200
_PENALTY_OF_MANY = 10.0


def draw_few(y: np.ndarray, n_labels: int, rng: np.random.Generator) -> np.ndarray:
    """Return so many rows of every class, in the order of the classes."""
    rows = []
    for label in np.unique(y):
        of_class = np.flatnonzero(y == label)
        if len(of_class) < n_labels:
            raise ValueError(f"Class {label} has {len(of_class)} rows, fewer than {n_labels}.")
        rows.append(rng.choice(of_class, n_labels, replace=False))
    return np.concatenate(rows)


class Scaler:
    """Subtract the mean of features and scale their rows to norm 1 on average, without labels."""

    def __init__(self, features: np.ndarray):
        self.mean = features.mean(axis=0)
        norms = np.linalg.norm(features - self.mean, axis=1)
        self.scale = float(np.sqrt(np.mean(norms**2))) or 1.0

    def __call__(self, features: np.ndarray) -> np.ndarray:
        return (features - self.mean) / self.scale


def top_errors(scores: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Return the shares of rows whose class is not the first, and not among the first three."""
    ranks = (scores > scores[np.arange(len(y)), y][:, None]).sum(axis=1)
    return {"top1": float((ranks > 0).mean()), "top3": float((ranks > 2).mean())}


def probe(Z: np.ndarray, y: np.ndarray, penalty: float) -> Callable[[np.ndarray], np.ndarray]:
    """Fit a linear classifier and return its scores, a function with one column per class."""
    model = LogisticRegression(C=penalty, max_iter=300)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(Z, y).decision_function


def splits(y: np.ndarray, seed: int) -> list:
    """Return folds for choosing by the labelled rows alone; none if a class has a single row."""
    least = np.bincount(y).min()
    if least < 2:
        return []
    if least > _MANY:
        splitter = StratifiedShuffleSplit(1, test_size=0.1, random_state=seed)
    else:
        # few rows make a coarse score: divide them several times
        repeats = 5 if least <= 5 else 1
        folds = min(5, int(least))
        splitter = RepeatedStratifiedKFold(n_splits=folds, n_repeats=repeats, random_state=seed)
    return list(splitter.split(np.zeros(len(y)), y))


def accuracy(scores: np.ndarray, y: np.ndarray) -> float:
    return float((scores.argmax(axis=1) == y).mean())


def candidates(
    Z: np.ndarray,
    y: np.ndarray,
    test: tuple,
    *,
    validation: tuple | None = None,
    cross_validate: int | None = None,
) -> list[dict]:
    """Return the errors of a probe for each penalty, with what it may be chosen by.

    `test` and `validation` are pairs of features and labels; `cross_validate` is the seed of
    folds of the labelled rows.
    """
    folds = [] if cross_validate is None else splits(y, cross_validate)
    found = []
    for penalty in PENALTIES if np.bincount(y).min() <= _MANY else (_PENALTY_OF_MANY,):
        score = probe(Z, y, penalty)
        entry = {"C": penalty, **top_errors(score(test[0]), test[1])}
        if validation is not None:
            entry["val"] = accuracy(score(validation[0]), validation[1])
        if folds:
            parts = [accuracy(probe(Z[a], y[a], penalty)(Z[b]), y[b]) for a, b in folds]
            entry["cv"] = round(float(np.mean(parts)), 6)
        found.append(entry)
    return found


class LISTAClassifier:
    """LISTA and a linear layer, trained together on labels from random weights.

    With a validation set the weights with the best accuracy on it are kept, otherwise the last.
    """

    def __init__(
        self,
        n_components: int,
        seed: int,
        n_steps: int = 300,
        batch_size: int = 250,
        rate: float = 1e-3,
    ):
        self.n_components = n_components
        self.seed = seed
        self.n_steps = n_steps
        self.batch_size = batch_size
        self.rate = rate

    def fit(self, X, y, validation=None):
        """Learn from rows and labels, in at least ten passes."""
        generator = torch.Generator().manual_seed(self.seed)
        n_classes = int(y.max()) + 1
        encoder = LISTA(X.shape[1], self.n_components, generator=generator, dtype=torch.float32)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            self.network_ = torch.nn.Sequential(
                encoder, torch.nn.Linear(self.n_components, n_classes)
            )
        optimizer = torch.optim.Adam(self.network_.parameters(), lr=self.rate)
        X, y = torch.as_tensor(np.asarray(X)), torch.as_tensor(np.asarray(y))
        per_pass = -(-len(X) // self.batch_size)
        n_steps = max(self.n_steps, 10 * per_pass)
        best = (-1.0, None)
        order = torch.randperm(len(X), generator=generator)
        for step in range(n_steps):
            place = step % per_pass
            if place == 0:
                order = torch.randperm(len(X), generator=generator)
            rows = order[place * self.batch_size : (place + 1) * self.batch_size]
            loss = torch.nn.functional.cross_entropy(self.network_(X[rows]), y[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            last = step + 1 == n_steps
            if validation is not None and (last or (step + 1) % max(1, n_steps // 30) == 0):
                reached = accuracy(self.scores(validation[0]), validation[1])
                if reached > best[0]:
                    best = reached, copy.deepcopy(self.network_.state_dict())
        if validation is not None:
            self.network_.load_state_dict(best[1])
        return self

    @torch.no_grad()
    def scores(self, X: np.ndarray) -> np.ndarray:
        """Return the scores of rows, one column per class."""
        return self.network_(torch.as_tensor(np.asarray(X))).numpy()
