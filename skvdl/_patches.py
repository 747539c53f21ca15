"""What is done with the patches of an image: cut, code, shrink by groups, average. Tensors only.

Images are of shape (height, width, channels), with the noise scaled to a standard deviation of 1.
A patch is a row of ``size * size * channels`` pixels. It is addressed by the place of its first
pixel in the flattened image, its anchor, which makes cutting out a gather and overlap averaging a
scatter for any stride, any number of channels and any selection of patches.
"""

import torch

from .models._weights import eigenvalue_bound

__all__ = [
    "PatchAverage",
    "PatchGrid",
    "channel_means",
    "code_gaps",
    "masked_lasso",
    "matching_pursuit",
    "refine",
    "shrink_by_group",
    "similar_patches",
]

# Groups are solved this many pixels at a time, which the caches like.
_GROUP_ELEMENTS = 2**20


def _starts(n_places, stride):
    """Every stride-th place and, so that borders are complete, the last."""
    places = torch.arange(0, n_places, stride, device="cpu")
    last = torch.tensor([n_places - 1], device="cpu")
    return torch.cat([places[places < n_places - 1], last])


class PatchGrid:
    """Where the patches of an image are.

    Parameters
    ----------
    shape : tuple of int
        Height, width and channels of the image.
    size : int
        Height and width of a patch.
    stride : int
        Distance between neighbouring patches; those at the far borders are there for any.
    """

    def __init__(self, shape, size, stride):
        height, self.width, self.channels = shape
        self.size = size
        self.rows = _starts(height - size + 1, stride)
        self.columns = _starts(self.width - size + 1, stride)
        i, j, k = (torch.arange(n, device="cpu") for n in (size, size, self.channels))
        self.offsets = self.place(i[:, None, None], j[:, None], k).flatten()

    def place(self, row, column, channel=0):
        """Index of a pixel in the flattened image."""
        return (row * self.width + column) * self.channels + channel

    def anchors(self, rows=slice(None)):
        """Anchors of the patches in some of the grid's rows."""
        return self.place(self.rows[rows, None], self.columns).flatten()

    def pixels(self, anchors):
        """Indices of the pixels of patches, one patch along the last axis."""
        return anchors[..., None] + self.offsets

    def bands(self, n_patches):
        """Slices of the grid's rows with about so many patches each."""
        n_rows = max(1, n_patches // len(self.columns))
        return [slice(a, a + n_rows) for a in range(0, len(self.rows), n_rows)]


class PatchAverage:
    """Weighted average of overlapping patches.

    Parameters
    ----------
    image : torch.Tensor
        An image of the size and type of the result.
    """

    def __init__(self, image):
        self.shape = image.shape
        self.total = torch.zeros_like(image).flatten()
        self.weight = torch.zeros_like(self.total)

    def add(self, pixels, patches, weights):
        """Add patches at their pixels, each with its weight, of shape (..., 1)."""
        index = pixels.flatten()
        self.total.index_add_(0, index, (patches * weights).flatten())
        self.weight.index_add_(0, index, weights.expand_as(patches).flatten())

    def image(self):
        """Average, NaN where there was no patch."""
        return (self.total / self.weight).reshape(self.shape)


def channel_means(patches, channels, seen=None):
    """Mean of each channel of each patch, repeated to the shape of the patches.

    Parameters
    ----------
    patches : torch.Tensor of shape (n, d)
        Patches.
    channels : int
        Channels of the image.
    seen : torch.Tensor of shape (n, d), optional
        1 for the pixels that count, 0 for others; a channel without any has mean 0.

    Returns
    -------
    torch.Tensor of shape (n, d)
        The means.
    """
    seen = torch.ones_like(patches) if seen is None else seen
    shape = (len(patches), -1, channels)
    counts = seen.reshape(shape).sum(dim=1, keepdim=True).clamp_min(1)
    means = (patches * seen).reshape(shape).sum(dim=1, keepdim=True) / counts
    return means.expand(patches.reshape(shape).shape).reshape(patches.shape)


def matching_pursuit(Y, atoms, *, max_error, max_atoms):
    """Approximate rows by as few atoms as their noise allows: orthogonal matching pursuit.

    Parameters
    ----------
    Y : torch.Tensor of shape (n, d)
        Data.
    atoms : torch.Tensor of shape (l, d)
        Atoms of unit norm.
    max_error : float
        Squared error at which a row is done.
    max_atoms : int
        Atoms of a row at most.

    Returns
    -------
    approximation : torch.Tensor of shape (n, d)
        The projections of the rows on the atoms chosen for them.
    n_atoms : torch.Tensor of shape (n,)
        How many these are.
    """
    residual = Y.clone()
    n_atoms = torch.zeros_like(Y[:, 0], dtype=torch.long)
    active = (Y.square().sum(dim=1) > max_error).nonzero()[:, 0]
    rest = Y[active]
    # orthonormal directions that span the atoms of each row so far
    spans = rest[:, None, :][:, :0]
    smallest = 1e3 * torch.finfo(Y.dtype).eps
    for _ in range(max_atoms):
        if not len(active):
            break
        direction = atoms[(rest @ atoms.T).abs_().argmax(dim=1)][:, None]
        direction = direction - direction @ spans.transpose(1, 2) @ spans
        length = torch.linalg.vector_norm(direction, dim=2, keepdim=True)
        direction = direction / length.clamp_min(smallest)
        rest = rest - (rest[:, None] @ direction.transpose(1, 2) @ direction)[:, 0]
        # an atom within the span of the others: no atom can lower the error any more
        useful = length[:, 0, 0] > smallest
        residual[active[useful]] = rest[useful]
        n_atoms[active[useful]] += 1
        left = (useful & (rest.square().sum(dim=1) > max_error)).nonzero()[:, 0]
        active, rest = active[left], rest[left]
        spans = torch.cat([spans[left], direction[left]], dim=1)
    return Y - residual, n_atoms


def similar_patches(image, grid, rows, *, reach, n_similar):
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
        How many of them, the patch itself included; fewer where the image has not that many.

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
    shifts = torch.arange(-reach, reach + 1, device="cpu")
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
    shifts = grid.place(shifts[:, None], shifts).flatten()
    return grid.anchors(rows)[:, None] + shifts[nearest.indices.T]


def shrink_by_group(noisy, pilot):
    """Best linear estimate of patches in groups, with mean and covariance of the group's pilots.

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
        ``1 / (1 + tr C (C + I)^-1)``: the less of the noise is let through, the greater.
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


def refine(noisy, pilot, grid, rows, average, *, n_similar, reach):
    """Add better estimates of the patches like those in some rows of a grid to an average.

    Parameters
    ----------
    noisy : torch.Tensor of shape (height, width, channels)
        Image with noise of variance 1.
    pilot : torch.Tensor of shape (height, width, channels)
        First estimate of it.
    grid : PatchGrid
        Patches at the centres of groups.
    rows : slice
        Which rows of the grid.
    average : PatchAverage
        What to add to.
    n_similar : int
        Patches of a group.
    reach : int
        How far from its centre they may be.
    """
    groups = similar_patches(pilot, grid, rows, reach=reach, n_similar=n_similar)
    at_once = max(1, _GROUP_ELEMENTS // (groups.shape[1] * len(grid.offsets)))
    for anchors in groups.split(at_once):
        pixels = grid.pixels(anchors)
        estimates, weights = shrink_by_group(noisy.flatten()[pixels], pilot.flatten()[pixels])
        average.add(pixels, estimates, weights[:, None, None])


def masked_lasso(Y, seen, atoms, *, lam, tol=1e-3, max_iter=1000):
    """Codes of rows of which only some entries are seen, by FISTA.

    Minimises ``1/d ||seen * (y - z atoms)||^2 + lam ||z||_1`` for each row.

    Parameters
    ----------
    Y : torch.Tensor of shape (n, d)
        Data; what is not seen may be any finite number.
    seen : torch.Tensor of shape (n, d)
        1 for entries that are seen, 0 for others.
    atoms : torch.Tensor of shape (l, d)
        Atoms.
    lam : float
        Weight of the l1 norm.
    tol : float, default=1e-3
        Duality gap, as a share of the energy of the code 0, at which a row is done.
    max_iter : int, default=1000
        Iterations at most.

    Returns
    -------
    torch.Tensor of shape (n, l)
        The codes.
    """
    Y = Y * seen
    scale = 2.0 / Y.shape[1]
    # hiding entries can only lower the curvature
    step = 1.0 / (scale * eigenvalue_bound(atoms @ atoms.T))
    codes = Y.new_zeros(len(Y), len(atoms))
    active = torch.arange(len(Y), device=Y.device)
    Z = X = codes
    age = torch.zeros_like(Y[:, :1])
    for k in range(max_iter):
        residual = (X @ atoms).sub_(Y).mul_(seen)
        V = X - step * scale * (residual @ atoms.T)
        Z_new = V - V.clamp(-step * lam, step * lam)
        move = Z_new - Z
        # momentum that points uphill is dropped
        age = torch.where(torch.linalg.vecdot(X - Z_new, move)[:, None] > 0, 0.0, age + 1)
        X, Z = Z_new + move * (age / (age + 3)), Z_new
        if k % 10 == 9:
            left = (_masked_gap(Y, seen, atoms, Z, lam) > tol).nonzero()[:, 0]
            if len(left) < len(active):
                codes[active] = Z
                active = active[left]
                Y, seen, X, Z, age = (v[left] for v in (Y, seen, X, Z, age))
            if not len(active):
                break
    codes[active] = Z
    return codes


def _masked_gap(Y, seen, atoms, Z, lam):
    """Duality gap of each row over its energy without any atom."""
    scale = 2.0 / Y.shape[1]
    residual = (Y - Z @ atoms).mul_(seen)
    excess = (residual @ atoms.T).abs_().amax(dim=1) * scale
    shrink = (lam / excess.clamp_min(torch.finfo(Y.dtype).tiny)).clamp_(max=1.0)
    error = residual.square().sum(dim=1)
    overlap = torch.linalg.vecdot(residual, Y)
    energy = error * (scale / 2) + lam * Z.abs().sum(dim=1)
    gap = energy - (scale / 2) * shrink * (2 * overlap - shrink * error)
    size = Y.square().sum(dim=1) * (scale / 2)
    return gap / size.clamp_min(torch.finfo(Y.dtype).tiny)


def code_gaps(image, seen, grid, rows, atoms, average):
    """Add reconstructions of the patches in some rows of a grid that are seen in part.

    Parameters
    ----------
    image : torch.Tensor of shape (height, width, channels)
        Image.
    seen : torch.Tensor of shape (height, width, channels)
        False where it is missing.
    grid : PatchGrid
        The patches.
    rows : slice
        Which rows of the grid.
    atoms : torch.Tensor of shape (l, d)
        Atoms of unit norm.
    average : PatchAverage
        What to add to; a patch has as much weight as is seen of it.
    """
    pixels = grid.pixels(grid.anchors(rows))
    known = seen.flatten()[pixels]
    partial = known.any(dim=1) & ~known.all(dim=1)
    pixels, known = pixels[partial], known[partial].to(image.dtype)
    if not len(pixels):
        return
    patches = image.flatten()[pixels]
    means = channel_means(patches, grid.channels, known)
    codes = masked_lasso(patches - means, known, atoms, lam=2 / patches.shape[1])
    average.add(pixels, codes @ atoms + means, known.mean(dim=1, keepdim=True))
