"""How strong the noise of an image is."""

import numpy as np
from numpy.typing import ArrayLike

from .._host import finite, to_host


def estimate_noise(image: ArrayLike) -> float:
    """Estimate the standard deviation of white noise in an image.

    The estimate is the median of the finest differences, of fourth order along both axes, which
    hardly see the picture. Dense texture is partly taken for noise, so pass the standard deviation
    to :class:`~skvdl.ImageDenoiser` if you know it.

    Parameters
    ----------
    image : array-like of shape (height, width) or (height, width, channels)
        Image, at least 5 pixels high and wide.

    Returns
    -------
    float
        The standard deviation, in the units of the image.

    Examples
    --------
    >>> import numpy as np
    >>> from skvdl.images import estimate_noise
    >>> ramp = np.linspace(0, 255, 200)
    >>> noisy = ramp + ramp[:, None] + np.random.default_rng(0).normal(0, 10, (200, 200))
    >>> 9.8 < estimate_noise(noisy) < 10.2
    True
    """
    image = np.asarray(to_host(image), dtype=np.float64)
    if image.ndim not in (2, 3) or min(image.shape[:2]) < 5:
        raise ValueError(
            f"The noise of an image of shape {image.shape} cannot be estimated: it takes at least "
            "5 pixels in height and width. Set sigma."
        )
    if not np.isfinite(image).all():
        raise ValueError("The noise of an image with NaN or infinity cannot be estimated.")
    with np.errstate(over="ignore", invalid="ignore"):
        fine = finite(np.diff(np.diff(image, n=4, axis=0), n=4, axis=1), "Differences of pixels")
    # 70 is the sum of the squares of 1 4 6 4 1, and 0.6745 the median of |normal|
    return float(np.median(np.abs(fine))) / (70 * 0.6745)
