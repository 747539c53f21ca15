"""One fitted model in many threads, and processes that were forked."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from skvdl import VDL, NonLinearVDL

MODELS = {
    "l0": VDL(8, max_iter=3, random_state=0),
    "l1": VDL(8, penalty="l1", lam=0.05, max_iter=3, random_state=0),
    "network": NonLinearVDL(8, hidden_layer_sizes=10, max_iter=3, random_state=0),
    "network, exact": NonLinearVDL(
        8, hidden_layer_sizes=10, max_iter=3, transform_method="fista", random_state=0
    ),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("kind", MODELS)
def test_threads_share_a_model_and_get_the_same_bits(kind, small):
    model = MODELS[kind].fit(small)
    parts = [small[i::4] for i in range(4)] * 4

    def work(X):
        codes = model.transform(X)
        return codes, model.inverse_transform(codes), model.score(X)

    alone = [work(X) for X in parts]
    with ThreadPoolExecutor(8) as threads:
        together = list(threads.map(work, parts))
    for one, other in zip(alone, together, strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_threads_fit_models_of_their_own(small):
    def work(seed):
        return VDL(6, max_iter=2, random_state=seed).fit(small).transform(small)

    alone = [work(seed) for seed in range(4)]
    with ThreadPoolExecutor(4) as threads:
        together = list(threads.map(work, range(4)))
    for a, b in zip(alone, together, strict=True):
        np.testing.assert_array_equal(a, b)


FORK = """
import multiprocessing
import numpy as np
import torch
from skvdl import VDL

def work(n):
    return model.transform(X[:n]).shape

# forked processes of one with several threads of torch hang, in torch itself
torch.set_num_threads(1)
X = np.random.default_rng(0).normal(size=(40, 5))
model = VDL(4, max_iter=2, random_state=0).fit(X)
with multiprocessing.get_context("fork").Pool(2) as pool:
    print(pool.map(work, [3, 4]))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no fork")
def test_forked_processes_work_if_torch_has_one_thread():
    found = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORK],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert found.stdout.strip() == "[(3, 4), (4, 4)]", found.stderr
