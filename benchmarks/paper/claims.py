"""The paper's claims, each judged by a stated rule from what was measured."""

from dataclasses import dataclass

import numpy as np

from skvdl import paper

from . import ablation, low_data, trade_off
from .files import TARGETS
from .pages import NAMES, NOT_RUN

CONFIRMED, REFUTED, UNDECIDED = "confirmed", "not confirmed", "not decided yet"
LEVELS = (0.80, 0.85, 0.90)
WIDEST = 0.15


@dataclass(frozen=True)
class Judgement:
    """A verdict, the rule it follows from, and the figures."""

    verdict: str
    rule: str
    evidence: list


def _all(verdicts):
    """One verdict for several that must all hold."""
    if REFUTED in verdicts:
        return REFUTED
    return NOT_RUN if NOT_RUN in verdicts else CONFIRMED


def _so_far(verdict, missing):
    """The verdict, and what it still lacks: pairs of a system and a lam."""
    lacking = {}
    for system, lam in missing:
        lacking.setdefault(system, []).append(f"{lam:g}")
    told = "; ".join(f"{system} {', '.join(lams)}" for system, lams in lacking.items())
    if verdict != NOT_RUN and told:
        verdict = f"{verdict} so far"
    return verdict, [f"lams {NOT_RUN}: {told}"] if told else []


def best_at_high_sparsity(results):
    """First claim."""
    verdicts, evidence, missing = [], [], []
    for dataset in ("mnist", "natural"):
        curves = trade_off.curves(results, dataset)
        judged = []
        for level in LEVELS:
            found = {s: trade_off.at_zeros(curve, level, WIDEST) for s, curve in curves.items()}
            apart = [
                system
                for system, curve in curves.items()
                if found[system] is None and trade_off.at_zeros(curve, level) is not None
            ]
            found = {system: value for system, value in found.items() if value is not None}
            order = sorted(found.items(), key=lambda pair: -pair[1])
            told = ", ".join(f"{system} {value:.2f} dB" for system, value in order)
            if "VDL-NL" in found and len(found) > 1:
                judged.append(CONFIRMED if order[0][0] == "VDL-NL" else REFUTED)
            else:
                told = f"not judged, no points of VDL-NL or of others near; {told or 'of nobody'}"
                # what others reach and VDL-NL was not run for may be where it is not the best
                judged += [NOT_RUN] if found and "VDL-NL" not in found else []
            if apart:
                told += f"; left out, points too far apart: {', '.join(apart)}"
            evidence.append(f"{NAMES[dataset]}, {level:.0%} zeros: {told}")
        verdicts += judged or [NOT_RUN]
        run = {(system, point.lam) for system, curve in curves.items() for point in curve}
        lacking = [pair for pair in trade_off.wanted(dataset) if pair not in run]
        missing += [(f"{NAMES[dataset]}, {system}", lam) for system, lam in lacking]
    rule = (
        "Curves of the trade-off, means over seeds joined by straight lines: VDL-NL is above every "
        "other system, wherever both get to "
        + ", ".join(f"{level:.0%}" for level in LEVELS)
        + f" zeros between two points at most {100 * WIDEST:.0f} points of zeros apart, on MNIST "
        "and on natural patches. Not decided yet while it has no points where others have."
    )
    verdict, lacking = _so_far(_all(verdicts), missing)
    if verdict == NOT_RUN and set(verdicts) != {NOT_RUN}:
        verdict = UNDECIDED
    return Judgement(verdict, rule, evidence + lacking)


def _by_protocol(results, features, labels, rule, judge):
    """Judge both protocols and both measures; the paper's own protocol decides.

    ``judge(n, here)`` gives the verdict on mean errors by feature for one number of labels, and
    what to say about it. Means are over the seeds and draws that all of the features have: each
    has other labelled rows.
    """
    run = {
        (system, record["lam"])
        for system, records in low_data.systems_in(results, "mnist").items()
        for record in records
    }
    systems = [system for system in features if system in paper.SYSTEMS]
    missing = [(s, lam) for s in systems for lam in paper.lams(s) if (s, lam) not in run]
    verdicts, evidence = {}, []
    for protocol in low_data.PROTOCOLS:
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
            lines.append(f"{protocol}, {name} error by labels a class: " + "; ".join(told))
        verdicts[protocol], lacking = _so_far(_all(judged), missing)
        seeds, draws = (set(numbers) for numbers in _numbers(found, features, labels[0]))
        counts = f"seeds: {len(seeds)}, draws: {len(draws)}"
        evidence.append(f"protocol *{protocol}* ({counts}): **{verdicts[protocol]}**")
        evidence += lines
    return Judgement(verdicts["paper"], rule, evidence + lacking)


