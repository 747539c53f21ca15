"""The share of zeros that is asked for is the share of zeros of new rows."""

import numpy as np
import pytest

from skvdl import VDL, NonLinearVDL

BOTH = pytest.mark.parametrize("kind", [VDL, NonLinearVDL])


@pytest.fixture(scope="module")
def data(digits):
    """Rows to learn from, and rows never seen."""
    rng = np.random.default_rng(0)
    # sparse mixtures of thirty directions in twenty features, with noise
    codes = rng.exponential(size=(6500, 30)) * (rng.random((6500, 30)) < 0.15)
    mixtures = codes @ rng.normal(size=(30, 20)) + 0.1 * rng.normal(size=(6500, 20))
    # the last digits are by other people than the first
    shuffled = digits[0][rng.permutation(len(digits[0]))]
    return {
        "digits": (shuffled[:1200], shuffled[1200:]),
        "few": (mixtures[:900], mixtures[5500:]),
        "many": (mixtures[:5500], mixtures[5500:]),
    }


def make(kind=VDL, n_components=32, **params):
    params = {"max_iter": 4, "random_state": 0, **params}
    if kind is NonLinearVDL:
        params.setdefault("hidden_layer_sizes", 40)
    return kind(n_components, **params)


def zeros(model, X, method):
    return np.mean(model.set_params(transform_method=method).transform(X) == 0)


def allowed(model, X, n_rows):
    """Two points, or what counting zeros in a tenth of few rows leaves open."""
    error = (model.transform(X) == 0).mean(axis=1).std() / np.sqrt(min(500, n_rows // 10))
    return max(0.02, 3 * error)


@pytest.mark.parametrize("name", ["digits", "few", "many"])
@pytest.mark.parametrize(
    ("kind", "params"),
    [
        (VDL, {"target_sparsity": 0.6}),
        (VDL, {"n_components": 16}),
        (VDL, {"target_sparsity": 0.9, "n_components": 64}),
        (VDL, {"penalty": "l1"}),
        (VDL, {"penalty": "l1", "target_sparsity": 0.6, "debias": False}),
        (VDL, {"positive_code": False}),
        (VDL, {"regularizer": "variance", "target_sparsity": 0.9}),
        (NonLinearVDL, {}),
        (NonLinearVDL, {"target_sparsity": 0.6}),
        (NonLinearVDL, {"target_sparsity": 0.9, "debias": False}),
    ],
    ids=str,
)
def test_new_rows_have_the_zeros_asked_for(name, kind, params, data):
    seen, unseen = (X.astype(np.float32) for X in data[name])
    model = make(kind, max_iter=1 if name == "many" else 4, **params).fit(seen)
    target = params.get("target_sparsity", 0.8)
    for method in ("encoder", "fista"):
        found = zeros(model, unseen, method)
        assert found == pytest.approx(target, abs=allowed(model, unseen, len(seen))), method
    if name == "many":
        assert allowed(model, unseen, len(seen)) < 0.03


def test_codes_without_an_encoder_have_them_too(data):
    seen, unseen = data["digits"]
    for kind in (VDL, NonLinearVDL):
        model = make(kind, encoder=None).fit(seen)
        tol = allowed(model, unseen, len(seen))
        assert np.mean(model.transform(unseen) == 0) == pytest.approx(0.8, abs=tol)


@BOTH
def test_the_lam_that_was_found_can_be_given(kind, data):
    seen, unseen = data["few"]
    found = make(kind, transform_method="fista", max_iter=30).fit(seen)
    assert found.lam is None
    assert found.lam_ > 0
    assert len(found.history_["lam"]) == found.n_iter_
    expected = found.transform(unseen)
    # the same codes of the same model
    np.testing.assert_array_equal(found.set_params(lam=found.lam_).transform(unseen), expected)
    # and about as many zeros if it was learnt with it for long enough; while it is looked for, it
    # is another one at first, and that of a network has to compete with its encoder
    given = make(kind, transform_method="fista", max_iter=30, lam=found.lam_).fit(seen)
    assert given.lam_ == given.lam == found.lam_
    assert np.mean(given.transform(unseen) == 0) == pytest.approx(np.mean(expected == 0), abs=0.1)


@BOTH
def test_a_lam_that_is_given_wins(kind, data):
    seen, _ = data["few"]
    model = make(kind, lam=0.05, target_sparsity=0.3).fit(seen)
    assert model.lam_ == 0.05
    np.testing.assert_allclose(model.history_["lam"], 0.05, rtol=1e-6)
    other = make(kind, lam=0.05, target_sparsity=0.9).fit(seen)
    np.testing.assert_array_equal(model.transform(seen), other.transform(seen))


def test_the_encoder_has_as_many_zeros_as_exact_codes_for_any_lam(data):
    seen, unseen = data["many"]
    for lam in (0.001, 0.03):
        model = make(lam=lam, max_iter=1).fit(seen)
        shares = [zeros(model, unseen, method) for method in ("encoder", "fista")]
        assert shares[0] == pytest.approx(shares[1], abs=0.03)


def test_a_stream_keeps_to_the_target(data):
    seen, unseen = data["few"]
    model = make()
    for piece in np.array_split(seen, 6):
        model.partial_fit(piece)
    for method in ("encoder", "fista"):
        assert zeros(model, unseen, method) == pytest.approx(0.8, abs=0.04), method


def test_a_stream_can_be_given_another_target(data):
    seen, unseen = data["few"]
    model = make(target_sparsity=0.6).fit(seen).set_params(target_sparsity=0.85)
    before = zeros(model, unseen, "fista")
    for _ in range(4):
        model.partial_fit(seen)
    assert before < 0.65
    assert zeros(model, unseen, "fista") == pytest.approx(0.85, abs=0.04)


@pytest.mark.parametrize("how", ["fit", "partial_fit"])
def test_a_lam_of_0_can_be_given_up(how, data):
    seen, unseen = data["few"]
    model = make(lam=0.0, warm_start=True, transform_max_iter=50)
    model = getattr(model, how)(seen)
    assert model.lam_ == 0.0
    model.set_params(lam=None)
    for _ in range(3):
        getattr(model, how)(seen)
    assert model.lam_ > 0
    assert zeros(model, unseen, "fista") > 0.4


@BOTH
@pytest.mark.parametrize("n_components", [1, 2])
def test_hardly_any_components(kind, n_components, small):
    model = make(kind, n_components, hidden_layer_sizes=5) if kind is NonLinearVDL else None
    model = (model or make(kind, n_components)).fit(small)
    assert np.isfinite(model.transform(small)).all()
    assert 0 < model.lam_ < np.inf


def test_targets_that_cannot_be_met_do_no_harm():
    X = np.full((30, 4), 2.5)
    model = make().fit(X)
    assert 0 < model.lam_ < np.inf
    assert np.isfinite(model.transform(X)).all()
    for _ in range(3):
        model.partial_fit(X)
    assert 0 < model.lam_ < np.inf
