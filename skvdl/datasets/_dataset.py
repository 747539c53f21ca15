"""A data set in three parts, and where its files are looked for."""

import os
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from sklearn import datasets as sklearn_datasets
from sklearn.base import TransformerMixin

__all__ = ["Dataset", "find_data_home", "scaled_dataset"]


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


def find_data_home(data_home):
    """Folder that holds the data sets."""
    data_home = data_home or os.environ.get("SKVDL_DATA_HOME")
    return Path(data_home).expanduser() if data_home else Path(sklearn_datasets.get_data_home())


def scaled_dataset(name, image_shape, scaler, parts):
    """Data set of three parts, pixels with labels; what there is to learn, from the first."""
    scaler.fit(parts[0][0]).set_output(transform="default")
    arrays = {}
    for part, (pixels, labels) in zip(("train", "val", "test"), parts, strict=True):
        arrays[f"X_{part}"], arrays[f"y_{part}"] = scaler.transform(pixels), labels.astype(np.int64)
    return Dataset(name=name, image_shape=image_shape, preprocessor=scaler, **arrays)
