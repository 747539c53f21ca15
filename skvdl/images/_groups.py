"""Refinements: better estimates from groups of patches that look alike."""

import torch
from torch import Tensor
from tqdm.auto import tqdm

from ._patches import PatchAverage, PatchGrid

# Patches of a group, per square root of the number of pixels of a patch.
_SIMILAR = 5
# How far from the centre of its group a patch may be, in either direction.
_REACH = 10
# Groups are solved this many pixels at a time, which suits the caches.
_GROUP_ELEMENTS = 2**20
# Largest pixel, in standard deviations of the noise, up to which single precision is enough.
_MOST_IN_SINGLE = 128


def refine(noisy: Tensor, pilot: Tensor, grid: PatchGrid, *, title: str, verbose: bool) -> Tensor:
    """Improve an estimate by groups of patches that look alike in it.

    Parameters
    ----------
    noisy : torch.Tensor of shape (height, width, channels)
        Image with noise of variance 1.
    pilot : torch.Tensor of shape (height, width, channels)
        Estimate of it.
    grid : PatchGrid
        Patches at the centres of groups.
    title : str
        Text before the progress bar.
    verbose : bool
        Whether to show a progress bar.

    Returns
    -------
    torch.Tensor of shape (height, width, channels)
        The better estimate.
    """
    average = PatchAverage(noisy)
    n_similar = round(_SIMILAR * len(grid.offsets) ** 0.5)
    # an eighth of what memory allows: a band may take seconds, and the bar should move
    bands = grid.bands(8 * (2 * _REACH + 1) ** 2)
    # the squares of strong contrasts hide a variance of 1
    strong = noisy.abs().amax() > _MOST_IN_SINGLE
    dtype = torch.float64 if strong else noisy.dtype
    given, guess = noisy.flatten().to(dtype), pilot.flatten().to(dtype)
    for rows in tqdm(bands, desc=title, unit="band", disable=not verbose):
        groups = similar_patches(pilot, grid, rows, reach=_REACH, n_similar=n_similar)
        at_once = max(1, _GROUP_ELEMENTS // (groups.shape[1] * len(grid.offsets)))
        for anchors in groups.split(at_once):
            pixels = grid.pixels(anchors)
            estimates, weights = shrink_by_group(given[pixels], guess[pixels])
            average.add(pixels, estimates.to(noisy), weights[:, None, None].to(noisy))
    return average.image()


def similar_patches(
    image: Tensor, grid: PatchGrid, rows: slice, *, reach: int, n_similar: int
) -> Tensor:
    """Find the patches most like those in some rows of a grid, in the squares around them.

    Parameters
    ----------
    image : torch.Tensor of shape (height, width, channels)
        Where to look.
    grid : PatchGrid
        Which patches to find companions for.
    rows : slice
        In which rows of the grid.
    reach : int
        How far away in either direction companions may be.
    n_similar : int
        How many of them, including the patch itself; fewer where the image does not have as many.

    Returns
    -------
    torch.Tensor of shape (n, n_similar)
        Anchors of the companions, the most similar first.
    """
    size, n_columns = grid.size, len(grid.columns)
    first = max(0, int(grid.rows[rows][0]) - reach)
    band = image[first : int(grid.rows[rows][-1]) + size + reach]
    top = grid.rows[rows] - first
    height, width = band.shape[:2]
    span = torch.arange(size, device="cpu")
    down = (top[:, None] + span).flatten()
    across = (grid.columns[:, None] + span).flatten()
    # outside the image nothing is similar to anything
    outside = torch.nn.functional.pad(band, (0, 0, *[reach] * 4), value=torch.inf)
    n_shifts = (2 * reach + 1) ** 2
    distances = band.new_empty(n_shifts, len(top) * n_columns)
    for i in range(2 * reach + 1):
        for j in range(2 * reach + 1):
            shifted = outside[i : i + height, j : j + width]
            error = (shifted - band).square_().sum(dim=2)
            error = error[down].reshape(len(top), size, width).sum(dim=1)
            error = error[:, across].reshape(len(top), n_columns, size).sum(dim=2)
            distances[i * (2 * reach + 1) + j] = error.flatten()
    distances[n_shifts // 2] = -1  # a patch is its own companion, even among equals
    n_places = [min(reach, n - size) + 1 for n in image.shape[:2]]
    nearest = distances.topk(min(n_similar, n_places[0] * n_places[1]), dim=0, largest=False)
    steps = torch.arange(-reach, reach + 1, device="cpu")
    shifts = grid.place(steps[:, None], steps).flatten()
    return grid.anchors(rows)[:, None] + shifts[nearest.indices.T]


def shrink_by_group(noisy: Tensor, pilot: Tensor) -> tuple[Tensor, Tensor]:
    """Compute the best linear estimate of patches given the statistics of their group.

    Parameters
    ----------
    noisy : torch.Tensor of shape (groups, n, d)
        Patches with noise of variance 1.
    pilot : torch.Tensor of shape (groups, n, d)
        First estimates of the same patches.

    Returns
    -------
    estimates : torch.Tensor of shape (groups, n, d)
        ``m + C (C + I)^-1 (y - m)`` with mean m and covariance C of the group's pilots.
    weights : torch.Tensor of shape (groups,)
        ``1 / (1 + tr C (C + I)^-1)``, larger where less of the noise is let through.
    """
    mean = pilot.mean(dim=1, keepdim=True)
    spread = pilot - mean
    # C = S'S / (n - 1) has rank n at most: solve in n dimensions rather than in d
    ridge = max(1, pilot.shape[1] - 1)
    gram = spread @ spread.transpose(1, 2)
    gram.diagonal(dim1=1, dim2=2).add_(ridge)
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(gram))
    mixing = (noisy - mean) @ spread.transpose(1, 2) @ inverse
    trace = (1 - ridge * inverse.diagonal(dim1=1, dim2=2)).sum(dim=1)
    return mean + mixing @ spread, 1 / (1 + trace)
