"""Denoising: what encoders and FISTA make of images with noise they were not trained on."""

import copy

import numpy as np

from skvdl.metrics import sparsity
from skvdl.plotting import ReconstructionDisplay

from .files import TARGETS, reported, write_json
from .models import fit_or_load, load_data, pixel_psnr, published_settings, result_path, transform
from .pages import (
    NAMES,
    NOT_RUN,
    group,
    mean_std,
    new_figure,
    picture,
    recipe_of,
    save_figure,
    table,
)
from .sweep import evaluate
from .trade_off import SIGMAS, add_noise, measure_noise

KIND = "denoising"
COLUMNS = {
    "sparsity_clean": "zeros, clean, %",
    "psnr_clean_rec": "PSNR, reconstruction of clean",
    "psnr_noisy": "PSNR, noisy",
    "sparsity_noisy": "zeros, noisy, %",
    "psnr_noisy_rec": "PSNR, reconstruction of noisy",
}
N_PICTURES = 8


def run(plan):
    """Evaluate the systems and lams of the paper's table, or those asked for."""
    measure_noise(plan)
    return evaluate(_evaluate, plan.runs(_points(plan)), plan, KIND)


def _points(plan):
    rows = reported("denoising", published_settings(plan.dataset))
    if plan.systems is None and plan.lams is None:
        return list(dict.fromkeys((row["system"], row["lam"]) for row in rows))
    systems = plan.systems or dict.fromkeys(row["system"] for row in rows)
    return [(system, lam) for system in systems for lam in plan.lams_of(system)]


def _evaluate(run, plan):
    data = load_data(run.dataset, plan.folders.models, run.size)
    model, record = fit_or_load(run, data, plan.folders)
    entries = []
    rebuilt = {}
    for codes, coder in coders(model).items():
        clean = transform(coder, data.X_test)
        X_hat = rebuilt[codes, 0.0] = model.inverse_transform(clean)
        clean_psnr = pixel_psnr(data, "test", X_hat)
        for sigma in SIGMAS:
            noisy = add_noise(data.X_test, sigma, run.seed)
            found = transform(coder, noisy)
            X_hat = rebuilt[codes, sigma] = model.inverse_transform(found)
            entries.append(
                {
                    "codes": codes,
                    "sigma": sigma,
                    "sparsity_clean": sparsity(clean),
                    "psnr_clean_rec": clean_psnr,
                    "psnr_noisy": pixel_psnr(data, "test", noisy),
                    "sparsity_noisy": sparsity(found),
                    "psnr_noisy_rec": pixel_psnr(data, "test", X_hat),
                }
            )
    figure = None
    if run.seed == 0:
        figure = f"denoising_{run.stem}.png"
        _draw(run, data, rebuilt, plan.folders.figures / figure)
    kept = {name: record[name] for name in record if name not in ("history", "machine")}
    result = {**kept, "denoising": entries, "figure": figure}
    write_json(result_path(run, plan.folders, KIND), result)
    first = entries[0]
    return (
        f"{first['codes']} codes, sigma {first['sigma']}: {first['psnr_noisy']:.2f} dB to "
        f"{first['psnr_noisy_rec']:.2f} dB"
    )


def coders(model):
    """The model with codes from its encoder, if it has one, and with codes from FISTA."""
    exact = copy.copy(model).set_params(transform_method="fista", step_size="auto")
    return {"fista": exact} if model.encoder_ is None else {"encoder": model, "fista": exact}


