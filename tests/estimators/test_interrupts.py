"""Ctrl-C at any moment leaves an estimator that works, and one that was fitted as it was."""

import copy
import os
import pickle
import random
import signal
import subprocess
import sys
from contextlib import suppress

import numpy as np
import pytest
import torch

from skvdl import VDL, NonLinearVDL


@pytest.fixture(autouse=True)
def _ctrl_c():
    """Let Ctrl-C interrupt, also where tests run in the background and would ignore it."""
    usual = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, usual)


KINDS = {
    "linear": lambda **more: VDL(6, max_iter=2, batch_size=20, random_state=0, **more),
    "hinge": lambda **more: VDL(
        6, regularizer="variance", revive_dead=True, max_iter=2, random_state=0, **more
    ),
    "network": lambda **more: NonLinearVDL(
        6, hidden_layer_sizes=5, max_iter=2, inference_max_iter=10, random_state=0, **more
    ),
}
kinds = pytest.mark.parametrize("kind", KINDS)
# How many moments are tried; more when looking for a needle.
MOMENTS = int(os.environ.get("SKVDL_INTERRUPTS", "4"))


class CtrlC:
    """Sends SIGINT when so many lines of the package or of an optimiser have run."""

    def __init__(self, n_lines):
        self.left = n_lines

    def __enter__(self):
        sys.settrace(self._call)
        return self

    def __exit__(self, *error):
        sys.settrace(None)

    def _call(self, frame, event, arg):
        file = frame.f_code.co_filename
        ours = f"{os.sep}skvdl{os.sep}" in file or f"{os.sep}optim{os.sep}" in file
        return self._line if ours and "_interrupts" not in file else None

    def _line(self, frame, event, arg):
        if event == "line":
            self.left -= 1
            if self.left == 0:
                signal.raise_signal(signal.SIGINT)
        return self._line


def count_lines(call):
    with CtrlC(0) as counter:
        call()
    return -counter.left


def curves(model):
    return {name: list(values) for name, values in model.history_.items()}


def in_order(model, X):
    """Whether all that a model says about itself fits together, and it can be used."""
    lengths = {len(values) for values in model.history_.values()}
    assert lengths <= {len(model.loss_curve_)}
    assert len(model.loss_curve_) == model.n_iter_
    assert np.isfinite(model.transform(X)).all()
    model.partial_fit(X)
    assert {len(values) for values in model.history_.values()} == {model.n_iter_}
    assert np.isfinite(model.transform(X)).all()


@kinds
def test_an_interrupt_of_fit_leaves_a_model_that_learns_on(kind, small):
    total = count_lines(lambda: KINDS[kind]().fit(small))
    moments = random.Random(0)
    for _ in range(MOMENTS):
        model = KINDS[kind]()
        with suppress(KeyboardInterrupt), CtrlC(moments.randint(1, total)):
            model.fit(small)
        if hasattr(model, "decoder_"):
            in_order(model, small)
        else:
            assert vars(model) == vars(KINDS[kind]())


@kinds
def test_an_interrupt_of_partial_fit_changes_nothing_or_is_too_late(kind, small):
    start = KINDS[kind]().fit(small)
    total = count_lines(lambda: copy.deepcopy(start).partial_fit(small))
    done = copy.deepcopy(start).partial_fit(small)
    moments = random.Random(1)
    for _ in range(MOMENTS):
        model = copy.deepcopy(start)
        with suppress(KeyboardInterrupt), CtrlC(moments.randint(1, total)):
            model.partial_fit(small)
        like = start if model.n_iter_ == start.n_iter_ else done
        assert curves(model) == curves(like)
        np.testing.assert_array_equal(model.transform(small), like.transform(small))
        in_order(model, small)


@pytest.mark.parametrize("place", ["step", "history", "calibration"])
def test_an_interrupt_in_the_worst_place(place, small, monkeypatch):
    """Within the first step of an optimiser, between two entries, and after the last one."""
    model = KINDS["network"]().partial_fit(small)
    before = curves(model)
    if place == "step":
        usual = torch.optim.Adam._init_group

        def interrupted(self, *args):
            signal.raise_signal(signal.SIGINT)
            return usual(self, *args)

        monkeypatch.setattr(torch.optim.Adam, "_init_group", interrupted)
        model = KINDS["network"]()
        with pytest.raises(KeyboardInterrupt):
            model.fit(small)
        monkeypatch.undo()
    elif place == "history":

        class Impatient(list):
            def append(self, value):
                super().append(value)
                signal.raise_signal(signal.SIGINT)

        for name, values in model._history.curves.items():
            model._history.curves[name] = Impatient(values)
        with pytest.raises(KeyboardInterrupt):
            model.partial_fit(small)
        assert model.n_iter_ == 2
        for name, values in model._history.curves.items():
            model._history.curves[name] = list(values)
    else:

        def interrupted(self, *args):
            raise KeyboardInterrupt

        monkeypatch.setattr(type(model), "_calibrate_again", interrupted)
        with pytest.raises(KeyboardInterrupt):
            model.partial_fit(small)
        assert curves(model) == before
        monkeypatch.undo()
    in_order(model, small)


@kinds
@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_training_a_copy_does_not_change_the_original(kind, how, small):
    model = KINDS[kind](early_stopping=True).fit(small)
    before, codes = curves(model), model.transform(small)
    copied = how(model)
    for _ in range(2):
        copied.partial_fit(small)
    assert copied.n_iter_ == model.n_iter_ + 2
    assert len(copied.loss_curve_) == copied.n_iter_
    assert curves(model) == before
    np.testing.assert_array_equal(model.transform(small), codes)


FIRST_FIT = """
import signal, sys
import numpy as np
from skvdl import VDL
signal.signal(signal.SIGINT, signal.default_int_handler)

class Impatient:
    def find_spec(self, name, path=None, target=None):
        if name == "torch._dynamo.trace_rules":
            sys.meta_path.remove(self)
            signal.raise_signal(signal.SIGINT)

X = np.random.default_rng(0).normal(size=(40, 5))
sys.meta_path.insert(0, Impatient())
try:
    VDL(4, max_iter=2).fit(X)
except KeyboardInterrupt:
    print("interrupted")
else:
    print("not imported" if any(isinstance(f, Impatient) for f in sys.meta_path) else "missed")
assert np.isfinite(VDL(4, max_iter=2).fit(X).partial_fit(X).transform(X)).all()
print("fitted")
"""


def test_an_interrupt_of_the_first_fit_of_a_process_does_not_spoil_later_ones():
    found = subprocess.run(
        [sys.executable, "-c", FIRST_FIT], capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr
    assert found.stdout.split("\n")[0] in ("interrupted", "not imported")


def test_signals_of_others_are_left_alone(small):
    seen = []
    usual = signal.signal(signal.SIGINT, lambda *event: seen.append(event))
    try:
        with CtrlC(2000):
            KINDS["linear"]().fit(small)
        assert len(seen) == 1
    finally:
        signal.signal(signal.SIGINT, usual)
