"""Codes of rows that are seen in part, against scikit-learn's lasso on what is seen."""

import numpy as np
import pytest
from _helpers import randn
from sklearn.linear_model import Lasso

from skvdl.images._inpainting import code_seen


@pytest.mark.parametrize("lam", [0.01, 0.2])
def test_masked_codes_are_those_of_the_lasso_on_what_is_seen(lam):
    atoms, Y = randn(15, 10, seed=0), randn(12, 10, seed=1)
    seen = (randn(12, 10, seed=2) > -0.5).to(Y.dtype)
    seen[0], seen[1] = 1.0, 0.0
    codes = code_seen(Y, seen, atoms, lam)
    for y, mask, z in zip(Y.numpy(), seen.numpy() > 0, codes.numpy(), strict=True):

        def energy(code, y=y, mask=mask):
            return np.sum((y - code @ atoms.numpy())[mask] ** 2) / 10 + lam * np.abs(code).sum()

        expected = np.zeros(15)
        if mask.any():
            alpha = lam * 10 / (2 * mask.sum())
            lasso = Lasso(alpha, fit_intercept=False, tol=1e-12, max_iter=100_000)
            expected = lasso.fit(atoms.numpy().T[mask], y[mask]).coef_
        excess = energy(z) - energy(expected)
        assert -1e-9 <= excess <= 1e-3 * energy(np.zeros(15))


def test_what_is_hidden_does_not_matter():
    atoms, Y = randn(15, 10, seed=0), randn(12, 10, seed=1)
    seen = (randn(12, 10, seed=2) > 0).to(Y.dtype)
    hidden = Y + 1e6 * (1 - seen)
    np.testing.assert_allclose(
        code_seen(hidden, seen, atoms, 0.1), code_seen(Y, seen, atoms, 0.1), atol=1e-9
    )
