"""What the displays draw, read back from the artists."""

import doctest
import subprocess
import sys
from itertools import pairwise

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skvdl._curve_displays
import skvdl._image_displays
from skvdl import VDL, NonLinearVDL
from skvdl.metrics import psnr_scorer, sparsity_scorer
from skvdl.plotting import (
    AtomsDisplay,
    ReconstructionDisplay,
    TradeOffDisplay,
    TrainingCurveDisplay,
)

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def no_warning_and_no_figure_left(recwarn):
    yield
    plt.close("all")
    assert [str(w.message) for w in recwarn] == []


@pytest.fixture(scope="module")
def X(digits):
    X = digits[0][:300]
    return (X - X.mean()) / X.std()


@pytest.fixture(scope="module")
def linear(X):
    return VDL(12, lam=0.02, max_iter=4, early_stopping=True, random_state=0).fit(X)


@pytest.fixture(scope="module")
def network(X):
    return NonLinearVDL(12, hidden_layer_sizes=(16,), max_iter=4, random_state=0).fit(X)


def cut(picture, n_columns, shape):
    """Tiles of a picture without gaps, by a plain loop."""
    height, width = shape[:2]
    n_rows = picture.shape[0] // height
    return [
        picture[i * height : (i + 1) * height, j * width : (j + 1) * width]
        for i in range(n_rows)
        for j in range(n_columns)
    ]


def rendered(display):
    """Pixels of the figure."""
    display.figure_.canvas.draw()
    return np.asarray(display.figure_.canvas.buffer_rgba())[..., :3]


def filled(image):
    """Drawn values, NaN where nothing is drawn."""
    return np.ma.filled(image.get_array(), np.nan)


# --- all displays --------------------------------------------------------------------------


def test_import_leaves_matplotlib_alone():
    code = "import sys, skvdl.plotting; print('matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize(
    ("draw", "caller"),
    [
        (lambda: AtomsDisplay.from_estimator(VDL()), "AtomsDisplay.from_estimator"),
        (lambda: AtomsDisplay(np.eye(4)).plot(), "AtomsDisplay.plot"),
        (
            lambda: ReconstructionDisplay.from_estimator(VDL(), np.eye(4)),
            "ReconstructionDisplay.from_estimator",
        ),
        (
            lambda: ReconstructionDisplay.from_predictions(np.eye(4), np.eye(4)),
            "ReconstructionDisplay.from_predictions",
        ),
        (lambda: TradeOffDisplay.from_estimators({}, np.eye(4)), "TradeOffDisplay"),
        (lambda: TradeOffDisplay.from_grid_search(None), "TradeOffDisplay"),
        (lambda: TradeOffDisplay.from_predictions([0.1], [20]), "TradeOffDisplay"),
        (lambda: TrainingCurveDisplay.from_estimator(VDL()), "TrainingCurveDisplay"),
        (lambda: TrainingCurveDisplay({}).plot(), "TrainingCurveDisplay.plot"),
    ],
)
def test_missing_matplotlib_is_said_before_anything_else(draw, caller, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=f"{caller}.*requires matplotlib"):
        draw()


def test_constructors_only_store():
    things = [object() for _ in range(5)]
    for display, names in [
        (AtomsDisplay(*things[:3], kind=things[3]), "atoms image_shape usage kind"),
        (
            ReconstructionDisplay(
                *things[:2], noisy=things[2], image_shape=things[3], data_range=things[4]
            ),
            "X reconstruction noisy image_shape data_range",
        ),
        (
            TradeOffDisplay(*things[:2], labels=things[2], names=things[3]),
            "sparsity psnr labels names",
        ),
        (TrainingCurveDisplay(things[0], weights=things[1]), "history weights"),
    ]:
        assert vars(display) == dict(zip(names.split(), things, strict=False))
    assert not plt.get_fignums()


