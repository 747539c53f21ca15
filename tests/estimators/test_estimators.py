"""What a user of the estimators is promised, beyond scikit-learn's own checks."""

import io
import pickle
import subprocess
import sys

import joblib
import numpy as np
import pandas as pd
import pytest
import torch
from _helpers import as_published
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import Lasso, LogisticRegression
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

import skvdl.estimators._base
from skvdl import VDL, VDLNL, NonLinearVDL, VarianceDictionaryLearning
from skvdl.estimators._devices import available_devices
from skvdl.metrics import neg_energy_scorer, psnr_scorer

REGULARIZERS = ["variance", "unit_norm", "weight_decay", None]


def make(kind, n_components=16, **params):
    params = {"max_iter": 5, "random_state": 0, **params}
    if kind is NonLinearVDL:
        params.setdefault("hidden_layer_sizes", (24,))
    return kind(n_components, **params)


def published(kind, n_components=16, **params):
    return make(kind, n_components, **as_published(kind) | params)


def weights(model):
    parts = [model.decoder_] + ([model.encoder_] if model.encoder_ is not None else [])
    return [p.detach().cpu().numpy() for part in parts for p in part.parameters()]


def assert_same_weights(a, b):
    for left, right in zip(weights(a), weights(b), strict=True):
        np.testing.assert_array_equal(left, right)


both = pytest.mark.parametrize("kind", [VarianceDictionaryLearning, NonLinearVDL])
methods = pytest.mark.parametrize("method", ["encoder", "fista"])


def test_short_names_are_the_classes():
    assert VDL is VarianceDictionaryLearning
    assert VDLNL is NonLinearVDL


# --- results on digits ---------------------------------------------------------------------


@both
def test_defaults_reconstruct_digits_sparsely(kind, digits):
    X = digits[0].astype(np.float32)
    model = make(kind, 64, max_iter=80, hidden_layer_sizes=(128,)) if kind is NonLinearVDL else None
    model = (model or make(kind, 64, max_iter=20)).fit(X)
    codes = model.transform(X)
    assert model.score(X) > 0.8
    assert (codes == 0).mean() == pytest.approx(0.8, abs=0.02)
    assert model.n_dead_components_ == 0


@both
def test_published_settings_reconstruct_digits_sparsely(kind, digits):
    X = digits[0].astype(np.float32)
    model = published(kind, 64, max_iter=60).fit(X)
    codes = model.transform(X)
    assert model.score(X) > 0.6
    assert (codes == 0).mean() > 0.5
    assert model.n_dead_components_ == 0
    assert model.loss_curve_[-1] < 0.5 * model.loss_curve_[0]


@both
def test_pipeline_classifies_digits(kind, digits):
    X_train, X_test, y_train, y_test = train_test_split(*digits, random_state=0)
    pipe = Pipeline(
        [("vdl", make(kind, 64, max_iter=30)), ("clf", LogisticRegression(max_iter=500, C=10))]
    )
    assert pipe.fit(X_train, y_train).score(X_test, y_test) > 0.85


def test_grid_search_over_a_pipeline_in_two_processes(digits):
    X, y = digits[0][:400], digits[1][:400]
    pipe = Pipeline(
        [("vdl", make(VDL, 32, max_iter=10)), ("clf", LogisticRegression(max_iter=300, C=10))]
    )
    # a penalty this strong leaves nothing of the codes
    grid = {"vdl__lam": [0.005, 100.0], "vdl__beta": [10.0]}
    search = GridSearchCV(pipe, grid, n_jobs=2, cv=2).fit(X, y)
    assert search.best_params_["vdl__lam"] == 0.005
    assert search.best_score_ > 0.7
    assert search.cv_results_["mean_test_score"].min() < 0.5


def test_bare_grid_search_prefers_the_least_lam(digits):
    grid = {"lam": [0.001, 0.1], "beta": [1.0, 10.0]}
    search = GridSearchCV(make(VDL, 32, max_iter=15), grid, cv=2).fit(digits[0][:600])
    assert search.best_params_["lam"] == 0.001
    assert isinstance(search.best_estimator_.score(digits[0]), float)


@pytest.mark.parametrize("scorer", [psnr_scorer, neg_energy_scorer])
def test_scorers_choose_more_training(scorer, digits):
    # energies with different weights of the penalty cannot be compared
    grid = {"max_iter": [1, 30]}
    model = make(VDL, 32, lam=0.005)
    search = GridSearchCV(model, grid, cv=2, scoring=scorer).fit(digits[0][:600])
    assert search.best_params_["max_iter"] == 30


