"""Whole images against plain loops, scikit-learn's solvers and its checks."""

import warnings

import numpy as np
import pytest
import torch
from _helpers import as_published
from sklearn.base import clone
from sklearn.datasets import load_sample_image
from sklearn.linear_model import Lasso, orthogonal_mp
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_checks

import skvdl
from skvdl import VDL, NonLinearVDL
from skvdl.images import ImageDenoiser

SMALL = VDL(
    24,
    lam=0.2,
    regularizer="unit_norm",
    encoder=None,
    positive_code=False,
    max_iter=1,
    random_state=0,
)
QUICK = {"estimator": SMALL, "patch_size": 4, "max_patches": 500, "random_state": 0}


def stripes(height, width, channels=None):
    """Edges in three directions, a ramp, and in colour a different strength in each channel."""
    i, j = np.mgrid[:height, :width]
    image = 0.3 * ((i // 7) % 2) + 0.3 * ((i + j) // 11 % 2) + 0.2 * (j // 9 % 2) + 0.2 * j / width
    if channels:
        image = image[..., None] * np.linspace(0.6, 1, channels)
    return image


def with_noise(image, sigma, seed=0):
    return image + np.random.default_rng(seed).normal(0, sigma, image.shape)


def rms(error):
    return np.sqrt(np.mean(np.square(error)))


@pytest.fixture(scope="module")
def photograph():
    return load_sample_image("china.jpg")[150:246, 200:296].mean(axis=2) / 255


@pytest.fixture(scope="module")
def noisy():
    return with_noise(stripes(30, 37), 0.1)


def naive_denoise(image, sigma, size, stride, approximate):
    """Overlap average of approximated patches, one patch at a time."""
    total, weight = np.zeros(image.shape), np.zeros(image.shape)
    ends = [sorted({*range(0, n - size + 1, stride), n - size}) for n in image.shape[:2]]
    for i in ends[0]:
        for j in ends[1]:
            place = slice(i, i + size), slice(j, j + size)
            mean = image[place].mean(axis=(0, 1))
            patch = (image[place] - mean) / sigma
            rebuilt = approximate(patch.ravel()).reshape(patch.shape) * sigma + mean
            total[place] += rebuilt
            weight[place] += 1
    return np.clip(total / weight, image.min(), image.max())


@pytest.mark.parametrize("channels", [None, 3])
@pytest.mark.parametrize("stride", [1, 3])
def test_dictionary_alone_equals_a_plain_loop(stride, channels):
    image = with_noise(stripes(13, 15, channels), 0.1)
    model = ImageDenoiser(**QUICK, sigma=0.1, stride=stride, n_refinements=0).fit(image)
    atoms = model.estimator_.components_.astype(np.float64)
    atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
    noise = atoms.shape[1] - (channels or 1)

    def approximate(patch):
        if patch @ patch <= noise:
            return np.zeros_like(patch)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return orthogonal_mp(atoms.T, patch, tol=noise) @ atoms

    expected = naive_denoise(image, 0.1, 4, stride, approximate)
    assert np.allclose(model.transform(image), expected, atol=1e-4)


@pytest.mark.parametrize(
    "estimator",
    [
        NonLinearVDL(
            6, hidden_layer_sizes=8, max_iter=2, random_state=0, **as_published(NonLinearVDL)
        ),
        make_pipeline(StandardScaler(), VDL(6, max_iter=2, random_state=0, **as_published(VDL))),
    ],
)
def test_estimator_without_atoms_reconstructs_patches_itself(estimator, noisy):
    options = {**QUICK, "estimator": estimator, "sigma": 0.1, "n_refinements": 0}
    model = ImageDenoiser(**options).fit(noisy)
    inner = model.estimator_

    def approximate(patch):
        return inner.inverse_transform(inner.transform(patch[None].astype(np.float32)))[0]

    expected = naive_denoise(noisy, 0.1, 4, 1, approximate)
    assert np.allclose(model.transform(noisy), expected, atol=1e-4)


def test_photograph_gets_better_and_refinements_help(photograph):
    noisy = with_noise(photograph, 25 / 255)
    model = ImageDenoiser(sigma=25 / 255, random_state=0).fit(noisy)
    refined = rms(model.transform(noisy) - photograph)
    alone = rms(model.set_params(n_refinements=0).transform(noisy) - photograph)
    assert refined < 0.95 * alone < 0.9 * 25 / 255


def test_no_tensor_leaves_its_device_implicit(noisy):
    gaps = noisy.copy()
    gaps[10:13, 10:20] = np.nan
    with torch.device("meta"):
        model = ImageDenoiser(**{**QUICK, "estimator": clone(SMALL).set_params(device="cpu")})
        assert np.isfinite(model.fit_transform(noisy)).all()
        assert np.isfinite(model.inpaint(gaps)).all()


def naive_inpaint(image, missing, scale, atoms, size, stride):
    """Fill gaps once, one patch and one lasso at a time."""
    seen = ~missing
    mean = image[seen].mean()
    pixels = (image - mean) / scale
    d = atoms.shape[1]
    total, weight = np.zeros(image.shape), np.zeros(image.shape)
    for i in sorted({*range(0, image.shape[0] - size + 1, stride), image.shape[0] - size}):
        for j in sorted({*range(0, image.shape[1] - size + 1, stride), image.shape[1] - size}):
            place = slice(i, i + size), slice(j, j + size)
            known = seen[place].ravel()
            if known.all() or not known.any():
                continue
            patch = pixels[place].ravel()
            middle = patch[known].mean()
            alpha = 2 / d * d / (2 * known.sum())
            lasso = Lasso(alpha=alpha, fit_intercept=False, tol=1e-8, max_iter=100_000)
            lasso.fit(atoms[:, known].T, patch[known] - middle)
            rebuilt = (lasso.coef_ @ atoms + middle).reshape(size, size)
            total[place] += known.mean() * rebuilt
            weight[place] += known.mean()
    filled = np.clip(total / weight * scale + mean, image[seen].min(), image[seen].max())
    return np.where(missing, filled, image)


@pytest.mark.parametrize("stride", [1, 3])
def test_filled_gaps_equal_a_plain_loop(stride):
    image = stripes(14, 15)
    missing = np.random.default_rng(0).random(image.shape) < 0.3
    # so many patches for few atoms that the dictionary is complete, and codes are unique
    model = ImageDenoiser(**QUICK, sigma=0.05, stride=stride)
    model.set_params(estimator__n_components=8).fit(image)
    atoms = model.estimator_.components_.astype(np.float64)
    atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
    atoms = np.vstack([atoms, np.full((1, 16), 0.25)])
    expected = naive_inpaint(image, missing, 0.05, atoms, 4, stride)
    found = model.inpaint(np.where(missing, np.nan, image))
    assert np.allclose(found, expected, atol=2e-3)
    assert np.array_equal(found[~missing], image[~missing])


@pytest.mark.parametrize("channels", [None, 3])
def test_mask_and_nan_say_the_same(channels):
    image = stripes(20, 22, channels)
    mask = np.zeros((20, 22), dtype=bool)
    mask[5:8, 5:12] = True
    gaps = image.copy()
    gaps[mask] = np.nan
    model = ImageDenoiser(**QUICK).fit(image)
    filled = model.inpaint(gaps)
    assert np.array_equal(filled, model.inpaint(image, mask))
    assert np.array_equal(filled, model.inpaint(np.where(np.isnan(gaps), 99, image), gaps != gaps))
    assert np.isnan(gaps[mask]).all()


def test_what_cannot_be_filled(noisy):
    model = ImageDenoiser(**QUICK).fit(noisy)
    with pytest.raises(ValueError, match="No pixel of the image is seen"):
        model.inpaint(np.full(noisy.shape, np.nan))
    with pytest.raises(ValueError, match=r"mask is of shape \(3,\)"):
        model.inpaint(noisy, [True, False, True])
    with pytest.raises(ValueError, match="infinity"):
        model.inpaint(np.where(noisy > noisy.mean(), np.inf, noisy))
    whole = model.inpaint(noisy)
    assert np.array_equal(whole, noisy)
    assert not np.shares_memory(whole, noisy)
    network = NonLinearVDL(6, hidden_layer_sizes=(8,), max_iter=1, random_state=0)
    model = ImageDenoiser(**{**QUICK, "estimator": network}).fit(noisy)
    with pytest.raises(ValueError, match="NonLinearVDL has no components_"):
        model.inpaint(noisy, noisy > noisy.mean())


# scikit-learn's own checks, those that do not take a table for what an image is


@pytest.mark.parametrize(
    "check",
    [
        "estimator_cloneable",
        "estimator_repr",
        "get_params_invariance",
        "no_attributes_set_in_init",
        "param_validation",
        "parameters_default_constructible",
        "set_params",
    ],
)
def test_scikit_learn_check(check):
    getattr(estimator_checks, f"check_{check}")("ImageDenoiser", ImageDenoiser())


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_noise_of_what_is_not_finite_is_refused(value):
    with pytest.raises(ValueError, match="NaN or infinity"):
        skvdl.images.estimate_noise(np.full((8, 8), value))
