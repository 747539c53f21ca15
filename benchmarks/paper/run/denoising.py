"""Denoising: reconstructions of images with noise that the models were not trained on."""

import copy
from collections.abc import Callable
from functools import partial

from skvdl.metrics import sparsity

from ..settings import SIGMAS, Run, published_settings
from ..targets import reported
from .models import fit_or_load, load_data, pixel_psnr, summary, transform
from .plan import Plan
from .sweep import evaluate
from .trade_off import add_noise, measure_noise

KIND = "denoising"
N_PICTURES = 8


def run(plan: Plan, draw: Callable) -> int:
    """Evaluate the systems and lams of the paper's table, or those asked for.

    ``draw(clean, noisy, rebuilt, image_shape, title, path)`` draws the picture of a first seed.
    """
    measure_noise(plan)
    return evaluate(partial(_evaluate, draw=draw), plan.runs(_points(plan)), plan, KIND)


def _points(plan: Plan) -> list[tuple[str, float]]:
    rows = reported("denoising", published_settings(plan.dataset))
    if plan.systems is None and plan.lams is None:
        return list(dict.fromkeys((row["system"], row["lam"]) for row in rows))
    systems = plan.systems or dict.fromkeys(row["system"] for row in rows)
    return [(system, lam) for system in systems for lam in plan.lams_of(system)]


def _evaluate(run: Run, plan: Plan, draw: Callable) -> str:
    data = load_data(run.dataset, plan.folders.models, run.size)
    model, record = fit_or_load(run, data, plan.folders)
    noisy = {sigma: add_noise(data.X_test, sigma, run.seed) for sigma in SIGMAS}
    noise_psnr = {sigma: pixel_psnr(data, "test", X) for sigma, X in noisy.items()}
    entries = []
    rebuilt = {}
    for codes, coder in coders(model).items():
        clean = transform(coder, data.X_test)
        rebuilt[codes, 0.0] = model.inverse_transform(clean)
        for sigma in SIGMAS:
            found = transform(coder, noisy[sigma])
            rebuilt[codes, sigma] = model.inverse_transform(found)
            entries.append(
                {
                    "codes": codes,
                    "sigma": sigma,
                    "sparsity_clean": sparsity(clean),
                    "psnr_clean_rec": pixel_psnr(data, "test", rebuilt[codes, 0.0]),
                    "psnr_noisy": noise_psnr[sigma],
                    "sparsity_noisy": sparsity(found),
                    "psnr_noisy_rec": pixel_psnr(data, "test", rebuilt[codes, sigma]),
                }
            )
    figure = None
    if run.seed == 0:
        figure = f"denoising_{run.name}.png"
        rows = slice(N_PICTURES)

        def pixels(images):
            return {key: data.to_pixels(X[rows], "test", rows) for key, X in images.items()}

        draw(
            data.to_pixels(data.X_test[rows], "test", rows),
            pixels(noisy),
            pixels(rebuilt),
            data.image_shape,
            f"{run.system}, lam {run.lam:g}",
            plan.folders.figures / figure,
        )
    result = {**summary(record), "denoising": entries, "figure": figure}
    plan.folders.table(KIND).put(run.name, result)
    first = entries[0]
    return (
        f"{first['codes']} codes, sigma {first['sigma']}: {first['psnr_noisy']:.2f} dB to "
        f"{first['psnr_noisy_rec']:.2f} dB"
    )


def coders(model) -> dict:
    """Return the model with codes from its encoder, if it has one, and with codes from FISTA."""
    exact = copy.copy(model).set_params(transform_method="fista", step_size="auto")
    return {"fista": exact} if model.encoder_ is None else {"encoder": model, "fista": exact}
