"""The scikit-learn contract of all estimators: validation, and arrays to tensors and back."""

import copy
import math
import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, TransformerMixin, _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import (
    StrOptions,
    validate_parameter_constraints,
)
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted
from tqdm.auto import tqdm

from .._caller import caller_level
from .._constraints import Number, real, whole
from .._doc_link import DocLinkMixin
from ..distributed import ALONE, Group, OtherProcessError, Processes, Rows, Shard, Stream
from ..energy import EnergySettings
from ..models import LISTA, Decoder, Units
from ..solvers import SolverSettings
from ..training import (
    Best,
    Checkpoint,
    History,
    Learner,
    TrainingSettings,
    batch_slices,
    cut_encoder,
    find_lam,
    is_finite,
    run_epoch,
    train,
    uninterrupted,
)
from ._blocks import (
    code_blocks,
    data_blocks,
    is_dask,
    joined_blocks,
    map_blocks,
    read_stream,
    score_blocks,
)
from ._callbacks import CallbackSupportMixin, FitCallbacks
from ._cluster import current_client, fit_on_workers
from ._coding import Coder, finite
from ._containers import Container, codes_to_tensor, data_to_tensor, rows_to_tensor
from ._devices import available_devices, resolve_device
from ._files import SaveMixin, learner_from_tree, learner_to_tree
from ._fingerprint import find_checkpoint
from ._modes import plain_torch
from ._onnx import DecoderGraph, EncoderGraph, export
from ._scoring import ExplainedVariance

# max_iter="auto": steps without progress on held-out rows after which training stops, and progress
# that counts.
_AUTO_PATIENCE, _AUTO_TOL = 200, 1e-3
# Most epochs, and steps between two looks at held-out rows: an epoch of few rows is short.
_AUTO_EPOCHS, _AUTO_JUDGE = 500, 20
# Rows held out to stop in time and to calibrate: this share and at most so many, of few rows a
# larger share until there are enough, and none of fewer than so many.
_AUTO_FRACTION, _AUTO_MOST, _AUTO_LEAST = 0.1, 1000, 100
_AUTO_LARGER_FRACTION, _AUTO_ENOUGH = 0.2, 50
# Rows of a stream of blocks that are kept in memory.
_STREAM_ROWS = 20_000
# Rows that lam and the encoder's threshold are calibrated on, at most, and trials. Of long codes,
# fewer rows are enough: so many that there are as many numbers, but not fewer than these.
_CALIBRATION_ROWS, _CALIBRATION_TRIALS = 500, 12
_CALIBRATION_NUMBERS, _CALIBRATION_LEAST = 2**17, 100
# In further calls of `partial_fit`, so many trials after so many steps.
_CALIBRATION_TRIALS_AGAIN, _CALIBRATION_STEPS_AGAIN = 3, 8
# Relative change of the codes at which inference in `fit` stops, as published.
_INFERENCE_TOL = 1e-3
# A chunk in transform has as many rows as keep its tensors near 16 MB each, and at least these.
_CHUNK_ELEMENTS = 2**21
_CHUNK_ROWS = 256
# What `transform`, `score` and `duality_gap` read; everything else was settled in `fit`.
_READ_AFTER_FIT = (
    "lam",
    "debias",
    "step_size",
    "transform_method",
    "transform_tol",
    "transform_max_iter",
    "missing_values",
    "sparse_output",
)

# Fitted attributes that share weights or curves, which training changes in place.
_CHANGED_IN_PLACE = (
    "_learner",
    "decoder_",
    "encoder_",
    "_history",
    "history_",
    "loss_curve_",
    "validation_curve_",
)


