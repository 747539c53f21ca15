"""One trained model: which one, how it is trained, measured, saved and found again."""

import json
import warnings
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from pathlib import Path
from time import perf_counter

import joblib
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skvdl import datasets, paper
from skvdl.metrics import n_dead_components, psnr, sparsity

from ..common import machine
from .files import write_json, write_whole

DATASETS = ("mnist", "natural", "digits")
SIZES = ("full", "toy")
# The published numbers of natural patches.
_NATURAL = {"n_train": 200_000, "n_val": 20_000, "n_test": 20_000}
# Digits have a tenth of MNIST's pixels; toy size is for tests.
_DIGITS = {"n_components": 64, "hidden_layer_sizes": (256,)}
_TOY = {"n_components": 16, "hidden_layer_sizes": (24,), "max_iter": 4, "batch_size": 50}
_TOY_ROWS = 200
# Inference of a network close to its minimum; what it shows, it shows in few epochs.
_THOROUGH = {"step_size": "adaptive", "inference_max_iter": 40, "max_iter": 5}
# What can change without another model being learnt.
_HARMLESS = ("device", "verbose", "compile", "validation_fraction")


@dataclass(frozen=True)
class Run:
    """One model to train: all that its result depends on."""

    system: str
    dataset: str
    lam: float
    seed: int
    recipe: str = "fast"
    epochs: int | None = None
    size: str = "full"
    learning_rate: str | None = None
    thorough: bool = False

    @property
    def stem(self):
        """Name of its files."""
        parts = [self.dataset, self.system, f"lam{self.lam:g}", f"seed{self.seed}", self.recipe]
        if self.epochs is not None:
            parts.append(f"epochs{self.epochs}")
        if self.learning_rate is not None:
            parts.append(self.learning_rate)
        if self.thorough:
            parts.append("thorough")
        if self.size != "full":
            parts.append(self.size)
        return "_".join(parts)

    def make(self):
        """Build the estimator, not fitted."""
        model = paper.make(
            self.system,
            dataset=published_settings(self.dataset),
            lam=self.lam,
            recipe=self.recipe,
            random_state=self.seed,
        )
        published = model.get_params()
        changes = dict(_THOROUGH) if self.thorough else {}
        if self.dataset == "digits":
            changes |= _DIGITS
        if self.size == "toy":
            changes |= _TOY
        if self.epochs is not None:
            changes["max_iter"] = self.epochs
        if self.learning_rate is not None:
            changes["learning_rate"] = self.learning_rate
        model.set_params(**{name: v for name, v in changes.items() if name in published})
        # the energy has gamma / n_components, which the published step is chosen for
        share = model.n_components / published["n_components"]
        return model.set_params(gamma=model.gamma * share)


def published_settings(dataset):
    """Name of the data whose published settings suit these."""
    return "mnist" if dataset == "digits" else dataset


def middle_lam(system, dataset):
    """The published lam in the middle, where one has to be taken without looking at results."""
    lams = paper.lams(system, published_settings(dataset))
    return lams[len(lams) // 2]


def load_data(name, models_dir, size="full"):
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


def training_rows(run, model, data):
    """Rows for `fit`, which sets validation rows aside itself if the recipe wants some.

    These are as many as the data's own, but drawn from all rows.
    """
    rows = slice(_TOY_ROWS if run.size == "toy" else None)
    if not model.early_stopping:
        return data.X_train[rows]
    X = np.concatenate([data.X_train[rows], data.X_val[rows]])
    model.set_params(validation_fraction=len(data.X_val[rows]) / len(X))
    return X


def transform(model, X):
    """Codes as the model is set to compute them; FISTA may stop at its published limit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.transform(X)


def pixel_psnr(data, part, X_hat):
    """PSNR in pixels of what was made of one part of the data."""
    X = getattr(data, f"X_{part}")
    return psnr(data.to_pixels(X, part), data.to_pixels(X_hat, part), data_range=1.0)


def measure(model, data, part):
    """How well and how sparsely a model codes one part of the data."""
    codes = transform(model, getattr(data, f"X_{part}"))
    return {
        "psnr": pixel_psnr(data, part, model.inverse_transform(codes)),
        "sparsity": sparsity(codes),
        "dead": n_dead_components(codes),
        "l1": float(np.abs(codes).sum(axis=1).mean()),
    }


def model_path(run, folders):
    """File of the fitted estimator."""
    return folders.models / f"{run.stem}.joblib"


def result_path(run, folders, kind="runs"):
    """File of what was measured of one kind on the model of a run."""
    return folders.results / kind / f"{run.stem}.json"


def load_result(run, folders, kind="runs"):
    """Read what was measured; None if it was not yet, or on a model with other settings."""
    path = result_path(run, folders, kind)
    if not path.exists():
        return None
    result = json.loads(path.read_text())
    return result if is_current(result) else None


def is_current(record):
    """Whether a record is of a model with the settings that its run would have today."""
    run = Run(**{field.name: record.get(field.name, field.default) for field in fields(Run)})
    return _agree(record["parameters"], parameters(run.make()))


def _agree(recorded, present):
    """Whether parameters are the same, as far as both have them."""
    return all(present.get(name, value) == value for name, value in recorded.items())


def is_trained(run, folders):
    """Whether the model itself is there, not only its record."""
    return model_path(run, folders).exists() and load_result(run, folders) is not None


def parameters(model):
    """Parameters that decide what an estimator learns, as JSON gives them back."""
    chosen = {k: v for k, v in model.get_params().items() if k not in _HARMLESS}
    return json.loads(json.dumps(chosen))


def fit_or_load(run, data, folders, verbose=False):
    """Fitted estimator and record of a run: from its files, or trained and saved now."""
    record = load_result(run, folders)
    path = model_path(run, folders)
    if record is not None and path.exists():
        model = joblib.load(path)
        # records travel with the repository, models do not: one may be older than the other
        if _agree(record["parameters"], parameters(model)):
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
    # last: who finds a record of this computer may rely on the model
    write_json(result_path(run, folders), record)
    return model, record


def _round(value):
    """Six digits: enough to plot, and short."""
    return value if isinstance(value, int) else float(f"{value:.6g}")
