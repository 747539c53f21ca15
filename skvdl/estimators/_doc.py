"""Documentation that both estimators share; defaults come from their signatures."""

import inspect
from typing import TypeVar

from ._base import BaseVDL

T = TypeVar("T", bound=BaseVDL)

_PARAMETERS = {
    "lam": """float or None
        Weight of the penalty: the larger, the more zeros. By default it is found in `fit`, such
        that codes have a share of `target_sparsity` zeros, and kept as `lam_`.%(meaning)s""",
    "target_sparsity": """float
        Share of zeros that the codes of new rows should have, for ``lam=None``. Data of d features
        determine d amplitudes per row: with more than ``d / (1 - target_sparsity)`` components,
        codes may end with fewer zeros than this, and a larger share suits them better.""",
    "debias": """bool
        Whether amplitudes are refitted: a penalty makes them too small, and least squares on the
        support of a code (non-negative if codes are) makes them right. For a network, some steps
        lower the error on the support. The encoder then only has to find the support, and its
        codes have as many zeros as exact ones.""",
    "center": """bool
        Whether to subtract the mean of each feature. A dictionary then also learns an intercept,
        because the mean is not what codes of zeros stand for best.""",
    "scale": """bool
        Whether to divide by one scale for all features, the root mean square of what centring
        leaves. With both, codes do not depend on the units of the data.""",
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
        When FISTA stops in `transform`. For a dictionary with the l1 norm: at this duality gap
        relative to the energy. In all other cases, and with a number as `step_size` or ``lam=0``:
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
        Maximum number of epochs. "auto" takes as many as make %(steps)s steps, at least one and at
        most 500. It holds out a tenth of the rows, of a few hundred up to a fifth, and stops when
        their energy no longer improves.""",
    "batch_size": """int
        Rows per batch. The hinge measures the spread of a component over one batch.""",
    "learning_rate": """{"cosine", "constant"} or int
        Schedule of the learning rates: both decay to zero over the epochs, or both stay
        constant. With an integer, the decoder's rate is halved each time that many epochs have
        passed, and the encoder's stays constant.""",
    "learning_rate_init": """%(rate)s""",
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
    "checkpoint": """str, path or None
        Folder in which `fit` keeps its state while it runs. If it is killed, the same call goes on
        from there, and the result is the same. A finished `fit` removes its file. See
        :ref:`checkpoints`.""",
    "distributed": """bool
        Whether `fit` and `partial_fit` are called in several processes, started by torchrun, each
        with its part of the data. All of them end with the model that a single process learns
        from all parts. See :ref:`scaling`.""",
    "random_state": """int, RandomState instance or None
        Seed of the initial weights, the shuffling and the validation split.""",
    "device": """{"auto", "cpu", "cuda", "mps"}
        Where to compute; "auto" takes the best device present.""",
    "verbose": """int
        Whether to show a progress bar.""",
}

_ATTRIBUTES = """lam_ : float
        Weight of the penalty: `lam`, or what was found for `target_sparsity`.

    mean_ : ndarray of shape (n_features_in_,) or None
        What `center` subtracts.

    scale_ : float
        What `scale` divides by.

    decoder_ : torch.nn.Module
        The decoder, of codes to data without their mean and scale.

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
        Energy, its four terms (unweighted), sparsity, lam and dead components of each epoch.

    n_dead_components_ : int
        Number of components that no row of the last epoch used.

    device_ : str
        Where the weights are.

    n_features_in_ : int
        Number of features seen in `fit`.

    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, if `X` had any."""

_NOTES = """After `fit`, the methods `transform`, `score` and `duality_gap` read `lam`, `debias`,
    `step_size`, `missing_values`, `sparse_output` and the parameters whose names begin with
    ``transform_``. These can be changed with `set_params` without fitting again, and are validated
    when they are used. All other parameters take effect in the next `fit` or `partial_fit`."""


def fill_doc(cls: type[T]) -> type[T]:
    """Insert the documentation that both classes share into their docstrings."""
    if cls.__doc__ is None:  # python -OO
        return cls
    signature = inspect.signature(cls)
    values = {"steps": cls._auto_steps, **cls._doc_texts}
    entries = []
    for name, text in _PARAMETERS.items():
        kind, _, description = (text % values).partition("\n")
        default = signature.parameters[name].default
        entries.append(f"{name} : {kind}, default={_literal(default)}\n{description}")
    cls.__doc__ = (
        cls.__doc__.replace("%(parameters)s", "\n\n    ".join(entries))
        .replace("%(attributes)s", _ATTRIBUTES)
        .replace("%(notes)s", _NOTES)
    )
    return cls


def _literal(value: object) -> str:
    """How a default is written: as in the source, with double quotes."""
    return f'"{value}"' if isinstance(value, str) else repr(value)
