"""Data sets of the comparison: rows in three parts, labels and true atoms where there are any.

"choice" data sets were looked at when default values were chosen, "unseen" ones were not.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from sklearn import datasets as sklearn_datasets
from sklearn.feature_extraction.image import PatchExtractor
from sklearn.model_selection import train_test_split

from skvdl.datasets import fetch_mnist, load_digits, load_natural_patches

# Strengths and budgets are chosen on at most this many rows: enough for the third digit.
MOST_VALIDATION_ROWS = 1000


@dataclass(frozen=True)
class Effort:
    """What each rival may try on a data set. Large data sets get smaller grids.

    Attributes
    ----------
    alphas : tuple of float
        Training strengths of the lasso, as shares of the root mean square norm of a row.
    nmf_alphas : tuple of float
        Training strengths of NMF, as scikit-learn defines them.
    learning_rates, epochs : tuple
        All pairs are tried for the autoencoders.
    sklearn_visits, spams_visits : int
        Rows that each dictionary learner sees, counted with repetition. SPAMS is faster and
        therefore gets more.
    """

    alphas: tuple[float, ...] = (0.01, 0.03, 0.1, 0.2)
    nmf_alphas: tuple[float, ...] = (0.0, 1e-3, 3e-3, 1e-2, 3e-2)
    learning_rates: tuple[float, ...] = (3e-3, 1e-2, 3e-2)
    epochs: tuple[int, ...] = (10,)
    sklearn_visits: int = 50_000
    spams_visits: int = 100_000


@dataclass(frozen=True)
class Data:
    """Rows as every method sees them: minus the training mean, divided by one scale.

    Attributes
    ----------
    train, val, test : ndarray of float32
        The rows.
    offset : ndarray
        The subtracted mean, in the units of the rows: ``rows + offset`` are the original rows up
        to the scale.
    labels_train, labels_test : ndarray or None
        Classes.
    atoms : ndarray or None
        The atoms that the rows were made of.
    """

    name: str
    use: str
    n_components: int
    effort: Effort
    train: np.ndarray = field(repr=False)
    val: np.ndarray = field(repr=False)
    test: np.ndarray = field(repr=False)
    offset: np.ndarray = field(repr=False)
    labels_train: np.ndarray | None = field(default=None, repr=False)
    labels_test: np.ndarray | None = field(default=None, repr=False)
    atoms: np.ndarray | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Raw:
    """Original rows of the three parts, in that order, and what is known about them."""

    parts: tuple[np.ndarray, np.ndarray, np.ndarray]
    labels: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None
    atoms: np.ndarray | None = None


@dataclass(frozen=True)
class Description:
    """A data set before it is loaded.

    Attributes
    ----------
    title : str
        Its name in the report.
    load : callable
        Returns the original rows.
    use : {"choice", "unseen"}
        Whether default values were chosen with it.
    n_components : int
        Size of every dictionary.
    effort : Effort
        What each rival may try.
    without : tuple of str
        Methods that cannot be used: NMF if rows are negative, raw features if there are no
        labels.
    """

    title: str
    load: Callable[[], Raw]
    use: str
    n_components: int
    effort: Effort = Effort()
    without: tuple[str, ...] = ()

    def prepare(self, name, quick=False):
        """Load the rows, centre and scale them; `quick` keeps a few rows and tries little."""
        raw, effort, n_components = self.load(), self.effort, self.n_components
        parts, labels = list(raw.parts), raw.labels
        if quick:
            parts = [rows[:n] for rows, n in zip(parts, (500, 200, 200), strict=True)]
            labels = labels and tuple(y[: len(x)] for y, x in zip(labels, parts, strict=True))
            n_components = min(n_components, 32) if raw.atoms is None else n_components
            effort = replace(
                effort,
                alphas=effort.alphas[:2],
                nmf_alphas=effort.nmf_alphas[-1:],
                learning_rates=(3e-3,),
                epochs=(2, 4),
                sklearn_visits=500,
                spams_visits=2000,
            )
        parts[1] = parts[1][:MOST_VALIDATION_ROWS]
        # In double precision, because float32 sums of 200 000 rows lose digits.
        mean = parts[0].mean(axis=0, dtype=np.float64)
        scale = np.sqrt(np.mean(parts[0].var(axis=0, dtype=np.float64)))
        train, val, test = (((x - mean) / scale).astype(np.float32) for x in parts)
        return Data(
            name=name,
            use=self.use,
            n_components=n_components,
            effort=effort,
            train=train,
            val=val,
            test=test,
            offset=mean / scale,
            labels_train=labels and labels[0],
            labels_test=labels and labels[2],
            atoms=raw.atoms,
        )


def digits():
    return _pixels(load_digits())


def mnist():
    return _pixels(fetch_mnist())


def _pixels(data):
    """Pixels between 0 and 1; rounding errors of the scaling must not make them negative."""
    parts = (data.X_train, data.X_val, data.X_test)
    pixels = tuple(np.clip(data.preprocessor.inverse_transform(x), 0, None) for x in parts)
    return Raw(pixels, (data.y_train, data.y_val, data.y_test))


def natural():
    data = load_natural_patches(n_val=2000, n_test=5000)
    return Raw((data.X_train, data.X_val, data.X_test))


def photographs(n_train=50_000, n_val=2000, n_test=5000):
    """Grey patches of 8 x 8 pixels, without their means, of two photographs.

    The left three fifths of each are for training, the next fifth for validation and the last for
    the test, so that no pixel is in two parts.
    """
    pictures = [
        sklearn_datasets.load_sample_image(name).mean(axis=2) / 255
        for name in ("china.jpg", "flower.jpg")
    ]
    rng = np.random.RandomState(0)
    parts = []
    for (start, stop), n in zip(
        ((0, 0.6), (0.6, 0.8), (0.8, 1)), (n_train, n_val, n_test), strict=True
    ):
        pieces = np.array(
            [p[:, int(start * p.shape[1]) : int(stop * p.shape[1])] for p in pictures]
        )
        patches = PatchExtractor(patch_size=(8, 8), max_patches=n // 2, random_state=rng)
        rows = patches.transform(pieces).reshape(-1, 64)
        rows -= rows.mean(axis=1, keepdims=True)
        parts.append(rng.permutation(rows).astype(np.float32))
    return Raw(tuple(parts))


def breast_cancer():
    return _table(sklearn_datasets.load_breast_cancer)


def wine():
    return _table(sklearn_datasets.load_wine)


def _table(load):
    """Three fifths, one fifth and one fifth of a table, every feature divided by its deviation.

    With the mean that all methods subtract, this is what StandardScaler does. The mean is left to
    them because NMF needs the non-negative rows.
    """
    X, y = load(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.2, stratify=y, random_state=0)
    X, X_val, y, y_val = train_test_split(X, y, test_size=0.25, stratify=y, random_state=0)
    scale = X.std(axis=0)
    parts = tuple((part / scale).astype(np.float32) for part in (X, X_val, X_test))
    return Raw(parts, (y, y_val, y_test))


def spectra(n_train=5000, n_val=1000, n_test=2000, n_substances=20, n_wavelengths=256):
    """Mixtures of substances with peaks, on a smooth baseline, with noise.

    A substance has two to five Gaussian or Lorentzian peaks. A sample contains two to four
    substances in concentrations from 0.2 to 1, and a baseline of a constant, a slope and two broad
    humps. The class of a sample is the substance of highest concentration.
    """
    rng = np.random.default_rng(0)
    grid = np.linspace(0, 1, n_wavelengths)

    def peak():
        distance = (grid - rng.uniform(0.03, 0.97)) / rng.uniform(0.006, 0.025)
        shape = np.exp(-(distance**2) / 2) if rng.random() < 0.5 else 1 / (1 + distance**2)
        return rng.uniform(0.3, 1) * shape

    pure = np.array([sum(peak() for _ in range(rng.integers(2, 6))) for _ in range(n_substances)])
    n = n_train + n_val + n_test
    order = np.argsort(rng.random((n, n_substances)), axis=1)
    present = order < rng.integers(2, 5, size=(n, 1))
    concentrations = rng.uniform(0.2, 1, size=(n, n_substances)) * present
    centres, widths = rng.uniform(0, 1, (n, 2, 1)), rng.uniform(0.2, 0.5, (n, 2, 1))
    humps = rng.uniform(0, 0.3, (n, 2, 1)) * np.exp(-(((grid - centres) / widths) ** 2) / 2)
    baseline = 0.2 + rng.uniform(0, 0.2, (n, 1)) * grid + humps.sum(axis=1)
    rows = concentrations @ pure + baseline + 0.01 * rng.normal(size=(n, n_wavelengths))
    # The baseline is 20 deviations of the noise above zero: clipping is a formality.
    rows = np.clip(rows, 0, None).astype(np.float32)
    cuts = [n_train, n_train + n_val]
    labels = np.split(concentrations.argmax(axis=1), cuts)
    return Raw(tuple(np.split(rows, cuts)), tuple(labels))


def known_atoms(
    n_train=5000, n_val=2000, n_test=2000, n_atoms=100, n_features=63, n_active=10, noise_db=25
):
    """Sums of ten of a hundred random atoms of norm 1 with amplitudes of 0.5 to 1.5, with noise.

    The noise is `noise_db` below the rows.
    """
    rng = np.random.default_rng(0)
    atoms = rng.normal(size=(n_atoms, n_features))
    atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
    n = n_train + n_val + n_test
    active = np.argsort(rng.random((n, n_atoms)), axis=1) < n_active
    rows = (rng.uniform(0.5, 1.5, size=(n, n_atoms)) * active) @ atoms
    noise = rng.normal(size=rows.shape)
    rows += noise * np.sqrt(np.mean(rows**2) / np.mean(noise**2)) * 10 ** (-noise_db / 20)
    parts = np.split(rows.astype(np.float32), [n_train, n_train + n_val])
    return Raw(tuple(parts), atoms=atoms)


# Autoencoders get some 2000 to 3000 steps with batches of 250 rows, whatever the number of rows.
DATASETS = {
    "digits": Description(
        "Digits",
        digits,
        "choice",
        64,
        Effort(alphas=(0.003, 0.01, 0.03, 0.1, 0.2), epochs=(600,)),
    ),
    "mnist": Description(
        "MNIST",
        mnist,
        "choice",
        128,
        Effort(
            alphas=(0.03, 0.1),
            nmf_alphas=(1e-3, 1e-2),
            learning_rates=(3e-3, 1e-2),
            epochs=(14,),
            spams_visits=100_000,
        ),
    ),
    "natural": Description(
        "Natural patches",
        natural,
        "choice",
        256,
        Effort(alphas=(0.03, 0.1), learning_rates=(3e-3,), epochs=(4,), spams_visits=100_000),
        without=("nmf", "raw"),
    ),
    # Most patches are flat, so that smaller strengths give as many zeros as elsewhere.
    "photographs": Description(
        "Photograph patches",
        photographs,
        "unseen",
        128,
        Effort(alphas=(0.002, 0.006, 0.02)),
        without=("nmf", "raw"),
    ),
    "breast_cancer": Description(
        "Breast cancer", breast_cancer, "unseen", 32, Effort(epochs=(1000,))
    ),
    "wine": Description("Wine", wine, "unseen", 16, Effort(epochs=(2000,))),
    "spectra": Description("Spectra", spectra, "unseen", 32, Effort(epochs=(100,))),
    "known_atoms": Description(
        "Known atoms",
        known_atoms,
        "choice",
        100,
        Effort(epochs=(100,)),
        without=("nmf", "raw"),
    ),
}
