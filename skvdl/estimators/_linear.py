"""Sparse coding with a dictionary."""

import os
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.utils._param_validation import StrOptions

from .._constraints import real
from ..distributed import Rows
from ..models import LinearDecoder
from ..solvers import relative_gaps
from ..training import Learner
from ._base import BaseVDL
from ._doc import fill_doc
from ._files import savable
from ._modes import plain_torch


@savable
@fill_doc
class VarianceDictionaryLearning(BaseVDL):
    """Sparse coding with a dictionary.

    Learns a dictionary and non-negative sparse codes that minimise
    ``1/d ||x - W z - b||^2 + lam ||z||_0`` for each row, in units in which the data have mean 0
    and variance 1, with as many zeros as `target_sparsity` asks for. A small network (LISTA) is
    trained alongside to predict the codes.

    With ``penalty="l1"``, the l1 norm takes the place of the number of non-zeros, and with
    ``regularizer="variance"`` a hinge, which asks every code component for a standard deviation of
    at least `variance_threshold`, takes the place of the bound on the norms of the atoms.
    ``skvdl.paper.make("VDL", ...)`` has this combination as published.

    Parameters
    ----------
    n_components : int, default=128
        Length of a code, the number of atoms.

    init : {"autoencoder", "data", "random"}, default="autoencoder"
        How weights are initialised. "autoencoder" first trains a linear autoencoder that keeps the
        largest codes, as many as `target_sparsity` leaves or, if `lam` is given, a fifth of them,
        for at most 750 steps and 300 epochs, and takes its atoms. "data" points the atoms at
        samples drawn from the data, which `partial_fit` does instead of training an autoencoder.
        Both set the encoder to ISTA on these atoms. "random" draws all weights at random.

    penalty : {"l0", "l1"}, default="l0"
        What makes codes sparse: the number of components that are not 0, or the l1 norm. The l0
        penalty does not shrink amplitudes, and reconstructs better at equal zeros. Codes with the
        l1 norm are exact, with a certificate (`duality_gap`).

    %(parameters)s

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The atoms.

    intercept_ : ndarray of shape (n_features,)
        What a code of zeros stands for; 0 with ``center=False``.

    %(attributes)s

    See Also
    --------
    NonLinearVDL : The same with a multi-layer decoder.
    sklearn.decomposition.DictionaryLearning : Dictionary learning with bounded atoms.

    Notes
    -----
    %(notes)s

    References
    ----------
    K. Evtimova and Y. LeCun, "Sparse coding with multi-layer decoders using variance
    regularization", TMLR 2022.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skvdl import VarianceDictionaryLearning
    >>> X = load_digits().data
    >>> vdl = VarianceDictionaryLearning(32, target_sparsity=0.7, random_state=0).fit(X)
    >>> codes = vdl.transform(X)
    >>> codes.shape
    (1797, 32)
    >>> bool(0.68 < (codes == 0).mean() < 0.72)
    True
    >>> vdl.score(X) > 0.8
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseVDL._parameter_constraints,
        "init": [StrOptions({"autoencoder", "data", "random"})],
        "penalty": [StrOptions({"l0", "l1"})],
        "learning_rate_init": [real(above=0), None],
    }
    _doc_texts = {
        "meaning": """ For
        ``penalty="l0"`` it is the share of the variance that a component has to explain to be
        used. For ``penalty="l1"``, the same lasso is solved by
        :func:`sklearn.decomposition.sparse_encode` with ``alpha = lam * n_features / 2`` and by
        :class:`sklearn.linear_model.Lasso` with ``alpha = lam / 2``.""",
        "rate": """float or None
        Initial learning rate of the decoder. By default atoms of unit norm have none: they
        minimise the error over running statistics of data and codes, block by block. With
        another regularizer it is then 0.005.""",
    }
    _auto_steps = 1500
    _first_lam = 0.003
    _decoder_class = LinearDecoder
    _feature_prefix = "vdl"

    def __init__(
        self,
        n_components: int = 128,
        *,
        init: str = "autoencoder",
        penalty: str = "l0",
        lam: float | None = None,
        target_sparsity: float = 0.8,
        debias: bool = True,
        center: bool = True,
        scale: bool = True,
        beta: float = 10.0,
        gamma: float = 0.0,
        variance_threshold: float = 0.5,
        regularizer: str | None = "unit_norm",
        weight_decay: float = 5e-4,
        encoder: str | None = "lista",
        positive_code: bool = True,
        transform_method: str = "fista",
        transform_tol: float = 1e-4,
        transform_max_iter: int = 2000,
        missing_values: str | None = None,
        sparse_output: bool = False,
        max_iter: int | str = "auto",
        batch_size: int = 250,
        learning_rate: str | int = "cosine",
        learning_rate_init: float | None = None,
        encoder_learning_rate_init: float = 5e-4,
        bias_decay: tuple[float, float] = (0.0, 0.0),
        inference_max_iter: int = 15,
        step_size: float | str = "auto",
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int | None = 10,
        tol: float = 1e-4,
        revive_dead: bool = False,
        warm_start: bool = False,
        checkpoint: str | os.PathLike[str] | None = None,
        distributed: bool = False,
        random_state: int | np.random.RandomState | None = None,
        device: str = "auto",
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.init = init
        self.penalty = penalty
        self.lam = lam
        self.target_sparsity = target_sparsity
        self.debias = debias
        self.center = center
        self.scale = scale
        self.beta = beta
        self.gamma = gamma
        self.variance_threshold = variance_threshold
        self.regularizer = regularizer
        self.weight_decay = weight_decay
        self.encoder = encoder
        self.positive_code = positive_code
        self.transform_method = transform_method
        self.transform_tol = transform_tol
        self.transform_max_iter = transform_max_iter
        self.missing_values = missing_values
        self.sparse_output = sparse_output
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.learning_rate_init = learning_rate_init
        self.encoder_learning_rate_init = encoder_learning_rate_init
        self.bias_decay = bias_decay
        self.inference_max_iter = inference_max_iter
        self.step_size = step_size
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.revive_dead = revive_dead
        self.warm_start = warm_start
        self.checkpoint = checkpoint
        self.distributed = distributed
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    @property
    def components_(self) -> np.ndarray:
        """Atoms of the fitted dictionary, one per row.

        Returns
        -------
        ndarray of shape (n_components, n_features)
            What each component adds to a reconstruction, in the units of the data:
            reconstructions are ``codes @ components_ + intercept_``.
        """
        return self._learner.units.scale * self.decoder_.atoms().cpu().numpy()

    @property
    def intercept_(self) -> np.ndarray:
        """What a code of zeros stands for, learnt with the atoms from the mean of the data on.

        Returns
        -------
        ndarray of shape (n_features,)
            Intercept in the units of the data.
        """
        nothing = torch.zeros(1, self.decoder_.n_components, dtype=self.decoder_.dtype)
        return self.inverse_transform(nothing.numpy())[0]

    @plain_torch
    def duality_gap(self, X: ArrayLike) -> Any:
        """Bound how far the energy of codes is above its minimum.

        Parameters
        ----------
        X : {array-like, torch.Tensor} of shape (n_samples, n_features)
            Data.

        Returns
        -------
        gap : ndarray or torch.Tensor of shape (n_samples,)
            Upper bound, for each row, of the difference between the energy of its code and the
            minimum, relative to the energy. The code is the one that `transform` computes, before
            it is refitted if ``debias=True``. The gap is large for codes of the encoder, and at
            most `transform_tol` for ``transform_method="fista"`` if that converged.

        Raises
        ------
        ValueError
            If ``lam=0``, for which there is no gap, or if entries of `X` are missing.
        """
        data, container = self._validate_fitted(X)
        if self._learner.energy_settings.penalty != "l1":
            raise ValueError('There is no duality gap for penalty="l0"; use penalty="l1".')
        if not self._lam_in_force():
            raise ValueError(
                "There is no duality gap for lam=0: without the l1 norm no point of the dual "
                "problem can be computed from the codes."
            )
        coder = self._coder()
        coder.debias = False
        if coder.look_for_nan and bool(data.isnan().any()):
            raise ValueError("Input X contains NaN; duality_gap needs complete rows.")
        gaps = (
            relative_gaps(self.decoder_, coder.units.apply(Y), coder(Y), coder.energy_settings)
            for Y in self._chunks(data)
        )
        found = container.join(map(container.dense, gaps), len(data))
        coder.warn()
        return found

    def _make_decoder(
        self, n_features: int, generator: torch.Generator, dtype: torch.dtype
    ) -> LinearDecoder:
        return LinearDecoder(
            self.n_components, n_features, bias=self.center, generator=generator, dtype=dtype
        )

    def _penalty(self) -> str:
        return self.penalty

    def _start(
        self,
        learner: Learner,
        X: Rows,
        index: torch.Tensor,
        generator: torch.Generator,
        *,
        stream: bool,
    ) -> None:
        if self.init == "autoencoder" and not stream:
            learner.start_from_autoencoder(X, index, generator)
        elif self.init != "random":
            learner.start_from(X, index, generator)


VDL = VarianceDictionaryLearning