def test_one_axes_given_is_the_one_used(linear, X):
    draws = [
        lambda ax: AtomsDisplay.from_estimator(linear, ax=ax),
        lambda ax: ReconstructionDisplay.from_estimator(linear, X, ax=ax),
        lambda ax: ReconstructionDisplay.from_predictions(X, X + 0.1, ax=ax),
        lambda ax: TradeOffDisplay.from_estimators({"a": linear}, X, ax=ax),
        lambda ax: TradeOffDisplay.from_predictions([0.5], [20.0], ax=ax),
        lambda ax: TrainingCurveDisplay.from_estimator(linear, ax=ax),
    ]
    figure, axes = plt.subplots(1, len(draws))
    for draw, ax in zip(draws, axes, strict=True):
        display = draw(ax)
        assert display.ax_ is ax
        assert display.figure_ is figure
    assert len(plt.get_fignums()) == 1


def test_plot_returns_the_display_with_a_figure_of_its_own(linear, X):
    for display in (
        AtomsDisplay.from_estimator(linear),
        ReconstructionDisplay.from_estimator(linear, X),
        TradeOffDisplay.from_estimators({"a": linear}, X),
        TrainingCurveDisplay.from_estimator(linear),
    ):
        first = display.figure_
        assert display.plot() is display
        assert display.figure_ is not first
        assert display.ax_.figure is display.figure_
        assert rendered(display).std() > 0


@pytest.mark.parametrize("module", [skvdl._image_displays, skvdl._curve_displays])
def test_examples_run(module):
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0


# --- atoms ---------------------------------------------------------------------------------


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
        (None, r"10 features make no square image.*pass image_shape"),
        ((3, 3), r"image_shape=\(3, 3\) has 9 values, but an image 10"),
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
    same = VDL(12, lam=0.02, max_iter=4, early_stopping=True, random_state=0, sparse_output=True)
    same.fit(X)
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
    with pytest.raises(TypeError, match="A Pipeline has no atoms; pass the fitted model"):
        AtomsDisplay.from_estimator(make_pipeline(StandardScaler(), bare))
    assert not plt.get_fignums()


# --- reconstructions -----------------------------------------------------------------------


def plain_psnr(x, y, data_range):
    return 10 * np.log10(data_range**2 / np.mean((x - y) ** 2))


def strip_tiles(image, n, width, gap=1):
    picture = filled(image)
    return [picture[:, i * (width + gap) : i * (width + gap) + width] for i in range(n)]


def test_reconstructions_below_noisy_below_clean_images(linear, X):
    noisy = X + 0.5 * RNG.normal(size=X.shape)
    rebuilt = linear.inverse_transform(linear.transform(noisy))
    display = ReconstructionDisplay.from_estimator(linear, X, noisy=noisy, n_images=5)
    assert [t.get_text() for t in display.ax_.get_yticklabels()] == [
        "input",
        "noisy",
        "reconstruction",
    ]
    for image, rows in zip(display.images_, (X, noisy, rebuilt), strict=True):
        for tile, row in zip(strip_tiles(image, 5, 8), rows, strict=False):
            np.testing.assert_allclose(tile, row.reshape(8, 8), rtol=1e-6)
        assert image.get_clim() == (X[:5].min(), X[:5].max())
    bottoms = [image.get_extent()[2] for image in display.images_]
    tops = [image.get_extent()[3] for image in display.images_]
    assert tops[0] < bottoms[0] < tops[1] < bottoms[1] < tops[2] < bottoms[2]
    assert display.ax_.get_ylim() == (bottoms[2], tops[0])

    data_range = X.max() - X.min()
    texts = iter(display.ax_.texts)
    for row, (name, images) in enumerate({"noisy": noisy, "reconstruction": rebuilt}.items()):
        for i in range(5):
            value = plain_psnr(X[i], images[i], data_range)
            text = next(texts)
            assert display.psnr_[name][i] == pytest.approx(value)
            assert text.get_text() == f"{value:.1f} dB"
            assert text.get_position()[0] == 9 * i + 4
            assert bottoms[row] < text.get_position()[1] < tops[row + 1]
    assert next(texts, None) is None


def test_without_noise_there_are_two_rows(network, X):
    display = ReconstructionDisplay.from_estimator(network, X)
    assert len(display.images_) == 2
    assert list(display.psnr_) == ["reconstruction"]
    rebuilt = network.inverse_transform(network.transform(X))
    for tile, row in zip(strip_tiles(display.images_[1], 8, 8), rebuilt, strict=False):
        np.testing.assert_allclose(tile, row.reshape(8, 8), rtol=1e-6)


