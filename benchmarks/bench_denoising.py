"""Whole photographs with noise of 15, 25 and 50 of 255: quality and time against the peers.

    python -m benchmarks.bench_denoising

Needs scikit-image and PyWavelets. Crops of the photographs that ship with scikit-learn and
scikit-image, grey and one in colour; white Gaussian noise, not clipped. The peers are
scikit-image's non-local means (fast and slow, with the strengths its documentation recommends)
and wavelets (both kinds of threshold), and scikit-learn's dictionary learning: the recipe of its
image denoising example, learnt from the noisy patches, and the same with patches less their own
means and an error tolerance in place of two atoms. All are told the deviation of the noise but
"sigma estimated". Nothing sees the clean image. Results are clipped to the range of the pixels,
then compared by PSNR and SSIM; the table has means over images, the JSON every figure.
"""

import warnings
from functools import partial
from time import perf_counter

import numpy as np
from skimage import data
from skimage.color import rgb2gray
from skimage.metrics import peak_signal_noise_ratio, structural_similarity
from skimage.restoration import denoise_nl_means, denoise_wavelet
from sklearn.datasets import load_sample_image
from sklearn.decomposition import MiniBatchDictionaryLearning
from sklearn.feature_extraction.image import extract_patches_2d, reconstruct_from_patches_2d
from sklearn.linear_model import orthogonal_mp_gram

from skvdl.images import ImageDenoiser

from .common import print_table, save

SIGMAS = (15, 25, 50)
GREY = ("china", "flower", "camera", "astronaut", "coffee", "chelsea")
COLOUR = ("astronaut",)
SIDE = {"grey": 256, "colour": 128}


def photograph(name, kind):
    """Middle of a photograph, with pixels from 0 to 1."""
    from_sklearn = name in ("china", "flower")
    image = (load_sample_image(f"{name}.jpg") if from_sklearn else getattr(data, name)()) / 255
    if kind == "grey" and image.ndim == 3:
        image = rgb2gray(image)
    top, left = ((n - SIDE[kind]) // 2 for n in image.shape[:2])
    return np.ascontiguousarray(image[top:, left:][: SIDE[kind], : SIDE[kind]])


def skvdl_denoiser(noisy, sigma, **options):
    patch_size = 8 if noisy.ndim == 2 else 6
    denoiser = ImageDenoiser(patch_size=patch_size, sigma=sigma, random_state=0)
    return denoiser.set_params(**options).fit_transform(noisy)


def nl_means(noisy, sigma, fast):
    return denoise_nl_means(
        noisy,
        h=(0.8 if fast else 0.6) * sigma,
        sigma=sigma,
        fast_mode=fast,
        patch_size=5,
        patch_distance=6,
        channel_axis=None if noisy.ndim == 2 else 2,
    )


def wavelet(noisy, sigma, method):
    return denoise_wavelet(
        noisy,
        sigma=sigma,
        method=method,
        mode="soft",
        rescale_sigma=True,
        convert2ycbcr=False,
        channel_axis=None if noisy.ndim == 2 else 2,
    )


def scikit_learn_example(noisy, sigma):
    """Dictionary from standardised patches, two atoms a patch."""
    patches = extract_patches_2d(noisy, (7, 7))
    shape = patches.shape
    patches = patches.reshape(len(patches), -1)
    mean = patches.mean(axis=0)
    patches = patches - mean
    learner = MiniBatchDictionaryLearning(
        n_components=50,
        batch_size=200,
        alpha=1.0,
        max_iter=10,
        transform_algorithm="omp",
        transform_n_nonzero_coefs=2,
        random_state=0,
    ).fit(patches / patches.std(axis=0))
    rebuilt = learner.transform(patches) @ learner.components_ + mean
    return reconstruct_from_patches_2d(rebuilt.reshape(shape), noisy.shape)


def scikit_learn_tuned(noisy, sigma):
    """Dictionary from patches with noise of deviation 1, as many atoms as the noise asks for."""
    patches = extract_patches_2d(noisy, (8, 8))
    shape = patches.shape
    patches = patches.reshape(len(patches), 64, -1)
    means = patches.mean(axis=1, keepdims=True)
    patches = ((patches - means) / sigma).reshape(len(patches), -1)
    d = patches.shape[1]
    energy = np.square(patches).sum(axis=1)
    busy = np.flatnonzero(energy > 1.15 * d)
    few = np.random.default_rng(0).permutation(busy)[:5000]
    learner = MiniBatchDictionaryLearning(
        n_components=128, batch_size=256, alpha=3.0, max_iter=10, random_state=0
    ).fit(patches[few])
    atoms = learner.components_ / np.linalg.norm(learner.components_, axis=1, keepdims=True)
    codes = np.zeros((len(patches), len(atoms)))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*linear dependence")
        codes[busy] = orthogonal_mp_gram(
            atoms @ atoms.T,
            atoms @ patches[busy].T,
            tol=1.15 * d,
            norms_squared=energy[busy],
        ).T
    rebuilt = (codes @ atoms * sigma).reshape(len(patches), 64, -1) + means
    return reconstruct_from_patches_2d(rebuilt.reshape(shape), noisy.shape)


METHODS = {
    "noisy": lambda noisy, sigma: noisy,
    "skvdl": skvdl_denoiser,
    "skvdl, sigma estimated": lambda noisy, sigma: skvdl_denoiser(noisy, None),
    "skvdl, dictionary alone": partial(skvdl_denoiser, n_refinements=0),
    "nl_means, fast": partial(nl_means, fast=True),
    "nl_means, slow": partial(nl_means, fast=False),
    "wavelet, BayesShrink": partial(wavelet, method="BayesShrink"),
    "wavelet, VisuShrink": partial(wavelet, method="VisuShrink"),
    "scikit-learn, example": scikit_learn_example,
    "scikit-learn, tuned": scikit_learn_tuned,
}


def measure(kind, name, sigma, method):
    clean = photograph(name, kind)
    noise = np.random.default_rng(0).normal(size=clean.shape)
    noisy = clean + sigma / 255 * noise
    start = perf_counter()
    denoised = METHODS[method](noisy, sigma / 255)
    seconds = perf_counter() - start
    denoised = np.clip(denoised, 0, 1)
    axis = None if clean.ndim == 2 else 2
    return {
        "kind": kind,
        "image": name,
        "sigma": sigma,
        "method": method,
        "psnr": float(peak_signal_noise_ratio(clean, denoised, data_range=1)),
        "ssim": float(structural_similarity(clean, denoised, data_range=1, channel_axis=axis)),
        "seconds": seconds,
    }


def means(runs, kind, sigma, method):
    same = [r for r in runs if (r["kind"], r["sigma"], r["method"]) == (kind, sigma, method)]
    return [float(np.mean([r[name] for r in same])) for name in ("psnr", "ssim", "seconds")]


def main():
    runs = []
    for kind, names in (("grey", GREY), ("colour", COLOUR)):
        for method in METHODS:
            for sigma in SIGMAS:
                runs.extend(measure(kind, name, sigma, method) for name in names)
        rows = []
        for method in METHODS:
            table = [means(runs, kind, sigma, method) for sigma in SIGMAS]
            quality = [f"{psnr:.2f} / {ssim:.3f}" for psnr, ssim, _ in table]
            rows.append((method, *quality, f"{np.mean([t[2] for t in table]):.2f}"))
        print_table((kind, *(f"sigma {s}" for s in SIGMAS), "seconds"), rows)
        print()
    save("bench_denoising", runs=runs)


if __name__ == "__main__":
    main()
