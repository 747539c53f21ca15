"""Whole images: what goes in comes out without noise, in shape, type and range as it was."""

import pickle

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import FunctionTransformer

from skvdl import NonLinearVDL
from skvdl.images import ImageDenoiser, _patches, estimate_noise
from skvdl.images._inpainting import smooth_over


def checkers(height=40, width=36, channels=None):
    """Squares of two grey values, or colours."""
    rows, columns = np.arange(height)[:, None], np.arange(width)
    image = np.where((rows // 9 + columns // 9) % 2, 200.0, 50.0)
    return image if channels is None else image[:, :, None] * np.linspace(0.5, 1, channels)


def noisy_version(clean, sigma=20.0, seed=0):
    return clean + np.random.default_rng(seed).normal(0, sigma, clean.shape)


def error(a, b):
    return np.sqrt(np.mean((np.asarray(a, float) - b) ** 2))


def small_denoiser(**parameters):
    parameters = {"patch_size": 6, "stride": 2, "random_state": 0, "max_patches": 500} | parameters
    return ImageDenoiser(**parameters)


@pytest.mark.parametrize("channels", [None, 1, 3])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64, np.int16])
def test_noise_goes_and_shape_type_and_range_stay(channels, dtype):
    clean = checkers(channels=channels)
    noisy = noisy_version(clean).clip(0, 255).astype(dtype)
    before = noisy.copy()
    denoised = small_denoiser().fit(noisy).transform(noisy)
    assert denoised.shape == noisy.shape
    assert denoised.dtype == dtype
    assert noisy.min() <= denoised.min()
    assert denoised.max() <= noisy.max()
    assert error(denoised, clean) < 0.5 * error(noisy, clean)
    np.testing.assert_array_equal(noisy, before)


@pytest.mark.parametrize("factor", [1 / 255, 1e3])
def test_units_do_not_matter(factor):
    noisy = noisy_version(checkers())
    plain = small_denoiser().fit_transform(noisy)
    scaled = small_denoiser().fit_transform(noisy * factor)
    np.testing.assert_allclose(scaled / factor, plain, atol=2.0)


@pytest.mark.parametrize("sigma", [5.0, 30.0])
def test_noise_is_estimated(sigma):
    waves = 100 * np.sin(np.arange(150) / 9) + 100 * np.cos(np.arange(150)[:, None] / 7)
    assert estimate_noise(noisy_version(waves, sigma)) == pytest.approx(sigma, rel=0.05)
    assert estimate_noise(np.full((20, 20), 7.0)) == 0


def test_an_image_without_noise_stays_as_it_is():
    flat = np.full((20, 20), 7, dtype=np.uint8)
    denoiser = small_denoiser().fit(noisy_version(checkers()))
    np.testing.assert_array_equal(denoiser.transform(flat), flat)
    clean = checkers()
    np.testing.assert_array_equal(denoiser.set_params(sigma=0.0).transform(clean), clean)


@pytest.mark.parametrize("sigma", [None, 1e-2, 1e-3, 1e-5, 1e-9, 1e-30])
def test_weak_noise_changes_little(sigma):
    """Rounding in single precision is larger than such noise, within groups of patches."""
    ramp = np.add.outer(np.arange(30.0), np.arange(26.0))
    denoiser = small_denoiser(n_refinements=2).fit(noisy_version(checkers()))
    denoised = denoiser.set_params(sigma=sigma).transform(ramp)
    assert error(denoised, ramp) <= (sigma or 1e-6)


def test_noise_beside_a_bright_pixel():
    clean = checkers()
    clean[5, 5] = 1e12
    denoiser = small_denoiser().fit(noisy_version(checkers()))
    # single precision cannot tell them from each other
    np.testing.assert_array_equal(denoiser.transform(noisy_version(clean)), noisy_version(clean))
    clean[5, 5] = 1e5
    noisy = noisy_version(clean)
    far = np.ones(clean.shape, dtype=bool)
    far[:12, :12] = False
    denoised = denoiser.transform(noisy)
    assert error(denoised[far], clean[far]) < 0.5 * error(noisy[far], clean[far])


