"""Measures of any codes and reconstructions."""

import numpy as np
from _promises import attempt
from _strategies import ODD, POSITIVE, QUICK, containers
from hypothesis import given
from hypothesis import strategies as st

from skvdl import VDL
from skvdl.metrics import (
    n_dead_components,
    neg_energy_scorer,
    psnr,
    psnr_scorer,
    sparsity,
    sparsity_scorer,
)


@given(st.data())
def test_measures(data):
    X = data.draw(containers(usual=data.draw(st.booleans())))
    shape = getattr(X, "shape", None)
    X_hat = data.draw(st.one_of(st.just(X), containers(shape=shape if shape else None)))
    data_range = data.draw(st.one_of(st.none(), POSITIVE, ODD))
    found = attempt(psnr, X, X_hat, data_range=data_range)
    # infinite for what is exact, and never minus infinity or NaN
    assert not found.good or found.result > -np.inf
    for measure, most in ((sparsity, 1), (n_dead_components, np.inf)):
        found = attempt(measure, X)
        assert not found.good or 0 <= found.result <= most


MODELS = {}


def fitted(n_features, dtype):
    """Return a model, made once for each kind of data."""
    key = n_features, dtype
    if key not in MODELS:
        X = np.random.default_rng(0).normal(size=(20, n_features)).astype(dtype)
        MODELS[key] = VDL(4, **QUICK).fit(X)
    return MODELS[key]


@given(st.data())
def test_scorers(data):
    n_features = data.draw(st.integers(1, 4))
    model = fitted(n_features, data.draw(st.sampled_from([np.float32, np.float64])))
    shape = data.draw(st.sampled_from([(5, n_features)] * 4 + [None]))
    X = data.draw(containers(shape=shape, usual=data.draw(st.booleans())))
    for scorer in (psnr_scorer, sparsity_scorer, neg_energy_scorer):
        found = attempt(scorer, model, X)
        assert not found.good or (found.result > -np.inf and isinstance(found.result, float))
