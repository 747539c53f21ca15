"""Table files of results, and how files are written whole or not at all.

A table is a text file with one JSON record per line, sorted by the records' names, so that a new
record is one new line in a diff. Each write replaces the whole file at once while holding a lock:
several processes can add records, and a process that is killed leaves the old table or the new one.
"""

import json
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent


class BrokenTableError(ValueError):
    """A table file that is not one whole record per line."""


class Table:
    """Records of one kind, each with a name that occurs once.

    Parameters
    ----------
    path : Path
        The file. It need not exist: a table without file is empty.
    """

    def __init__(self, path: Path):
        self.path = path

    def read(self) -> dict[str, dict]:
        """Return all records by name, in the order of the names."""
        if not self.path.exists():
            return {}
        records = {}
        for number, line in enumerate(self.path.read_text("utf-8").splitlines(), start=1):
            try:
                record = json.loads(line)
                name = record["name"]
            except (ValueError, KeyError, TypeError) as error:
                raise BrokenTableError(
                    f"{self.path}, line {number}: not a whole record ({error}). The file was cut "
                    "off or edited. Restore it, or delete this line; what it held is then measured "
                    "again."
                ) from error
            if name in records:
                raise BrokenTableError(
                    f"{self.path}, line {number}: there is a second record {name!r}. Delete one of "
                    "the two lines."
                )
            records[name] = record
        return records

    def update(self, name: str, change: Callable[[dict | None], dict]) -> dict:
        """Replace one record by ``change(record)``, which gets None if there is none yet.

        Nothing else can write between reading the record and replacing it.
        """
        with _locked(self.path.with_suffix(".lock")):
            records = self.read()
            records[name] = {**change(records.get(name)), "name": name}
            # another writer would wait, so what a killed one left under this name is overwritten
            temporary = self.path.with_suffix(".tmp")
            with temporary.open("w", encoding="utf-8", newline="\n") as file:
                file.writelines(_line(records[key]) for key in sorted(records))
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, self.path)
        return records[name]

    def put(self, name: str, record: dict) -> dict:
        """Add a record, or replace the one of the same name."""
        return self.update(name, lambda _: record)


def _line(record: dict) -> str:
    """Return one line of a table: the name first, all other fields in alphabetical order."""
    rest = {field: value for field, value in record.items() if field != "name"}
    parts = [
        json.dumps(part, sort_keys=True, separators=(",", ":"))[1:-1]
        for part in ({"name": record["name"]}, rest)
    ]
    return "{" + ",".join(filter(None, parts)) + "}\n"


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock until the block ends or the process does.

    SQLite has the only file lock of the standard library that works on every system.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path, timeout=600, isolation_level=None)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        yield


@dataclass(frozen=True)
class Folders:
    """Where models (large, not committed), results and figures are."""

    models: Path = HERE / "models"
    results: Path = HERE / "results"
    figures: Path = HERE / "figures"

    def table(self, kind: str) -> Table:
        """Return the table of one kind of results."""
        return Table(self.results / f"{kind}.jsonl")


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Call `write` with the path of a temporary file, which then takes the place of `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        write(temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
