"""Trade-off: PSNR against sparsity for every system and lam, next to the paper's."""

from dataclasses import dataclass

import numpy as np

from skvdl import paper

from ..settings import published_lams
from ..targets import TARGETS, reported
from .results import Results, epochs_of, recipe_of
from .tables import NOT_RUN, TextTable, group, mean_std, signed

HEADER = (
    *("system", "lam", "recipe", "epochs", "seeds", "PSNR, dB", "above noise", "paper"),
    *("difference", "zeros, %", "paper", "difference", "dead", "verdict", "used"),
)
OTHER_FIGURE = "meets the paper's other figure"
MET = ("within", "better in both", OTHER_FIGURE)
MISSED = "missed"


@dataclass(frozen=True)
class Point:
    """Runs that differ in their seed alone, and what the paper has for them."""

    system: str
    lam: float
    recipe: str
    records: list[dict]
    target: dict | None
    # PSNR of noise here and in the paper; None if it is needed but unknown
    offsets: tuple[float, float] | None

    def values(self, name: str) -> list[float]:
        """Return one figure of the test set for every seed."""
        return [record["test"][name] for record in self.records]

    @property
    def psnr(self) -> float:
        """Mean over seeds."""
        return float(np.mean(self.values("psnr")))

    @property
    def sparsity(self) -> float:
        """Mean over seeds."""
        return float(np.mean(self.values("sparsity")))

    def difference_to(self, target: dict | None) -> tuple[float, float] | None:
        """Return PSNR and sparsity minus the paper's; None if there is nothing to compare with."""
        if target is None or self.offsets is None:
            return None
        ours, theirs = self.psnr - self.offsets[0], target["psnr"] - self.offsets[1]
        return ours - theirs, self.sparsity - target["sparsity"]

    @property
    def difference(self) -> tuple[float, float] | None:
        """Difference to the figures the paper has for this point."""
        return self.difference_to(self.target)

    @property
    def verdict(self) -> str:
        """What the differences amount to, given what is tolerated."""
        if self.target is None or self.difference is None:
            return ""
        tolerated = TARGETS["tolerance"]["trade_off"][self.target["dataset"]]
        tolerance = tolerated["psnr"], tolerated["sparsity"]
        verdict = judge(*self.difference, *tolerance)
        other = self.difference_to(self.target.get("also"))
        if verdict not in MET and other is not None and judge(*other, *tolerance) in MET:
            return OTHER_FIGURE
        return verdict


def judge(psnr: float, sparsity: float, psnr_tolerance: float, sparsity_tolerance: float) -> str:
    """Return the verdict on differences to the paper, free of floating-point noise."""
    psnr, sparsity = round(psnr, 9), round(sparsity, 9)
    if psnr >= 0 and sparsity >= 0:
        return "better in both" if psnr or sparsity else "within"
    if abs(psnr) <= psnr_tolerance and abs(sparsity) <= sparsity_tolerance:
        return "within"
    if psnr >= -psnr_tolerance and sparsity >= -sparsity_tolerance:
        return "better in one, within in the other"
    return MISSED


def points(results: Results, dataset: str) -> list[Point]:
    """Return all points of a dataset."""
    # not those of the ablation, which learn otherwise
    records = [r for r in results.runs if r["dataset"] == dataset and not r.get("learning_rate")]
    return [
        Point(system, lam, recipe, same, _target(dataset, system, lam), _offsets(results, dataset))
        for (system, lam, recipe), same in group(records, "system", "lam", recipe_of).items()
    ]


def _target(dataset: str, system: str, lam: float) -> dict | None:
    rows = reported("trade_off", dataset, system)
    return next((row for row in rows if row["lam"] == lam), None)


def _offsets(results: Results, dataset: str) -> tuple[float, float] | None:
    if dataset not in TARGETS["relative_to_noise"]:
        return 0.0, 0.0
    if dataset not in results.noise:
        return None
    return results.noise[dataset]["1.0"], TARGETS["noise"][dataset]["1.0"]


def chosen(candidates: list[Point]) -> dict[tuple[str, float], Point]:
    """Return one point per system and lam: not missed, then most seeds, then the fast recipe."""

    def rank(point):
        return point.verdict != MISSED, len(point.records), point.recipe == "fast"

    groups = group(candidates, lambda point: point.system, lambda point: point.lam)
    return {key: max(same, key=rank) for key, same in groups.items()}


def curves(results: Results, dataset: str) -> dict[str, list[Point]]:
    """Return the chosen points of every system that has any, the most zeros last."""
    found: dict[str, list[Point]] = {}
    for (system, _), point in chosen(points(results, dataset)).items():
        found.setdefault(system, []).append(point)
    order = [system for system in paper.SYSTEMS if system in found]
    return {system: sorted(found[system], key=lambda p: p.sparsity) for system in order}