def test_range_is_that_of_all_images_or_as_told():
    X = np.array([[0.0, 0.5, 0.5, 0.0], [0.0, 0.0, 0.0, 4.0]])
    display = ReconstructionDisplay.from_predictions(X, X + 0.1, n_images=1)
    assert display.psnr_["reconstruction"] == pytest.approx([20 * np.log10(40)])
    display = ReconstructionDisplay.from_predictions(X, X + 0.1, data_range=1.0)
    assert display.psnr_["reconstruction"] == pytest.approx([20, 20])
    assert ReconstructionDisplay(X, X + 0.4).plot().psnr_["reconstruction"][0] == pytest.approx(20)
    constant = ReconstructionDisplay.from_predictions(
        np.ones((1, 4)), np.ones((1, 4)), data_range=2
    )
    assert constant.images_[0].get_clim() == (1, 3)
    assert constant.ax_.texts[0].get_text() == "inf dB"


def test_stacks_of_colour_images_keep_their_shape_and_are_clipped(caplog):
    X = RNG.integers(0, 256, size=(3, 4, 6, 3)).astype(np.uint8)
    X[0, 0, 0], X[0, 0, 1] = 0, 255
    rebuilt = X + 10.0
    display = ReconstructionDisplay.from_predictions(X, rebuilt)
    clean, drawn = (image.get_array() for image in display.images_)
    assert clean.shape == (4, 3 * 6 + 2, 4)
    for i in range(3):
        here = np.s_[:, 7 * i : 7 * i + 6]
        np.testing.assert_allclose(clean[here][..., :3], X[i] / 255)
        np.testing.assert_allclose(drawn[here][..., :3], np.minimum(rebuilt[i] / 255, 1))
    np.testing.assert_array_equal(clean[0, :, 3], ([1] * 6 + [0]) * 2 + [1] * 6)
    assert display.psnr_["reconstruction"] == pytest.approx([20 * np.log10(25.5)] * 3)
    # matplotlib would log a complaint about colours out of range
    assert not caplog.records


def test_frames_and_tensors_are_taken(X):
    frame = pd.DataFrame(X, columns=[f"pixel{i}" for i in range(64)])
    model = VDL(4, max_iter=1, random_state=0).fit(frame)
    expected = ReconstructionDisplay.from_estimator(model, frame, noisy=frame + 1).psnr_
    model = VDL(4, max_iter=1, random_state=0).fit(X)
    tensor = torch.from_numpy(X.copy()).requires_grad_()
    found = ReconstructionDisplay.from_estimator(model, tensor, noisy=tensor + 1).psnr_
    for name in ("noisy", "reconstruction"):
        np.testing.assert_allclose(found[name], expected[name])


def test_pipelines_reconstruct(X):
    pipeline = make_pipeline(StandardScaler(with_std=False), PCA(20)).fit(X)
    display = ReconstructionDisplay.from_estimator(pipeline, X, n_images=2)
    rebuilt = pipeline.inverse_transform(pipeline.transform(X[:2]))
    np.testing.assert_allclose(display.reconstruction, rebuilt)


def test_small_axes_get_small_captions(linear, X):
    figure, (wide, narrow) = plt.subplots(1, 2, width_ratios=[3, 1], figsize=(8, 4))
    sizes = [
        ReconstructionDisplay.from_estimator(linear, X, ax=ax).ax_.texts[0].get_fontsize()
        for ax in (wide, narrow)
    ]
    assert sizes[1] < sizes[0] <= 7
    figure.canvas.draw()
    for ax in (wide, narrow):
        boxes = [text.get_window_extent() for text in ax.texts]
        assert all(a.x1 < b.x0 for a, b in pairwise(boxes))


def test_nothing_of_a_new_figure_is_cut_off(linear, X):
    for n_images in (1, 8, 20):
        display = ReconstructionDisplay.from_estimator(linear, X, noisy=X + 1, n_images=n_images)
        display.figure_.canvas.draw()
        box = display.figure_.get_tightbbox()
        width, height = display.figure_.get_size_inches()
        assert 0 <= box.x0 < box.x1 <= width
        assert 0 <= box.y0 < box.y1 <= height


