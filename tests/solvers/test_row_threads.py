"""Rows in threads: every row once, one core each, and nothing changed outside."""

from threading import Thread, get_ident
from time import sleep

import pytest
import torch
from _helpers import make_decoder, randn

from skvdl.energy import EnergySettings
from skvdl.solvers import SolverSettings, _choice, _threads, codes_by_row
from skvdl.solvers._threads import in_threads, one_core, share


@pytest.fixture(autouse=True)
def two_threads(monkeypatch):
    # threads for any work, however little
    monkeypatch.setattr(_threads, "_WORTHWHILE", 0.0)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("n_threads", [1, 2, 5])
@pytest.mark.parametrize("n_rows", [0, 1, 64, 65, 1000, 10_000])
def test_every_row_is_visited_once(n_threads, n_rows):
    visits = torch.zeros(n_rows)
    in_threads(lambda part: visits[part].add_(1), n_rows, n_threads)
    assert torch.equal(visits, torch.ones(n_rows))


def test_little_work_takes_no_threads_and_the_same_pieces(monkeypatch):
    def pieces():
        found = []
        in_threads(lambda part: found.append((part.start, part.stop, get_ident())), 1000, 2)
        return sorted(found)

    threaded = pieces()
    monkeypatch.setattr(_threads, "_WORTHWHILE", 1e9)
    serial = pieces()
    assert [piece[:2] for piece in serial] == [piece[:2] for piece in threaded]
    assert {piece[2] for piece in serial} == {get_ident()}
    assert len({piece[2] for piece in threaded}) > 1


def test_threads_have_one_core_each_and_others_keep_theirs():
    seen = []
    with one_core():
        in_threads(lambda part: seen.append(torch.get_num_threads()), 1000, 2)
    assert set(seen) == {1}
    later = []
    thread = Thread(target=lambda: later.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    assert later == [2]
    assert torch.get_num_threads() == 2


def test_one_core_is_given_back_after_an_error():
    def fail():
        with one_core() as n_threads:
            assert (n_threads, torch.get_num_threads()) == (2, 1)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert torch.get_num_threads() == 2


def test_an_error_in_a_thread_is_raised():
    def fail(part):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        in_threads(fail, 1000, 2)


@pytest.mark.parametrize("inference", [True, False])
def test_threads_are_in_the_mode_of_the_caller(inference):
    seen = []
    with torch.inference_mode(inference):
        in_threads(lambda part: seen.append(torch.is_inference_mode_enabled()), 1000, 2)
    assert set(seen) == {inference}


def test_codes_by_row_are_shared_among_threads(monkeypatch):
    decoder, Y = make_decoder((), 12, 20, seed=0), randn(301, 20, seed=1)
    seen, init = (randn(301, 20, seed=2) > -1).to(Y.dtype), randn(301, 12, seed=3)
    how = EnergySettings(lam=0.05, penalty="l0"), SolverSettings("auto", 1e-6, 500, exact=True)
    shared = codes_by_row(decoder, Y, *how, seen=seen, init=init)
    monkeypatch.setattr(_choice, "_FEWEST", 1000)
    alone = codes_by_row(decoder, Y, *how, seen=seen, init=init)
    for part, expected in zip(shared, alone, strict=True):
        torch.testing.assert_close(part, expected)


def test_after_an_error_no_other_piece_is_begun():
    begun = []

    def fail(part):
        begun.append(part)
        if part.start == 0:
            raise ZeroDivisionError
        sleep(0.01)

    parts = [slice(i, i + 1) for i in range(200)]
    with pytest.raises(ZeroDivisionError):
        share(fail, parts, 2)
    assert len(begun) < 100
