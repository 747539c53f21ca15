"""Ablation: the l1 norm of the codes over the epochs, without any guard and with each.

All learn at a constant rate, as in the paper: one that goes down to zero would stop a collapse.
Networks are run twice, with the recipe's own inference, whose short steps leave codes where the
encoder predicts them, and with a thorough one (longer steps, up to 40 iterations, five epochs). The
second was set up after the first had shown no collapse, the last of seven settings tried; both
count.
"""

from dataclasses import replace

import numpy as np

from .pages import (
    NAMES,
    NOT_RUN,
    group,
    log_axis,
    new_figure,
    picture,
    recipe_of,
    save_figure,
    style_of,
    table,
    tidy,
)
from .sweep import train

LAM = 0.005
GUARDS = {"unguarded": "nothing", "SDL": "unit norm", "VDL": "variance", "WDL": "weight decay"}
SYSTEMS = tuple(kind + suffix for suffix in ("", "-NL") for kind in GUARDS)
# The rule for a verdict, as the report states it.
FALLEN = 0.5
RULE = f"Collapse: in the last epoch the l1 norm is below {FALLEN:.0%} of that in the first one."


def run(plan):
    """Train what is missing; the curves are part of each run's record."""
    lams = plan.lams if isinstance(plan.lams, tuple) else (LAM,)
    points = [(system, lam) for lam in lams for system in plan.systems or SYSTEMS]
    runs = plan.runs(points)
    if plan.recipe == "fast":
        runs = [replace(run, learning_rate="constant") for run in runs]
        runs += [replace(run, thorough=True) for run in runs if run.system.endswith("-NL")]
    return train(plan, runs, need_models=False)


def curve(records):
    """Mean over seeds of the l1 norm in every epoch."""
    curves = [record["history"]["l1"] for record in records]
    least = min(map(len, curves))
    return np.mean([c[:least] for c in curves], axis=0)


def dead(records):
    """Components that no row of the test set uses, in the seed with most of them."""
    return max(record["test"]["dead"] for record in records)


def collapsed(l1):
    """Whether a curve is one of collapse, by the rule."""
    return bool(l1[-1] < FALLEN * l1[0])


def groups(results, dataset):
    """Records by system for every lam and recipe that were tried without a guard."""
    records = [r for r in results.runs if r["dataset"] == dataset and r["system"] in SYSTEMS]
    found = {}
    for (lam, recipe, system), same in group(records, "lam", recipe_of, "system").items():
        found.setdefault((lam, recipe), {})[system] = same
    return {
        key: systems
        for key, systems in found.items()
        if any(system.startswith("unguarded") for system in systems)
    }


def section(results, folders, page, dataset):
    """Lines of the report."""
    lines = [f"### {NAMES[dataset]}", ""]
    found = groups(results, dataset)
    lines += _table(found)
    for (lam, recipe), systems in found.items():
        curves = {system: curve(same) for system, same in systems.items()}
        name = f"ablation_{dataset}_lam{lam:g}_{recipe}".replace(", ", "_").replace(" ", "")
        path = folders.figures / f"{name}.png"
        _plot(curves, f"{NAMES[dataset]}, lam {lam:g}, {recipe}", path)
        lines += picture(path, page, f"l1 norm over epochs, {NAMES[dataset]}, lam {lam:g}")
    return lines


def _table(found):
    """One row for every way in which a system was run, one for a system that was not."""
    header = ("system", "guard", "lam", "recipe", "epochs", "l1, first epoch", "halfway", "last")
    header += ("last / first", "last / variance guard's", "dead", "verdict")
    rows = []
    for system in SYSTEMS:
        kind, dash, suffix = system.partition("-")
        ways = {key: systems for key, systems in found.items() if system in systems}
        if not ways:
            empty = [""] * (len(header) - 5)
            rows.append((system, GUARDS[kind], f"{LAM:g}", NOT_RUN, *empty, NOT_RUN))
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
    return table(header, rows)


def _plot(curves, title, path):
    kinds = {"linear": "", "network": "-NL"}
    run = {name: [k for k in GUARDS if k + suffix in curves] for name, suffix in kinds.items()}
    run = {name: guards for name, guards in run.items() if guards}
    figure, axes = new_figure(1, len(run), 4.5 * len(run), 3.8, sharey=True)
    for ax, (name, guards) in zip(axes[0], run.items(), strict=True):
        for system, guard in ((k + kinds[name], GUARDS[k]) for k in guards):
            l1 = curves[system]
            style = style_of(system)
            ax.plot(np.arange(1, len(l1) + 1), l1, label=f"{system} ({guard})", **style)
        ax.set_title(f"{title}: {name}", loc="left", fontsize="small")
        log_axis(ax.yaxis)
        ax.xaxis.get_major_locator().set_params(integer=True)
        ax.set_xlabel("epoch")
        tidy(ax)
        ax.legend(frameon=False, fontsize="small")
    axes[0, 0].set_ylabel("l1 norm of a code")
    save_figure(figure, path)
