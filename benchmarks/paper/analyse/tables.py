"""What all analyses share: groups of records, tables of cells, numbers as text."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

NOT_RUN = "not run"
NAMES = {"mnist": "MNIST", "natural": "natural patches", "digits": "digits"}


@dataclass(frozen=True)
class TextTable:
    """A header and rows of cells, ready to be laid out."""

    header: tuple[str, ...]
    rows: list[tuple]


def group(records: Iterable, *fields: str | Callable) -> dict[tuple, list]:
    """Return records by the values of some fields, each a name or a function of the record."""
    groups: dict[tuple, list] = {}
    for record in records:
        key = tuple(f(record) if callable(f) else record[f] for f in fields)
        groups.setdefault(key, []).append(record)
    return groups


def mean_std(values: Sequence[float], digits: int = 2, factor: float = 1.0) -> str:
    """Return the mean with the standard deviation, if there is more than one value."""
    scaled = factor * np.asarray(values, dtype=float)
    text = f"{scaled.mean():.{digits}f}"
    return text + (f" ± {scaled.std():.{digits}f}" if len(scaled) > 1 else "")


def signed(value: float, digits: int = 2) -> str:
    """Return a number with its sign, of which a zero has none."""
    text = f"{value:+.{digits}f}"
    return text[1:] if float(text) == 0 else text
