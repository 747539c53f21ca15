"""Patches against scikit-learn's own tools and plain loops."""

import numpy as np
import pytest
import torch
from _helpers import randn
from sklearn.feature_extraction.image import extract_patches_2d, reconstruct_from_patches_2d
from sklearn.linear_model import orthogonal_mp

from skvdl.images import _patches
from skvdl.images._groups import shrink_by_group, similar_patches
from skvdl.images._patches import PatchAverage, PatchGrid, channel_means
from skvdl.images._pursuit import matching_pursuit


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


@pytest.mark.parametrize("channels", [1, 3])
def test_similar_patches_are_the_nearest_of_a_plain_search(channels):
    image = randn(12, 10, channels, seed=0)
    grid = PatchGrid(image.shape, 3, 2)
    everywhere = PatchGrid(image.shape, 3, 1)
    for rows in (slice(0, 2), slice(2, None)):
        found = similar_patches(image, grid, rows, reach=3, n_similar=4)
        anchors = grid.anchors(rows)
        for anchor, similar in zip(anchors.tolist(), found.tolist(), strict=True):
            row, column = divmod(anchor // channels, 10)
            distances = {}
            for other in everywhere.anchors().tolist():
                i, j = divmod(other // channels, 10)
                if abs(i - row) <= 3 and abs(j - column) <= 3:
                    a, b = (image.flatten()[grid.offsets + k] for k in (anchor, other))
                    distances[other] = (a - b).square().sum().item()
            assert similar == sorted(distances, key=distances.get)[:4]
            assert similar[0] == anchor


def test_groups_shrink_as_the_formula_says():
    noisy, pilot = randn(3, 7, 5, seed=0), randn(3, 7, 5, seed=1)
    estimates, weights = shrink_by_group(noisy, pilot)
    for group in range(3):
        P = pilot[group].numpy()
        C = np.cov(P.T)
        shrink = C @ np.linalg.inv(C + np.eye(5))
        expected = P.mean(axis=0) + (noisy[group].numpy() - P.mean(axis=0)) @ shrink
        np.testing.assert_allclose(estimates[group], expected, atol=1e-10)
        assert weights[group].item() == pytest.approx(1 / (1 + np.trace(shrink)))


def test_a_group_of_one_is_its_pilot():
    noisy, pilot = randn(2, 1, 5, seed=0), randn(2, 1, 5, seed=1)
    torch.testing.assert_close(shrink_by_group(noisy, pilot)[0], pilot)
