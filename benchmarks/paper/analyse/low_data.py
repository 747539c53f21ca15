"""Classification with few labels: which lam and penalty a protocol chooses, and the errors.

*paper* chooses by accuracy on the validation set, averaged over seeds and draws. *strict* chooses
draw by draw, by cross-validation on the labelled rows alone; with one label per class there is
nothing to divide, and it takes the middle published lam and a penalty fixed in advance.
"""

import numpy as np

from skvdl import paper

from ..draws import unpack
from ..settings import FEATURES, FIXED_PENALTY, LABELS, PROTOCOLS, middle_lam
from .results import Results, recipe_of
from .tables import NOT_RUN, TextTable, group, mean_std

MEASURES = {"top1": "top-1", "top3": "top-3"}

# Selected entries by system and number of labels, None where not run.
Errors = dict[tuple[str, int | str], list[dict] | None]


def select(records: list[dict], protocol: str, n: int | str) -> list[dict] | None:
    """Return the entries of every seed and draw at the lam and penalty that a protocol chooses.

    Records are of one system and recipe, with several lams and seeds. Seeds and draws that lack a
    lam that others have do not count: the choice would not be the same. None if not run.
    """
    entries = [
        {**entry, "lam": record["lam"], "seed": record["seed"]}
        for record in records
        if str(n) in record["labels"]
        for entry in unpack(record["labels"][str(n)])
    ]
    if not entries:
        return None
    draws = list(group(entries, "seed", "draw").values())
    most = max(len(_lams_in(same)) for same in draws)
    draws = [same for same in draws if len(_lams_in(same)) == most]
    if protocol == "paper":
        groups = group([entry for same in draws for entry in same], "lam", "C").values()
        return max(groups, key=lambda same: np.mean([e.get("val", 0.0) for e in same]))
    choices = [_choose_strictly(same, records[0]) for same in draws]
    chosen = [entry for entry in choices if entry is not None]
    return chosen if len(chosen) == len(draws) else None


def _lams_in(entries: list[dict]) -> set:
    return {entry["lam"] for entry in entries}


def _choose_strictly(entries: list[dict], record: dict) -> dict | None:
    """Return the entry of one draw that its labelled rows alone speak for."""
    fixed = None
    if record["lam"] is not None:
        fixed = middle_lam(record["system"], record["dataset"])
    if "cv" not in entries[0]:
        penalty = entries[0]["C"] if len(entries) == 1 else FIXED_PENALTY
        return next((e for e in entries if (e["lam"], e["C"]) == (fixed, penalty)), None)
    lams = sorted(_lams_in(entries), key=lambda lam: lam or 0.0)

    def rank(entry):
        # of equals, what one would have taken without looking
        far = 0 if fixed not in lams else abs(lams.index(entry["lam"]) - lams.index(fixed))
        return entry["cv"], -far, -abs(np.log(entry["C"] / FIXED_PENALTY))

    return max(entries, key=rank)


def systems_in(results: Results, dataset: str, protocol: str) -> dict[str, list[dict]]:
    """Return records by system; of several recipes the one with most records, then the fast one."""
    records = [record for record in results.low_data[protocol] if record["dataset"] == dataset]
    found: dict[str, list] = {}
    for (system, recipe), same in group(records, "system", recipe_of).items():
        found.setdefault(system, []).append((len(same), recipe == "fast", same))
    best = {system: max(sets, key=lambda s: s[:2])[2] for system, sets in found.items()}
    return {system: best[system] for system in FEATURES if system in best}


def errors(results: Results, dataset: str, protocol: str) -> Errors:
    """Return the selected entries of every system and number of labels."""
    found = systems_in(results, dataset, protocol)
    return {
        (system, n): select(found[system], protocol, n) if system in found else None
        for system in FEATURES
        for n in LABELS
    }


def error_table(results: Results, dataset: str, protocol: str, measure: str) -> TextTable:
    """Return the errors by features and number of labels."""
    found = errors(results, dataset, protocol)
    records = systems_in(results, dataset, protocol)
    recipes = {system: recipe_of(same[0]) for system, same in records.items()}
    rows = [
        (
            *(system, recipes.get(system, NOT_RUN), _seeds(found, system)),
            *(_cell(found[system, n], measure) for n in LABELS),
        )
        for system in FEATURES
    ]
    return TextTable(("features", "recipe", "seeds", *map(str, LABELS)), rows)


def _seeds(found: Errors, system: str) -> int | str:
    return len({entry["seed"] for n in LABELS for entry in found[system, n] or ()}) or NOT_RUN


def _cell(entries: list[dict] | None, measure: str) -> str:
    return NOT_RUN if entries is None else mean_std([e[measure] for e in entries], 1, 100)


def lam_table(results: Results, dataset: str, protocol: str) -> TextTable:
    """Return the lams that were chosen, by system and number of labels."""
    found = errors(results, dataset, protocol)
    rows = [
        (
            system,
            *(
                "/".join(f"{lam:g}" for lam in sorted(_lams_in(found[system, n] or []))) or NOT_RUN
                for n in LABELS
            ),
        )
        for system in paper.SYSTEMS
    ]
    return TextTable(("lam chosen", *map(str, LABELS)), rows)


def error_curves(
    results: Results, dataset: str
) -> dict[tuple[str, str], dict[str, list[tuple[int | str, float, float]]]]:
    """Return curves by protocol and measure, then system: labels, mean and deviation in %.

    Empty if nothing was run.
    """
    curves: dict = {}
    for protocol in PROTOCOLS:
        found = errors(results, dataset, protocol)
        for measure in MEASURES:
            for (system, n), entries in found.items():
                if entries:
                    values = 100 * np.array([entry[measure] for entry in entries])
                    curve = curves.setdefault((protocol, measure), {}).setdefault(system, [])
                    curve.append((n, values.mean(), values.std()))
    return curves
