"""Whole images: noise removed and gaps filled by coding their patches."""

from numbers import Integral, Real

import numpy as np
import torch
from scipy.ndimage import distance_transform_edt, gaussian_filter
from sklearn.base import BaseEstimator, TransformerMixin, _fit_context, clone
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import HasMethods, Interval
from sklearn.utils.validation import check_is_fitted
from tqdm.auto import tqdm

from ._image_files import images_of, load
from ._patches import (
    PatchAverage,
    PatchGrid,
    channel_means,
    code_gaps,
    matching_pursuit,
    refine,
)
from .estimators import VarianceDictionaryLearning

__all__ = ["ImageDenoiser", "estimate_noise"]

# What a picture without noise is divided by before learning, as a share of its deviation.
_LEAST_SCALE = 0.1
# Patches of a group for each pixel in the root of their number, and how far apart they may be.
_SIMILAR = 5
_REACH = 10
# Strength of the lasso that fills gaps, as a share of the deviation of what is seen.
_GAP_THRESHOLD = 0.02
# What is worked on at a time, to bound memory: elements of the largest tensor, 64 MB each.
_ELEMENTS = 2**24


def estimate_noise(image):
    """Standard deviation of white noise in an image, from its finest differences.

    The differences of fourth order along both axes hardly see the picture, and their median
    even less. Dense texture is taken for noise in part, so give the deviation where it is known.

    Parameters
    ----------
    image : array-like of shape (height, width) or (height, width, channels)
        Image, at least 5 pixels high and wide.

    Returns
    -------
    float
        The deviation, in the units of the image.

    Examples
    --------
    >>> import numpy as np
    >>> from skvdl.images import estimate_noise
    >>> ramp = np.linspace(0, 255, 200)
    >>> noisy = ramp + ramp[:, None] + np.random.default_rng(0).normal(0, 10, (200, 200))
    >>> 9.8 < estimate_noise(noisy) < 10.2
    True
    """
    image = np.asarray(image, dtype=np.float64)
    if image.ndim not in (2, 3) or min(image.shape[:2]) < 5:
        raise ValueError(
            f"The noise of an image of shape {image.shape} cannot be estimated: it takes at least "
            "5 pixels in height and width. Set sigma."
        )
    fine = np.diff(np.diff(image, n=4, axis=0), n=4, axis=1)
    # 70 is the sum of the squares of 1 4 6 4 1, and 0.6745 the median of |normal|
    return float(np.median(np.abs(fine))) / (70 * 0.6745)


