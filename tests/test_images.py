import pickle
import warnings

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_sample_image
from sklearn.decomposition import PCA, MiniBatchDictionaryLearning
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.image import extract_patches_2d
from sklearn.linear_model import Lasso, orthogonal_mp
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import (
    check_do_not_raise_errors_in_init_or_set_param,
    check_estimator_cloneable,
    check_estimator_get_tags_default_keys,
    check_estimator_repr,
    check_get_params_invariance,
    check_no_attributes_set_in_init,
    check_param_validation,
    check_parameters_default_constructible,
    check_set_params,
)

from skvdl import VDL, NonLinearVDL, images
from skvdl._patches import (
    PatchAverage,
    PatchGrid,
    channel_means,
    masked_lasso,
    matching_pursuit,
    shrink_by_group,
    similar_patches,
)
from skvdl.images import ImageDenoiser, estimate_noise

from ._helpers import randn

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


# noise


@pytest.mark.parametrize("sigma", [0.01, 3.0])
@pytest.mark.parametrize("channels", [None, 3])
def test_noise_is_estimated_whatever_smooth_picture_is_below(sigma, channels):
    i, j = np.mgrid[:200, :200] / 200
    image = i**3 - 2 * i * j + j**2
    image = image if channels is None else np.stack([image] * 3, axis=2)
    assert estimate_noise(with_noise(image, sigma)) == pytest.approx(sigma, rel=0.03)


def test_noise_of_a_photograph_is_estimated(photograph):
    assert estimate_noise(with_noise(photograph, 0.1)) == pytest.approx(0.1, rel=0.15)


def test_noise_of_integers_does_not_wrap_around():
    image = np.clip(with_noise(np.full((100, 100), 128.0), 20), 0, 255).astype(np.uint8)
    assert estimate_noise(image) == pytest.approx(20, rel=0.05)


def test_noise_takes_some_pixels():
    with pytest.raises(ValueError, match=r"(4, 9).*5 pixels.*Set sigma"):
        estimate_noise(np.zeros((4, 9)))


# patches


def test_patches_are_scikit_learns():
    image = randn(7, 9, 3, seed=0)
    grid = PatchGrid(image.shape, 4, 1)
    expected = extract_patches_2d(image.numpy(), (4, 4)).reshape(-1, 48)
    assert np.array_equal(image.flatten()[grid.pixels(grid.anchors())], expected)


@pytest.mark.parametrize("stride", [1, 2, 3, 4])
def test_every_stride_covers_every_pixel(stride):
    image = randn(11, 14, 2, seed=0)
    grid = PatchGrid(image.shape, 4, stride)
    pixels = grid.pixels(grid.anchors())
    average = PatchAverage(image)
    average.add(pixels, image.flatten()[pixels], torch.rand(len(pixels), 1) + 0.1)
    torch.testing.assert_close(average.image(), image)


def test_bands_are_the_whole_grid():
    grid = PatchGrid((40, 23, 1), 5, 3)
    for n_patches in (1, 20, 10**6):
        bands = grid.bands(n_patches)
        assert torch.equal(torch.cat([grid.anchors(rows) for rows in bands]), grid.anchors())


def test_overlaps_are_weighted_averages():
    image = torch.zeros(5, 6, 1)
    grid = PatchGrid(image.shape, 3, 2)
    patches, weights = randn(6, 9, seed=0), torch.arange(1.0, 7.0)[:, None].double()
    average = PatchAverage(image.double())
    average.add(grid.pixels(grid.anchors()), patches, weights)
    total, weight = np.zeros((5, 6)), np.zeros((5, 6))
    places = [(i, j) for i in (0, 2) for j in (0, 2, 3)]
    for (i, j), patch, w in zip(places, patches.numpy(), weights.numpy(), strict=True):
        total[i : i + 3, j : j + 3] += w * patch.reshape(3, 3)
        weight[i : i + 3, j : j + 3] += w
    assert np.allclose(average.image()[:, :, 0], total / weight)


