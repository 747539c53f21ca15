"""Documentation that both estimators share; defaults come from their signatures."""

import inspect
from typing import TypeVar

from ._base import AUTO_EPOCHS_MOST, AUTO_STEPS, BaseVDL

T = TypeVar("T", bound=BaseVDL)

_PARAMETERS = {
    "lam": """float
        Weight of the l1 norm of the codes: the larger, the more zeros. For data with a standard
        deviation near 1, from 0.001 (few zeros) to 0.02 (nine in ten on MNIST). The same lasso
        is solved by :func:`sklearn.decomposition.sparse_encode` with
        ``alpha = lam * n_features / 2`` and by :class:`sklearn.linear_model.Lasso` with
        ``alpha = lam / 2``.""",
    "beta": """float
        Weight of the variance hinge per 250 rows, for ``regularizer="variance"``. It means the
        same whatever the `batch_size`.""",
    "gamma": """float
        Weight of the distance between the codes and the encoder's prediction in `fit`.""",
    "variance_threshold": """float
        Standard deviation over a batch that the hinge asks of every code component.""",
    "regularizer": """{"variance", "unit_norm", "weight_decay"} or None
        What keeps the codes from collapsing: the variance hinge, columns of unit norm in every
        layer, weight decay on the decoder, or nothing.""",
    "weight_decay": """float
        Strength of the decay, for ``regularizer="weight_decay"``.""",
    "encoder": """{"lista"} or None
        Network that learns to predict the codes. Without one, codes come from FISTA.""",
    "positive_code": """bool
        Whether codes are non-negative.""",
    "transform_method": """{"encoder", "fista"}
        How `transform` computes codes: the encoder's prediction, or the minimum of the energy
        of each row. Without an encoder always the latter.""",
    "transform_tol": """float
        When FISTA stops in `transform`. For a dictionary: at this duality gap relative to the
        energy. For a network, and for a dictionary with a number as `step_size` or with ``lam=0``:
        when a code is this close to its minimum relative to its norm, judged by its last step.""",
    "transform_max_iter": """int
        Maximum number of FISTA iterations in `transform`.""",
    "missing_values": """{"nan"} or None
        With "nan", rows may have missing entries, marked by NaN. Learning and `score` count the
        entries that are seen. `transform` minimises the energy over these for incomplete rows,
        whatever the `transform_method`. By default NaN is an error.""",
    "sparse_output": """bool
        Whether `transform` returns a CSR matrix.""",
    "max_iter": """int or "auto"
        Maximum number of epochs. "auto" takes as many as make %(steps)s steps, between %(least)s
        and %(most)s.""",
    "batch_size": """int
        Rows per batch. The hinge measures the spread of a component over one batch.""",
    "learning_rate": """{"cosine", "constant"} or int
        Schedule of the learning rates: both decay to zero over the epochs, or both stay
        constant. With an integer, the decoder's rate is halved each time that many epochs have
        passed, and the encoder's stays constant.""",
    "learning_rate_init": """float
        Initial learning rate of the decoder.""",
    "encoder_learning_rate_init": """float
        Initial learning rate of the encoder.""",
    "bias_decay": """tuple of two floats
        Weight decay of the biases, of the decoder (if it has any) and of the encoder.""",
    "inference_max_iter": """int
        Maximum number of FISTA iterations per batch in `fit`.""",
    "step_size": """float or "auto"
        Step of FISTA. "auto" takes it from the curvature and never lets the energy rise. For a
        network, it adapts to the curvature that each row or batch meets. A number gives FISTA as
        published.""",
    "early_stopping": """bool
        Whether to set rows aside, stop when their energy no longer improves, and keep the best
        epoch.""",
    "validation_fraction": """float
        Share of rows to set aside, for ``early_stopping=True``.""",
    "n_iter_no_change": """int or None
        Number of epochs without an improvement of the validation energy after which
        ``early_stopping=True`` stops. None never stops before `max_iter`, but still keeps the
        best epoch.""",
    "tol": """float
        Relative improvement of the validation energy that counts, for ``early_stopping=True``.""",
    "revive_dead": """bool
        Whether components that no row of an epoch used are reset, to point at rows that are
        reconstructed badly.""",
    "warm_start": """bool
        Whether `fit` continues from the result of the previous call.""",
    "random_state": """int, RandomState instance or None
        Seed of the initial weights, the shuffling and the validation split.""",
    "device": """{"auto", "cpu", "cuda", "mps"}
        Where to compute; "auto" takes the best device present.""",
    "verbose": """int
        Whether to show a progress bar.""",
}

_ATTRIBUTES = """decoder_ : torch.nn.Module
        The decoder.

    encoder_ : torch.nn.Module or None
        The encoder.

    n_iter_ : int
        Number of epochs run.

    n_steps_ : int
        Number of batches learnt from.

    loss_curve_ : list of float
        Mean energy of each epoch's rows.

    validation_curve_ : list of float or None
        Mean energy of the validation rows after each epoch.

    history_ : dict of list
        Energy, its four terms (unweighted), sparsity and dead components of each epoch.

    n_dead_components_ : int
        Number of components that no row of the last epoch used.

    device_ : str
        Where the weights are.

    n_features_in_ : int
        Number of features seen in `fit`.

    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, if `X` had any."""

_NOTES = """After `fit`, the methods `transform`, `score` and `duality_gap` read `lam`, `step_size`,
    `missing_values`, `sparse_output` and the parameters whose names begin with ``transform_``.
    These can be changed with `set_params` without fitting again, and are validated when they are
    used. All other parameters take effect in the next `fit` or `partial_fit`."""


def fill_doc(cls: type[T]) -> type[T]:
    """Insert the documentation that both classes share into their docstrings."""
    if cls.__doc__ is None:  # python -OO
        return cls
    signature = inspect.signature(cls)
    entries = []
    for name, text in _PARAMETERS.items():
        kind, _, description = text.partition("\n")
        default = signature.parameters[name].default
        entries.append(f"{name} : {kind}, default={_literal(default)}\n{description}")
    auto = {"steps": AUTO_STEPS, "least": cls._auto_epochs_least, "most": AUTO_EPOCHS_MOST}
    cls.__doc__ = (
        cls.__doc__.replace("%(parameters)s", "\n\n    ".join(entries) % auto)
        .replace("%(attributes)s", _ATTRIBUTES)
        .replace("%(notes)s", _NOTES)
    )
    return cls


def _literal(value: object) -> str:
    """How a default is written: as in the source, with double quotes."""
    return f'"{value}"' if isinstance(value, str) else repr(value)
