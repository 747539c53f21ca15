"""Images as users have them: files of many formats, folders, lists; errors name the file."""

import os
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from skvdl.images import ImageDenoiser


def picture(seed=0, shape=(24, 22)):
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def quick(**parameters):
    parameters = {"patch_size": 6, "stride": 6, "n_refinements": 0, "max_patches": 200} | parameters
    return ImageDenoiser(sigma=20, random_state=0, **parameters)


@pytest.fixture(scope="module")
def denoiser():
    return quick().fit(picture())


LOSSLESS = [
    "bmp",
    "gif",
    "jp2",
    "pbm",
    "pgm",
    "png",
    "PNG",
    "pnm",
    "ppm",
    "tga",
    "tif",
    "tiff",
    "webp",
]
# Pillow 10 has no AVIF yet
AVIF = ["avif"] if ".avif" in Image.registered_extensions() else []
LOSSY = ["jpg", "jpeg", "jpe", "jfif", *AVIF]
MODES = {"gif": "RGB", "webp": "RGB", "ppm": "RGB", "avif": "RGB", "pbm": "1"}


@pytest.mark.parametrize("suffix", [*LOSSLESS, *LOSSY])
def test_folder_finds_every_common_format(tmp_path, suffix):
    image = Image.fromarray(picture()).convert(MODES.get(suffix, "L"))
    image.save(tmp_path / f"a.{suffix}", **({"lossless": True} if suffix == "webp" else {}))
    pixels = np.asarray(image.convert("L") if image.mode == "1" else image)
    model = quick().fit(pixels)
    (denoised,) = model.transform(tmp_path)
    if suffix in LOSSY:
        assert denoised.shape == pixels.shape
    else:
        np.testing.assert_array_equal(denoised, model.transform(pixels))


@pytest.mark.parametrize(
    ("mode", "plain"), [("P", "RGB"), ("RGBA", "RGB"), ("LA", "L"), ("CMYK", "RGB"), ("1", "L")]
)
def test_other_modes_become_grey_or_rgb(tmp_path, mode, plain):
    image = Image.fromarray(picture(shape=(24, 22, 3))).convert("L" if plain == "L" else "RGB")
    image = image.convert(mode)
    image.save(tmp_path / ("a.tif" if mode == "CMYK" else "a.png"))
    expected = np.asarray(image.convert(plain))
    (denoised,) = quick().set_params(sigma=0).fit(expected).transform(tmp_path)
    np.testing.assert_array_equal(denoised, expected)


def test_folder_skips_what_is_no_image(tmp_path, denoiser):
    Image.fromarray(picture()).save(tmp_path / "b.png")
    Image.fromarray(picture(2)).save(tmp_path / "c.jpeg")
    (tmp_path / "notes.txt").write_text("not an image")
    (tmp_path / ".hidden.png").write_text("not an image")
    assert len(denoiser.transform(tmp_path)) == 2


def test_folder_warns_of_what_is_no_file(tmp_path, denoiser):
    """A pipe would never end, and a link may lead nowhere."""
    Image.fromarray(picture()).save(tmp_path / "b.png")
    (tmp_path / "folder.png").mkdir()
    (tmp_path / "link.png").symlink_to(tmp_path / "nowhere.png")
    os.mkfifo(tmp_path / "pipe.png")
    with pytest.warns(UserWarning, match=r"folder\.png.*link\.png.*pipe\.png") as caught:
        assert len(denoiser.transform(tmp_path)) == 1
    assert Path(caught[0].filename) == Path(__file__)
    for name in ("link.png", "pipe.png"):
        with pytest.raises(FileNotFoundError, match=name):
            denoiser.transform(tmp_path / name)
        with pytest.raises(FileNotFoundError, match=name):
            denoiser.transform([tmp_path / name])


def test_images_with_too_many_pixels_are_refused_unread(tmp_path, denoiser):
    path = tmp_path / "large.pgm"
    path.write_bytes(b"P5 20000 8000 255\n")
    with pytest.warns(Image.DecompressionBombWarning), pytest.raises(ValueError, match="too many"):
        denoiser.transform(path)
    path.write_bytes(b"P5 2000000 800000 255\n")
    with pytest.raises(ValueError, match=r"large\.pgm.*cannot be read"):
        denoiser.transform(path)


def test_arrays_shorter_than_they_say_are_refused_unread(tmp_path, denoiser):
    path = tmp_path / "short.npy"
    np.save(path, np.zeros((100, 100)))
    path.write_bytes(path.read_bytes().replace(b"(100, 100), }      ", b"(100000,1000000), }"))
    with pytest.raises(ValueError, match=r"short\.npy.*cannot be read as an array"):
        denoiser.transform(path)


