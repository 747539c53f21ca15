"""Classification with few labels: probes on codes, on raw pixels, and LISTA from scratch.

Two protocols. "paper": the same labelled rows for all seeds; lam and penalty by accuracy on the
whole validation set, averaged over seeds and draws. "strict": labelled rows of its own for each
seed; lam and penalty by cross-validation on these alone, draw by draw, and with one label a class,
where there is nothing to divide, the middle one of the published lams and a penalty fixed in
advance. Labelled rows are drawn ten times for each seed, three times if they are more than 10 a
class; figures are means over seeds and draws, with the standard deviation over both.
"""

import json
from dataclasses import asdict, dataclass

import numpy as np

from skvdl import paper

from .files import write_json
from .models import (
    Run,
    fit_or_load,
    is_trained,
    load_data,
    load_result,
    middle_lam,
    result_path,
    transform,
)
from .pages import (
    NAMES,
    NOT_RUN,
    group,
    log_axis,
    mean_std,
    new_figure,
    picture,
    recipe_of,
    save_figure,
    style_of,
    table,
    tidy,
)
from .probes import FIXED_PENALTY, LISTAClassifier, Scaler, candidates, draw_few, top_errors
from .sweep import each, train

KIND = "low_data"
PROTOCOLS = ("paper", "strict")
MEASURES = {"top1": "top-1", "top3": "top-3"}
RAW, SCRATCH = "raw pixels", "LISTA + linear"
FEATURES = (RAW, SCRATCH, *paper.SYSTEMS)
LABELS = (1, 2, 5, 10, 20, 50, 100, "all")
_SCALE_ROWS = 5000


def n_draws(n, size="full"):
    """How often to draw labelled rows: the fewer they are, the more depends on which."""
    if n == "all":
        return 1
    if size == "toy":
        return 2
    return 10 if n <= 10 else 3


@dataclass(frozen=True)
class Baseline:
    """A classifier on the pixels, without a model trained before."""

    system: str
    dataset: str
    seed: int
    size: str
    n_components: int
    lam = None
    recipe = "none"
    epochs = None

    @property
    def stem(self):
        """Name of its file."""
        name = self.system.replace(" ", "").replace("+", "-")
        size = "" if self.size == "full" else f"_{self.size}"
        return f"{self.dataset}_{name}_seed{self.seed}{size}"


def run(plan):
    """Train what is missing, then fit the probes."""
    if load_data(plan.dataset, plan.folders.models, plan.size).y_train is None:
        raise SystemExit(f"low-data: there are no labels in the dataset {plan.dataset!r}.")
    runs = [run for run in plan.runs() if _missing(run, plan)]
    failed = train(plan, runs)
    n_components = Run("VDL", plan.dataset, 0.0, 0, size=plan.size).make().n_components
    baselines = [
        Baseline(system, plan.dataset, seed, plan.size, n_components)
        for seed in range(plan.seeds)
        for system in (RAW, SCRATCH)
    ]
    todo = [job for job in baselines if _missing(job, plan)]
    todo += [run for run in runs if is_trained(run, plan.folders)]
    return failed + each(_evaluate, todo, plan, "low-data")


def _load(job, plan):
    """What was measured before, if it still holds."""
    if isinstance(job, Run):
        return load_result(job, plan.folders, KIND)
    path = result_path(job, plan.folders, KIND)
    return json.loads(path.read_text()) if path.exists() else None


def _missing(job, plan):
    """Pairs of a number of labels and a draw not measured yet."""
    result = _load(job, plan)
    strict = result["protocols"]["strict"] if result else {}
    done = {(n, entry["draw"]) for n, entries in strict.items() for entry in entries}
    wanted = [(n, draw) for n in plan.labels for draw in range(n_draws(n, job.size))]
    return [(n, draw) for n, draw in wanted if (str(n), draw) not in done]


