"""The data sets: digits, MNIST and patches of natural images, scaled as in the paper.

Files are looked for in a data home: the environment variable ``SKVDL_DATA_HOME``, or
scikit-learn's own where that is not set.
"""

import gzip
import math
import os
import struct
import zlib
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from numbers import Integral
from pathlib import Path

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from sklearn import datasets as sklearn_datasets
from sklearn.base import TransformerMixin
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.utils import check_random_state, check_scalar

from .preprocessing import GlobalScaler, LocalContrastNormalizer

__all__ = ["Dataset", "fetch_mnist", "load_digits", "load_natural_patches"]

# Images and labels to learn from, images and labels to test with.
_MNIST_FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
_MNIST_MEAN, _MNIST_STD = 0.1307, 0.3081

_IMAGE_SUFFIXES = (".bmp", ".jpeg", ".jpg", ".pgm", ".png", ".tif", ".tiff", ".webp")
_NATURAL_MEAN, _NATURAL_STD = 0.457, 0.259
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


@dataclass(frozen=True, eq=False)
class Dataset:
    """Images as rows, in three parts, and the way back to pixels.

    Attributes
    ----------
    name : str
        Name of the data set.
    image_shape : tuple of two ints
        Height and width of an image.
    X_train, X_val, X_test : ndarray of shape (n_samples, n_features), float32
        Images as rows, scaled.
    y_train, y_val, y_test : ndarray of shape (n_samples,) or None
        Labels, where there are any.
    preprocessor : transformer
        What made the rows out of pixels, fitted.
    local_statistics : dict or None
        Where the contrast of images was normalised, what `preprocessor` needs besides them to
        undo it: an array for "val" and one for "test".

    Examples
    --------
    >>> from skvdl.datasets import load_digits
    >>> digits = load_digits()
    >>> digits
    Dataset(name='digits', image_shape=(8, 8))
    >>> pixels = digits.to_pixels(digits.X_test)
    >>> float(pixels.min()), float(pixels.max().round(3))
    (0.0, 1.0)
    """

    name: str
    image_shape: tuple
    X_train: np.ndarray = field(repr=False)
    X_val: np.ndarray = field(repr=False)
    X_test: np.ndarray = field(repr=False)
    preprocessor: TransformerMixin = field(repr=False)
    y_train: np.ndarray | None = field(default=None, repr=False)
    y_val: np.ndarray | None = field(default=None, repr=False)
    y_test: np.ndarray | None = field(default=None, repr=False)
    local_statistics: dict | None = field(default=None, repr=False)

    def to_pixels(self, X, part="test", rows=slice(None)):
        """Undo the scaling of images, or of what a model has made of them.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Images as rows, scaled like this data set.
        part : {"train", "val", "test"}, default="test"
            Which part they belong to.
        rows : slice or array of ints, default=slice(None)
            Which rows of that part they are, in the same order. Only asked for where each image
            was scaled by local statistics of its own.

        Returns
        -------
        pixels : ndarray of shape (n_samples, n_features)
            The images in pixels, 0 black and 1 white, not clipped.
        """
        if part not in ("train", "val", "test"):
            raise ValueError(f"part={part!r} must be 'train', 'val' or 'test'.")
        X = np.asarray(X)
        n_features = self.X_train.shape[1]
        if X.ndim != 2 or X.shape[1] != n_features:
            raise ValueError(
                f"X has shape {X.shape}, images of {self.name} are rows of {n_features}."
            )
        if self.local_statistics is not None:
            if part not in self.local_statistics:
                raise ValueError(
                    f"The local statistics of part={part!r} of {self.name} were not kept, for they "
                    "take twice the memory of the images; use 'val' or 'test'."
                )
            statistics = self.local_statistics[part][rows]
            if len(statistics) != len(X):
                raise ValueError(
                    f"X has {len(X)} rows, but rows={rows!r} are {len(statistics)} of the {part} "
                    "part: each image needs its own local statistics."
                )
            X = np.hstack([X, statistics])
        return self.preprocessor.inverse_transform(X)


