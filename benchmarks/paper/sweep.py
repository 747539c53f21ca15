"""Many runs: which ones, in what order, on how many processes, and how long it still takes."""

import sys
import traceback
from dataclasses import dataclass, field
from time import perf_counter

import joblib
import torch
from joblib.externals.loky.process_executor import TerminatedWorkerError

from skvdl import paper

from .files import Folders, reported
from .models import Run, fit_or_load, is_trained, load_data, load_result, published_settings

# Systems whose trade-off the paper shows.
SYSTEMS = {"mnist": paper.SYSTEMS, "natural": ("SDL", "SDL-NL", "VDL", "VDL-NL")}


@dataclass(frozen=True)
class Plan:
    """What the command line asked for; each experiment has its own idea of what None means."""

    dataset: str = "mnist"
    systems: tuple | None = None
    lams: tuple | str | None = None
    seeds: int = 1
    recipe: str = "fast"
    epochs: int | None = None
    size: str = "full"
    jobs: int = 1
    labels: tuple = (1, 2, 5, 10, 20, 50, 100, "all")
    folders: Folders = field(default_factory=Folders)

    def systems_or_default(self):
        """Systems asked for, or those the paper trains on these data."""
        return self.systems or SYSTEMS[published_settings(self.dataset)]

    def lams_of(self, system):
        """Weights of the l1 norm asked for: by default all published ones.

        For natural patches, where each takes long, only those for which the paper has figures.
        """
        lams = self.lams or ("reported" if self.dataset == "natural" else "all")
        if lams == "reported":
            settings = published_settings(self.dataset)
            lams = tuple(row["lam"] for row in reported("trade_off", settings, system)) or "all"
        return paper.lams(system, published_settings(self.dataset)) if lams == "all" else lams

    def runs(self, points=None):
        """All runs, one seed after the other: the first of everything comes first.

        Points are pairs of system and lam.
        """
        if points is None:
            systems = self.systems_or_default()
            points = [(system, lam) for system in systems for lam in self.lams_of(system)]
        how = {"recipe": self.recipe, "epochs": self.epochs, "size": self.size}
        return [
            Run(system, self.dataset, lam, seed, **how)
            for seed in range(self.seeds)
            for system, lam in points
        ]


def train(plan, runs=None, need_models=True):
    """Train what is missing. Returns the number of runs that failed.

    Without `need_models` a run that has left its record counts as done, though its model is not
    here: records are committed, models are not.
    """
    runs = plan.runs() if runs is None else runs
    done = is_trained if need_models else load_result
    todo = [run for run in runs if not done(run, plan.folders)]
    return each(_train_one, todo, plan, "training")


def _train_one(run, plan):
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


def evaluate(function, runs, plan, kind):
    """Train what is missing, then call ``function(run, plan)`` where there is no result yet."""
    todo = [run for run in runs if load_result(run, plan.folders, kind) is None]
    failed = train(plan, todo)
    ready = [run for run in todo if is_trained(run, plan.folders)]
    return failed + each(function, ready, plan, kind)


def each(function, jobs, plan, what):
    """Call ``function(job, plan)`` for every job, a line of progress for each.

    The function returns what to say in that line. One that fails is reported and does not stop
    the others, unless its whole process was killed. Returns the number of failures.
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
        return f"{job.stem}: {function(job, plan)}", None
    except Exception as error:
        return f"{job.stem} FAILED: {error}", traceback.format_exc()


def _duration(seconds):
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
