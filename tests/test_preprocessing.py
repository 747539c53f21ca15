import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.ndimage import gaussian_filter
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import (
    check_dataframe_column_names_consistency,
    check_get_feature_names_out_error,
    check_global_output_transform_pandas,
    check_global_set_output_transform_polars,
    check_n_features_in,
    check_param_validation,
    check_set_output_transform,
    check_set_output_transform_pandas,
    check_set_output_transform_polars,
    check_transformer_get_feature_names_out,
    check_transformer_get_feature_names_out_pandas,
    parametrize_with_checks,
)

import skvdl.preprocessing as module
from skvdl.preprocessing import GlobalScaler, LocalContrastNormalizer

# The checks fit rows of one to three features, on which no larger kernel fits twice. With a kernel
# of one pixel they see the contract only; the tests of this file see the numbers.
TRANSFORMERS = [
    GlobalScaler(),
    GlobalScaler(mean=0.5, std=2.0),
    LocalContrastNormalizer(1, image_shape=(1, -1)),
    LocalContrastNormalizer(1, image_shape=(1, -1), add_statistics=True),
]


@parametrize_with_checks(TRANSFORMERS)
def test_scikit_learn_check(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    "check",
    [
        check_dataframe_column_names_consistency,
        check_get_feature_names_out_error,
        check_global_output_transform_pandas,
        check_global_set_output_transform_polars,
        check_n_features_in,
        check_param_validation,
        check_set_output_transform,
        check_set_output_transform_pandas,
        check_set_output_transform_polars,
        check_transformer_get_feature_names_out,
        check_transformer_get_feature_names_out_pandas,
    ],
    ids=lambda check: check.__name__,
)
@pytest.mark.parametrize("transformer", TRANSFORMERS, ids=str)
def test_check_that_is_not_run_by_default(transformer, check):
    check(type(transformer).__name__, transformer)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def loop_weights(height, width, sigma):
    weights = np.empty((height, width))
    for i in range(height):
        for j in range(width):
            squares = (i - height // 2) ** 2 + (j - width // 2) ** 2
            weights[i, j] = np.exp(-squares / (2 * sigma**2))
    return weights / weights.sum()


def loop_normalize(images, height, width, sigma, floor):
    """Every step pixel by pixel: normalised images, local means and scales."""
    weights = loop_weights(height, width, sigma)

    def average(image):
        rows, columns = image.shape[0] - height + 1, image.shape[1] - width + 1
        out = np.empty((rows, columns))
        for i in range(rows):
            for j in range(columns):
                out[i, j] = np.sum(weights * image[i : i + height, j : j + width])
        return out

    def middle(image):
        top, left = height // 2, width // 2
        return image[top : image.shape[0] - top, left : image.shape[1] - left]

    means = [average(image) for image in images]
    centred = [middle(image) - mean for image, mean in zip(images, means, strict=True)]
    deviations = np.array([np.sqrt(average(image**2)) for image in centred])
    scales = np.maximum(np.maximum(deviations, deviations.mean()), floor)
    normalized = np.array([middle(image) for image in centred]) / scales
    return normalized, np.array([middle(mean) for mean in means]), scales


def flat(images):
    return np.reshape(images, (len(images), -1))


@pytest.fixture
def images(rng):
    """Images of 11 x 13, of which one has hardly any contrast."""
    return rng.normal(size=(6, 11, 13)) * np.array([3, 1, 1, 0.5, 0.01, 1])[:, None, None] + 2.0


@pytest.fixture
def lcn():
    return LocalContrastNormalizer((3, 5), 1.5, image_shape=(11, 13), add_statistics=True)


def parts(normalizer, X):
    """Normalised pixels, local means, local scales."""
    return np.hsplit(normalizer.transform(X), 3)


# Global scaling ---------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scaler_learns_one_mean_and_one_deviation(rng, dtype):
    X = (rng.normal(size=(50, 7)) * np.arange(1, 8) + 3).astype(dtype)
    scaler = GlobalScaler().fit(X)
    assert scaler.mean_ == pytest.approx(X.astype(np.float64).mean(), rel=1e-12)
    assert scaler.scale_ == pytest.approx(X.astype(np.float64).std(), rel=1e-12)
    scaled = scaler.transform(X)
    assert scaled.dtype == dtype
    np.testing.assert_allclose(scaled, (X - X.mean()) / X.std(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(scaler.inverse_transform(scaled), X, rtol=1e-5, atol=1e-5)
    assert scaler.inverse_transform(scaled).dtype == dtype


def test_scaler_adds_up_chunks(rng, monkeypatch):
    X = rng.normal(size=(11, 4))
    monkeypatch.setattr(module, "_CHUNK_ELEMENTS", 9)
    assert GlobalScaler().fit(X).scale_ == pytest.approx(X.std(), rel=1e-12)


@pytest.mark.parametrize("given", [{"mean": 4.0}, {"std": 5.0}, {"mean": 4.0, "std": 5.0}, {}])
def test_scaler_takes_what_is_given_and_learns_the_rest(rng, given):
    X = rng.normal(size=(20, 3)) + 9
    scaler = GlobalScaler(**given).fit(X)
    mean, std = given.get("mean", X.mean()), given.get("std", X.std())
    assert (scaler.mean_, scaler.scale_) == pytest.approx((mean, std), rel=1e-12)
    np.testing.assert_allclose(scaler.transform(X), (X - mean) / std, rtol=1e-12)


@pytest.mark.parametrize("value", [0.0, 0.1, 1e-200, 1e8])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scaler_of_constant_data_only_centres(value, dtype):
    X = np.full((7, 3), value, dtype=dtype)
    scaler = GlobalScaler().fit(X)
    assert scaler.scale_ == 1.0
    np.testing.assert_allclose(scaler.transform(X), 0.0, atol=1e-7 * value)


def test_scaler_of_data_whose_variance_underflows_does_not_divide_by_zero():
    X = np.array([[1e-200, 2e-200]])
    np.testing.assert_array_equal(GlobalScaler(mean=0.0).fit_transform(X), X)


def test_scaler_sees_a_small_deviation_on_a_large_offset(rng):
    X = (rng.integers(0, 2, size=(500, 8)) + 1_000_000).astype(np.float32)
    assert GlobalScaler().fit(X).scale_ == pytest.approx(X.astype(np.float64).std(), rel=1e-9)


def test_scaler_leaves_its_input_alone(rng):
    X = rng.normal(size=(5, 3))
    X.setflags(write=False)
    scaler = GlobalScaler().fit(X)
    scaler.inverse_transform(scaler.transform(X))
    before = X.copy()
    X = X.copy()
    scaler.inverse_transform(X)
    scaler.transform(X)
    np.testing.assert_array_equal(X, before)


def test_scaler_undoes_parts_of_rows():
    scaler = GlobalScaler(mean=1.0, std=2.0).fit(np.zeros((2, 9)))
    np.testing.assert_array_equal(scaler.inverse_transform([[1.0, 2.0]]), [[3.0, 5.0]])


@pytest.mark.parametrize("bad", [{"std": 0.0}, {"std": -1.0}, {"mean": np.nan}, {"mean": "0"}])
def test_scaler_rejects_bad_parameters(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        GlobalScaler(**bad).fit([[1.0, 2.0]])


# Local contrast normalisation -------------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "rtol"), [(np.float32, 2e-5), (np.float64, 1e-12)])
@pytest.mark.parametrize("kernel", [(3, 3), (3, 5), (5, 1), (1, 1)])
def test_normalizer_equals_nested_loops(images, kernel, dtype, rtol):
    X = flat(images).astype(dtype)
    expected = loop_normalize(X.reshape(images.shape).astype(np.float64), *kernel, 1.5, 1e-4)
    lcn = LocalContrastNormalizer(kernel, 1.5, image_shape=(11, 13), add_statistics=True).fit(X)
    for one, other in zip(parts(lcn, X), expected, strict=True):
        assert one.dtype == dtype
        np.testing.assert_allclose(one, flat(other), rtol=rtol, atol=rtol)
    assert lcn.output_shape_ == expected[0].shape[1:]
    lcn.set_params(add_statistics=False)
    np.testing.assert_allclose(lcn.transform(X), flat(expected[0]), rtol=rtol, atol=rtol)


def test_normalizer_with_one_number_for_both_sides(images):
    X = flat(images)
    one, two = (
        LocalContrastNormalizer(size, 2.0, image_shape=(11, -1)).fit_transform(X)
        for size in (5, (5, 5))
    )
    np.testing.assert_array_equal(one, two)


def test_normalizer_blurs_as_scipy_does(rng):
    X = rng.normal(size=(3, 52 * 52))
    lcn = LocalContrastNormalizer(add_statistics=True).fit(X)
    _, mean, scale = parts(lcn, X)
    images = X.reshape(-1, 52, 52)
    blur = {"sigma": 5.0, "radius": 6, "axes": (1, 2)}
    blurred = gaussian_filter(images, **blur)
    np.testing.assert_allclose(mean.reshape(-1, 28, 28), blurred[:, 12:-12, 12:-12], atol=1e-12)
    deviation = np.sqrt(gaussian_filter((images - blurred) ** 2, **blur))[:, 12:-12, 12:-12]
    assert lcn.min_scale_ == pytest.approx(deviation.mean(), rel=1e-12)
    np.testing.assert_allclose(
        scale.reshape(deviation.shape), np.maximum(deviation, lcn.min_scale_)
    )


def test_least_scale_is_learnt_in_fit_and_no_matter_of_what_is_transformed(images, lcn):
    X = flat(images)
    lcn.fit(X[:3])
    expected = loop_normalize(images[:3], 3, 5, 1.5, 1e-4)[2]
    assert lcn.min_scale_ == pytest.approx(expected.min(), rel=1e-12)
    assert parts(lcn, X[4:5])[2].max() == pytest.approx(lcn.min_scale_)


@pytest.mark.parametrize("size", [1, 143, 400])
def test_chunks_make_no_difference(images, lcn, size, monkeypatch):
    X = flat(images)
    whole = lcn.fit(X).transform(X), lcn.min_scale_
    monkeypatch.setattr(module, "_CHUNK_ELEMENTS", size)
    chunked = lcn.fit(X).transform(X), lcn.min_scale_
    for one, other in zip(whole, chunked, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_are_normalised_each_by_itself(images, lcn, dtype):
    X = flat(images).astype(dtype)
    Z = lcn.fit(X).transform(X)
    order = np.array([3, 0, 5, 1, 4, 2])
    np.testing.assert_array_equal(lcn.transform(X[order]), Z[order])
    np.testing.assert_array_equal(np.vstack([lcn.transform(row[None]) for row in X]), Z)
    np.testing.assert_array_equal(lcn.transform(np.asfortranarray(X)), Z)


@pytest.mark.parametrize(("dtype", "tol"), [(np.float32, 1e-6), (np.float64, 1e-14)])
def test_round_trip(images, lcn, dtype, tol):
    X = flat(images).astype(dtype)
    back = lcn.inverse_transform(lcn.fit_transform(X))
    assert back.dtype == dtype
    np.testing.assert_allclose(
        back, flat(X.reshape(-1, 11, 13)[:, 2:-2, 4:-4]), rtol=0, atol=9 * tol
    )


def test_round_trip_of_images_without_contrast():
    X = np.full((2, 49), 0.3)
    lcn = LocalContrastNormalizer(3, floor=0.01, add_statistics=True).fit(X)
    assert lcn.min_scale_ == 0.01
    pixels, mean, scale = parts(lcn, X)
    np.testing.assert_allclose(pixels, 0.0, atol=1e-12)
    np.testing.assert_allclose(lcn.inverse_transform(np.hstack([pixels, mean, scale])), 0.3)


def test_a_brighter_image_with_more_contrast_looks_the_same(rng):
    X = rng.normal(size=(1, 20 * 20))
    lcn = LocalContrastNormalizer(5).fit(0.01 * X)
    one, other = lcn.transform(np.vstack([X, 7 * X + 100]))
    np.testing.assert_allclose(one, other, atol=1e-10)


def test_signals_are_images_one_pixel_high(rng):
    X = rng.normal(size=(4, 30))
    lcn = LocalContrastNormalizer((1, 7), image_shape=(1, -1), add_statistics=True).fit(X)
    assert (lcn.image_shape_, lcn.output_shape_) == ((1, 30), (1, 18))
    mean = parts(lcn, X)[1]
    expected = [np.convolve(row, loop_weights(1, 7, 5.0)[0], mode="valid")[3:-3] for row in X]
    np.testing.assert_allclose(mean, expected, atol=1e-12)


def test_pipeline_undoes_both(images):
    X = flat(images)
    lcn = LocalContrastNormalizer(3, image_shape=(11, 13), add_statistics=True)
    pipe = make_pipeline(GlobalScaler(), lcn)
    back = pipe.inverse_transform(pipe.fit_transform(X))
    np.testing.assert_allclose(back, flat(images[:, 2:-2, 2:-2]), atol=1e-12)


@pytest.mark.parametrize(("add_statistics", "n_columns"), [(False, 35), (True, 105)])
def test_names_of_features_and_frames(images, lcn, add_statistics, n_columns):
    lcn.set_params(add_statistics=add_statistics).set_output(transform="pandas")
    frame = lcn.fit_transform(flat(images))
    assert frame.shape == (6, n_columns)
    assert frame.columns[-1] == f"localcontrastnormalizer{n_columns - 1}"
    assert lcn.n_features_in_ == 143


def test_pickle_and_clone(images, lcn):
    X = flat(images)
    Z = lcn.fit(X).transform(X)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(lcn)).transform(X), Z)
    np.testing.assert_array_equal(clone(lcn).fit(X).transform(X), Z)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"kernel_size": 4}, "odd"),
        ({"kernel_size": (3, 2)}, "odd"),
        ({"kernel_size": (3,)}, "pair"),
        ({"kernel_size": (3, -1)}, "odd"),
        ({"kernel_size": (3, 2.5)}, "odd"),
        ({"kernel_size": 0}, "kernel_size"),
        ({"kernel_size": 7}, r"11 x 13 .* at least 13 x 13"),
        ({"sigma": 0.0}, "sigma"),
        ({"floor": 0.0}, "floor"),
        ({"image_shape": None}, "143 features.*not make a square image"),
        ({"image_shape": (11, 12)}, "143 features"),
        ({"image_shape": (-1, 12)}, "143 features"),
        ({"image_shape": (-1, -1)}, "one may be -1"),
        ({"image_shape": (11, 13, 1)}, "height, width"),
        ({"image_shape": (11.0, 13.0)}, "height, width"),
        ({"image_shape": (0, 13)}, "143 features"),
    ],
)
def test_bad_parameters_are_named_and_leave_a_fitted_normalizer_as_it_was(
    images, lcn, parameters, message
):
    X = flat(images)
    Z = lcn.fit(X).transform(X)
    with pytest.raises(ValueError, match=message):
        lcn.set_params(**parameters).fit(X)
    np.testing.assert_array_equal(lcn.transform(X), Z)


