"""Fits in processes that are killed at random moments; says whether the result is still the same.

Each fit runs in a fork of this process, because importing the package takes seconds.
"""

import hashlib
import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path

import numpy as np
import torch

from skvdl import NonLinearVDL, VarianceDictionaryLearning
from skvdl.training import _checkpoint

N_KILLS = 5
X = np.random.default_rng(0).normal(size=(200, 6)).astype(np.float32)
HOW = {"n_components": 4, "batch_size": 25, "max_iter": 5, "random_state": 0, "device": "cpu"}
FITS = [
    VarianceDictionaryLearning(**HOW),
    VarianceDictionaryLearning(**HOW, early_stopping=True, regularizer="variance"),
    NonLinearVDL(hidden_layer_sizes=5, **HOW),
]


def start(estimator, result):
    """Fit in a process of its own, which writes a digest of the result; return its number."""
    process = os.fork()
    if process:
        return process
    try:
        estimator.fit(X)
        weights = b"".join(p.detach().numpy().tobytes() for p in estimator.decoder_.parameters())
        seen = (estimator.transform(X).tobytes(), weights, repr(estimator.history_).encode())
        result.write_text(hashlib.sha256(b"".join(seen)).hexdigest())
        os._exit(0)
    except BaseException as error:
        print(repr(error), file=sys.stderr, flush=True)
        os._exit(1)


def changed(folder):
    """When a state was written last."""
    return max((path.stat().st_mtime_ns for path in folder.glob("*.safetensors")), default=0)


def kill_at_random(estimator, folder, result):
    """Kill the fit some time after it has made progress; False if it was done before."""
    before = changed(folder)
    process = start(estimator, result)
    while changed(folder) == before and not result.exists():
        time.sleep(0.001)
    time.sleep(random.uniform(0.0, 0.03))
    os.kill(process, signal.SIGKILL)
    _, status = os.waitpid(process, 0)
    return os.WIFSIGNALED(status) and not result.exists()


def main(folder):
    torch.set_num_threads(1)
    _checkpoint._SECONDS, _checkpoint._SHARE = 0.0, float("inf")
    # the disk is slow, and the system writes what a killed process has given it
    os.fsync = lambda descriptor: None
    # what is imported only when it is first used
    VarianceDictionaryLearning(2, max_iter=1, regularizer=None).fit(X)
    for estimator in FITS:
        expected, result, states = folder / "expected", folder / "result", folder / "states"
        assert os.waitpid(start(estimator, expected), 0)[1] == 0
        states.mkdir()
        estimator.set_params(checkpoint=states)
        n_kills = 0
        while n_kills < N_KILLS and kill_at_random(estimator, states, result):
            n_kills += 1
        assert n_kills, "never killed in time"
        if not result.exists():
            assert os.waitpid(start(estimator, result), 0)[1] == 0
        assert not os.listdir(states), os.listdir(states)
        print("equal" if result.read_text() == expected.read_text() else "different")
        expected.unlink()
        result.unlink()
        shutil.rmtree(states)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
