"""Results are finite, or there is an error that says why."""

import warnings

import numpy as np
import pytest
import torch
from sklearn.exceptions import ConvergenceWarning

from skvdl import VDL, NonLinearVDL

BOTH = pytest.mark.parametrize("kind", [VDL, NonLinearVDL])


def make(kind=VDL, **options):
    if kind is NonLinearVDL:
        options.setdefault("hidden_layer_sizes", 10)
    return kind(8, **{"max_iter": 3, "random_state": 0} | options)


@pytest.mark.parametrize(
    ("dtype", "unit"),
    [(dtype, unit) for dtype in (np.float32, np.float64) for unit in (1e-30, 1e20, 1e30)]
    + [(np.float64, 1e-300), (np.float64, 1e300)],
)
@BOTH
def test_score_of_data_in_any_unit(kind, dtype, unit, small):
    X = (small * unit).astype(dtype)
    assert make(kind).fit(X).score(X) == pytest.approx(make(kind).fit(small).score(small), abs=0.1)


@pytest.mark.parametrize("penalty", ["l0", "l1"])
def test_a_step_too_long_is_an_error_after_fit(penalty, small):
    model = make(penalty=penalty, lam=0.01).fit(small).set_params(step_size=1e3)
    for method in (model.transform, model.score):
        with pytest.raises(FloatingPointError, match="step_size='auto'"):
            method(small)
    assert np.isfinite(model.set_params(step_size="auto").transform(small)).all()


def test_data_that_overflow_when_centred_are_an_error():
    rng = np.random.default_rng(0)
    X = rng.uniform(-3.4e38, 3.4e38, size=(20, 5)).astype(np.float32)
    X[0, 0], X[1:, 0] = -3.4e38, 3.4e38
    with pytest.raises(FloatingPointError, match="float64"):
        VDL(3, max_iter=2, random_state=0).fit(X)
    model = VDL(3, max_iter=2, random_state=0).fit(X.astype(np.float64))
    assert np.isfinite(model.transform(X.astype(np.float64))).all()


def test_codes_too_large_to_decode_are_an_error(small):
    model = make().fit(small.astype(np.float32))
    with pytest.raises(FloatingPointError, match="too large"):
        model.inverse_transform(np.full((2, 8), 3e38, dtype=np.float32))


@pytest.mark.parametrize("lam", [1e-4, 1e-5, 1e-6, 1e-7])
@pytest.mark.parametrize("positive", [True, False])
def test_single_precision_meets_its_gap_or_says_so(lam, positive, small):
    X = small.astype(np.float32)
    model = make(penalty="l1", lam=lam, positive_code=positive, debias=False).fit(X)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        gaps = model.duality_gap(X)
    told = any(issubclass(w.category, ConvergenceWarning) for w in caught)
    assert told == bool((gaps > model.transform_tol).any())


@pytest.mark.parametrize("method", ["encoder", "fista"])
@pytest.mark.parametrize("debias", [True, False])
@BOTH
def test_a_decoder_of_zeros(kind, method, debias, small):
    X = small.astype(np.float32)
    for options in ({"penalty": "l0"}, {"penalty": "l1"}) if kind is VDL else ({},):
        model = make(kind, transform_method=method, debias=debias, **options).fit(X)
        with torch.no_grad():
            for weight in model.decoder_.parameters():
                weight.zero_()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            assert np.isfinite(model.transform(X)).all()
            assert model.score(X) == pytest.approx(0.0, abs=1e-6)


MODES = {
    "inference": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "no_grad": torch.no_grad,
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("scale", [True, False])
@BOTH
def test_modes_of_torch_change_nothing(kind, mode, scale, small):
    X = torch.from_numpy(small.astype(np.float32))
    plain = make(kind, center=scale, scale=scale).fit(X).partial_fit(X)
    with MODES[mode]():
        made = X.clone()
        model = make(kind, center=scale, scale=scale).fit(made).partial_fit(made)
        codes, score = model.transform(made), model.score(made)
        decoded = model.inverse_transform(codes)
        if kind is VDL:
            model_l1 = make(penalty="l1", lam=0.1).fit(made)
            assert model_l1.duality_gap(made).isfinite().all()
    assert torch.equal(codes, plain.transform(X))
    assert torch.equal(decoded, plain.inverse_transform(codes))
    assert score == plain.score(X)
    # and what was learnt there learns on out here
    learnt = [m.partial_fit(small).transform(small) for m in (model, plain)]
    np.testing.assert_array_equal(*learnt)


@pytest.mark.parametrize("name", ["n_components", "max_iter", "lam", "gamma", "step_size", "tol"])
def test_booleans_are_no_numbers(name, small):
    with pytest.raises(ValueError, match=name):
        make().set_params(**{name: True}).fit(small)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_components", 2**70),
        ("batch_size", 2**70),
        ("max_iter", 10**400),
        ("learning_rate", 10**400),
        ("lam", 1e300),
        ("beta", 1e300),
        ("gamma", float("inf")),
        ("variance_threshold", 1e200),
        ("learning_rate_init", 1e300),
        ("step_size", 1e300),
    ],
)
def test_numbers_beyond_arithmetic_are_refused(name, value, small):
    with pytest.raises(ValueError, match=name):
        make().set_params(**{name: value}).fit(small.astype(np.float32))
