"""Ablation: training without any guard against collapse, and with each.

All systems learn at a constant rate, as in the paper. Networks are run twice: with the recipe's own
inference and with a thorough one.
"""

from dataclasses import replace

from ..settings import ABLATION_LAM, ABLATION_SYSTEMS
from .plan import Plan
from .sweep import train


def run(plan: Plan) -> int:
    """Train what is missing; the curves are part of each run's record."""
    lams = plan.lams if isinstance(plan.lams, tuple) else (ABLATION_LAM,)
    points = [(system, lam) for lam in lams for system in plan.systems or ABLATION_SYSTEMS]
    runs = plan.runs(points)
    if plan.recipe == "fast":
        runs = [replace(run, learning_rate="constant") for run in runs]
        runs += [replace(run, thorough=True) for run in runs if run.system.endswith("-NL")]
    return train(plan, runs, need_models=False)
