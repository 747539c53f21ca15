import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import pytest
from _helpers import as_published

from skvdl import VDL, NonLinearVDL


@pytest.fixture(autouse=True)
def no_warning_and_no_figure_left(recwarn):
    yield
    plt.close("all")
    assert [str(w.message) for w in recwarn] == []


@pytest.fixture(scope="session")
def X(digits):
    X = digits[0][:300]
    return (X - X.mean()) / X.std()


@pytest.fixture(scope="session")
def linear(X):
    settings = as_published(VDL) | {"lam": 0.02, "early_stopping": True}
    return VDL(12, max_iter=4, random_state=0, **settings).fit(X)


@pytest.fixture(scope="session")
def network(X):
    return NonLinearVDL(12, hidden_layer_sizes=16, lam=0.005, max_iter=4, random_state=0).fit(X)
