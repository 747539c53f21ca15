"""The denoiser, with any image and any parameters."""

import numpy as np
import torch
from _promises import attempt, snapshot
from _strategies import NOT_NEGATIVE, QUICK, arrays, changes
from hypothesis import given
from hypothesis import strategies as st
from sklearn.decomposition import PCA

from skvdl import VDL, ImageDenoiser
from skvdl.images import estimate_noise

KNOWN = {
    "estimator": st.sampled_from([VDL(3, **QUICK), PCA(2), VDL(3, penalty="l1", lam=0.1, **QUICK)]),
    "patch_size": st.integers(2, 5),
    "stride": st.integers(1, 4),
    "sigma": st.one_of(st.none(), NOT_NEGATIVE),
    "n_refinements": st.integers(0, 2),
    "max_patches": st.integers(2, 40),
    "random_state": st.integers(0, 9),
}


@st.composite
def images(draw, usual):
    side = st.integers(5, 14) if usual else st.integers(0, 12)
    height, width = draw(side), draw(side)
    shapes = [(height, width)] * 3 + [(height, width, 3)]
    if not usual:
        shapes += [(height, width, 1), (height, width, 2), (2, height, width), (height,)]
    image = draw(arrays(shape=draw(st.sampled_from(shapes)), usual=usual))
    wrap = draw(
        st.sampled_from([np.asarray, np.asfortranarray, np.ndarray.tolist, torch.as_tensor])
    )
    return wrap(image) if wrap is not torch.as_tensor or image.dtype.kind in "fiub" else image


def check_like(result, image):
    """Whether a result is finite, and has shape and type of the image."""
    image = np.asarray(image)
    assert type(result) is np.ndarray
    assert (result.shape, result.dtype) == (image.shape, image.dtype)
    assert np.isfinite(result).all()


@given(st.data())
def test_denoiser(data):
    base = {"estimator": VDL(3, **QUICK), "patch_size": 3, "stride": 2, "max_patches": 30}
    base |= {"n_refinements": 1, "random_state": 0}
    model = ImageDenoiser(**base | data.draw(changes(KNOWN)))
    image = data.draw(images(usual=data.draw(st.booleans())))
    outcome = attempt(model.fit, image)
    if not outcome.good:
        assert not hasattr(model, "estimator_")
        return
    model.set_params(**data.draw(changes(KNOWN, most=1)))
    before = snapshot({name: v for name, v in vars(model).items() if name != "estimator"})
    for given_ in (image, data.draw(images(usual=data.draw(st.booleans())))):
        found = attempt(model.transform, given_)
        if found.good:
            check_like(found.result, given_)
        mask = data.draw(st.sampled_from([None, "some", "all", "wrong"]))
        if mask == "some":
            mask = np.random.default_rng(0).random(np.shape(given_)) < 0.3
        elif mask == "all":
            mask = np.ones(np.shape(given_))
        found = attempt(model.inpaint, given_, mask)
        if found.good:
            check_like(found.result, given_)
    after = snapshot({name: v for name, v in vars(model).items() if name != "estimator"})
    assert after == before


@given(st.data())
def test_noise(data):
    found = attempt(estimate_noise, data.draw(images(usual=data.draw(st.booleans()))))
    assert not found.good or (np.isfinite(found.result) and found.result >= 0)