def test_frozen_model_feeds_a_probe_with_few_labels(digits):
    X_train, X_test, y_train, y_test = train_test_split(*digits, random_state=0, stratify=digits[1])
    model = make(VDL, 64, max_iter=20).fit(X_train)
    before = weights(model)
    few = np.concatenate([np.flatnonzero(y_train == c)[:5] for c in range(10)])
    probe = make_pipeline(FrozenEstimator(model), LogisticRegression(max_iter=500, C=10))
    probe.fit(X_train[few], y_train[few])
    assert probe.score(X_test, y_test) > 0.6
    for left, right in zip(before, weights(model), strict=True):
        np.testing.assert_array_equal(left, right)


def test_fista_codes_are_the_lasso_solution(small):
    model = published(VDL, 20, lam=0.02, transform_method="fista", transform_tol=1e-9).fit(small)
    codes = model.transform(small)
    alpha = 0.02 * small.shape[1] / 2 / small.shape[1]
    lasso = Lasso(alpha, fit_intercept=False, positive=True, tol=1e-14, max_iter=100_000)

    def energy(x, z):
        return np.mean((x - z @ model.components_) ** 2) + 0.02 * z.sum()

    for x, z in zip(small[:10], codes, strict=False):
        exact = lasso.fit(model.components_.T, x).coef_
        assert energy(x, z) == pytest.approx(energy(x, exact), rel=1e-8)


def test_fista_codes_of_a_network_do_not_suffer_from_units_that_are_off(digits):
    X = digits[0][:200]
    model = published(NonLinearVDL, 32, hidden_layer_sizes=(64,), max_iter=20).fit(X)
    model.set_params(transform_method="fista")

    def mean_energy():
        codes = model.transform(X)
        error = np.mean((X - model.inverse_transform(codes)) ** 2)
        return error + model.lam * codes.sum(axis=1).mean()

    into, outof = model.decoder_.matrices
    with torch.no_grad():
        model.decoder_.biases[0][:16] = -1e6
        into[:16] = 0.0
        expected = mean_energy()
        into[:16] = 100 * into[16:32]
        outof[:, :16] = outof[:, 16:32]
    assert mean_energy() == pytest.approx(expected, rel=1e-3)


def test_unfinished_inference_warns(small):
    model = make(VDL, transform_method="fista", transform_max_iter=1, transform_tol=0).fit(small)
    with pytest.warns(ConvergenceWarning, match="transform_max_iter=1"):
        model.transform(small)


@pytest.mark.parametrize("positive", [True, False])
def test_duality_gap_is_kept_and_told(positive, small):
    model = published(VDL, 20, lam=0.02, positive_code=positive, max_iter=30).fit(small)
    of_encoder = model.duality_gap(small)
    model.set_params(transform_method="fista", transform_tol=1e-6)
    exact = model.duality_gap(small)
    assert exact.shape == of_encoder.shape == (60,)
    assert (exact <= 1.01e-6).all()
    assert np.median(of_encoder) > 1e-3
    tensor = model.duality_gap(torch.from_numpy(small))
    np.testing.assert_allclose(tensor.numpy(), exact, atol=1e-12)


def test_fit_works_where_gradients_are_off(small):
    with torch.no_grad():
        model = make(NonLinearVDL).fit(small).partial_fit(small)
    assert model.n_iter_ == 6


@pytest.mark.parametrize("init", ["data", "random"])
def test_learning_starts_where_asked(init, digits):
    X = digits[0][:500]
    model = published(VDL, 16, init=init, max_iter=1, learning_rate_init=1e-9).fit(X)
    atoms = model.components_ / np.linalg.norm(model.components_, axis=1, keepdims=True)
    rows = X / np.linalg.norm(X, axis=1, keepdims=True)
    nearest = (atoms @ rows.T).max(axis=1)
    assert (nearest.min() > 0.97) == (init == "data")


# --- guards against collapse ---------------------------------------------------------------


@both
def test_unit_norm_holds_in_every_layer_after_fit(kind, small):
    model = make(kind, regularizer="unit_norm").fit(small)
    for weight in model.decoder_.matrices:
        np.testing.assert_allclose(weight.detach().norm(dim=0).numpy(), 1.0, rtol=1e-12)


# Networks, and all of the paper's systems: tests/test_paper.py.
def test_codes_collapse_without_a_regularizer_only(digits):
    X = digits[0][:500]
    X = (X - X.mean()) / X.std()
    common = {"max_iter": 60, "lam": 0.02, "learning_rate_init": 0.1, "learning_rate": "constant"}
    trend = {}
    for regularizer in REGULARIZERS:
        model = published(VDL, regularizer=regularizer, encoder=None, init="data", **common).fit(X)
        l1 = model.history_["l1"]
        trend[regularizer] = l1[-1] / l1[10]
    assert trend.pop(None) < 0.85
    assert min(trend.values()) > 0.95


