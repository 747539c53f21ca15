"""What tells one fit from another: parameters, data and where it starts from."""

import hashlib
import json
from typing import Any

import numpy as np
import torch

from .._caller import caller_level
from .._version import __version__
from ..distributed import Rows, Shard
from ..training import Checkpoint, Learner, hash_tree

# Parameters that the state of training does not depend on. The seed and the device in use stand
# for two of them.
_WITHOUT_EFFECT = {
    "checkpoint",
    "device",
    "distributed",
    "random_state",
    "sparse_output",
    "transform_method",
    "verbose",
    "warm_start",
}
# Numbers that are hashed together, to bound memory.
_CHUNK_ELEMENTS = 2**21


def find_checkpoint(
    checkpoint: Checkpoint,
    estimator: Any,
    X: Rows,
    generator: torch.Generator,
    device: torch.device,
    start: Learner | None,
) -> None:
    """Look for the state of this very fit, if there is a folder for it.

    Parameters
    ----------
    checkpoint : Checkpoint
        Where to look.
    estimator : estimator
        The estimator.
    X : Rows of shape (n_samples, n_features)
        Data. If several processes share them, all of them get the state that the first one finds.
    generator : torch.Generator
        Source of all randomness, with its seed. If a state is found that was drawn at random, the
        generator gets the seed with which that fit began.
    device : torch.device
        Where training takes place.
    start : Learner or None
        What training goes on from, for a warm start.
    """
    if estimator.checkpoint is None:
        return
    parameters = {
        name: _plain(value)
        for name, value in estimator.get_params(deep=False).items()
        if name not in _WITHOUT_EFFECT
    }
    parameters["seed"] = None if estimator.random_state is None else generator.initial_seed()
    parameters["device"] = device.type
    known = json.dumps(parameters, sort_keys=True, default=repr)
    identity = {
        "estimator": type(estimator).__qualname__,
        "set of parameters": hashlib.sha256(known.encode()).hexdigest(),
        "data set": hash_data(X),
        "start": None if start is None else hash_tree([start.state(), start.n_steps]),
    }
    # the start is in both parts: fits with different ones are not similar
    first, second = (
        hash_tree([identity[key], identity["estimator"], identity["start"]])[:16]
        for key in ("set of parameters", "data set")
    )
    name = type(estimator).__name__
    checkpoint.find(
        f"{name}-{first}-{second}",
        {**identity, "version of skvdl": __version__},
        caller_level(),
        {f"{name}-{first}-*": "other data", f"{name}-*-{second}*": "other parameters"},
    )
    if X.group.size > 1:
        checkpoint.saved = X.group.exchange(checkpoint.saved)[0]
    if checkpoint.saved is not None:
        generator.manual_seed(checkpoint.saved["seed"])


def hash_data(X: Rows) -> str:
    """Digest of data, whichever process has which pieces of them."""
    if isinstance(X, Shard):
        own = list(zip(X.places, map(hash_rows, X.pieces), strict=True))
        return hash_tree(sorted(piece for pieces in X.group.exchange(own) for piece in pieces))
    digests = [hash_rows(part) for part in X.parts()]
    return digests[0] if len(digests) == 1 else hash_tree(digests)


def hash_rows(X: torch.Tensor) -> str:
    """Digest of shape, type and every number of data, in chunks."""
    digest = hashlib.sha256(f"{tuple(X.shape)} {X.dtype}".encode())
    n_rows = max(1, _CHUNK_ELEMENTS // X.shape[1])
    for start in range(0, len(X), n_rows):
        chunk = X[start : start + n_rows].cpu().numpy()
        digest.update(chunk.tobytes())
    return digest.hexdigest()


def _plain(value: Any) -> Any:
    """Return numbers of numpy as those of Python."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
