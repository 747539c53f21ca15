"""Exported graphs, run by another program."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from sklearn.exceptions import NotFittedError

from skvdl import NonLinearVDL, VarianceDictionaryLearning

X = np.random.default_rng(0).normal(7, 50, size=(300, 7))
HOW = {"n_components": 5, "max_iter": 2, "random_state": 0}
# What the graph of the encoder computes.
CODES = {"transform_method": "encoder", "debias": False}


def run(path, data):
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(str(path))
    (given,) = session.get_inputs()
    return session.run(None, {given.name: data})[0], given.name, session.get_outputs()[0].name


@pytest.mark.skipif(
    tuple(map(int, torch.__version__.split(".")[:2])) < (2, 6), reason="needs torch 2.6"
)
@pytest.mark.parametrize(
    ("estimator", "dtype"),
    [
        (VarianceDictionaryLearning(**HOW), np.float32),
        (VarianceDictionaryLearning(positive_code=False, center=False, **HOW), np.float64),
        (NonLinearVDL(hidden_layer_sizes=6, **HOW), np.float32),
    ],
)
def test_graphs_compute_what_the_estimator_does(tmp_path, estimator, dtype):
    pytest.importorskip("onnxscript")
    path, data = tmp_path / "graph.onnx", X.astype(dtype)
    estimator.fit(data).set_params(**CODES)
    codes = estimator.transform(data)
    estimator.export_onnx(path)
    for rows in (data, data[:1]):
        found, *names = run(path, rows)
        assert names == ["X", "codes"]
        assert found.dtype == dtype
        assert_allclose(found, codes[: len(rows)], rtol=1e-5, atol=1e-5)
    estimator.export_onnx(str(path), part="decoder")
    found, *names = run(path, codes)
    assert names == ["codes", "X_hat"]
    expected = estimator.inverse_transform(codes)
    assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


def test_errors(tmp_path, monkeypatch):
    path = tmp_path / "graph.onnx"
    estimator = VarianceDictionaryLearning(encoder=None, **HOW)
    with pytest.raises(NotFittedError):
        estimator.export_onnx(path)
    estimator.fit(X)
    with pytest.raises(ValueError, match="no encoder to export"):
        estimator.export_onnx(path)
    with pytest.raises(ValueError, match="part='both' must be 'encoder' or 'decoder'"):
        estimator.export_onnx(path, part="both")
    monkeypatch.setattr("skvdl.estimators._onnx.find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"pip install 'skvdl\[onnx\]'"):
        estimator.export_onnx(path, part="decoder")
    assert not path.exists()