@pytest.mark.parametrize("how", [make, published])
def test_weight_decay_shrinks_the_decoder(how, small):
    params = {"regularizer": "weight_decay", "max_iter": 40, "lam": 0.005}
    sizes = [
        np.linalg.norm(how(VDL, weight_decay=decay, **params).fit(small).components_)
        for decay in (0.0, 1.0)
    ]
    assert sizes[1] < 0.9 * sizes[0]


def test_hinge_holds_the_spread_of_the_codes(digits):
    model = published(VDL, 32, max_iter=60, beta=100.0).fit(digits[0])
    assert model.history_["hinge"][-1] < 0.05 * model.history_["hinge"][0] + 1e-3


def test_dead_components_are_counted_and_revived(digits):
    common = {"regularizer": "unit_norm", "lam": 0.02, "max_iter": 12, "encoder": None}
    common["init"] = "random"
    plain = published(VDL, 64, **common).fit(digits[0][:500])
    revived = published(VDL, 64, revive_dead=True, **common).fit(digits[0][:500])
    assert plain.n_dead_components_ > 5
    assert plain.n_dead_components_ == plain.history_["dead"][-1]
    assert revived.n_dead_components_ < 0.5 * plain.n_dead_components_


# --- rows, containers, chunks --------------------------------------------------------------


@both
@methods
@pytest.mark.parametrize("positive", [True, False])
def test_a_code_does_not_depend_on_its_neighbours(kind, method, positive, small):
    model = make(kind, 30, transform_method=method, positive_code=positive).fit(small)
    codes = model.transform(small)
    order = np.random.default_rng(0).permutation(len(small))
    one_by_one = np.concatenate([model.transform(row[None]) for row in small])
    scale = np.abs(codes).max()
    np.testing.assert_allclose(one_by_one, codes, rtol=1e-6, atol=1e-6 * scale)
    np.testing.assert_allclose(model.transform(small[order]), codes[order], rtol=1e-6)
    np.testing.assert_allclose(model.transform(small[7:20]), codes[7:20], rtol=1e-6)


@both
@methods
def test_chunks_and_sparse_output_change_nothing(kind, method, small, monkeypatch):
    model = make(kind, transform_method=method).fit(small)
    dense, score = model.transform(small), model.score(small)
    rebuilt = model.inverse_transform(dense)
    monkeypatch.setattr(skvdl.estimators._base, "_CHUNK_ELEMENTS", 1)
    monkeypatch.setattr(skvdl.estimators._base, "_CHUNK_ROWS", 7)
    assert len(list(model._chunks(torch.from_numpy(small)))) > 5
    # many iterations, each with its rounding
    rtol = 1e-7
    np.testing.assert_allclose(model.transform(small), dense, rtol=rtol, atol=1e-12)
    assert model.score(small) == pytest.approx(score, rel=rtol)
    model.set_params(sparse_output=True)
    codes = model.transform(small)
    assert sparse.issparse(codes)
    assert codes.format == "csr"
    assert codes.nnz == np.count_nonzero(codes.toarray())
    np.testing.assert_allclose(codes.toarray(), dense, rtol=rtol, atol=1e-12)
    np.testing.assert_allclose(model.inverse_transform(codes), rebuilt, rtol=rtol)


@both
@methods
@pytest.mark.parametrize("sparse_output", [False, True])
def test_tensors_come_back_as_tensors(kind, method, sparse_output, device, small):
    params = {"transform_method": method, "sparse_output": sparse_output, "device": device}
    X = small.astype(np.float32)
    tensor = torch.from_numpy(X).to(device)
    model = make(kind, **params).fit(tensor)
    codes = model.transform(tensor)
    assert isinstance(codes, torch.Tensor)
    assert codes.device == tensor.device
    assert codes.dtype == torch.float32
    rebuilt = model.inverse_transform(codes)
    assert isinstance(rebuilt, torch.Tensor)
    assert rebuilt.shape == tensor.shape
    dense = codes.to_dense() if sparse_output else codes
    again = make(kind, **params).fit(X)
    expected = again.transform(X)
    expected = expected.toarray() if sparse_output else expected
    np.testing.assert_allclose(dense.cpu().numpy(), expected, rtol=1e-5, atol=1e-6)
    assert model.score(tensor) == pytest.approx(again.score(X), rel=1e-5)


@pytest.mark.parametrize(
    ("given", "dtype"),
    [
        (torch.int64, torch.float64),
        (torch.int32, torch.float64),
        (torch.int16, torch.float32),
        (torch.uint8, torch.float32),
        (torch.float16, torch.float32),
        (torch.bfloat16, torch.float32),
    ],
)
def test_tensors_become_floats_that_hold_their_numbers(given, dtype):
    X = torch.arange(40).reshape(10, 4).to(given)
    assert make(VDL).fit(X).transform(X).dtype == dtype


def test_large_integers_keep_their_digits(digits):
    X = torch.from_numpy(digits[0][:200] * 16).to(torch.int64)
    small, large = (make(VDL).fit(Y).score(Y) for Y in (X, X + 2**40))
    assert large == pytest.approx(small, abs=0.05)


