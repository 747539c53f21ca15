"""The systems of the paper by name, with its settings.

`SYSTEMS` has the names of the eight systems that the paper compares, and `ABLATIONS` those of the
two without a regularizer. `DATASETS` and `RECIPES` have the other choices of `make`.
"""

from typing import Any

import numpy as np

from .estimators import NonLinearVDL, VarianceDictionaryLearning

__all__ = ["lams", "make"]

SYSTEMS = ("SDL", "SDL-NL", "VDL", "VDL-NL", "WDL", "WDL-NL", "DO", "DO-NL")
ABLATIONS = ("unguarded", "unguarded-NL")
DATASETS = ("mnist", "natural")
RECIPES = ("paper", "fast")

# The row of the published table that a system takes its settings from, and what it changes in
# them. WDL and DO are described in the paper's text, relative to SDL. The ablation is VDL without
# its hinge.
_KINDS: dict[Any, Any] = {
    "SDL": ("SDL", {"regularizer": "unit_norm", "beta": 0.0}),
    "VDL": ("VDL", {"regularizer": "variance", "beta": 10.0, "variance_threshold": 0.5}),
    "WDL": ("SDL", {"regularizer": "weight_decay", "weight_decay": 5e-4, "beta": 0.0}),
    "DO": ("SDL", {"regularizer": "unit_norm", "beta": 0.0, "encoder": None, "gamma": 0.0}),
    "unguarded": ("VDL", {"regularizer": None, "beta": 0.0}),
}

# For every system: where FISTA stops in `transform`, for the codes of DO. The tolerance is the
# published one; for a linear decoder with the automatic step it bounds the duality gap instead.
_COMMON: dict[Any, Any] = {
    "positive_code": True,
    "transform_method": "encoder",
    "transform_max_iter": 200,
    "transform_tol": 1e-3,
    # codes of the paper minimise its energy, on data as they come
    "debias": False,
    "center": False,
    "scale": False,
}

# For every system on a dataset.
_SIZES: dict[Any, Any] = {
    "mnist": {"n_components": 128},
    "natural": {"n_components": 256},
}
_HIDDEN = {"mnist": (1024,), "natural": (2048,)}

# How the paper learns. Rows for training and for validation are given to `fit` together, which
# sets as many of them aside as the paper has: 5 000 of 60 000, 20 000 of 220 000.
_SCHEDULE: dict[Any, Any] = {
    "batch_size": 250,
    "inference_max_iter": 200,
    "early_stopping": True,
    "n_iter_no_change": None,
}
_LENGTH: dict[Any, Any] = {
    "mnist": {"max_iter": 200, "validation_fraction": 5_000 / 60_000},
    "natural": {"max_iter": 100, "validation_fraction": 20_000 / 220_000},
}

# The published table of hyperparameters.
_LAMS = {
    ("mnist", "SDL"): (0.0, 0.0001, 0.0005, 0.001, 0.003, 0.005),
    ("mnist", "VDL"): (0.0, 0.001, 0.003, 0.005, 0.01, 0.02),
    ("mnist", "SDL-NL"): (0.0, 0.001, 0.003, 0.005, 0.01, 0.02),
    ("mnist", "VDL-NL"): (0.0, 0.001, 0.003, 0.005, 0.01, 0.02),
    ("natural", "SDL"): (0.0, 0.0005, 0.001, 0.002, 0.003, 0.005),
    ("natural", "VDL"): (0.0, 0.001, 0.003, 0.005, 0.01, 0.015),
    ("natural", "SDL-NL"): (0.0, 0.001, 0.003, 0.005, 0.008, 0.01),
    ("natural", "VDL-NL"): (0.0, 0.001, 0.002, 0.003, 0.005, 0.01, 0.02),
}
# Weight of the encoder, and decay of the biases of decoder (networks only) and encoder.
_ENERGY: dict[Any, Any] = {
    ("mnist", "SDL"): {"gamma": 1.0, "bias_decay": (0.0, 0.0)},
    ("mnist", "VDL"): {"gamma": 5.0, "bias_decay": (0.0, 0.0)},
    ("mnist", "SDL-NL"): {"gamma": 1.0, "bias_decay": (1e-3, 0.0)},
    ("mnist", "VDL-NL"): {"gamma": 100.0, "bias_decay": (1e-3, 0.0)},
    ("natural", "SDL"): {"gamma": 1.0, "bias_decay": (0.0, 1e-2)},
    ("natural", "VDL"): {"gamma": 5.0, "bias_decay": (0.0, 1e-2)},
    ("natural", "SDL-NL"): {"gamma": 1.0, "bias_decay": (1e-2, 1e-2)},
    ("natural", "VDL-NL"): {"gamma": 20.0, "bias_decay": (1e-1, 1e-2)},
}
# The one pair whose gamma changes with lam: 20 up to lam 0.005, 40 from this lam on.
_GAMMA_FROM = {("natural", "VDL-NL"): (0.01, 40.0)}