def _draw(run, data, rebuilt, path):
    """Images, with noise, and what the model makes of these: a column for each kind of codes."""
    rows = slice(N_PICTURES)

    def pixels(X):
        return data.to_pixels(X[rows], "test", rows)

    names = list(dict.fromkeys(codes for codes, _ in rebuilt))
    levels = list(dict.fromkeys(sigma for _, sigma in rebuilt))
    figure, axes = new_figure(len(levels), len(names), 7.5 * len(names), 2.8 * len(levels))
    for (codes, sigma), X_hat in rebuilt.items():
        ax = axes[levels.index(sigma), names.index(codes)]
        ReconstructionDisplay.from_predictions(
            pixels(data.X_test),
            pixels(X_hat),
            noisy=pixels(add_noise(data.X_test, sigma, run.seed)) if sigma else None,
            image_shape=data.image_shape,
            n_images=N_PICTURES,
            data_range=1.0,
            ax=ax,
            im_kw={"cmap": "gray"},
        )
        noise = f"sigma {sigma:g}" if sigma else "no noise"
        title = f"{run.system}, lam {run.lam:g}, {codes} codes, {noise}"
        ax.set_title(title, loc="left", fontsize="medium")
    save_figure(figure, path)


def section(results, folders, page, dataset):
    """Lines of the report."""
    records = [record for record in results.denoising if record["dataset"] == dataset]
    targets = {(t["system"], t["lam"], t["sigma"]): t for t in reported("denoising", dataset)}
    measured = {
        (system, lam, sigma, codes, recipe): [
            entry
            for record in same
            for entry in record["denoising"]
            if (entry["sigma"], entry["codes"]) == (sigma, codes)
        ]
        for (system, lam, recipe), same in group(records, "system", "lam", recipe_of).items()
        for sigma, codes in dict.fromkeys(
            (e["sigma"], e["codes"]) for record in same for e in record["denoising"]
        )
    }
    rows = []
    for key in targets:
        if not any(found[:3] == key and found[3] == "encoder" for found in measured):
            rows.append((key, "encoder", _missing_row(key, targets[key])))
    for (*key, codes, recipe), entries in measured.items():
        key = tuple(key)
        target = targets.get(key) if codes == "encoder" else None
        offset = _noise_offset(dataset, entries) if target else 0.0
        rows.append((key, codes, _row(key, codes, recipe, entries, target, offset)))
    rows.sort(key=lambda row: (row[0][2], row[0][0], row[0][1], row[1]))
    header = ("system", "lam", "sigma", "codes", "recipe", "seeds", *COLUMNS.values(), "verdict")
    lines = [f"### {NAMES[dataset]}", "", *table(header, [row for *_, row in rows])]
    for record in records:
        if record["figure"]:
            text = f"Denoising, {record['system']}, lam {record['lam']:g}, {recipe_of(record)}"
            lines += picture(folders.figures / record["figure"], page, text)
    return lines


def _noise_offset(dataset, entries):
    """By how much noise is milder here than in the paper, where figures are relative to it."""
    if dataset not in TARGETS["relative_to_noise"]:
        return 0.0
    theirs = TARGETS["noise"][dataset][str(entries[0]["sigma"])]
    return float(np.mean([entry["psnr_noisy"] for entry in entries])) - theirs


def differences(entries, target, offset):
    """PSNR of both reconstructions minus the paper's."""
    return {
        name: float(np.mean([entry[name] for entry in entries])) - offset - target[name]
        for name in ("psnr_clean_rec", "psnr_noisy_rec")
    }


def _row(key, codes, recipe, entries, target, offset):
    system, lam, sigma = key
    cells = []
    for name in COLUMNS:
        scale = (1, 100) if name.startswith("sparsity") else (2, 1)
        text = mean_std([entry[name] for entry in entries], *scale)
        cells.append(f"{text} ({_paper(target, name)})" if target else text)
    verdict = ""
    if target:
        missing = min(round(d, 2) for d in differences(entries, target, offset).values())
        verdict = (
            "within or better"
            if missing >= -TARGETS["tolerance"]["denoising"]["psnr"]
            else (f"missed by {-missing:.2f} dB")
        )
    return (system, f"{lam:g}", sigma, codes, recipe, len(entries), *cells, verdict)


def _missing_row(key, target):
    system, lam, sigma = key
    cells = [f"{NOT_RUN} ({_paper(target, name)})" for name in COLUMNS]
    return (system, f"{lam:g}", sigma, "encoder", NOT_RUN, "", *cells, NOT_RUN)


def _paper(target, name):
    factor = 100 if name.startswith("sparsity") else 1
    return f"{factor * target[name]:.1f}"
