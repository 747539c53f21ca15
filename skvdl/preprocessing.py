"""What is done to images before they are coded: global scaling, local contrast normalisation.

Both are transformers for rows of pixels, and both can be undone.
"""

from numbers import Integral, Real

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    OneToOneFeatureMixin,
    TransformerMixin,
    _fit_context,
)
from sklearn.utils import check_array, gen_batches
from sklearn.utils._param_validation import Interval
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

__all__ = ["GlobalScaler", "LocalContrastNormalizer"]

_FLOATS = [np.float64, np.float32]
# Numbers of a chunk: few enough for what is made of them to take little memory.
_CHUNK_ELEMENTS = 2**20


class GlobalScaler(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Subtract one mean from all features and divide all by one standard deviation.

    Pixels share a unit, so that one scale for all keeps what they look like, where a scale for
    each would blow up the noise of the borders.

    Parameters
    ----------
    mean : float, default=None
        What is subtracted; the mean of the data given to `fit` when None.

    std : float, default=None
        What is divided by; the standard deviation of the data given to `fit`, about their own
        mean, when None.

    Attributes
    ----------
    mean_ : float
        What is subtracted.

    scale_ : float
        What is divided by; 1 if the data were constant.

    n_features_in_ : int
        Number of features.

    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, where the data had any.

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
        "mean": [Interval(Real, None, None, closed="neither"), None],
        "std": [Interval(Real, 0, None, closed="neither"), None],
    }

    def __init__(self, mean=None, std=None):
        self.mean = mean
        self.std = std

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None):
        """Learn what was not given.

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
        X = validate_data(self, X, dtype=_FLOATS)
        mean = X.mean(dtype=np.float64) if self.mean is None else self.mean
        std = _standard_deviation(X) if self.std is None else self.std
        # Python's own floats, for they leave the precision of an array alone.
        self.mean_, self.scale_ = float(mean), float(std) or 1.0
        return self

    def transform(self, X):
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
        X = validate_data(self, X, dtype=_FLOATS, copy=True, force_writeable=True, reset=False)
        X -= self.mean_
        X /= self.scale_
        return X

    def inverse_transform(self, X):
        """Undo the scaling.

        Parameters
        ----------
        X : array-like of shape (n_samples, any number of features)
            Scaled data. As one scale serves all features, parts of rows are welcome.

        Returns
        -------
        X_original : ndarray of the same shape
            The data in their own unit.
        """
        check_is_fitted(self)
        X = check_array(X, dtype=_FLOATS, copy=True, force_writeable=True, estimator=self)
        X *= self.scale_
        X += self.mean_
        return X

    def __sklearn_tags__(self):
        """Tell scikit-learn that single precision stays single."""
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _has_statistics(normalizer):
    """Whether the output of a normaliser can be undone."""
    if not normalizer.add_statistics:
        raise AttributeError(
            "Normalised images do not tell what was taken away from them: inverse_transform needs "
            "add_statistics=True, and the local means and scales that transform then appends."
        )
    return True


class LocalContrastNormalizer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Give every neighbourhood of an image a mean near 0 and a like contrast.

    From each pixel the mean of its neighbourhood is subtracted, and what is left is divided by
    the standard deviation of its own neighbourhood, both weighted by a Gaussian. So that flat
    neighbourhoods do not become pure noise, none is divided by less than the mean standard
    deviation over all pixels of the images given to `fit`.

    No padding is invented: each of the two steps takes ``kernel_size - 1`` pixels off height and
    width, so that 52 x 52 pixels become 28 x 28.

    Parameters
    ----------
    kernel_size : int or tuple of two ints, default=13
        Height and width of the neighbourhood in pixels, odd.

    sigma : float, default=5.0
        Standard deviation of the Gaussian in pixels.

    image_shape : tuple of two ints, default=None
        Height and width of the images that the rows hold; one of them may be -1, to follow from
        the number of features. Square images when None. Rows that are signals have the shape
        (1, -1), and need a kernel of height 1.

    floor : float, default=1e-4
        Least number that is ever divided by, for images without any contrast.

    add_statistics : bool, default=False
        Whether `transform` appends to the pixels of each normalised image what was subtracted
        from each of them, and then what each was divided by. `inverse_transform` needs them.

    Attributes
    ----------
    min_scale_ : float
        Least number that is divided by: the mean local standard deviation, or `floor`.

    image_shape_ : tuple of two ints
        Height and width of an image.

    output_shape_ : tuple of two ints
        Height and width of a normalised image.

    n_features_in_ : int
        Number of pixels of an image.

    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, where the data had any.

    Notes
    -----
    What is taken away, local mean and scale, differs from image to image and cannot be told from
    the normalised ones. To undo the normalisation, let ``add_statistics=True`` keep them, take
    the columns apart, and put them together again with what has become of the pixels.

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
        "kernel_size": [Interval(Integral, 1, None, closed="left"), tuple],
        "sigma": [Interval(Real, 0, None, closed="neither")],
        "image_shape": [tuple, None],
        "floor": [Interval(Real, 0, None, closed="neither")],
        "add_statistics": ["boolean"],
    }

    def __init__(
        self, kernel_size=13, sigma=5.0, *, image_shape=None, floor=1e-4, add_statistics=False
    ):
        self.kernel_size = kernel_size
        self.sigma = sigma
        self.image_shape = image_shape
        self.floor = floor
        self.add_statistics = add_statistics

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None):
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
        # A shape that does not fit must leave a fitted normaliser as it was, hence names last.
        images = check_array(X, dtype=_FLOATS, estimator=self)
        sizes = _kernel_shape(self.kernel_size)
        shape = _resolve_shape(self.image_shape, images.shape[1])
        output = tuple(n - 2 * (size - 1) for n, size in zip(shape, sizes, strict=True))
        if min(output) < 1:
            least = " x ".join(str(2 * size - 1) for size in sizes)
            raise ValueError(
                f"Images of {shape[0]} x {shape[1]} pixels are too small: a kernel of {sizes[0]} x "
                f"{sizes[1]}, applied twice without padding, needs at least {least}. Use larger "
                "images or a smaller kernel_size."
            )
        kernels = tuple(_gaussian(size, self.sigma) for size in sizes)
        total = sum(
            deviation.sum(dtype=np.float64)
            for _, _, _, deviation in _local_moments(images, shape, kernels)
        )
        validate_data(self, X, skip_check_array=True)
        self.min_scale_ = max(float(total / len(images) / np.prod(output)), float(self.floor))
        self.image_shape_, self.output_shape_, self._kernels = shape, output, kernels
        return self

    def transform(self, X):
        """Normalise images.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Images as rows.

        Returns
        -------
        X_normalized : ndarray of shape (n_samples, n_features_out)
            The normalised images as rows, smaller than what they were made of; then, with
            `add_statistics`, as many local means and as many local scales.
        """
        check_is_fitted(self)
        images = validate_data(self, X, dtype=_FLOATS, reset=False)
        normalized = np.empty((len(images), self._n_features_out), dtype=images.dtype)
        for rows, centred, mean, scale in _local_moments(images, self.image_shape_, self._kernels):
            np.maximum(scale, self.min_scale_, out=scale)
            pixels = centred / scale
            normalized[rows] = np.hstack([pixels, mean, scale]) if self.add_statistics else pixels
        return normalized

    @available_if(_has_statistics)
    def inverse_transform(self, X):
        """Undo the normalisation; only with ``add_statistics=True``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features_out)
            Side by side normalised images, or reconstructions of them, and the local means and
            scales that `transform` found.

        Returns
        -------
        X_original : ndarray of shape (n_samples, n_features_out / 3)
            The pixels of the middle of the images, where the normalised ones lie.
        """
        check_is_fitted(self)
        X = check_array(X, dtype=_FLOATS, estimator=self)
        if X.shape[1] != self._n_features_out:
            raise ValueError(
                f"X has {X.shape[1]} columns instead of {self._n_features_out}: normalised pixels, "
                "local means and local scales, side by side as transform returns them."
            )
        pixels, mean, scale = np.hsplit(X, 3)
        return pixels * scale + mean

    @property
    def _n_features_out(self):
        return int(np.prod(self.output_shape_)) * (3 if self.add_statistics else 1)

    def __sklearn_tags__(self):
        """Tell scikit-learn that single precision stays single."""
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _standard_deviation(X):
    """Of all numbers together, in double precision whatever the data have; 0 for a constant."""
    if X.min() == X.max():  # rounding of the mean would make a little of it
        return 0.0
    mean = X.mean(dtype=np.float64)
    squares = sum(
        np.square(np.subtract(X[rows], mean, dtype=np.float64)).sum() for rows in _chunks(X)
    )
    return np.sqrt(squares / X.size)


def _chunks(X):
    """Slices of rows, so that what is made of each stays small."""
    return gen_batches(len(X), max(1, _CHUNK_ELEMENTS // X.shape[1]))


def _kernel_shape(kernel_size):
    """Height and width of a kernel, both odd for it to have a middle."""
    shape = kernel_size if isinstance(kernel_size, tuple) else (kernel_size, kernel_size)
    if len(shape) != 2 or not all(isinstance(n, Integral) and n > 0 and n % 2 for n in shape):
        raise ValueError(f"kernel_size={kernel_size!r} must be an odd number, or a pair of them.")
    return shape


def _resolve_shape(image_shape, n_features):
    """Height and width of images with a number of pixels."""
    if image_shape is None:
        side = round(np.sqrt(n_features))
        if side * side != n_features:
            raise ValueError(
                f"X has {n_features} features, which make no square image; set image_shape to "
                "(height, width)."
            )
        return side, side
    try:
        if len(image_shape) == 2:
            return np.empty(n_features).reshape(image_shape).shape
    except (TypeError, ValueError):
        pass
    raise ValueError(
        f"X has {n_features} features, which make no image of image_shape={image_shape!r}: it "
        "must be (height, width), of which one may be -1."
    )


def _gaussian(size, sigma):
    """Weights of a Gaussian at whole pixels, adding up to 1."""
    offset = np.arange(size) - size // 2
    weights = np.exp(-0.5 * np.square(offset / sigma))
    return weights / weights.sum()


def _band(kernel, n, dtype):
    """Matrix that correlates n numbers with a kernel, where all of the kernel overlaps."""
    n_out = n - len(kernel) + 1
    return sum(weight * np.eye(n, n_out, -k) for k, weight in enumerate(kernel)).astype(dtype)


def _blur(images, kernels):
    """Correlate with both kernels; for patches two matrix products are the fastest way."""
    down, across = (
        _band(kernel, n, images.dtype) for kernel, n in zip(kernels, images.shape[1:], strict=True)
    )
    return down.T @ images @ across


def _middle(images, kernels):
    """Cut off the margin that a blur leaves out."""
    top, left = (len(kernel) // 2 for kernel in kernels)
    return images[:, top : images.shape[1] - top, left : images.shape[2] - left]


def _local_moments(X, image_shape, kernels):
    """Yield, as rows and chunk by chunk: slice, centred pixels, local mean, local deviation."""
    for rows in _chunks(X):
        images = X[rows].reshape(-1, *image_shape)
        mean = _blur(images, kernels)
        centred = _middle(images, kernels) - mean
        deviation = np.sqrt(_blur(np.square(centred), kernels))
        moments = _middle(centred, kernels), _middle(mean, kernels), deviation
        yield rows, *(moment.reshape(len(images), -1) for moment in moments)
