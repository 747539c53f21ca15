"""Preprocessing of images: global scaling, local contrast normalisation.

Both are transformers for rows of pixels, and both can be undone.
"""

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    OneToOneFeatureMixin,
    TransformerMixin,
    _fit_context,
)
from sklearn.utils import Tags, check_array, gen_batches
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from ._constraints import real, whole
from ._doc_link import DocLinkMixin
from ._host import finite, to_host

__all__ = ["GlobalScaler", "LocalContrastNormalizer"]

_FLOATS = [np.float64, np.float32]
# Numbers in a chunk, to bound memory.
_CHUNK_ELEMENTS = 2**20


class GlobalScaler(DocLinkMixin, OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Subtract one mean from all features and divide all by one standard deviation.

    Pixels share a unit. One scale for all keeps their appearance; one scale per pixel would
    amplify the noise at the borders.

    Parameters
    ----------
    mean : float, default=None
        Number to subtract. By default the mean of the data given to `fit`.

    std : float, default=None
        Number to divide by. By default the standard deviation of the data given to `fit`, about
        their own mean.

    Attributes
    ----------
    mean_ : float
        Number that is subtracted.

    scale_ : float
        Number that is divided by; 1 if the data were constant.

    n_features_in_ : int
        Number of features.

    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if the data had any.

    See Also
    --------
    sklearn.preprocessing.StandardScaler : A mean and a standard deviation for each feature.

    Examples
    --------
    >>> from skvdl.preprocessing import GlobalScaler
    >>> X = [[0.0, 4.0], [4.0, 0.0]]
    >>> GlobalScaler().fit_transform(X)
    array([[-1.,  1.],
           [ 1., -1.]])
    >>> GlobalScaler(mean=0.0, std=4.0).fit_transform(X)
    array([[0., 1.],
           [1., 0.]])
    """

    _parameter_constraints = {
        "mean": [real(), None],
        "std": [real(above=0), None],
    }

    def __init__(self, mean: float | None = None, std: float | None = None) -> None:
        self.mean = mean
        self.std = std

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike, y: None = None) -> Self:
        """Learn the mean and the standard deviation, unless they were given.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Data.
        y : None
            Ignored.

        Returns
        -------
        self : object
            The fitted scaler.
        """
        X = to_host(X)
        data = check_array(X, dtype=_FLOATS, estimator=self)
        with np.errstate(over="ignore", invalid="ignore"):
            mean = data.mean(dtype=np.float64) if self.mean is None else self.mean
            std = _standard_deviation(data) if self.std is None else self.std
        finite(np.asarray([mean, std]), "Mean and standard deviation")
        # Feature names are stored last: an error must leave a fitted scaler as it was.
        validate_data(self, X, skip_check_array=True)
        # Python floats, which do not change the precision of an array.
        self.mean_, self.scale_ = float(mean), float(std) or 1.0
        return self

    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """Scale data.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Data.

        Returns
        -------
        X_scaled : ndarray of shape (n_samples, n_features)
            The data, scaled.
        """
        check_is_fitted(self)
        scaled = validate_data(
            self, to_host(X), dtype=_FLOATS, copy=True, force_writeable=True, reset=False
        )
        with np.errstate(over="ignore", invalid="ignore"):
            scaled -= self.mean_
            scaled /= self.scale_
        return finite(scaled, "Scaled data")

    def inverse_transform(self, X: ArrayLike) -> NDArray[Any]:
        """Undo the scaling.

        Parameters
        ----------
        X : array-like of shape (n_samples, any number of features)
            Scaled data. As all features share one scale, parts of rows are accepted.

        Returns
        -------
        X_original : ndarray of the same shape
            The data in their original unit.
        """
        check_is_fitted(self)
        original = check_array(
            to_host(X), dtype=_FLOATS, copy=True, force_writeable=True, estimator=self
        )
        with np.errstate(over="ignore", invalid="ignore"):
            original *= self.scale_
            original += self.mean_
        return finite(original, "Unscaled data")

    def __sklearn_tags__(self) -> Tags:
        """Return the tags: float32 is kept."""
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _has_statistics(normalizer: "LocalContrastNormalizer") -> bool:
    """Check that the output of a normaliser can be undone."""
    if not normalizer.add_statistics:
        raise AttributeError(
            "Normalised images do not contain their local means and scales: inverse_transform "
            "needs add_statistics=True, with which transform appends them."
        )
    return True


class LocalContrastNormalizer(
    DocLinkMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator
):
    """Give every neighbourhood of an image a mean near 0 and a similar contrast.

    The mean of its neighbourhood is subtracted from each pixel. The result is divided by the
    standard deviation of its own neighbourhood. Both are weighted by a Gaussian. No divisor is
    smaller than the mean standard deviation over all pixels of the images given to `fit`, so that
    flat neighbourhoods do not become pure noise.

    There is no padding: each of the two steps takes ``kernel_size - 1`` pixels off height and
    width, so that 52 x 52 pixels become 28 x 28.

    Parameters
    ----------
    kernel_size : int or tuple of two ints, default=13
        Height and width of the neighbourhood in pixels, odd.

    sigma : float, default=5.0
        Standard deviation of the Gaussian in pixels.

    image_shape : tuple of two ints, default=None
        Height and width of the images in the rows. One of them may be -1 and is then computed
        from the number of features. By default images are square. Rows that are signals have the
        shape (1, -1) and need a kernel of height 1.

    floor : float, default=1e-4
        Lower bound of `min_scale_`, for images without any contrast.

    add_statistics : bool, default=False
        Whether `transform` appends, after the pixels of each normalised image, the local means
        that were subtracted and the local scales that were divided by. `inverse_transform` needs
        them.

    Attributes
    ----------
    min_scale_ : float
        Smallest divisor: the mean local standard deviation, or `floor` if that is larger.

    image_shape_ : tuple of two ints
        Height and width of an image.

    output_shape_ : tuple of two ints
        Height and width of a normalised image.

    n_features_in_ : int
        Number of pixels of an image.

    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if the data had any.

    Notes
    -----
    Local means and scales differ from image to image and cannot be recovered from the normalised
    pixels. To undo the normalisation of a reconstruction, use ``add_statistics=True``, split the
    columns, and stack the reconstructed pixels with the means and scales of the original.

    Examples
    --------
    >>> import numpy as np
    >>> from skvdl.preprocessing import LocalContrastNormalizer
    >>> X = np.random.default_rng(0).random((10, 52 * 52))
    >>> lcn = LocalContrastNormalizer().fit(X)
    >>> lcn.transform(X).shape, lcn.output_shape_
    ((10, 784), (28, 28))

    There and back:

    >>> lcn.set_params(add_statistics=True)
    LocalContrastNormalizer(add_statistics=True)
    >>> patches, mean, scale = np.hsplit(lcn.transform(X), 3)
    >>> pixels = lcn.inverse_transform(np.hstack([patches, mean, scale]))
    >>> np.allclose(pixels[0].reshape(28, 28), X[0].reshape(52, 52)[12:-12, 12:-12])
    True
    """

    _parameter_constraints = {
        "kernel_size": [whole(1), tuple],
        "sigma": [real(above=0)],
        "image_shape": [tuple, None],
        "floor": [real(above=0)],
        "add_statistics": ["boolean"],
    }

    def __init__(
        self,
        kernel_size: int | tuple[int, int] = 13,
        sigma: float = 5.0,
        *,
        image_shape: tuple[int, int] | None = None,
        floor: float = 1e-4,
        add_statistics: bool = False,
    ) -> None:
        self.kernel_size = kernel_size
        self.sigma = sigma
        self.image_shape = image_shape
        self.floor = floor
        self.add_statistics = add_statistics

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike, y: None = None) -> Self:
        """Learn the mean local standard deviation.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Images as rows.
        y : None
            Ignored.

        Returns
        -------
        self : object
            The fitted normaliser.
        """
        # Feature names are stored last: an error must leave a fitted normaliser as it was.
        X = to_host(X)
        images = check_array(X, dtype=_FLOATS, estimator=self)
        sizes = _kernel_shape(self.kernel_size)
        shape = _resolve_shape(self.image_shape, images.shape[1])
        output = shape[0] - 2 * (sizes[0] - 1), shape[1] - 2 * (sizes[1] - 1)
        if min(output) < 1:
            least = " x ".join(str(2 * size - 1) for size in sizes)
            raise ValueError(
                f"Images of {shape[0]} x {shape[1]} pixels are too small: a kernel of {sizes[0]} x "
                f"{sizes[1]}, applied twice without padding, needs at least {least}. Use larger "
                "images or a smaller kernel_size."
            )
        kernels = tuple(_gaussian(size, self.sigma) for size in sizes)
        total = sum(
            finite(deviation, "Local deviations").sum(dtype=np.float64)
            for _, _, _, deviation in _local_moments(images, shape, kernels)
        )
        validate_data(self, X, skip_check_array=True)
        self.min_scale_ = max(float(total / len(images) / np.prod(output)), float(self.floor))
        self.image_shape_, self.output_shape_, self._kernels = shape, output, kernels
        return self

    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """Normalise images.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Images as rows.

        Returns
        -------
        X_normalized : ndarray of shape (n_samples, n_features_out)
            The normalised images as rows, smaller than the originals. With `add_statistics`,
            followed by as many local means and as many local scales.
        """
        check_is_fitted(self)
        images = validate_data(self, to_host(X), dtype=_FLOATS, reset=False)
        normalized = np.empty((len(images), self._n_features_out), dtype=images.dtype)
        for rows, centred, mean, scale in _local_moments(images, self.image_shape_, self._kernels):
            np.maximum(finite(scale, "Local deviations"), self.min_scale_, out=scale)
            pixels = finite(centred / scale, "Normalised pixels")
            normalized[rows] = np.hstack([pixels, mean, scale]) if self.add_statistics else pixels
        return normalized

    @available_if(_has_statistics)
    def inverse_transform(self, X: ArrayLike) -> NDArray[Any]:
        """Undo the normalisation; only with ``add_statistics=True``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features_out)
            Side by side: normalised images or their reconstructions, and the local means and
            scales that `transform` appended.

        Returns
        -------
        X_original : ndarray of shape (n_samples, n_features_out / 3)
            The pixels at the centre of the images, where the normalised pixels are.
        """
        check_is_fitted(self)
        columns = check_array(to_host(X), dtype=_FLOATS, estimator=self)
        if columns.shape[1] != self._n_features_out:
            raise ValueError(
                f"X has {columns.shape[1]} columns instead of {self._n_features_out}: normalised "
                "pixels, local means and local scales, side by side as transform returns them."
            )
        pixels, mean, scale = np.hsplit(columns, 3)
        with np.errstate(over="ignore", invalid="ignore"):
            return finite(pixels * scale + mean, "Pixels")

    @property
    def _n_features_out(self) -> int:
        return int(np.prod(self.output_shape_)) * (3 if self.add_statistics else 1)

    def __sklearn_tags__(self) -> Tags:
        """Return the tags: float32 is kept."""
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _standard_deviation(X: NDArray[Any]) -> float:
    """Return the standard deviation of all numbers, in double precision."""
    if X.min() == X.max():  # exactly 0, although the mean is rounded
        return 0.0
    mean = X.mean(dtype=np.float64)
    squares = sum(
        np.square(np.subtract(X[rows], mean, dtype=np.float64)).sum() for rows in _chunks(X)
    )
    return float(np.sqrt(squares / X.size))


def _chunks(X: NDArray[Any]) -> Iterator[slice]:
    """Return slices of rows, each of which is small."""
    return gen_batches(len(X), max(1, _CHUNK_ELEMENTS // X.shape[1]))


def _kernel_shape(kernel_size: Any) -> tuple[int, int]:
    """Return the height and width of a kernel; both must be odd, so that it has a centre."""
    shape = kernel_size if isinstance(kernel_size, tuple) else (kernel_size, kernel_size)
    if len(shape) != 2 or not all(whole(1).is_satisfied_by(n) and int(n) % 2 for n in shape):
        raise ValueError(f"kernel_size={kernel_size!r} must be an odd number, or a pair of them.")
    return shape


def _resolve_shape(image_shape: tuple[int, int] | None, n_features: int) -> tuple[int, int]:
    """Return the height and width of images with this number of pixels."""
    if image_shape is None:
        side = round(np.sqrt(n_features))
        if side * side != n_features:
            raise ValueError(
                f"X has {n_features} features, which do not make a square image; set image_shape "
                "to (height, width)."
            )
        return side, side
    try:
        if len(image_shape) == 2:
            return np.empty(n_features).reshape(image_shape).shape
    except (TypeError, ValueError):
        pass
    raise ValueError(
        f"X has {n_features} features, which do not make an image of image_shape={image_shape!r}: "
        "it must be (height, width), of which one may be -1."
    )


def _gaussian(size: int, sigma: float) -> NDArray[np.float64]:
    """Return the weights of a Gaussian at whole pixels, which add up to 1."""
    offset = np.arange(size) - size // 2
    weights = np.exp(-0.5 * np.square(offset / sigma))
    return weights / weights.sum()


def _band(kernel: NDArray[np.float64], n: int, dtype: DTypeLike) -> NDArray[Any]:
    """Return the matrix that correlates n numbers with a kernel, where it overlaps fully."""
    band = np.zeros((n, n - len(kernel) + 1))
    for k, weight in enumerate(kernel):
        band += weight * np.eye(*band.shape, -k)
    return band.astype(dtype)


def _blur(images: NDArray[Any], kernels: tuple[NDArray[np.float64], ...]) -> NDArray[Any]:
    """Correlate with both kernels, by two matrix products, which is fastest for patches."""
    down, across = (
        _band(kernel, n, images.dtype) for kernel, n in zip(kernels, images.shape[1:], strict=True)
    )
    return down.T @ images @ across


def _middle(images: NDArray[Any], kernels: tuple[NDArray[np.float64], ...]) -> NDArray[Any]:
    """Cut off the margin that a blur leaves out."""
    top, left = (len(kernel) // 2 for kernel in kernels)
    return images[:, top : images.shape[1] - top, left : images.shape[2] - left]


def _local_moments(
    X: NDArray[Any], image_shape: tuple[int, int], kernels: tuple[NDArray[np.float64], ...]
) -> Iterator[tuple[slice, NDArray[Any], NDArray[Any], NDArray[Any]]]:
    """Yield per chunk, as rows: its slice, centred pixels, local means, local deviations."""
    for rows in _chunks(X):
        # Contiguous, whatever the order of X: the products would round differently otherwise.
        images = np.ascontiguousarray(X[rows]).reshape(-1, *image_shape)
        with np.errstate(over="ignore", invalid="ignore"):
            mean = _blur(images, kernels)
            centred = _middle(images, kernels) - mean
            deviation = np.sqrt(_blur(np.square(centred), kernels))
        moments = _middle(centred, kernels), _middle(mean, kernels), deviation
        pixels, means, deviations = (moment.reshape(len(images), -1) for moment in moments)
        yield rows, pixels, means, deviations
