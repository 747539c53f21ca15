"""Images above their reconstructions."""

from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import torch
from _pictures import filled, plain_psnr
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skvdl import VDL
from skvdl.plotting import (
    ReconstructionDisplay,
)

RNG = np.random.default_rng(0)


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
    with pytest.raises(
        ValueError, match=r"reconstruction has shape \(3, 64\), but X has \(8, 64\)"
    ):
        ReconstructionDisplay.from_predictions(X, X[:3])
    with pytest.raises(ValueError, match=r"noisy has shape \(2, 64\), but X has \(8, 64\)"):
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