def test_means_are_of_each_channel_and_of_what_is_seen():
    patches = randn(5, 12, seed=0)
    seen = (randn(5, 12, seed=1) > 0).double()
    seen[0, ::3] = 0
    found = channel_means(patches, 3, seen).numpy()
    for patch, mask, means in zip(patches.numpy(), seen.numpy(), found, strict=True):
        for k in range(3):
            values = patch[k::3][mask[k::3] > 0]
            assert np.allclose(means[k::3], values.mean() if len(values) else 0)
    whole = patches.reshape(5, 4, 3).mean(dim=1).repeat(1, 4)
    torch.testing.assert_close(channel_means(patches, 3), whole)


# pursuit


def unit_atoms(n_atoms, n_features, seed):
    atoms = randn(n_atoms, n_features, seed=seed)
    return atoms / torch.linalg.vector_norm(atoms, dim=1, keepdim=True)


@pytest.mark.parametrize("max_error", [0.5, 4.0, 30.0])
def test_pursuit_is_scikit_learns(max_error):
    atoms, Y = unit_atoms(40, 16, seed=0), 2 * randn(60, 16, seed=1)
    found, n_atoms = matching_pursuit(Y, atoms, max_error=max_error, max_atoms=16)
    for y, approximation, n in zip(Y.numpy(), found.numpy(), n_atoms, strict=True):
        if y @ y <= max_error:
            expected = np.zeros(40)
        else:
            expected = orthogonal_mp(atoms.numpy().T, y, tol=max_error)
        assert np.allclose(approximation, expected @ atoms.numpy(), atol=1e-8)
        assert n == np.count_nonzero(expected)


def test_pursuit_takes_no_more_atoms_than_allowed():
    atoms, Y = unit_atoms(40, 16, seed=0), randn(20, 16, seed=1)
    found, n_atoms = matching_pursuit(Y, atoms, max_error=0.0, max_atoms=3)
    assert (n_atoms == 3).all()
    expected = orthogonal_mp(atoms.numpy().T, Y.numpy().T, n_nonzero_coefs=3)
    assert np.allclose(found, (atoms.numpy().T @ expected).T)


def test_pursuit_stops_where_atoms_are_used_up():
    atoms = unit_atoms(3, 8, seed=0)
    atoms = torch.cat([atoms, atoms])
    Y = randn(10, 8, seed=1)
    found, n_atoms = matching_pursuit(Y, atoms, max_error=0.0, max_atoms=8)
    projection = np.linalg.lstsq(atoms[:3].numpy().T, Y.numpy().T, rcond=None)[0]
    assert np.allclose(found, projection.T @ atoms[:3].numpy())
    assert (n_atoms == 3).all()


# groups


def brute_force_distances(image, place, size, reach):
    """Distance of a patch to all within reach, by place."""
    own = image[place[0] : place[0] + size, place[1] : place[1] + size]
    found = {}
    for i in range(max(0, place[0] - reach), min(image.shape[0] - size, place[0] + reach) + 1):
        for j in range(max(0, place[1] - reach), min(image.shape[1] - size, place[1] + reach) + 1):
            found[i, j] = np.square(image[i : i + size, j : j + size] - own).sum()
    return found


