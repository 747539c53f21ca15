"""What parameters mean, which of them count after fit, and that all are validated when used."""

import inspect
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from _helpers import as_published
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skvdl import VDL, ImageDenoiser, NonLinearVDL
from skvdl.estimators._base import _READ_AFTER_FIT
from skvdl.models import Units
from skvdl.preprocessing import GlobalScaler, LocalContrastNormalizer

BOTH = pytest.mark.parametrize("kind", [VDL, NonLinearVDL])


def make(kind=VDL, **options):
    if kind is NonLinearVDL:
        options.setdefault("hidden_layer_sizes", 20)
    return kind(16, **{"max_iter": 5, "random_state": 0} | options)


def published(kind=VDL, **options):
    return make(kind, **as_published(kind) | options)


@BOTH
def test_weight_of_the_hinge_means_the_same_whatever_the_batch_size(kind, small):
    # in one batch of 50 rows, whatever the batch size says
    models = [make(kind, batch_size=size, max_iter=3).fit(small[:50]) for size in (40, 50, 70)]
    for model in models[1:]:
        np.testing.assert_array_equal(model.transform(small), models[0].transform(small))


def test_hinge_pulls_on_each_row_alike_in_batches_of_any_size(small):
    # the same rows twice: twice the hinge's weight against twice the sum over rows
    energies = []
    for X in (small, np.concatenate([small, small])):
        options = {"batch_size": len(X), "max_iter": 1, "init": "random", "encoder": None}
        model = published(**options).fit(X)
        energies.append(model.loss_curve_[0])
    assert energies[1] == pytest.approx(energies[0], rel=0.02)


@pytest.mark.parametrize("given", [20, np.int64(20), [20], (20,), np.array([20])])
def test_one_hidden_layer_may_be_a_number(given, small):
    model = make(NonLinearVDL, hidden_layer_sizes=given).fit(small)
    assert model.decoder_.layer_sizes == [16, 20, 12]
    assert model.partial_fit(small).n_iter_ == 6


@pytest.mark.parametrize("given", [0, -3, True, "20", 2.5, None])
def test_other_single_hidden_layers_are_refused(given, small):
    with pytest.raises(ValueError, match="hidden_layer_sizes"):
        make(NonLinearVDL, hidden_layer_sizes=given).fit(small)


@pytest.mark.parametrize("given", [(0.1,), (0.1, -0.1), (0.1, "a"), (0.1, 0.1, 0.1), (0.1, np.nan)])
def test_bad_bias_decay_is_refused(given, small):
    with pytest.raises(ValueError, match="bias_decay"):
        make(bias_decay=given).fit(small)


BAD_AFTER_FIT = {
    "lam": [-1, np.nan, "a"],
    "debias": ["yes", 2],
    "step_size": [0, "adaptive"],
    "transform_method": ["encodr", None],
    "transform_tol": [-1e-3, "a"],
    "transform_max_iter": [0, 2.5],
    "missing_values": ["NaN", np.nan],
    "sparse_output": ["yes"],
}


def test_every_parameter_read_after_fit_is_tried():
    assert set(BAD_AFTER_FIT) == set(_READ_AFTER_FIT)


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in BAD_AFTER_FIT.items() for value in values]
)
@BOTH
def test_parameters_changed_after_fit_are_validated_when_used(kind, name, value, small):
    model = make(kind).fit(small).set_params(**{name: value})
    methods = [model.transform, model.score]
    if kind is VDL:
        methods.append(model.duality_gap)
    for method in methods:
        with pytest.raises(ValueError, match=name):
            method(small)


@pytest.mark.parametrize(
    "changes",
    [{"lam": -1}, {"beta": -5}, {"regularizer": "foo"}, {"batch_size": 0}, {"lam": np.nan}],
    ids=str,
)
def test_later_partial_fits_validate_their_parameters(changes, small):
    model = make().partial_fit(small).set_params(**changes)
    with pytest.raises(ValueError, match=next(iter(changes))):
        model.partial_fit(small)


@BOTH
def test_all_other_parameters_have_no_effect_before_the_next_fit(kind, small):
    model = make(kind).fit(small)
    expected = model.transform(small), model.score(small)
    model.set_params(n_components=3, beta=1.0, gamma=0.1, variance_threshold=2.0, batch_size=2)
    model.set_params(regularizer=None, encoder=None, positive_code=False, device="cuda")
    np.testing.assert_array_equal(model.transform(small), expected[0])
    assert model.score(small) == expected[1]
    exact = model.set_params(transform_method="fista", lam=0.3).transform(small)
    assert (exact >= 0).all()


@BOTH
def test_the_documentation_names_what_is_read_after_fit(kind):
    notes = inspect.cleandoc(kind.__doc__).partition("Notes\n-----\n")[2].partition("\n\n")[0]
    for name in _READ_AFTER_FIT:
        assert f"`{name}`" in notes or name.startswith("transform_")
    assert "``transform_``" in notes


