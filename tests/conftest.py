import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from skvdl.estimators._devices import available_devices

# Two test processes on two cores: more threads would only fight.
torch.set_num_threads(1)


@pytest.fixture(scope="session")
def digits():
    """Digits, scaled to [0, 1], with their labels."""
    X, y = load_digits(return_X_y=True)
    X /= 16
    X.setflags(write=False)
    return X, y


@pytest.fixture
def small():
    """Sixty rows of twelve features with structure: sparse mixtures of five directions."""
    rng = np.random.default_rng(0)
    codes = rng.exponential(size=(60, 5)) * (rng.random((60, 5)) < 0.4)
    return codes @ rng.normal(size=(5, 12)) + 0.05 * rng.normal(size=(60, 12))


@pytest.fixture(params=available_devices())
def device(request):
    return request.param


@pytest.fixture(scope="module")
def less_work():
    """Limit iterations, for promises that do not depend on how many there are."""
    limits = {
        "skvdl.estimators._base": {"_CALIBRATION_TRIALS": 3, "_CALIBRATION_TRIALS_AGAIN": 2},
        "skvdl.estimators._linear.VarianceDictionaryLearning": {"_auto_steps": 6},
        "skvdl.estimators._nonlinear.NonLinearVDL": {"_auto_steps": 6},
        "skvdl.solvers._refit": {"_ROUNDS": 4, "_CONJUGATE": 6, "_STEPS": 5},
    }
    with pytest.MonkeyPatch.context() as patch:
        for module, names in limits.items():
            for name, value in names.items():
                patch.setattr(f"{module}.{name}", value)
        yield