class ImageDenoiser(TransformerMixin, BaseEstimator):
    """Denoise images, or fill gaps in them, by sparse codes of their patches.

    `fit` learns a dictionary of patches, from clean pictures or from the noisy image itself.
    `transform` approximates each patch, less its mean, by as few atoms as its noise allows and
    averages where patches overlap. That first estimate tells which patches look alike, and what
    a group of them has in common; refinements then take every noisy patch to its best linear
    estimate given the mean and the covariance of its group.

    Parameters
    ----------
    estimator : estimator, default=None
        What learns from patches, scaled to noise with a standard deviation of 1: a transformer
        with `components_`, whose atoms are used, or with `inverse_transform`, whose
        reconstructions then have to be free of noise. None gives a
        :class:`~skvdl.VarianceDictionaryLearning` of 256 atoms.

    patch_size : int, default=8
        Height and width of a patch.

    stride : int, default=1
        Distance between neighbouring patches, at most `patch_size`. Less takes longer and is
        better.

    sigma : float, default=None
        Standard deviation of the noise in the units of the images. None estimates it from each
        image by :func:`estimate_noise`.

    n_refinements : int, default=3
        Refinements by groups of similar patches. Without any, the result is that of the
        dictionary alone.

    max_patches : int, default=5000
        Patches to learn from, drawn at random among those with more than noise in them.

    random_state : int, RandomState instance or None, default=None
        Seed of the draw of patches, and of the default estimator.

    verbose : int, default=0
        Whether to show a progress bar in `transform` and `inpaint`.

    Attributes
    ----------
    estimator_ : estimator
        What has learnt from the patches.

    n_channels_ : int
        Channels of the images: 1 for grey ones.

    See Also
    --------
    VarianceDictionaryLearning : The default for `estimator`.

    References
    ----------
    M. Elad and M. Aharon, "Image denoising via sparse and redundant representations over learned
    dictionaries", IEEE Transactions on Image Processing 15 (2006).

    M. Lebrun, A. Buades and J.-M. Morel, "A nonlocal Bayesian image denoising algorithm", SIAM
    Journal on Imaging Sciences 6 (2013).

    Examples
    --------
    >>> import numpy as np
    >>> from skvdl.images import ImageDenoiser
    >>> x = np.arange(48)
    >>> clean = np.where((x // 12 + x[:, None] // 12) % 2, 200.0, 50.0)
    >>> noisy = clean + np.random.default_rng(0).normal(0, 20, clean.shape)
    >>> denoised = ImageDenoiser(random_state=0).fit_transform(noisy)
    >>> denoised.shape, bool(np.std(denoised - clean) < 0.4 * np.std(noisy - clean))
    ((48, 48), True)
    """

    _parameter_constraints = {
        "estimator": [HasMethods(["fit"]), None],
        "patch_size": [Interval(Integral, 2, None, closed="left")],
        "stride": [Interval(Integral, 1, None, closed="left")],
        "sigma": [Interval(Real, 0, None, closed="left"), None],
        "n_refinements": [Interval(Integral, 0, None, closed="left")],
        "max_patches": [Interval(Integral, 2, None, closed="left")],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        estimator=None,
        *,
        patch_size=8,
        stride=1,
        sigma=None,
        n_refinements=3,
        max_patches=5000,
        random_state=None,
        verbose=0,
    ):
        self.estimator = estimator
        self.patch_size = patch_size
        self.stride = stride
        self.sigma = sigma
        self.n_refinements = n_refinements
        self.max_patches = max_patches
        self.random_state = random_state
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, y=None):
        """Learn what patches look like.

        Parameters
        ----------
        X : array-like, list of array-like, or path
            One image, of shape (height, width) for grey or (height, width, 3) for RGB; a stack
            of them, or a list of images of any size; or the path of an image file or of a folder
            with image files. Images may be clean or noisy; NaN marks missing pixels, which are
            replaced by an average of those around them.
        y : None
            Ignored.

        Returns
        -------
        self : object
            The fitted denoiser.
        """
        if self.stride > self.patch_size:
            raise ValueError(
                f"stride={self.stride} leaves pixels between patches of patch_size="
                f"{self.patch_size}; it can be {self.patch_size} at most."
            )
        images, _ = images_of(X)
        random = check_random_state(self.random_state)
        patches, n_channels = self._draw_patches(images, random)
        if self.estimator is None:
            estimator = _default_estimator(patches.shape[1], random)
        else:
            estimator = clone(self.estimator)
        self.estimator_ = estimator.fit(patches)
        self.n_channels_ = n_channels
        return self

    def transform(self, X):
        """Remove noise.

        Parameters
        ----------
        X : array-like, list of array-like, or path
            One image or several, as in `fit`.

        Returns
        -------
        ndarray or list of ndarray
            The denoised image, in the shape and type and within the range of the noisy one; for
            several a stack or a list of them.
        """
        check_is_fitted(self)
        images, join = images_of(X)
        return join([self._denoise(self._check(load(image))) for image in images])

    def inpaint(self, image, mask=None):
        """Fill gaps, by coding what is seen of each patch.

        Parameters
        ----------
        image : array-like of shape (height, width) or (height, width, 3)
            Image; NaN marks missing pixels.
        mask : array-like of shape (height, width) or (height, width, 3), default=None
            True for more pixels that are missing.

        Returns
        -------
        ndarray
            The image with its gaps filled; what was seen is as it was.
        """
        check_is_fitted(self)
        image = np.asarray(image)
        missing = np.isnan(image) if image.dtype.kind == "f" else np.zeros(image.shape, dtype=bool)
        if mask is not None:
            missing = missing | _mask_for(image, mask)
        if missing.all():
            raise ValueError("No pixel of the image is seen: there is nothing to fill gaps from.")
        self._check(np.where(missing, image.dtype.type(0), image))
        if not missing.any():
            return image.copy()
        seen = image[~missing].astype(np.float64)
        scale = max(seen.std() * _GAP_THRESHOLD, self.sigma or 0.0) or 1.0
        known = np.where(missing, image.dtype.type(0), image)
        mean = float(seen.mean())
        is_seen = torch.from_numpy(~missing.reshape(*image.shape[:2], -1))
        filled = self._fill(_to_tensor(known, mean, scale), is_seen)
        filled = _to_image(filled, mean, scale, like=image, within=(seen.min(), seen.max()))
        return np.where(missing, filled, image)

    def _check(self, image):
        """Refuse what is not an image these patches can be cut from."""
        _check_image(image, self.patch_size)
        n_channels = image.shape[2] if image.ndim == 3 else 1
        if n_channels != self.n_channels_:
            raise ValueError(
                f"The image has {n_channels} channel(s), those in fit had {self.n_channels_}."
            )
        return image

    def _sigma_of(self, image):
        return estimate_noise(image) if self.sigma is None else self.sigma

    def _draw_patches(self, images, random):
        """Patches to learn from, less their means and scaled, and the number of channels."""
        drawn, n_channels = [], set()
        # some will have nothing but noise in them
        quota = -(-4 * self.max_patches // len(images))
        for image in map(load, images):
            _check_image(image, self.patch_size, gaps=True)
            has_gaps = image.dtype.kind == "f" and np.isnan(image).any()
            if has_gaps:
                image = _fill_roughly(image)
            # where pixels were made up, differences say nothing about noise
            sigma = (self.sigma or 0.0) if has_gaps else self._sigma_of(image)
            scale = max(sigma, _LEAST_SCALE * float(np.std(image))) or 1.0
            tensor = _to_tensor(image, float(np.mean(image)), scale)
            grid = PatchGrid(tensor.shape, self.patch_size, 1)
            rows, columns = (
                torch.from_numpy(random.randint(n, size=max(2, quota)))
                for n in (len(grid.rows), len(grid.columns))
            )
            patches = tensor.flatten()[grid.pixels(grid.place(rows, columns))]
            drawn.append(patches - channel_means(patches, grid.channels))
            n_channels.add(grid.channels)
        if len(n_channels) > 1:
            raise ValueError("Some images are grey and some RGB; fit takes one kind at a time.")
        (n_channels,) = n_channels
        drawn = torch.cat(drawn)
        # two deviations above the energy of noise alone
        freedom = drawn.shape[1] - n_channels
        lively = drawn[drawn.square().sum(dim=1) > freedom + 2 * (2 * freedom) ** 0.5]
        drawn = lively if len(lively) >= 2 else drawn
        order = random.permutation(len(drawn))[: self.max_patches]
        return drawn[torch.from_numpy(order)].numpy(), n_channels

    def _atoms(self):
        """Atoms of unit norm, or None where the estimator has none."""
        atoms = getattr(self.estimator_, "components_", None)
        if atoms is None:
            return None
        atoms = torch.as_tensor(np.asarray(atoms), dtype=torch.float32, device="cpu")
        norms = torch.linalg.vector_norm(atoms, dim=1, keepdim=True)
        used = norms[:, 0] > 0
        return atoms[used] / norms[used]

    def _progress(self, n_bands, what):
        return tqdm(total=n_bands, desc=what, unit="band", disable=not self.verbose)

    def _denoise(self, image):
        sigma = self._sigma_of(image)
        if not sigma:
            return image.copy()
        mean = float(np.mean(image))
        noisy = _to_tensor(image, mean, sigma)
        with torch.inference_mode():
            estimate = self._code_patches(noisy)
            for number in range(1, self.n_refinements + 1):
                what = f"refine, {number} of {self.n_refinements}"
                estimate = self._refine(noisy, estimate, what)
        within = image.min(), image.max()
        return _to_image(estimate, mean, sigma, like=image, within=within)

    def _code_patches(self, noisy):
        """First estimate: every patch by few atoms, averaged where patches overlap."""
        grid = PatchGrid(noisy.shape, self.patch_size, self.stride)
        bands = grid.bands(2 * _ELEMENTS // len(grid.offsets) ** 2)
        atoms = self._atoms()
        average = PatchAverage(noisy)
        with self._progress(len(bands), "denoise") as bar:
            for rows in bands:
                pixels = grid.pixels(grid.anchors(rows))
                patches = noisy.flatten()[pixels]
                means = channel_means(patches, grid.channels)
                approximations = self._approximate(patches - means, atoms) + means
                average.add(pixels, approximations, torch.ones_like(means[:, :1]))
                bar.update()
        return average.image()

    def _refine(self, noisy, pilot, what):
        """Better estimate, by groups of patches that look alike in the one before."""
        # groups overlap so much that half a patch between them loses nothing
        stride = max(self.stride, self.patch_size // 2)
        grid = PatchGrid(noisy.shape, self.patch_size, stride)
        # small bands: each may take seconds, and the bar is to move
        bands = grid.bands(_ELEMENTS // (8 * (2 * _REACH + 1) ** 2))
        n_similar = round(_SIMILAR * len(grid.offsets) ** 0.5)
        average = PatchAverage(noisy)
        with self._progress(len(bands), what) as bar:
            for rows in bands:
                refine(noisy, pilot, grid, rows, average, n_similar=n_similar, reach=_REACH)
                bar.update()
        return average.image()

    def _approximate(self, patches, atoms):
        """Patches without their noise, which has a variance of 1."""
        if atoms is None:
            codes = self.estimator_.transform(patches.numpy())
            return torch.as_tensor(np.asarray(self.estimator_.inverse_transform(codes)))
        n_features = patches.shape[1]
        # what is left over may be as large as noise is on average
        options = {"max_error": n_features - self.n_channels_, "max_atoms": max(1, n_features // 2)}
        return matching_pursuit(patches, atoms, **options)[0]

    def _fill(self, image, seen):
        """Fill gaps from their borders inwards, as far as patches reach each time."""
        atoms = self._atoms()
        if atoms is None:
            raise ValueError(
                f"inpaint needs atoms, and {type(self.estimator_).__name__} has no components_; "
                "use VarianceDictionaryLearning."
            )
        grid = PatchGrid(image.shape, self.patch_size, self.stride)
        constant = torch.eye(grid.channels, device="cpu").repeat(1, self.patch_size**2)
        # the mean of what is seen is not that of the whole patch
        atoms = torch.cat([atoms, constant / self.patch_size])
        bands = grid.bands(_ELEMENTS // (4 * len(atoms)))
        with torch.inference_mode():
            while not seen.all():
                average = PatchAverage(image)
                with self._progress(len(bands), "inpaint") as bar:
                    for rows in bands:
                        code_gaps(image, seen, grid, rows, atoms, average)
                        bar.update()
                reached = ~seen & (average.weight > 0).reshape(seen.shape)
                image = torch.where(reached, average.image(), image)
                seen = seen | reached
        return image


def _default_estimator(n_features, random):
    """Dictionary learning at the level of the noise: what is below 3.5 deviations is not coded."""
    return VarianceDictionaryLearning(
        256,
        lam=2 * 3.5 / n_features,
        regularizer="unit_norm",
        encoder=None,
        positive_code=False,
        max_iter=5,
        learning_rate_init=0.02,
        inference_max_iter=30,
        inference_tol=1e-2,
        random_state=random.randint(2**31 - 1),
    )


def _to_tensor(image, mean, scale):
    """Pixels less their mean and scaled, with channels, in single precision."""
    image = image.reshape(*image.shape[:2], -1)
    pixels = np.empty(image.shape, dtype=np.float32)
    # row by row: a large image is not to be copied in double precision
    for row, out in zip(image, pixels, strict=True):
        out[:] = (row - mean) / scale
    return torch.from_numpy(pixels)


def _to_image(tensor, mean, scale, *, like, within):
    """Pixels as they were before `_to_tensor`, in a range, and in the type of an image."""
    image = np.empty(tensor.shape, dtype=like.dtype)
    for row, out in zip(tensor.numpy(), image, strict=True):
        pixels = np.clip(row.astype(np.float64) * scale + mean, *within)
        out[:] = pixels if like.dtype.kind == "f" else np.rint(pixels)
    return image.reshape(like.shape)


def _fill_roughly(image):
    """Image with its gaps smoothed over: good enough to learn from, not to look at."""
    filled = image.reshape(*image.shape[:2], -1).astype(np.float64)
    for channel in np.moveaxis(filled, -1, 0):
        missing = np.isnan(channel)
        if missing.all():
            raise ValueError("No pixel of the image is seen: there is nothing to learn from.")
        nearest = distance_transform_edt(missing, return_distances=False, return_indices=True)
        channel[:] = channel[tuple(nearest)]
        channel[missing] = gaussian_filter(channel, 1.0)[missing]
    return filled.reshape(image.shape)


def _check_image(image, patch_size, gaps=False):
    """Refuse what is not one grey or RGB image, or too small, or has gaps unless these may be."""
    if image.dtype.kind not in "iuf":
        raise ValueError(f"An image has numbers as pixels, not {image.dtype}.")
    if image.ndim not in (2, 3) or (image.ndim == 3 and image.shape[2] not in (1, 3)):
        raise ValueError(
            f"An image is of shape (height, width) or (height, width, 3), not {image.shape}. "
            "Leave out an alpha channel: image[..., :3]."
        )
    if min(image.shape[:2]) < patch_size:
        raise ValueError(
            f"An image of {image.shape[0]} x {image.shape[1]} pixels has no patch of patch_size="
            f"{patch_size}; use a larger image or smaller patches."
        )
    if gaps and np.isinf(image).any():
        raise ValueError("The image contains infinity. Use NaN for missing pixels.")
    if not gaps and image.dtype.kind == "f" and not np.isfinite(image).all():
        raise ValueError(
            "The image contains NaN or infinity. NaN stands for missing pixels, which inpaint "
            "fills: inpaint(image)."
        )


def _mask_for(image, mask):
    """Mask of the shape of an image, True where it is missing."""
    mask = np.asarray(mask, dtype=bool)
    if mask.shape not in (image.shape, image.shape[:2]):
        raise ValueError(f"The mask is of shape {mask.shape}, the image of shape {image.shape}.")
    if mask.ndim < image.ndim:
        mask = np.repeat(mask[:, :, None], image.shape[2], axis=2)
    return mask
