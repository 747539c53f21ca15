"""Groups of similar patches against plain searches and formulas."""

import numpy as np
import pytest
import torch
from _helpers import randn

from skvdl.images._groups import refine, shrink_by_group, similar_patches
from skvdl.images._patches import PatchGrid


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


@pytest.mark.parametrize("contrast", [1.0, 1e2, 1e3, 1e5])
def test_refinements_in_single_precision_are_those_in_double(contrast):
    pilot = (contrast * randn(24, 20, 1, seed=0)).float()
    noisy = pilot + randn(24, 20, 1, seed=1).float()
    grid = PatchGrid(noisy.shape, 4, 2)
    single, double = (
        refine(*images, grid, title="", verbose=False)
        for images in ((noisy, pilot), (noisy.double(), pilot.double()))
    )
    assert single.dtype == torch.float32
    # noise has a standard deviation of 1, and the sums over patches are rounded too
    torch.testing.assert_close(single.double(), double, atol=0.05, rtol=1e-5)


def test_a_group_of_one_is_its_pilot():
    noisy, pilot = randn(2, 1, 5, seed=0), randn(2, 1, 5, seed=1)
    torch.testing.assert_close(shrink_by_group(noisy, pilot)[0], pilot)