def test_reconstructions_that_cannot_be_drawn(linear, X):
    with pytest.raises(NotFittedError):
        ReconstructionDisplay.from_estimator(VDL(), X)
    with pytest.raises(ValueError, match=r"reconstruction has shape \(3, 64\), but X \(8, 64\)"):
        ReconstructionDisplay.from_predictions(X, X[:3])
    with pytest.raises(ValueError, match=r"noisy has shape \(2, 64\), but X \(8, 64\)"):
        ReconstructionDisplay.from_predictions(X, X, noisy=X[:2])
    with pytest.raises(ValueError, match=r"range of the data is 0.*pass data_range"):
        ReconstructionDisplay.from_predictions(np.ones((2, 4)), np.ones((2, 4)))
    for draw in (
        lambda: ReconstructionDisplay.from_predictions(X, X, n_images=0),
        lambda: ReconstructionDisplay.from_estimator(linear, X, n_images=0),
    ):
        with pytest.raises(ValueError, match="n_images=0 must be at least 1"):
            draw()
    assert not plt.get_fignums()


# --- trade-off -----------------------------------------------------------------------------


def drawn(curve):
    """Points of a curve, and half lengths of its bars along x and y."""
    line, _, bars = curve.lines
    segments = [np.array(bar.get_segments()) for bar in bars]
    halves = [np.ptp(s, axis=1)[:, i] / 2 for i, s in enumerate(segments)]
    return line.get_xdata(), line.get_ydata(), halves


def test_models_are_measured_and_joined_by_sparsity(X):
    models = [VDL(8, lam=lam, max_iter=3, random_state=0).fit(X) for lam in (0.1, 0.001, 0.02)]
    display = TradeOffDisplay.from_estimators({"curve": models, "one": models[0]}, X)
    expected = []
    for model in models:
        codes = model.transform(X)
        rebuilt = model.inverse_transform(codes)
        ratios = [plain_psnr(x, y, np.ptp(X)) for x, y in zip(X, rebuilt, strict=True)]
        expected.append((np.mean(codes == 0), np.mean(ratios)))
    x, y, bars = drawn(display.curves_["curve"])
    np.testing.assert_allclose(np.transpose([x, y]), sorted(expected))
    assert bars == []
    x, y, _ = drawn(display.curves_["one"])
    np.testing.assert_allclose([*x, *y], expected[0])
    texts = [t.get_text() for t in display.ax_.get_legend().get_texts()]
    assert texts == ["curve", "one"]
    assert display.ax_.get_xlabel() == "zeros in the codes"
    assert display.ax_.get_ylabel() == "PSNR (dB)"


def test_range_of_the_data_moves_the_psnr(linear, X):
    heights = [
        drawn(TradeOffDisplay.from_estimators({"a": linear}, X, data_range=r).curves_["a"])[1]
        for r in (1.0, 10.0)
    ]
    assert heights[1] - heights[0] == pytest.approx(20)


def test_seeds_become_a_mean_with_bars(X):
    seeds = [VDL(8, max_iter=1, init="random", random_state=s).fit(X) for s in range(3)]
    one = VDL(8, lam=0.1, max_iter=1, random_state=0).fit(X)
    display = TradeOffDisplay.from_estimators({"a": [seeds, one]}, X)
    points = [(sparsity_scorer(m, X), psnr_scorer(m, X)) for m in [*seeds, one]]
    first = 0 if np.mean(points[:3], axis=0)[0] < points[3][0] else 1
    x, y, (x_bars, y_bars) = drawn(display.curves_["a"])
    np.testing.assert_allclose([x[first], y[first]], np.mean(points[:3], axis=0))
    np.testing.assert_allclose([x[1 - first], y[1 - first]], points[3])
    np.testing.assert_allclose([x_bars[first], y_bars[first]], np.std(points[:3], axis=0))
    np.testing.assert_allclose([x_bars[1 - first], y_bars[1 - first]], 0, atol=1e-12)


@pytest.fixture(scope="module")
def search(X):
    return GridSearchCV(
        make_pipeline(StandardScaler(with_std=False), VDL(8, max_iter=2, random_state=0)),
        {
            "variancedictionarylearning__lam": [0.001, 0.05],
            "variancedictionarylearning__beta": [1, 10],
        },
        scoring={"zeros": sparsity_scorer, "quality": psnr_scorer},
        refit=False,
        cv=3,
    ).fit(X)


