"""Where patches are and how they are averaged, against scikit-learn's tools and plain loops."""

import numpy as np
import pytest
import torch
from _helpers import randn
from sklearn.feature_extraction.image import extract_patches_2d, reconstruct_from_patches_2d

from skvdl.images import _patches
from skvdl.images._patches import PatchAverage, PatchGrid, channel_means


def cut(image, size, stride=1):
    grid = PatchGrid(image.shape, size, stride)
    pixels = grid.pixels(grid.anchors())
    return grid, pixels, image.flatten()[pixels]


@pytest.mark.parametrize("channels", [1, 3])
def test_patches_are_those_of_scikit_learn(channels):
    image = randn(9, 7, channels, seed=0)
    _, pixels, patches = cut(image, 3)
    expected = extract_patches_2d(image.numpy(), (3, 3)).reshape(len(patches), -1)
    np.testing.assert_array_equal(patches, expected)
    average = PatchAverage(image)
    average.add(pixels, patches * 2, torch.ones_like(patches[:, :1]))
    rebuilt = reconstruct_from_patches_2d(
        2 * expected.reshape(-1, 3, 3, channels), image.numpy().shape
    )
    np.testing.assert_allclose(average.image(), rebuilt)


@pytest.mark.parametrize("stride", [1, 2, 3, 4])
@pytest.mark.parametrize("shape", [(4, 4), (5, 9), (11, 6)], ids=str)
def test_every_pixel_is_covered_whatever_the_stride(stride, shape, monkeypatch):
    image = randn(*shape, 1, seed=0)
    grid, pixels, patches = cut(image, 4, stride)
    average = PatchAverage(image)
    weights = torch.linspace(1, 2, len(patches), dtype=image.dtype, device="cpu")[:, None]
    average.add(pixels, patches, weights)
    torch.testing.assert_close(average.image(), image)
    monkeypatch.setattr(_patches, "_ELEMENTS", 30)
    bands = torch.cat([grid.anchors(rows) for rows in grid.bands(10)])
    assert torch.equal(bands, grid.anchors())


def test_weights_of_the_average_count():
    image = torch.zeros(1, 2, 1, dtype=torch.float64)
    average = PatchAverage(image)
    pixels = torch.tensor([[0, 1], [0, 1]])
    patches = torch.tensor([[1.0, 2.0], [4.0, 8.0]], dtype=torch.float64)
    average.add(pixels, patches, torch.tensor([[1.0], [2.0]], dtype=torch.float64))
    torch.testing.assert_close(average.image().flatten(), (patches[0] + 2 * patches[1]) / 3)


def test_means_of_channels_with_and_without_a_mask():
    patches = randn(5, 12, seed=0)
    seen = (randn(5, 12, seed=1) > 0).to(patches.dtype)
    seen[0] = 0.0
    plain, masked = channel_means(patches, 3), channel_means(patches, 3, seen)
    for i in range(5):
        for c in range(3):
            values, known = patches[i, c::3], seen[i, c::3] > 0
            assert plain[i, c::3].tolist() == pytest.approx([values.mean().item()] * 4)
            mean = values[known].mean().item() if known.any() else 0.0
            assert masked[i, c::3].tolist() == pytest.approx([mean] * 4)