@pytest.mark.parametrize("stride", [1, 3, 5, 6])
@pytest.mark.parametrize("n_refinements", [0, 1])
def test_borders_are_complete_for_any_stride(stride, n_refinements):
    clean = checkers(23, 19)
    noisy = noisy_version(clean)
    denoiser = small_denoiser(stride=stride, n_refinements=n_refinements)
    denoised = denoiser.fit_transform(noisy)
    assert np.isfinite(denoised).all()
    edges = np.ones(clean.shape, dtype=bool)
    edges[1:-1, 1:-1] = False
    # a border left out would be off by the grey values themselves, 50 to 200
    assert error(denoised[edges], clean[edges]) < 30


def test_bands_do_not_change_the_result(monkeypatch):
    noisy = noisy_version(checkers())
    denoiser = small_denoiser().fit(noisy)
    gaps = noisy.copy()
    gaps[5:9, 5:9] = np.nan
    whole, filled = denoiser.transform(noisy), denoiser.inpaint(gaps)
    monkeypatch.setattr(_patches, "_ELEMENTS", 2**10)
    np.testing.assert_allclose(denoiser.transform(noisy), whole, rtol=1e-4)
    np.testing.assert_allclose(denoiser.inpaint(gaps), filled, rtol=1e-3)


def test_stacks_lists_files_and_folders(tmp_path):
    images = [noisy_version(checkers(), seed=s).clip(0, 255).astype(np.uint8) for s in range(2)]
    denoiser = small_denoiser().fit(np.stack(images))
    one = [denoiser.transform(image) for image in images]
    stack = denoiser.transform(np.stack(images))
    np.testing.assert_array_equal(stack, np.stack(one))
    cropped = denoiser.transform([images[0], images[1][:20]])
    assert [image.shape for image in cropped] == [(40, 36), (20, 36)]
    for i, image in enumerate(images):
        Image.fromarray(image).save(tmp_path / f"{i}.png")
    from_folder = small_denoiser().fit(tmp_path)
    for a, b in zip(from_folder.transform(str(tmp_path)), one, strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(from_folder.transform(tmp_path / "1.png"), one[1])


@pytest.mark.parametrize("shape", [(20, 18), (20, 18, 3), (3, 20, 18), (3, 20, 18, 3)])
def test_nested_lists_are_arrays(shape):
    """As everywhere in scikit-learn; a list of images is one of arrays or files."""
    X = np.random.default_rng(0).normal(size=shape)
    denoiser = small_denoiser(max_patches=20).fit(X)
    expected = denoiser.transform(X)
    assert expected.shape == shape
    for given in (X.tolist(), tuple(X.tolist())):
        found = denoiser.transform(given)
        assert type(found) is np.ndarray
        np.testing.assert_array_equal(found, expected)
    if len(shape) == 2:
        np.testing.assert_array_equal(denoiser.transform(list(X)), expected)
        (first, second) = denoiser.transform([X, X[:12].tolist()])
        np.testing.assert_array_equal(first, expected)
        assert second.shape == (12, 18)
        with pytest.raises(ValueError, match="list of arrays"):
            denoiser.transform([X.tolist(), X[:12].tolist()])


def test_seed_decides_and_pickles_and_clones_agree():
    noisy = noisy_version(checkers())
    denoiser = small_denoiser().fit(noisy)
    result = denoiser.transform(noisy)
    np.testing.assert_array_equal(clone(denoiser).fit(noisy).transform(noisy), result)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(denoiser)).transform(noisy), result)


def test_any_estimator_will_do():
    clean = checkers()
    noisy = noisy_version(clean)
    network = NonLinearVDL(8, hidden_layer_sizes=(16,), max_iter=20, random_state=0)
    for estimator in (PCA(4), network):
        denoiser = small_denoiser(estimator=estimator).fit(noisy)
        assert type(denoiser.estimator_) is type(estimator)
        assert not hasattr(estimator, "n_features_in_")
        assert error(denoiser.transform(noisy), clean) < error(noisy, clean)


