"""Estimators in files that can be opened without running code from them."""

import os
from abc import ABC, abstractmethod
from dataclasses import asdict
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch

from .._version import __version__
from ..energy import EnergySettings
from ..models import LISTA, Decoder, Units
from ..solvers import SolverSettings
from ..training import Learner, TrainingSettings, read_tree, write_tree

_KIND = "model"


class SaveMixin(ABC):
    """An estimator with a method `save`.

    A class that `load` should know is registered by `savable`, and says what `fit` has set.
    """

    _savable: ClassVar[dict[str, Any]] = {}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the estimator to a file, which :func:`skvdl.load` opens.

        The file has everything that `partial_fit` or a warm start need to go on as if nothing had
        happened. It is in the safetensors format, with a checksum, and nothing in it can run code.
        It replaces an existing file only once it is complete. Callbacks are not stored.

        Parameters
        ----------
        path : str or path
            Where to write.
        """
        write_tree(path, {"version": __version__, "estimator": to_tree(self)}, kind=_KIND)

    @abstractmethod
    def _fitted_to_tree(self) -> Any:
        """Everything that `fit` has set; None before."""

    @abstractmethod
    def _fitted_from_tree(self, tree: Any) -> None:
        """Set everything that `fit` had set."""


T = TypeVar("T", bound=type[SaveMixin])


def savable(cls: T) -> T:
    """Let `load` know a class."""
    SaveMixin._savable[cls.__name__] = cls
    return cls


def load(path: str | os.PathLike[str]) -> Any:
    """Open an estimator that its method `save` has written.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    estimator
        The estimator, fitted if it was. Its weights are on the device where they were, or on the
        CPU if that is missing.

    Raises
    ------
    ValueError
        If the file is something else, of a newer version, or any byte of it has changed.

    See Also
    --------
    VarianceDictionaryLearning.save : Write the file.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> import skvdl
    >>> X = np.random.default_rng(0).normal(size=(100, 6))
    >>> vdl = skvdl.VDL(4, max_iter=2, random_state=0).fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.safetensors")
    ...     vdl.save(path)
    ...     again = skvdl.load(path)
    >>> bool((again.transform(X) == vdl.transform(X)).all())
    True
    """
    tree = read_tree(path, kind=_KIND)
    try:
        return from_tree(tree["estimator"])
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        RuntimeError,
        TypeError,
        ValueError,
    ) as error:
        written = tree.get("version") if isinstance(tree, dict) else None
        raise ValueError(
            f"{os.fspath(path)!r}, written by skvdl {written}, cannot be read by skvdl "
            f"{__version__}: {error}"
        ) from error


def to_tree(estimator: Any) -> dict[str, Any]:
    """Return an estimator as a tree, which `from_tree` understands."""
    name = type(estimator).__name__
    if SaveMixin._savable.get(name) is not type(estimator):
        raise TypeError(
            f"A {name} cannot be saved, only {', '.join(sorted(SaveMixin._savable))} themselves; "
            "use pickle for other classes."
        )
    parameters = {}
    for key, value in estimator.get_params(deep=False).items():
        try:
            parameters[key] = _plain(value)
        except TypeError as error:
            raise TypeError(f"{name} cannot be saved with its parameter {key}: {error}") from None
    return {
        "class": name,
        "parameters": parameters,
        "output": getattr(estimator, "_sklearn_output_config", None),
        "fitted": estimator._fitted_to_tree(),
    }


def from_tree(tree: dict[str, Any]) -> Any:
    """Build the estimator that `to_tree` made a tree of."""
    cls = SaveMixin._savable[tree["class"]]
    estimator = cls(**{key: _lively(value) for key, value in tree["parameters"].items()})
    estimator._validate_params()
    if tree["output"] is not None:
        estimator.set_output(**tree["output"])
    if tree["fitted"] is not None:
        estimator._fitted_from_tree(tree["fitted"])
    return estimator


def learner_to_tree(learner: Learner) -> dict[str, Any]:
    """Return a learner as a tree, which `learner_from_tree` understands."""
    return {
        "state": learner.state(),
        "n_steps": learner.n_steps,
        "cut": None if learner.encoder is None else learner.encoder.cut,
        "units": vars(learner.units),
        "energy": _plain(asdict(learner.energy_settings)),
        "solver": _plain(asdict(learner.solver_settings)),
        "training": _plain(asdict(learner.training)),
    }


def learner_from_tree(tree: dict[str, Any], decoder_class: type[Decoder]) -> Learner:
    """Build the learner that `learner_to_tree` made a tree of.

    Whatever the tree says, it takes no more memory than what it contains.
    """
    state = tree["state"]
    decoder = decoder_class.from_weights(state["decoder"])
    n_features, n_components = decoder.n_features, decoder.n_components
    if decoder.dtype not in (torch.float32, torch.float64):
        raise ValueError(f"weights are {decoder.dtype}")
    encoder = None
    if "encoder" in state:
        weights = state["encoder"]
        _check_shape(weights["U"], n_components, n_features)
        if "S" in weights:
            _check_shape(weights["S"], n_components, n_components)
        else:
            _check_shape(weights["R"], n_features, n_components)
        encoder = LISTA(
            n_features,
            n_components,
            generator=torch.Generator(device="cpu"),
            dtype=decoder.dtype,
            positive="threshold" not in weights,
            factored="S" not in weights,
        )
    training = TrainingSettings(**tree["training"])
    if training.online:
        _check_shape(state["online"]["gram"], n_components + 1, n_components + 1)
    units = Units(center=False, scale=False)
    vars(units).update(tree["units"])
    settings = EnergySettings(**tree["energy"]), SolverSettings(**tree["solver"]), training
    learner = Learner(decoder, encoder, *settings, units)
    learner.load_state(state)
    learner.n_steps = tree["n_steps"]
    if encoder is not None:
        encoder.cut = tree["cut"]
    return learner


def _check_shape(tensor: torch.Tensor, *shape: int) -> None:
    if tuple(tensor.shape) != shape:
        raise ValueError(f"weights have the shape {tuple(tensor.shape)}, not {shape}")


def _plain(value: Any) -> Any:
    """Return a parameter as it is written: numbers of numpy as those of Python, paths as text."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return type(value)(_plain(item) for item in value)
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, np.random.RandomState):
        return {"random_state": _plain(value.get_state(legacy=False))}
    if hasattr(value, "get_params"):
        return {"estimator": to_tree(value)}
    raise TypeError(f"a {type(value).__name__} has no place in a file.")


def _lively(value: Any) -> Any:
    """Undo `_plain`."""
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "estimator":
        return from_tree(content)
    if kind != "random_state":
        raise ValueError(f"unknown kind of parameter {kind!r}")
    random = np.random.RandomState()
    random.set_state(content)
    return random