def test_search_is_drawn_a_curve_for_each_setting_of_the_other_parameters(search):
    display = TradeOffDisplay.from_grid_search(search, sparsity="zeros", psnr="quality")
    results = search.cv_results_
    assert list(display.curves_) == ["beta=1", "beta=10"]
    for label, curve in display.curves_.items():
        beta = int(label.removeprefix("beta="))
        chosen = [
            i
            for i, params in enumerate(results["params"])
            if params["variancedictionarylearning__beta"] == beta
        ]
        chosen.sort(key=lambda i: results["mean_test_zeros"][i])
        x, y, (x_bars, y_bars) = drawn(curve)
        np.testing.assert_allclose(x, results["mean_test_zeros"][chosen])
        np.testing.assert_allclose(y, results["mean_test_quality"][chosen])
        np.testing.assert_allclose(x_bars, results["std_test_zeros"][chosen])
        np.testing.assert_allclose(y_bars, results["std_test_quality"][chosen])
    # each value once, at the uppermost of its points
    tops = {}
    for params, x, y in zip(
        results["params"], results["mean_test_zeros"], results["mean_test_quality"], strict=True
    ):
        name = f"lam={params['variancedictionarylearning__lam']}"
        tops[name] = max(tops.get(name, (x, y)), (x, y), key=lambda point: point[1])
    texts = {text.get_text(): text.xy for text in display.ax_.texts}
    assert texts.keys() == tops.keys()
    assert len(display.ax_.texts) == 2
    for name, where in texts.items():
        np.testing.assert_allclose(where, tops[name])


def test_search_along_another_parameter(search):
    display = TradeOffDisplay.from_grid_search(
        search, along="beta", sparsity="zeros", psnr="quality"
    )
    assert list(display.curves_) == ["lam=0.001", "lam=0.05"]
    assert {text.get_text() for text in display.ax_.texts} == {"beta=1", "beta=10"}


def test_search_over_one_parameter_is_one_curve_without_legend(X):
    search = GridSearchCV(
        VDL(4, max_iter=1, random_state=0),
        {"lam": [0.001, 0.05]},
        scoring={"sparsity": sparsity_scorer, "psnr": psnr_scorer},
        refit="psnr",
        cv=2,
    ).fit(X)
    display = TradeOffDisplay.from_grid_search(search)
    assert list(display.curves_) == ["VarianceDictionaryLearning"]
    assert display.ax_.get_legend() is None


def test_search_without_the_scores_says_how_to_get_them(search, X):
    with pytest.raises(ValueError, match=r"'sparsity' or 'psnr', only 'zeros', 'quality'.*scoring"):
        TradeOffDisplay.from_grid_search(search)
    single = GridSearchCV(VDL(4, max_iter=1), {"lam": [0.01]}, cv=2, refit=False).fit(X)
    with pytest.raises(ValueError, match=r"only 'score'. Search with scoring={'sparsity'"):
        TradeOffDisplay.from_grid_search(single)
    with pytest.raises(ValueError, match=r"did not vary 'gamma'; pass as along one of \['vari"):
        TradeOffDisplay.from_grid_search(search, along="gamma", sparsity="zeros", psnr="quality")
    with pytest.raises(NotFittedError):
        TradeOffDisplay.from_grid_search(GridSearchCV(VDL(), {"lam": [1]}))
    assert not plt.get_fignums()


def test_numbers_are_drawn_as_given():
    display = TradeOffDisplay.from_predictions(
        [0.9, 0.1, 0.5], [10, 30, 20], labels=["b", "a", "b"], names=["p", "q", "r"]
    )
    assert list(display.curves_) == ["b", "a"]
    x, y, _ = drawn(display.curves_["b"])
    assert (list(x), list(y)) == ([0.5, 0.9], [20, 10])
    assert {t.get_text(): tuple(t.xy) for t in display.ax_.texts} == {
        "p": (0.9, 10),
        "q": (0.1, 30),
        "r": (0.5, 20),
    }
    display.figure_.canvas.draw()
    ticks = [t.get_text() for t in display.ax_.get_xticklabels()]
    assert "50%" in ticks or "40%" in ticks
    curves = [curve.lines[0] for curve in display.curves_.values()]
    assert curves[0].get_color() != curves[1].get_color()
    assert curves[0].get_marker() != curves[1].get_marker()


