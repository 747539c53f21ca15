"""Patches of natural images."""

import os
import pickle
import sys

import numpy as np
import pytest
from _parts import PARTS, part
from PIL import Image
from sklearn import config_context

from skvdl.datasets import _natural, load_digits, load_natural_patches
from skvdl.metrics import psnr
from skvdl.preprocessing import LocalContrastNormalizer


@pytest.fixture
def photographs(tmp_path, rng):
    """Folder of five images of noise, each grey level in one image only, short side 256."""
    folder = tmp_path / "natural"
    folder.mkdir()
    for i in range(5):
        pixels = rng.integers(0, 25, (256, 256 + 10 * i)) * 10 + 2 * i
        Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{i}.png")
    return folder


@pytest.fixture(autouse=True)
def fewer_trials(monkeypatch):
    monkeypatch.setattr(_natural, "_TRIAL_CROPS", 200)


SMALL = {"n_train": 30, "n_val": 12, "n_test": 8}


def sources(data, name):
    """Images that patches come from, told by their grey levels."""
    levels = np.rint(data.to_pixels(part(data, name)[0], name) * 255).astype(int) % 10 // 2
    assert (levels == levels[:, :1]).all()
    return set(levels[:, 0])


def test_natural_patches(photographs):
    data = load_natural_patches(photographs, **SMALL)
    assert (data.name, data.image_shape) == ("natural", (28, 28))
    for name in PARTS:
        X, y = part(data, name)
        assert X.shape == (SMALL[f"n_{name}"], 784)
        assert X.dtype == np.float32
        assert y is None
        assert X.std(axis=1).min() >= 0.5


def test_parts_have_no_image_in_common(photographs, monkeypatch):
    used = []
    crops = _natural._crops
    monkeypatch.setattr(
        _natural, "_crops", lambda paths, *args: used.append(set(paths)) or crops(paths, *args)
    )
    data = load_natural_patches(photographs, **SMALL)
    train, val, test = (set.union(*used[:-2]), *used[-2:])
    assert len(train | val | test) == len(train) + len(val) + len(test) == 5
    for name, paths in (("val", val), ("test", test)):
        assert sources(data, name) == {int(path.stem) for path in paths}


def test_images_are_shared_out_in_proportion():
    split = _natural._split_images(list(range(100)), {"train": 8, "val": 1, "test": 1}, np.random)
    assert [len(split[name]) for name in PARTS] == [80, 10, 10]
    assert sorted(np.concatenate(list(split.values()))) == list(range(100))


@pytest.mark.parametrize(
    "counts", [(1, 1, 1), (1, 1000, 1), (1, 1, 1000), (1, 500, 500), (9, 1, 1)]
)
@pytest.mark.parametrize("n_images", [3, 4, 7])
def test_every_part_has_an_image(counts, n_images):
    counts = dict(zip(PARTS, counts, strict=True))
    split = _natural._split_images(list(range(n_images)), counts, np.random.RandomState(0))
    assert all(len(split[name]) for name in PARTS)
    assert sum(map(len, split.values())) == n_images