def test_frames_honour_set_output(small):
    frame = pd.DataFrame(small, columns=[f"f{i}" for i in range(small.shape[1])])
    model = make(VDL, 5).set_output(transform="pandas").fit(frame)
    codes = model.transform(frame)
    assert isinstance(codes, pd.DataFrame)
    assert list(codes.columns) == list(model.get_feature_names_out())
    assert codes.columns[0] == "vdl0"
    assert list(model.feature_names_in_) == list(frame.columns)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@both
def test_dtype_follows_the_data(kind, dtype, small):
    model = make(kind).fit(small.astype(dtype))
    assert all(w.dtype == dtype for w in weights(model))
    for method in ("encoder", "fista"):
        codes = model.set_params(transform_method=method).transform(small.astype(dtype))
        assert codes.dtype == dtype
        assert model.inverse_transform(codes).dtype == dtype
    assert model.transform(small).dtype == dtype


def test_components_are_the_atoms(small):
    model = make(VDL).fit(small)
    codes = model.transform(small)
    rebuilt = model.inverse_transform(codes)
    np.testing.assert_allclose(codes @ model.components_ + model.intercept_, rebuilt)
    assert not hasattr(make(NonLinearVDL).fit(small), "components_")


def test_score_is_the_explained_variance(small):
    model = make(VDL, max_iter=30).fit(small)
    X_hat = model.inverse_transform(model.transform(small))
    expected = 1 - ((small - X_hat) ** 2).sum() / ((small - small.mean(axis=0)) ** 2).sum()
    assert model.score(small) == pytest.approx(expected, rel=1e-10)
    assert isinstance(model.score(small), float)


@pytest.mark.parametrize("value", [0.0, 0.1])
def test_score_of_constant_data(value, small):
    model = make(VDL).fit(small)
    assert model.score(np.full_like(small, value)) in (0.0, 1.0)


@pytest.mark.parametrize("how", [make, published])
def test_terms_of_the_history_add_up_to_the_energy(how, small):
    weights = {"lam": 0.05, "beta": 3.0, "gamma": 2.0}
    model = how(VDL, batch_size=25, regularizer="variance", **weights).fit(small)
    history = {name: np.array(values) for name, values in model.history_.items()}
    total = history["reconstruction"] + 3 * history["hinge"]
    total += 2 * history["proximity"] + 0.05 * history[model.penalty]
    np.testing.assert_allclose(history["lam"], 0.05)
    np.testing.assert_allclose(history["energy"], total, rtol=1e-9)


def test_sparse_codes_are_decoded_in_pieces(small, monkeypatch):
    model = make(VDL, sparse_output=True).fit(small)
    codes = model.transform(small)
    monkeypatch.setattr(skvdl.estimators._base, "_CHUNK_ELEMENTS", 1)
    monkeypatch.setattr(skvdl.estimators._base, "_CHUNK_ROWS", 7)
    largest = []
    toarray = type(codes).toarray
    monkeypatch.setattr(
        type(codes), "toarray", lambda self: largest.append(self.shape[0]) or toarray(self)
    )
    model.inverse_transform(codes)
    assert 0 < max(largest) < 15


# --- the same again ------------------------------------------------------------------------


@both
@pytest.mark.parametrize("regularizer", REGULARIZERS)
def test_same_seed_gives_bit_equal_models(kind, regularizer, small):
    a, b = (make(kind, regularizer=regularizer).fit(small) for _ in range(2))
    assert_same_weights(a, b)
    np.testing.assert_array_equal(a.loss_curve_, b.loss_curve_)
    other = make(kind, regularizer=regularizer, random_state=1).fit(small)
    assert not np.array_equal(weights(a)[0], weights(other)[0])


@pytest.mark.parametrize("random_state", [None, 0])
def test_global_random_state_is_untouched(random_state, small):
    numpy_before = np.random.get_state()[1].copy()  # noqa: NPY002
    torch_before = torch.get_rng_state()
    make(NonLinearVDL, random_state=random_state, early_stopping=True).fit(small).transform(small)
    np.testing.assert_array_equal(np.random.get_state()[1], numpy_before)  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), torch_before)


@both
@methods
def test_inputs_are_never_written_to(kind, method, small):
    X = small.copy()
    X.setflags(write=False)
    model = make(kind, transform_method=method, revive_dead=True).fit(X)
    codes = model.transform(X)
    codes.setflags(write=False)
    model.inverse_transform(codes)
    model.partial_fit(X)
    tensor = torch.from_numpy(small)
    model.fit(tensor).transform(tensor)
    np.testing.assert_array_equal(small, X)


