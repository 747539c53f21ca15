"""Sparse coding with a multi-layer decoder."""

import os
from collections.abc import Sequence
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
import torch

from .._constraints import whole
from ..models import NetworkDecoder
from ._base import BaseVDL
from ._doc import fill_doc
from ._files import savable


@savable
@fill_doc
class NonLinearVDL(BaseVDL):
    """Sparse coding with a multi-layer decoder whose codes are kept from collapsing.

    A network with relu hidden layers takes the place of the dictionary of
    :class:`VarianceDictionaryLearning`, and codes minimise
    ``1/d ||x - D(z)||^2 + lam ||z||_1`` for each row plus a hinge that asks every code component
    for a standard deviation of at least `variance_threshold`. A network has no atoms whose norms
    could be bounded; the hinge works for any decoder.

    Parameters
    ----------
    n_components : int, default=128
        Length of a code.

    hidden_layer_sizes : int or tuple of int, default=(1024,)
        Width of each hidden layer of the decoder, from the code outwards. A single number is the
        width of the only hidden layer.

    %(parameters)s

    Attributes
    ----------
    %(attributes)s

    See Also
    --------
    VarianceDictionaryLearning : The same with a linear decoder.

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
    >>> from skvdl import NonLinearVDL
    >>> X = load_digits().data
    >>> vdl = NonLinearVDL(32, hidden_layer_sizes=64, max_iter=50, random_state=0).fit(X)
    >>> codes = vdl.transform(X)
    >>> codes.shape
    (1797, 32)
    >>> vdl.score(X) > 0.5
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseVDL._parameter_constraints,
        "hidden_layer_sizes": ["array-like", whole(1)],
    }
    _doc_texts = {
        "meaning": "",
        "rate": """float
        Initial learning rate of the decoder.""",
    }
    _auto_steps = 6000
    _first_lam = 0.005
    _decoder_class = NetworkDecoder
    _feature_prefix = "vdlnl"

    def __init__(
        self,
        n_components: int = 128,
        *,
        hidden_layer_sizes: int | Sequence[int] = (1024,),
        lam: float | None = None,
        target_sparsity: float = 0.8,
        debias: bool = True,
        center: bool = True,
        scale: bool = True,
        beta: float = 10.0,
        gamma: float = 100.0,
        variance_threshold: float = 0.5,
        regularizer: str | None = "variance",
        weight_decay: float = 5e-4,
        encoder: str | None = "lista",
        positive_code: bool = True,
        transform_method: str = "encoder",
        transform_tol: float = 1e-3,
        transform_max_iter: int = 2000,
        missing_values: str | None = None,
        sparse_output: bool = False,
        max_iter: int | str = "auto",
        batch_size: int = 125,
        learning_rate: str | int = "cosine",
        learning_rate_init: float = 1e-3,
        encoder_learning_rate_init: float = 1e-3,
        bias_decay: tuple[float, float] = (1e-3, 0.0),
        inference_max_iter: int = 200,
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
        self.hidden_layer_sizes = hidden_layer_sizes
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

    def _layer_sizes(self, n_features: int) -> list[int]:
        given: Any = self.hidden_layer_sizes
        sizes = (
            [given] if isinstance(given, Integral) else (list(given) if np.ndim(given) == 1 else [])
        )
        width = whole(1)
        if not sizes or not all(width.is_satisfied_by(s) for s in sizes):
            raise ValueError(
                f"hidden_layer_sizes={given!r} must hold the width of at least one hidden layer, "
                "positive integers; use VarianceDictionaryLearning for a decoder without any."
            )
        return [self.n_components, *map(int, sizes), n_features]

    def _make_decoder(
        self, n_features: int, generator: torch.Generator, dtype: torch.dtype
    ) -> NetworkDecoder:
        n_components, *hidden, _ = self._layer_sizes(n_features)
        return NetworkDecoder(n_components, hidden, n_features, generator=generator, dtype=dtype)


VDLNL = NonLinearVDL
