"""The figures that the paper reports."""

import json
from pathlib import Path

TARGETS = json.loads(Path(__file__).with_name("targets.json").read_text())


def reported(table: str, dataset: str, system: str | None = None) -> list[dict]:
    """Return the rows of one of the paper's tables for a dataset, and a system if given."""
    rows = [row for row in TARGETS[table] if row["dataset"] == dataset]
    return [row for row in rows if system in (None, row["system"])]
