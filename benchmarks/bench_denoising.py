"""Denoising of sample photographs against scikit-image and scikit-learn: PSNR, SSIM and time.

    python -m benchmarks.bench_denoising [--sigmas 15 25 50]
    python -m benchmarks.bench_denoising --large

Grey crops of 256 x 256 of the photographs that ship with both libraries, white noise of 15, 25
and 50 of 255. Everybody is told the deviation of the noise and sees the noisy image alone; one
more row shows what happens when `ImageDenoiser` has to estimate it. scikit-learn's recipe is that
of its denoising example: 50 atoms of 7 x 7 pixels by MiniBatchDictionaryLearning, two atoms a
patch by orthogonal matching pursuit; here the dictionary is learnt from the noisy image.

The second command takes a colour photograph of 4000 x 3000 pixels, a smaller one repeated, and
tells the memory and the time of `transform`.
"""

import argparse
import resource
from time import perf_counter

import numpy as np
from skimage import data
from skimage.color import rgb2gray
from skimage.metrics import peak_signal_noise_ratio, structural_similarity
from skimage.restoration import denoise_nl_means, denoise_wavelet
from sklearn.datasets import load_sample_images
from sklearn.decomposition import MiniBatchDictionaryLearning
from sklearn.feature_extraction.image import extract_patches_2d, reconstruct_from_patches_2d

from skvdl.images import ImageDenoiser

from .common import print_table, save

SIDE = 256


def photographs():
    """Names and grey crops, 0 to 255."""
    china, flower = load_sample_images().images
    colour = {
        "china": china,
        "flower": flower,
        "astronaut": data.astronaut(),
        "coffee": data.coffee(),
        "chelsea": data.chelsea(),
    }
    grey = {name: 255 * rgb2gray(image) for name, image in colour.items()}
    grey["camera"] = data.camera().astype(float)
    crops = {}
    for name, image in grey.items():
        top, left = ((n - SIDE) // 2 for n in image.shape)
        crops[name] = image[top : top + SIDE, left : left + SIDE]
    return crops


def ours(noisy, sigma):
    return ImageDenoiser(sigma=sigma, random_state=0).fit_transform(noisy)


def ours_estimated(noisy, sigma):
    return ImageDenoiser(random_state=0).fit_transform(noisy)


def nl_means_fast(noisy, sigma):
    size = {"patch_size": 5, "patch_distance": 6}
    return denoise_nl_means(noisy, h=0.8 * sigma, sigma=sigma, fast_mode=True, **size)


def nl_means_slow(noisy, sigma):
    size = {"patch_size": 5, "patch_distance": 6}
    return denoise_nl_means(noisy, h=0.6 * sigma, sigma=sigma, fast_mode=False, **size)


def wavelet_bayes(noisy, sigma):
    return 255 * denoise_wavelet(noisy / 255, sigma=sigma / 255, method="BayesShrink")


def wavelet_visu(noisy, sigma):
    # the universal threshold smooths too much; half of it is what scikit-image's example likes
    return 255 * denoise_wavelet(noisy / 255, sigma=sigma / 510, method="VisuShrink")


def sklearn_recipe(noisy, sigma):
    patches = extract_patches_2d(noisy, (7, 7)).reshape(-1, 49)
    mean, scale = patches.mean(axis=0), patches.std(axis=0)
    learner = MiniBatchDictionaryLearning(
        50,
        batch_size=200,
        alpha=1.0,
        max_iter=10,
        transform_algorithm="omp",
        transform_n_nonzero_coefs=2,
        random_state=0,
    ).fit((patches - mean) / scale)
    rebuilt = learner.transform(patches - mean) @ learner.components_ + mean
    return reconstruct_from_patches_2d(rebuilt.reshape(-1, 7, 7), noisy.shape)


METHODS = {
    "ImageDenoiser": ours,
    "ImageDenoiser, noise estimated": ours_estimated,
    "nl_means, fast": nl_means_fast,
    "nl_means, slow": nl_means_slow,
    "wavelet, BayesShrink": wavelet_bayes,
    "wavelet, VisuShrink / 2": wavelet_visu,
    "scikit-learn, dictionary and OMP": sklearn_recipe,
}


def measure(crops, sigma):
    """Figures of every method on every photograph with noise of one deviation."""
    runs = []
    for number, (photograph, clean) in enumerate(crops.items()):
        rng = np.random.default_rng(number)
        noisy = clean + rng.normal(0, sigma, clean.shape)
        for name, method in METHODS.items():
            start = perf_counter()
            denoised = np.clip(method(noisy, sigma), 0, 255)
            seconds = perf_counter() - start
            result = {
                "psnr": peak_signal_noise_ratio(clean, denoised, data_range=255),
                "ssim": structural_similarity(clean, denoised, data_range=255),
                "seconds": seconds,
            }
            runs.append({"photograph": photograph, "method": name, **result})
    return runs


def peak_memory():
    """Most memory that this process has held so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure_large(sigma=25):
    """Memory, time and PSNR for a large photograph with the quickest settings."""
    tile = load_sample_images().images[0]
    noisy = np.tile(tile, (8, 7, 1))[:3000, :4000]
    rng = np.random.default_rng(0)
    for row in noisy:
        row[:] = np.clip(row + rng.normal(0, sigma, row.shape), 0, 255)
    denoiser = ImageDenoiser(stride=8, sigma=sigma, n_refinements=1, random_state=0, verbose=1)
    denoiser.fit(noisy[:1000, :1000])
    before, start = peak_memory(), perf_counter()
    denoised = denoiser.transform(noisy)
    seconds, memory = perf_counter() - start, peak_memory()
    some = slice(0, tile.shape[0]), slice(0, tile.shape[1])
    psnr = peak_signal_noise_ratio(tile, denoised[some], data_range=255)
    header = ("4000 x 3000 in colour", "MB before", "MB at the peak", "PSNR dB", "s")
    row = (f"sigma {sigma}", before, memory, psnr, seconds)
    print_table(header, [row])
    save("bench_denoising_large", **dict(zip(header[1:], row[1:], strict=True)))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sigmas", nargs="+", type=int, default=(15, 25, 50), help="of 255")
    parser.add_argument("--large", action="store_true", help="one large photograph instead")
    options = parser.parse_args()
    if options.large:
        measure_large()
        return
    crops = photographs()
    for sigma in options.sigmas:
        runs = measure(crops, sigma)
        rows = []
        for name in METHODS:
            own = [run for run in runs if run["method"] == name]
            means = (float(np.mean([run[k] for run in own])) for k in ("psnr", "ssim", "seconds"))
            rows.append((name, *means))
        print_table((f"sigma {sigma}: mean of {', '.join(crops)}", "PSNR dB", "SSIM", "s"), rows)
        save(f"bench_denoising_{sigma}", sigma=sigma, runs=runs)


if __name__ == "__main__":
    main()