def at_zeros(curve: list[Point], sparsity: float, widest: float = 1.0) -> float | None:
    """Return the PSNR of a curve at a share of zeros, on the straight line between two points.

    None where the curve does not get there, or the two are further apart than `widest`: curves
    are concave, and a long line is well below them.
    """
    zeros = [point.sparsity for point in curve]
    if not zeros[0] <= sparsity <= zeros[-1]:
        return None
    above = next(i for i, share in enumerate(zeros) if share >= sparsity)
    if above and zeros[above] - zeros[above - 1] > widest:
        return None
    return float(np.interp(sparsity, zeros, [point.psnr for point in curve]))


def wanted(dataset: str) -> list[tuple[str, float]]:
    """Return the systems and lams to be run: of natural patches those with figures in the paper."""
    if dataset == "natural":
        return [(row["system"], row["lam"]) for row in reported("trade_off", dataset)]
    return [(s, lam) for s in paper.SYSTEMS for lam in published_lams(s, dataset)]


def agreement(results: Results, dataset: str) -> tuple[TextTable, dict[str, int]]:
    """Return the table of all points, and how many of the paper's got which verdict."""
    every = points(results, dataset)
    used = chosen(every)
    rows, verdicts = [], []
    for system, lam in _in_table(dataset, every):
        same = [p for p in every if (p.system, p.lam) == (system, lam)]
        rows += [_row(p, used[system, lam] is p and len(same) > 1) for p in same]
        target = _target(dataset, system, lam)
        if not same:
            rows.append(_missing_row(system, lam, target, _offsets(results, dataset)))
        if target:
            verdicts.append(used[system, lam].verdict or NOT_RUN if same else NOT_RUN)
    return TextTable(HEADER, rows), {v: verdicts.count(v) for v in dict.fromkeys(verdicts)}


def _in_table(dataset: str, every: list[Point]) -> list[tuple[str, float]]:
    """Return the systems and lams that belong in the table, run or not."""
    more = sorted((p.system, p.lam) for p in every if p.system not in paper.ABLATIONS)
    order = list(paper.SYSTEMS)
    pairs = dict.fromkeys(wanted(dataset) + more)
    return sorted(pairs, key=lambda pair: (order.index(pair[0]), pair[1]))


def at_papers_zeros(results: Results, dataset: str) -> TextTable:
    """Compare the curves with the paper's points at their share of zeros, whatever the lam."""
    offsets = _offsets(results, dataset)
    found = curves(results, dataset)
    rows = []
    for target in reported("trade_off", dataset):
        curve = found.get(target["system"])
        ours = at_zeros(curve, target["sparsity"]) if curve and offsets else None
        if ours is None or offsets is None:
            continue
        theirs = target["psnr"] - offsets[1] + offsets[0]
        cells = (f"{ours:.2f}", f"{theirs:.2f}", signed(ours - theirs))
        rows.append((target["system"], f"{target['lam']:g}", _paper_zeros(target), *cells))
    header = ("system", "paper's lam", "zeros, %", "PSNR here, dB", "paper", "difference")
    return TextTable(header, rows)


def papers_points(results: Results, dataset: str, system: str) -> list[tuple[float, float]]:
    """Return sparsity and PSNR of the paper's points, shifted by the difference of noise."""
    offsets = _offsets(results, dataset)
    if offsets is None:
        return []
    rows = reported("trade_off", dataset, system)
    return [(row["sparsity"], row["psnr"] - offsets[1] + offsets[0]) for row in rows]


def _row(point: Point, used: bool) -> tuple:
    psnr_difference, sparsity_difference = "", ""
    if point.difference is not None:
        psnr_difference = signed(point.difference[0])
        sparsity_difference = signed(100 * point.difference[1], 1)
    return (
        *(point.system, f"{point.lam:g}", point.recipe, epochs_of(point.records)),
        *(len(point.records), mean_std(point.values("psnr"))),
        *(_above_noise(point), _paper_psnr(point.target, point.offsets), psnr_difference),
        mean_std(point.values("sparsity"), 1, 100),
        *(_paper_zeros(point.target), sparsity_difference, max(point.values("dead"))),
        *(point.verdict, "used" if used else ""),
    )


def _missing_row(system: str, lam: float, target: dict | None, offsets: tuple | None) -> tuple:
    cells = (system, f"{lam:g}", NOT_RUN, "", "", NOT_RUN, "", _paper_psnr(target, offsets), "")
    return (*cells, NOT_RUN, _paper_zeros(target), "", "", NOT_RUN if target else "", "")


def _above_noise(point: Point) -> str:
    if point.offsets is None:
        return "noise not measured"
    return signed(point.psnr - point.offsets[0]) if point.offsets[0] else ""


def _paper_psnr(target: dict | None, offsets: tuple | None) -> str:
    if target is None:
        return ""
    theirs = offsets[1] if offsets else 0.0
    return f"{target['psnr']:.1f}" + (f" ({signed(target['psnr'] - theirs, 1)})" if theirs else "")


def _paper_zeros(target: dict | None) -> str:
    return "" if target is None else f"{100 * target['sparsity']:.1f}"
