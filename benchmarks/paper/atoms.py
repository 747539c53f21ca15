"""Atoms and encoder filters of every system, at one lam each."""

from skvdl.plotting import AtomsDisplay

from .files import reported, write_json
from .models import fit_or_load, load_data, middle_lam, published_settings, result_path
from .pages import NAMES, NOT_RUN, new_figure, picture, recipe_of, save_figure
from .sweep import evaluate

KIND = "atoms"
_USAGE_ROWS = 1000


def run(plan):
    """Draw the first seed of every system, by default at one lam each."""
    points = [
        (system, lam)
        for system in plan.systems_or_default()
        for lam in (plan.lams_of(system) if plan.lams else [_lam(system, plan.dataset)])
    ]
    return evaluate(_draw, [run for run in plan.runs(points) if run.seed == 0], plan, KIND)


def _lam(system, dataset):
    """The least lam for which the paper has figures, or the middle one of the published."""
    rows = reported("trade_off", published_settings(dataset), system)
    return rows[0]["lam"] if rows else middle_lam(system, dataset)


def _draw(run, plan):
    data = load_data(run.dataset, plan.folders.models, run.size)
    model, record = fit_or_load(run, data, plan.folders)
    kinds = {"decoder": "atoms"} | ({"encoder": "encoder filters"} if model.encoder_ else {})
    figure, axes = new_figure(1, len(kinds), 6 * len(kinds), 6.3)
    for ax, (kind, name) in zip(axes[0], kinds.items(), strict=True):
        # usage by the test set's first rows: by FISTA it takes a while
        AtomsDisplay.from_estimator(
            model, image_shape=data.image_shape, X=data.X_test[:_USAGE_ROWS], kind=kind, ax=ax
        )
        ax.set_title(f"{run.system}, lam {run.lam:g}: {name}", loc="left", fontsize="medium")
    name = f"atoms_{run.stem}.png"
    save_figure(figure, plan.folders.figures / name)
    kept = {key: record[key] for key in record if key not in ("history", "machine")}
    write_json(result_path(run, plan.folders, KIND), {**kept, "figure": name})
    return name


def section(results, folders, page, dataset):
    """Lines of the report."""
    lines = [f"### {NAMES[dataset]}", ""]
    records = [record for record in results.atoms if record["dataset"] == dataset]
    for record in records:
        test = record["test"]
        text = f"{record['system']}, lam {record['lam']:g}, {recipe_of(record)}"
        text += f": {test['psnr']:.1f} dB, {test['sparsity']:.1%} zeros, {test['dead']} dead"
        lines += [text, "", *picture(folders.figures / record["figure"], page, text)]
    return lines if records else [*lines, NOT_RUN, ""]
