"""Patches of natural images, with normalised contrast."""

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from numbers import Integral
from pathlib import Path

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils import check_random_state, check_scalar

from .._files import check_size, decoded, only_files, opened_picture
from ..preprocessing import GlobalScaler, LocalContrastNormalizer
from ._dataset import Dataset, find_data_home

__all__ = ["load_natural_patches"]

_SUFFIXES = (".bmp", ".jpeg", ".jpg", ".pgm", ".png", ".tif", ".tiff", ".webp")
_MEAN, _STD = 0.457, 0.259
_SHORT_SIDE = 256
_CROP_SIDE = 52
_N_PIXELS = 28 * 28
_LEAST_STD = 0.5
# Crops to estimate the mean local contrast and the share of patches with enough contrast.
_TRIAL_CROPS = 5000
# Crops of one image made at a time, to bound memory.
_CROPS_AT_ONCE = 1000
# Give up if a smaller share of so many crops has enough contrast.
_LEAST_SHARE, _LEAST_TRIED = 0.01, 1000


def load_natural_patches(
    folder: str | os.PathLike[str] | None = None,
    *,
    n_train: int = 200_000,
    n_val: int = 20_000,
    n_test: int = 20_000,
    random_state: int | np.random.RandomState | None = 0,
) -> Dataset:
    """Cut patches out of a folder of images and normalise their contrast.

    Images are converted to grey and resized to a short side of 256 pixels; the mean 0.457 is
    subtracted, and the result is divided by the standard deviation 0.259.
    `LocalContrastNormalizer` turns random crops of 52 x 52 pixels into patches of 28 x 28.
    Patches with a standard deviation of at least 0.5 are kept until there are enough. No image
    has patches in two parts.

    Parameters
    ----------
    folder : str or path, default=None
        Folder of the images, which may be in subfolders. By default ``natural`` in the data
        home.
    n_train, n_val, n_test : int, default=200_000, 20_000 and 20_000
        Number of patches of each part. The images are divided in proportion.
    random_state : int, RandomState instance or None, default=0
        Determines which images go into which part, and where they are cropped.

    Returns
    -------
    Dataset
        The patches, in random order, without labels. Those of the validation and test parts can
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
    rng = check_random_state(random_state)
    folder = find_data_home(None) / "natural" if folder is None else Path(folder).expanduser()
    paths = _split_images(_find_images(folder), counts, rng)

    normalizer = LocalContrastNormalizer()
    preprocessor = make_pipeline(GlobalScaler(_MEAN, _STD), normalizer)
    preprocessor.set_output(transform="default")
    images = paths["train"][:_TRIAL_CROPS]
    n_each = math.ceil(_TRIAL_CROPS / len(images))
    trial = np.vstack(list(_crops(images, n_each, rng)))
    share = _has_contrast(preprocessor.fit_transform(trial)).mean()
    patches, statistics = {}, {}
    for part, count in counts.items():
        # Not for training, where they would only take memory.
        normalizer.set_params(add_statistics=part != "train")
        rows = _collect(paths[part], count, preprocessor, share, rng, part)
        patches[part] = np.ascontiguousarray(rows[:, :_N_PIXELS])
        if part != "train":
            statistics[part] = np.ascontiguousarray(rows[:, _N_PIXELS:])
    return Dataset(
        name="natural",
        image_shape=normalizer.output_shape_,
        preprocessor=preprocessor,
        local_statistics=statistics,
        X_train=patches["train"],
        X_val=patches["val"],
        X_test=patches["test"],
    )


def _find_images(folder: Path) -> list[Path]:
    """Return the paths of all images below a folder, sorted: file systems have no fixed order."""
    if not folder.is_dir():
        raise FileNotFoundError(
            f"There is no folder {folder}. Pass the folder of your images, or set SKVDL_DATA_HOME "
            "to a folder that has them in a folder natural."
        )
    visible = (path for path in folder.rglob("*") if not path.name.startswith("."))
    paths = only_files(path for path in visible if path.suffix.lower() in _SUFFIXES)
    if len(paths) < 3:
        raise ValueError(
            f"{folder} has {len(paths)} images ({', '.join(_SUFFIXES)}), but three "
            "parts without images in common need at least 3."
        )
    return paths


def _split_images(
    paths: Sequence[Path], counts: Mapping[str, int], random_state: np.random.RandomState
) -> dict[str, NDArray[np.object_]]:
    """Divide images in proportion to the requested patches, at least one per part."""
    total = sum(counts.values())
    n_val, n_test = (max(1, round(len(paths) * counts[part] / total)) for part in ("val", "test"))
    n_val = min(n_val, len(paths) - 2)
    n_test = min(n_test, len(paths) - 1 - n_val)
    shuffled = random_state.permutation(np.array(paths, dtype=object))
    val, test, train = np.split(shuffled, [n_val, n_val + n_test])
    return {"train": train, "val": val, "test": test}


def _read_grey(path: Path) -> NDArray[np.float32]:
    """Read an image as grey pixels between 0 and 1, resized to the standard short side."""
    try:
        with opened_picture(path) as image:
            short = min(image.size)
            if short < _CROP_SIDE:
                raise ValueError(
                    f"The image has {image.width} x {image.height} pixels; patches need at least "
                    f"{_CROP_SIDE} x {_CROP_SIDE}."
                )
            size = [round(side * _SHORT_SIDE / short) for side in image.size]
            check_size(size[0] * size[1])
            deep = image.mode.startswith("I")  # 16 bits per pixel
            grey = decoded(image, "F") if deep else decoded(image, "L", "F")
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    if short != _SHORT_SIDE:
        from PIL import Image

        grey = grey.resize(size, Image.Resampling.BILINEAR)
    return np.asarray(grey, dtype=np.float32) / np.float32(65535 if deep else 255)


def _crops(
    paths: Sequence[Path] | NDArray[np.object_], n_each: int, random_state: np.random.RandomState
) -> Iterator[NDArray[np.float32]]:
    """Yield random crops as rows, `n_each` of each image, not too many at once."""
    for path in paths:
        windows = sliding_window_view(_read_grey(path), (_CROP_SIDE, _CROP_SIDE))
        for start in range(0, n_each, _CROPS_AT_ONCE):
            size = min(_CROPS_AT_ONCE, n_each - start)
            top, left = (random_state.randint(n, size=size) for n in windows.shape[:2])
            yield windows[top, left].reshape(size, -1)


def _has_contrast(rows: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Return whether the patch at the start of each row has enough contrast."""
    return rows[:, :_N_PIXELS].std(axis=1) >= _LEAST_STD