class BaseVDL(SaveMixin, CallbackSupportMixin, DocLinkMixin, TransformerMixin, BaseEstimator, ABC):
    """What both estimators share: everything except the decoder."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_components": [whole(1)],
        "lam": [real(least=0), None],
        "target_sparsity": [Number(Real, 0, 1, closed="neither")],
        "debias": ["boolean"],
        "center": ["boolean"],
        "scale": ["boolean"],
        "beta": [real(least=0)],
        "gamma": [real(least=0)],
        "variance_threshold": [real(above=0)],
        "regularizer": [StrOptions({"variance", "unit_norm", "weight_decay"}), None],
        "weight_decay": [real(least=0)],
        "encoder": [StrOptions({"lista"}), None],
        "positive_code": ["boolean"],
        "transform_method": [StrOptions({"encoder", "fista"})],
        "transform_tol": [real(least=0)],
        "transform_max_iter": [whole(1)],
        "missing_values": [StrOptions({"nan"}), None],
        "sparse_output": ["boolean"],
        "max_iter": [whole(1), StrOptions({"auto"})],
        "batch_size": [whole(2)],
        "learning_rate": [
            StrOptions({"cosine", "constant"}),
            whole(1),
        ],
        "learning_rate_init": [real(above=0)],
        "encoder_learning_rate_init": [real(above=0)],
        "bias_decay": ["array-like"],
        "inference_max_iter": [whole(1)],
        "step_size": [real(above=0), StrOptions({"auto"})],
        "early_stopping": ["boolean"],
        "validation_fraction": [Number(Real, 0, 1, closed="neither")],
        "n_iter_no_change": [whole(1), None],
        "tol": [real(least=0)],
        "revive_dead": ["boolean"],
        "warm_start": ["boolean"],
        "checkpoint": [str, os.PathLike, None],
        "distributed": ["boolean"],
        "random_state": ["random_state"],
        "device": [StrOptions({"auto", "cpu", "cuda", "mps"})],
        "verbose": ["verbose"],
    }
    # What the documentation of shared parameters says about this class alone.
    _doc_texts: ClassVar[dict[str, str]]
    # Steps of max_iter="auto", at least one epoch.
    _auto_steps: ClassVar[int]
    # Learning rate of a decoder whose atoms are not bounded, unless one is given.
    _rate_without_bound: ClassVar[float] = 5e-3
    # Weight of the penalty from which the one for `target_sparsity` is looked for.
    _first_lam: ClassVar[float]
    # What is built again from a file.
    _decoder_class: ClassVar[type[Decoder]]
    # What the names of the codes' columns begin with.
    _feature_prefix: ClassVar[str]

    n_components: int
    lam: float | None
    target_sparsity: float
    debias: bool
    center: bool
    scale: bool
    beta: float
    gamma: float
    variance_threshold: float
    regularizer: str | None
    weight_decay: float
    encoder: str | None
    positive_code: bool
    transform_method: str
    transform_tol: float
    transform_max_iter: int
    missing_values: str | None
    sparse_output: bool
    max_iter: int | str
    batch_size: int
    learning_rate: str | int
    learning_rate_init: float | None
    encoder_learning_rate_init: float
    bias_decay: tuple[float, float]
    inference_max_iter: int
    step_size: float | str
    early_stopping: bool
    validation_fraction: float
    n_iter_no_change: int | None
    tol: float
    revive_dead: bool
    warm_start: bool
    checkpoint: str | os.PathLike[str] | None
    distributed: bool
    random_state: int | np.random.RandomState | None
    device: str
    verbose: int

    @_fit_context(prefer_skip_nested_validation=True)
    @plain_torch
    def fit(self, X: ArrayLike, y: None = None) -> Self:
        """Learn decoder and encoder from data.

        Parameters
        ----------
        X : {array-like, torch.Tensor, Dask array or DataFrame} of shape (n_samples, n_features)
            Data. With ``distributed=True``, the part of them that this process has. A Dask
            collection is learnt from on the workers of the current client, or without one block by
            block in this process.
        y : None
            Ignored.

        Returns
        -------
        self : object
            The fitted estimator. After an interrupt it has what was learnt until then, after
            divergence the weights of the last good epoch.
        """
        # before anything is kept to go back to: scikit-learn cleans up after errors too
        callbacks = FitCallbacks(self, X, y)
        if is_dask(X):
            return self._fit_blocks(X, callbacks)
        group = self._group()
        return self._learn(lambda reset: self._read(X, group, reset, 2), group, callbacks)

    def _learn(self, read: Callable[[bool], Rows], group: Group, callbacks: FitCallbacks) -> Self:
        """Do what `fit` does, with rows that are read, for the first time or to go on with them."""
        folder = self.checkpoint if group.rank == 0 else None
        with self._unchanged_on_error() as afterwards, Checkpoint(folder) as checkpoint:
            goes_on = self.warm_start and hasattr(self, "_learner")
            data = read(not goes_on)
            device = resolve_device(self.device, data.dtype)
            if not self.scale:
                _warn_of_scale(data.local, look_for_nan=self.missing_values == "nan")
            generator = self._make_generator(group)
            known = self._learner if goes_on else None
            find_checkpoint(checkpoint, self, data, generator, device, known)
            index, held_out = self._split(data, generator)
            units = _measure(Units(self.center, self.scale), data)
            learner = self._make_learner(data, index, units, generator, device, goes_on)
            judged = len(held_out) > 0 and (self.early_stopping or self.max_iter == "auto")
            rows = data.gather(self._calibration_rows(data.at_hand(index), held_out))
            history, best = History(), Best()
            stopped: BaseException | None = None
            try:
                if not goes_on and checkpoint.saved is None:
                    self._start(learner, data, data.at_hand(index), generator, stream=False)
                n_epochs = learner.training.max_iter
                done = 0 if checkpoint.saved is None else checkpoint.saved["epoch"]
                callbacks.begin(n_epochs - done)
                with self._progress(n_epochs, done, hidden=group.rank > 0) as show:

                    def on_epoch(history: History) -> bool:
                        show(history)
                        return callbacks.after_epoch(
                            lambda: self._fitted_so_far(learner, history, best, rows)
                        )

                    train(
                        learner,
                        data,
                        generator=generator,
                        history=history,
                        index=index,
                        held_out=held_out if judged else None,
                        on_epoch=on_epoch,
                        best=best,
                        checkpoint=checkpoint,
                    )
            except FloatingPointError as error:
                if not history.curves["energy"]:
                    raise
                stopped = error
            except KeyboardInterrupt as error:
                stopped = error
            lam = self._calibrate(learner, rows)
            afterwards.enter_context(uninterrupted())
            self._publish(learner, history, len(history.curves["energy"]), lam)
            if stopped is None:
                callbacks.end()
            if not isinstance(stopped, KeyboardInterrupt):
                checkpoint.remove()
        if stopped is not None:
            raise stopped
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    @plain_torch
    def partial_fit(self, X: ArrayLike, y: None = None) -> Self:
        """Go through data once, in the order given, at constant learning rates.

        Mean and scale are those of all rows given so far, and change less and less.

        Parameters
        ----------
        X : {array-like, torch.Tensor, Dask array or DataFrame} of shape (n_samples, n_features)
            More data; cut into batches if it has more rows than `batch_size`. With
            ``regularizer="variance"`` at least two rows, because one has no variance. Blocks of a
            Dask collection are computed and learnt from one after the other; if one of them
            raises, those before have been learnt from.
        y : None
            Ignored.

        Returns
        -------
        self : object
            The estimator, fitted a little further.
        """
        if is_dask(X):
            return self._learn_blocks(X)
        with self._unchanged_on_error() as afterwards:
            first = not hasattr(self, "_learner")
            # scikit-learn validates parameters in the first call only
            self._validate_params()
            min_samples = 2 if self.regularizer == "variance" else 1
            group = self._group()
            data = self._read(X, group, first, min_samples)
            device = resolve_device(self.device, data.dtype)
            generator = self._make_generator(group) if first else None
            known = Units(self.center, self.scale) if first else self._learner.units
            units = _measure(copy.deepcopy(known), data)
            index = torch.arange(len(data), device=data.device)
            learner = self._make_learner(data, index, units, generator, device, goes_on=not first)
            if generator is not None:
                self._start(learner, data, index, generator, stream=True)
            means, _ = run_epoch(learner, data)
            if not is_finite(means, learner):
                raise FloatingPointError(
                    "The energy of these rows is not finite, so they were not learnt from. "
                    "Use scale=True or lower the learning rates."
                )
            rows = data.gather(self._calibration_rows(index, index[:0]))
            lam = self._calibrate(learner, rows) if first else self._calibrate_again(learner, rows)
            # from here on nothing fails and an interrupt comes too late: the history is no copy
            afterwards.enter_context(uninterrupted())
            history = History() if first else self._history
            history.append(**means)
            self._publish(learner, history, 1 if first else self.n_iter_ + 1, lam)
        return self

    def _fit_blocks(self, X: Any, callbacks: FitCallbacks) -> Self:
        """Do what `fit` does with a collection of Dask: on its workers, or here block by block."""
        self._refuse_processes()
        goes_on = self.warm_start and hasattr(self, "_learner")
        with self._unchanged_on_error():
            blocks = data_blocks(self, X, reset=not goes_on)
            # blocks have no names
            names = self.__dict__.pop("feature_names_in_", None)
            client = current_client()
            if client is None:
                self._learn(lambda reset: read_stream(self, blocks), ALONE, callbacks)
            else:
                self.__dict__.update(fit_on_workers(client, self, blocks))
            if names is not None:
                self.feature_names_in_ = names
        return self

    def _learn_blocks(self, X: Any) -> Self:
        """Learn from the blocks of a collection of Dask, which are in memory one by one."""
        self._validate_params()
        self._refuse_processes()
        blocks = data_blocks(self, X, reset=not hasattr(self, "_learner"))
        # blocks have no names
        names = self.__dict__.pop("feature_names_in_", None)
        try:
            for rows in joined_blocks(blocks, self.batch_size):
                self.partial_fit(rows)
        finally:
            if not hasattr(self, "_learner"):
                # the first block has failed
                del self.n_features_in_
            elif names is not None:
                self.feature_names_in_ = names
        return self

    @plain_torch
    def transform(self, X: ArrayLike) -> Any:
        """Compute the codes of data, each row by itself.

        Parameters
        ----------
        X : {array-like, torch.Tensor, Dask array or DataFrame} of shape (n_samples, n_features)
            Data. With ``missing_values="nan"``, NaN marks entries that are missing.

        Returns
        -------
        codes : ndarray, torch.Tensor, CSR matrix or Dask array of shape (n_samples, n_components)
            The codes; a tensor on the same device if `X` is a tensor. Of a Dask collection, a Dask
            array that is computed block by block when it is needed, by the model as it is now.
        """
        if is_dask(X):
            return map_blocks(
                self,
                "transform",
                self._validate_blocks(X),
                n_columns=self.decoder_.n_components,
                dtype=self._dtype(),
                as_sparse=self.sparse_output,
            )
        data, container = self._validate_fitted(X)
        wrap = container.sparse if self.sparse_output else container.dense
        coder = self._coder()
        codes = container.join((wrap(coder(Y)) for Y in self._chunks(data)), len(data))
        coder.warn()
        return codes

    @plain_torch
    def inverse_transform(self, X: ArrayLike) -> Any:
        """Reconstruct data from codes.

        Parameters
        ----------
        X : {array-like, sparse matrix, tensor, Dask array} of shape (n_samples, n_components)
            Codes.

        Returns
        -------
        X_hat : ndarray, torch.Tensor or Dask array of shape (n_samples, n_features)
            Reconstructions.
        """
        check_is_fitted(self)
        lazy, container = is_dask(X), Container()
        if lazy:
            codes = code_blocks(X)
        else:
            codes, container = codes_to_tensor(X, self.decoder_.dtype)
        if codes.shape[1] != self.decoder_.n_components:
            raise ValueError(
                f"X has {codes.shape[1]} columns, but codes of this {type(self).__name__} have "
                f"{self.decoder_.n_components}."
            )
        if lazy:
            n_features, dtype = self.decoder_.n_features, self._dtype()
            return map_blocks(self, "inverse_transform", codes, n_columns=n_features, dtype=dtype)
        with torch.no_grad():
            parts = map(self._reconstruct, self._chunks(codes))
            return container.join(map(container.dense, parts), codes.shape[0])

    @plain_torch
    def score(self, X: ArrayLike, y: None = None) -> float:
        """Compute the share of the variance of data that their reconstructions explain.

        It takes no account of sparsity: used alone to choose `lam`, it always prefers the smallest.

        Parameters
        ----------
        X : {array-like, torch.Tensor, Dask array or DataFrame} of shape (n_samples, n_features)
            Data. With ``missing_values="nan"``, entries that are NaN do not count.
        y : None
            Ignored.

        Returns
        -------
        score : float
            ``1 - ||X - X_hat||^2 / ||X - mean(X)||^2``: 1 is perfect, 0 no better than the mean.
        """
        if is_dask(X):
            return score_blocks(self, self._validate_blocks(X))
        return self._explained_variance(X).share()

    @plain_torch
    def _explained_variance(self, X: ArrayLike) -> ExplainedVariance:
        """Compute what `score` is the share of."""
        data, _ = self._validate_fitted(X)
        coder = self._coder()
        variance = ExplainedVariance(data, look_for_nan=coder.look_for_nan)
        with torch.no_grad():
            for Y in self._chunks(data):
                variance.add(Y, self._reconstruct(coder(Y)))
        coder.warn()
        return variance

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> np.ndarray:
        """Return the names of the columns of codes.

        Parameters
        ----------
        input_features : array-like of str or None, default=None
            Only used to validate feature names with the names seen in `fit`.

        Returns
        -------
        names : ndarray of str objects
            A short prefix with the number of the component: "vdl0", "vdl1" and so on for a
            dictionary, "vdlnl0" and so on for a network.
        """
        check_is_fitted(self)
        _check_feature_names_in(self, input_features, generate_names=False)
        n_components = self.decoder_.n_components
        return np.asarray([f"{self._feature_prefix}{i}" for i in range(n_components)], dtype=object)

    def export_onnx(self, path: str | os.PathLike[str], *, part: str = "encoder") -> None:
        """Write the encoder or the decoder as an ONNX graph.

        Mean and scale of the data are part of the graph, which takes any number of rows, in the
        type that the estimator was fitted with. Needs ``pip install 'skvdl[onnx]'``.

        Parameters
        ----------
        path : str or path
            Where to write.
        part : {"encoder", "decoder"}, default="encoder"
            The encoder computes what `transform` does with ``transform_method="encoder"`` and
            ``debias=False``, from an input "X" to an output "codes". Codes that minimise the
            energy or are refitted come from iterations that stop row by row, and cannot be
            exported. The decoder computes what `inverse_transform` does, from "codes" to "X_hat".
        """
        check_is_fitted(self)
        units, dtype = self._learner.units, self.decoder_.dtype
        if part == "decoder":
            decoder = DecoderGraph(self.decoder_, units, dtype)
            width = self.decoder_.n_components
            export(decoder, path, width=width, names=("codes", "X_hat"))
        elif part != "encoder":
            raise ValueError(f"part={part!r} must be 'encoder' or 'decoder'.")
        elif self.encoder_ is None:
            raise ValueError("There is no encoder to export, because of encoder=None in fit.")
        else:
            encoder = EncoderGraph(self.encoder_, units, dtype)
            export(encoder, path, width=self.n_features_in_, names=("X", "codes"))

    @abstractmethod
    def _make_decoder(
        self, n_features: int, generator: torch.Generator, dtype: torch.dtype
    ) -> Decoder:
        """Build a decoder with random weights."""

    def _layer_sizes(self, n_features: int) -> list[int]:
        """Width of each layer that the parameters ask for, from the code to the data."""
        return [self.n_components, n_features]

    def _start(
        self,
        learner: Learner,
        X: Rows,
        index: torch.Tensor,
        generator: torch.Generator,
        *,
        stream: bool,
    ) -> None:
        """Improve random weights with the help of data, which are the first of many in a stream."""

    def _validate(
        self,
        X: ArrayLike,
        *,
        reset: bool,
        min_samples: int = 1,
        dtype: torch.dtype | None = None,
    ) -> tuple[torch.Tensor, Container]:
        return data_to_tensor(
            self,
            X,
            reset=reset,
            dtype=dtype if reset or dtype is not None else self.decoder_.dtype,
            min_samples=min_samples,
            allow_nan=self.missing_values == "nan",
        )

    def _group(self) -> Group:
        """Processes to learn with."""
        return Processes.join() if self.distributed else ALONE

    def _refuse_processes(self) -> None:
        if self.distributed:
            raise ValueError(
                "distributed=True is for processes of torchrun, each of which has its rows in "
                "memory. A Dask collection needs distributed=False: its workers find each other."
            )

    def _read(self, X: ArrayLike, group: Group, reset: bool, min_samples: int) -> Rows:
        """Check data, of which each process of a group has a part."""
        if group.size == 1:
            return Rows(self._validate(X, reset=reset, min_samples=min_samples)[0])
        return self._join([X], None, group, reset, min_samples)

    def _join(
        self,
        pieces: Sequence[Any],
        places: Sequence[int] | None,
        group: Group,
        reset: bool,
        min_samples: int,
    ) -> Shard:
        """Check the pieces of the data that this process has, and find out what others have."""
        tensors: list[torch.Tensor] = []
        refused: Exception | None = None
        try:
            for X in pieces:
                tensors.append(self._validate(X, reset=reset, min_samples=0)[0])
        except (ValueError, TypeError) as error:
            refused = error
        kinds = {(t.shape[1], str(t.dtype)) for t in tensors if len(t)}
        known = group.exchange(None if refused else kinds)
        if refused:
            raise refused
        if any(found is None for found in known):
            raise OtherProcessError("Another process cannot use its data; its message says why.")
        every = set[tuple[int, str]]().union(*(found for found in known if found))
        if len(every) > 1:
            raise ValueError(
                "The parts of the data have different numbers of features or types: "
                f"{', '.join(f'{n} features of {dtype}' for n, dtype in sorted(every))}."
            )
        for _, dtype in every:
            # a part without rows says nothing about the type
            tensors = [t.to(getattr(torch, dtype.removeprefix("torch."))) for t in tensors]
        shard = Shard(tensors, group, places)
        if len(shard) < min_samples:
            raise ValueError(
                f"Found {len(shard)} sample(s) in all parts of the data while a minimum of "
                f"{min_samples} is required."
            )
        return shard

    def _validate_fitted(self, X: ArrayLike) -> tuple[torch.Tensor, Container]:
        """Check everything that methods after `fit` use: parameters and data."""
        self._validate_parameters_in_use()
        return self._validate(X, reset=False)

    def _validate_blocks(self, X: Any) -> Any:
        """Do the same for a collection of Dask, whose entries are checked block by block later."""
        self._validate_parameters_in_use()
        return data_blocks(self, X, reset=False)

    def _validate_parameters_in_use(self) -> None:
        check_is_fitted(self)
        validate_parameter_constraints(
            {name: self._parameter_constraints[name] for name in _READ_AFTER_FIT},
            {name: getattr(self, name) for name in _READ_AFTER_FIT},
            caller_name=type(self).__name__,
        )

    def _dtype(self) -> Any:
        """Type of codes and reconstructions, as arrays."""
        return np.dtype(str(self.decoder_.dtype).removeprefix("torch."))

    @contextmanager
    def _unchanged_on_error(self) -> Iterator[ExitStack]:
        """Leave the estimator as it was when what is inside raises.

        What is put on the stack is left only after that.
        """
        attributes = self.__dict__
        before = attributes.copy()
        with ExitStack() as afterwards:
            try:
                yield afterwards
            except BaseException:
                with uninterrupted():
                    attributes.clear()
                    attributes.update(before)
                raise

    def _make_generator(self, group: Group) -> torch.Generator:
        """Generator for weights and shuffling; no global random state is read or changed."""
        generator = torch.Generator(device="cpu")
        if self.random_state is None:
            generator.seed()
        else:
            generator.manual_seed(int(check_random_state(self.random_state).randint(2**31 - 1)))
        if group.size > 1:
            generator.manual_seed(group.exchange(generator.initial_seed())[0])
        return generator

    def _split(self, X: Rows, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        """Indices of the rows to learn from, and of those to judge epochs by, if any."""
        n_validation = 0
        if self.early_stopping:
            n_validation = max(1, round(self.validation_fraction * len(X)))
            if len(X) - n_validation < 2:
                raise ValueError(
                    f"validation_fraction={self.validation_fraction} of {len(X)} samples leaves "
                    "fewer than 2 to learn from; use early_stopping=False or more data."
                )
        elif (self.max_iter == "auto" or self.lam is None) and len(X) >= _AUTO_LEAST:
            few = min(round(_AUTO_LARGER_FRACTION * len(X)), _AUTO_ENOUGH)
            n_validation = min(max(round(_AUTO_FRACTION * len(X)), few), _AUTO_MOST)
        elif not isinstance(X, Stream):
            every = torch.arange(len(X), device=X.device)
            return every, every[:0]
        order = torch.randperm(len(X), generator=generator, device=generator.device).to(X.device)
        if isinstance(X, Stream):
            # rows to start from, to judge epochs by and to calibrate on
            X.keep(order[:_STREAM_ROWS])
            n_validation = min(n_validation, _STREAM_ROWS // 2)
        return order[n_validation:], order[:n_validation]

    def _penalty(self) -> str:
        """What makes the codes sparse."""
        return "l1"

    def _settings(
        self, n_rows: int, lam: float
    ) -> tuple[EnergySettings, SolverSettings, TrainingSettings]:
        """Translate the parameters into settings of the engine."""
        n_batches = len(batch_slices(n_rows, self.batch_size))
        auto = self.max_iter == "auto"
        max_iter = (
            int(self.max_iter)
            if not auto
            else (min(math.ceil(self._auto_steps / n_batches), _AUTO_EPOCHS))
        )
        judge_every, n_iter_no_change, tol = 1, self.n_iter_no_change, self.tol
        if auto and not self.early_stopping:
            judge_every = math.ceil(_AUTO_JUDGE / n_batches)
            n_iter_no_change, tol = math.ceil(_AUTO_PATIENCE / n_batches), _AUTO_TOL
        energy = EnergySettings(
            # whole numbers can be larger than those of torch
            lam=float(lam),
            penalty=self._penalty(),
            positive=self.positive_code,
            beta=float(self.beta) if self.regularizer == "variance" else 0.0,
            variance_threshold=float(self.variance_threshold),
            gamma=float(self.gamma) if self.encoder is not None else 0.0,
        )
        solver = SolverSettings(
            step_size=self._step_size(), tol=_INFERENCE_TOL, max_iter=self.inference_max_iter
        )
        training = TrainingSettings(
            batch_size=self.batch_size,
            max_iter=max_iter,
            learning_rate=self.learning_rate,
            learning_rate_init=self.learning_rate_init or self._rate_without_bound,
            encoder_learning_rate_init=self.encoder_learning_rate_init,
            unit_norm=self.regularizer == "unit_norm",
            weight_decay=self.weight_decay if self.regularizer == "weight_decay" else 0.0,
            bias_decay=self._checked_bias_decay(),
            judge_every=judge_every,
            n_iter_no_change=n_iter_no_change,
            tol=tol,
            revive_dead=self.revive_dead,
            look_for_nan=self.missing_values == "nan",
            online=self.learning_rate_init is None and self.regularizer == "unit_norm",
            target_sparsity=self.target_sparsity if self.lam is None else None,
        )
        return energy, solver, training

    def _checked_bias_decay(self) -> tuple[float, float]:
        weight = real(least=0)
        decays = tuple(self.bias_decay) if np.ndim(self.bias_decay) == 1 else ()
        if len(decays) != 2 or not all(map(weight.is_satisfied_by, decays)):
            raise ValueError(
                f"bias_decay={self.bias_decay!r} must hold two non-negative numbers: the weight "
                "decay of the decoder's biases and that of the encoder's."
            )
        return decays[0], decays[1]

    def _make_learner(
        self,
        X: torch.Tensor | Rows,
        index: torch.Tensor,
        units: Units,
        generator: torch.Generator | None,
        device: torch.device,
        goes_on: bool,
    ) -> Learner:
        if goes_on:
            learner = copy.deepcopy(self._learner)
            self._check_same_model(learner)
            learner.units = units
            # a weight of 0 would stay 0, whatever it is multiplied with
            known = learner.energy_settings.lam or self._first_lam
            lam = known if self.lam is None else self.lam
            learner.to(device).configure(*self._settings(len(index), lam))
            return learner
        assert generator is not None
        X = Rows.of(X)
        n_features = X.n_features
        decoder = self._make_decoder(n_features, generator, X.dtype)
        encoder = None
        if self.encoder is not None:
            encoder = LISTA(
                n_features,
                self.n_components,
                generator=generator,
                dtype=X.dtype,
                positive=self.positive_code,
            )
        # weights are drawn on the CPU, to be the same on every device
        lam = self._first_lam if self.lam is None else self.lam
        learner = Learner(decoder, encoder, *self._settings(len(index), lam), units).to(device)
        return learner

    def _calibration_rows(self, index: torch.Tensor, held_out: torch.Tensor) -> torch.Tensor:
        """Indices of rows to calibrate on: those held out, if any; learnt ones have more zeros."""
        rows = held_out if len(held_out) else index
        enough = max(_CALIBRATION_LEAST, _CALIBRATION_NUMBERS // self.n_components)
        most = min(_CALIBRATION_ROWS, enough)
        return rows[:: max(1, len(rows) // most)][:most]

    def _calibrate(
        self,
        learner: Learner,
        X: torch.Tensor,
        start: float | None = None,
        n_trials: int = _CALIBRATION_TRIALS,
    ) -> float:
        """Return lam for new rows, and let the encoder's codes have as many zeros as theirs."""
        if self.lam is not None and not (self.lam and self.debias):
            return float(self.lam)
        solver, debias = self._transform_solver(), self.debias
        start = start or learner.energy_settings.lam
        lam, sparsity = find_lam(learner, X, solver, debias=debias, start=start, n_trials=n_trials)
        wanted = self.target_sparsity if self.lam is None else sparsity
        cut_encoder(learner, X, wanted, debias=debias, n_trials=n_trials)
        return lam

    def _calibrate_again(self, learner: Learner, X: torch.Tensor) -> float:
        """Correct the last calibration now and then, the less the fewer rows there are."""
        last = None if self.encoder_ is None else self.encoder_.cut
        start = self.lam_ if self.lam is None else self.lam
        encoder, every = learner.encoder, _CALIBRATION_STEPS_AGAIN
        if self.n_steps_ >= 2 * every and learner.n_steps // every == self.n_steps_ // every:
            if encoder is not None:
                encoder.cut = last
            return start
        lam = self._calibrate(learner, X, start, _CALIBRATION_TRIALS_AGAIN)
        share = len(X) / _CALIBRATION_ROWS
        if encoder is not None and encoder.cut is not None and last is not None:
            # infinite for atoms of zeros
            mixed = torch.lerp(last.to(encoder.cut), encoder.cut, share)
            encoder.cut = torch.where(mixed.isfinite(), mixed, encoder.cut)
        return lam if self.lam is not None or not start else start * (lam / start) ** share

    def _check_same_model(self, learner: Learner) -> None:
        """Refuse to go on with a model that the parameters no longer describe."""
        built = (
            learner.decoder.layer_sizes,
            None if learner.encoder is None else "lista",
            learner.energy_settings.positive,
            learner.units.center,
            learner.units.scaled,
        )
        wanted = (
            self._layer_sizes(self.n_features_in_),
            self.encoder,
            self.positive_code,
            self.center,
            self.scale,
        )
        if built != wanted:
            text = "layers {}, encoder={!r}, positive_code={}, center={} and scale={}"
            raise ValueError(
                f"The fitted model has {text.format(*built)}; "
                f"the parameters ask for {text.format(*wanted)}: "
                "training cannot go on. Use warm_start=False and fit to start again."
            )

    def _publish(self, learner: Learner, history: History, n_iter: int, lam: float) -> None:
        """Set every fitted attribute."""
        mean = learner.units.mean
        self.mean_ = None if mean is None else mean.cpu().numpy()
        self.scale_ = learner.units.scale
        self.lam_ = lam
        self._learner = learner
        self._history = history
        self.decoder_ = learner.decoder
        self.encoder_ = learner.encoder
        self.device_ = str(learner.device)
        self.n_iter_ = n_iter
        self.n_steps_ = learner.n_steps
        self.history_ = dict(history.curves)
        self.loss_curve_ = history.curves["energy"]
        self.validation_curve_ = self.history_.get("validation")
        self.n_dead_components_ = (history.curves["dead"] or [0])[-1]

    def _fitted_so_far(
        self, learner: Learner, history: History, best: Best, rows: torch.Tensor
    ) -> dict[str, Any]:
        """Fitted attributes as if training ended now, with `rows` to calibrate on."""
        learner = copy.deepcopy(learner)
        if best.state is not None:
            learner.load_state(best.state)
        parameters = self.get_params(deep=False)
        fitted = type(self)(**parameters)
        lam = fitted._calibrate(learner, rows)
        fitted._publish(learner, copy.deepcopy(history), len(history.curves["energy"]), lam)
        return {name: value for name, value in vars(fitted).items() if name not in parameters}

    def _coder(self) -> Coder:
        """Build the coder that the parameters of `transform` ask for."""
        return Coder(
            self.decoder_,
            self.encoder_,
            self._learner.units,
            replace(self._learner.energy_settings, lam=self._lam_in_force()),
            self._transform_solver(),
            debias=self.debias,
            predict=self.transform_method == "encoder",
            look_for_nan=self.missing_values == "nan",
        )

    def _reconstruct(self, Z: torch.Tensor) -> torch.Tensor:
        """Reconstructions of codes, in the units of the data."""
        Y = self._learner.units.undo(self.decoder_(Z))
        return finite(Y, f"Reconstructions are not finite: they are too large for {Y.dtype}.")

    def _lam_in_force(self) -> float:
        """Weight of the penalty of codes of new rows."""
        return self.lam_ if self.lam is None else float(self.lam)

    def _step_size(self) -> float | str:
        return self.step_size if isinstance(self.step_size, str) else float(self.step_size)

    def _transform_solver(self) -> SolverSettings:
        return SolverSettings(
            step_size=self._step_size(),
            tol=float(self.transform_tol),
            max_iter=self.transform_max_iter,
            exact=True,
        )

    def _chunks(self, X: Any) -> Iterator[torch.Tensor]:
        """Pieces of the rows, on the device that computes, small enough to bound memory."""
        width = sum(self.decoder_.layer_sizes)
        for rows in batch_slices(X.shape[0], max(_CHUNK_ROWS, _CHUNK_ELEMENTS // width)):
            yield rows_to_tensor(X[rows], self._learner.device)

    @contextmanager
    def _progress(
        self, n_epochs: int, done: int, *, hidden: bool
    ) -> Iterator[Callable[[History], None]]:
        """Bar with the current energy, share of zeros and dead components, when verbose."""
        if hidden or not self.verbose:
            yield lambda history: None
            return
        name = type(self).__name__
        with tqdm(total=n_epochs, initial=done, desc=name, unit="epoch", mininterval=0.5) as bar:

            def show(history: History) -> None:
                latest = {name: values[-1] for name, values in history.curves.items()}
                bar.set_postfix(
                    energy=f"{latest['energy']:.4f}",
                    zeros=f"{latest['sparsity']:.1%}",
                    dead=latest["dead"],
                    refresh=False,
                )
                bar.update()

            yield show

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_learner")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.input_tags.allow_nan = self.missing_values == "nan"
        return tags

    def __getstate__(self) -> dict[str, Any]:
        """Pickle weights on the CPU, so that they can be loaded without any other device.

        What training changes in place is copied: a shallow copy of an estimator can be trained
        without any effect on the original.
        """
        state = super().__getstate__().copy()
        if "_learner" in state:
            # together, because they share weights and curves
            state |= copy.deepcopy({name: state[name] for name in _CHANGED_IN_PLACE})
            state["_learner"].to("cpu")
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Move weights back to the device they were on, or to the CPU if it is missing."""
        super().__setstate__(state)
        if hasattr(self, "_learner"):
            self._move_to(self.device_)

    def _move_to(self, device: str) -> None:
        kind = device.partition(":")[0]
        self._learner.to(kind if kind in available_devices() else "cpu")
        self.device_ = str(self._learner.device)

    def _fitted_to_tree(self) -> dict[str, Any] | None:
        if not hasattr(self, "_learner"):
            return None
        names = getattr(self, "feature_names_in_", None)
        return {
            "learner": learner_to_tree(self._learner),
            "history": dict(self._history.curves),
            "n_iter": self.n_iter_,
            "lam": float(self.lam_),
            "device": self.device_,
            "feature_names": None if names is None else names.tolist(),
        }

    def _fitted_from_tree(self, tree: dict[str, Any]) -> None:
        learner = learner_from_tree(tree["learner"], self._decoder_class)
        history = History()
        history.curves.update(tree["history"])
        self._publish(learner, history, tree["n_iter"], tree["lam"])
        self.n_features_in_ = learner.decoder.n_features
        names = tree["feature_names"]
        if names is not None:
            self.feature_names_in_ = np.asarray(names, dtype=object).reshape(self.n_features_in_)
        self._move_to(tree["device"])


def _measure(units: Units, X: Rows) -> Units:
    """Take all rows into account, also those of other processes."""
    if X.group.size == 1:
        units.to(X.device)
        for part in X.parts():
            units.update(part)
        return units
    fresh = Units(units.center, units.scaled)
    for part in X.parts():
        fresh.update(part)
    return units.to("cpu").merge(fresh.merge_all(X.group))


def _warn_of_scale(X: torch.Tensor, look_for_nan: bool) -> None:
    """Warn when the default weights of the energy cannot suit the data."""
    if len(X) < 2:
        return
    some = X[:: max(1, len(X) // 10_000)]
    scale = (some[some.isnan().logical_not_()] if look_for_nan else some).std().item()
    if scale > 0 and not 1e-2 <= scale <= 1e2:
        warnings.warn(
            f"The data have a standard deviation of {scale:.1e}. The energy's terms are balanced "
            "for one near 1: use scale=True, or rescale the data.",
            UserWarning,
            stacklevel=caller_level(),
        )
