"""Fits that several processes do together; run as a script by each of them, with its rank."""

import os
import pickle
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import torch

from skvdl import VDL, VDLNL
from skvdl.training import Learner, _checkpoint

torch.set_num_threads(1)
warnings.simplefilter("ignore")

HOW = {"n_components": 8, "batch_size": 50, "max_iter": 3, "random_state": 0}
RNG = np.random.default_rng(0)
CODES = RNG.exponential(size=(203, 5)) * (RNG.random((203, 5)) < 0.4)
X = CODES @ RNG.normal(size=(5, 12)) + 0.05 * RNG.normal(size=(203, 12))
GAPS = X.copy()
GAPS[::7, 3] = np.nan

# Estimators, and the rows where the part of the second process begins: parts of different sizes,
# so that some batches have no rows of a process, and one without any rows.
GUARDS = ["variance", "unit_norm", "weight_decay", None]
ADAM = {"penalty": "l1", "learning_rate_init": 1e-3}
FITS = {
    **{f"VDL-{guard}": (VDL(**HOW, regularizer=guard), 70) for guard in GUARDS},
    **{f"VDL-{guard}-l1-Adam": (VDL(**HOW, **ADAM, regularizer=guard), 70) for guard in GUARDS},
    **{
        f"VDLNL-{guard}": (VDLNL(hidden_layer_sizes=7, **HOW, regularizer=guard), 70)
        for guard in GUARDS
    },
    "published": (
        VDL(**HOW | ADAM | {"batch_size": 20}, regularizer="variance", lam=0.02, step_size=0.1), 200
    ),
    "none-here": (VDL(**HOW, regularizer="variance"), 203),
    "none-there": (VDLNL(hidden_layer_sizes=7, **HOW), 0),
    "stopping": (
        VDL(**HOW | {"max_iter": 30}, early_stopping=True, n_iter_no_change=2, tol=0.05), 70
    ),
    "auto": (VDL(**HOW | {"max_iter": "auto"}, regularizer="variance", penalty="l1"), 70),
    "revived": (
        VDL(**HOW | ADAM | {"n_components": 20}, lam=0.3, revive_dead=True, init="random"), 70
    ),
    "signed": (VDL(**HOW, positive_code=False, init="data", center=False, scale=False), 70),
    "gaps": (VDL(**HOW, missing_values="nan"), 70),
}  # fmt: skip


KILLED = HOW | {"regularizer": "variance"}
# instead of 1500: every step of inference with the hinge sends a message
VDL_STEPS = 40


def data_of(name):
    return GAPS if name == "gaps" else X


def weights(estimator):
    """Everything that is learnt, as arrays."""
    modules = [m for m in (estimator.decoder_, estimator.encoder_) if m is not None]
    state = {f"{type(m).__name__}.{k}": v for m in modules for k, v in m.state_dict().items()}
    return {name: value.numpy() for name, value in state.items()} | {
        "mean": np.zeros(1) if estimator.mean_ is None else estimator.mean_,
        "scale": np.array(estimator.scale_),
    }


def error_of(function):
    """What a call raises, and after how many seconds."""
    start = time.monotonic()
    try:
        function()
    except Exception as error:
        return type(error).__name__, str(error), time.monotonic() - start
    return None


def continued(estimator, parts):
    """Estimator after two calls of `partial_fit` and a warm start."""
    for part in parts:
        estimator.partial_fit(part[:40]).partial_fit(part[40:])
    return estimator


def run_all(rank):
    found = {}
    VDL._auto_steps = VDL_STEPS
    for name, (estimator, start) in FITS.items():
        part = data_of(name)[slice(None, start) if rank == 0 else slice(start, None)]
        fitted = estimator.set_params(distributed=True).fit(part)
        found[name] = weights(fitted), fitted.history_, fitted.lam_
    part = X[:70] if rank == 0 else X[70:]
    both = VDL(**HOW, distributed=True, warm_start=True).partial_fit(part).partial_fit(part)
    found["partial_fit"] = weights(both), both.history_, both.lam_
    both.fit(part)
    found["warm start"] = weights(both), both.history_, both.lam_
    drawn = VDL(**HOW | {"random_state": None}, distributed=True).fit(part)
    found["seed drawn"] = weights(drawn), drawn.history_, drawn.lam_
    model = VDL(**HOW, distributed=True)
    bad = np.full_like(part, np.nan) if rank else part
    found["errors"] = [
        error_of(lambda: model.fit(bad)),
        error_of(lambda: model.fit(part[:, : 12 - rank])),
        error_of(lambda: model.fit(X[:1] if rank else X[:0])),
    ]
    return found


def fit_until_killed(rank, folder):
    """Fit with a checkpoint, until the second process kills itself."""
    _checkpoint._SECONDS, _checkpoint._SHARE = 0.0, float("inf")
    step = Learner.step

    def killed(self, *batch):
        if rank and self.n_steps == 5:
            os._exit(1)
        return step(self, *batch)

    Learner.step = killed
    part = X[:70] if rank == 0 else X[70:]
    return error_of(lambda: VDL(**KILLED, checkpoint=folder, distributed=True).fit(part))


if __name__ == "__main__":
    folder, rank = Path(sys.argv[1]), int(os.environ["RANK"])
    found = run_all(rank)
    result = folder / f"{rank}.pickle"
    result.write_bytes(pickle.dumps(found))
    found["killed"] = fit_until_killed(rank, folder / "states")
    result.write_bytes(pickle.dumps(found))
