"""Where things are, how they are written whole or not at all, and the paper's own figures."""

import json
import os
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
TARGETS = json.loads((HERE / "targets.json").read_text())


@dataclass(frozen=True)
class Folders:
    """Where models (large, not committed), results and figures are."""

    models: Path = HERE / "models"
    results: Path = HERE / "results"
    figures: Path = HERE / "figures"


def write_whole(path, write):
    """Call `write` with the path of a temporary file, which then takes the place of `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        write(temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_json(path, record):
    """Write a record as JSON, one field a line."""
    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in record.items())
    write_whole(path, lambda temporary: temporary.write_text("{\n" + lines + "\n}\n"))


def read_all(folder):
    """Every record in a folder, in the order of their names."""
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]


def reported(table, dataset, system=None):
    """Rows of a table of the paper for a dataset, and a system if given."""
    rows = [row for row in TARGETS[table] if row["dataset"] == dataset]
    return [row for row in rows if system in (None, row["system"])]