@both
def test_no_tensor_has_an_implicit_device(kind, small):
    for params in (
        {"revive_dead": True, "lam": 1.0},
        {"early_stopping": True, "learning_rate": 2},
        {"regularizer": "unit_norm", "encoder": None},
        {"positive_code": False, "transform_method": "fista"},
        {"step_size": 0.1, "transform_method": "fista"},
    ):
        with torch.device("meta"):
            model = make(kind, device="cpu", **params).fit(small)
            codes = model.transform(small)
            model.inverse_transform(codes)
            model.score(small)
            model.partial_fit(small)
            pickle.loads(pickle.dumps(model)).transform(small)
        assert np.isfinite(codes).all()


# --- persistence ---------------------------------------------------------------------------


def test_pickles_open_in_another_process(small, tmp_path):
    X = small.astype(np.float32)
    models = [make(kind).fit(X) for kind in (VDL, NonLinearVDL)]
    (tmp_path / "models.pkl").write_bytes(pickle.dumps(models))
    np.save(tmp_path / "X.npy", X)
    script = (
        "import pickle, numpy as np;"
        "models = pickle.load(open('models.pkl', 'rb'));"
        "X = np.load('X.npy');"
        "np.savez('codes.npz', *[model.transform(X) for model in models])"
    )
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True)
    with np.load(tmp_path / "codes.npz") as found:
        for model, name in zip(models, found, strict=True):
            assert found[name].dtype == np.float32
            np.testing.assert_allclose(found[name], model.transform(X), rtol=1e-6, atol=1e-7)


def test_pickle_of_a_gpu_model_opens_without_a_gpu(small):
    model = make(VDL).fit(small)
    state = model.__getstate__()
    assert {p.device.type for p in state["decoder_"].parameters()} == {"cpu"}
    assert state["decoder_"] is state["_learner"].decoder
    state["device_"] = "cuda:0" if "cuda" not in available_devices() else "mps:0"
    twin = VDL.__new__(VDL)
    twin.__setstate__(state)
    assert twin.device_ == "cpu"
    np.testing.assert_array_equal(twin.transform(small), model.transform(small))


def test_joblib_clone_and_html(small):
    model = make(VDL).fit(small)
    buffer = io.BytesIO()
    joblib.dump(model, buffer)
    buffer.seek(0)
    np.testing.assert_array_equal(joblib.load(buffer).transform(small), model.transform(small))
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert not hasattr(copy, "decoder_")
    assert "VarianceDictionaryLearning" in model._repr_html_()


@both
@pytest.mark.parametrize("how", [make, published])
def test_training_goes_on_after_pickling_as_if_nothing_had_happened(kind, how, small):
    straight = how(kind).partial_fit(small).partial_fit(small)
    paused = pickle.loads(pickle.dumps(how(kind).partial_fit(small))).partial_fit(small)
    assert_same_weights(straight, paused)
    assert straight.lam_ == paused.lam_
    np.testing.assert_array_equal(straight.transform(small), paused.transform(small))


# --- partial_fit, warm_start, early stopping, interrupts -------------------------------------


@both
@pytest.mark.parametrize("how", [make, published])
@pytest.mark.parametrize("regularizer", REGULARIZERS)
def test_partial_fit_in_pieces_equals_partial_fit_at_once(kind, how, regularizer, small):
    # at random, for the rows of the first call are all that weights could start from, and in the
    # units of the data, for those of the first pieces would have to do without the others
    params = {"batch_size": 15, "regularizer": regularizer, "center": False, "scale": False}
    if kind is VDL:
        params["init"] = "random"
    whole = how(kind, **params).partial_fit(small)
    pieces = how(kind, **params)
    for start in range(0, 60, 15):
        pieces.partial_fit(small[start : start + 15])
    assert_same_weights(whole, pieces)
    assert whole.n_steps_ == pieces.n_steps_ == 4
    assert (whole.n_iter_, pieces.n_iter_) == (1, 4)


@pytest.mark.parametrize(
    ("how", "rows", "n_steps"),
    [(make, 7, 60), (make, 60, 60), *((published, n, 400) for n in (2, 60))],
)
def test_partial_fit_learns_from_batches_of_any_size(how, rows, n_steps, small):
    model = how(VDL, 8, batch_size=30)
    for start in range(0, 60 * 150, rows):
        part = np.take(small, range(start, start + rows), axis=0, mode="wrap")
        model.partial_fit(part)
        if model.n_steps_ >= n_steps:
            break
    assert model.score(small) > 0.5
    assert np.std(model.transform(small), axis=0).mean() > 0.15


def test_partial_fit_of_one_row(small):
    with pytest.raises(ValueError, match="minimum of 2 is required"):
        make(VDL, regularizer="variance").partial_fit(small[:1])
    model = make(VDL, regularizer="unit_norm").partial_fit(small[:1])
    assert np.isfinite(model.components_).all()


