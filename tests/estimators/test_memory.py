"""Data on disk stay there: fit, transform and score hold a bounded part of them in memory."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

# Anonymous memory is what a process holds itself. Pages of a mapped file are not part of it.
MEASURE = """
import sys, threading, time
import numpy as np
import torch
from skvdl import VDL
from skvdl.training import _learner

def held():
    for line in open("/proc/self/status"):
        if line.startswith("RssAnon"):
            return int(line.split()[1]) / 1024

class Peak(threading.Thread):
    def run(self):
        self.start_at = self.most = held()
        self.going = True
        while self.going:
            self.most = max(self.most, held())
            time.sleep(0.001)

torch.set_num_threads(1)
VDL._auto_steps = 1
# of so many rows, and no more, the autoencoder that atoms start from has copies
_learner._AXES_ROWS = 1000
X = np.load(sys.argv[1], mmap_mode="r")
for options in eval(sys.argv[2]):
    model = VDL(4, batch_size=2000, random_state=0, transform_method="encoder", **options)
    # what is imported and allocated once
    model.fit(np.random.default_rng(0).normal(size=(200, 1024)).astype(np.float32))
    for method in ("fit", "transform", "score", "partial_fit"):
        peak = Peak()
        peak.start()
        time.sleep(0.01)
        result = getattr(model, method)(X)
        peak.going = False
        peak.join()
        print(method, peak.most - peak.start_at)
        del result
"""
N_ROWS, N_FEATURES = 50_000, 1024
OPTIONS = [
    {"max_iter": 1, "early_stopping": True, "validation_fraction": 0.9, "init": "data"},
    {"max_iter": 1, "missing_values": "nan", "lam": 0.1, "init": "data"},
    # rows to judge epochs and to calibrate are held out, and the atoms start from all of them
    {"max_iter": "auto"},
]


@pytest.fixture(scope="module")
def on_disk(tmp_path_factory):
    """Return the path of 195 MB of numbers."""
    path = tmp_path_factory.mktemp("memory") / "X.npy"
    X = np.lib.format.open_memmap(path, "w+", np.float32, (N_ROWS, N_FEATURES))
    some = np.random.default_rng(0).normal(size=(1000, N_FEATURES))
    for start in range(0, N_ROWS, len(some)):
        X[start : start + len(some)] = some
    X.flush()
    yield path
    path.unlink()


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory cannot be measured")
def test_data_on_disk_are_not_copied(on_disk):
    found = subprocess.run(
        [sys.executable, "-c", MEASURE, str(on_disk), repr(OPTIONS)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    lines = [line.split() for line in found.stdout.splitlines()]
    assert len(lines) == 4 * len(OPTIONS)
    for _, peak in lines:
        # in megabytes, less than half of the data
        assert float(peak) < 90, lines
