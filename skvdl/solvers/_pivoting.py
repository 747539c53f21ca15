"""Least squares on supports: block principal pivoting, for many rows at once.

A row with k of l components in its support needs the k x k part of the Gram matrix alone. Rows of
similar k are solved together, by one batched Cholesky factorisation per round.
"""

from collections.abc import Iterator

import torch

# Entries of the Gram matrices that are kept at a time.
_ENTRIES = 2**22
# Rounds after which a row is given up, and rounds without progress before one component is
# exchanged at a time, which cannot cycle but may take long.
_ROUNDS, _PATIENCE = 20, 3
# Gradient, relative to that at 0, below which a component stays at 0.
_TOL = 1e-6


def solve_on_supports(
    Y: torch.Tensor, W: torch.Tensor, support: torch.Tensor, *, positive: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Minimise ``||y - W z||^2`` for each row over the codes with its support.

    Parameters
    ----------
    Y : torch.Tensor of shape (n, d)
        Data.
    W : torch.Tensor of shape (d, l)
        Dictionary, atoms in columns.
    support : torch.Tensor of shape (n, l)
        Which components may differ from 0.
    positive : bool
        Whether codes are non-negative.

    Returns
    -------
    codes : torch.Tensor of shape (n, l)
        The codes.
    solved : torch.Tensor of shape (n,)
        Whether the codes of a row are the minimum. Those of other rows are feasible.
    """
    codes = torch.zeros_like(support, dtype=Y.dtype)
    solved = torch.ones_like(support[:, 0])
    sizes = support.sum(dim=1)
    linear = Y @ W
    # all products of atoms, unless those on the supports are fewer
    whole = W.T @ W if W.shape[1] ** 2 <= sizes.square().sum() else None
    # components of the support first
    order = support.to(torch.uint8).argsort(dim=1, descending=True, stable=True)
    for rows, size in _groups(sizes):
        index = order[rows, :size]
        inside = support[rows].gather(1, index)
        if whole is None:
            atoms = W.T[index]
            gram = atoms @ atoms.mT
        else:
            gram = whole[index[:, :, None], index[:, None, :]]
        target = linear[rows].gather(1, index)
        Z, done = _pivot(gram, target, inside, positive)
        codes[rows] = codes[rows].scatter(1, index, Z)
        solved[rows] = done
    return codes, solved


def refit_tol(dtype: torch.dtype) -> float:
    """Gradient, relative to that at 0, below which nothing is left to improve."""
    return max(_TOL, 64 * torch.finfo(dtype).eps)


def _groups(sizes: torch.Tensor) -> Iterator[tuple[torch.Tensor, int]]:
    """Rows to solve together, and the largest size of their supports."""
    ascending, order = sizes.sort()
    lengths = ascending.tolist()
    stop = len(lengths)
    while stop and lengths[stop - 1]:
        size = lengths[stop - 1]
        start = max(0, stop - max(1, _ENTRIES // size**2))
        # small supports would waste most of a large matrix
        while 2 * lengths[start] < size:
            start += 1
        yield order[start:stop], size
        stop = start


def _pivot(
    gram: torch.Tensor, target: torch.Tensor, inside: torch.Tensor, positive: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Minimise ``z gram z / 2 - target z`` over the components that are `inside`.

    Parameters
    ----------
    gram : torch.Tensor of shape (n, k, k)
        Quadratic part.
    target : torch.Tensor of shape (n, k)
        Linear part.
    inside : torch.Tensor of shape (n, k)
        Which components may differ from 0.
    positive : bool
        Whether they have to be non-negative.

    Returns
    -------
    codes : torch.Tensor of shape (n, k)
        The codes.
    solved : torch.Tensor of shape (n,)
        Whether the codes of a row are the minimum.
    """
    codes, solved = torch.zeros_like(target), torch.zeros_like(inside[:, 0])
    index = torch.arange(len(target), device=target.device)
    target = target * inside
    least = refit_tol(target.dtype) * torch.linalg.vector_norm(target, dim=1, keepdim=True)
    free = inside
    fewest = inside.sum(dim=1, keepdim=True) + 1
    patience = torch.full_like(fewest, _PATIENCE)
    for _ in range(_ROUNDS):
        Z = _solve(gram, target, free)
        if not positive:
            return Z, torch.ones_like(solved)
        slope = (gram @ Z[:, :, None])[:, :, 0] - target
        wrong = torch.where(free, Z < 0, (slope < -least) & inside)
        n_wrong = wrong.sum(dim=1, keepdim=True)
        codes[index] = Z.relu()
        left = (n_wrong > 0)[:, 0].nonzero()[:, 0]
        solved[index] = (n_wrong == 0)[:, 0]
        if not len(left):
            break
        index, gram, target, inside, least = (
            part[left] for part in (index, gram, target, inside, least)
        )
        free, wrong, n_wrong, fewest, patience = (
            part[left] for part in (free, wrong, n_wrong, fewest, patience)
        )
        better = n_wrong < fewest
        fewest = torch.minimum(fewest, n_wrong)
        patience = torch.where(better, _PATIENCE, patience - 1)
        # the last of the wrong ones, which is the rule that cannot cycle
        places = torch.arange(wrong.shape[1], device=wrong.device)
        last = torch.where(wrong, places, -1).amax(dim=1, keepdim=True)
        free = free ^ (wrong & ((patience >= 0) | (places == last)))
    return codes, solved


def _solve(gram: torch.Tensor, target: torch.Tensor, free: torch.Tensor) -> torch.Tensor:
    """Minimum over the components that are free."""
    eps = torch.finfo(gram.dtype).eps
    size = max(1, int(free.sum(dim=1).amax()))
    if size < free.shape[1]:
        # a factorisation costs the cube of the size
        index = free.to(torch.uint8).argsort(dim=1, descending=True, stable=True)[:, :size]
        rows = torch.arange(len(free), device=free.device)[:, None, None]
        gram = gram[rows, index[:, :, None], index[:, None, :]]
        some = _solve(gram, target.gather(1, index), free.gather(1, index))
        return torch.zeros_like(target).scatter(1, index, some)
    mask = free.to(gram.dtype)
    part = gram * mask[:, :, None] * mask[:, None, :]
    diagonal = part.diagonal(dim1=1, dim2=2)
    largest = diagonal.amax(dim=1, keepdim=True)
    # the ridge decides where atoms outnumber data; a second step takes its effect back elsewhere
    ridge = eps**0.75 * largest
    diagonal.add_(torch.where(free & (largest > 0), ridge, 1.0))
    factor = torch.linalg.cholesky_ex(part)[0]
    target = (target * mask)[:, :, None]
    Z = torch.cholesky_solve(target, factor)
    rest = target - gram @ Z * mask[:, :, None]
    return Z.add_(torch.cholesky_solve(rest, factor))[:, :, 0] * mask
