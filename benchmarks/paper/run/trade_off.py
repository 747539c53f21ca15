"""Trade-off between sparsity and reconstruction: every system and lam."""

import numpy as np

from ..settings import SIGMAS
from .models import load_data, pixel_psnr
from .plan import Plan
from .sweep import train


def run(plan: Plan) -> int:
    """Train what is missing; the figures are part of each run's record."""
    measure_noise(plan)
    return train(plan, need_models=False)


def measure_noise(plan: Plan) -> None:
    """Measure the PSNR of the noise itself, which natural patches are compared relative to."""
    table = plan.folders.table("noise")
    name = plan.dataset if plan.size == "full" else f"{plan.dataset}_{plan.size}"
    if name in table.read():
        return
    data = load_data(plan.dataset, plan.folders.models, plan.size)
    values = {str(s): pixel_psnr(data, "test", add_noise(data.X_test, s, 0)) for s in SIGMAS}
    table.put(name, {"dataset": plan.dataset, "size": plan.size, "psnr": values})


def add_noise(X: np.ndarray, sigma: float, seed: int) -> np.ndarray:
    """Add Gaussian noise to rows, the same for every model."""
    rng = np.random.default_rng([seed, round(1000 * sigma)])
    return X + np.float32(sigma) * rng.standard_normal(X.shape, dtype=np.float32)
