"""Atoms in a grid."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from _pictures import cut, filled
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skvdl import VDL
from skvdl.plotting import (
    AtomsDisplay,
    ReconstructionDisplay,
)

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("kind", ["linear", "network", "encoder"])
def test_atoms_are_drawn_most_used_first_each_on_its_own_scale(kind, linear, network, X):
    model = network if kind == "network" else linear
    codes = model.transform(X)
    uses = [sum(code[j] != 0 for code in codes) for j in range(12)]
    order = sorted(range(12), key=lambda j: -uses[j])
    zero = model.inverse_transform(np.zeros((1, 12)))[0]
    atoms = [model.inverse_transform(np.eye(12)[j : j + 1])[0] - zero for j in range(12)]
    if kind == "encoder":
        atoms = model.encoder_.U.detach().numpy()
    options = {"kind": "encoder"} if kind == "encoder" else {}
    display = AtomsDisplay.from_estimator(model, X=X, **options)

    assert list(display.order_) == order
    assert len(display.ax_.images) == 1
    tiles = cut(filled(display.image_), 4, (8, 8))
    assert len(tiles) == 12
    for j, tile in zip(order, tiles, strict=True):
        expected = (atoms[j] / np.abs(atoms[j]).max()).reshape(8, 8)
        np.testing.assert_allclose(tile, expected, atol=1e-6)
    assert display.image_.get_clim() == (-1, 1)
    noun = "filters" if kind == "encoder" else "atoms"
    never = f" ({uses.count(0)} never used)" if 0 in uses else ""
    assert display.ax_.get_title("left") == f"12 {noun}, most used first{never}"


def test_atoms_without_data_are_sorted_by_their_norm(linear):
    display = AtomsDisplay.from_estimator(linear, n_atoms=5)
    norms = np.sqrt((linear.components_**2).sum(axis=1))
    assert list(display.order_) == sorted(range(12), key=lambda j: -norms[j])[:5]
    assert display.ax_.get_title("left") == "5 of 12 atoms, largest first"


def test_atoms_that_are_never_used_are_counted():
    display = AtomsDisplay(np.ones((4, 4)), usage=[0.0, 0.5, 0.0, 1.0]).plot()
    assert list(display.order_) == [3, 1, 0, 2]
    assert display.ax_.get_title("left") == "4 atoms, most used first (2 never used)"


def test_shared_scale_keeps_the_values_and_is_symmetric():
    atoms = np.array([[3.0, 0.0, 0.0, 1.0], [0.5, -4.0, 0.0, 0.0]])
    display = AtomsDisplay(atoms, usage=[1, 0.5]).plot(scale="shared")
    np.testing.assert_array_equal(filled(display.image_), [[3, 0, 0.5, -4], [0, 1, 0, 0]])
    assert display.image_.get_clim() == (-4, 4)


def test_atoms_of_zeros_are_drawn_as_zeros():
    display = AtomsDisplay(np.zeros((2, 4))).plot()
    np.testing.assert_array_equal(filled(display.image_), np.zeros((2, 4)))
    assert AtomsDisplay(np.zeros((2, 4))).plot(scale="shared").image_.get_clim() == (-1, 1)


def test_colour_atoms_are_symmetric_about_mid_grey():
    atoms = np.zeros((2, 2, 3, 3))
    atoms[0, 0, 0] = [2.0, -2.0, 0.0]
    atoms[1, 1, 2] = [0.0, 0.5, -1.0]
    display = AtomsDisplay(atoms.reshape(2, -1), image_shape=(2, 3, 3)).plot()
    picture = display.image_.get_array()
    expected = np.full((2, 6, 4), 0.5)
    expected[..., 3] = 1
    expected[0, 0, :3] = [1, 0, 0.5]
    expected[1, 5, :3] = [0.5, 0.75, 0]
    np.testing.assert_allclose(picture, expected)


@pytest.mark.parametrize("n_atoms", [1, 2, 3, 13, 31, 128, 300])
def test_grid_is_one_picture_with_lines_between_atoms_only(n_atoms):
    atoms = RNG.normal(size=(n_atoms, 15)) + 3
    display = AtomsDisplay(atoms, image_shape=(3, 5), usage=-np.arange(n_atoms)).plot()
    height, width = filled(display.image_).shape
    n_rows, n_columns = height // 3, width // 5
    tiles = cut(filled(display.image_), n_columns, (3, 5))
    assert (height, width) == (3 * n_rows, 5 * n_columns)
    assert n_columns * (n_rows - 1) < n_atoms <= n_columns * n_rows
    for atom, tile in zip(atoms, tiles, strict=False):
        np.testing.assert_allclose(tile.ravel(), atom / np.abs(atom).max())
    assert np.isnan(tiles[n_atoms:]).all()

    vertical, horizontal = display.ax_.collections
    x = [segment[0, 0] for segment in vertical.get_segments()]
    y = [segment[0, 1] for segment in horizontal.get_segments()]
    np.testing.assert_allclose(x, 5 * np.arange(1, n_columns) - 0.5)
    np.testing.assert_allclose(y, 3 * np.arange(1, n_rows) - 0.5)


def test_colour_grid_leaves_missing_tiles_transparent():
    display = AtomsDisplay(RNG.normal(size=(7, 12))).plot()
    tiles = cut(display.image_.get_array(), 3, (2, 2))
    assert [float(tile[..., 3].mean()) for tile in tiles] == [1] * 7 + [0] * 2


def test_grids_of_common_sizes_have_no_holes():
    for n_atoms, shape in [(32, (4, 8)), (64, (8, 8)), (128, (8, 16)), (256, (16, 16))]:
        display = AtomsDisplay(np.ones((n_atoms, 4))).plot()
        assert filled(display.image_).shape == (2 * shape[0], 2 * shape[1])


@pytest.mark.parametrize(
    ("n_features", "shape"), [(1, (1, 1)), (64, (8, 8)), (3, (1, 1, 3)), (192, (8, 8, 3))]
)
def test_square_images_are_recognised(n_features, shape):
    picture = AtomsDisplay(np.ones((1, n_features))).plot().image_.get_array()
    assert picture.shape[:2] == shape[:2]
    assert picture.ndim == len(shape)


@pytest.mark.parametrize(
    ("image_shape", "message"),
    [
        (None, r"10 features do not make a square image.*pass image_shape"),
        ((3, 3), r"image_shape=\(3, 3\) has 9 values, but an image has 10"),
        ((10,), r"must be \(height, width\)"),
        ((5, 1, 2), r"must be \(height, width\)"),
    ],
)
def test_other_shapes_have_to_be_told(image_shape, message):
    rows = RNG.normal(size=(2, 10))
    for display in (
        AtomsDisplay(rows, image_shape),
        ReconstructionDisplay(rows, rows, image_shape=image_shape),
    ):
        with pytest.raises(ValueError, match=message):
            display.plot()
    assert AtomsDisplay(rows, (2, 5)).plot().image_.get_array().shape == (4, 5)


def test_any_container_gives_the_same_order(linear, X):
    expected = AtomsDisplay.from_estimator(linear, X=X).order_
    same = clone(linear).set_params(sparse_output=True).fit(X)
    for data in (X, torch.from_numpy(X.copy())):
        np.testing.assert_array_equal(AtomsDisplay.from_estimator(same, X=data).order_, expected)
    same.set_params(sparse_output=False).set_output(transform="pandas")
    np.testing.assert_array_equal(AtomsDisplay.from_estimator(same, X=X).order_, expected)


def test_models_of_scikit_learn_have_atoms_too(X):
    pca = PCA(4).fit(X)
    display = AtomsDisplay.from_estimator(pca, scale="shared")
    tiles = cut(filled(display.image_), 2, (8, 8))
    for j, tile in zip(display.order_, tiles, strict=True):
        np.testing.assert_array_equal(tile.ravel(), pca.components_[j])
    with pytest.raises(ValueError, match="This PCA has no encoder"):
        AtomsDisplay.from_estimator(pca, kind="encoder")


@pytest.mark.parametrize("kind", ["decoder", "encoder"])
def test_model_is_found_in_a_pipeline(kind, X, digits):
    scaler, model = StandardScaler(), VDL(12, lam=0.02, max_iter=4, random_state=0)
    pipeline = make_pipeline(scaler, "passthrough", model, LogisticRegression(max_iter=2000))
    pipeline.fit(X, digits[1][:300])
    display = AtomsDisplay.from_estimator(pipeline, X=X, kind=kind)
    expected = AtomsDisplay.from_estimator(model, X=scaler.transform(X), kind=kind)
    np.testing.assert_array_equal(display.order_, expected.order_)
    np.testing.assert_array_equal(filled(display.image_), filled(expected.image_))


def test_the_last_step_with_atoms_is_drawn(X):
    pipeline = make_pipeline(PCA(16), VDL(4, max_iter=1, random_state=0)).fit(X)
    np.testing.assert_array_equal(
        AtomsDisplay.from_estimator(pipeline).atoms, pipeline[-1].components_
    )


def test_atoms_take_arguments_for_the_image(linear):
    display = AtomsDisplay.from_estimator(linear, im_kw={"cmap": "gray", "vmax": 2})
    assert display.image_.get_cmap().name == "gray"
    assert display.image_.get_clim() == (-1, 2)


def test_atoms_that_cannot_be_drawn(linear, X):
    with pytest.raises(NotFittedError):
        AtomsDisplay.from_estimator(VDL())
    bare = VDL(4, encoder=None, max_iter=1, random_state=0).fit(X)
    with pytest.raises(ValueError, match="VarianceDictionaryLearning has no encoder"):
        AtomsDisplay.from_estimator(bare, kind="encoder")
    with pytest.raises(ValueError, match="kind='both' must be"):
        AtomsDisplay.from_estimator(linear, kind="both")
    with pytest.raises(ValueError, match="scale='row' must be"):
        AtomsDisplay.from_estimator(linear, scale="row")
    with pytest.raises(ValueError, match="n_atoms=0 must be at least 1"):
        AtomsDisplay.from_estimator(linear, n_atoms=0)
    with pytest.raises(ValueError, match="usage has 3 numbers for 4 atoms"):
        AtomsDisplay(np.eye(4), usage=[1, 2, 3]).plot()
    for other in (StandardScaler().fit(X), make_pipeline(StandardScaler()).fit(X)):
        with pytest.raises(TypeError, match=f"{type(other).__name__} has no atoms"):
            AtomsDisplay.from_estimator(other)
    with pytest.raises(ValueError, match="VarianceDictionaryLearning has no encoder"):
        AtomsDisplay.from_estimator(make_pipeline(StandardScaler(), bare), kind="encoder")
    assert not plt.get_fignums()