# Rate of the decoder, rate of the encoder, step of FISTA, schedule of the rates.
_RATE_NAMES = ("learning_rate_init", "encoder_learning_rate_init", "step_size", "learning_rate")
_RATES = {
    ("mnist", "SDL"): (1e-3, 3e-4, 1.0, "constant"),
    ("mnist", "VDL"): (3e-4, 1e-4, 0.5, "constant"),
    ("mnist", "SDL-NL"): (1e-3, 1e-4, 1.0, "constant"),
    ("mnist", "VDL-NL"): (3e-4, 1e-4, 0.5, 30),
    ("natural", "SDL"): (1e-3, 1e-4, 0.5, "constant"),
    ("natural", "VDL"): (3e-4, 1e-4, 0.5, "constant"),
    ("natural", "SDL-NL"): (1e-3, 1e-4, 0.5, "constant"),
    ("natural", "VDL-NL"): (5e-5, 1e-4, 0.5, 30),
}

# The fast recipe. The epochs are those that MNIST takes; the network learns from smaller batches.
_FAST_LINEAR: dict[Any, Any] = {
    "init": "data",
    "learning_rate_init": 5e-3,
    "encoder_learning_rate_init": 5e-4,
    "inference_max_iter": 200,
    "batch_size": 250,
    "max_iter": 14,
}
_FAST_NETWORK: dict[Any, Any] = {
    "learning_rate_init": 3e-3,
    "encoder_learning_rate_init": 1e-3,
    "inference_max_iter": 200,
    "batch_size": 125,
    "max_iter": 22,
}
# Parameters of (dataset, system) pairs for which that does not suffice. Without the hinge an
# encoder takes longer to become sparse; with atoms from the data to start from, fewer components
# die than in the paper, and codes are less sparse.
_LONGER = {"init": "random", "learning_rate_init": 3e-3, "max_iter": 30}
# With a network it also kills components if it learns fast. The decoder may learn faster than by
# default, because bounded or decaying weights keep the curvature low. FISTA would take some fifty
# iterations per batch; more batches with a few iterations each get further in the same time.
_SMALL_BATCHES = {
    "learning_rate_init": 3e-3,
    "encoder_learning_rate_init": 2e-4,
    "batch_size": 64,
    "inference_max_iter": 5,
    "max_iter": 16,
}
_FAST: dict[Any, Any] = {
    ("mnist", "SDL"): _LONGER,
    ("mnist", "WDL"): _LONGER,
    ("mnist", "SDL-NL"): _SMALL_BATCHES,
    ("mnist", "WDL-NL"): _SMALL_BATCHES,
    # without an encoder's prediction to start from it takes more of them
    ("mnist", "DO-NL"): {
        "learning_rate_init": 3e-3,
        "batch_size": 64,
        "inference_max_iter": 20,
        "max_iter": 6,
    },
    # four times the rows of MNIST: as many steps are fewer epochs. No component dies here if the
    # encoder learns fast, but five iterations would leave too few zeros for it to learn from.
    ("natural", "SDL-NL"): {
        "learning_rate_init": 3e-3,
        "encoder_learning_rate_init": 8e-4,
        "batch_size": 64,
        "inference_max_iter": 8,
        "max_iter": 3,
    },
    # at higher rates the atoms looked like noise; at this one they are gratings, as in the paper
    ("natural", "VDL-NL"): {"learning_rate_init": 5e-4, "max_iter": 10},
}


