"""Both estimators, with any data and any parameters."""

import copy
import pickle

import numpy as np
from _promises import attempt, check_matrix, dense, snapshot
from _strategies import LINEAR, NETWORK, QUICK, changes, containers
from hypothesis import given
from hypothesis import strategies as st

from skvdl import VDL, NonLinearVDL

KNOWN = {VDL: LINEAR, NonLinearVDL: NETWORK}


@st.composite
def estimators(draw, kind):
    options = QUICK | draw(changes(KNOWN[kind], most=8))
    if kind is NonLinearVDL:
        options = {"hidden_layer_sizes": 4} | options
    return kind(**{"n_components": 4} | options)


def learn(model, method, X):
    """Fit, or leave the model as it was; after divergence it may keep the last good weights."""
    before = snapshot(vars(model))
    outcome = attempt(getattr(model, method), X)
    if outcome.good:
        assert outcome.result is model
    elif not isinstance(outcome.error, FloatingPointError) or method == "partial_fit":
        assert snapshot(vars(model)) == before
    if hasattr(model, "decoder_"):
        assert model._learner.is_finite()
        assert np.isfinite(model.lam_)
        assert model.lam_ >= 0
        assert np.isfinite(model.scale_)
        assert len(model.loss_curve_) == model.n_iter_
        assert np.isfinite(model.loss_curve_).all()
    return outcome


def use(model, X):
    """Call everything that a fitted model offers."""
    if not hasattr(model, "decoder_"):
        return attempt(model.transform, X)
    before = snapshot(vars(model))
    codes = attempt(model.transform, X)
    n = len(X) if codes.good else 0
    if codes.good:
        dtype, shape = model.decoder_.dtype, (n, model.decoder_.n_components)
        check_matrix(codes.result, shape, like=X, dtype=dtype, is_sparse=model.sparse_output)
        if model._learner.energy_settings.positive:
            assert (dense(codes.result) >= 0).all()
        decoded = attempt(model.inverse_transform, codes.result)
        if decoded.good:
            check_matrix(decoded.result, (n, model.n_features_in_), like=X, dtype=dtype)
        else:
            assert isinstance(decoded.error, FloatingPointError)
    score = attempt(model.score, X)
    if score.good:
        assert isinstance(score.result, float)
        assert np.isfinite(score.result)
        assert score.result <= 1
    if isinstance(model, VDL):
        gaps = attempt(model.duality_gap, X)
        if gaps.good:
            check_matrix(gaps.result, (n,), like=X, dtype=model.decoder_.dtype)
    attempt(model.inverse_transform, X)
    assert attempt(model.get_feature_names_out).good
    if isinstance(model, VDL):
        assert np.isfinite(model.components_).all()
    assert snapshot(vars(model)) == before
    return codes


def story(data, kind):
    """Fit, use, change, go on, copy: whatever happens, the promises hold."""
    model = data.draw(estimators(kind))
    X = data.draw(containers(usual=data.draw(st.booleans())))
    outcome = learn(model, data.draw(st.sampled_from(["fit", "fit", "partial_fit"])), X)
    use(model, X)
    if outcome.good:
        shape = (data.draw(st.integers(1, 12)), model.n_features_in_)
        Y = data.draw(containers(shape=shape, usual=data.draw(st.booleans())))
        use(model, Y)
        changed = data.draw(changes(KNOWN[kind], most=3))
        model.set_params(**changed)
        use(model, Y)
        other = pickle.loads(pickle.dumps(model))
        copied = copy.copy(model)
        learn(model, data.draw(st.sampled_from(["fit", "partial_fit"])), Y)
        assert snapshot(vars(other)) == snapshot(vars(copied))
        use(model, X)


@given(st.data())
def test_dictionaries(data):
    story(data, VDL)


@given(st.data())
def test_networks(data):
    story(data, NonLinearVDL)


@given(st.data(), st.sampled_from([VDL, NonLinearVDL]))
def test_good_data_and_good_parameters_give_a_result(data, kind):
    n = data.draw(st.integers(12, 40))
    X = data.draw(containers(shape=(n, data.draw(st.integers(2, 6))), usual=True))
    structural = ["n_components", "penalty", "debias", "center", "scale", "encoder", "init"]
    structural += ["positive_code", "transform_method", "sparse_output", "regularizer"]
    structural += ["early_stopping", "revive_dead", "hidden_layer_sizes", "missing_values"]
    known = {name: KNOWN[kind][name] for name in structural if name in KNOWN[kind]}
    options = data.draw(changes(known, most=8, odd=False))
    usual = {"hidden_layer_sizes": 4} if kind is NonLinearVDL else {}
    model = kind(**QUICK | {"n_components": 4} | usual | options)
    for outcome in (learn(model, "fit", X), learn(model, "partial_fit", X), use(model, X)):
        assert outcome.good, outcome.error
