"""Models in files: what is loaded is what was saved, and damaged or hostile files are refused."""

import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.decomposition import PCA

import skvdl
from skvdl import ImageDenoiser, NonLinearVDL, VarianceDictionaryLearning
from skvdl.training import read_tree, write_tree

OLD_FILES = Path(__file__).with_name("data")
X = np.random.default_rng(0).normal(size=(300, 7)).astype(np.float32)
HOW = {"n_components": 5, "batch_size": 50, "max_iter": 2, "random_state": 0, "warm_start": True}
MODELS = {
    "default": VarianceDictionaryLearning(**HOW),
    "hinge": VarianceDictionaryLearning(
        regularizer="variance", penalty="l1", lam=np.float32(0.1), bias_decay=np.zeros(2), **HOW
    ),
    "signed": VarianceDictionaryLearning(positive_code=False, center=False, **HOW),
    "no encoder": VarianceDictionaryLearning(encoder=None, scale=False, **HOW),
    "network": NonLinearVDL(hidden_layer_sizes=6, **HOW),
    "deep": NonLinearVDL(hidden_layer_sizes=(6, np.int64(4)), early_stopping=True, **HOW),
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


def saved_and_loaded(estimator, path):
    estimator.save(path)
    return skvdl.load(path)


def assert_same(a, b, data=X):
    for method in ("encoder", "fista"):
        codes = [clone_with(x, transform_method=method).transform(data) for x in (a, b)]
        assert np.array_equal(*codes)
    assert np.array_equal(a.inverse_transform(codes[0]), b.inverse_transform(codes[0]))
    assert a.history_ == b.history_
    for name in ("lam_", "n_iter_", "n_steps_", "scale_", "n_features_in_", "device_"):
        assert getattr(a, name) == getattr(b, name)
    assert vars(a).keys() == vars(b).keys()


def clone_with(estimator, **changes):
    return pickle.loads(pickle.dumps(estimator)).set_params(**changes)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", MODELS)
def test_training_goes_on_after_loading(path, name, dtype):
    data = X.astype(dtype)
    estimator = clone(MODELS[name]).fit(data)
    again = saved_and_loaded(estimator, path)
    assert type(again) is type(estimator)
    assert_same(again, estimator, data)
    for x in (again, estimator):
        x.partial_fit(data[:60]).partial_fit(data[60:120])
    assert_same(again, estimator, data)
    for x in (again, estimator):
        x.fit(data)
    assert_same(saved_and_loaded(again, path), estimator, data)


def test_a_stream_goes_on_after_loading(path):
    estimator = VarianceDictionaryLearning(5, random_state=0)
    again = estimator
    for rows in np.split(X, 6):
        estimator = estimator.partial_fit(rows)
        again = saved_and_loaded(again, path) if again is not estimator else estimator
        again = clone_with(estimator) if again is estimator else again.partial_fit(rows)
    assert_same(again, estimator)


def test_parameters_and_names(path):
    frame = pd.DataFrame(X, columns=[f"feature {i}" for i in range(7)])
    estimator = clone(MODELS["default"]).set_output(transform="pandas").fit(frame)
    # changed after fit: the model stays what it was
    estimator.set_params(n_components=99, lam=0.5, checkpoint=path.parent, tol=np.float64(1))
    again = saved_and_loaded(estimator, path)
    parameters = estimator.get_params()
    assert again.get_params() == parameters | {"checkpoint": str(path.parent)}
    assert again.feature_names_in_.tolist() == frame.columns.tolist()
    assert again.feature_names_in_.dtype == object
    assert again.transform(frame).equals(estimator.transform(frame))
    with pytest.raises(ValueError, match="feature names"):
        again.transform(frame.rename(columns={"feature 0": "other"}))


def test_before_fit(path):
    estimator = NonLinearVDL(hidden_layer_sizes=(3, 4), tol=1e-7)
    again = saved_and_loaded(estimator, path)
    assert again.get_params() == estimator.get_params()
    assert not again.__sklearn_is_fitted__()


def test_a_generator_goes_on_after_loading(path):
    random = np.random.RandomState(5)
    random.normal(size=3)
    estimator = clone(MODELS["default"]).set_params(random_state=random).fit(X)
    again = saved_and_loaded(estimator, path)
    assert np.array_equal(again.fit(X).components_, estimator.fit(X).components_)


def test_loading_shares_nothing_with_the_file(path):
    estimator = clone(MODELS["default"]).fit(X)
    again = saved_and_loaded(estimator, path)
    before = path.read_bytes()
    again.partial_fit(X)
    assert path.read_bytes() == before


@pytest.mark.parametrize("estimator", [None, VarianceDictionaryLearning(8, max_iter=2)])
def test_denoiser(path, estimator):
    image = np.random.default_rng(0).normal(100, 20, size=(24, 24))
    how = {"max_patches": 200, "patch_size": 4, "sigma": 20, "random_state": 0}
    denoiser = ImageDenoiser(estimator, **how).fit(image)
    again = saved_and_loaded(denoiser, path)
    assert np.array_equal(again.transform(image), denoiser.transform(image))
    assert str(again.get_params()) == str(denoiser.get_params())
    assert np.array_equal(again.fit(image).transform(image), denoiser.transform(image)) == (
        estimator is None
    )


def test_every_changed_byte_is_an_error(path):
    VarianceDictionaryLearning(1, max_iter=1, random_state=0).fit(X[:20, :2]).save(path)
    data = path.read_bytes()
    # read_tree, whose test changes every single byte, is all that load has against this
    for place in [*range(200), *range(200, len(data), 11), len(data) - 1]:
        changed = bytearray(data)
        changed[place] ^= 1 << place % 8
        path.write_bytes(changed)
        with pytest.raises(ValueError, match=r"model\.safetensors"):
            skvdl.load(path)


def test_missing_files_and_checkpoints(path):
    with pytest.raises(FileNotFoundError):
        skvdl.load(path)
    write_tree(path, {}, kind="checkpoint")
    with pytest.raises(ValueError, match="is a checkpoint, not a model"):
        skvdl.load(path)


class Trap:
    """Says so when it is unpickled."""

    def __reduce__(self):
        return pytest.fail, ("code was run",)


def test_pickles_are_not_opened(path):
    path.write_bytes(pickle.dumps(Trap()))
    with pytest.raises(ValueError, match="not a file of skvdl"):
        skvdl.load(path)
    torch.save({"a": Trap()}, path)
    with pytest.raises(ValueError, match="not a file of skvdl"):
        skvdl.load(path)


def hostile(change):
    """Return a tree of a model with something wrong, whose checksum will be right."""
    tree = {}

    def build(path):
        clone(MODELS["default"]).fit(X).save(path)
        tree.update(read_tree(path, kind="model"))
        change(tree["estimator"])
        return tree

    return build


def put(*keys, value):
    def change(tree):
        for key in keys[:-1]:
            tree = tree[key]
        tree[keys[-1]] = value

    return change


STATE = ("fitted", "learner", "state")


@pytest.mark.parametrize(
    "change",
    [
        put("class", value="PCA"),
        put("class", value="os.system"),
        put("class", value="NonLinearVDL"),
        put("class", value=["VarianceDictionaryLearning"]),
        put("parameters", "n_components", value=-1),
        put("parameters", "unheard_of", value=1),
        put("parameters", "lam", value={"call": "f"}),
        put("parameters", "random_state", value={"random_state": {}}),
        put("output", value="nonsense"),
        put("fitted", "feature_names", value=["too", "few"]),
        put("fitted", "learner", "training", "unheard_of", value=1),
        put("fitted", "learner", "state", value={}),
        put(*STATE, "decoder", "weight", value=torch.ones(3, 3, dtype=torch.int64)),
        put(*STATE, "decoder", "weight", value=torch.ones(7, 4)),
        # would need memory far beyond what the file has
        put(*STATE, "decoder", "weight", value=torch.ones(0, 10**9)),
        put(*STATE, "encoder", "S", value=torch.ones(5)),
        put(*STATE, "online", "gram", value=torch.ones(5)),
        put("fitted", value=3),
    ],
)
def test_hostile_files_are_refused(path, change):
    write_tree(path, hostile(change)(path), kind="model")
    with pytest.raises(ValueError, match="cannot be read by skvdl"):
        skvdl.load(path)


def test_files_of_newer_versions_say_so(path):
    tree = hostile(put("parameters", "of_the_future", value=1))(path)
    write_tree(path, tree | {"version": "99.0"}, kind="model")
    with pytest.raises(ValueError, match=r"written by skvdl 99\.0.*of_the_future"):
        skvdl.load(path)


def test_a_device_that_is_missing(path):
    tree = hostile(put("fitted", "device", value="cuda:0"))(path)
    write_tree(path, tree, kind="model")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("skvdl.estimators._base.available_devices", lambda: ["cpu"])
        assert skvdl.load(path).device_ == "cpu"


def test_files_of_earlier_versions_are_read():
    """Files in `data` stay as they are after a release; `make_old_file` has made them."""
    files = sorted(OLD_FILES.glob("*.safetensors"))
    assert len(files) == 2
    for path in files:
        estimator = skvdl.load(path)
        expected = np.load(path.with_suffix(".npz"))
        found = estimator.transform(expected["X"])
        np.testing.assert_allclose(found, expected["codes"], rtol=1e-4, atol=1e-5)
        reconstructed = estimator.inverse_transform(expected["codes"])
        np.testing.assert_allclose(reconstructed, expected["X_hat"], rtol=1e-4, atol=1e-5)
        estimator.partial_fit(expected["X"])


def make_old_file(estimator, path):
    """Write a file, and next to it what its model computes."""
    estimator.fit(X[:60, :4]).save(path)
    codes = estimator.transform(X[:20, :4])
    X_hat = estimator.inverse_transform(codes)
    np.savez(path.with_suffix(".npz"), X=X[:20, :4], codes=codes, X_hat=X_hat)


class Subclass(VarianceDictionaryLearning):
    """A class that `load` could not know."""


def test_what_cannot_be_saved(path):
    with pytest.raises(TypeError, match="A Subclass cannot be saved"):
        Subclass().save(path)
    with pytest.raises(TypeError, match="parameter estimator: A PCA cannot be saved"):
        ImageDenoiser(PCA()).save(path)
    with pytest.raises(TypeError, match="parameter lam: a function has no place"):
        VarianceDictionaryLearning(lam=put).save(path)
    assert not path.exists()
