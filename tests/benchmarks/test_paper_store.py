"""Table files of benchmarks/paper: written whole, by several processes, through kills."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest
from _paper_helpers import folders_in

from benchmarks.paper.__main__ import main
from benchmarks.paper.draws import pack, unpack
from benchmarks.paper.store import BrokenTableError, Table

WRITER = """
import sys
from pathlib import Path
from benchmarks.paper.store import Table

table, who, count = Table(Path(sys.argv[1])), sys.argv[2], int(sys.argv[3])
for number in range(count):
    table.put(f"{who}{number}", {"number": number, "filling": "x" * 2000})
    print(number, flush=True)
"""


@pytest.fixture
def table(tmp_path):
    return Table(tmp_path / "results" / "runs.jsonl")


def start_writer(table, who, count):
    command = [sys.executable, "-c", WRITER, str(table.path), who, str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_records_come_back_as_they_were_put(table):
    record = {
        "lam": 0.1 + 0.2,
        "tiny": 5e-324,
        "none": None,
        "truth": [True, False],
        "nested": {"ä": [[1, 2.5], []], "a": {}},
        "text": 'line\nbreak "and" separator \u2028',
    }
    assert table.read() == {}
    table.put("b", record)
    table.put("a", {"x": 1})
    assert table.read() == {"a": {"name": "a", "x": 1}, "b": {"name": "b", **record}}


def test_one_record_per_line_in_an_order_that_does_not_depend_on_history(table):
    table.put("b", {"y": {"d": 1, "c": 2}, "x": 3})
    table.put("c", {})
    table.put("a", {"x": 1})
    lines = ['{"name":"a","x":1}', '{"name":"b","x":3,"y":{"c":2,"d":1}}', '{"name":"c"}']
    assert table.path.read_text().splitlines() == lines
    table.put("a", {"x": 2})
    assert table.path.read_text().splitlines() == ['{"name":"a","x":2}', *lines[1:]]


def test_update_gets_the_record_as_it_is(table):
    assert table.update("a", lambda old: {"was": old}) == {"name": "a", "was": None}
    table.update("a", lambda old: {**old, "was": 1})
    assert table.read() == {"a": {"name": "a", "was": 1}}


def test_failure_while_writing_leaves_the_table(table):
    table.put("a", {"x": 1})
    before = table.path.read_bytes()
    with pytest.raises(TypeError):
        table.put("b", {"x": object()})
    with pytest.raises(ZeroDivisionError):
        table.update("a", lambda old: {"x": 1 / 0})
    assert table.path.read_bytes() == before
    # nothing is left that would stop the next one
    table.put("b", {"x": 2})
    assert list(table.read()) == ["a", "b"]


def test_processes_that_write_at_once_lose_nothing(table):
    writers = [start_writer(table, who, 40) for who in "pq"]
    for writer in writers:
        writer.communicate(timeout=120)
        assert writer.returncode == 0
    records = table.read()
    assert set(records) == {f"{who}{number}" for who in "pq" for number in range(40)}
    assert all(len(record["filling"]) == 2000 for record in records.values())


def test_kill_at_any_moment_leaves_every_record_that_was_written(table):
    delays = random.Random(0)
    written = set()
    for attempt in range(6):
        writer = start_writer(table, f"k{attempt}_", 10_000)
        writer.stdout.readline()
        time.sleep(0.3 * delays.random())
        writer.send_signal(signal.SIGKILL)
        told = ["0", *writer.communicate(timeout=60)[0].split()]
        assert writer.returncode == -signal.SIGKILL
        written |= {f"k{attempt}_{number}" for number in told}
        # at most the one in progress is there beyond those it told of
        found = set(table.read())
        assert found >= written
        assert len(found) <= len(written) + attempt + 1
    # neither its lock nor what it was writing is in the way
    table.put("last", {})
    assert set(table.read()) == found | {"last"}
    assert {path.name for path in table.path.parent.iterdir()} <= {"runs.jsonl", "runs.lock"}


def test_interrupt_while_writing_leaves_the_old_table(table, monkeypatch):
    table.put("a", {"x": 1})

    def interrupted(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", interrupted)
        with pytest.raises(KeyboardInterrupt):
            table.put("b", {"x": 2})
    assert list(table.read()) == ["a"]
    table.put("c", {"x": 3})
    assert list(table.read()) == ["a", "c"]


def test_torn_last_line_is_told(table):
    for name in "abc":
        table.put(name, {"x": 1})
    whole = table.path.read_text()
    last = len(whole.splitlines()[-1])
    for missing in range(2, last + 1):
        table.path.write_text(whole[:-missing])
        with pytest.raises(BrokenTableError, match=r"runs\.jsonl, line 3: not a whole record"):
            table.read()
        # and nothing is written over it
        with pytest.raises(BrokenTableError):
            table.put("d", {})
        assert table.path.read_text() == whole[:-missing]
    # whole lines remain, with or without the last end of line
    table.path.write_text(whole[: -last - 1])
    assert list(table.read()) == ["a", "b"]
    table.path.write_text(whole[:-1])
    assert list(table.read()) == ["a", "b", "c"]


@pytest.mark.parametrize("line", ["<<<<<<< HEAD", "[1, 2]", '{"x": 1}', "", "3"])
def test_line_that_is_no_record_is_told(line, table):
    table.put("a", {"x": 1})
    table.path.write_text(f"{line}\n{table.path.read_text()}")
    with pytest.raises(BrokenTableError, match="line 1: not a whole record"):
        table.read()


def test_record_that_is_there_twice_is_told(table):
    table.put("a", {"x": 1})
    table.path.write_text(2 * table.path.read_text())
    with pytest.raises(BrokenTableError, match="line 2: there is a second record 'a'"):
        table.read()


@pytest.mark.parametrize("command", ["report", "train"])
def test_commands_tell_of_a_torn_table_without_a_traceback(command, tmp_path, capsys):
    folders = folders_in(tmp_path)
    folders.table("runs").put("a", {})
    path = folders.table("runs").path
    path.write_text(path.read_text()[:5])
    options = [f"--results={folders.results}", f"--figures={folders.figures}"]
    if command == "report":
        options += [f"--output={tmp_path / 'REPORT.md'}"]
    else:
        options += [f"--models={folders.models}", "--dataset=digits", "--size=toy"]
    assert main([command, *options]) == 1
    assert capsys.readouterr().err.startswith(f"{path}, line 1: not a whole record")
    assert not (tmp_path / "REPORT.md").exists()


def test_draws_are_packed_without_loss():
    entries = [
        {"draw": draw, "C": C, "top1": draw + C, "val": draw / (1 + C)}
        for draw in (0, 3, 7)
        for C in (0.1, 10.0)
    ]
    packed = json.loads(json.dumps(pack(entries)))
    assert unpack(packed) == entries
    single = [{"draw": 0, "C": None, "top1": 0.5}]
    assert unpack(pack(single)) == single
