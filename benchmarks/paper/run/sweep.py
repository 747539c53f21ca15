"""Many jobs: on how many processes, what is left to do, and how long it still takes."""

import sys
import traceback
from collections.abc import Callable, Sequence
from time import perf_counter

import joblib
import torch
from joblib.externals.loky.process_executor import TerminatedWorkerError

from ..settings import Run
from .models import current, fit_or_load, is_trained, load_data
from .plan import Plan


def train(plan: Plan, runs: list[Run] | None = None, need_models: bool = True) -> int:
    """Train what is missing. Return the number of runs that failed.

    Without `need_models` a run with a record counts as done even if its model is not here: records
    are committed, models are not.
    """
    runs = plan.runs() if runs is None else runs
    records = plan.folders.table("runs").read()

    def done(run):
        if need_models:
            return is_trained(run, plan.folders, records)
        return current(run.name, records) is not None

    return each(_train_one, [run for run in runs if not done(run)], plan, "training")


def _train_one(run: Run, plan: Plan) -> str:
    data = load_data(run.dataset, plan.folders.models, run.size)
    # bars of several processes would overwrite one another
    bar = plan.jobs == 1 and sys.stderr.isatty()
    record = fit_or_load(run, data, plan.folders, verbose=bar)[1]
    test = record["test"]
    return (
        f"{test['psnr']:.2f} dB, {test['sparsity']:.1%} zeros, {test['dead']} dead, "
        f"{record['n_iter']} epochs in {record['seconds']:.0f} s"
        + (", DIVERGED" if record["diverged"] else "")
    )


def evaluate(function: Callable[[Run, Plan], str], runs: list[Run], plan: Plan, kind: str) -> int:
    """Train what is missing, then call ``function(run, plan)`` where there is no result yet."""
    records = plan.folders.table(kind).read()
    todo = [run for run in runs if current(run.name, records) is None]
    failed = train(plan, todo)
    return failed + each(function, trained(todo, plan), plan, kind)


def trained(runs: list[Run], plan: Plan) -> list[Run]:
    """Return the runs whose models are there."""
    records = plan.folders.table("runs").read()
    return [run for run in runs if is_trained(run, plan.folders, records)]


def each(function: Callable, jobs: Sequence, plan: Plan, what: str) -> int:
    """Call ``function(job, plan)`` for every job and print one line of progress for each.

    The function returns what to say in that line. One that fails is reported and does not stop
    the others, unless its whole process was killed. Return the number of failures.
    """
    if not jobs:
        print(f"{what}: nothing left to do, results are in {plan.folders.results}", flush=True)
        return 0
    # once here, so that the workers do not all prepare the same data
    load_data(plan.dataset, plan.folders.models, plan.size)
    print(f"{what}: {len(jobs)} to do, {plan.jobs} at once", flush=True)
    start = perf_counter()
    count = failed = 0
    with joblib.parallel_config(backend="loky", inner_max_num_threads=1):
        pool = joblib.Parallel(n_jobs=plan.jobs, return_as="generator_unordered", batch_size=1)
        outcomes = pool(joblib.delayed(_guarded)(function, job, plan) for job in jobs)
        try:
            for count, (line, error) in enumerate(outcomes, start=1):
                left = (perf_counter() - start) / count * (len(jobs) - count)
                print(f"[{count}/{len(jobs)}] {line}; {_duration(left)} left", flush=True)
                if error:
                    failed += 1
                    print(error, file=sys.stderr, flush=True)
        except TerminatedWorkerError as error:
            # most likely for want of memory; what was finished is saved
            print(error, file=sys.stderr, flush=True)
            failed += len(jobs) - count
    return failed


def _guarded(function, job, plan):
    torch.set_num_threads(1)
    try:
        return f"{job.name}: {function(job, plan)}", None
    except Exception as error:
        return f"{job.name} FAILED: {error}", traceback.format_exc()


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
