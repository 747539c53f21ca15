"""The scikit-learn contract, once: validate, arrays to tensors, engine, tensors to arrays."""

import copy
import math
import warnings
from contextlib import contextmanager
from numbers import Integral, Real

import torch
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    _fit_context,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted
from tqdm.auto import tqdm

from ._containers import codes_to_tensor, data_to_tensor, rows_to_tensor
from ._torch import available_devices, resolve_device
from .encoders import LISTA
from .inference import duality_gap, fista
from .learner import InferenceSettings, Learner, TrainingSettings, batch_slices
from .regularizers import make_regularizer
from .training import History, is_finite, run_epoch, train

# max_iter="auto": epochs that make this many steps, within the limits of `_auto_epochs`
_AUTO_STEPS = 3000
# Rows of a chunk in transform: as many as keep its tensors near 16 MB each, but at least some.
_CHUNK_ELEMENTS = 2**21
_CHUNK_ROWS = 256


class BaseVDL(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """What both estimators share: everything but the decoder."""

    _parameter_constraints = {
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "lam": [Interval(Real, 0, None, closed="left")],
        "beta": [Interval(Real, 0, None, closed="left")],
        "gamma": [Interval(Real, 0, None, closed="left")],
        "variance_threshold": [Interval(Real, 0, None, closed="neither")],
        "regularizer": [StrOptions({"variance", "unit_norm", "weight_decay"}), None],
        "weight_decay": [Interval(Real, 0, None, closed="left")],
        "encoder": [StrOptions({"lista"}), None],
        "positive_code": ["boolean"],
        "transform_method": [StrOptions({"encoder", "fista"})],
        "transform_tol": [Interval(Real, 0, None, closed="left")],
        "transform_max_iter": [Interval(Integral, 1, None, closed="left")],
        "sparse_output": ["boolean"],
        "max_iter": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "batch_size": [Interval(Integral, 2, None, closed="left")],
        "learning_rate": [StrOptions({"cosine", "constant"})],
        "learning_rate_init": [Interval(Real, 0, None, closed="neither")],
        "encoder_learning_rate_init": [Interval(Real, 0, None, closed="neither")],
        "halve_every": [Interval(Integral, 1, None, closed="left"), None],
        "decoder_bias_decay": [Interval(Real, 0, None, closed="left")],
        "encoder_bias_decay": [Interval(Real, 0, None, closed="left")],
        "inference_max_iter": [Interval(Integral, 1, None, closed="left")],
        "inference_tol": [Interval(Real, 0, None, closed="left")],
        "step_size": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto", "adaptive"})],
        "compile": ["boolean"],
        "early_stopping": ["boolean"],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left"), None],
        "tol": [Interval(Real, 0, None, closed="left")],
        "revive_dead": ["boolean"],
        "warm_start": ["boolean"],
        "shuffle": ["boolean"],
        "random_state": ["random_state"],
        "device": [StrOptions({"auto", "cpu", "cuda", "mps"})],
        "verbose": ["verbose"],
    }

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None):
        """Learn decoder and encoder from data.

        Parameters
        ----------
        X : {array-like, torch.Tensor} of shape (n_samples, n_features)
            Data, best with a standard deviation near 1.
        y : None
            Ignored.

        Returns
        -------
        self : object
            The fitted estimator. After an interrupt it has what was learnt until then, after
            divergence the weights of the last good epoch.
        """
        with self._unchanged_on_error():
            goes_on = self.warm_start and hasattr(self, "_learner")
            X = self._validate(X, reset=not goes_on, min_samples=2)[0]
            device = resolve_device(self.device, X.dtype)
            _warn_of_scale(X)
            generator = self._make_generator()
            X, X_validation = self._split(X, generator)
            n_batches = len(batch_slices(len(X), self.batch_size))
            learner = self._make_learner(X, generator, device, n_batches, goes_on)
            history = History()
            try:
                with _progress(self, learner.training.max_iter) as on_epoch:
                    train(
                        learner,
                        X,
                        generator=generator,
                        X_validation=X_validation,
                        history=history,
                        on_epoch=on_epoch,
                    )
            except FloatingPointError as error:
                if not history.curves["energy"]:
                    raise
                stopped = error
            except KeyboardInterrupt as error:
                stopped = error
            else:
                stopped = None
            self._publish(learner, history, len(history.curves["energy"]))
        if stopped is not None:
            raise stopped
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y=None):
        """Go through data once, in the order given, at constant learning rates.

        Parameters
        ----------
        X : {array-like, torch.Tensor} of shape (n_samples, n_features)
            More data; cut into batches if it has more rows than `batch_size`. With
            ``regularizer="variance"`` at least two rows, for one has no variance.
        y : None
            Ignored.

        Returns
        -------
        self : object
            The estimator, fitted a little further.
        """
        with self._unchanged_on_error():
            first = not hasattr(self, "_learner")
            min_samples = 2 if self.regularizer == "variance" else 1
            X = self._validate(X, reset=first, min_samples=min_samples)[0]
            device = resolve_device(self.device, X.dtype)
            n_batches = len(batch_slices(len(X), self.batch_size))
            generator = self._make_generator() if first else None
            learner = self._make_learner(X, generator, device, n_batches, goes_on=not first)
            means, used = run_epoch(learner, X, order=None)
            if not is_finite(means, learner):
                raise FloatingPointError(
                    "The energy of these rows is not finite, so they were not learnt from. "
                    "Scale the data to a standard deviation near 1 or lower the learning rates."
                )
            history = History() if first else self._history
            history.append(**means, dead=int(used.logical_not().sum()))
            self._publish(learner, history, 1 if first else self.n_iter_ + 1)
        return self

    def transform(self, X):
        """Compute the codes of data, each row by itself.

        Parameters
        ----------
        X : {array-like, torch.Tensor} of shape (n_samples, n_features)
            Data.

        Returns
        -------
        codes : ndarray, torch.Tensor or CSR matrix of shape (n_samples, n_components)
            The codes, in the kind of container the data came in.
        """
        check_is_fitted(self)
        X, container = self._validate(X, reset=False)
        wrap = container.sparse if self.sparse_output else container.dense
        infer = self._code_function()
        return container.join((wrap(infer(Y)) for Y in self._chunks(X)), len(X))

    def inverse_transform(self, X):
        """Reconstruct data from codes.

        Parameters
        ----------
        X : {array-like, sparse matrix, torch.Tensor} of shape (n_samples, n_components)
            Codes.

        Returns
        -------
        X_hat : ndarray or torch.Tensor of shape (n_samples, n_features)
            Reconstructions.
        """
        check_is_fitted(self)
        Z, container = codes_to_tensor(X, self._weight_dtype)
        if Z.shape[1] != self._n_features_out:
            raise ValueError(
                f"X has {Z.shape[1]} columns, but codes of this {type(self).__name__} have "
                f"{self._n_features_out}."
            )
        with torch.no_grad():
            parts = (container.dense(self.decoder_(part)) for part in self._chunks(Z))
            return container.join(parts, Z.shape[0])

    def score(self, X, y=None):
        """Share of the variance of data that their reconstruction explains.

        It knows nothing of sparsity: used alone to choose `lam`, it always prefers the least.

        Parameters
        ----------
        X : {array-like, torch.Tensor} of shape (n_samples, n_features)
            Data.
        y : None
            Ignored.

        Returns
        -------
        score : float
            ``1 - ||X - X_hat||^2 / ||X - mean(X)||^2``: 1 is perfect, 0 no better than the mean.
        """
        check_is_fitted(self)
        X = self._validate(X, reset=False)[0]
        infer = self._code_function()
        mean = X.mean(dim=0).to(self._learner.device)
        error = total = 0.0
        with torch.no_grad():
            for Y in self._chunks(X):
                error += (Y - self.decoder_(infer(Y))).square().sum().item()
                total += (Y - mean).square().sum().item()
        if bool((X.amax(dim=0) == X.amin(dim=0)).all()):
            return 1.0 if error == 0 else 0.0
        return 1.0 - error / total

    def _gaps(self, X):
        """Relative duality gap of each row's codes, for a linear decoder."""
        check_is_fitted(self)
        X, container = self._validate(X, reset=False)
        infer = self._code_function()
        options = {"lam": self.lam, "positive": self.positive_code}
        gaps = (duality_gap(Y, self.decoder_, infer(Y), **options) for Y in self._chunks(X))
        return container.join(map(container.dense, gaps), len(X))

    @property
    def _n_features_out(self):
        return self.decoder_.weights[0].shape[1]

    @property
    def _weight_dtype(self):
        return self.decoder_.weights[0].dtype

    def _validate(self, X, *, reset, min_samples=1):
        dtype = None if reset else self._weight_dtype
        return data_to_tensor(self, X, reset=reset, dtype=dtype, min_samples=min_samples)

    @contextmanager
    def _unchanged_on_error(self):
        """Leave the estimator as it was when what is inside raises."""
        before = vars(self).copy()
        try:
            yield
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise

    def _make_generator(self):
        """Generator for weights and shuffling; no global random state is read or changed."""
        generator = torch.Generator(device="cpu")
        if self.random_state is None:
            generator.seed()
        else:
            generator.manual_seed(int(check_random_state(self.random_state).randint(2**31 - 1)))
        return generator

    def _split(self, X, generator):
        """Training rows and, with early stopping, validation rows."""
        if not self.early_stopping:
            return X, None
        n_validation = max(1, round(self.validation_fraction * len(X)))
        if len(X) - n_validation < 2:
            raise ValueError(
                f"validation_fraction={self.validation_fraction} of {len(X)} samples leaves fewer "
                "than 2 to learn from; use early_stopping=False or more data."
            )
        order = torch.randperm(len(X), generator=generator, device=generator.device).to(X.device)
        return X[order[n_validation:]], X[order[:n_validation]]

    def _settings(self, n_batches):
        epochs = self.max_iter
        if epochs == "auto":
            least, most = self._auto_epochs
            epochs = min(most, max(least, math.ceil(_AUTO_STEPS / n_batches)))
        inference = InferenceSettings(
            lam=self.lam,
            gamma=self.gamma,
            variance_threshold=self.variance_threshold,
            positive=self.positive_code,
            step_size=self.step_size,
            max_iter=self.inference_max_iter,
            tol=self.inference_tol,
            compile=self.compile,
        )
        training = TrainingSettings(
            batch_size=self.batch_size,
            max_iter=epochs,
            learning_rate=self.learning_rate,
            learning_rate_init=self.learning_rate_init,
            encoder_learning_rate_init=self.encoder_learning_rate_init,
            halve_every=self.halve_every,
            decoder_bias_decay=self.decoder_bias_decay,
            encoder_bias_decay=self.encoder_bias_decay,
            shuffle=self.shuffle,
            n_iter_no_change=self.n_iter_no_change,
            tol=self.tol,
            revive_dead=self.revive_dead,
        )
        guard = make_regularizer(self.regularizer, beta=self.beta, weight_decay=self.weight_decay)
        return guard, inference, training

    def _make_learner(self, X, generator, device, n_batches, goes_on):
        settings = self._settings(n_batches)
        if goes_on:
            learner = copy.deepcopy(self._learner).to(device)
            self._check_same_shape(learner)
            learner.configure(*settings)
            return learner
        decoder = self._make_decoder(X, generator)
        encoder = None
        if self.encoder is not None:
            encoder = LISTA(
                X.shape[1],
                self.n_components,
                positive=self.positive_code,
                generator=generator,
                dtype=X.dtype,
            )
        learner = Learner(decoder, encoder, *settings)
        self._initialise(learner, X, generator)
        return learner.to(device)

    def _initialise(self, learner, X, generator):
        """Improve on random weights, if there is a way."""

    def _check_same_shape(self, learner):
        """Refuse to go on with a model that the parameters no longer describe."""
        wanted = [self.n_components, *getattr(self, "hidden_layer_sizes", ()), self.n_features_in_]
        weights = learner.decoder.weights
        built = [weights[0].shape[1], *(weight.shape[0] for weight in weights)]
        encoder = None if learner.encoder is None else "lista"
        positive = self.positive_code if encoder is None else learner.encoder.threshold is None
        if (built, encoder, positive) != (wanted, self.encoder, self.positive_code):
            raise ValueError(
                f"The fitted model has layers {built}, encoder={encoder!r} and positive_code="
                f"{positive}, the parameters ask for {wanted}, {self.encoder!r} and "
                f"{self.positive_code}: training cannot go on. Use warm_start=False and fit to "
                "start anew."
            )

    def _publish(self, learner, history, n_iter):
        """Set every fitted attribute."""
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

    def _code_function(self):
        """Choose the function from a chunk of data to its codes."""
        if self.transform_method not in ("encoder", "fista"):
            raise ValueError(
                f"transform_method={self.transform_method!r} must be 'encoder' or 'fista'."
            )
        if self.transform_method == "encoder" and self.encoder_ is not None:
            return torch.no_grad()(self.encoder_)
        return self._fista_codes

    def _fista_codes(self, Y):
        with torch.no_grad():
            init = None if self.encoder_ is None else self.encoder_(Y)
        found = fista(
            Y,
            self.decoder_,
            init=init,
            lam=self.lam,
            positive=self.positive_code,
            step_size="adaptive" if self.step_size == "auto" else self.step_size,
            max_iter=self.transform_max_iter,
            tol=self.transform_tol,
            gap_tol=self.transform_tol,
        )
        missed = int(found.converged.logical_not().sum())
        if missed:
            warnings.warn(
                f"The codes of {missed} of {len(Y)} rows are not within transform_tol="
                f"{self.transform_tol} after transform_max_iter={self.transform_max_iter} "
                "iterations; raise either.",
                ConvergenceWarning,
                stacklevel=3,
            )
        return found.codes

    def _chunks(self, X):
        """Pieces of the rows, on the device that computes, small enough to bound memory."""
        widest = sum(sum(weight.shape) for weight in self.decoder_.weights)
        for rows in batch_slices(X.shape[0], max(_CHUNK_ROWS, _CHUNK_ELEMENTS // widest)):
            yield rows_to_tensor(X[rows], self._learner.device)

    def __sklearn_is_fitted__(self):
        return hasattr(self, "_learner")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def __getstate__(self):
        """Pickle weights on the CPU, so that they open where no other device is."""
        state = super().__getstate__().copy()
        if "_learner" in state:
            learner = copy.deepcopy(self._learner).to("cpu")
            state.update(_learner=learner, decoder_=learner.decoder, encoder_=learner.encoder)
        return state

    def __setstate__(self, state):
        """Bring weights back to the device they were on, or to the CPU where it is missing."""
        super().__setstate__(state)
        if hasattr(self, "_learner"):
            kind = self.device_.partition(":")[0]
            self._learner.to(kind if kind in available_devices() else "cpu")
            self.device_ = str(self._learner.device)


def _warn_of_scale(X):
    """Warn when the default weights of the energy cannot suit the data."""
    scale = X[:: max(1, len(X) // 10_000)].std().item()
    if scale and not 1e-2 <= scale <= 1e2:
        warnings.warn(
            f"The data have a standard deviation of {scale:.1e}. The energy's terms are balanced "
            "for one near 1: rescale the data, or lam, beta and variance_threshold with them.",
            UserWarning,
            stacklevel=4,
        )


@contextmanager
def _progress(estimator, n_epochs):
    """Bar with the current energy, share of zeros and dead components, when verbose."""
    if not estimator.verbose:
        yield None
        return
    with tqdm(total=n_epochs, desc=type(estimator).__name__, unit="epoch", mininterval=0.5) as bar:

        def on_epoch(history):
            latest = {name: values[-1] for name, values in history.curves.items()}
            bar.set_postfix(
                energy=f"{latest['energy']:.4f}",
                zeros=f"{latest['sparsity']:.1%}",
                dead=latest["dead"],
                refresh=False,
            )
            bar.update()

        yield on_epoch