def load_digits(random_state=0):
    """Load scikit-learn's digits, scaled to mean 0 and standard deviation 1.

    Parameters
    ----------
    random_state : int, RandomState instance or None, default=0
        Decides which images go into which part: two thirds to learn from, a sixth each for
        validation and test.

    Returns
    -------
    Dataset
        1797 images of 8 x 8 pixels, with labels.

    Examples
    --------
    >>> from skvdl.datasets import load_digits
    >>> digits = load_digits()
    >>> digits.X_train.shape, digits.X_val.shape, digits.X_test.shape
    ((1197, 64), (300, 64), (300, 64))
    """
    random_state = check_random_state(random_state)
    pixels, labels = sklearn_datasets.load_digits(return_X_y=True)
    pixels = (pixels / 16).astype(np.float32)
    hold_out = partial(train_test_split, test_size=300, random_state=random_state)
    train, test, train_labels, test_labels = hold_out(pixels, labels, stratify=labels)
    train, val, train_labels, val_labels = hold_out(train, train_labels, stratify=train_labels)
    parts = [(train, train_labels), (val, val_labels), (test, test_labels)]
    return _scaled("digits", (8, 8), GlobalScaler(), parts)


def fetch_mnist(data_home=None, random_state=0):
    """Load MNIST from the data home, or fetch it from OpenML.

    The four IDX files are looked for in the folder ``mnist`` of the data home, plain or with the
    ending ``.gz``. Where one is missing, scikit-learn's `fetch_openml` gets the images and keeps
    them in the data home.

    Parameters
    ----------
    data_home : str or path, default=None
        Folder that has ``mnist`` in it; the environment variable ``SKVDL_DATA_HOME`` when None,
        and scikit-learn's data home where that is not set.
    random_state : int, RandomState instance or None, default=0
        Decides which twelfth of the 60 000 training images is held out for validation, unless
        ``split_train.npy`` and ``split_val.npy`` beside the IDX files list their indices.

    Returns
    -------
    Dataset
        55 000, 5 000 and 10 000 images of 28 x 28 pixels, with labels, minus 0.1307 and divided by
        0.3081.

    Examples
    --------
    From a folder with files of that format, here tiny ones:

    >>> import struct, tempfile
    >>> from pathlib import Path
    >>> from skvdl.datasets import fetch_mnist
    >>> with tempfile.TemporaryDirectory() as home:
    ...     folder = Path(home, "mnist")
    ...     folder.mkdir()
    ...     for name, n in (("train", 24), ("t10k", 6)):
    ...         images = struct.pack(">4I", 2051, n, 28, 28) + bytes(n * 28 * 28)
    ...         _ = (folder / f"{name}-images-idx3-ubyte").write_bytes(images)
    ...         labels = struct.pack(">2I", 2049, n) + bytes(n)
    ...         _ = (folder / f"{name}-labels-idx1-ubyte").write_bytes(labels)
    ...     mnist = fetch_mnist(home)
    >>> mnist.X_train.shape, mnist.X_val.shape, mnist.X_test.shape
    ((22, 784), (2, 784), (6, 784))
    """
    random_state = check_random_state(random_state)
    home = _data_home(data_home)
    folder = home / "mnist"
    paths = [_plain_or_gz(folder / name) for name in _MNIST_FILES]
    split = None
    if None in paths:
        train, train_labels, test, test_labels = _fetch_openml_mnist(home, folder, paths)
    else:
        train, train_labels = _read_mnist(*paths[:2])
        test, test_labels = _read_mnist(*paths[2:])
        split = _read_split(folder, len(train))
    if split is None:
        order = random_state.permutation(len(train))
        split = np.split(order, [len(train) - max(1, len(train) // 12)])
    parts = [(train[indices], train_labels[indices]) for indices in split]
    parts = [
        (np.divide(images.reshape(len(images), -1), 255, dtype=np.float32), labels)
        for images, labels in (*parts, (test, test_labels))
    ]
    return _scaled("mnist", test.shape[1:], GlobalScaler(_MNIST_MEAN, _MNIST_STD), parts)


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
    folder = _data_home(None) / "natural" if folder is None else Path(folder).expanduser()
    paths = _split_images(_find_images(folder), counts, random_state)

    normalizer = LocalContrastNormalizer()
    preprocessor = make_pipeline(GlobalScaler(_NATURAL_MEAN, _NATURAL_STD), normalizer)
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


def _data_home(data_home):
    """Folder that holds the data sets."""
    data_home = data_home or os.environ.get("SKVDL_DATA_HOME")
    return Path(data_home).expanduser() if data_home else Path(sklearn_datasets.get_data_home())


def _scaled(name, image_shape, scaler, parts):
    """Data set of three parts, pixels with labels; what there is to learn, from the first."""
    scaler.fit(parts[0][0]).set_output(transform="default")
    arrays = {}
    for part, (pixels, labels) in zip(("train", "val", "test"), parts, strict=True):
        arrays[f"X_{part}"], arrays[f"y_{part}"] = scaler.transform(pixels), labels.astype(np.int64)
    return Dataset(name=name, image_shape=image_shape, preprocessor=scaler, **arrays)


def _plain_or_gz(path):
    """Whichever exists, or None."""
    candidates = (path, path.with_name(path.name + ".gz"))
    return next((candidate for candidate in candidates if candidate.is_file()), None)


def _read_mnist(images_path, labels_path):
    images, labels = _read_idx(images_path, 3), _read_idx(labels_path, 1)
    if len(images) != len(labels):
        raise ValueError(
            f"{images_path} has {len(images)} images, but {labels_path} {len(labels)} labels."
        )
    return images, labels


def _read_idx(path, n_dimensions):
    """Array of bytes in an IDX file: magic number, shape, numbers."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            content = file.read()
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path} is truncated or damaged ({error}); get it anew.") from error
    start = 4 * (1 + n_dimensions)
    if len(content) < start:
        raise ValueError(f"{path} is truncated: it has {len(content)} bytes; get it anew.")
    magic, *shape = struct.unpack_from(f">{1 + n_dimensions}I", content)
    if magic != 0x800 + n_dimensions:
        kind = "images" if n_dimensions == 3 else "labels"
        raise ValueError(
            f"{path} is no IDX file of {kind}: it starts with the number {magic} instead of "
            f"{0x800 + n_dimensions}."
        )
    if len(content) - start != math.prod(shape):
        raise ValueError(
            f"{path} is truncated or damaged: its header promises {math.prod(shape)} bytes, there "
            f"are {len(content) - start}; get it anew."
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def _read_split(folder, n_images):
    """Indices of training and validation images, or None where no files list them."""
    paths = [folder / "split_train.npy", folder / "split_val.npy"]
    if not any(path.is_file() for path in paths):
        return None
    split = []
    for path in paths:
        try:
            indices = np.load(path)
        except (EOFError, ValueError) as error:
            raise ValueError(f"{path} cannot be read as an array: {error}") from error
        if indices.ndim != 1 or not len(indices) or not np.issubdtype(indices.dtype, np.integer):
            raise ValueError(f"{path} must hold a list of whole numbers.")
        if indices.min() < 0 or indices.max() >= n_images:
            raise ValueError(
                f"{path} has indices from {indices.min()} to {indices.max()}, but there are "
                f"{n_images} training images."
            )
        split.append(indices)
    if len(np.intersect1d(*split)):
        raise ValueError(f"{paths[0]} and {paths[1]} have images in common.")
    return split


def _fetch_openml_mnist(home, folder, paths):
    """The same arrays as from the files, of which some are missing."""
    try:
        pixels, labels = sklearn_datasets.fetch_openml(
            "mnist_784",
            version=1,
            data_home=str(home),
            return_X_y=True,
            as_frame=False,
            parser="pandas" if find_spec("pandas") else "liac-arff",
        )
    except (OSError, ValueError) as error:
        missing = [name for name, path in zip(_MNIST_FILES, paths, strict=True) if path is None]
        raise FileNotFoundError(
            f"{folder} lacks {', '.join(missing)} (plain or .gz), and MNIST could not be fetched "
            f"from OpenML ({error}). Put the files there, or set data_home or SKVDL_DATA_HOME to "
            "the folder that has them in a folder mnist."
        ) from error
    images = pixels.astype(np.uint8).reshape(len(pixels), 28, 28)
    # As in the files, the last 10 000 of 70 000 are the test images.
    n_train = len(images) * 6 // 7
    labels = labels.astype(np.int64)
    return images[:n_train], labels[:n_train], images[n_train:], labels[n_train:]


def _find_images(folder):
    """Paths of all images below a folder, in an order that does not depend on the system."""
    if not folder.is_dir():
        raise FileNotFoundError(
            f"There is no folder {folder}. Pass the folder of your images, or set SKVDL_DATA_HOME "
            "to a folder that has them in a folder natural."
        )
    visible = (path for path in folder.rglob("*") if not path.name.startswith("."))
    paths = sorted(path for path in visible if path.suffix.lower() in _IMAGE_SUFFIXES)
    if len(paths) < 3:
        raise ValueError(
            f"{folder} has {len(paths)} images ({', '.join(_IMAGE_SUFFIXES)}), but three "
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
