"""Ablation: the l1 norm of the codes over the epochs, without any guard and with each."""

import numpy as np

from ..settings import ABLATION_LAM, ABLATION_SYSTEMS, GUARDS
from .results import Results, recipe_of
from .tables import NOT_RUN, TextTable, group

FALLEN = 0.5
RULE = f"Collapse: the l1 norm in the last epoch is below {FALLEN:.0%} of that in the first epoch."
HEADER = (
    *("system", "guard", "lam", "recipe", "epochs", "l1, first epoch", "halfway", "last"),
    *("last / first", "last / variance guard's", "dead", "verdict"),
)

# Records by system, for every lam and recipe.
Groups = dict[tuple[float, str], dict[str, list[dict]]]


def curve(records: list[dict]) -> np.ndarray:
    """Return the mean over seeds of the l1 norm in every epoch."""
    curves = [record["history"]["l1"] for record in records]
    least = min(map(len, curves))
    return np.mean([c[:least] for c in curves], axis=0)


def dead(records: list[dict]) -> int:
    """Return how many components no row of the test set uses, in the seed with most of them."""
    return max(record["test"]["dead"] for record in records)


def collapsed(l1: np.ndarray) -> bool:
    """Return whether a curve is one of collapse, by the rule."""
    return bool(l1[-1] < FALLEN * l1[0])


def groups(results: Results, dataset: str) -> Groups:
    """Return records by system for every lam and recipe that was tried without a guard."""
    records = [
        r for r in results.runs if r["dataset"] == dataset and r["system"] in ABLATION_SYSTEMS
    ]
    found: Groups = {}
    for (lam, recipe, system), same in group(records, "lam", recipe_of, "system").items():
        found.setdefault((lam, recipe), {})[system] = same
    return {
        key: systems
        for key, systems in found.items()
        if any(system.startswith("unguarded") for system in systems)
    }


def table(found: Groups) -> TextTable:
    """Return one row for every way in which a system was run, one for a system that was not."""
    rows: list[tuple] = []
    for system in ABLATION_SYSTEMS:
        kind, dash, suffix = system.partition("-")
        ways = {key: systems for key, systems in found.items() if system in systems}
        if not ways:
            empty = [""] * (len(HEADER) - 5)
            rows.append((system, GUARDS[kind], f"{ABLATION_LAM:g}", NOT_RUN, *empty, NOT_RUN))
        for (lam, recipe), systems in ways.items():
            l1, guarded = curve(systems[system]), systems.get(f"VDL{dash}{suffix}")
            rows.append(
                (
                    *(system, GUARDS[kind], f"{lam:g}", recipe, len(l1)),
                    *(f"{value:.3g}" for value in (l1[0], l1[len(l1) // 2], l1[-1])),
                    f"{l1[-1] / l1[0]:.2f}",
                    "" if guarded is None else f"{l1[-1] / curve(guarded)[-1]:.2f}",
                    dead(systems[system]),
                    "collapse" if collapsed(l1) else "no collapse",
                )
            )
    return TextTable(HEADER, rows)


def curves(found: Groups) -> dict[tuple[float, str], dict[str, np.ndarray]]:
    """Return the curves by system, for every lam and recipe."""
    return {
        key: {system: curve(same) for system, same in systems.items()}
        for key, systems in found.items()
    }
