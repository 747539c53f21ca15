"""MNIST as the benchmarks use it: training rows, test rows, and the way back to pixels."""

from skvdl.datasets import fetch_mnist


def load_mnist():
    """Training rows and test rows, scaled as in the paper."""
    data = fetch_mnist()
    return data.X_train, data.X_test


def to_pixels(X):
    """Back to pixel values in [0, 1]."""
    return X * 0.3081 + 0.1307
