"""Several processes learn what a single one learns from all of the data."""

import os
import pickle
import socket
import subprocess
import sys
import threading
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
import torch
from _fits import FITS, HOW, KILLED, VDL_STEPS, X, data_of, weights
from sklearn.base import clone

from skvdl import VDL
from skvdl.distributed import OtherProcessError, Processes
from skvdl.training import read_tree

SCRIPT = Path(__file__).with_name("_fits.py")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where two processes, with the environment that torchrun gives them, write what they found."""
    folder = tmp_path_factory.mktemp("ranks")
    where = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    started = [
        subprocess.Popen(
            [sys.executable, str(SCRIPT), str(folder)],
            env=os.environ | where | {"RANK": str(rank), "OMP_NUM_THREADS": "1"},
        )
        for rank in range(2)
    ]
    codes = [process.wait(timeout=300) for process in started]
    # the second one kills itself in the end
    assert codes == [0, 1]
    return folder


@pytest.fixture(scope="module")
def found(folder):
    return [pickle.loads((folder / f"{rank}.pickle").read_bytes()) for rank in range(2)]


def assert_same_bits(one, other):
    assert one.keys() == other.keys()
    for name in one:
        assert one[name].tobytes() == other[name].tobytes(), name


def assert_close(found, expected):
    assert found.keys() == expected.keys()
    for name in found:
        np.testing.assert_allclose(found[name], expected[name], rtol=0, atol=1e-9, err_msg=name)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FITS)
def test_fit_is_that_of_one_process(found, name, monkeypatch):
    monkeypatch.setattr(VDL, "_auto_steps", VDL_STEPS)
    assert_same_bits(found[0][name][0], found[1][name][0])
    expected = clone(FITS[name][0]).fit(data_of(name))
    learnt, history, _ = found[0][name]
    assert_close(learnt, weights(expected))
    assert history.keys() == expected.history_.keys()
    for curve, values in history.items():
        np.testing.assert_allclose(values, expected.history_[curve], atol=1e-8, err_msg=curve)


def test_revival_and_stopping_took_place(found):
    assert 2 < len(found[0]["stopping"][1]["energy"]) < 30
    assert found[0]["revived"][1]["dead"][0] > 0


def test_partial_fit_joins_the_parts_of_all_processes(found):
    for name in ("partial_fit", "warm start"):
        assert_same_bits(found[0][name][0], found[1][name][0])
    expected = VDL(**HOW, warm_start=True).partial_fit(X).partial_fit(X)
    assert_close(found[0]["partial_fit"][0], weights(expected))
    assert found[0]["partial_fit"][2] == pytest.approx(expected.lam_, rel=1e-6)
    assert_close(found[0]["warm start"][0], weights(expected.fit(X)))


def test_a_seed_that_is_drawn_is_that_of_all(found):
    assert_same_bits(found[0]["seed drawn"][0], found[1]["seed drawn"][0])


def test_bad_data_in_one_process_are_an_error_in_all(found):
    here, there = found[0]["errors"], found[1]["errors"]
    assert here[0][0] == "OtherProcessError"
    assert "NaN" in there[0][1]
    for error in (here[1], there[1]):
        assert "11 features of torch.float64, 12 features" in error[1]
    for error in (here[2], there[2]):
        assert "minimum of 2" in error[1]
    assert all(error[0] == "ValueError" and error[2] < 30 for error in here[1:] + there)


def in_two_threads(function):
    """Call a function with each of two groups that are connected."""
    port, results = free_port(), {}

    def take_part(rank):
        group = Processes.meet("127.0.0.1", port, rank, 2, timeout=timedelta(seconds=2))
        results[rank] = function(group)

    threads = [threading.Thread(target=take_part, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    return results[0], results[1]


def test_a_process_that_dies_is_an_error_in_all_and_the_job_resumes(folder, found):
    kind, message, seconds = found[0]["killed"]
    assert kind == "OtherProcessError"
    assert "has lost the others" in message
    assert seconds < 30
    states = folder / "states"
    (state,) = states.glob("*.safetensors")
    assert read_tree(state, kind="checkpoint")["state"]["n_steps"] == 5

    def resume(group):
        model = VDL(**KILLED, checkpoint=states)
        model._group = lambda: group
        return weights(model.fit(X[70:] if group.rank else X[:70])), model.n_steps_

    (here, n_steps), (there, _) = in_two_threads(resume)
    assert not os.listdir(states)
    assert_same_bits(here, there)
    expected = VDL(**KILLED).fit(X)
    assert n_steps == expected.n_steps_
    assert_close(here, weights(expected))


def test_a_process_that_does_not_answer_is_an_error_in_time():
    done = threading.Event()

    def take_part(group):
        (total,) = group.sum(torch.ones(2))
        assert total.tolist() == [2.0, 2.0]
        if group.rank:
            return done.wait(timeout=60)
        with pytest.raises(OtherProcessError, match="did not answer in time"):
            group.sum(torch.ones(2))
        return done.set()

    assert in_two_threads(take_part) == (None, True)


def test_alone_it_says_how_to_start(monkeypatch):
    monkeypatch.delenv("RANK", raising=False)
    with pytest.raises(RuntimeError, match="torchrun"):
        VDL(4, distributed=True).fit(X)
