"""Non-negative least squares on given supports, for many rows at once.

Lasso codes are too small, all of them. Refitting keeps which components are active and corrects
how much.
"""

import numpy as np
import torch

# Few rows at once: their systems should stay near the processor.
CHUNK = 50


def refit(X, atoms, codes):
    """Return codes that reconstruct the rows best among those with the same or fewer active.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        The rows.
    atoms : ndarray of shape (n_components, n_features)
        The dictionary.
    codes : ndarray of shape (n_samples, n_components)
        Codes whose support is kept.

    Returns
    -------
    ndarray of shape (n_samples, n_components)
        The solutions of ``min ||x - z @ atoms||`` over ``z >= 0`` with zeros where `codes` has
        zeros.
    """
    atoms = torch.from_numpy(np.asarray(atoms, dtype=np.float64))
    gram = atoms @ atoms.T
    # Keeps equal atoms from making the systems singular; far below the data's own accuracy.
    gram += 1e-10 * gram.diagonal().mean() * torch.eye(len(gram), dtype=gram.dtype)
    result = np.zeros(codes.shape, dtype=X.dtype)
    support = np.asarray(codes) != 0
    # Rows with supports of similar size go together, so that little is padded.
    order = np.argsort(support.sum(axis=1))
    for rows in np.split(order, range(CHUNK, len(X), CHUNK)):
        products = torch.from_numpy(np.asarray(X[rows], dtype=np.float64)) @ atoms.T
        result[rows] = _pivot(gram, products, torch.from_numpy(support[rows])).numpy()
    return result


def _pivot(gram, products, support):
    """Block principal pivoting (Kim and Park, 2011), every row with its own support."""
    n, size = len(products), int(support.sum(dim=1).max())
    result = torch.zeros_like(products)
    if size == 0:
        return result
    # Each row's system has only its own components, padded to the size of the largest.
    order = torch.argsort(support.to(torch.uint8), dim=1, descending=True, stable=True)[:, :size]
    inside = support.gather(1, order)
    G = gram[order[:, :, None], order[:, None, :]]
    b = products.gather(1, order)
    passive = inside.clone()
    tolerance = 1e-9 * b.abs().amax(dim=1, keepdim=True).clamp_min(1e-300)
    fewest = torch.full((n,), size + 1)
    chances = torch.full((n,), 3)
    z = torch.zeros_like(b)
    todo = torch.arange(n)
    while len(todo):
        p = passive[todo]
        # Rows and columns that are not passive become those of the identity.
        systems = G[todo]
        systems *= p[:, :, None]
        systems *= p[:, None, :]
        systems.diagonal(dim1=1, dim2=2).add_(~p)
        factors = torch.linalg.cholesky(systems)
        solved = torch.cholesky_solve((b[todo] * p)[:, :, None], factors)[:, :, 0]
        gradient = (G[todo] @ solved[:, :, None])[:, :, 0] - b[todo]
        wrong = inside[todo] & torch.where(p, solved < 0, gradient < -tolerance[todo])
        count = wrong.sum(dim=1)
        done = count == 0
        z[todo[done]] = solved[done]
        todo, wrong, count = todo[~done], wrong[~done], count[~done]
        # Exchange everything as long as that helps, else only the last one: this cannot cycle.
        better = count < fewest[todo]
        fewest[todo] = torch.where(better, count, fewest[todo])
        chances[todo] = torch.where(better, 3, chances[todo] - 1)
        last = size - 1 - torch.argmax(wrong.flip(1).to(torch.uint8), dim=1)
        single = torch.zeros_like(wrong).scatter(1, last[:, None], True)
        exchange = torch.where((chances[todo] >= 0)[:, None], wrong, single)
        passive[todo] ^= exchange
    return result.scatter(1, order, z)