def test_similar_patches_are_the_nearest():
    image = randn(13, 15, 2, seed=0)
    grid = PatchGrid(image.shape, 4, 3)
    found = [similar_patches(image, grid, rows, reach=3, n_similar=6) for rows in grid.bands(1)]
    whole = similar_patches(image, grid, slice(None), reach=3, n_similar=6)
    assert torch.equal(torch.cat(found), whole)
    places = [(int(i), int(j)) for i in grid.rows for j in grid.columns]
    for place, anchors in zip(places, whole, strict=True):
        distances = brute_force_distances(image.numpy(), place, 4, 3)
        nearest = sorted(distances, key=distances.get)[:6]
        assert [divmod(int(a) // 2, 15) for a in anchors] == nearest


def test_a_patch_is_in_its_group_even_among_equals():
    grid = PatchGrid((20, 20, 1), 4, 2)
    groups = similar_patches(torch.zeros(20, 20, 1), grid, slice(None), reach=5, n_similar=4)
    assert torch.equal(groups[:, 0], grid.anchors())


def test_groups_of_a_small_image_are_smaller():
    grid = PatchGrid((5, 6, 1), 4, 1)
    groups = similar_patches(randn(5, 6, 1, seed=0), grid, slice(None), reach=9, n_similar=50)
    assert all(sorted(group) == [0, 1, 2, 6, 7, 8] for group in groups.tolist())


@pytest.mark.parametrize("n", [1, 2, 5, 30])
def test_shrinkage_is_the_best_linear_estimate(n):
    pilot = 3 * randn(4, n, 9, seed=0)
    noisy = pilot + randn(4, n, 9, seed=1)
    estimates, weights = shrink_by_group(noisy, pilot)
    for y, p, found, weight in zip(
        *(v.numpy() for v in (noisy, pilot, estimates, weights)), strict=True
    ):
        mean = p.mean(axis=0)
        covariance = (p - mean).T @ (p - mean) / max(1, n - 1)
        gain = covariance @ np.linalg.inv(covariance + np.eye(9))
        assert np.allclose(found, mean + (y - mean) @ gain.T)
        assert weight == pytest.approx(1 / (1 + np.trace(gain)))


# lasso with gaps


@pytest.mark.parametrize("lam", [0.01, 0.1])
def test_masked_codes_are_those_of_the_seen_rows(lam):
    atoms, Y = unit_atoms(30, 16, seed=0), randn(12, 16, seed=1)
    seen = (randn(12, 16, seed=2) > -0.3).double()
    seen[0] = 1
    codes = masked_lasso(Y, seen, atoms, lam=lam, tol=1e-10, max_iter=20_000)
    for y, mask, code in zip(Y.numpy(), seen.numpy() > 0, codes.numpy(), strict=True):
        alpha = lam * 16 / (2 * mask.sum())
        lasso = Lasso(alpha=alpha, fit_intercept=False, tol=1e-12, max_iter=100_000)
        lasso.fit(atoms.numpy()[:, mask].T, y[mask])
        assert np.allclose(
            code @ atoms.numpy()[:, mask], lasso.predict(atoms.numpy()[:, mask].T), atol=1e-4
        )
        assert lam * np.abs(code).sum() == pytest.approx(lam * np.abs(lasso.coef_).sum(), rel=1e-4)


def test_masked_codes_do_not_depend_on_what_is_hidden_nor_on_neighbours():
    atoms, Y = unit_atoms(30, 16, seed=0), randn(12, 16, seed=1)
    seen = (randn(12, 16, seed=2) > 0).double()
    codes = masked_lasso(Y, seen, atoms, lam=0.05)
    other = masked_lasso(Y + 100 * (1 - seen), seen, atoms, lam=0.05)
    torch.testing.assert_close(other, codes)
    alone = masked_lasso(Y[3:4], seen[3:4], atoms, lam=0.05)
    torch.testing.assert_close(alone, codes[3:4])


def test_masked_codes_are_zero_where_nothing_is_worth_its_price():
    atoms, Y = unit_atoms(30, 16, seed=0), randn(12, 16, seed=1)
    seen = torch.ones_like(Y)
    seen[0] = 0
    assert not masked_lasso(Y, seen, atoms, lam=10.0).any()
    assert not masked_lasso(Y, seen, atoms, lam=1e-3)[0].any()


# denoiser


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
        NonLinearVDL(6, hidden_layer_sizes=(8,), max_iter=2, random_state=0),
        make_pipeline(StandardScaler(), VDL(6, max_iter=2, random_state=0)),
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


@pytest.mark.parametrize("estimator", [PCA(10), MiniBatchDictionaryLearning(12, max_iter=3)])
def test_any_estimator_with_atoms_will_do(estimator, noisy):
    model = ImageDenoiser(**{**QUICK, "estimator": estimator}, sigma=0.1)
    clean = stripes(*noisy.shape)
    assert rms(model.fit_transform(noisy) - clean) < 0.6 * rms(noisy - clean)


def test_photograph_gets_better_and_refinements_help(photograph):
    noisy = with_noise(photograph, 25 / 255)
    model = ImageDenoiser(sigma=25 / 255, random_state=0).fit(noisy)
    refined = rms(model.transform(noisy) - photograph)
    alone = rms(model.set_params(n_refinements=0).transform(noisy) - photograph)
    assert refined < 0.95 * alone < 0.9 * 25 / 255


def test_dictionary_learnt_from_clean_pictures_serves_other_ones(photograph):
    flower = load_sample_image("flower.jpg")[200:296, 300:396].mean(axis=2) / 255
    noisy = with_noise(photograph, 0.1)
    model = ImageDenoiser(sigma=0.1, random_state=0).fit(flower)
    assert rms(model.transform(noisy) - photograph) < 0.6 * 0.1


@pytest.mark.parametrize("channels", [None, 1, 3])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32, np.float64])
def test_shape_type_and_range_stay(dtype, channels):
    image = with_noise(255 * stripes(20, 23, channels), 20)
    image = np.clip(image, 0, 255).astype(dtype)
    before = image.copy()
    denoised = ImageDenoiser(**QUICK).fit_transform(image)
    assert denoised.shape == image.shape
    assert denoised.dtype == dtype
    assert denoised.min() >= image.min()
    assert denoised.max() <= image.max()
    assert np.array_equal(image, before)
    clean = 255 * stripes(20, 23, channels)
    assert rms(denoised - clean) < 0.8 * rms(image - clean)


