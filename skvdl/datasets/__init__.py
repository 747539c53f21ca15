"""Data sets: digits, MNIST and patches of natural images, scaled as in the paper.

Files are read from a data home: the folder in the environment variable ``SKVDL_DATA_HOME``, or
scikit-learn's data home if that is not set.
"""

from ._dataset import Dataset
from ._digits import load_digits
from ._mnist import fetch_mnist
from ._natural import load_natural_patches

__all__ = ["Dataset", "fetch_mnist", "load_digits", "load_natural_patches"]
