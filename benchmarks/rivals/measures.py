"""What is measured: reconstruction, zeros, seconds, a probe with few labels, atoms found again."""

from statistics import median
from time import perf_counter

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.linear_model import LogisticRegression

LABELS_PER_CLASS = 5
DRAWS = 10


def decibels(X, X_hat):
    """Return the signal-to-noise ratio of all rows together; the mean of the rows is zero."""
    X = np.asarray(X, dtype=np.float64)
    return float(-10 * np.log10(np.sum((X - X_hat) ** 2) / np.sum(X**2)))


def zeros(codes):
    """Return the share of exact zeros."""
    return float(np.mean(np.asarray(codes) == 0))


def timed(function):
    """Return a function's result and its seconds; quick ones are repeated for a median."""
    seconds = []
    while not seconds or (len(seconds) < 5 and sum(seconds) < 0.5):
        start = perf_counter()
        result = function()
        seconds.append(perf_counter() - start)
    return result, median(seconds)


def labelled_rows(labels, seed):
    """Draw five rows per class, several times.

    Returns
    -------
    ndarray of shape (draws, classes * 5)
        Numbers of the rows. They depend on nothing but the labels and the seed, so that all
        methods are given the same labels.
    """
    rng = np.random.default_rng(seed)
    classes = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    return np.array(
        [
            np.concatenate([rng.choice(rows, LABELS_PER_CLASS, replace=False) for rows in classes])
            for _ in range(DRAWS)
        ]
    )


def probe(encode, data, codes_test, seed):
    """Return the accuracy of a logistic regression on codes, from five labels per class."""
    draws = labelled_rows(data.labels_train, seed)
    rows = np.unique(draws)
    codes = encode(data.train[rows])
    accuracies = []
    for draw in draws:
        few = codes[np.searchsorted(rows, draw)]
        # One scale for all codes: the methods' units differ, and the probe's penalty sees them.
        scale = few.std() or 1.0
        model = LogisticRegression(max_iter=2000).fit(few / scale, data.labels_train[draw])
        accuracies.append(model.score(codes_test / scale, data.labels_test))
    return {
        "accuracy": float(np.mean(accuracies)),
        "standard_error": float(np.std(accuracies, ddof=1) / np.sqrt(len(accuracies))),
        "draws": len(accuracies),
    }


def atoms_found(atoms, true_atoms):
    """Compare atoms with the true ones after the best one-to-one assignment.

    Cosines keep their sign because codes are non-negative. A true atom without a partner counts
    as a cosine of zero.
    """
    atoms, true_atoms = (
        x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)
        for x in (np.asarray(atoms, dtype=np.float64), np.asarray(true_atoms, dtype=np.float64))
    )
    cosines = true_atoms @ atoms.T
    matched = cosines[linear_sum_assignment(cosines, maximize=True)]
    return {
        "mean_cosine": float(matched.sum() / len(true_atoms)),
        "share_above_0.9": float(np.sum(matched > 0.9) / len(true_atoms)),
    }
