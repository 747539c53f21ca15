"""Trade-off: PSNR against sparsity for every system and lam, next to the paper's."""

from dataclasses import dataclass

import numpy as np

from skvdl import paper
from skvdl.plotting import TradeOffDisplay

from .files import TARGETS, reported, write_json
from .models import load_data, pixel_psnr, published_settings
from .pages import (
    NAMES,
    NOT_RUN,
    epochs_of,
    group,
    mean_std,
    picture,
    recipe_of,
    save_figure,
    signed,
    style_of,
    table,
)
from .sweep import train

SIGMAS = (1.0, 1.5)
HEADER = (
    *("system", "lam", "recipe", "epochs", "seeds", "PSNR, dB", "above noise", "paper"),
    *("difference", "zeros, %", "paper", "difference", "dead", "verdict", "used"),
)


def run(plan):
    """Train what is missing; the figures are part of each run's record."""
    measure_noise(plan)
    return train(plan, need_models=False)


def measure_noise(plan):
    """PSNR of the noise itself, which natural patches are compared relative to."""
    size = "" if plan.size == "full" else f"_{plan.size}"
    path = plan.folders.results / "noise" / f"{plan.dataset}{size}.json"
    if path.exists():
        return
    data = load_data(plan.dataset, plan.folders.models, plan.size)
    values = {str(s): pixel_psnr(data, "test", add_noise(data.X_test, s, 0)) for s in SIGMAS}
    write_json(path, {"dataset": plan.dataset, "size": plan.size, "psnr": values})


def add_noise(X, sigma, seed):
    """Corrupt rows by Gaussian noise, the same for every model."""
    rng = np.random.default_rng([seed, round(1000 * sigma)])
    return X + np.float32(sigma) * rng.standard_normal(X.shape, dtype=np.float32)


OTHER_FIGURE = "meets the paper's other figure"
MET = ("within", "better in both", OTHER_FIGURE)
MISSED = "missed"


@dataclass(frozen=True)
class Point:
    """Runs that differ in their seed alone, and what the paper has for them."""

    system: str
    lam: float
    recipe: str
    records: list
    target: dict | None
    offsets: tuple | None  # PSNR of noise here and in the paper; None if it is needed but unknown

    def values(self, name):
        """One figure of the test set for every seed."""
        return [record["test"][name] for record in self.records]

    @property
    def psnr(self):
        """Mean over seeds."""
        return float(np.mean(self.values("psnr")))

    @property
    def sparsity(self):
        """Mean over seeds."""
        return float(np.mean(self.values("sparsity")))

    def difference_to(self, target):
        """PSNR and sparsity minus the paper's; None if there is nothing to compare with."""
        if target is None or self.offsets is None:
            return None
        ours, theirs = self.psnr - self.offsets[0], target["psnr"] - self.offsets[1]
        return ours - theirs, self.sparsity - target["sparsity"]

    @property
    def difference(self):
        """Difference to the figures the paper has for this point."""
        return self.difference_to(self.target)

    @property
    def verdict(self):
        """What the differences amount to, given what is tolerated."""
        if self.difference is None:
            return ""
        tolerated = TARGETS["tolerance"]["trade_off"][self.target["dataset"]]
        tolerance = tolerated["psnr"], tolerated["sparsity"]
        verdict = judge(*self.difference, *tolerance)
        other = self.difference_to(self.target.get("also"))
        if verdict not in MET and other is not None and judge(*other, *tolerance) in MET:
            return OTHER_FIGURE
        return verdict


def judge(psnr, sparsity, psnr_tolerance, sparsity_tolerance):
    """Verdict on differences to the paper; rounding is that of the computer alone."""
    psnr, sparsity = round(psnr, 9), round(sparsity, 9)
    if psnr >= 0 and sparsity >= 0:
        return "better in both" if psnr or sparsity else "within"
    if abs(psnr) <= psnr_tolerance and abs(sparsity) <= sparsity_tolerance:
        return "within"
    if psnr >= -psnr_tolerance and sparsity >= -sparsity_tolerance:
        return "better in one, within in the other"
    return MISSED


def points(results, dataset):
    """All points of a dataset, by system and lam."""
    # not those of the ablation, which learn otherwise
    records = [r for r in results.runs if r["dataset"] == dataset and not r.get("learning_rate")]
    return [
        Point(system, lam, recipe, same, _target(dataset, system, lam), _offsets(results, dataset))
        for (system, lam, recipe), same in group(records, "system", "lam", recipe_of).items()
    ]


def _target(dataset, system, lam):
    rows = reported("trade_off", dataset, system)
    return next((row for row in rows if row["lam"] == lam), None)


def _offsets(results, dataset):
    if dataset not in TARGETS["relative_to_noise"]:
        return 0.0, 0.0
    if dataset not in results.noise:
        return None
    return results.noise[dataset]["1.0"], TARGETS["noise"][dataset]["1.0"]


def chosen(candidates):
    """One point for each system and lam: not missed, then most seeds, then the fast recipe."""

    def rank(point):
        return point.verdict != MISSED, len(point.records), point.recipe == "fast"

    groups = {}
    for point in candidates:
        groups.setdefault((point.system, point.lam), []).append(point)
    return {key: max(same, key=rank) for key, same in groups.items()}


def curves(results, dataset):
    """Chosen points of every system that has any, the most zeros last."""
    found = {}
    for (system, _), point in chosen(points(results, dataset)).items():
        found.setdefault(system, []).append(point)
    order = [system for system in paper.SYSTEMS if system in found]
    return {system: sorted(found[system], key=lambda p: p.sparsity) for system in order}