def _evaluate(job, plan):
    data = load_data(job.dataset, plan.folders.models, job.size)
    result = _load(job, plan)
    missing = _missing(job, plan)
    if result is None:
        result = {**asdict(job), "lam": job.lam, "recipe": job.recipe, "epochs": job.epochs}
        result["protocols"] = {protocol: {} for protocol in PROTOCOLS}
    if isinstance(job, Run):
        model, record = fit_or_load(job, data, plan.folders)
        result["parameters"] = record["parameters"]
        found = _probe_features(lambda X: transform(model, X), data, job.seed, missing)
    elif job.system == RAW:
        found = _probe_features(np.asarray, data, job.seed, missing)
    else:
        found = _train_from_scratch(data, job, missing)
    for protocol, n, entries in found:
        result["protocols"][protocol].setdefault(str(n), []).extend(entries)
    write_json(result_path(job, plan.folders, KIND), result)
    n = missing[0][0]
    errors = [entry["top1"] for entry in result["protocols"]["strict"][str(n)]]
    return f"top-1 error {min(errors):.1%} to {max(errors):.1%} with {n} labels a class"


def _draws(data, seed, pairs):
    """Labelled rows for pairs of a number and a draw; all of them are the same for both."""
    for n, draw in pairs:
        if n == "all":
            yield n, draw, PROTOCOLS, slice(None)
            continue
        for protocol, first in zip(PROTOCOLS, (0, 1 + seed), strict=True):
            rng = np.random.default_rng([first, n, draw])
            yield n, draw, (protocol,), draw_few(data.y_train, n, rng)


def _probe_features(features, data, seed, pairs):
    """Triples of a protocol, a number of labels, and the entries of one draw."""
    scale = Scaler(features(data.X_train[:_SCALE_ROWS]))

    def scaled(X):
        return scale(features(X))

    test = scaled(data.X_test), data.y_test
    validation = scaled(data.X_val), data.y_val
    found = []
    for n, draw, protocols, rows in _draws(data, seed, pairs):
        Z, y = scaled(data.X_train[rows]), data.y_train[rows]
        entries = candidates(
            Z,
            y,
            test,
            validation=validation if "paper" in protocols else None,
            cross_validate=seed if "strict" in protocols else None,
        )
        entries = [{"draw": draw, **entry} for entry in entries]
        found += [(protocol, n, entries) for protocol in protocols]
    return found


def _train_from_scratch(data, job, pairs):
    """The same of classifiers that are trained as a whole."""
    found = []
    for n, draw, protocols, rows in _draws(data, job.seed, pairs):
        for protocol in protocols:
            classifier = LISTAClassifier(job.n_components, job.seed)
            validation = (data.X_val, data.y_val) if protocol == "paper" else None
            classifier.fit(data.X_train[rows], data.y_train[rows], validation)
            errors = top_errors(classifier.scores(data.X_test), data.y_test)
            # a single candidate: there is nothing to choose
            found.append((protocol, n, [{"draw": draw, "C": None, **errors}]))
    return found


def select(records, protocol, n):
    """Errors of every seed and draw at the lam and penalty of a protocol's choice; None if not run.

    Records are of one system and recipe, with several lams and seeds. Seeds and draws that have not
    all the lams of others do not count: the choice would not be the same.
    """
    entries = [
        {**entry, "lam": record["lam"], "seed": record["seed"]}
        for record in records
        for entry in record["protocols"][protocol].get(str(n), ())
    ]
    if not entries:
        return None
    draws = group(entries, "seed", "draw").values()
    most = max(len(_lams_in(same)) for same in draws)
    draws = [same for same in draws if len(_lams_in(same)) == most]
    if protocol == "paper":
        groups = group([entry for same in draws for entry in same], "lam", "C").values()
        return max(groups, key=lambda same: np.mean([e.get("val", 0.0) for e in same]))
    chosen = [_choose_strictly(same, records[0]) for same in draws]
    return chosen if None not in chosen else None


def _lams_in(entries):
    return {entry["lam"] for entry in entries}


def _choose_strictly(entries, record):
    """Entry of one draw that its labelled rows alone speak for."""
    fixed = None
    if record["lam"] is not None:
        fixed = middle_lam(record["system"], record["dataset"])
    if "cv" not in entries[0]:
        penalty = entries[0]["C"] if len(entries) == 1 else FIXED_PENALTY
        return next((e for e in entries if (e["lam"], e["C"]) == (fixed, penalty)), None)
    lams = sorted(_lams_in(entries), key=lambda lam: lam or 0.0)

    def rank(entry):
        # of equals, what one would have taken without looking
        far = 0 if fixed not in lams else abs(lams.index(entry["lam"]) - lams.index(fixed))
        return entry["cv"], -far, -abs(np.log(entry["C"] / FIXED_PENALTY))

    return max(entries, key=rank)