def test_integers_are_the_rounded_result_of_floats():
    image = np.clip(with_noise(255 * stripes(20, 23), 20), 0, 255).astype(np.uint8)
    model = ImageDenoiser(**QUICK).fit(image)
    as_float = model.transform(image.astype(np.float64))
    assert np.array_equal(model.transform(image), np.rint(as_float))


@pytest.mark.parametrize(("scale", "offset"), [(255.0, 0.0), (1e-4, 3.0), (10.0, 1e5)])
def test_units_of_the_image_do_not_matter(scale, offset, noisy):
    expected = ImageDenoiser(**QUICK, sigma=0.1).fit_transform(noisy)
    model = ImageDenoiser(**QUICK, sigma=0.1 * scale)
    found = (model.fit_transform(noisy * scale + offset) - offset) / scale
    # the dictionary sees the data in single precision, and its choices may differ here and there
    assert rms(found - expected) < 0.02


def test_sigma_is_estimated_where_it_is_not_given(noisy):
    model = ImageDenoiser(**QUICK, sigma=estimate_noise(noisy))
    estimated = ImageDenoiser(**QUICK)
    assert np.array_equal(model.fit_transform(noisy), estimated.fit_transform(noisy))


@pytest.mark.parametrize("shape", [(4, 4), (4, 30), (5, 7), (31, 6)])
@pytest.mark.parametrize("stride", [1, 4])
def test_small_and_narrow_images(shape, stride):
    image = with_noise(stripes(*shape), 0.1)
    denoised = ImageDenoiser(**QUICK, stride=stride, sigma=0.1).fit_transform(image)
    assert denoised.shape == shape
    assert np.isfinite(denoised).all()


@pytest.mark.parametrize("channels", [None, 3])
def test_memory_available_does_not_change_the_result(channels, monkeypatch):
    image = with_noise(stripes(30, 37, channels), 0.1)
    model = ImageDenoiser(**QUICK, sigma=0.1).fit(image)
    expected = model.transform(image)
    monkeypatch.setattr(images, "_ELEMENTS", 2**10)
    assert np.allclose(model.transform(image), expected, atol=1e-5)


def test_constant_and_noiseless_images_come_back():
    constant = np.full((12, 12), 7.0)
    assert np.array_equal(ImageDenoiser(**QUICK).fit_transform(constant), constant)
    assert np.allclose(ImageDenoiser(**QUICK, sigma=1.0).fit_transform(constant), constant)
    image = stripes(20, 20)
    same = ImageDenoiser(**QUICK, sigma=0).fit(image).transform(image)
    assert np.array_equal(same, image)
    assert not np.shares_memory(same, image)


