"""Errors of probes as tables store them.

A probe is fitted for every draw of labelled rows and every penalty. In memory each fit is an entry
``{"draw": 0, "C": 1.0, "top1": 0.5, ...}``. A table has one matrix per measure instead, with a row
per draw and a column per penalty, which takes a third of the space.
"""

KEYS = ("draw", "C")


def pack(entries: list[dict]) -> dict:
    """Return the matrices of entries that have all pairs of their draws and penalties."""
    found = {(entry["draw"], entry["C"]): entry for entry in entries}
    draws, penalties = (list(dict.fromkeys(entry[key] for entry in entries)) for key in KEYS)
    measures = [name for name in entries[0] if name not in KEYS]
    return {
        "draw": draws,
        "C": penalties,
        **{name: [[found[d, C][name] for C in penalties] for d in draws] for name in measures},
    }


def unpack(packed: dict) -> list[dict]:
    """Return the entries of matrices."""
    measures = [name for name in packed if name not in KEYS]
    return [
        {"draw": draw, "C": C, **{name: packed[name][i][j] for name in measures}}
        for i, draw in enumerate(packed["draw"])
        for j, C in enumerate(packed["C"])
    ]