def systems_in(results, dataset):
    """Records by system: where several recipes were run, those with most of them, fast first."""
    records = [record for record in results.low_data if record["dataset"] == dataset]
    found = {}
    for (system, recipe), same in group(records, "system", recipe_of).items():
        found.setdefault(system, []).append((len(same), recipe == "fast", same))
    best = {system: max(sets, key=lambda s: s[:2])[2] for system, sets in found.items()}
    return {system: best[system] for system in FEATURES if system in best}


def errors(results, dataset, protocol):
    """Selected entries by system and number of labels, None where not run."""
    found = systems_in(results, dataset)
    return {
        (system, n): select(found[system], protocol, n) if system in found else None
        for system in FEATURES
        for n in LABELS
    }


def section(results, folders, page, dataset):
    """Lines of the report."""
    lines = [f"### {NAMES[dataset]}", ""]
    recipes = {s: recipe_of(same[0]) for s, same in systems_in(results, dataset).items()}
    for protocol in PROTOCOLS:
        found = errors(results, dataset, protocol)
        for measure, name in MEASURES.items():
            rows = [
                (
                    *(system, recipes.get(system, NOT_RUN), _seeds(found, system)),
                    *(_cell(found[system, n], measure) for n in LABELS),
                )
                for system in FEATURES
            ]
            header = ("features", "recipe", "seeds", *map(str, LABELS))
            lines += [f"Protocol *{protocol}*, {name} error in %, by labels a class:", ""]
            lines += table(header, rows)
        lines += _chosen_lams(found, protocol)
    if any(entry for entry in found.values()):
        path = folders.figures / f"low_data_{dataset}.png"
        _plot(results, dataset, path)
        lines += picture(path, page, f"Probe error against labels, {NAMES[dataset]}")
    return lines


def _seeds(found, system):
    return len({entry["seed"] for n in LABELS for entry in found[system, n] or ()}) or NOT_RUN


def _cell(entries, measure):
    return NOT_RUN if entries is None else mean_std([e[measure] for e in entries], 1, 100)


def _chosen_lams(found, protocol):
    rows = [
        (
            system,
            *(
                "/".join(f"{lam:g}" for lam in sorted({e["lam"] for e in found[system, n] or ()}))
                or NOT_RUN
                for n in LABELS
            ),
        )
        for system in paper.SYSTEMS
    ]
    lines = table(("lam chosen", *map(str, LABELS)), rows)
    return [f"Protocol *{protocol}*, the lam that was chosen:", "", *lines]


def _plot(results, dataset, path):
    """Error against labels: a row of panels for each protocol, a column for each measure."""
    figure, axes = new_figure(2, 2, 11, 8, sharex=True)
    places = dict(zip(LABELS, (*range(len(LABELS) - 1), len(LABELS) - 0.5), strict=True))
    for row, protocol in zip(axes, PROTOCOLS, strict=True):
        found = errors(results, dataset, protocol)
        for ax, (measure, name) in zip(row, MEASURES.items(), strict=True):
            for system in FEATURES:
                have = [n for n in LABELS if found[system, n]]
                if not have:
                    continue
                values = [100 * np.array([e[measure] for e in found[system, n]]) for n in have]
                ax.errorbar(
                    [places[n] for n in have],
                    [v.mean() for v in values],
                    [v.std() for v in values],
                    **style_of(system),
                    label=system,
                    marker="o",
                    markersize=4,
                    elinewidth=1,
                )
            ax.set_title(f"protocol {protocol}, {name}", loc="left", fontsize="medium")
            log_axis(ax.yaxis)
            ax.set_ylabel("error, %")
            tidy(ax)
    for ax in axes[-1]:
        ax.set_xticks(list(places.values()), [str(n) for n in LABELS])
        ax.set_xlabel("labels a class")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside right upper")
    save_figure(figure, path)