@pytest.mark.parametrize("wrapped", [False, True])
def test_missed_convergence_is_told_once_at_the_callers_line(small, monkeypatch, wrapped):
    monkeypatch.setattr("skvdl.estimators._base._CHUNK_ROWS", 7)
    monkeypatch.setattr("skvdl.estimators._base._CHUNK_ELEMENTS", 1)
    model = make(transform_method="fista", transform_max_iter=1)
    model = (make_pipeline(StandardScaler(), model) if wrapped else model).fit(small)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.transform(small)
    (warning,) = [w for w in caught if w.category is ConvergenceWarning]
    assert Path(warning.filename) == Path(__file__)
    assert "of 60 rows" in str(warning.message)


def test_scale_is_warned_of_at_the_callers_line(small):
    with pytest.warns(UserWarning, match="standard deviation") as caught:
        make(scale=False).fit(small * 1e4)
    assert Path(caught[0].filename) == Path(__file__)


def test_there_is_no_gap_without_the_l1_norm(small):
    model = make(penalty="l1", lam=0.0, transform_max_iter=20_000).fit(small)
    with pytest.raises(ValueError, match="no duality gap for lam=0"):
        model.duality_gap(small)
    for lam in (0.01, None):
        with pytest.raises(ValueError, match=r'no duality gap for penalty="l0"; use penalty="l1"'):
            make(lam=lam).fit(small).duality_gap(small)


@BOTH
def test_feature_names_are_short(kind, small):
    names = make(kind).fit(small).get_feature_names_out()
    prefix = {VDL: "vdl", NonLinearVDL: "vdlnl"}[kind]
    assert names.tolist() == [f"{prefix}{i}" for i in range(16)]
    assert names.dtype == object


@pytest.mark.parametrize(
    ("model", "page"),
    [
        (VDL(), "skvdl.VarianceDictionaryLearning"),
        (NonLinearVDL(), "skvdl.NonLinearVDL"),
        (ImageDenoiser(), "skvdl.ImageDenoiser"),
        (GlobalScaler(), "skvdl.preprocessing.GlobalScaler"),
        (LocalContrastNormalizer((4, 4)), "skvdl.preprocessing.LocalContrastNormalizer"),
    ],
)
def test_html_links_to_the_documentation(model, page):
    assert f"https://skvdl.readthedocs.io/en/stable/generated/{page}.html" in model._repr_html_()


@BOTH
def test_weights_are_on_their_device_before_data_improve_them(kind):
    # "meta" stands for a GPU: mixing it with the CPU raises, as in tests/training
    generator, there = torch.Generator(device="cpu").manual_seed(0), torch.device("meta")
    X = torch.zeros(30, 12, device=there)
    model, index = make(kind), torch.arange(30, device=there)
    units = Units(center=False, scale=False)
    learner = model._make_learner(X, index, units, generator, there, goes_on=False)
    assert learner.device == there


@pytest.mark.parametrize("unit", [1e-25, 1.0, 1e25])
def test_score_does_not_depend_on_the_unit(small, unit):
    # an encoder that is linear in the data: no threshold, no bias
    X = small.astype(np.float32)
    model = published(lam=0.0).fit(X)
    with torch.no_grad():
        model.encoder_.b.zero_()
    assert model.score(X * np.float32(unit)) == pytest.approx(model.score(X), rel=1e-4)


@pytest.mark.parametrize("name", ["bias_decay", "hidden_layer_sizes"])
def test_arrays_without_an_axis_are_refused(name, small):
    with pytest.raises(ValueError, match=name):
        make(NonLinearVDL, **{name: np.array(2.5)}).fit(small)


LARGE = ["lam", "beta", "gamma", "variance_threshold", "weight_decay", "step_size", "transform_tol"]


@BOTH
@pytest.mark.parametrize("name", LARGE)
@pytest.mark.parametrize("regularizer", ["variance", "weight_decay"])
def test_whole_numbers_may_be_larger_than_those_of_torch(kind, name, regularizer, small):
    options = {"regularizer": regularizer, "max_iter": 1}
    models = [make(kind, **options | {name: number}) for number in (2**70, float(2**70))]
    found = []
    for model in models:
        try:
            found.append(model.fit(small).transform(small))
        except FloatingPointError as error:
            found.append(str(error))
    np.testing.assert_array_equal(*found)


@BOTH
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_a_model_larger_than_memory_is_a_clear_error(kind, method, small, monkeypatch):
    # more than can be addressed, so that nothing is allocated
    monkeypatch.setattr(kind, "_make_decoder", lambda *args: torch.empty(10**15))
    model = make(kind)
    with pytest.raises(MemoryError, match="n_components"):
        getattr(model, method)(small)
    assert not hasattr(model, "decoder_")


def test_other_errors_of_torch_stay_what_they_are(small, monkeypatch):
    monkeypatch.setattr(VDL, "_make_decoder", lambda *args: torch.ones(2) @ torch.ones(3))
    with pytest.raises(RuntimeError, match="size"):
        make().fit(small)