def test_partial_fit_goes_on_from_fit(small):
    model = published(VDL).fit(small)
    before = model.components_
    model.partial_fit(small)
    assert model.n_iter_ == 6
    assert 0 < np.abs(model.components_ - before).max() < 0.1


def test_warm_start_goes_on(small):
    model = published(VDL, warm_start=True, learning_rate="constant").fit(small)
    loss = model.loss_curve_[-1]
    model.fit(small)
    assert model.loss_curve_[0] < loss
    assert model.n_iter_ == 5
    assert model.n_steps_ == 10
    cold = published(VDL, learning_rate="constant").fit(small).fit(small)
    assert cold.n_steps_ == 5
    assert cold.loss_curve_[0] > loss


@pytest.mark.parametrize(
    "change",
    [
        {"n_components": 3},
        {"encoder": None},
        {"positive_code": False},
        {"center": False},
        {"scale": False},
    ],
    ids=str,
)
def test_warm_start_refuses_another_shape(change, small):
    model = make(VDL, warm_start=True).fit(small)
    before = model.components_
    with pytest.raises(ValueError, match="warm_start=False"):
        model.set_params(**change).fit(small)
    np.testing.assert_array_equal(model.components_, before)


def test_early_stopping_keeps_the_best_epoch(small):
    # a rate this high makes the energy jump up and down
    params = {
        "early_stopping": True,
        "n_iter_no_change": None,
        "learning_rate": "constant",
        "learning_rate_init": 0.3,
    }
    params["init"] = "random"
    model = published(VDL, max_iter=15, **params).fit(small)
    best = int(np.argmin(model.validation_curve_))
    assert len(model.validation_curve_) == 15
    assert best < 14
    assert_same_weights(model, published(VDL, max_iter=best + 1, **params).fit(small))


def test_early_stopping_stops_early(small):
    rates = {"learning_rate_init": 1e-9, "encoder_learning_rate_init": 1e-9}
    model = published(VDL, max_iter=60, **rates).fit(small)
    assert model.n_iter_ == 60
    assert model.validation_curve_ is None
    model.set_params(early_stopping=True).fit(small)
    assert model.n_iter_ == 11
    model.set_params(n_iter_no_change=None).fit(small)
    assert model.n_iter_ == 60


@both
def test_auto_epochs_make_a_number_of_steps(kind, small, monkeypatch):
    # sixty rows are too few to set some aside, so that nothing ends training early
    monkeypatch.setattr(kind, "_auto_steps", 8)
    for batch_size, epochs in ((60, 8), (20, 3), (5, 1), (4, 1)):
        model = make(kind, max_iter="auto", batch_size=batch_size).fit(small)
        assert model.n_iter_ == epochs
        assert model.n_steps_ == epochs * 60 / batch_size
        assert model.validation_curve_ is None


def test_partial_fit_does_not_copy_its_history(small):
    model = make(VDL).partial_fit(small)
    history = model._history
    assert model.partial_fit(small)._history is history
    assert len(model.loss_curve_) == 2


def test_random_state_instance_is_drawn_from_once(small):
    rng = np.random.RandomState(0)
    model = make(VDL, random_state=rng).partial_fit(small)
    before = rng.get_state()[2]
    model.partial_fit(small)
    assert rng.get_state()[2] == before


def test_float64_stays_off_mps(small, monkeypatch):
    monkeypatch.setattr(skvdl.estimators._devices, "available_devices", lambda: ["mps", "cpu"])
    model = make(VDL, device="auto").fit(small)
    assert model.device_ == "cpu"
    with pytest.raises(ValueError, match="pass float32"):
        model.set_params(device="mps").fit(small)


class Interrupt:
    """Stands in for a person who presses Ctrl-C during epoch number `epoch`."""

    def __init__(self, monkeypatch, epoch, harm=None):
        self.left = epoch
        self.harm = harm
        self.run_epoch = skvdl.training._epochs.run_epoch
        monkeypatch.setattr(skvdl.training._epochs, "run_epoch", self)

    def __call__(self, learner, X, **options):
        self.left -= 1
        if not self.left:
            learner.step(X.gather(slice(10)))
            if self.harm is not None:
                with torch.no_grad():
                    learner.decoder.weight.mul_(self.harm)
            raise KeyboardInterrupt
        return self.run_epoch(learner, X, **options)


@pytest.mark.parametrize("epoch", [1, 4])
def test_an_interrupt_keeps_what_was_learnt(epoch, small, monkeypatch):
    model = make(VDL, max_iter=50)
    Interrupt(monkeypatch, epoch)
    with pytest.raises(KeyboardInterrupt):
        model.fit(small)
    assert model.n_iter_ == epoch - 1
    assert model.n_steps_ == epoch
    assert model.transform(small).shape == (60, 16)


