"""What users may pass: numbers of any size in any container, and parameters good and bad."""

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import torch
from hypothesis import strategies as st
from scipy import sparse

SEEDS = st.integers(0, 2**32 - 1)


def _mixtures(rng, shape):
    codes = rng.exponential(size=(*shape[:-1], 3)) * (rng.random((*shape[:-1], 3)) < 0.5)
    return codes @ rng.normal(size=(3, shape[-1]))


def _spoilt(value):
    def make(rng, shape):
        X = rng.normal(size=shape)
        if X.size:
            X.flat[rng.integers(X.size)] = value
        return X

    return make


def _repeated(rng, shape):
    X = rng.normal(size=shape)
    return X[rng.integers(0, max(1, shape[0] // 3), size=shape[0])] if shape[0] else X


VALUES = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    "mixtures": _mixtures,
    "tiny": lambda rng, shape: rng.normal(size=shape) * 1e-30,
    "huge": lambda rng, shape: rng.normal(size=shape) * 1e30,
    "near the largest single": lambda rng, shape: rng.uniform(-3.4e38, 3.4e38, size=shape),
    "near the largest": lambda rng, shape: rng.uniform(-1, 1, size=shape) * 1.7e308,
    "denormal single": lambda rng, shape: rng.normal(size=shape) * 1e-42,
    "denormal": lambda rng, shape: rng.normal(size=shape) * 1e-310,
    "zeros": lambda rng, shape: np.zeros(shape),
    "constant": lambda rng, shape: np.full(shape, rng.normal()),
    "constant, huge": lambda rng, shape: np.full(shape, 1e30),
    "constant columns": lambda rng, shape: np.zeros(shape) + rng.normal(size=shape[-1:]),
    "one outlier": _spoilt(1e12),
    "one huge outlier": _spoilt(1e36),
    "nan": _spoilt(np.nan),
    "all nan": lambda rng, shape: np.full(shape, np.nan),
    "much nan": lambda rng, shape: np.where(
        rng.random(shape) < 0.4, np.nan, rng.normal(size=shape)
    ),
    "inf": _spoilt(np.inf),
    "far from 0": lambda rng, shape: rng.normal(size=shape) + 1e8,
    "one large column": lambda rng, shape: rng.normal(size=shape) * (np.arange(shape[-1]) * 1e9),
    "whole": lambda rng, shape: rng.integers(-100, 100, size=shape),
    "large whole": lambda rng, shape: rng.integers(2**40, 2**41, size=shape),
    "repeated": _repeated,
    "all scales": lambda rng, shape: rng.normal(size=shape) * 10.0 ** rng.integers(-20, 20, shape),
}
USUAL = ["normal", "mixtures", "whole", "repeated", "far from 0"]
DTYPES = [np.float64, np.float32, np.float64, np.float32, np.float16, np.int64, np.int8, np.uint8]
ODD_DTYPES = [np.bool_, np.complex64, np.str_, object]


def _cast(X, dtype, usual):
    with np.errstate(all="ignore"):
        if np.dtype(dtype).kind in "iu" and X.dtype.kind == "f":
            limits = np.iinfo(dtype)
            X = np.clip(np.nan_to_num(X), limits.min / 2, limits.max / 2)
        elif dtype == np.float16 and usual:
            X = np.clip(X, -1e4, 1e4)
        return X.astype(dtype)


@st.composite
def arrays(draw, shape=None, usual=False):
    """Arrays of numbers of one flavour, mostly of two dimensions."""
    if shape is None:
        many = st.integers(2, 24)
        wide = st.integers(2, 6)
        n = draw(many if usual else st.one_of(many, many, st.integers(0, 3)))
        d = draw(wide if usual else st.one_of(wide, wide, st.integers(0, 2)))
        shape = (n, d) if usual else draw(st.sampled_from([(n, d)] * 12 + [(n,), (1, n, d)]))
    values = draw(st.sampled_from(USUAL if usual else [*USUAL * 2, *VALUES]))
    X = VALUES[values](np.random.default_rng(draw(SEEDS)), shape)
    dtype = draw(st.sampled_from(DTYPES if usual else DTYPES * 2 + ODD_DTYPES))
    return _cast(X, dtype, usual)


def _memmap(X):
    if X.dtype == object:
        return X
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "X.npy")
        np.save(path, X)
        # the file may go while it is mapped
        return np.load(path, mmap_mode="r")


def _tensor(X):
    return torch.from_numpy(np.ascontiguousarray(X)) if X.dtype.kind in "fiubc" else X


def _with_grad(X):
    tensor = _tensor(X)
    floating = isinstance(tensor, torch.Tensor) and tensor.is_floating_point()
    return tensor.clone().requires_grad_() if floating else tensor


def _frame(X):
    if X.ndim != 2:
        return X
    return pd.DataFrame(X, columns=[f"f{i}" for i in range(X.shape[1])])


def _readonly(X):
    X = X.copy()
    X.setflags(write=False)
    return X


def _sparse(kind):
    def make(X):
        return kind(X) if X.ndim == 2 and X.dtype in (np.float32, np.float64) else X

    return make


def _sparse_tensor(X):
    tensor = _tensor(X)
    return tensor.to_sparse() if isinstance(tensor, torch.Tensor) else tensor


CONTAINERS = {
    "array": lambda X: X,
    "Fortran": np.asfortranarray,
    "strided": lambda X: np.repeat(X, 2, axis=0)[::2],
    "backwards": lambda X: X[::-1],
    "readonly": _readonly,
    "list": lambda X: X.tolist(),
    "frame": _frame,
    "polars": lambda X: pl.DataFrame(X) if X.ndim == 2 and X.dtype.kind in "fiub" else X,
    "memmap": _memmap,
    "objects": lambda X: X.astype(object),
    "big-endian": lambda X: X.astype(X.dtype.newbyteorder(">")) if X.dtype.kind in "fiu" else X,
    "tensor": _tensor,
    "transposed tensor": lambda X: _tensor(X.T).T if X.ndim == 2 and X.size else _tensor(X),
    "tensor with gradient": _with_grad,
    "bfloat16": lambda X: _tensor(X).to(torch.bfloat16) if X.dtype.kind in "fiu" else X,
}
ODD_CONTAINERS = {
    "CSR": _sparse(sparse.csr_matrix),
    "COO": _sparse(sparse.coo_array),
    "sparse tensor": _sparse_tensor,
    "nothing": lambda X: None,
    "text": lambda X: "some text",
    "a number": lambda X: 3.0,
    "masked": lambda X: np.ma.masked_invalid(X) if X.dtype.kind == "f" else X,
    "ragged": lambda X: [[1.0, 2.0], [3.0]],
}


@st.composite
def containers(draw, shape=None, usual=False):
    """Arrays, frames, tensors and more, with the name of the container."""
    X = draw(arrays(shape=shape, usual=usual))
    every = CONTAINERS if usual else CONTAINERS | ODD_CONTAINERS
    return every[draw(st.sampled_from([*list(CONTAINERS) * 3, *every]))](X)


POSITIVE = st.sampled_from([1e-30, 1e-8, 1e-4, 0.01, 0.1, 0.5, 1.0, 3.0, 1e3, 1e8, 1e30])
NOT_NEGATIVE = st.one_of(st.just(0.0), POSITIVE)
FRACTION = st.sampled_from([1e-9, 0.01, 0.3, 0.5, 0.8, 0.99, 1 - 1e-9])
# what no parameter takes, or few do
ODD_NUMBERS = [-1, 0, 1, 2.5, 2**31, 2**70, 1e300, -1e-300, np.nan, np.inf, -np.inf, 1j]
ODD_THINGS = [None, True, "auto", "x", b"x", [], (1, 2), {}]
ODD_SCALARS = [np.float32(0.5), np.int64(3), np.array(0.5), np.array([1, 2])]
ODD = st.sampled_from([*ODD_NUMBERS, *ODD_THINGS, *ODD_SCALARS])

SHARED = {
    "n_components": st.integers(1, 8),
    "lam": st.one_of(st.none(), NOT_NEGATIVE),
    "target_sparsity": FRACTION,
    "debias": st.booleans(),
    "center": st.booleans(),
    "scale": st.booleans(),
    "beta": NOT_NEGATIVE,
    "gamma": NOT_NEGATIVE,
    "variance_threshold": POSITIVE,
    "regularizer": st.sampled_from(["variance", "unit_norm", "weight_decay", None]),
    "weight_decay": NOT_NEGATIVE,
    "encoder": st.sampled_from(["lista", None]),
    "positive_code": st.booleans(),
    "transform_method": st.sampled_from(["encoder", "fista"]),
    "transform_tol": NOT_NEGATIVE,
    "transform_max_iter": st.integers(1, 60),
    "missing_values": st.sampled_from(["nan", None]),
    "sparse_output": st.booleans(),
    "max_iter": st.one_of(st.integers(1, 3), st.just("auto")),
    "batch_size": st.one_of(st.integers(2, 12), st.just(2**31 - 1)),
    "learning_rate": st.one_of(st.sampled_from(["cosine", "constant"]), st.integers(1, 3)),
    "learning_rate_init": POSITIVE,
    "encoder_learning_rate_init": POSITIVE,
    "bias_decay": st.tuples(NOT_NEGATIVE, NOT_NEGATIVE),
    "inference_max_iter": st.integers(1, 20),
    "step_size": st.one_of(st.just("auto"), POSITIVE),
    "early_stopping": st.booleans(),
    "validation_fraction": FRACTION,
    "n_iter_no_change": st.one_of(st.none(), st.integers(1, 3)),
    "tol": NOT_NEGATIVE,
    "revive_dead": st.booleans(),
    "warm_start": st.booleans(),
    "random_state": st.integers(0, 100),
    "device": st.sampled_from(["cpu", "auto"]),
}
LINEAR = SHARED | {
    "init": st.sampled_from(["autoencoder", "data", "random"]),
    "penalty": st.sampled_from(["l0", "l1"]),
    "learning_rate_init": st.one_of(st.none(), POSITIVE),
}
NETWORK = SHARED | {
    "hidden_layer_sizes": st.one_of(
        st.integers(1, 6), st.lists(st.integers(1, 5), min_size=1, max_size=2)
    )
}
QUICK = {"transform_max_iter": 30, "inference_max_iter": 8, "max_iter": 2, "random_state": 0}


@st.composite
def changes(draw, known, most=4, odd=True):
    """Some parameters with other values, now and then bad ones."""
    names = draw(st.lists(st.sampled_from(sorted(known)), max_size=most, unique=True))
    found = {name: draw(known[name]) for name in names}
    if odd and draw(st.integers(0, 7)) == 0:
        found[draw(st.sampled_from(sorted(known)))] = draw(ODD)
    return found
