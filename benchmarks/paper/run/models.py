"""One model: how it is trained, measured, saved and found again."""

import warnings
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from time import perf_counter

import joblib
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skvdl import datasets
from skvdl.metrics import n_dead_components, psnr, sparsity

from ...common import machine
from ..settings import Run, agree, is_current, parameters
from ..store import Folders, write_whole

# The published numbers of natural patches.
_NATURAL = {"n_train": 200_000, "n_val": 20_000, "n_test": 20_000}
_TOY_ROWS = 200


def load_data(name: str, models_dir: Path, size: str = "full"):
    """Load a dataset; natural patches are cut once, then memory-mapped from the models' folder."""
    return _load_data(name, Path(models_dir), size)


@lru_cache(maxsize=2)
def _load_data(name, models_dir, size):
    if name != "natural":
        return datasets.fetch_mnist() if name == "mnist" else datasets.load_digits()
    numbers = _NATURAL if size == "full" else dict.fromkeys(_NATURAL, _TOY_ROWS)
    path = models_dir / f"data_natural_{size}.joblib"
    if not path.exists():
        data = datasets.load_natural_patches(**numbers, random_state=0)
        write_whole(path, lambda temporary: joblib.dump(data, temporary))
    return joblib.load(path, mmap_mode="r")


def training_rows(run: Run, model, data) -> np.ndarray:
    """Return the rows for `fit`, which sets validation rows aside itself if the recipe wants some.

    There are as many of these as in the data's own validation set, drawn from all rows.
    """
    rows = slice(_TOY_ROWS if run.size == "toy" else None)
    if not model.early_stopping:
        return data.X_train[rows]
    X = np.concatenate([data.X_train[rows], data.X_val[rows]])
    model.set_params(validation_fraction=len(data.X_val[rows]) / len(X))
    return X


def transform(model, X: np.ndarray) -> np.ndarray:
    """Return codes as the model is set to compute them; FISTA may stop at its published limit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.transform(X)


def pixel_psnr(data, part: str, X_hat: np.ndarray) -> float:
    """Return the PSNR, in pixels, of a reconstruction of one part of the data."""
    X = getattr(data, f"X_{part}")
    return psnr(data.to_pixels(X, part), data.to_pixels(X_hat, part), data_range=1.0)


def measure(model, data, part: str) -> dict:
    """Return how well and how sparsely a model codes one part of the data."""
    codes = transform(model, getattr(data, f"X_{part}"))
    return {
        "psnr": pixel_psnr(data, part, model.inverse_transform(codes)),
        "sparsity": sparsity(codes),
        "dead": n_dead_components(codes),
        "l1": float(np.abs(codes).sum(axis=1).mean()),
    }


def model_path(run: Run, folders: Folders) -> Path:
    """Return the file of the fitted estimator."""
    return folders.models / f"{run.name}.joblib"


def current(name: str, records: dict[str, dict]) -> dict | None:
    """Return the record of this name; None if there is none or its model had other settings."""
    record = records.get(name)
    return record if record is not None and is_current(record) else None


def is_trained(run: Run, folders: Folders, records: dict[str, dict]) -> bool:
    """Return whether the model itself is there, not only its record."""
    return model_path(run, folders).exists() and current(run.name, records) is not None


def fit_or_load(run: Run, data, folders: Folders, verbose: bool = False):
    """Return the fitted estimator and the record of a run, trained and saved now if missing."""
    table = folders.table("runs")
    record = current(run.name, table.read())
    path = model_path(run, folders)
    if record is not None and path.exists():
        model = joblib.load(path)
        # records travel with the repository, models do not: one may be older than the other
        if agree(record["parameters"], parameters(model)):
            return model, record
    model = run.make().set_params(verbose=int(verbose))
    diverged = None
    start = perf_counter()
    try:
        model.fit(training_rows(run, model, data))
    except FloatingPointError as error:
        # a result too, if there was a good epoch: a constant step is not safe without a guard
        if not hasattr(model, "history_"):
            raise
        diverged = str(error)
    seconds = perf_counter() - start
    record = {
        **asdict(run),
        "n_iter": model.n_iter_,
        "diverged": diverged,
        "seconds": round(seconds, 2),
        "test": measure(model, data, "test"),
        # where rows to stop by were drawn from all, most of the data's own were learnt from
        "validation": None if model.early_stopping else measure(model, data, "val"),
        "parameters": parameters(model),
        "machine": machine(),
        "history": {k: [_round(v) for v in curve] for k, curve in model.history_.items()},
    }
    write_whole(path, lambda temporary: joblib.dump(model, temporary))
    # last: a record written on this computer means that its model is there
    return model, table.put(run.name, record)


def summary(record: dict) -> dict:
    """Return what other experiments repeat of a model's record: all that fits on a short line."""
    left_out = ("history", "machine", "name")
    return {field: value for field, value in record.items() if field not in left_out}


def _round(value):
    """Keep six digits: enough to plot, and short."""
    return value if isinstance(value, int) else float(f"{value:.6g}")