@pytest.mark.parametrize("harm", [3.0, float("nan")])
def test_an_interrupt_leaves_weights_in_order(harm, small, monkeypatch):
    model = make(VDL, regularizer="unit_norm", max_iter=50)
    Interrupt(monkeypatch, 3, harm)
    with pytest.raises(KeyboardInterrupt):
        model.fit(small)
    norms = np.linalg.norm(model.components_, axis=1)
    np.testing.assert_allclose(norms, model.scale_)


def test_divergence_names_cause_and_remedy_and_keeps_good_weights(small):
    good = published(VDL).fit(small)
    before = good.components_
    with pytest.raises(FloatingPointError, match="step_size='auto'"):
        good.set_params(step_size=1e6, warm_start=True).fit(small)
    np.testing.assert_array_equal(good.components_, before)
    good.set_params(step_size="auto")
    assert np.isfinite(good.transform(small)).all()


def test_divergence_is_noticed_at_once(small, monkeypatch):
    steps = []
    step = skvdl.training.Learner.step
    monkeypatch.setattr(
        skvdl.training.Learner, "step", lambda self, *batch: steps.append(1) or step(self, *batch)
    )
    with pytest.raises(FloatingPointError):
        published(VDL, batch_size=6, step_size=1e6).fit(small)
    assert len(steps) < 5


def test_divergence_of_a_new_model_leaves_it_unfitted(small):
    model = published(VDL, step_size=1e6)
    with pytest.raises(FloatingPointError, match="no longer finite in epoch 1"):
        model.fit(small)
    with pytest.raises(NotFittedError):
        model.transform(small)


def test_progress_is_shown_when_asked_for(small, capsys):
    make(VDL).fit(small)
    assert capsys.readouterr().err == ""
    make(VDL, verbose=1).fit(small)
    shown = capsys.readouterr().err
    assert "VarianceDictionaryLearning" in shown
    assert "5/5" in shown
    assert "zeros" in shown


# --- bad input -----------------------------------------------------------------------------


def bad_data(small):
    with_nan, with_inf = small.copy(), small.copy()
    with_nan[3, 2], with_inf[3, 2] = np.nan, np.inf
    frame = pd.DataFrame(with_nan, columns=[f"other{i}" for i in range(12)])
    return {
        "nan": with_nan,
        "inf": with_inf,
        "nan in a frame": frame,
        "nan in a tensor": torch.from_numpy(with_nan),
        "one sample": small[:1],
        "no features": small[:, :0],
        "no features in a tensor": torch.from_numpy(small[:, :0]),
        "one sample in a tensor": torch.from_numpy(small[:1]),
        "one dimension": small[0],
        "three dimensions in a tensor": torch.from_numpy(small)[None],
        "complex": small + 1j,
        "complex in a tensor": torch.from_numpy(small + 1j),
        "text": np.array([["a", "b"], ["c", "d"]]),
        "objects": np.array([[object(), 1], [2, 3]], dtype=object),
    }


BAD_PARAMETERS = [
    {"lam": -1},
    {"penalty": "l2"},
    {"target_sparsity": 0.0},
    {"target_sparsity": 1.0},
    {"debias": "yes"},
    {"center": 2},
    {"scale": None},
    {"learning_rate_init": 0.0},
    {"beta": -1},
    {"gamma": -0.1},
    {"n_components": 0},
    {"n_components": 2.5},
    {"batch_size": 1},
    {"max_iter": 0},
    {"max_iter": "often"},
    {"regularizer": "none"},
    {"encoder": "mlp"},
    {"transform_method": "lars"},
    {"learning_rate": "linear"},
    {"step_size": 0},
    {"step_size": "long"},
    {"max_iter": "adaptive"},
    {"device": "tpu"},
    {"device": next(d for d in ("cuda", "mps") if d not in available_devices())},
    {"validation_fraction": 1.0},
    {"early_stopping": True, "validation_fraction": 0.99},
]


def state(model):
    return {name: id(value) for name, value in vars(model).items()}


@pytest.mark.parametrize("what", list(bad_data(np.zeros((4, 12)))))
@pytest.mark.parametrize("fitted", [False, True])
@both
def test_bad_data_is_refused_and_changes_nothing(kind, fitted, what, small):
    # a single row is refused by partial_fit where it would need a variance
    model = make(kind, regularizer="variance", lam=0.01, debias=False)
    if fitted:
        model.fit(pd.DataFrame(small, columns=[f"f{i}" for i in range(12)]))
    before = state(model)
    for method in (model.fit, model.partial_fit):
        with pytest.raises((ValueError, TypeError)):
            method(bad_data(small)[what])
        assert state(model) == before


@pytest.mark.parametrize("params", BAD_PARAMETERS, ids=str)
def test_bad_parameters_are_refused_and_change_nothing(params, small):
    model = make(VDL).fit(small)
    model.set_params(**params)
    before = state(model)
    name = list(params)[-1]
    with pytest.raises(ValueError, match=name):
        model.fit(small)
    assert state(model) == before


