"""The patches of an image: where they are, their means, and their average.

Images are tensors of shape (height, width, channels). A patch is a row of
``size * size * channels`` pixels. It is addressed by the place of its first pixel in the flattened
image, its anchor, which makes cutting out a gather and overlap averaging a scatter for any stride,
any number of channels and any selection of patches.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

# Elements of the largest tensor that is worked on at a time, to bound memory: 64 MB.
_ELEMENTS = 2**24


class PatchGrid:
    """Where the patches of an image are.

    Parameters
    ----------
    shape : sequence of int
        Height, width and channels of the image.
    size : int
        Height and width of a patch.
    stride : int
        Distance between neighbouring patches. The patches at the far borders are always there.
    """

    def __init__(self, shape: Sequence[int], size: int, stride: int) -> None:
        height, self.width, self.channels = shape
        self.size = size
        self.rows = _starts(height - size + 1, stride)
        self.columns = _starts(self.width - size + 1, stride)
        i, j, k = (torch.arange(n, device="cpu") for n in (size, size, self.channels))
        self.offsets = self.place(i[:, None, None], j[:, None], k).flatten()

    def place(self, row: Tensor, column: Tensor, channel: Tensor | int = 0) -> Tensor:
        """Return the index of a pixel in the flattened image."""
        return (row * self.width + column) * self.channels + channel

    def anchors(self, rows: slice = slice(None)) -> Tensor:
        """Return the anchors of the patches in some of the grid's rows."""
        return self.place(self.rows[rows, None], self.columns).flatten()

    def pixels(self, anchors: Tensor) -> Tensor:
        """Return the indices of the pixels of patches, one patch along the last axis."""
        return anchors[..., None] + self.offsets

    def bands(self, elements_per_patch: int) -> list[slice]:
        """Cut the grid's rows into slices that can be worked on at once."""
        n_rows = max(1, _ELEMENTS // (elements_per_patch * len(self.columns)))
        return [slice(a, a + n_rows) for a in range(0, len(self.rows), n_rows)]


def _starts(n_places: int, stride: int) -> Tensor:
    """Return every stride-th place and the last one, so that borders are complete."""
    places = torch.arange(0, n_places, stride, device="cpu")
    last = torch.tensor([n_places - 1], device="cpu")
    return torch.cat([places[places < n_places - 1], last])


class PatchAverage:
    """Weighted average of overlapping patches.

    Parameters
    ----------
    image : torch.Tensor
        An image of the size and type of the result.
    """

    def __init__(self, image: Tensor) -> None:
        self.shape = image.shape
        self.total = torch.zeros_like(image).flatten()
        self.weight = torch.zeros_like(self.total)

    def add(self, pixels: Tensor, patches: Tensor, weights: Tensor) -> None:
        """Add patches at their pixels, each with its weight, of shape (..., 1)."""
        index = pixels.flatten()
        self.total.index_add_(0, index, (patches * weights).flatten())
        self.weight.index_add_(0, index, weights.expand_as(patches).flatten())

    def covered(self) -> Tensor:
        """Return where there was a patch."""
        return (self.weight > 0).reshape(self.shape)

    def image(self) -> Tensor:
        """Return the average, NaN where there was no patch."""
        return (self.total / self.weight).reshape(self.shape)


def channel_means(patches: Tensor, channels: int, seen: Tensor | None = None) -> Tensor:
    """Compute the mean of each channel of each patch, repeated to the shape of the patches.

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
