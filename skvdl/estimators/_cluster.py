"""`fit` on the workers of a Dask cluster, each of which has some blocks of the data."""

import contextlib
import copy
import math
import socket
import sys
import time
from importlib import import_module
from typing import Any

from ..distributed import ALONE, OtherProcessError, Processes, Rows
from ._callbacks import FitCallbacks
from ._modes import plain_torch

# Seconds between two looks at whether all workers are still there, and for which the other workers
# have time to say what went wrong after one of them has failed.
_LOOK_EVERY, _LAST_WORDS = 1.0, 30.0


def current_client() -> Any:
    """Return the current client of `distributed`, or None if there is none."""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return None
    try:
        return distributed.get_client()
    except ValueError:
        return None


def fit_on_workers(client: Any, estimator: Any, X: Any) -> dict[str, Any]:
    """Let each worker that gets blocks learn from them, together with the others.

    Blocks stay on the workers that compute them, unless one has more than its part.

    Parameters
    ----------
    client : distributed.Client
        Client of the cluster.
    estimator : estimator
        The estimator to fit.
    X : dask.array.Array of shape (n_samples, n_features)
        Data, with one block along the features.

    Returns
    -------
    dict
        What `fit` sets.
    """
    distributed: Any = import_module("distributed")

    blocks = client.compute(list(X.to_delayed().ravel()))
    distributed.wait(blocks)
    parts = _assign(client, blocks)
    workers = list(parts)
    model = copy.copy(estimator)
    vars(model).pop("_skl_callbacks", None)
    # of two fits at the same time, each could have half of the workers and wait for the others
    with distributed.Lock("skvdl.fit"):
        (port,) = client.run(_free_port, workers=workers[:1]).values()
        # where the others meet the first one
        address = distributed.comm.get_address_host(workers[0]), port
        tasks = [
            client.submit(
                _learn,
                model,
                places,
                [blocks[place] for place in places],
                address,
                rank,
                len(workers),
                workers=[worker],
                allow_other_workers=False,
                pure=False,
            )
            for rank, (worker, places) in enumerate(parts.items())
        ]
        try:
            _wait(client, tasks, workers)
            return dict(tasks[0].result())
        finally:
            client.cancel(tasks)


def _assign(client: Any, blocks: list[Any]) -> dict[str, list[int]]:
    """Choose a worker for each block: one that has it, unless that has more than its part."""
    holders = client.who_has(blocks)
    parts: dict[str, list[int]] = {worker: [] for worker in client.nthreads()}
    if not parts:
        raise RuntimeError("The cluster of the current Dask client has no workers.")
    most = -(-len(blocks) // len(parts))
    for place, block in enumerate(blocks):
        if block.status == "error":
            raise block.exception()
        near = [w for w in holders[block.key] if w in parts and len(parts[w]) < most]
        parts[min(near or parts, key=lambda worker: len(parts[worker]))].append(place)
    return {worker: places for worker, places in parts.items() if places}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


@plain_torch
def _learn(
    estimator: Any,
    places: list[int],
    blocks: list[Any],
    address: tuple[str, int],
    rank: int,
    size: int,
) -> dict[str, Any] | None:
    """Learn on one of several workers; the first returns what `fit` sets."""
    parameters = estimator.get_params(deep=False)
    group = Processes.meet(*address, rank, size) if size > 1 else ALONE

    def read(reset: bool) -> Rows:
        return estimator._join(blocks, places, group, reset, 2)

    try:
        estimator._learn(read, group, FitCallbacks(estimator, None, None))
    finally:
        group.close()
    if rank:
        return None
    return {name: value for name, value in vars(estimator).items() if name not in parameters}


def _wait(client: Any, tasks: list[Any], workers: list[str]) -> None:
    """Wait for all tasks; if one fails or loses its worker, raise an error that says why."""
    distributed: Any = import_module("distributed")

    left, errors = set(tasks), list[BaseException]()
    deadline = math.inf
    while left and time.monotonic() < deadline:
        # a task whose worker is gone waits for it for ever
        lost = set(workers) - set(client.nthreads())
        if lost:
            errors.append(OtherProcessError(_lost_message(lost)))
            break
        with contextlib.suppress(TimeoutError):
            done, left = distributed.wait(left, timeout=_LOOK_EVERY, return_when="FIRST_COMPLETED")
            errors += [task.exception() for task in done if task.status == "error"]
        if errors and deadline == math.inf:
            deadline = time.monotonic() + _LAST_WORDS
    if errors:
        # other tasks only say that one of them has failed
        raise next((e for e in errors if not isinstance(e, OtherProcessError)), errors[-1])


def _lost_message(lost: set[str]) -> str:
    return (
        f"The worker {', '.join(sorted(lost))} was lost while training. Call fit again to train on "
        "the workers that are left; with a checkpoint it goes on from its last state."
    )
