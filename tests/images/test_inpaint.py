"""Gaps: every one is filled, whatever the stride, and the image comes back in its own type."""

import numpy as np
import pytest
from PIL import Image

from skvdl.images import ImageDenoiser


def checkers(height=40, width=36, dtype=np.float64):
    rows, columns = np.arange(height)[:, None], np.arange(width)
    return np.where((rows // 9 + columns // 9) % 2, 200, 50).astype(dtype)


def fitted(image, **parameters):
    return ImageDenoiser(max_patches=300, random_state=0, **parameters).fit(image)


@pytest.mark.parametrize(
    "gap",
    [np.s_[:8, :8], np.s_[8:, 8:], np.s_[:8], np.s_[:, 8:], np.s_[:15, :15]],
    ids=str,
)
def test_gap_of_whole_patches_is_filled(gap):
    clean = checkers(16, 16)
    mask = np.zeros(clean.shape, dtype=bool)
    mask[gap] = True
    denoiser = fitted(clean, patch_size=8, stride=8)
    filled = denoiser.inpaint(np.where(mask, np.nan, clean))
    assert np.isfinite(filled).all()
    np.testing.assert_array_equal(filled[~mask], clean[~mask])


@pytest.mark.parametrize("stride", [1, 2, 3, 4])
def test_only_one_pixel_is_seen(stride):
    denoiser = fitted(checkers(), patch_size=4, stride=stride)
    lonely = np.full((13, 11), np.nan)
    lonely[5, 6] = 120
    np.testing.assert_allclose(denoiser.inpaint(lonely), 120)


def test_channel_that_is_missing_as_a_whole_is_filled():
    clean = checkers()[:16, :16, None] * np.linspace(0.5, 1, 3)
    denoiser = fitted(clean, patch_size=8, stride=8)
    filled = denoiser.inpaint(np.where(np.arange(3) == 1, np.nan, clean))
    assert np.isfinite(filled).all()


def test_gaps_inside_the_grid_cost_no_pass_of_their_own(capsys):
    clean = checkers()
    clean[10:14, 10:20] = np.nan
    fitted(clean, patch_size=8, stride=4, verbose=1).inpaint(clean)
    # a bar may be drawn several times, but each pass ends its line once
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.uint16, np.float16, np.float32])
def test_type_of_the_image_comes_back(dtype):
    clean = checkers(dtype=dtype)
    mask = np.zeros(clean.shape, dtype=bool)
    mask[10:13, 10:20] = True
    filled = fitted(clean, patch_size=6, stride=3).inpaint(np.where(mask, dtype(0), clean), mask)
    assert filled.dtype == dtype
    np.testing.assert_array_equal(filled[~mask], clean[~mask])
    assert np.abs(filled[mask].astype(float) - clean[mask]).mean() < 20


@pytest.mark.parametrize("as_type", [str, lambda path: path], ids=["str", "Path"])
def test_file_is_filled_like_its_pixels(tmp_path, as_type):
    clean = checkers(dtype=np.uint8)
    mask = np.zeros(clean.shape, dtype=bool)
    mask[10:13, 10:20] = True
    path = tmp_path / "damaged.png"
    Image.fromarray(np.where(mask, np.uint8(0), clean)).save(path)
    denoiser = fitted(clean, patch_size=6, stride=3)
    filled = denoiser.inpaint(as_type(path), mask)
    assert filled.dtype == np.uint8
    np.testing.assert_array_equal(filled, denoiser.inpaint(clean, mask))
    np.testing.assert_array_equal(denoiser.inpaint(path), np.where(mask, 0, clean))


def test_file_with_nan_is_filled(tmp_path):
    damaged = checkers()
    damaged[10:13, 10:20] = np.nan
    np.save(tmp_path / "damaged.npy", damaged)
    denoiser = fitted(damaged, patch_size=6, stride=3)
    filled = denoiser.inpaint(tmp_path / "damaged.npy")
    np.testing.assert_array_equal(filled, denoiser.inpaint(damaged))


def test_several_images_at_once_are_refused(tmp_path):
    clean = checkers()
    denoiser = fitted(clean, patch_size=6, stride=3)
    Image.fromarray(clean.astype(np.uint8)).save(tmp_path / "one.png")
    for several in ([clean, clean], np.stack([clean, clean]), tmp_path, [tmp_path / "one.png"]):
        with pytest.raises(ValueError, match="inpaint takes one image"):
            denoiser.inpaint(several)