def _collect(
    paths: Sequence[Path] | NDArray[np.object_],
    n: int,
    preprocessor: Pipeline,
    share: float,
    random_state: np.random.RandomState,
    part: str,
) -> NDArray[np.float32]:
    """Collect n patches with contrast, in random order; about a share of all crops has it."""
    width = preprocessor[-1]._n_features_out
    try:
        # first what needs most: memory that there is not is refused here, before any is used
        rows = np.empty((n, width), dtype=np.float32)
        order = random_state.permutation(n)
    except (MemoryError, OverflowError, ValueError) as error:
        raise ValueError(
            f"n_{part}={n} patches need {4e-9 * n * width:.0f} GB of memory; ask for fewer."
        ) from error
    kept = tried = 0
    while kept < n:
        if share < _LEAST_SHARE:
            raise ValueError(
                f"n_{part}={n} cannot be reached because the images are too flat: {share:.2%} of "
                f"their patches have a standard deviation of {_LEAST_STD} or more."
            )
        n_each = math.ceil((n - kept) / share / len(paths))
        for crops in _crops(paths, n_each, random_state):
            found = preprocessor.transform(crops)
            found = found[_has_contrast(found)][: n - kept]
            rows[order[kept : kept + len(found)]] = found
            tried, kept = tried + len(crops), kept + len(found)
            if kept == n:
                break
        if tried >= _LEAST_TRIED:
            share = kept / tried
    return rows
