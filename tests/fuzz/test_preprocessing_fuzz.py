"""Scaling and contrast normalisation, with any data and any parameters."""

import numpy as np
from _promises import attempt, check_matrix, snapshot
from _strategies import NOT_NEGATIVE, POSITIVE, changes, containers
from hypothesis import given
from hypothesis import strategies as st

from skvdl.preprocessing import GlobalScaler, LocalContrastNormalizer

SIDES = st.sampled_from([-1, 0, 1, 2, 3, 5])
KNOWN = {
    GlobalScaler: {
        "mean": st.one_of(st.none(), NOT_NEGATIVE),
        "std": st.one_of(st.none(), POSITIVE),
    },
    LocalContrastNormalizer: {
        "kernel_size": st.one_of(st.integers(1, 5), st.tuples(SIDES, SIDES)),
        "sigma": POSITIVE,
        "image_shape": st.one_of(st.none(), st.tuples(SIDES, SIDES)),
        "floor": POSITIVE,
        "add_statistics": st.booleans(),
    },
}


@given(st.data(), st.sampled_from(list(KNOWN)))
def test_transformers(data, kind):
    base = {"kernel_size": (1, 3), "image_shape": (1, -1)} if kind is not GlobalScaler else {}
    model = kind(**base | data.draw(changes(KNOWN[kind])))
    X = data.draw(containers(usual=data.draw(st.booleans())))
    outcome = attempt(model.fit, X)
    if not outcome.good:
        assert not [name for name in vars(model) if name.endswith("_")]
        return
    before = snapshot(vars(model))
    assert not attempt(model.fit, [[np.nan]]).good
    assert snapshot(vars(model)) == before
    for Y in (X, data.draw(containers(shape=(3, model.n_features_in_)))):
        found = attempt(model.transform, Y)
        if found.good:
            shape = (len(Y), len(model.get_feature_names_out()))
            check_matrix(found.result, shape, like=np.empty(0))
            if hasattr(model, "inverse_transform"):
                undone = attempt(model.inverse_transform, found.result)
                assert not undone.good or np.isfinite(undone.result).all()
    assert snapshot(vars(model)) == before
