"""Denoising: reconstructions of images with noise, next to the paper's."""

import numpy as np

from ..targets import TARGETS, reported
from .results import Results, recipe_of
from .tables import NOT_RUN, TextTable, group, mean_std

COLUMNS = {
    "sparsity_clean": "zeros, clean, %",
    "psnr_clean_rec": "PSNR, reconstruction of clean",
    "psnr_noisy": "PSNR, noisy",
    "sparsity_noisy": "zeros, noisy, %",
    "psnr_noisy_rec": "PSNR, reconstruction of noisy",
}
HEADER = ("system", "lam", "sigma", "codes", "recipe", "seeds", *COLUMNS.values(), "verdict")

# A system, a lam and a sigma: what the paper has figures for.
Key = tuple[str, float, float]


def agreement(results: Results, dataset: str) -> TextTable:
    """Return the table of everything measured, and of what the paper has and was not run."""
    targets = {(t["system"], t["lam"], t["sigma"]): t for t in reported("denoising", dataset)}
    rows = []
    run = set()
    records = [record for record in results.denoising if record["dataset"] == dataset]
    for (system, lam, recipe), same in group(records, "system", "lam", recipe_of).items():
        every = [entry for record in same for entry in record["denoising"]]
        for (sigma, codes), entries in group(every, "sigma", "codes").items():
            key = (system, lam, sigma)
            target = targets.get(key) if codes == "encoder" else None
            run |= {key} if codes == "encoder" else set()
            offset = _noise_offset(dataset, entries) if target else 0.0
            rows.append((key, codes, _row(key, codes, recipe, entries, target, offset)))
    rows += [
        (key, "encoder", _missing_row(key, target))
        for key, target in targets.items()
        if key not in run
    ]
    rows.sort(key=lambda row: (row[0][2], row[0][0], row[0][1], row[1]))
    return TextTable(HEADER, [cells for *_, cells in rows])


def _noise_offset(dataset: str, entries: list[dict]) -> float:
    """Return how much milder noise is here than in the paper, where figures are relative to it."""
    if dataset not in TARGETS["relative_to_noise"]:
        return 0.0
    theirs = TARGETS["noise"][dataset][str(entries[0]["sigma"])]
    return float(np.mean([entry["psnr_noisy"] for entry in entries])) - theirs


def differences(entries: list[dict], target: dict, offset: float) -> dict[str, float]:
    """Return the PSNR of both reconstructions minus the paper's."""
    return {
        name: float(np.mean([entry[name] for entry in entries])) - offset - target[name]
        for name in ("psnr_clean_rec", "psnr_noisy_rec")
    }


def _row(
    key: Key, codes: str, recipe: str, entries: list[dict], target: dict | None, offset: float
) -> tuple:
    system, lam, sigma = key
    cells = []
    for name in COLUMNS:
        scale = (1, 100) if name.startswith("sparsity") else (2, 1)
        text = mean_std([entry[name] for entry in entries], *scale)
        cells.append(f"{text} ({_paper(target, name)})" if target else text)
    verdict = ""
    if target:
        missing = min(round(d, 2) for d in differences(entries, target, offset).values())
        met = missing >= -TARGETS["tolerance"]["denoising"]["psnr"]
        verdict = "within or better" if met else f"missed by {-missing:.2f} dB"
    return (system, f"{lam:g}", sigma, codes, recipe, len(entries), *cells, verdict)


def _missing_row(key: Key, target: dict) -> tuple:
    system, lam, sigma = key
    cells = [f"{NOT_RUN} ({_paper(target, name)})" for name in COLUMNS]
    return (system, f"{lam:g}", sigma, "encoder", NOT_RUN, "", *cells, NOT_RUN)


def _paper(target: dict, name: str) -> str:
    factor = 100 if name.startswith("sparsity") else 1
    return f"{factor * target[name]:.1f}"
