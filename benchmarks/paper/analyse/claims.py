"""The paper's claims, each judged by a stated rule from what was measured."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from skvdl import paper

from ..settings import ABLATION_SYSTEMS, FEATURES, PROTOCOLS, RAW
from ..targets import TARGETS
from . import ablation, low_data, trade_off
from .results import Results
from .tables import NAMES, NOT_RUN

CONFIRMED, REFUTED, UNDECIDED = "confirmed", "not confirmed", "not decided yet"
LEVELS = (0.80, 0.85, 0.90)
WIDEST = 0.15


@dataclass(frozen=True)
class Judgement:
    """A verdict, the rule it follows from, and the figures."""

    verdict: str
    rule: str
    evidence: list[str]


def _all(verdicts: list[str]) -> str:
    """Return one verdict for several that must all hold."""
    if REFUTED in verdicts:
        return REFUTED
    return NOT_RUN if NOT_RUN in verdicts else CONFIRMED


def _so_far(verdict: str, missing: list[tuple[str, float]]) -> tuple[str, list[str]]:
    """Return the verdict and what it still lacks: pairs of a system and a lam."""
    lacking: dict[str, list[str]] = {}
    for system, lam in missing:
        lacking.setdefault(system, []).append(f"{lam:g}")
    told = "; ".join(f"{system} {', '.join(lams)}" for system, lams in lacking.items())
    if verdict != NOT_RUN and told:
        verdict = f"{verdict} so far"
    return verdict, [f"lams {NOT_RUN}: {told}"] if told else []


def best_at_high_sparsity(results: Results) -> Judgement:
    """Judge the first claim."""
    verdicts, evidence, missing = [], [], []
    for dataset in ("mnist", "natural"):
        curves = trade_off.curves(results, dataset)
        judged = []
        for level in LEVELS:
            near = {s: trade_off.at_zeros(curve, level, WIDEST) for s, curve in curves.items()}
            found = {system: value for system, value in near.items() if value is not None}
            apart = [
                system
                for system, curve in curves.items()
                if system not in found and trade_off.at_zeros(curve, level) is not None
            ]
            order = sorted(found.items(), key=lambda pair: -pair[1])
            told = ", ".join(f"{system} {value:.2f} dB" for system, value in order)
            if "VDL-NL" in found and len(found) > 1:
                judged.append(CONFIRMED if order[0][0] == "VDL-NL" else REFUTED)
            else:
                told = f"not judged, no points of VDL-NL or of others nearby; {told or 'of none'}"
                # what others reach and VDL-NL was not run for may be where it is not the best
                judged += [NOT_RUN] if found and "VDL-NL" not in found else []
            if apart:
                told += f"; left out, points too far apart: {', '.join(apart)}"
            evidence.append(f"{NAMES[dataset]}, {level:.0%} zeros: {told}")
        verdicts += judged or [NOT_RUN]
        run = {(system, point.lam) for system, curve in curves.items() for point in curve}
        missing += [
            (f"{NAMES[dataset]}, {system}", lam)
            for system, lam in trade_off.wanted(dataset)
            if (system, lam) not in run
        ]
    rule = (
        "At each of "
        + ", ".join(f"{level:.0%}" for level in LEVELS)
        + " zeros that VDL-NL and another system reach, VDL-NL must have the highest PSNR, on "
        "MNIST and on natural patches. The PSNR is read off the trade-off curves (means over "
        "seeds) on straight lines between points at most "
        f"{100 * WIDEST:.0f} percentage points of zeros apart. The claim is not decided while "
        "VDL-NL has no points at a level that others reach."
    )
    verdict, lacking = _so_far(_all(verdicts), missing)
    if verdict == NOT_RUN and set(verdicts) != {NOT_RUN}:
        verdict = UNDECIDED
    return Judgement(verdict, rule, evidence + lacking)


def _by_protocol(
    results: Results,
    features: tuple[str, ...],
    labels: tuple[int, ...],
    rule: str,
    judge: Callable[[int, dict[str, float]], tuple[str, str]],
) -> Judgement:
    """Judge both protocols and both measures; the paper's own protocol decides.

    ``judge(n, here)`` returns the verdict on mean errors by feature for one number of labels, and
    what to say about it. Means are over the seeds and draws that all of the features have, because
    the labelled rows of others differ.
    """
    systems = [system for system in features if system in paper.SYSTEMS]
    verdicts, evidence, lacking = {}, [], []
    for protocol in PROTOCOLS:
        records = low_data.systems_in(results, "mnist", protocol)
        run = {(system, record["lam"]) for system, same in records.items() for record in same}
        missing = [(s, lam) for s in systems for lam in paper.lams(s) if (s, lam) not in run]
        found = low_data.errors(results, "mnist", protocol)
        judged = []
        lines = []
        for measure, name in low_data.MEASURES.items():
            told = []
            for n in labels:
                here = _means(found, features, n, measure)
                verdict, text = judge(n, here) if here else (NOT_RUN, NOT_RUN)
                judged.append(verdict)
                told.append(f"{n}: {text}")
            lines.append(f"{protocol}, {name} error by labels per class: " + "; ".join(told))
        verdicts[protocol], told_missing = _so_far(_all(judged), missing)
        lacking += told_missing
        pairs = _draws(found, features, labels[0])
        n_seeds, n_draws = (len({pair[i] for pair in pairs}) for i in (0, 1))
        counts = f"seeds: {n_seeds}, draws: {n_draws}"
        evidence.append(f"protocol *{protocol}* ({counts}): **{verdicts[protocol]}**")
        evidence += lines
    return Judgement(verdicts["paper"], rule, evidence + list(dict.fromkeys(lacking)))


def _draw(entry: dict) -> tuple[int, int]:
    return entry["seed"], entry["draw"]


def _draws(found: low_data.Errors, features: tuple[str, ...], n: int) -> set[tuple[int, int]]:
    """Return the pairs of a seed and a draw that were run for all of the features."""
    return set.intersection(*({_draw(entry) for entry in found[s, n] or ()} for s in features))


def _means(
    found: low_data.Errors, features: tuple[str, ...], n: int, measure: str
) -> dict[str, float]:
    """Return the mean error of each feature over the draws that all have; empty without any."""
    draws = _draws(found, features, n)
    return {
        system: float(np.mean([e[measure] for e in found[system, n] or () if _draw(e) in draws]))
        for system in (features if draws else ())
    }


def probes_beat_raw(results: Results) -> Judgement:
    """Judge the second claim."""
    systems = ("SDL", "SDL-NL", "VDL", "VDL-NL")

    def judge(n, here):
        wanted = [system for system in systems if n > 2 or system != "SDL"]
        raw = here[RAW]
        worse = [system for system in wanted if here[system] >= raw]
        text = f"raw {raw:.1%}, worst {max(here[system] for system in wanted):.1%}"
        if worse:
            text += " (not below: " + ", ".join(f"{s} {here[s]:.1%}" for s in worse) + ")"
        return REFUTED if worse else CONFIRMED, text

    rule = (
        "With 1 to 100 labels per class the mean error over seeds and draws, top-1 and top-3, must "
        "be lower for SDL, SDL-NL, VDL and VDL-NL than for raw pixels, except for SDL with 1 or 2 "
        "labels. The verdict is that of the protocol *paper*."
    )
    features = (RAW, *systems)
    return _by_protocol(results, features, (1, 2, 5, 10, 20, 50, 100), rule, judge)


def best_with_few_labels(results: Results) -> Judgement:
    """Judge the third claim."""

    def judge(n, here):
        ours = here.pop("VDL-NL")
        rival = min(here, key=here.get)
        verdict = CONFIRMED if ours < here[rival] else REFUTED
        return verdict, f"VDL-NL {ours:.1%}, best of the others {rival} {here[rival]:.1%}"

    rule = (
        "With 1, 2, 5 and 10 labels per class the mean error over seeds and draws, top-1 and "
        "top-3, must be lowest for VDL-NL among raw pixels, LISTA from scratch and all eight "
        "systems. The verdict is that of the protocol *paper*."
    )
    return _by_protocol(results, FEATURES, (1, 2, 5, 10), rule, judge)


def collapse_without_guard(results: Results) -> Judgement:
    """Judge the fourth claim."""
    verdicts, evidence = [], []
    found = {key: c for d in ("mnist", "natural") for key, c in _ablations(results, d)}
    for system in ("unguarded", "unguarded-NL"):
        tried = {key: systems[system] for key, systems in found.items() if system in systems}
        if not tried:
            verdicts.append(NOT_RUN)
            evidence.append(f"{system}: {NOT_RUN}")
        for key, records in tried.items():
            l1 = ablation.curve(records)
            verdicts.append(CONFIRMED if ablation.collapsed(l1) else REFUTED)
            text = f"l1 norm from {l1[0]:.3g} to {l1[-1]:.3g}, {ablation.dead(records)} dead"
            evidence.append(f"{key}, {system}: {text}")
    for key, systems in found.items():
        guarded = [s for s in ABLATION_SYSTEMS if s in systems and not s.startswith("unguarded")]
        fallen = [s for s in guarded if ablation.collapsed(ablation.curve(systems[s]))]
        text = f"collapse of {', '.join(fallen)}" if fallen else "no collapse"
        evidence.append(f"{key}, with a guard ({', '.join(guarded) or NOT_RUN}): {text}")
    rule = f"{ablation.RULE} Both unguarded systems must collapse, in every way they were run."
    return Judgement(_all(verdicts), rule, evidence)


def _ablations(results: Results, dataset: str) -> Iterator[tuple[str, dict[str, list[dict]]]]:
    for (lam, recipe), systems in ablation.groups(results, dataset).items():
        yield f"{NAMES[dataset]}, lam {lam:g}, recipe {recipe}", systems


CLAIMS = (best_at_high_sparsity, probes_beat_raw, best_with_few_labels, collapse_without_guard)


def judgements(results: Results) -> list[tuple[str, Judgement]]:
    """Return every claim with its judgement."""
    return [(text, judge(results)) for text, judge in zip(TARGETS["claims"], CLAIMS, strict=True)]