def test_stack_list_and_single_image_agree():
    stack = with_noise(np.stack([stripes(12, 14), stripes(14, 12).T]), 0.1)
    model = ImageDenoiser(**QUICK, sigma=0.1).fit(stack)
    one_by_one = [model.transform(image) for image in stack]
    assert np.array_equal(model.transform(stack), np.stack(one_by_one))
    listed = model.transform([stack[0], stack[1, :9]])
    assert isinstance(listed, list)
    assert [image.shape for image in listed] == [(12, 14), (9, 14)]
    assert np.array_equal(listed[0], one_by_one[0])
    colour = ImageDenoiser(**QUICK, sigma=0.1).fit(np.stack([stack] * 3, axis=3))
    assert colour.n_channels_ == 3
    assert colour.transform(np.stack([stack] * 3, axis=3)).shape == (2, 12, 14, 3)


def test_nested_lists_are_an_image(noisy):
    model = ImageDenoiser(**QUICK).fit(noisy.tolist())
    assert np.array_equal(model.transform(noisy.tolist()), model.transform(noisy))


def test_folder_and_file(tmp_path):
    pillow = pytest.importorskip("PIL.Image")
    picture = np.clip(with_noise(255 * stripes(20, 24), 20), 0, 255).astype(np.uint8)
    pillow.fromarray(picture).save(tmp_path / "a.PNG")
    pillow.fromarray(picture).convert("LA").save(tmp_path / "b.png")
    np.save(tmp_path / "c.npy", picture)
    (tmp_path / "notes.txt").write_text("not an image")
    model = ImageDenoiser(**QUICK).fit(tmp_path)
    same = ImageDenoiser(**QUICK).fit([picture] * 3)
    assert np.array_equal(model.estimator_.components_, same.estimator_.components_)
    expected = model.transform(picture)
    assert all(np.array_equal(found, expected) for found in model.transform(str(tmp_path)))
    assert np.array_equal(model.transform(tmp_path / "a.PNG"), expected)


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (np.zeros(9), "shape"),
        (np.zeros((2, 2, 9, 9, 9)), "shape"),
        (np.zeros((9, 9, 4)), "alpha"),
        (np.zeros((3, 20)), r"3 x 20 pixels.*patch_size=4"),
        (np.full((9, 9), np.nan), "inpaint"),
        (np.full((9, 9), np.inf), "infinity"),
        (np.zeros((9, 9), dtype=bool), "not bool"),
        (np.zeros((9, 9), dtype=complex), "not complex"),
        (np.zeros((0, 9, 9)), "no image"),
        ([], "shape"),
    ],
)
def test_what_is_no_image_is_refused_and_changes_nothing(image, message, noisy):
    with pytest.raises(ValueError, match=message):
        ImageDenoiser(**QUICK).fit(image)
    model = ImageDenoiser(**QUICK).fit(noisy)
    before = pickle.dumps(model)
    with pytest.raises(ValueError, match=message):
        model.transform(image)
    with pytest.raises(ValueError, match=message):
        model.fit(image)
    assert pickle.dumps(model) == before


