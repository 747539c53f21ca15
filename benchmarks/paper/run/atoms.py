"""Atoms and encoder filters of every system, at one lam each."""

from collections.abc import Callable
from functools import partial

from ..settings import Run, middle_lam, published_settings
from ..targets import reported
from .models import fit_or_load, load_data, summary
from .plan import Plan
from .sweep import evaluate

KIND = "atoms"


def run(plan: Plan, draw: Callable) -> int:
    """Have the first seed of every system drawn, by default at one lam each.

    ``draw(model, data, title, path)`` draws the picture.
    """
    points = [
        (system, lam)
        for system in plan.systems_or_default()
        for lam in (plan.lams_of(system) if plan.lams else [_lam(system, plan.dataset)])
    ]
    runs = [run for run in plan.runs(points) if run.seed == 0]
    return evaluate(partial(_evaluate, draw=draw), runs, plan, KIND)


def _lam(system: str, dataset: str) -> float:
    """Return the least lam for which the paper has figures, or the middle published one."""
    rows = reported("trade_off", published_settings(dataset), system)
    return rows[0]["lam"] if rows else middle_lam(system, dataset)


def _evaluate(run: Run, plan: Plan, draw: Callable) -> str:
    data = load_data(run.dataset, plan.folders.models, run.size)
    model, record = fit_or_load(run, data, plan.folders)
    figure = f"atoms_{run.name}.png"
    draw(model, data, f"{run.system}, lam {run.lam:g}", plan.folders.figures / figure)
    plan.folders.table(KIND).put(run.name, {**summary(record), "figure": figure})
    return figure