def test_pixels_of_patches_are_those_of_the_images(photographs):
    data = load_natural_patches(photographs, **SMALL)
    pixels = np.rint(data.to_pixels(data.X_test) * 255).astype(np.uint8).reshape(-1, 28, 28)
    images = [np.asarray(Image.open(path)) for path in sorted(photographs.iterdir())]
    for patch in pixels:
        image = images[patch[0, 0] % 10 // 2]
        corners = np.argwhere(image[:-27, :-27] == patch[0, 0])
        assert any(np.array_equal(image[i : i + 28, j : j + 28], patch) for i, j in corners)


def test_patches_are_what_the_normalizer_makes_of_scaled_crops(photographs, monkeypatch):
    seen = []
    crops = _natural._crops
    monkeypatch.setattr(
        _natural, "_crops", lambda *args: (seen.append(x) or x for x in crops(*args))
    )
    data = load_natural_patches(photographs, **SMALL)
    trial = np.vstack(seen[:3])  # of the three training images
    lcn = LocalContrastNormalizer().fit((trial - 0.457) / 0.259)
    assert data.preprocessor[-1].min_scale_ == pytest.approx(lcn.min_scale_, rel=1e-5)
    expected = np.vstack([lcn.transform((x - 0.457) / 0.259) for x in seen[3:]])
    for name in PARTS:
        for row in part(data, name)[0]:
            assert np.abs(expected - row).max(axis=1).min() < 1e-4


def test_rows_say_which_patches_are_undone(photographs):
    data = load_natural_patches(photographs, **SMALL)
    for name in ("val", "test"):
        X = part(data, name)[0]
        whole = data.to_pixels(X, name)
        assert whole.dtype == np.float32
        for rows in (slice(2, 5), np.array([3, 0]), np.arange(len(X)) % 2 == 0):
            np.testing.assert_array_equal(data.to_pixels(X[rows], name, rows), whole[rows])


def test_undoing_patches_wrongly_is_refused(photographs):
    data = load_natural_patches(photographs, **SMALL)
    with pytest.raises(ValueError, match=r"part='train'.* not kept"):
        data.to_pixels(data.X_train, "train")
    with pytest.raises(ValueError, match=r"X has 3 rows, but .* 8 of the test part"):
        data.to_pixels(data.X_test[:3])
    with pytest.raises(ValueError, match="X has 12 rows"):
        data.to_pixels(data.X_val)


def test_noise_on_patches_is_scaled_like_them(photographs, rng):
    data = load_natural_patches(photographs, **SMALL)
    noise = rng.normal(size=data.X_test.shape)
    scale = data.local_statistics["test"][:, 784:]
    expected = -10 * np.log10(np.square(0.259 * scale * noise).mean(axis=1)).mean()
    pixels = data.to_pixels(data.X_test), data.to_pixels(data.X_test + noise)
    assert psnr(*pixels, data_range=1.0) == pytest.approx(expected, abs=1e-3)


def test_patches_are_in_random_order(photographs):
    data = load_natural_patches(photographs, n_train=1, n_val=60, n_test=1)
    levels = np.rint(data.to_pixels(data.X_val, "val")[:, 0] * 255).astype(int) % 10 // 2
    assert len(set(levels)) == 3
    assert np.count_nonzero(np.diff(levels)) > 20


def test_patches_depend_on_the_seed_only(photographs):
    one, same, other = (
        load_natural_patches(photographs, **SMALL, random_state=s) for s in (0, 0, 1)
    )
    for name in PARTS:
        np.testing.assert_array_equal(part(one, name)[0], part(same, name)[0])
        assert not np.array_equal(part(one, name)[0], part(other, name)[0])


def test_dataset_survives_pickle_and_keeps_no_more_than_it_needs(photographs):
    data = load_natural_patches(photographs, **SMALL)
    pickled = pickle.dumps(data)
    again = pickle.loads(pickled)
    np.testing.assert_array_equal(again.to_pixels(again.X_test), data.to_pixels(data.X_test))
    assert len(pickled) < 4 * 784 * (30 + 3 * (12 + 8)) + 20_000


def test_natural_folder_defaults_to_the_data_home(photographs, monkeypatch):
    monkeypatch.setenv("SKVDL_DATA_HOME", str(photographs.parent))
    data = load_natural_patches(**SMALL)
    np.testing.assert_array_equal(data.X_val, load_natural_patches(photographs, **SMALL).X_val)


def test_images_of_all_kinds_become_grey_with_the_same_short_side(tmp_path, rng):
    grey = rng.integers(0, 256, (300, 512), dtype=np.uint8)
    Image.fromarray(grey).save(tmp_path / "grey.png")
    reference = _natural._read_grey(tmp_path / "grey.png")
    assert reference.shape == (256, 437)
    assert reference.dtype == np.float32
    assert 0 <= reference.min() < 0.2 < 0.8 < reference.max() <= 1
    Image.fromarray(np.dstack([grey] * 3)).save(tmp_path / "colour.tiff")
    Image.fromarray(grey.astype(np.uint16) * 257).save(tmp_path / "deep.png")
    for name in ("colour.tiff", "deep.png"):
        np.testing.assert_allclose(_natural._read_grey(tmp_path / name), reference, atol=2e-3)
    Image.fromarray(grey[:, :100]).save(tmp_path / "small.png")
    assert _natural._read_grey(tmp_path / "small.png").shape == (768, 256)


def test_colours_weigh_as_the_eye_sees_them(tmp_path):
    colours = np.zeros((60, 60, 3), dtype=np.uint8)
    colours[..., 1] = 255
    Image.fromarray(colours).save(tmp_path / "green.png")
    np.testing.assert_allclose(_natural._read_grey(tmp_path / "green.png"), 0.587, atol=2e-3)


def test_images_are_found_in_subfolders_and_other_files_left_alone(photographs):
    before = load_natural_patches(photographs, **SMALL)
    (photographs / "notes.txt").write_text("not an image")
    (photographs / "._0.png").write_bytes(b"not an image")
    assert len(_natural._find_images(photographs)) == 5
    np.testing.assert_array_equal(load_natural_patches(photographs, **SMALL).X_val, before.X_val)
    (photographs / "more").mkdir()
    (photographs / "0.png").rename(photographs / "more" / "0.PNG")
    assert len(_natural._find_images(photographs)) == 5


def test_many_patches_of_one_image_are_cut_in_blocks(photographs, monkeypatch):
    monkeypatch.setattr(_natural, "_CROPS_AT_ONCE", 7)
    sizes = [len(x) for x in _natural._crops([photographs / "0.png"], 16, np.random.RandomState(0))]
    assert sizes == [7, 7, 2]
    assert len(load_natural_patches(photographs, **SMALL).X_train) == 30


def half_flat(photographs):
    """Leave little of any image that is not flat."""
    for path in photographs.iterdir():
        pixels = np.array(Image.open(path))
        pixels[:, 80:] = 128
        Image.fromarray(pixels).save(path)


def test_flat_patches_are_left_out_until_there_are_enough(photographs):
    half_flat(photographs)
    data = load_natural_patches(photographs, **SMALL)
    assert min(part(data, name)[0].std(axis=1).min() for name in PARTS) >= 0.5


def test_a_wrong_guess_of_the_share_is_made_good(photographs):
    half_flat(photographs)
    preprocessor = load_natural_patches(photographs, **SMALL).preprocessor
    paths, random_state = sorted(photographs.iterdir()), np.random.RandomState(0)
    rows = _natural._collect(paths, 100, preprocessor, 1.0, random_state, "val")
    assert rows.shape == (100, 3 * 784)
    assert rows[:, :784].std(axis=1).min() >= 0.5


@pytest.mark.parametrize("flat", ["all", "one"])
def test_images_too_flat_end_in_an_error(photographs, flat):
    paths = sorted(photographs.iterdir())
    if flat == "one":  # the one for validation
        found = _natural._split_images(
            paths, {name: SMALL[f"n_{name}"] for name in PARTS}, np.random.RandomState(0)
        )
        paths = found["val"]
    for path in paths:
        Image.fromarray(np.full((256, 256), 99, dtype=np.uint8)).save(path)
    name = "train" if flat == "all" else "val"
    with pytest.raises(
        ValueError, match=rf"n_{name}={SMALL[f'n_{name}']} cannot.* too flat: 0.00%"
    ):
        load_natural_patches(photographs, **SMALL)


def test_missing_folder(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match=r"no folder .*nowhere"):
        load_natural_patches(tmp_path / "nowhere", **SMALL)
    monkeypatch.setenv("SKVDL_DATA_HOME", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"no folder .*natural.*SKVDL_DATA_HOME"):
        load_natural_patches(**SMALL)


def test_no_or_too_few_images(photographs):
    for path in sorted(photographs.iterdir())[2:]:
        path.unlink()
    with pytest.raises(ValueError, match=r"has 2 images .*at least 3"):
        load_natural_patches(photographs, **SMALL)
    for path in photographs.iterdir():
        path.rename(path.with_suffix(".data"))
    with pytest.raises(ValueError, match=r"has 0 images \(\.bmp"):
        load_natural_patches(photographs, **SMALL)


@pytest.mark.parametrize("content", [b"", b"not an image", "half"])
def test_unreadable_image_is_named(photographs, content):
    for path in photographs.iterdir():
        path.write_bytes(path.read_bytes()[:5000] if content == "half" else content)
    with pytest.raises(ValueError, match=r"\d\.png: .*cannot be read as an image"):
        load_natural_patches(photographs, **SMALL)


def test_small_image_is_named(photographs):
    for path in photographs.iterdir():
        Image.fromarray(np.zeros((51, 80), dtype=np.uint8)).save(path)
    with pytest.raises(ValueError, match=r"\d\.png: .* has 80 x 51 pixels.* at least 52 x 52"):
        load_natural_patches(photographs, **SMALL)


@pytest.mark.parametrize("name", PARTS)
def test_counts_are_positive_whole_numbers(photographs, name):
    with pytest.raises(ValueError, match=f"n_{name}"):
        load_natural_patches(photographs, **{**SMALL, f"n_{name}": 0})
    with pytest.raises(TypeError, match=f"n_{name}"):
        load_natural_patches(photographs, **{**SMALL, f"n_{name}": 2.5})


def test_missing_pillow_names_the_extra(photographs, monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ImportError, match=r"Pillow.*skvdl\[images\]"):
        load_natural_patches(photographs, **SMALL)


def test_data_are_arrays_whatever_transformers_are_told_to_return(photographs):
    with config_context(transform_output="pandas"):
        digits, natural = load_digits(), load_natural_patches(photographs, **SMALL)
        assert type(digits.X_train) is type(natural.X_val) is np.ndarray
        assert type(digits.to_pixels(digits.X_test)) is np.ndarray
        assert type(natural.to_pixels(natural.X_test)) is np.ndarray


def test_what_is_no_file_is_skipped_with_a_warning(photographs):
    (photographs / "folder.png").mkdir()
    (photographs / "link.png").symlink_to(photographs / "nowhere.png")
    os.mkfifo(photographs / "pipe.png")
    with pytest.warns(UserWarning, match=r"folder\.png.*link\.png.*pipe\.png"):
        load_natural_patches(photographs, n_train=4, n_val=2, n_test=2)


def test_images_that_would_grow_too_large_are_refused_unread(photographs):
    for path in photographs.iterdir():
        path.write_bytes(b"P5 60 1000000 255\n")
    with pytest.raises(ValueError, match=r"\.png: \d+ pixels are too many"):
        load_natural_patches(photographs, n_train=4, n_val=2, n_test=2)


@pytest.mark.parametrize("count", [2**40, 2**70])
def test_more_patches_than_memory_can_hold_are_refused(photographs, count):
    with pytest.raises(ValueError, match=rf"n_train={count} patches need \d+ GB of memory"):
        load_natural_patches(photographs, n_train=count, n_val=2, n_test=2)
