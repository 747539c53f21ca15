"""benchmarks/bench_rivals: its runner at toy size, and its parts against independent results."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.optimize import nnls

from benchmarks import bench_rivals
from benchmarks.rivals import data as rival_data
from benchmarks.rivals import measures
from benchmarks.rivals import run as rival_run
from benchmarks.rivals.autoencoders import (
    Autoencoder,
    fit_autoencoder,
    keep_batch_top_k,
    keep_top_k,
)
from benchmarks.rivals.data import DATASETS, Description, Effort, Raw
from benchmarks.rivals.dictionaries import ScikitLearn, Spams, spams
from benchmarks.rivals.factors import NMF, PCA
from benchmarks.rivals.measures import atoms_found, decibels, labelled_rows, zeros
from benchmarks.rivals.methods import find_strength
from benchmarks.rivals.refit import refit
from benchmarks.rivals.report import TITLES, at_zeros, by_dataset, markdown, summary

TINY = Effort(
    alphas=(0.03, 0.1),
    nmf_alphas=(0.0, 1e-2),
    learning_rates=(3e-3, 1e-2),
    epochs=(2, 4),
    sklearn_visits=200,
    spams_visits=1000,
)


def toy():
    """Non-negative mixtures of known atoms, in two classes."""
    rng = np.random.default_rng(0)
    atoms = rng.random((6, 9)) * (rng.random((6, 9)) < 0.5) + 0.01
    codes = rng.exponential(size=(160, 6)) * (rng.random((160, 6)) < 0.4)
    rows = (codes @ atoms + 0.01 * rng.random((160, 9))).astype(np.float32)
    labels = (codes[:, 0] > 0).astype(int)
    return Raw(tuple(np.split(rows, [80, 120])), tuple(np.split(labels, [80, 120])), atoms=atoms)


@pytest.fixture
def toy_data(monkeypatch):
    """The only data set of the suite."""
    description = Description("Toy", toy, "unseen", 6, TINY)
    monkeypatch.setitem(DATASETS, "wine", description)
    monkeypatch.setattr(measures, "DRAWS", 3)
    return description.prepare("wine")


def command(tmp_path, *arguments):
    folders = ("--results", str(tmp_path / "results"), "--figures", str(tmp_path / "figures"))
    return bench_rivals.main([*arguments, "--datasets", "wine", *folders])


# --- the runner


@pytest.fixture
def counted(monkeypatch):
    """Calls of PCA.solve, the method that tests of resuming watch."""
    calls, solve = [], PCA.solve
    monkeypatch.setattr(PCA, "solve", lambda self, level: calls.append(level) or solve(self, level))
    return calls


def test_a_result_that_is_there_is_not_computed_again(toy_data, counted, tmp_path, capsys):
    methods = ("--methods", "pca", "raw")
    assert command(tmp_path, *methods, "--levels", "0.6") == 0
    assert command(tmp_path, *methods, "--levels", "0.6", "0.8") == 0
    assert counted == [0.6, 0.8]
    assert "1 results to compute" in capsys.readouterr().out
    lines = (tmp_path / "results" / "rivals.jsonl").read_text().splitlines()
    assert [json.loads(line)["name"] for line in lines] == [
        "wine/pca/0.6/0",
        "wine/pca/0.8/0",
        "wine/raw/-/0",
    ]
    assert command(tmp_path, *methods, "--levels", "0.6", "--seed", "1") == 0
    assert command(tmp_path, *methods, "--levels", "0.6", "--fresh") == 0
    assert counted == [0.6, 0.8, 0.6, 0.6]


def test_quick_results_are_in_files_of_their_own(toy_data, counted, tmp_path):
    for quick in ([], ["--quick"]):
        assert command(tmp_path, "--methods", "pca", "--levels", "0.6", *quick) == 0
    assert len(counted) == 2
    for folder, ending in (("results", ".jsonl"), ("figures", "_wine.png")):
        for name in ("rivals", "rivals_quick"):
            assert (tmp_path / folder / f"{name}{ending}").exists()
    record = json.loads((tmp_path / "results" / "rivals_quick.jsonl").read_text())
    assert record["quick"]


def test_every_rival_gives_a_full_record_and_the_report_has_it(toy_data, tmp_path, capsys):
    rivals = [m for m in rival_run.METHODS if not m.startswith("vdl")]
    assert command(tmp_path, "--methods", *rivals, "--levels", "0.6") == 0
    if spams is None:
        rivals = [m for m in rivals if m not in Spams.entries]
    out = capsys.readouterr().out
    assert "not used for any choice" in out
    records = [
        json.loads(line)
        for line in (tmp_path / "results" / "rivals.jsonl").read_text().splitlines()
    ]
    assert {r["method"] for r in records} == set(rivals)
    for record in records:
        assert f"| {TITLES[record['method']]} |" in out
        assert 0 <= record["probe"]["accuracy"] <= 1
        if record["method"] == "raw":
            continue
        assert np.isfinite(record["db"])
        assert record["fit_seconds"] > 0
        assert record["transform_seconds"] > 0
        if record["method"] not in ("pca", "nmf"):
            assert record["zeros"] == pytest.approx(record["level"], abs=0.12)
            assert 0 < record["atoms"]["mean_cosine"] <= 1
        if "topk" in record["method"]:
            quick = record["settings"]["quickest_near_best"]
            assert quick["val_db"] >= record["settings"]["val_db"] - 0.3
    assert command(tmp_path, "report") == 0
    assert "| TopK |" in capsys.readouterr().out


def test_missing_files_and_failures_are_reported_and_the_rest_is_done(
    toy_data, tmp_path, monkeypatch, capsys
):
    def solve(self, level):
        raise RuntimeError("no solution")

    monkeypatch.setattr(NMF, "solve", solve)
    assert command(tmp_path, "--methods", "nmf", "pca", "--levels", "0.6") == 1
    captured = capsys.readouterr()
    assert "no solution" in captured.err
    assert "wine, pca, 60%" in captured.out

    def load():
        raise FileNotFoundError("no folder mnist")

    monkeypatch.setitem(DATASETS, "wine", Description("Toy", load, "unseen", 6, TINY))
    assert command(tmp_path, "--methods", "pca", "--levels", "0.7") == 1
    assert "wine is skipped: no folder mnist" in capsys.readouterr().out


def test_without_spams_it_is_skipped(toy_data, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(rival_run, "spams", None)
    assert command(tmp_path, "--methods", "spams", "pca", "--levels", "0.6") == 0
    assert "SPAMS is not installed" in capsys.readouterr().out


def test_results_are_compared_at_equal_zeros():
    def record(method, level, db, share):
        seconds = {"fit_seconds": 1.0, "transform_seconds": 1.0}
        sizes = {"shape": [9, 3], "test_rows": 9, "n_components": 4}
        return {"dataset": "wine", "method": method, "level": level, "db": db, "zeros": share,
                **seconds, **sizes}  # fmt: skip

    records = [
        record("topk", 0.7, 12.0, 0.7),
        record("topk", 0.8, 10.0, 0.8),
        # what looks better has fewer zeros
        record("spams", 0.7, 13.0, 0.6),
        record("spams", 0.8, 10.5, 0.7),
        record("pca", 0.8, 20.0, 0.0),
    ]
    text = markdown("wine", by_dataset(records)["wine"])
    assert "| TopK | **12.00** | **10.00** |" in text
    assert "| SPAMS | 10.50 | - |" in text
    assert "| PCA (dense) | - | 20.00 |" in text


def test_summary_sets_the_best_rival_against_vdl():
    def record(method, level, db):
        return {"dataset": "wine", "method": method, "level": level, "db": db, "zeros": level}

    records = [
        record(method, level, db)
        for method, pair in {"vdl": (12, 9), "topk": (11, 8), "spams": (10, 9.5)}.items()
        for level, db in zip((0.8, 0.9), pair, strict=True)
    ]
    rows = summary(by_dataset(records)).splitlines()
    assert rows[4] == "| Wine | VDL | - | - | **12.00** | 9.00 |"
    assert rows[5] == "|  | best rival | - | - | 11.00 | **9.50** |"


def test_reconstruction_at_zeros_in_between_and_a_little_beyond():
    shares, db = [0.7, 0.62, 0.9], [10.0, 12.0, 6.0]
    assert at_zeros(shares, db, 0.66) == pytest.approx(11)
    assert at_zeros(shares, db, 0.7) == pytest.approx(10)
    assert at_zeros(shares, db, 0.8) == pytest.approx(8)
    assert at_zeros(shares, db, 0.6) == pytest.approx(12.5)
    assert at_zeros(shares, db, 0.92) == pytest.approx(5.6)
    assert at_zeros(shares, db, 0.5) is None
    assert at_zeros([0.8], [10.0], 0.8) is None


# --- measures and solvers against independent results


def test_refit_is_non_negative_least_squares_on_the_support():
    rng = np.random.default_rng(0)
    atoms = rng.normal(size=(12, 10))
    atoms[1] = atoms[0] + 0.05 * rng.normal(size=10)  # nearly equal: pivoting has work to do
    X = rng.normal(size=(60, 10))
    codes = rng.random((60, 12)) * (rng.random((60, 12)) < 0.6)
    codes[0] = 0
    found = refit(X, atoms, codes)
    n_dropped = 0
    for x, code, z in zip(X, codes, found, strict=True):
        support = np.flatnonzero(code)
        expected = np.zeros(12)
        if len(support):
            expected[support] = nnls(atoms[support].T, x)[0]
        np.testing.assert_allclose(z, expected, atol=1e-6)
        n_dropped += len(support) - np.count_nonzero(z)
    assert n_dropped > 60  # the constraint is active


def test_refit_handles_equal_atoms():
    atoms = np.ones((3, 4)) / 2
    X = np.array([[1.0, 1.0, 1.0, 1.0]])
    np.testing.assert_allclose(refit(X, atoms, np.ones((1, 3))) @ atoms, X, atol=1e-6)


def test_atoms_found_undoes_permutation_and_scale_but_not_sign():
    rng = np.random.default_rng(0)
    true = rng.normal(size=(8, 20))
    shuffled = true[rng.permutation(8)] * rng.uniform(0.1, 10, size=(8, 1))
    assert atoms_found(shuffled, true) == pytest.approx({"mean_cosine": 1, "share_above_0.9": 1})
    assert atoms_found(-shuffled, true)["mean_cosine"] < 0.7
    # atoms that are missing count
    half = atoms_found(true[:4], true)
    assert half == pytest.approx({"mean_cosine": 0.5, "share_above_0.9": 0.5})
    # one learnt atom is not found twice
    double = atoms_found(np.repeat(true[:1], 8, axis=0), true)
    assert double["share_above_0.9"] == pytest.approx(1 / 8)


def test_strength_is_found_for_a_share_of_zeros():
    values = np.random.default_rng(0).lognormal(sigma=2, size=10_000)
    calls = []

    def codes_at(strength):
        calls.append(strength)
        return np.maximum(values - strength, 0)

    for level in (0.1, 0.6, 0.9, 0.99):
        calls.clear()
        strength = find_strength(codes_at, level, 1e-4, 1e4)
        assert zeros(codes_at(strength)) == pytest.approx(level, abs=0.002)
        assert len(calls) < 15
    # out of reach: the nearest end
    sparse = np.where(values > np.quantile(values, 0.8), values, 0)
    found = find_strength(lambda s: np.maximum(sparse - s, 0), 0.5, 1e-4, 1e4)
    assert found < 2e-3


def test_decibels_are_relative_to_the_mean():
    X = np.random.default_rng(0).normal(size=(50, 4))
    assert decibels(X, np.zeros_like(X)) == pytest.approx(0)
    assert decibels(X, 0.9 * X) == pytest.approx(20)


def test_labels_are_drawn_per_class_and_alike_for_all():
    labels = np.repeat([0, 1, 2], [50, 30, 6])
    draws = labelled_rows(labels, 0)
    for draw in draws:
        assert len(set(draw)) == 15
        np.testing.assert_array_equal(np.bincount(labels[draw]), [5, 5, 5])
    np.testing.assert_array_equal(draws, labelled_rows(labels, 0))
    assert (draws != labelled_rows(labels, 1)).any()


# --- rivals


def test_top_k_keeps_the_largest():
    latents = torch.rand(7, 10) + 0.1
    kept = keep_top_k(latents, 3)
    assert ((kept > 0).sum(dim=1) == 3).all()
    np.testing.assert_allclose(kept.sort(dim=1).values[:, -3:], latents.sort(dim=1).values[:, -3:])
    kept = keep_batch_top_k(latents, 3)
    assert (kept > 0).sum() == 21
    assert kept[kept > 0].min() > latents[kept == 0].max()


@pytest.mark.parametrize("over_batch", [False, True])
def test_autoencoder_learns_atoms_of_norm_one_and_has_k_active(toy_data, over_batch):
    train, test = toy_data.train, toy_data.test
    model = fit_autoencoder(train, 6, 2, over_batch, 1e-2, 60, seed=0)
    norms = model.decoder.detach().norm(dim=1)
    np.testing.assert_allclose(norms, 1, rtol=1e-5)
    active = (model.encode(train) > 0).sum(axis=1)
    if over_batch:
        assert active.sum() == 2 * len(train)
        # after training, a code does not depend on other rows
        one_by_one = [model.encode(test[i : i + 1]) for i in range(len(test))]
        np.testing.assert_allclose(np.vstack(one_by_one), model.encode(test), atol=1e-6)
    else:
        assert active.max() == 2
    start = Autoencoder(6, 9, 2, over_batch, torch.Generator().manual_seed(0))
    assert torch.equal(start.encoder, start.decoder)
    assert decibels(test, model.decode(model.encode(test))) > 3


def test_dead_latents_are_revived(toy_data, monkeypatch):
    make = Autoencoder.__init__

    def half_dead(self, *arguments):
        make(self, *arguments)
        self.encoder_bias.data[:3] = -6.0

    monkeypatch.setattr(Autoencoder, "__init__", half_dead)
    model = fit_autoencoder(toy_data.train, 6, 2, False, 0.1, 200, seed=0)
    assert (model.encode(toy_data.train) > 0).any(axis=0).sum() > 3


@pytest.mark.parametrize("family", [ScikitLearn, Spams])
def test_dictionaries_solve_the_same_lasso(toy_data, family):
    if family is Spams and spams is None:
        pytest.skip("SPAMS is not installed")
    method = family(toy_data, 0)
    rng = np.random.default_rng(0)
    atoms = rng.normal(size=(6, 9))
    atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
    alpha = 0.3
    X = toy_data.val if family is ScikitLearn else toy_data.val.astype(np.float64)
    codes = method.lasso(X, atoms, alpha)
    assert codes.min() >= 0
    # optimality: the gradient is -alpha where codes are active, and not below it elsewhere
    gradient = (codes @ atoms - X) @ atoms.T
    np.testing.assert_allclose(gradient[codes > 0], -alpha, atol=0.02)
    assert gradient.min() > -alpha - 0.02


# --- data sets


def test_known_atoms_are_what_they_are_described_as():
    raw = rival_data.known_atoms(n_train=400, n_val=50, n_test=50)
    rows = np.vstack(raw.parts)
    assert raw.atoms.shape == (100, 63)
    np.testing.assert_allclose(np.linalg.norm(raw.atoms, axis=1), 1)
    # ten atoms with amplitudes of mean square 1.083 explain the rows, up to noise 25 dB below
    assert np.mean((rows**2).sum(axis=1)) == pytest.approx(10 * 13 / 12, rel=0.2)
    codes = np.array([nnls(raw.atoms.T, x)[0] for x in rows[:40].astype(np.float64)])
    large = (codes > 0.4).sum(axis=1)
    assert large.mean() == pytest.approx(10, abs=1.5)
    again = rival_data.known_atoms(n_train=400, n_val=50, n_test=50)
    np.testing.assert_array_equal(again.parts[0], raw.parts[0])


@pytest.mark.parametrize("name", sorted(set(DATASETS) - {"mnist", "natural"}))
def test_data_sets_without_files(name):
    pytest.importorskip("PIL")
    description = DATASETS[name]
    raw = description.load()
    data = replace(description, load=lambda: raw).prepare(name)
    assert data.train.dtype == data.val.dtype == data.test.dtype == np.float32
    np.testing.assert_allclose(data.train.mean(axis=0), 0, atol=1e-4)
    assert data.train.std() == pytest.approx(1, rel=1e-3)
    assert (data.labels_train is None) == ("raw" in description.without)
    non_negative = all(part.min() >= 0 for part in raw.parts)
    assert non_negative == ("nmf" not in description.without)
    if data.labels_train is not None:
        assert np.bincount(data.labels_train).min() >= 5
    assert description.use == ("choice" if name in ("digits", "known_atoms") else "unseen")
