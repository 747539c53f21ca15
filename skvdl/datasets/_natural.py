"""Patches of natural images, with normalised contrast."""

import math
from numbers import Integral
from pathlib import Path

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from sklearn.pipeline import make_pipeline
from sklearn.utils import check_random_state, check_scalar

from ..preprocessing import GlobalScaler, LocalContrastNormalizer
from ._dataset import Dataset, find_data_home

__all__ = ["load_natural_patches"]

_SUFFIXES = (".bmp", ".jpeg", ".jpg", ".pgm", ".png", ".tif", ".tiff", ".webp")
_MEAN, _STD = 0.457, 0.259
_SHORT_SIDE = 256
_CROP_SIDE = 52
_N_PIXELS = 28 * 28
_LEAST_STD = 0.5
# Crops that tell the mean local contrast and how many patches are too flat to keep.
_TRIAL_CROPS = 5000
# Crops of one image at a time, to bound memory.
_CROPS_AT_ONCE = 1000
# Fewer patches worth keeping of so many tried, and there is no use in going on.
_LEAST_SHARE, _LEAST_TRIED = 0.01, 1000


def load_natural_patches(
    folder=None, *, n_train=200_000, n_val=20_000, n_test=20_000, random_state=0
):
    """Cut patches out of a folder of images and normalise their contrast.

    Images are made grey and their short side 256 pixels long, the mean 0.457 is subtracted and
    the standard deviation 0.259 divided by. Of random crops of 52 x 52 pixels
    `LocalContrastNormalizer` leaves patches of 28 x 28, of which those with a standard deviation of
    at least 0.5 are kept, until there are enough. No image has patches in two parts.

    Parameters
    ----------
    folder : str or path, default=None
        Where the images lie, in subfolders too; ``natural`` in the data home when None.
    n_train, n_val, n_test : int, default=200_000, 20_000 and 20_000
        Number of patches of each part; images are shared out in proportion.
    random_state : int, RandomState instance or None, default=0
        Decides which images go into which part, and where they are cropped.

    Returns
    -------
    Dataset
        The patches, in random order, without labels. Those of the validation and the test part can
        be mapped back to pixels.

    Examples
    --------
    >>> import tempfile
    >>> from PIL import Image
    >>> from sklearn.datasets import load_sample_image
    >>> from skvdl.datasets import load_natural_patches
    >>> photograph = Image.fromarray(load_sample_image("china.jpg"))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for left in (0, 200, 400):
    ...         photograph.crop((left, 0, left + 200, 427)).save(f"{folder}/{left}.png")
    ...     patches = load_natural_patches(folder, n_train=40, n_val=10, n_test=10)
    >>> patches.X_train.shape, patches.image_shape
    ((40, 784), (28, 28))
    """
    counts = {"train": n_train, "val": n_val, "test": n_test}
    for part, count in counts.items():
        check_scalar(count, f"n_{part}", Integral, min_val=1)
    random_state = check_random_state(random_state)
    folder = find_data_home(None) / "natural" if folder is None else Path(folder).expanduser()
    paths = _split_images(_find_images(folder), counts, random_state)

    normalizer = LocalContrastNormalizer()
    preprocessor = make_pipeline(GlobalScaler(_MEAN, _STD), normalizer)
    preprocessor.set_output(transform="default")
    images = paths["train"][:_TRIAL_CROPS]
    n_each = math.ceil(_TRIAL_CROPS / len(images))
    trial = np.vstack(list(_crops(images, n_each, random_state)))
    share = _has_contrast(preprocessor.fit_transform(trial)).mean()
    patches, statistics = {}, {}
    for part, count in counts.items():
        # Without them for training, where they would only take memory.
        normalizer.set_params(add_statistics=part != "train")
        rows = _collect(paths[part], count, preprocessor, share, random_state, part)
        patches[f"X_{part}"] = np.ascontiguousarray(rows[:, :_N_PIXELS])
        if part != "train":
            statistics[part] = np.ascontiguousarray(rows[:, _N_PIXELS:])
    return Dataset(
        name="natural",
        image_shape=normalizer.output_shape_,
        preprocessor=preprocessor,
        local_statistics=statistics,
        **patches,
    )