def test_missing_and_empty_folders(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        ImageDenoiser(**QUICK).fit(tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"holds no image.*\.png"):
        ImageDenoiser(**QUICK).fit(tmp_path)


def test_kinds_of_images_do_not_mix(noisy):
    colour = np.stack([noisy] * 3, axis=2)
    with pytest.raises(ValueError, match="Some images are grey and some RGB"):
        ImageDenoiser(**QUICK).fit([noisy, colour])
    with pytest.raises(ValueError, match=r"3 channel\(s\), those in fit had 1"):
        ImageDenoiser(**QUICK).fit(noisy).transform(colour)


def test_stride_must_not_leave_gaps(noisy):
    with pytest.raises(ValueError, match=r"stride=5.*patch_size=4"):
        ImageDenoiser(**QUICK, stride=5).fit(noisy)


@pytest.mark.parametrize("method", ["transform", "inpaint"])
def test_unfitted(method, noisy):
    with pytest.raises(NotFittedError):
        getattr(ImageDenoiser(), method)(noisy)


def test_clone_pickle_and_seed(noisy):
    model = ImageDenoiser(**{**QUICK, "estimator": None, "max_patches": 100})
    state = torch.get_rng_state()
    denoised = model.fit_transform(noisy)
    assert torch.equal(torch.get_rng_state(), state)
    assert np.array_equal(pickle.loads(pickle.dumps(model)).transform(noisy), denoised)
    twin = clone(model)
    assert not hasattr(twin, "estimator_")
    assert np.array_equal(twin.fit_transform(noisy), denoised)
    assert not np.array_equal(twin.set_params(random_state=1).fit_transform(noisy), denoised)


def test_estimator_is_cloned_and_reachable(noisy):
    inner = clone(SMALL)
    model = ImageDenoiser(**{**QUICK, "estimator": inner}).set_params(estimator__n_components=7)
    model.fit(noisy)
    assert model.estimator_ is not inner
    assert not hasattr(inner, "components_")
    assert model.estimator_.components_.shape == (7, 16)


def test_no_tensor_leaves_its_device_implicit(noisy):
    gaps = noisy.copy()
    gaps[10:13, 10:20] = np.nan
    with torch.device("meta"):
        model = ImageDenoiser(**{**QUICK, "estimator": clone(SMALL).set_params(device="cpu")})
        assert np.isfinite(model.fit_transform(noisy)).all()
        assert np.isfinite(model.inpaint(gaps)).all()


@pytest.mark.parametrize("verbose", [0, 1])
def test_progress_is_shown_when_asked_for(verbose, noisy, capsys):
    model = ImageDenoiser(**QUICK, verbose=verbose).fit(noisy)
    model.transform(noisy)
    model.inpaint(noisy, np.eye(*noisy.shape))
    shown = capsys.readouterr().err
    assert all((name in shown) == bool(verbose) for name in ("denoise", "inpaint"))


# gaps


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


def test_gaps_of_a_photograph_are_filled_well(photograph):
    flower = load_sample_image("flower.jpg")[200:296, 300:396].mean(axis=2) / 255
    image = photograph[:48, :48]
    missing = np.random.default_rng(0).random(image.shape) < 0.3
    model = ImageDenoiser(max_patches=2000, random_state=0).fit(flower)
    filled = model.inpaint(np.where(missing, np.nan, image))
    assert rms(filled - image) < 0.25 * rms(
        np.where(missing, image[~missing].mean(), image) - image
    )


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


def test_gaps_in_integers():
    image = (255 * stripes(20, 22)).astype(np.uint8)
    mask = np.zeros(image.shape, dtype=bool)
    mask[::5, ::3] = True
    filled = ImageDenoiser(**QUICK).fit(image).inpaint(np.where(mask, 0, image), mask)
    assert filled.dtype == np.uint8
    assert rms(filled[mask].astype(float) - image[mask]) < 40


def test_holes_wider_than_patches_are_filled_from_the_border():
    i, j = np.mgrid[:30, :30] / 30
    image = 0.2 + 0.5 * i + 0.3 * j
    gaps = image.copy()
    gaps[8:22, 8:22] = np.nan
    filled = ImageDenoiser(**QUICK).fit(image).inpaint(gaps)
    assert np.isfinite(filled).all()
    assert rms(filled - image) < 0.1


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
        check_do_not_raise_errors_in_init_or_set_param,
        check_estimator_cloneable,
        check_estimator_get_tags_default_keys,
        check_estimator_repr,
        check_get_params_invariance,
        check_no_attributes_set_in_init,
        check_param_validation,
        check_parameters_default_constructible,
        check_set_params,
    ],
    ids=lambda check: check.__name__,
)
def test_scikit_learn_check(check):
    check("ImageDenoiser", ImageDenoiser())
