"""How good and how sparse: measures of reconstructions and codes, and scorers for model selection.

The functions take arrays; the scorers have scikit-learn's signature ``(estimator, X, y)``.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

from ._host import to_host

__all__ = [
    "n_dead_components",
    "neg_energy_scorer",
    "psnr",
    "psnr_scorer",
    "sparsity",
    "sparsity_scorer",
]


def psnr(X: ArrayLike, X_hat: ArrayLike, *, data_range: float | None = None) -> float:
    """Compute the peak signal-to-noise ratio in dB, averaged over rows.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        The data.
    X_hat : array-like of shape (n_samples, n_features)
        Their reconstructions.
    data_range : float, optional
        Distance between the smallest and the largest possible value. By default that of `X`.

    Returns
    -------
    float
        The mean over rows of ``10 log10(data_range^2 / mse)``; infinite if a row is exact.

    Examples
    --------
    >>> import numpy as np
    >>> from skvdl.metrics import psnr
    >>> round(psnr(np.zeros((1, 4)), np.full((1, 4), 0.1), data_range=1.0), 3)
    20.0
    """
    X, X_hat = _to_float(X), _to_float(X_hat)
    if X.shape != X_hat.shape:
        raise ValueError(f"X and X_hat have the shapes {X.shape} and {X_hat.shape}.")
    if X.ndim != 2:
        raise ValueError(f"X of shape {X.shape} must have one row per sample; reshape it.")
    if not X.size:
        raise ValueError(f"X of shape {X.shape} is empty.")
    _refuse_missing(X)
    if not (np.isfinite(X).all() and np.isfinite(X_hat).all()):
        raise ValueError("X or X_hat contains NaN or infinity.")
    if data_range is None:
        # halves, because the difference may be too large for a number
        data_range = 2 * min(float(X.max() / 2 - X.min() / 2), np.finfo(float).max / 2)
        if data_range == 0:
            raise ValueError("The range of the data is 0: X is constant; pass data_range.")
    elif not data_range > 0:
        raise ValueError(f"data_range={data_range} must be positive.")
    # Divided first: squares of very small or very large numbers are 0 or infinite.
    with np.errstate(divide="ignore", over="ignore"):
        mse = np.square(X / data_range - X_hat / data_range).mean(axis=1)
        found = float(np.mean(-10 * np.log10(mse)))
    if not found > -np.inf:
        raise FloatingPointError("The error is too large to be squared; scale the data first.")
    return found


def sparsity(codes: ArrayLike | sparse.spmatrix | sparse.sparray) -> float:
    """Compute the share of exact zeros.

    Parameters
    ----------
    codes : {array-like, sparse matrix} of shape (n_samples, n_components)
        Codes.

    Returns
    -------
    float
        Between 0 and 1.

    Examples
    --------
    >>> from skvdl.metrics import sparsity
    >>> sparsity([[0.0, 1.0], [0.0, 0.0]])
    0.75
    """
    active = _active(codes)
    return 1 - float(active.sum() / np.prod(active.shape))


def n_dead_components(codes: ArrayLike | sparse.spmatrix | sparse.sparray) -> int:
    """Count the components that are zero in every code.

    Parameters
    ----------
    codes : {array-like, sparse matrix} of shape (n_samples, n_components)
        Codes.

    Returns
    -------
    int
        Their number.

    Examples
    --------
    >>> from skvdl.metrics import n_dead_components
    >>> n_dead_components([[0.0, 1.0], [0.0, 0.0]])
    1
    """
    active = _active(codes)
    if active.ndim != 2:
        raise ValueError(f"codes of shape {active.shape} must have one row per sample.")
    return int(np.sum(active.sum(axis=0) == 0))


def psnr_scorer(estimator: BaseEstimator, X: ArrayLike, y: None = None) -> float:
    """Score a fitted estimator by the PSNR of its reconstructions, over the range of `X`.

    Parameters
    ----------
    estimator : estimator
        Fitted, with `transform` and `inverse_transform`.
    X : array-like of shape (n_samples, n_features)
        Data.
    y : None
        Ignored.

    Returns
    -------
    float
        PSNR in dB; higher is better. Like every measure of reconstruction alone, it prefers
        codes that are not sparse.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skvdl import VDL
    >>> from skvdl.metrics import psnr_scorer
    >>> X = load_digits().data / 16
    >>> vdl = VDL(16, max_iter=50, random_state=0).fit(X)
    >>> psnr_scorer(vdl, X) > 10
    True
    """
    return psnr(X, estimator.inverse_transform(estimator.transform(X)))


def sparsity_scorer(estimator: BaseEstimator, X: ArrayLike, y: None = None) -> float:
    """Score a fitted estimator by the share of zeros in its codes.

    Parameters
    ----------
    estimator : estimator
        Fitted, with `transform`.
    X : array-like of shape (n_samples, n_features)
        Data.
    y : None
        Ignored.

    Returns
    -------
    float
        Share of zeros; higher is better. Useful only together with a measure of reconstruction.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skvdl import VDL
    >>> from skvdl.metrics import sparsity_scorer
    >>> X = load_digits().data / 16
    >>> vdl = VDL(16, max_iter=5, random_state=0).fit(X)
    >>> 0 < sparsity_scorer(vdl, X) < 1
    True
    """
    return sparsity(estimator.transform(X))


def neg_energy_scorer(estimator: BaseEstimator, X: ArrayLike, y: None = None) -> float:
    """Score a fitted estimator by minus its mean energy per sample, penalty included.

    Parameters
    ----------
    estimator : estimator
        Fitted, with `transform`, `inverse_transform`, `lam_` and `scale_`. For a pipeline, the
        energy is that of its last step on the output of the steps before.
    X : array-like of shape (n_samples, n_features)
        Data.
    y : None
        Ignored.

    Returns
    -------
    float
        Minus the mean of ``1/d ||x - x_hat||^2 + lam ||z||``, where the error is in units of
        `scale_` and the norm is the l1 norm, or the number of non-zeros with ``penalty="l0"``;
        higher is better. Compare it only between models with the same `lam_`.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skvdl import VDL
    >>> from skvdl.metrics import neg_energy_scorer
    >>> X = load_digits().data / 16
    >>> vdl = VDL(16, max_iter=5, random_state=0).fit(X)
    >>> neg_energy_scorer(vdl, X) < 0
    True
    """
    if isinstance(estimator, Pipeline):
        if len(estimator) > 1:
            X = estimator[:-1].transform(X)
        estimator = estimator[-1]
    if not hasattr(estimator, "lam_"):
        raise TypeError(
            f"{type(estimator).__name__} has no lam_, the weight of the penalty in the energy; "
            "pass a fitted model of skvdl, or a pipeline that ends with one."
        )
    _refuse_missing(_to_float(X))
    codes = estimator.transform(X)
    reconstructed = _to_float(estimator.inverse_transform(codes))
    error = (_to_float(X) - reconstructed) / estimator.scale_
    amplitudes = abs(_to_matrix(codes))
    if getattr(estimator, "penalty", "l1") == "l0":
        amplitudes = amplitudes != 0
    norm = amplitudes.sum(dtype=np.float64) / len(error)
    lam = estimator.lam_ if estimator.lam is None else estimator.lam
    with np.errstate(over="ignore"):
        energy = np.square(error).mean() + lam * norm
    if not np.isfinite(energy):
        raise FloatingPointError("The energy is too large for a number; scale the data first.")
    return -float(energy)


def _refuse_missing(X: NDArray[np.float64]) -> None:
    if np.isnan(X).any():
        raise ValueError(
            "X has missing entries, which this measure cannot leave out; `score` of the estimator "
            "counts the others only."
        )


def _to_float(values: ArrayLike) -> NDArray[np.float64]:
    return np.asarray(to_host(values), dtype=np.float64)


def _to_matrix(codes: Any) -> Any:
    """Return codes as an array or as a CSR matrix, in which no entry is stored twice."""
    return codes.tocsr() if sparse.issparse(codes) else np.asarray(to_host(codes))


def _active(codes: Any) -> Any:
    """Return where codes are not zero, as an array or a CSR matrix of booleans."""
    active = _to_matrix(codes) != 0
    if not np.prod(active.shape):
        raise ValueError(f"The codes of shape {active.shape} are empty.")
    return active