def _find_images(folder):
    """Paths of all images below a folder, in an order that does not depend on the system."""
    if not folder.is_dir():
        raise FileNotFoundError(
            f"There is no folder {folder}. Pass the folder of your images, or set SKVDL_DATA_HOME "
            "to a folder that has them in a folder natural."
        )
    visible = (path for path in folder.rglob("*") if not path.name.startswith("."))
    paths = sorted(path for path in visible if path.suffix.lower() in _SUFFIXES)
    if len(paths) < 3:
        raise ValueError(
            f"{folder} has {len(paths)} images ({', '.join(_SUFFIXES)}), but three "
            "parts without images in common need at least 3."
        )
    return paths


def _split_images(paths, counts, random_state):
    """Share out images in proportion to the patches that are asked for, at least one a part."""
    total = sum(counts.values())
    n_val, n_test = (max(1, round(len(paths) * counts[part] / total)) for part in ("val", "test"))
    n_val = min(n_val, len(paths) - 2)
    n_test = min(n_test, len(paths) - 1 - n_val)
    shuffled = random_state.permutation(np.array(paths, dtype=object))
    val, test, train = np.split(shuffled, [n_val, n_val + n_test])
    return {"train": train, "val": val, "test": test}


def _read_grey(path):
    """Pixels of an image, grey, from 0 to 1, as a float32 array with the standard short side."""
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError("Images need Pillow: pip install 'skvdl[images]'") from error
    try:
        with Image.open(path) as image:
            deep = image.mode.startswith("I")  # 16 bits a pixel
            grey = (image if deep else image.convert("L")).convert("F")
    except Exception as error:  # decoders raise whatever they like
        raise ValueError(f"{path} cannot be read as an image: {error}") from error
    short = min(grey.size)
    if short < _CROP_SIDE:
        raise ValueError(
            f"{path} has {grey.width} x {grey.height} pixels; patches need images of at least "
            f"{_CROP_SIDE} x {_CROP_SIDE}."
        )
    if short != _SHORT_SIDE:
        size = [round(side * _SHORT_SIDE / short) for side in grey.size]
        grey = grey.resize(size, Image.Resampling.BILINEAR)
    return np.asarray(grey, dtype=np.float32) / (65535 if deep else 255)


def _crops(paths, n_each, random_state):
    """Yield random crops of images as rows, so many of each image, not too many at once."""
    for path in paths:
        windows = sliding_window_view(_read_grey(path), (_CROP_SIDE, _CROP_SIDE))
        for start in range(0, n_each, _CROPS_AT_ONCE):
            size = min(_CROPS_AT_ONCE, n_each - start)
            top, left = (random_state.randint(n, size=size) for n in windows.shape[:2])
            yield windows[top, left].reshape(size, -1)


def _has_contrast(rows):
    """Whether the patch that each row begins with varies enough to be worth coding."""
    return rows[:, :_N_PIXELS].std(axis=1) >= _LEAST_STD


def _collect(paths, n, preprocessor, share, random_state, part):
    """Rows of n patches with contrast, in random order; `share` of them is expected to have it."""
    order = random_state.permutation(n)
    rows, kept, tried = None, 0, 0
    while kept < n:
        if share < _LEAST_SHARE:
            raise ValueError(
                f"n_{part}={n} cannot be reached, for the images are too flat: {share:.2%} of "
                f"their patches have a standard deviation of {_LEAST_STD} or more."
            )
        n_each = math.ceil((n - kept) / share / len(paths))
        for crops in _crops(paths, n_each, random_state):
            found = preprocessor.transform(crops)
            found = found[_has_contrast(found)][: n - kept]
            if rows is None:
                rows = np.empty((n, found.shape[1]), dtype=found.dtype)
            rows[order[kept : kept + len(found)]] = found
            tried, kept = tried + len(crops), kept + len(found)
            if kept == n:
                break
        if tried >= _LEAST_TRIED:
            share = kept / tried
    return rows