def test_bad_data_leave_a_fitted_normalizer_as_it_was(images, lcn):
    X = flat(images)
    before = vars(lcn.fit(X)).copy()
    for bad in (X[:, :20], np.full_like(X, np.nan)):
        with pytest.raises(ValueError, match=r"image|NaN"):
            lcn.fit(bad)
    assert vars(lcn) == before


def test_undoing_without_statistics_says_what_to_do(images, lcn):
    lcn.set_params(add_statistics=False)
    Z = lcn.fit_transform(flat(images))
    assert not hasattr(lcn, "inverse_transform")
    with pytest.raises(AttributeError, match="inverse_transform") as caught:
        lcn.inverse_transform(Z)
    assert "add_statistics=True" in str(caught.value.__cause__)


@pytest.mark.parametrize("n_columns", [35, 70, 106])
def test_undoing_with_columns_missing_or_added_is_refused(images, lcn, n_columns):
    lcn.fit(flat(images))
    with pytest.raises(ValueError, match=rf"{n_columns} columns instead of 105.*local means"):
        lcn.inverse_transform(np.zeros((6, n_columns)))


@pytest.mark.parametrize("kind", [GlobalScaler, LocalContrastNormalizer])
def test_a_failed_fit_keeps_the_names_of_features(kind):
    options = {} if kind is GlobalScaler else {"kernel_size": (1, 3), "image_shape": (1, -1)}
    frame = pd.DataFrame(np.random.default_rng(0).random((4, 5)), columns=list("abcde"))
    model = kind(**options).fit(frame)
    with pytest.raises(ValueError, match="NaN"):
        model.fit(np.full((4, 5), np.nan))
    assert model.feature_names_in_.tolist() == list("abcde")


@pytest.mark.parametrize("kind", [GlobalScaler, LocalContrastNormalizer])
def test_tensors_with_gradients_are_data_like_others(kind):
    options = {} if kind is GlobalScaler else {"kernel_size": (1, 3), "image_shape": (1, -1)}
    X = torch.rand(4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    expected = kind(**options).fit_transform(X.numpy())
    np.testing.assert_array_equal(kind(**options).fit_transform(X.requires_grad_()), expected)


def test_results_that_are_too_large_are_an_error():
    X = np.array([[0.0, 1e-3], [1e-3, 0.0]], dtype=np.float32)
    with pytest.raises(FloatingPointError, match="not finite"):
        GlobalScaler().fit(X).transform(np.full((2, 2), 3e38, dtype=np.float32))
    with pytest.raises(FloatingPointError, match="not finite"):
        GlobalScaler().fit(np.array([[1.7e308, 1.7e308]]))
    rows = np.array([[3e38, -3e38, 3e38, 0, 0]], dtype=np.float32)
    with pytest.raises(FloatingPointError, match="not finite"):
        LocalContrastNormalizer((1, 3), image_shape=(1, -1)).fit(rows)
