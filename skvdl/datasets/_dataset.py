"""A data set in three parts, and where its files are looked for."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import datasets as sklearn_datasets
from sklearn.base import TransformerMixin

from .._host import to_host
from ..preprocessing import GlobalScaler

__all__ = ["Dataset", "find_data_home", "scaled_dataset"]


@dataclass(frozen=True, eq=False)
class Dataset:
    """Images as rows, in three parts, with the way back to pixels.

    Attributes
    ----------
    name : str
        Name of the data set.
    image_shape : tuple of two ints
        Height and width of an image.
    X_train, X_val, X_test : ndarray of shape (n_samples, n_features), float32
        Images as rows, scaled.
    y_train, y_val, y_test : ndarray of shape (n_samples,) or None
        Labels, if there are any.
    preprocessor : transformer
        The fitted transformer that made the rows from pixels.
    local_statistics : dict or None
        If the contrast of the images was normalised, the local means and scales that
        `preprocessor` needs to undo it, one array for "val" and one for "test".

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
    image_shape: tuple[int, int]
    X_train: NDArray[np.float32] = field(repr=False)
    X_val: NDArray[np.float32] = field(repr=False)
    X_test: NDArray[np.float32] = field(repr=False)
    preprocessor: TransformerMixin = field(repr=False)
    y_train: NDArray[np.int64] | None = field(default=None, repr=False)
    y_val: NDArray[np.int64] | None = field(default=None, repr=False)
    y_test: NDArray[np.int64] | None = field(default=None, repr=False)
    local_statistics: dict[str, NDArray[np.float32]] | None = field(default=None, repr=False)

    def to_pixels(
        self,
        X: ArrayLike,
        part: Literal["train", "val", "test"] = "test",
        rows: slice | NDArray[Any] = slice(None),
    ) -> NDArray[Any]:
        """Undo the scaling of images, or of their reconstructions.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Images as rows, scaled like this data set.
        part : {"train", "val", "test"}, default="test"
            Part that the images belong to.
        rows : slice or array of ints, default=slice(None)
            Rows of that part that the images are, in the same order. Needed only if each image
            was scaled by local statistics of its own.

        Returns
        -------
        pixels : ndarray of shape (n_samples, n_features)
            The images in pixels, 0 black and 1 white, not clipped.
        """
        if part not in ("train", "val", "test"):
            raise ValueError(f"part={part!r} must be 'train', 'val' or 'test'.")
        X = np.asarray(to_host(X))
        n_features = self.X_train.shape[1]
        if X.ndim != 2 or X.shape[1] != n_features:
            raise ValueError(
                f"X has shape {X.shape}, but images of {self.name} are rows of {n_features}."
            )
        if self.local_statistics is not None:
            if part not in self.local_statistics:
                raise ValueError(
                    f"The local statistics of part={part!r} of {self.name} were not kept, because "
                    "they take twice the memory of the images; use 'val' or 'test'."
                )
            statistics = self.local_statistics[part][rows]
            if len(statistics) != len(X):
                raise ValueError(
                    f"X has {len(X)} rows, but rows={rows!r} are {len(statistics)} of the {part} "
                    "part: each image needs its own local statistics."
                )
            X = np.hstack([X, statistics])
        return self.preprocessor.inverse_transform(X)


def find_data_home(data_home: str | os.PathLike[str] | None) -> Path:
    """Return the folder that holds the data sets."""
    data_home = data_home or os.environ.get("SKVDL_DATA_HOME")
    return Path(data_home).expanduser() if data_home else Path(sklearn_datasets.get_data_home())


def scaled_dataset(
    name: str,
    image_shape: tuple[int, int],
    scaler: GlobalScaler,
    parts: Sequence[tuple[NDArray[np.float32], NDArray[Any]]],
) -> Dataset:
    """Make a data set of three parts, pixels with labels; the scaler is fitted to the first."""
    scaler.fit(parts[0][0]).set_output(transform="default")
    X_train, X_val, X_test = (scaler.transform(pixels) for pixels, _ in parts)
    y_train, y_val, y_test = (labels.astype(np.int64) for _, labels in parts)
    return Dataset(
        name=name,
        image_shape=image_shape,
        preprocessor=scaler,
        X_train=X_train,
        X_val=X_val,
        X_test=X_test,
        y_train=y_train,
        y_val=y_val,
        y_test=y_test,
    )