def test_folder_without_images_says_what_is_supported(tmp_path):
    (tmp_path / "photo.xyz").write_text("not an image")
    with pytest.raises(ValueError, match=r"holds no image.*\.jpg.*\.npy.*\.png.*\.webp") as info:
        quick().fit(tmp_path)
    assert str(tmp_path) in str(info.value)


@pytest.mark.parametrize("kind", [list, tuple])
def test_list_of_paths(tmp_path, denoiser, kind):
    images = [picture(0), picture(1, (20, 30)), picture(2)]
    paths = [tmp_path / f"{i}.png" for i in range(3)]
    for image, path in zip(images, paths, strict=True):
        Image.fromarray(image).save(path)
    expected = denoiser.transform(images)
    mixed = kind([str(paths[0]), images[1], paths[2]])
    for given in (kind(paths), kind(map(str, paths)), mixed):
        found = denoiser.transform(given)
        assert isinstance(found, list)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_array_equal(a, b)
    atoms = quick().fit(images).estimator_.components_
    np.testing.assert_array_equal(quick().fit(mixed).estimator_.components_, atoms)


def test_list_without_images():
    for empty in ([], ()):
        with pytest.raises(ValueError, match="holds no image"):
            quick().fit(empty)


def save(path, pixels):
    if path.suffix == ".npy":
        np.save(path, pixels)
    else:
        Image.fromarray(pixels).save(path)


def truncated(path):
    Image.fromarray(picture(shape=(60, 60))).save(path)
    path.write_bytes(path.read_bytes()[:200])


BAD_FILES = {
    "no image at all": ("bad.png", lambda path: path.write_text("text"), "cannot be read"),
    "truncated": ("bad.png", truncated, "cannot be read"),
    "no array": ("bad.npy", lambda path: path.write_text("text"), "cannot be read"),
    "empty": ("bad.npy", lambda path: path.touch(), "cannot be read"),
    "objects": ("bad.npy", lambda path: np.save(path, np.array([None])), "cannot be read"),
    "other channels": ("bad.png", lambda path: save(path, picture(shape=(20, 20, 3))), "channel"),
    "too many channels": ("bad.npy", lambda path: save(path, np.zeros((20, 20, 4))), "alpha"),
    "too small": ("bad.png", lambda path: save(path, picture(shape=(5, 30))), "patch_size=6"),
    "nothing seen": ("bad.npy", lambda path: save(path, np.full((9, 9), np.nan)), "inpaint|seen"),
    "infinity": ("bad.npy", lambda path: save(path, np.full((9, 9), np.inf)), "infinity"),
    "text": ("bad.npy", lambda path: save(path, np.full((9, 9), "a")), "numbers"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_errors_name_the_file(tmp_path, denoiser, case):
    name, make, message = BAD_FILES[case]
    path = tmp_path / name
    save(tmp_path / "a_good.png", picture())
    make(path)
    both = f"(?s){re.escape(str(path))}.*({message})"
    for given in (tmp_path, [tmp_path / "a_good.png", path]):
        with pytest.raises(ValueError, match=both):
            denoiser.transform(given)
        with pytest.raises(ValueError, match=both):
            quick().fit(given)
    with pytest.raises(ValueError, match=both):
        denoiser.transform(path)


def test_errors_of_inpaint_name_the_file(tmp_path, denoiser):
    path = tmp_path / "bad.png"
    save(path, picture(shape=(5, 30)))
    with pytest.raises(ValueError, match=re.escape(str(path))):
        denoiser.inpaint(path)
    with pytest.raises(ValueError, match=f"{re.escape(str(path))}.*mask is of shape"):
        denoiser.inpaint(path, np.zeros((3, 3), dtype=bool))


def test_image_too_small_for_its_noise_to_be_estimated_is_named(tmp_path):
    path = tmp_path / "small.png"
    save(path, picture(shape=(4, 30)))
    denoiser = quick(patch_size=3, stride=3).fit(picture()).set_params(sigma=None)
    with pytest.raises(ValueError, match=re.escape(str(path))):
        denoiser.transform(path)


def test_errors_tell_which_image_of_a_list(denoiser):
    with pytest.raises(ValueError, match=r"image 1.*patch_size=6"):
        denoiser.transform([picture(), picture(shape=(5, 30))])


def test_missing_files_and_folders_are_told(tmp_path, denoiser):
    for given in (tmp_path / "nowhere.png", [tmp_path / "nowhere.png"]):
        with pytest.raises(FileNotFoundError, match="nowhere"):
            denoiser.transform(given)
    with pytest.raises(ValueError, match="is a folder"):
        denoiser.transform([tmp_path])