@pytest.mark.parametrize("channels", [None, 3])
@pytest.mark.parametrize("dtype", [np.float64, np.uint8])
def test_gaps_are_filled_and_the_rest_is_untouched(channels, dtype):
    clean = checkers(channels=channels).astype(dtype)
    mask = np.random.default_rng(0).random(clean.shape[:2]) < 0.3
    mask[10:22, 10:14] = True
    broken = clean.copy()
    broken[mask] = 0
    filled = small_denoiser().fit(clean).inpaint(broken, mask)
    assert filled.dtype == dtype
    np.testing.assert_array_equal(filled[~mask], clean[~mask])
    mean = clean[~mask].mean()
    assert error(filled[mask], clean[mask]) < 0.5 * error(
        np.full_like(filled[mask], mean), clean[mask]
    )


def test_nan_marks_gaps_and_gaps_larger_than_a_patch_are_filled():
    clean = checkers()
    broken = clean.copy()
    broken[8:26, 8:26] = np.nan
    denoiser = small_denoiser().fit(clean)
    filled = denoiser.inpaint(broken)
    assert np.isfinite(filled).all()
    np.testing.assert_array_equal(denoiser.inpaint(clean), clean)
    with pytest.raises(ValueError, match="No pixel"):
        denoiser.inpaint(np.full((20, 20), np.nan))
    with pytest.raises(ValueError, match="mask is of shape"):
        denoiser.inpaint(clean, np.zeros((3, 3), dtype=bool))


@pytest.mark.parametrize("channels", [None, 3])
def test_dictionary_is_learnt_from_an_image_with_gaps(channels):
    clean = checkers(channels=channels)
    broken = clean.copy()
    broken[np.random.default_rng(0).random(clean.shape) < 0.3] = np.nan
    missing = np.isnan(broken)
    denoiser = small_denoiser()
    filled = denoiser.fit(broken).inpaint(broken)
    roughly = smooth_over(broken)
    np.testing.assert_array_equal(roughly[~missing], clean[~missing])
    assert error(filled[missing], clean[missing]) < 0.7 * error(roughly[missing], clean[missing])
    assert np.isnan(broken[missing]).all()
    with pytest.raises(ValueError, match="inpaint"):
        denoiser.transform(broken)


