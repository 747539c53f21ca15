"""How good and how sparse: measures of reconstructions and codes, and scorers for model selection.

The functions take arrays; the scorers have scikit-learn's signature ``(estimator, X, y)``.
"""

import numpy as np
from scipy import sparse

__all__ = [
    "n_dead_components",
    "neg_energy_scorer",
    "psnr",
    "psnr_scorer",
    "sparsity",
    "sparsity_scorer",
]


def psnr(X, X_hat, *, data_range=None):
    """Peak signal-to-noise ratio in dB, averaged over rows.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        The data.
    X_hat : array-like of shape (n_samples, n_features)
        Their reconstructions.
    data_range : float, optional
        Distance between the least and the greatest possible value; that of `X` when not given.

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
    X, X_hat = np.asarray(X, dtype=np.float64), np.asarray(X_hat, dtype=np.float64)
    if data_range is None:
        data_range = X.max() - X.min()
    mse = np.square(X - X_hat).mean(axis=1)
    with np.errstate(divide="ignore"):
        return float(np.mean(10 * np.log10(float(data_range) ** 2 / mse)))


def sparsity(codes):
    """Share of exact zeros.

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
    if sparse.issparse(codes):
        return 1 - float(codes.count_nonzero() / np.prod(codes.shape))
    codes = np.asarray(codes)
    return 1 - float(np.count_nonzero(codes) / codes.size)


def n_dead_components(codes):
    """Count components that are zero in every code.

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
    used = np.asarray(abs(codes if sparse.issparse(codes) else np.asarray(codes)).sum(axis=0)) > 0
    return int(used.size - used.sum())


def psnr_scorer(estimator, X, y=None):
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
        PSNR in dB, higher is better. Like every measure of reconstruction alone it prefers
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
    return float(psnr(X, estimator.inverse_transform(estimator.transform(X))))


def sparsity_scorer(estimator, X, y=None):
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
        Share of zeros, higher is better. Of use beside a measure of reconstruction only.

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
    return float(sparsity(estimator.transform(X)))


def neg_energy_scorer(estimator, X, y=None):
    """Score a fitted estimator by minus its mean energy per sample, sparsity included.

    Parameters
    ----------
    estimator : estimator
        Fitted, with `transform`, `inverse_transform` and a parameter `lam`.
    X : array-like of shape (n_samples, n_features)
        Data.
    y : None
        Ignored.

    Returns
    -------
    float
        Minus the mean of ``1/d ||x - x_hat||^2 + lam ||z||_1``, higher is better. Compare it
        between models of one `lam` only.

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
    codes = estimator.transform(X)
    error = np.square(np.asarray(X) - np.asarray(estimator.inverse_transform(codes)))
    l1 = abs(codes if sparse.issparse(codes) else np.asarray(codes)).sum() / codes.shape[0]
    return -float(error.mean() + estimator.lam * l1)
