"""Matching pursuit against scikit-learn's."""

import numpy as np
import torch
from _helpers import randn
from sklearn.linear_model import orthogonal_mp

from skvdl.images._pursuit import matching_pursuit


def test_matching_pursuit_is_that_of_scikit_learn():
    atoms = torch.nn.functional.normalize(randn(30, 12, seed=0), dim=1)
    Y = randn(20, 12, seed=1)
    found, n_atoms = matching_pursuit(Y, atoms, max_error=2.0, max_atoms=12)
    for y, row, n in zip(Y.numpy(), found.numpy(), n_atoms, strict=True):
        code = orthogonal_mp(atoms.numpy().T, y, tol=2.0)
        np.testing.assert_allclose(row, atoms.numpy().T @ code, atol=1e-10)
        assert n == np.count_nonzero(code)


def test_matching_pursuit_stops_at_the_span_of_the_atoms():
    atoms = torch.eye(6, dtype=torch.float64)[[0, 0, 1]]
    Y = randn(4, 6, seed=1)
    found, n_atoms = matching_pursuit(Y, atoms, max_error=0.0, max_atoms=5)
    torch.testing.assert_close(found[:, :2], Y[:, :2])
    assert (found[:, 2:] == 0).all()
    assert (n_atoms == 2).all()
