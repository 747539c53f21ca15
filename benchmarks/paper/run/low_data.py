"""Classification with few labels: probes on codes, on raw pixels, and LISTA from scratch.

There are two protocols. *paper* has the same labelled rows for all seeds and chooses by the
validation set; *strict* has its own labelled rows for each seed and chooses by these alone. Here
every lam and penalty is measured; the choice is part of the analysis.
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial

import numpy as np

from ..draws import pack, unpack
from ..settings import LOW_DATA, PROTOCOLS, RAW, SCRATCH, Run, is_current
from .models import current, fit_or_load, load_data, transform
from .plan import Plan
from .probes import LISTAClassifier, Scaler, candidates, draw_few, top_errors
from .sweep import each, train, trained

_SCALE_ROWS = 5000

# One thing to measure: a protocol, a number of labels per class, a draw.
Cell = tuple[str, int | str, int]


def n_draws(n: int | str, size: str = "full") -> int:
    """Return how often to draw labelled rows: the fewer they are, the more depends on which."""
    if n == "all":
        return 1
    if size == "toy":
        return 2
    return 10 if int(n) <= 10 else 3


@dataclass(frozen=True)
class Baseline:
    """A classifier on the pixels, without a model trained before."""

    system: str
    dataset: str
    seed: int
    size: str
    n_components: int
    lam: None = None
    recipe: str = "none"
    epochs: None = None

    @property
    def name(self) -> str:
        """Name of its records."""
        system = self.system.replace(" ", "").replace("+", "-")
        size = "" if self.size == "full" else f"_{self.size}"
        return f"{self.dataset}_{system}_seed{self.seed}{size}"


Job = Run | Baseline


def run(plan: Plan) -> int:
    """Train what is missing, then fit the probes."""
    if load_data(plan.dataset, plan.folders.models, plan.size).y_train is None:
        raise SystemExit(f"low-data: there are no labels in the dataset {plan.dataset!r}.")
    tables = _read(plan)
    runs = [run for run in plan.runs() if _missing(run, plan, tables)]
    failed = train(plan, runs)
    n_components = Run("VDL", plan.dataset, 0.0, 0, size=plan.size).make().n_components
    baselines = [
        Baseline(system, plan.dataset, seed, plan.size, n_components)
        for seed in range(plan.seeds)
        for system in (RAW, SCRATCH)
    ]
    todo = [job for job in baselines if _missing(job, plan, tables)]
    return failed + each(_evaluate, [*todo, *trained(runs, plan)], plan, "low-data")


def _read(plan: Plan) -> dict[str, dict]:
    """Return the tables of both protocols."""
    return {protocol: plan.folders.table(LOW_DATA[protocol]).read() for protocol in PROTOCOLS}


def _missing(job: Job, plan: Plan, tables: dict[str, dict]) -> list[Cell]:
    """Return what is asked for and not measured yet, or on a model with other settings."""
    missing = []
    for protocol, records in tables.items():
        labels = (current(job.name, records) or {"labels": {}})["labels"]
        missing += [
            (protocol, n, draw)
            for n in plan.labels
            for draw in range(n_draws(n, job.size))
            if draw not in labels.get(str(n), {"draw": ()})["draw"]
        ]
    return missing


def _evaluate(job: Job, plan: Plan) -> str:
    data = load_data(job.dataset, plan.folders.models, job.size)
    missing = _missing(job, plan, _read(plan))
    start = asdict(job)
    if isinstance(job, Run):
        model, record = fit_or_load(job, data, plan.folders)
        start["parameters"] = record["parameters"]
        found = _probe_features(lambda X: transform(model, X), data, job.seed, missing)
    elif job.system == RAW:
        found = _probe_features(np.asarray, data, job.seed, missing)
    else:
        found = _train_from_scratch(data, job, missing)
    for protocol in PROTOCOLS:
        new = {cell[1:]: entries for cell, entries in found.items() if cell[0] == protocol}
        if new:
            table = plan.folders.table(LOW_DATA[protocol])
            table.update(job.name, partial(_extended, start=start, new=new))
    first = missing[0][:2]
    errors = [e["top1"] for cell, entries in found.items() if cell[:2] == first for e in entries]
    return f"top-1 error {min(errors):.1%} to {max(errors):.1%} with {first[1]} labels per class"


def _extended(old: dict | None, start: dict, new: dict[tuple, list[dict]]) -> dict:
    """Return a record with more draws, and without those of a model with other settings."""
    if old is None or not is_current(old):
        old = {"labels": {}}
    labels = {n: unpack(packed) for n, packed in old["labels"].items()}
    for (n, draw), entries in new.items():
        kept = [entry for entry in labels.get(str(n), ()) if entry["draw"] != draw]
        labels[str(n)] = sorted(kept + entries, key=lambda entry: entry["draw"])
    return {**start, "labels": {n: pack(entries) for n, entries in labels.items()}}


def _labelled(
    data, seed: int, cells: list[Cell]
) -> Iterator[tuple[list[Cell], slice | np.ndarray]]:
    """Return labelled rows, with the cells they are for: with all labels one fit is for both."""
    both = [cell for cell in cells if cell[1] == "all"]
    if both:
        yield both, slice(None)
    for protocol, n, draw in cells:
        if isinstance(n, int):
            first = 0 if protocol == "paper" else 1 + seed
            rng = np.random.default_rng([first, n, draw])
            yield [(protocol, n, draw)], draw_few(data.y_train, n, rng)


def _probe_features(
    features: Callable[[np.ndarray], np.ndarray], data, seed: int, cells: list[Cell]
) -> dict[Cell, list[dict]]:
    """Return the errors of probes on features, an entry for each penalty."""
    scale = Scaler(features(data.X_train[:_SCALE_ROWS]))

    def scaled(X):
        return scale(features(X))

    test = scaled(data.X_test), data.y_test
    validation = scaled(data.X_val), data.y_val
    found = {}
    for same, rows in _labelled(data, seed, cells):
        protocols = {protocol for protocol, _, _ in same}
        entries = candidates(
            scaled(data.X_train[rows]),
            data.y_train[rows],
            test,
            validation=validation if "paper" in protocols else None,
            cross_validate=seed if "strict" in protocols else None,
        )
        for cell in same:
            found[cell] = [{"draw": cell[2], **entry} for entry in entries]
    return found


def _train_from_scratch(data, job: Baseline, cells: list[Cell]) -> dict[Cell, list[dict]]:
    """Return the errors of classifiers that are trained as a whole."""
    found = {}
    for same, rows in _labelled(data, job.seed, cells):
        for cell in same:
            classifier = LISTAClassifier(job.n_components, job.seed)
            validation = (data.X_val, data.y_val) if cell[0] == "paper" else None
            classifier.fit(data.X_train[rows], data.y_train[rows], validation)
            errors = top_errors(classifier.scores(data.X_test), data.y_test)
            # a single candidate: there is nothing to choose
            found[cell] = [{"draw": cell[2], "C": None, **errors}]
    return found