BAD = {
    "a vector": (np.zeros(50), "shape"),
    "an alpha channel": (np.zeros((20, 20, 4)), "alpha"),
    "text": (np.full((20, 20), "a"), "numbers"),
    "too small": (np.zeros((5, 40)), "patch_size=6"),
    "infinity": (np.full((20, 20), np.inf), "infinity"),
    "nothing seen": (np.full((20, 20), np.nan), "inpaint|nothing to learn from"),
    "nothing": (np.zeros((0, 20, 20)), "no image"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_images_are_refused_and_change_nothing(name):
    image, message = BAD[name]
    denoiser = small_denoiser().fit(noisy_version(checkers()))
    before = vars(denoiser).copy()
    for method in (denoiser.fit, denoiser.transform):
        with pytest.raises(ValueError, match=message):
            method(image)
    assert vars(denoiser) == before


def test_other_mistakes_are_told(tmp_path):
    with pytest.raises(NotFittedError):
        ImageDenoiser().transform(checkers())
    with pytest.raises(ValueError, match="holds no image"):
        ImageDenoiser().fit(tmp_path)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        ImageDenoiser().fit(tmp_path / "nowhere.png")
    with pytest.raises(ValueError, match="stride=9"):
        ImageDenoiser(stride=9).fit(checkers())
    with pytest.raises(ValueError, match="channel"):
        small_denoiser().fit(noisy_version(checkers())).transform(checkers(channels=3))
    with pytest.raises(ValueError, match=r"image 1: .*all grey or all RGB"):
        small_denoiser().fit([checkers(), checkers(channels=3)])


def test_progress_is_shown_when_asked(capsys):
    noisy = noisy_version(checkers())
    small_denoiser(verbose=1, n_refinements=2).fit_transform(noisy)
    shown = capsys.readouterr().err
    for bar in ("denoise: 100%", "refine, 1 of 2: 100%", "refine, 2 of 2: 100%"):
        assert bar in shown


def test_half_precision_loses_nothing_but_its_own_rounding():
    clean = checkers() + 500
    noisy = noisy_version(clean)
    half = noisy.astype(np.float16)
    denoised = small_denoiser().fit_transform(half)
    assert denoised.dtype == np.float16
    exact = small_denoiser().fit_transform(half.astype(np.float64))
    np.testing.assert_array_equal(denoised, exact.astype(np.float16))


def test_stride_may_change_after_fit():
    noisy = noisy_version(checkers())
    denoiser = small_denoiser(stride=2).fit(noisy)
    for stride in (1, 6):
        changed = denoiser.set_params(stride=stride).transform(noisy)
        np.testing.assert_array_equal(changed, small_denoiser(stride=stride).fit_transform(noisy))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"stride": 7}, "stride=7 leaves pixels"),
        ({"stride": 0}, "'stride'"),
        ({"stride": 1.5}, "'stride'"),
        ({"patch_size": 5}, r"patch_size=5 .*fit again"),
        ({"patch_size": "8"}, "'patch_size'"),
        ({"sigma": -1.0}, "'sigma'"),
        ({"sigma": np.inf}, "'sigma'"),
        ({"n_refinements": -1}, "'n_refinements'"),
        ({"verbose": "loud"}, "'verbose'"),
    ],
    ids=str,
)
def test_parameters_are_validated_when_used(changed, message):
    noisy = noisy_version(checkers())
    denoiser = small_denoiser().fit(noisy).set_params(**changed)
    with pytest.raises(ValueError, match=message):
        denoiser.transform(noisy)
    gaps = noisy > 150
    if "n_refinements" in changed:
        assert np.isfinite(denoiser.inpaint(noisy, gaps)).all()
    else:
        with pytest.raises(ValueError, match=message):
            denoiser.inpaint(noisy, gaps)


def test_parameters_of_fit_alone_do_not_matter_afterwards():
    noisy = noisy_version(checkers())
    denoiser = small_denoiser().fit(noisy)
    result = denoiser.transform(noisy)
    denoiser.set_params(estimator="none", max_patches=-1, random_state="none")
    np.testing.assert_array_equal(denoiser.transform(noisy), result)


class Failing(PCA):
    def fit(self, X, y=None):
        super().fit(X)
        raise RuntimeError("no luck")


def test_failing_fit_leaves_a_fitted_denoiser_as_it_was(tmp_path):
    noisy = noisy_version(checkers())
    denoiser = small_denoiser().fit(noisy)
    before, result = vars(denoiser).copy(), denoiser.transform(noisy)
    (tmp_path / "bad.png").write_text("text")
    for bad in ([noisy, np.zeros((3, 3))], [noisy, tmp_path / "bad.png"], tmp_path):
        with pytest.raises(ValueError, match=r"patch_size|bad\.png"):
            denoiser.fit(bad)
        assert vars(denoiser) == before
    with pytest.raises(RuntimeError, match="no luck"):
        denoiser.set_params(estimator=Failing(2), patch_size=5).fit(noisy)
    denoiser.set_params(estimator=None, patch_size=6)
    assert vars(denoiser) == before
    np.testing.assert_array_equal(denoiser.transform(noisy), result)


class WideCodes(FunctionTransformer):
    """Estimator without atoms, whose reconstructions are in double precision."""

    def inverse_transform(self, X):
        return np.asarray(X, dtype=np.float64) * 0.5


def test_reconstructions_may_be_of_any_type():
    noisy = noisy_version(checkers())
    denoised = small_denoiser(estimator=WideCodes(), n_refinements=0).fit(noisy).transform(noisy)
    assert np.isfinite(denoised).all()


def test_gaps_are_filled_whatever_the_default_type():
    image = checkers()
    image[10:14, 12:20] = np.nan
    denoiser = small_denoiser().fit(image)
    expected = denoiser.inpaint(image)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        np.testing.assert_array_equal(denoiser.inpaint(image), expected)
    finally:
        torch.set_default_dtype(before)