def section(results, folders, page, dataset):
    """Lines of the report."""
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
    lines = [f"### {NAMES[dataset]}", "", *table(HEADER, rows)]
    if verdicts:
        counts = {v: verdicts.count(v) for v in dict.fromkeys(verdicts)}
        summary = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
        lines += [f"Of {len(verdicts)} points that the paper has figures for: {summary}.", ""]
    lines += _curve_lines(results, dataset)
    for target in reported("trade_off", dataset):
        if "caveat" in target:
            lines += [f"{target['system']}, lam {target['lam']:g}: {target['caveat']}.", ""]
    if used:
        path = folders.figures / f"trade_off_{dataset}.png"
        _plot(results, dataset, path)
        lines += picture(path, page, f"Trade-off, {NAMES[dataset]}")
    return lines


def at_zeros(curve, sparsity, widest=1.0):
    """PSNR of a curve at a share of zeros, on the straight line between two points of it.

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


def _curve_lines(results, dataset):
    """How the curves stand where the paper has its points, whatever lam gets there."""
    offsets = _offsets(results, dataset)
    found = curves(results, dataset)
    rows = []
    for target in reported("trade_off", dataset):
        curve = found.get(target["system"])
        ours = at_zeros(curve, target["sparsity"]) if curve and offsets else None
        if ours is None:
            continue
        theirs = target["psnr"] - offsets[1] + offsets[0]
        cells = (f"{ours:.2f}", f"{theirs:.2f}", signed(ours - theirs))
        rows.append((target["system"], f"{target['lam']:g}", _paper_zeros(target), *cells))
    if not rows:
        return []
    text = "The same curves at the paper's share of zeros, whatever lam it takes to get there: on "
    text += "straight lines between two points, which are too low where these are far apart"
    if dataset in TARGETS["relative_to_noise"]:
        text += "; the paper's PSNR shifted by the difference of noise"
    text += ". Left out are points beyond the ends of a curve"
    header = ("system", "paper's lam", "zeros, %", "PSNR here, dB", "paper", "difference")
    return [f"{text}.", "", *table(header, rows)]


def wanted(dataset):
    """Systems and lams that are to be run: of natural patches those the paper has figures for."""
    settings = published_settings(dataset)
    if dataset == "natural":
        return [(row["system"], row["lam"]) for row in reported("trade_off", dataset)]
    return [(system, lam) for system in paper.SYSTEMS for lam in paper.lams(system, settings)]


def _in_table(dataset, every):
    """Systems and lams that belong in the table, run or not."""
    more = sorted((p.system, p.lam) for p in every if p.system not in paper.ABLATIONS)
    order = list(paper.SYSTEMS)
    pairs = dict.fromkeys(wanted(dataset) + more)
    return sorted(pairs, key=lambda pair: (order.index(pair[0]), pair[1]))


def _row(point, used):
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


def _missing_row(system, lam, target, offsets):
    cells = (system, f"{lam:g}", NOT_RUN, "", "", NOT_RUN, "", _paper_psnr(target, offsets), "")
    return (*cells, NOT_RUN, _paper_zeros(target), "", "", NOT_RUN if target else "", "")


def _above_noise(point):
    if point.offsets is None:
        return "noise not measured"
    return signed(point.psnr - point.offsets[0]) if point.offsets[0] else ""


def _paper_psnr(target, offsets):
    if target is None:
        return ""
    theirs = offsets[1] if offsets else 0.0
    return f"{target['psnr']:.1f}" + (f" ({signed(target['psnr'] - theirs, 1)})" if theirs else "")


def _paper_zeros(target):
    return "" if target is None else f"{100 * target['sparsity']:.1f}"


def _plot(results, dataset, path):
    """Curves with error bars over the seeds, and stars where the paper has figures."""
    flat = [(system, p) for system, curve in curves(results, dataset).items() for p in curve]
    most = max(len(point.records) for _, point in flat)

    def padded(name):
        rows = [point.values(name) for _, point in flat]
        return [row + [np.nan] * (most - len(row)) for row in rows]

    display = TradeOffDisplay.from_predictions(
        padded("sparsity"), padded("psnr"), labels=[system for system, _ in flat]
    )
    ax = display.ax_
    display.figure_.set_size_inches(8, 5.5)
    for system, container in display.curves_.items():
        style = style_of(system)
        container.lines[0].set_linestyle(style["linestyle"])
        for artist in container.get_children():
            artist.set_color(style["color"])
        rows = reported("trade_off", dataset, system)
        offsets = _offsets(results, dataset) or (np.nan, 0.0)
        x = [row["sparsity"] for row in rows]
        y = [row["psnr"] - offsets[1] + offsets[0] for row in rows]
        # filled for networks, as their lines are full
        fill = style["color"] if style["linestyle"] == "-" else "none"
        ax.plot(x, y, "*", color=style["color"], markersize=13, markerfacecolor=fill)
    stars = "stars: the paper, filled for networks"
    noted = stars if reported("trade_off", dataset) else "no figures in the paper"
    if dataset in TARGETS["relative_to_noise"]:
        noted += ", shifted by the difference of noise"
    ax.set_title(f"{NAMES[dataset]}, test set ({noted})", loc="left", fontsize="medium")
    ax.legend(frameon=False)
    save_figure(display.figure_, path)