@pytest.mark.parametrize("sizes", [(0,), (-3,), (2.5,), ("a",), ()])
def test_bad_hidden_layers_are_refused(sizes, small):
    with pytest.raises(ValueError, match="hidden_layer_sizes"):
        make(NonLinearVDL, hidden_layer_sizes=sizes).fit(small)


def test_any_depth_works(small):
    model = published(NonLinearVDL, hidden_layer_sizes=[20, 15, 10], max_iter=30).fit(small)
    assert model.decoder_.layer_sizes == [16, 20, 15, 10, 12]
    assert model.loss_curve_[-1] < model.loss_curve_[0]


def test_unknown_transform_method_is_refused_by_transform(small):
    model = make(VDL).fit(small).set_params(transform_method="encodr")
    with pytest.raises(ValueError, match="encodr"):
        model.transform(small)


def test_sparse_tensors_are_refused_as_data(small):
    with pytest.raises(ValueError, match="to_dense"):
        make(VDL).fit(torch.from_numpy(small).to_sparse())


def test_wrong_number_of_features(small):
    model = make(VDL).fit(small)
    for X in (small[:, :-1], torch.from_numpy(small[:, :-1])):
        with pytest.raises(ValueError, match="expecting 12 features"):
            model.transform(X)
        with pytest.raises(ValueError, match="expecting 12 features"):
            model.partial_fit(X)
    with pytest.raises(ValueError, match="have 16"):
        model.inverse_transform(small)


@both
@pytest.mark.parametrize("regularizer", REGULARIZERS)
@pytest.mark.parametrize(
    "what", ["constant", "zeros", "duplicates", "few rows", "two rows", "huge", "tiny"]
)
@pytest.mark.filterwarnings("ignore:The data have a standard deviation")
def test_extreme_data_give_finite_numbers(kind, regularizer, what, small):
    X = {
        "constant": np.concatenate([small, np.ones((60, 2))], axis=1),
        "zeros": np.zeros((30, 5)),
        "duplicates": np.repeat(small[:2], 30, axis=0),
        "few rows": small[:5],
        "two rows": small[:2],
        "huge": small * 1e6,
        "tiny": small * 1e-6,
    }[what]
    for dtype in (np.float32, np.float64):
        model = make(kind, regularizer=regularizer, max_iter=4).fit(X.astype(dtype))
        assert all(np.isfinite(w).all() for w in weights(model))
        codes = model.transform(X.astype(dtype))
        assert np.isfinite(codes).all()
        assert np.isfinite(model.inverse_transform(codes)).all()
        assert np.isfinite(model.score(X.astype(dtype)))


@pytest.mark.parametrize("factor", [1e6, 1e-6])
def test_badly_scaled_data_warn(factor, small):
    with pytest.warns(UserWarning, match=r"use scale=True, or rescale the data"):
        make(VDL, scale=False, center=False).fit(small * factor)


def test_well_scaled_data_do_not_warn(small, recwarn):
    make_pipeline(StandardScaler(), published(VDL)).fit(small)
    make(VDL).fit(small * 1e6)
    assert not [w for w in recwarn if "rescale" in str(w.message)]


# --- where a dictionary starts


def test_a_dictionary_starts_where_it_is_told(small):
    def atoms(**params):
        model = VDL(8, max_iter=1, lam=0.02, random_state=0, **params)
        return model.fit(small).components_

    starts = [atoms(init=init) for init in ("autoencoder", "data", "random")]
    assert np.array_equal(atoms(), starts[0])
    for i in range(3):
        assert not np.allclose(starts[i], starts[i - 1])


def test_a_stream_starts_from_its_first_rows(small):
    models = [VDL(8, init=init, random_state=0) for init in ("autoencoder", "data")]
    codes = [model.partial_fit(small).transform(small) for model in models]
    np.testing.assert_array_equal(*codes)


def test_an_interrupt_while_it_starts_leaves_a_model_that_works(small, monkeypatch):
    from skvdl.training._autoencoder import Autoencoder

    def interrupted(self, Y, number):
        raise KeyboardInterrupt

    monkeypatch.setattr(Autoencoder, "step", interrupted)
    model = VDL(8, random_state=0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(small)
    assert model.transform(small).shape == (60, 8)
    assert model.n_iter_ == 0


def test_an_intercept_makes_up_for_codes_that_are_never_negative():
    rng = np.random.default_rng(0)
    # all rows are on one side of the point that their atoms start from
    X = 5.0 - rng.exponential(size=(500, 4)) * (rng.random((500, 4)) < 0.4)
    model = VDL(4, target_sparsity=0.6, random_state=0).fit(X)
    np.testing.assert_allclose(model.intercept_, 5.0, atol=0.1)
    assert model.score(X) > 0.97