def test_what_was_not_measured_is_left_out():
    zeros = [[0.1, 0.3, 0.9], [np.nan, np.nan, np.nan], [0.5, 0.5, np.nan]]
    quality = [[20, 22, np.nan], [10, 10, 10], [10, 14, 3]]
    x, y, (x_bars, y_bars) = drawn(TradeOffDisplay(zeros, quality).plot().curves_[""])
    np.testing.assert_allclose(x, [0.2, 0.5])
    np.testing.assert_allclose(y, [21, 12])
    np.testing.assert_allclose(x_bars, [0.1, 0], atol=1e-12)
    np.testing.assert_allclose(y_bars, [1, 2])
    display = TradeOffDisplay([0.1, np.nan], [20, 10], labels=["a", "b"]).plot()
    assert list(display.curves_) == ["a"]


def test_trade_offs_that_cannot_be_drawn(linear, X):
    with pytest.raises(NotFittedError):
        TradeOffDisplay.from_estimators({"a": VDL()}, X)
    with pytest.raises(TypeError, match="must be a dict"):
        TradeOffDisplay.from_estimators([linear], X)
    for empty in ({}, {"a": []}, {"a": [linear, []]}):
        with pytest.raises(ValueError, match="no model to draw"):
            TradeOffDisplay.from_estimators(empty, X)
    with pytest.raises(ValueError, match="must have the same shape"):
        TradeOffDisplay.from_predictions([0.1, 0.2], [20.0])
    with pytest.raises(ValueError, match=r"must have the same shape, \(n_points,\)"):
        TradeOffDisplay.from_predictions(0.1, 20.0)
    with pytest.raises(ValueError, match="2 points, 1 labels and 2 names"):
        TradeOffDisplay.from_predictions([0.1, 0.2], [20.0, 10.0], labels=["a"])
    with pytest.raises(ValueError, match="no point with a finite"):
        TradeOffDisplay.from_predictions([np.nan], [20.0])
    assert not plt.get_fignums()


# --- training ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["linear", "network"])
def test_weighted_terms_add_up_to_the_energy(kind, linear, network):
    model = linear if kind == "linear" else network
    display = TrainingCurveDisplay.from_estimator(model)
    history, lines = model.history_, display.lines_
    factors = {"l1": model.lam, "hinge": model.beta, "proximity": model.gamma}
    for name, line in lines.items():
        assert list(line.get_xdata()) == [1, 2, 3, 4]
        expected = factors.get(name, 1) * np.array(history[name])
        np.testing.assert_allclose(line.get_ydata(), expected)
    terms = [lines[name].get_ydata() for name in ("reconstruction", "l1", "hinge", "proximity")]
    np.testing.assert_allclose(np.sum(terms, axis=0), lines["energy"].get_ydata(), rtol=1e-6)

    energy, weighted, zeros, dead = display.axes_.ravel()
    assert [ax.get_title("left") for ax in (energy, weighted, zeros, dead)] == [
        "energy",
        "its terms, weighted",
        "zeros in the codes",
        "dead components",
    ]
    assert lines["energy"].axes is energy
    assert {line.axes for line in lines.values()} == {energy, weighted, zeros, dead}
    assert all(lines[name].axes is weighted for name in ("reconstruction", *factors))
    assert lines["sparsity"].axes is zeros
    assert lines["dead"].axes is dead
    assert ("validation" in lines) == (kind == "linear")
    if kind == "linear":
        assert lines["validation"].axes is energy
    assert energy.get_yscale() == weighted.get_yscale() == "log"
    assert dead.get_ylim()[0] == 0


def test_weights_are_those_of_training(X):
    model = VDL(4, lam=0.02, max_iter=2, random_state=0).fit(X)
    model.set_params(lam=1.0, beta=0.0, gamma=7.0)
    lines = TrainingCurveDisplay.from_estimator(model).lines_
    np.testing.assert_allclose(lines["l1"].get_ydata(), 0.02 * np.array(model.history_["l1"]))
    assert "hinge" in lines


