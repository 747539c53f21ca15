"""The recipes of the page "Scaling out" run as they are printed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from _recipes import PAGE, recipe

import skvdl

pytest.importorskip("dask.array")


def run(arguments, folder):
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=os.environ
        | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(skvdl.__file__).parents[1])},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_torchrun(tmp_path):
    (tmp_path / "train.py").write_text(recipe("train.py"))
    assert "torchrun --nproc-per-node 2 train.py" in PAGE
    options = ["--nproc-per-node", "2", "--rdzv-endpoint", "127.0.0.1:0", "--rdzv-backend", "c10d"]
    run(["-m", "torch.distributed.run", *options, "train.py"], tmp_path)
    assert skvdl.load(tmp_path / "model.safetensors").n_iter_ == 3


def test_stream():
    names = {}
    exec(recipe("stream.py"), names)
    assert names["vdl"].n_iter_ > 3
    assert names["vdl"].score(names["X"]) > 0.5