def _choose(what: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{what}={value!r} is not known; choose one of {', '.join(choices)}.")


def _published_row(system: str) -> str:
    """Row of the published table that a system takes its settings from."""
    kind, _, suffix = system.partition("-")
    return f"{_KINDS[kind][0]}-{suffix}" if suffix else _KINDS[kind][0]


def lams(system: str, dataset: str = "mnist") -> tuple[float, ...]:
    """Return the weights of the l1 norm at which the paper trains a system.

    Parameters
    ----------
    system : str
        One of `SYSTEMS` or `ABLATIONS`. Systems that the paper does not list have the weights of
        SDL or SDL-NL, and the ablations those of VDL and VDL-NL.
    dataset : {"mnist", "natural"}, default="mnist"
        The data.

    Returns
    -------
    tuple of float
        The weights, ascending.

    Examples
    --------
    >>> from skvdl import paper
    >>> paper.lams("VDL")
    (0.0, 0.001, 0.003, 0.005, 0.01, 0.02)
    """
    _choose("system", system, SYSTEMS + ABLATIONS)
    _choose("dataset", dataset, DATASETS)
    return _LAMS[dataset, _published_row(system)]


def make(
    system: str,
    *,
    dataset: str = "mnist",
    lam: float,
    recipe: str = "paper",
    random_state: int | np.random.RandomState | None = None,
    **overrides: Any,
) -> VarianceDictionaryLearning | NonLinearVDL:
    """Build one of the paper's systems.

    Parameters
    ----------
    system : str
        One of `SYSTEMS`: SDL (unit norm), VDL (variance hinge), WDL (weight decay) and DO (unit
        norm, no encoder), each with a linear decoder, or with a network as "SDL-NL" and so on;
        or one of `ABLATIONS`, VDL and VDL-NL without a regularizer.
    dataset : {"mnist", "natural"}, default="mnist"
        Data whose published settings to use.
    lam : float
        Weight of the l1 norm; `lams` has the published ones.
    recipe : {"paper", "fast"}, default="paper"
        How to train. "paper" runs the published 200 or 100 epochs at the published rates, sets
        some of the rows given to `fit` aside and keeps the epoch with their lowest energy.
        "fast" trains the same system in far fewer epochs, with automatic steps, higher rates
        and, for a linear decoder, atoms that start from the data.
    random_state : int, RandomState instance or None, default=None
        Seed of initial weights, shuffling and the validation split.
    **overrides : dict
        Parameters of the estimator that replace the published ones.

    Returns
    -------
    VarianceDictionaryLearning or NonLinearVDL
        The estimator, not fitted.

    Examples
    --------
    >>> from skvdl import paper
    >>> model = paper.make("SDL-NL", dataset="mnist", lam=0.01)
    >>> model.regularizer, model.hidden_layer_sizes, model.max_iter
    ('unit_norm', (1024,), 200)
    """
    _choose("system", system, SYSTEMS + ABLATIONS)
    _choose("dataset", dataset, DATASETS)
    _choose("recipe", recipe, RECIPES)
    row = (dataset, _published_row(system))
    network = system.endswith("-NL")
    parameters = {**_COMMON, **_SIZES[dataset], **_ENERGY[row], "lam": lam}
    if row in _GAMMA_FROM and lam >= _GAMMA_FROM[row][0]:
        parameters["gamma"] = _GAMMA_FROM[row][1]
    if network:
        parameters["hidden_layer_sizes"] = _HIDDEN[dataset]
    else:
        parameters["penalty"] = "l1"
    if recipe == "fast":
        parameters |= _FAST_NETWORK if network else _FAST_LINEAR
        parameters |= _FAST.get((dataset, system), {})
    else:
        parameters |= {**_SCHEDULE, **_LENGTH[dataset]}
        parameters |= dict(zip(_RATE_NAMES, _RATES[row], strict=True))
        if not network:
            parameters["init"] = "random"
    parameters |= _KINDS[system.partition("-")[0]][1]
    parameters |= {"random_state": random_state, **overrides}
    return (NonLinearVDL if network else VarianceDictionaryLearning)(**parameters)