def _draw(entry):
    return entry["seed"], entry["draw"]


def _draws(found, features, n):
    """Pairs of a seed and a draw that were run for all of the features."""
    return set.intersection(*({_draw(entry) for entry in found[s, n] or ()} for s in features))


def _numbers(found, features, n):
    """Seeds and draws of these pairs; both empty if there are none."""
    return tuple(zip(*_draws(found, features, n), strict=True)) or ((), ())


def _means(found, features, n, measure):
    """Mean error of each feature over the draws that all have; empty if there are none."""
    draws = _draws(found, features, n)
    return {
        system: float(np.mean([e[measure] for e in found[system, n] if _draw(e) in draws]))
        for system in (features if draws else ())
    }


def probes_beat_raw(results):
    """Second claim."""

    systems = ("SDL", "SDL-NL", "VDL", "VDL-NL")

    def judge(n, here):
        wanted = [system for system in systems if n > 2 or system != "SDL"]
        raw = here[low_data.RAW]
        worse = [system for system in wanted if here[system] >= raw]
        text = f"raw {raw:.1%}, worst {max(here[system] for system in wanted):.1%}"
        if worse:
            text += " (not below: " + ", ".join(f"{s} {here[s]:.1%}" for s in worse) + ")"
        return REFUTED if worse else CONFIRMED, text

    rule = (
        "Mean error over seeds and draws, top-1 and top-3, below that on raw pixels for SDL, "
        "SDL-NL, VDL and VDL-NL and 1 to 100 labels a class, except SDL with 1 or 2. The verdict "
        "is that of the protocol *paper*."
    )
    features = (low_data.RAW, *systems)
    return _by_protocol(results, features, (1, 2, 5, 10, 20, 50, 100), rule, judge)


def best_with_few_labels(results):
    """Third claim."""

    def judge(n, here):
        ours = here.pop("VDL-NL")
        rival = min(here, key=here.get)
        verdict = CONFIRMED if ours < here[rival] else REFUTED
        return verdict, f"VDL-NL {ours:.1%}, best of the others {rival} {here[rival]:.1%}"

    rule = (
        "Mean error over seeds and draws, top-1 and top-3, lowest for VDL-NL among raw pixels, "
        "LISTA from scratch and all eight systems, with 1, 2, 5 and 10 labels a class. The verdict "
        "is that of the protocol *paper*."
    )
    return _by_protocol(results, low_data.FEATURES, (1, 2, 5, 10), rule, judge)


def collapse_without_guard(results):
    """Fourth claim."""
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
        guarded = [s for s in ablation.SYSTEMS if s in systems and not s.startswith("unguarded")]
        fallen = [s for s in guarded if ablation.collapsed(ablation.curve(systems[s]))]
        text = f"collapse of {', '.join(fallen)}" if fallen else "no collapse"
        evidence.append(f"{key}, with a guard ({', '.join(guarded) or NOT_RUN}): {text}")
    return Judgement(
        _all(verdicts), f"{ablation.RULE} Both must, in every way they were run.", evidence
    )


def _ablations(results, dataset):
    for (lam, recipe), systems in ablation.groups(results, dataset).items():
        yield f"{NAMES[dataset]}, lam {lam:g}, recipe {recipe}", systems


CLAIMS = (best_at_high_sparsity, probes_beat_raw, best_with_few_labels, collapse_without_guard)


def section(results):
    """Lines of the report."""
    lines = []
    for number, (text, judge) in enumerate(zip(TARGETS["claims"], CLAIMS, strict=True), start=1):
        judgement = judge(results)
        lines += [
            f"{number}. {text}: **{judgement.verdict}**",
            "",
            f"   Rule: {judgement.rule}",
            "",
        ]
        lines += [f"   - {line}" for line in judgement.evidence] + [""]
    return lines