@pytest.mark.parametrize(
    ("params", "missing"), [({"regularizer": None}, "hinge"), ({"encoder": None}, "proximity")]
)
def test_terms_of_no_weight_are_left_out(params, missing, X):
    model = VDL(4, max_iter=2, random_state=0, **params).fit(X)
    display = TrainingCurveDisplay.from_estimator(model)
    assert missing not in display.lines_
    assert len(display.axes_[0, 1].get_legend().get_texts()) == 3
    bare = TrainingCurveDisplay(model.history_).plot()
    np.testing.assert_array_equal(bare.lines_["l1"].get_ydata(), model.history_["l1"])
    assert missing in bare.lines_
    assert bare.axes_[0, 1].get_title("left") == "its terms"


def test_panels_share_their_epochs_and_count_whole_ones(network):
    display = TrainingCurveDisplay.from_estimator(network)
    panels = display.axes_.ravel()
    panels[0].set_xlim(0, 3)
    assert all(panel.get_xlim() == (0, 3) for panel in panels)
    display.figure_.canvas.draw()
    for axis in (panels[3].xaxis, panels[3].yaxis):
        assert all(tick == round(tick) for tick in axis.get_ticklocs())
    assert [panel.get_xlabel() for panel in panels] == ["", "", "epoch", "epoch"]


def test_one_axes_is_divided_into_panels(network):
    figure, axes = plt.subplots(1, 2)
    display = TrainingCurveDisplay.from_estimator(network, ax=axes[1])
    assert not axes[1].axison
    assert display.axes_.shape == (2, 2)
    assert len(figure.axes) == 6
    bounds = axes[1].get_position(original=True)
    for panel in display.axes_.ravel():
        box = panel.get_position()
        assert bounds.x0 - 1e-9 <= box.x0 < box.x1 <= bounds.x1 + 1e-9
    with pytest.raises(ValueError, match=r"already was.*pass four axes, like display.axes_"):
        TrainingCurveDisplay.from_estimator(network, ax=axes[1])
    with pytest.raises(ValueError, match="not part of a grid"):
        TrainingCurveDisplay.from_estimator(network, ax=figure.add_axes((0, 0, 0.1, 0.1)))


def test_four_axes_are_the_panels(network):
    figure, axes = plt.subplots(1, 4)
    display = TrainingCurveDisplay.from_estimator(network, ax=axes)
    assert display.ax_ is None
    assert display.figure_ is figure
    assert list(display.axes_) == list(axes)
    assert all(ax.lines and ax.get_xlabel() == "epoch" for ax in axes)
    with pytest.raises(ValueError, match="four panels, but 3 axes"):
        TrainingCurveDisplay.from_estimator(network, ax=axes[:3])


def test_dead_components_and_a_single_epoch_are_seen():
    history = {
        "energy": [1.0],
        "reconstruction": [0.7],
        "l1": [3.0],
        "hinge": [0.0],
        "proximity": [0.0],
        "sparsity": [0.9],
        "dead": [7],
    }
    weights = {"lam": 0.1, "beta": 10.0, "gamma": 1.0}
    display = TrainingCurveDisplay(history, weights=weights).plot()
    assert display.lines_["dead"].get_marker() == "o"
    assert display.axes_[1, 1].get_ylim()[1] > 7
    assert list(display.lines_["hinge"].get_ydata()) == [0]


def test_streaming_after_validation_is_drawn_to_the_end(X):
    model = VDL(4, max_iter=2, early_stopping=True, random_state=0).fit(X).partial_fit(X)
    lines = TrainingCurveDisplay.from_estimator(model).lines_
    assert list(lines["energy"].get_xdata()) == [1, 2, 3]
    assert list(lines["validation"].get_xdata()) == [1, 2]


def test_training_that_cannot_be_drawn():
    with pytest.raises(NotFittedError):
        TrainingCurveDisplay.from_estimator(VDL())
    with pytest.raises(ValueError, match="did not complete an epoch"):
        TrainingCurveDisplay({"energy": []}).plot()
    assert not plt.get_fignums()
