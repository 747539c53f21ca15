"""Every experiment of benchmarks/paper end to end, at toy size on digits, and its rules alone."""

import json
import re
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import joblib
import numpy as np
import pytest
from sklearn.metrics import top_k_accuracy_score

from benchmarks.paper import ablation, claims, low_data, models, probes, sweep, trade_off
from benchmarks.paper.__main__ import main
from benchmarks.paper.files import TARGETS, Folders
from benchmarks.paper.models import Run
from skvdl import VarianceDictionaryLearning, paper
from skvdl.datasets import load_digits

LAM = "0.005"


def arguments(folder):
    """Options that keep everything small and in a folder of its own."""
    places = [f"--{name}={folder / name}" for name in ("models", "results", "figures")]
    return ["--dataset=digits", "--size=toy", *places]


def run_of(system, lam=0.005, seed=0):
    return Run(system, "digits", lam, seed, size="toy")


def folders_in(folder):
    return Folders(folder / "models", folder / "results", folder / "figures")


def pixel_scale(data):
    """Pixels by which a scaled image differs from black where it differs by 1."""
    pixels = data.to_pixels(data.X_test)
    return np.ptp(pixels) / np.ptp(data.X_test)


def read(folder, kind, stem):
    return json.loads((folder / "results" / kind / f"{stem}.json").read_text())


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """Folder in which every experiment was run, then the report written without any model."""
    folder = tmp_path_factory.mktemp("paper")
    common = arguments(folder)
    few = ["--systems", "VDL", "DO", "--lams", LAM]
    commands = [
        ["trade-off", "--lams", LAM],
        ["trade-off", "--systems", "VDL", "--lams", LAM, "--seeds", "2"],
        ["denoising"],
        ["denoising", "--systems", "DO", "--lams", LAM],
        ["low-data", *few, "--labels", "1", "2", "all"],
        ["ablation"],
        ["atoms", *few],
    ]
    for command in commands:
        assert main([*command, *common]) == 0
    (folder / "models").rename(folder / "hidden")
    report = ["report", *common[3:], f"--output={folder / 'REPORT.md'}"]
    assert main(report) == 0
    (folder / "hidden").rename(folder / "models")
    return folder


@pytest.fixture(scope="module")
def page(done):
    return (done / "REPORT.md").read_text()


@pytest.mark.parametrize("system", paper.SYSTEMS)
def test_record_of_a_run_says_how_and_how_well(system, done):
    run = run_of(system)
    record = read(done, "runs", run.stem)
    model = joblib.load(models.model_path(run, folders_in(done)))
    for name, value in vars(run).items():
        assert record[name] == value
    assert record["n_iter"] == 4
    assert record["seconds"] > 0
    assert record["diverged"] is None
    assert record["history"]["l1"] == pytest.approx(model.history_["l1"], rel=1e-5)
    data = load_digits()
    for part, X in (("test", data.X_test), ("validation", data.X_val)):
        codes = model.transform(X)
        X_hat = model.inverse_transform(codes)
        scale = pixel_scale(data)
        ratios = [-20 * np.log10(scale * np.sqrt(np.mean(row**2))) for row in X - X_hat]
        assert record[part]["psnr"] == pytest.approx(np.mean(ratios), abs=1e-3)
        assert record[part]["sparsity"] == pytest.approx(np.mean(codes == 0), abs=1e-6)
        assert record[part]["dead"] == np.sum(np.all(codes == 0, axis=0))
        assert record[part]["l1"] == pytest.approx(np.abs(codes).sum() / len(X), rel=1e-4)


def test_nothing_is_done_twice(done, monkeypatch, capsys):
    def refuse(*args):
        raise AssertionError("already there")

    monkeypatch.setattr(VarianceDictionaryLearning, "fit", refuse)
    monkeypatch.setattr(probes, "probe", refuse)
    times = {path: path.stat().st_mtime_ns for path in done.rglob("*.json")}
    common = arguments(done)
    few = ["--systems", "VDL", "DO", "--lams", LAM]
    assert main(["train", *few, *common]) == 0
    assert main(["trade-off", *few, *common]) == 0
    assert main(["denoising", *common]) == 0
    assert main(["low-data", *few, "--labels", "2", "all", *common]) == 0
    assert main(["atoms", *few, *common]) == 0
    assert capsys.readouterr().out == ""
    assert times == {path: path.stat().st_mtime_ns for path in done.rglob("*.json")}


def test_records_without_models_are_enough_for_the_trade_off(done, tmp_path, monkeypatch):
    (tmp_path / "results").symlink_to(done / "results")
    monkeypatch.setattr(sweep, "fit_or_load", None)
    assert main(["trade-off", "--systems", "VDL", "--lams", LAM, *arguments(tmp_path)]) == 0
    assert main(["train", "--systems", "VDL", "--lams", LAM, *arguments(tmp_path)]) == 1


def test_interrupted_sweep_goes_on(tmp_path, monkeypatch):
    command = ["train", "--systems", "SDL", "VDL", "--lams", LAM, "--seeds", "2"]
    command += arguments(tmp_path)
    order, fit = [], VarianceDictionaryLearning.fit

    def interrupted(model, X, y=None):
        order.append((model.random_state, model.regularizer))
        if len(order) == 3:
            raise KeyboardInterrupt
        return fit(model, X, y)

    monkeypatch.setattr(VarianceDictionaryLearning, "fit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        main(command)
    # a first seed of everything comes first
    assert order == [(0, "unit_norm"), (0, "variance"), (1, "unit_norm")]
    assert len(list(tmp_path.rglob("*.joblib"))) == 2
    assert main(command) == 0
    assert order[3:] == [(1, "unit_norm"), (1, "variance")]
    assert len(list(tmp_path.rglob("*.joblib"))) == len(list(tmp_path.rglob("*.json"))) == 4
    assert not list(tmp_path.rglob("*.tmp"))


def test_one_failure_does_not_stop_the_others(tmp_path, monkeypatch, capsys):
    fit = VarianceDictionaryLearning.fit

    def fail(model, X, y=None):
        if model.regularizer == "unit_norm":
            raise RuntimeError("no luck")
        return fit(model, X, y)

    monkeypatch.setattr(VarianceDictionaryLearning, "fit", fail)
    command = ["train", "--systems", "SDL", "VDL", "--lams", LAM, *arguments(tmp_path)]
    assert main(command) == 1
    out, err = capsys.readouterr()
    assert f"[1/2] {run_of('SDL').stem} FAILED: no luck; " in out
    assert re.search(rf"\[2/2\] {run_of('VDL').stem}: .* dB, .* zeros, .*; 0 s left", out)
    assert "Traceback" in err
    assert not models.is_trained(run_of("SDL"), folders_in(tmp_path))
    assert models.is_trained(run_of("VDL"), folders_in(tmp_path))


def test_run_with_other_settings_counts_as_missing(done, monkeypatch):
    folders = folders_in(done)
    assert models.load_result(run_of("VDL"), folders) is not None
    assert models.load_result(run_of("VDL", seed=7), folders) is None
    monkeypatch.setattr(models, "_TOY", {**models._TOY, "learning_rate_init": 0.1})
    assert models.load_result(run_of("VDL"), folders) is None
    assert models.load_result(run_of("VDL"), folders, "denoising") is None


def test_divergence_after_some_epochs_is_a_result(tmp_path, monkeypatch):
    fit = VarianceDictionaryLearning.fit

    def diverge(model, X, y=None):
        fit(model, X, y)
        raise FloatingPointError("The energy is no longer finite")

    monkeypatch.setattr(VarianceDictionaryLearning, "fit", diverge)
    record = models.fit_or_load(run_of("unguarded"), load_digits(), folders_in(tmp_path))[1]
    assert record["diverged"] == "The energy is no longer finite"
    assert read(tmp_path, "runs", run_of("unguarded").stem) == record


def test_stems_differ_where_results_may():
    run = Run("VDL", "mnist", 0.005, 0)
    others = [{"system": "SDL"}, {"dataset": "digits"}, {"lam": 0.0005}, {"seed": 1}]
    others += [{"recipe": "paper"}, {"epochs": 5}, {"size": "toy"}]
    stems = {run.stem, *(replace(run, **change).stem for change in others)}
    assert len(stems) == 8
    assert run.stem == "mnist_VDL_lam0.005_seed0_fast"


def test_paper_recipe_learns_from_training_rows_and_judges_by_as_many_as_validate():
    data = load_digits()
    run = Run("VDL", "digits", 0.005, 0, recipe="paper")
    model = run.make()
    X = models.training_rows(run, model, data)
    assert len(X) == len(data.X_train) + len(data.X_val)
    assert round(model.validation_fraction * len(X)) == len(data.X_val)
    # the published step is right for the published gamma per component
    assert model.gamma / model.n_components == 5 / 128


def test_default_lams_are_published_or_reported():
    assert sweep.Plan(dataset="mnist").lams_of("SDL") == paper.lams("SDL")
    assert sweep.Plan(dataset="natural").lams_of("SDL") == (0.002, 0.005)
    assert sweep.Plan(dataset="natural", lams="all").lams_of("SDL") == paper.lams("SDL", "natural")
    assert sweep.Plan(dataset="mnist", lams="reported").lams_of("VDL") == (0.005, 0.02)
    assert len(sweep.Plan(seeds=3).runs()) == 3 * 8 * 6


def test_denoising_has_every_kind_of_codes_and_noise(done):
    entries = read(done, "denoising", run_of("VDL", 0.02).stem)["denoising"]
    keys = [(entry["codes"], entry["sigma"]) for entry in entries]
    assert keys == [("encoder", 1.0), ("encoder", 1.5), ("fista", 1.0), ("fista", 1.5)]
    scale = pixel_scale(load_digits())
    for entry in entries:
        # of so many pixels the mean of squares is close to the variance
        assert entry["psnr_noisy"] == pytest.approx(-20 * np.log10(entry["sigma"] * scale), abs=0.2)
        assert entry["psnr_noisy_rec"] > entry["psnr_noisy"] + 2
        assert entry["psnr_clean_rec"] > entry["psnr_noisy_rec"]
    encoder, exact = entries[0], entries[2]
    record = read(done, "runs", run_of("VDL", 0.02).stem)
    assert encoder["psnr_clean_rec"] == pytest.approx(record["test"]["psnr"])
    assert encoder["sparsity_clean"] == pytest.approx(record["test"]["sparsity"])
    assert exact["sparsity_clean"] > encoder["sparsity_clean"]
    only = read(done, "denoising", run_of("DO").stem)["denoising"]
    assert [entry["codes"] for entry in only] == ["fista", "fista"]


def test_probes_are_measured_by_both_protocols(done):
    for stem in (run_of("VDL").stem, run_of("DO").stem, "digits_rawpixels_seed0_toy"):
        found = read(done, "low_data", stem)["protocols"]
        for protocol, by in (("paper", "val"), ("strict", "cv")):
            assert list(found[protocol]) == ["1", "2", "all"]
            assert [entry["C"] for entry in found[protocol]["2"]] == list(probes.PENALTIES)
            assert all(0 < entry[by] <= 1 for entry in found[protocol]["2"])
            for entries in found[protocol].values():
                assert all(0 <= entry["top3"] <= entry["top1"] < 0.9 for entry in entries)
        # nothing of the validation set, and nothing to divide with one label a class
        assert all("val" not in entry for entry in found["strict"]["2"])
        assert all("cv" not in entry for entry in found["strict"]["1"])
    raw = read(done, "low_data", "digits_rawpixels_seed0_toy")["protocols"]
    scratch = read(done, "low_data", "digits_LISTA-linear_seed0_toy")["protocols"]
    for found in (raw, scratch):
        assert found["strict"]["all"][0]["top1"] < 0.15 < found["strict"]["1"][0]["top1"]


def test_more_labels_are_added_to_what_is_there(done, tmp_path, monkeypatch):
    run = run_of("VDL")
    quick = partial(low_data.LISTAClassifier, n_steps=5)
    monkeypatch.setattr(low_data, "LISTAClassifier", quick)
    for kind in ("runs", "low_data"):
        path = tmp_path / "results" / kind / f"{run.stem}.json"
        path.parent.mkdir(parents=True)
        path.write_text((done / "results" / kind / f"{run.stem}.json").read_text())
    (tmp_path / "models").symlink_to(done / "models")
    command = ["low-data", "--systems", "VDL", "--lams", LAM, "--labels", "5"]
    assert main([*command, *arguments(tmp_path)]) == 0
    before, after = (read(f, "low_data", run.stem)["protocols"] for f in (done, tmp_path))
    assert list(after["strict"]) == ["1", "2", "all", "5"]
    assert after["paper"]["2"] == before["paper"]["2"]


def test_low_data_needs_labels(monkeypatch, tmp_path):
    monkeypatch.setattr(low_data, "load_data", lambda *args: SimpleNamespace(y_train=None))
    with pytest.raises(SystemExit, match="no labels"):
        main(["low-data", *arguments(tmp_path)])


def test_top_errors_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    scores, y = rng.normal(size=(200, 10)), rng.integers(0, 10, 200)
    errors = probes.top_errors(scores, y)
    for k, name in ((1, "top1"), (3, "top3")):
        assert errors[name] == pytest.approx(1 - top_k_accuracy_score(y, scores, k=k))


def test_few_labels_are_as_many_of_every_class():
    y = np.repeat(np.arange(10), 30)
    rows = probes.draw_few(y, 7, np.random.default_rng(0))
    assert len(set(rows)) == 70
    assert np.bincount(y[rows]).tolist() == [7] * 10
    with pytest.raises(ValueError, match="Class 0 has 30 rows, fewer than 31"):
        probes.draw_few(y, 31, np.random.default_rng(0))


def test_strict_draws_differ_between_seeds_and_the_papers_do_not():
    data = SimpleNamespace(y_train=np.repeat(np.arange(10), 30))
    draws = [{p: rows for _, (p,), rows in low_data._draws(data, seed, [5])} for seed in (0, 1)]
    assert np.array_equal(draws[0]["paper"], draws[1]["paper"])
    assert not np.array_equal(draws[0]["strict"], draws[1]["strict"])


def test_folds_keep_labels_apart():
    y = np.repeat(np.arange(10), 4)
    folds = probes.splits(y, 0)
    assert len(folds) == 5 * 4
    for fit, judge in folds:
        assert not set(fit) & set(judge)
        assert np.bincount(y[judge]).tolist() == [1] * 10
    assert probes.splits(np.arange(10), 0) == []
    assert len(probes.splits(np.repeat(np.arange(10), 300), 0)) == 1


def probe_record(system, seed, lam, paper_entries, strict_entries, n=2):
    how = {"dataset": "mnist", "recipe": "fast", "epochs": None, "size": "full"}
    protocols = {"paper": {str(n): paper_entries}, "strict": {str(n): strict_entries}}
    return {"system": system, "seed": seed, "lam": lam, **how, "protocols": protocols}


def entry(top1, C=1.0, **by):
    return {"C": C, "top1": top1, "top3": top1 / 2, **by}


def test_papers_protocol_selects_by_mean_validation_accuracy():
    accuracies = {0.001: (0.9, 0.5), 0.005: (0.8, 0.7), 0.01: (0.6, 0.6)}
    records = [
        probe_record("VDL", seed, lam, [entry(lam, val=value)], [])
        for lam, values in accuracies.items()
        for seed, value in enumerate(values)
    ]
    assert [e["lam"] for e in low_data.select(records, "paper", 2)] == [0.005, 0.005]
    assert low_data.select(records, "paper", 5) is None


def test_strict_protocol_selects_for_each_seed_by_its_own_labels():
    scores = {(0, 0.001): 0.9, (0, 0.02): 0.8, (1, 0.001): 0.5, (1, 0.02): 0.6}
    records = [
        probe_record("VDL", seed, lam, [], [entry(0.1, C=10.0, cv=cv - 0.1), entry(0.2, cv=cv)])
        for (seed, lam), cv in scores.items()
    ]
    chosen = low_data.select(records, "strict", 2)
    assert [(e["seed"], e["lam"], e["C"]) for e in chosen] == [(0, 0.001, 1.0), (1, 0.02, 1.0)]


def test_strict_protocol_does_not_look_with_one_label_a_class():
    lams = paper.lams("VDL")
    entries = [entry(0.5), entry(0.01, C=100.0)]
    records = [probe_record("VDL", 0, lam, [], entries, n=1) for lam in lams]
    (chosen,) = low_data.select(records, "strict", 1)
    assert (chosen["lam"], chosen["C"]) == (lams[3], probes.FIXED_PENALTY)
    without = [record for record in records if record["lam"] != lams[3]]
    assert low_data.select(without, "strict", 1) is None


def test_equal_scores_fall_to_what_was_fixed_in_advance():
    records = [
        probe_record("VDL", 0, lam, [], [entry(0.1, C=C, cv=0.5) for C in probes.PENALTIES])
        for lam in paper.lams("VDL")
    ]
    (chosen,) = low_data.select(records, "strict", 2)
    assert (chosen["lam"], chosen["C"]) == (paper.lams("VDL")[3], probes.FIXED_PENALTY)


@pytest.mark.parametrize(
    ("psnr", "sparsity", "verdict"),
    [
        (-0.3, 0.02, "within"),
        (0.29, -0.019, "within"),
        (2.0, 0.1, "better in both"),
        (2.0, 0.0, "better in both"),
        (0.0, 0.0, "within"),
        (2.0, -0.01, "better in one, within in the other"),
        (-0.1, 0.2, "better in one, within in the other"),
        (2.0, -0.03, "missed"),
        (-0.4, 0.0, "missed"),
    ],
)
def test_verdicts_on_points(psnr, sparsity, verdict):
    assert trade_off.judge(psnr, sparsity, 0.3, 0.02) == verdict


def results_of(runs=(), low=(), noise=None):
    return SimpleNamespace(runs=list(runs), low_data=list(low), noise=noise or {})


def run_record(system, lam, psnr, sparsity, *, dataset="mnist", recipe="fast", seed=0, l1=(1, 1)):
    how = {"recipe": recipe, "epochs": None, "size": "full", "n_iter": 14, "diverged": None}
    test = {"psnr": psnr, "sparsity": sparsity, "dead": 0}
    point = {"system": system, "dataset": dataset, "lam": lam, "seed": seed, "test": test}
    return {**point, **how, "history": {"l1": list(l1)}}


def test_natural_patches_are_compared_relative_to_noise():
    runs = [run_record("VDL", 0.005, 28.3, 0.77, dataset="natural")]
    known = results_of(runs, noise={"natural": {"1.0": 21.1}})
    (point,) = trade_off.points(known, "natural")
    # 28.3 - 21.1 against 27.3 - 20.0
    assert point.difference == pytest.approx((-0.1, -0.003))
    assert point.verdict == "within"
    (point,) = trade_off.points(results_of(runs), "natural")
    assert point.difference is None


def test_point_for_which_the_paper_has_two_figures_may_meet_either():
    def verdict(psnr, sparsity):
        runs = [run_record("SDL", 0.005, psnr, sparsity)]
        return trade_off.points(results_of(runs), "mnist")[0].verdict

    assert verdict(18.5, 0.83) == "within"
    assert verdict(17.34, 0.896) == trade_off.OTHER_FIGURE
    assert verdict(16.0, 0.896) == "missed"


def test_point_used_is_one_that_is_met_else_the_fast_one():
    runs = [
        run_record("VDL", 0.005, 19.0, 0.69),
        run_record("VDL", 0.005, 20.75, 0.691, recipe="paper"),
        run_record("VDL", 0.003, 22.0, 0.6),
        run_record("VDL", 0.003, 22.5, 0.6, recipe="paper"),
    ]
    used = trade_off.chosen(trade_off.points(results_of(runs), "mnist"))
    assert used["VDL", 0.005].recipe == "paper"
    assert used["VDL", 0.003].recipe == "fast"


def test_curve_is_read_off_at_the_papers_zeros():
    runs = [run_record("VDL", 0.003, 22.0, 0.6), run_record("VDL", 0.01, 19.0, 0.9)]
    (curve,) = trade_off.curves(results_of(runs), "mnist").values()
    # the paper has 20.7 dB at 69 %: three tenths of the way
    assert trade_off.at_zeros(curve, 0.69) == pytest.approx(21.1)
    assert trade_off.at_zeros(curve, 0.91) is None
    lines = trade_off._curve_lines(results_of(runs), "mnist")
    assert "| VDL | 0.005 | 69.0 | 21.10 | 20.70 | +0.40 |" in lines
    assert not any("| 0.02 |" in line for line in lines)


@pytest.mark.parametrize(
    ("l1", "verdict"),
    [
        ([10, 8, 6, 4, 3], True),
        ([10, 5, 3, 3, 3], False),
        ([10, 9, 8, 7, 6], False),
        ([3, 5, 8, 9, 10], False),
    ],
)
def test_collapse_is_a_fall_that_goes_on(l1, verdict):
    assert ablation.collapsed(np.array(l1)) is verdict


def curves(best, *, without=(), most=0.95):
    """Runs of all systems on both datasets: the best one 1 dB above the others."""
    return [
        run_record(system, lam, psnr + (system == best), zeros, dataset=dataset)
        for dataset, systems in sweep.SYSTEMS.items()
        for system in systems
        for lam, zeros, psnr in ((0.0, 0.7, 22.0), (0.01, most, 17.0))
        if (dataset, system) not in without
    ]


@pytest.mark.parametrize(
    ("runs", "verdict"),
    [
        (curves("VDL-NL"), claims.CONFIRMED),
        (curves("SDL"), claims.REFUTED),
        (curves("VDL-NL", most=0.82), claims.CONFIRMED),
        (curves("VDL-NL", most=0.75), claims.NOT_RUN),
        (curves("VDL-NL", without=[("natural", "VDL-NL")]), claims.NOT_RUN),
        (curves("VDL-NL", without=[("mnist", "DO")]), claims.NOT_RUN),
        (curves("SDL", without=[("mnist", "DO")]), claims.REFUTED),
        ([], claims.NOT_RUN),
    ],
)
def test_first_claim(runs, verdict):
    assert claims.best_at_high_sparsity(results_of(runs)).verdict == verdict


def test_first_claim_tells_the_figures_it_rests_on():
    evidence = claims.best_at_high_sparsity(results_of(curves("VDL-NL"))).evidence
    # 80 % is 2/5 of the way from 70 % to 95 %: 22 - 2 dB
    assert evidence[0].startswith("MNIST, 80% zeros: VDL-NL 21.00 dB, SDL 20.00 dB, ")
    assert evidence[3].startswith("natural patches, 80% zeros: VDL-NL 21.00 dB, ")
    few = claims.best_at_high_sparsity(results_of(curves("VDL-NL", most=0.82))).evidence
    assert "not judged" in few[1]


def probe_results(errors, labels, strict=None):
    """Records of one seed with these errors by feature, and perhaps others in the strict one."""
    low = []
    for system in low_data.FEATURES:
        lam = paper.lams(system)[3] if system in paper.SYSTEMS else None
        record = probe_record(system, 0, lam, [], [])
        for protocol, values in (("paper", errors), ("strict", strict or errors)):
            found = [entry(values.get(system, 0.5), val=0.5)]
            record["protocols"][protocol] = {str(n): found for n in labels}
        low.append(record)
    return low


def test_claims_about_probes():
    good = {low_data.RAW: 0.3, "SDL": 0.2, "SDL-NL": 0.2, "VDL": 0.2, "VDL-NL": 0.1}
    every = (1, 2, 5, 10, 20, 50, 100)
    results = results_of(low=probe_results(good, every))
    assert claims.probes_beat_raw(results).verdict == claims.CONFIRMED
    assert claims.best_with_few_labels(results).verdict == claims.CONFIRMED
    # the same but for one feature
    for changed, first, second in (
        ({"VDL": 0.35}, claims.REFUTED, claims.CONFIRMED),
        ({"WDL": 0.05}, claims.CONFIRMED, claims.REFUTED),
        ({low_data.SCRATCH: 0.05}, claims.CONFIRMED, claims.REFUTED),
    ):
        results = results_of(low=probe_results({**good, **changed}, every))
        assert claims.probes_beat_raw(results).verdict == first
        assert claims.best_with_few_labels(results).verdict == second
    # SDL is excepted with one or two labels, not with more
    for labels, verdict in ((every[:2], claims.NOT_RUN), (every, claims.REFUTED)):
        results = results_of(low=probe_results({**good, "SDL": 0.4}, labels))
        assert claims.probes_beat_raw(results).verdict == verdict
    # the paper's protocol decides, the other is told
    results = results_of(low=probe_results(good, every, strict={**good, "VDL": 0.35}))
    judgement = claims.probes_beat_raw(results)
    assert judgement.verdict == claims.CONFIRMED
    assert f"protocol *strict*: **{claims.REFUTED}**" in judgement.evidence
    assert any("not below: VDL 35.0%" in line for line in judgement.evidence)


def test_claim_about_collapse():
    def runs(linear, network):
        return results_of(
            [
                run_record("unguarded", 0.005, 20, 0.5, l1=linear),
                run_record("unguarded-NL", 0.005, 20, 0.5, l1=network),
                run_record("VDL", 0.005, 20, 0.5, l1=(9, 9, 9)),
            ]
        )

    judged = claims.collapse_without_guard(runs((10, 5, 1), (8, 4, 2)))
    assert judged.verdict == claims.CONFIRMED
    assert any("with a guard (VDL): no collapse" in line for line in judged.evidence)
    assert any("unguarded: l1 norm from 10 to 1, 0 dead" in line for line in judged.evidence)
    assert claims.collapse_without_guard(runs((10, 5, 1), (8, 8, 8))).verdict == claims.REFUTED
    assert claims.collapse_without_guard(results_of()).verdict == claims.NOT_RUN


def section(page, title, dataset):
    """Part of the report on one experiment and dataset."""
    text = page.partition(f"\n## {title}")[2].partition("\n## ")[0]
    return text.partition(f"\n### {dataset}\n")[2].partition("\n### ")[0]


def cells(text, *start):
    """Rows of a table that begin with these cells."""
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return [row for row in rows if row[: len(start)] == list(start)]


def test_report_shows_every_published_point_as_not_run(page):
    mnist = section(page, "Trade-off", "MNIST")
    for system in paper.SYSTEMS:
        for lam in paper.lams(system):
            ((_, _, recipe, *_),) = cells(mnist, system, f"{lam:g}")
            assert recipe == "not run"
    natural = section(page, "Trade-off", "natural patches")
    for target in TARGETS["trade_off"]:
        text = mnist if target["dataset"] == "mnist" else natural
        (row,) = cells(text, target["system"], f"{target['lam']:g}")
        assert f"{target['psnr']:.1f}" in row
        assert f"{100 * target['sparsity']:.1f}" in row
        assert row[-1] == "not run"
    assert "Of 12 points that the paper has figures for: 12 not run." in mnist
    assert "the two disagree" in mnist
    for title in ("Denoising", "Classification", "Ablation"):
        assert "not run" in section(page, title, "MNIST")
    for number in range(1, 5):
        assert re.search(rf"\n{number}\. .*: \*\*not run\*\*\n", page)


def test_report_shows_what_was_run(page, done):
    digits = section(page, "Trade-off", "digits")
    for system in paper.SYSTEMS:
        ((_, _, recipe, epochs, seeds, psnr, zeros, _),) = cells(digits, system, LAM)
        records = [read(done, "runs", run_of(system).stem)]
        if system == "VDL":
            records.append(read(done, "runs", run_of(system, seed=1).stem))
        assert (recipe, epochs, seeds) == ("fast, toy", "4", str(len(records)))
        values = [record["test"]["psnr"] for record in records]
        spread = f" ± {np.std(values):.2f}" if len(values) > 1 else ""
        assert psnr == f"{np.mean(values):.2f}{spread}"
        assert zeros.startswith(f"{100 * np.mean([r['test']['sparsity'] for r in records]):.1f}")
    ((*_, psnr),) = cells(section(page, "Denoising", "digits"), "VDL", "0.02", "1.5", "fista")
    entries = read(done, "denoising", run_of("VDL", 0.02).stem)["denoising"]
    assert psnr == f"{entries[3]['psnr_noisy_rec']:.2f}"
    rows = cells(section(page, "Classification", "digits"), "VDL")
    errors = [row for row in rows if row[1] == "fast, toy"]
    assert len(errors) == 4  # two protocols, two measures
    # middle lam of SDL, whose lams DO has, was not run: it cannot be taken in advance
    assert all(row[3] != "not run" and row[6] == "not run" for row in errors)
    strict = cells(section(page, "Classification", "digits"), "DO", "fast, toy")[2]
    assert strict[3] == "not run"
    collapse = cells(section(page, "Ablation", "digits"), "unguarded-NL")
    l1 = read(done, "runs", run_of("unguarded-NL").stem)["history"]["l1"]
    assert collapse[0][5:8] == [f"{value:.3g}" for value in (l1[0], l1[2], l1[3])]


def test_report_has_its_pictures(page, done):
    links = re.findall(r"!\[.*?\]\((.*?)\)", page)
    names = {link.rpartition("/")[2] for link in links}
    assert {"trade_off_digits.png", "low_data_digits.png"} <= names
    for stem in (run_of("VDL").stem, run_of("DO").stem):
        assert f"atoms_{stem}.png" in names
    assert f"denoising_{run_of('VDL', 0.02).stem}.png" in names
    assert any(name.startswith("ablation_digits") for name in names)
    for link in links:
        assert (done / link).read_bytes().startswith(b"\x89PNG")


def test_paper_figures_are_compared_and_judged(tmp_path):
    """A report on made-up results of MNIST: verdicts, differences, and which recipe is used."""
    runs = tmp_path / "results" / "runs"
    runs.mkdir(parents=True)
    for recipe, psnr in (("fast", 19.0), ("paper", 20.75)):
        for seed in range(2):
            record = run_record("VDL", 0.005, psnr + 0.02 * seed, 0.7, recipe=recipe, seed=seed)
            (runs / f"{recipe}{seed}.json").write_text(json.dumps(record))
    denoising = tmp_path / "results" / "denoising"
    denoising.mkdir()
    target = next(t for t in TARGETS["denoising"] if t["system"] == "VDL" and t["sigma"] == 1.5)
    found = {**target, "codes": "encoder", "psnr_noisy_rec": target["psnr_noisy_rec"] - 0.7}
    record = {**run_record("VDL", 0.02, 17.0, 0.9), "denoising": [found], "figure": None}
    (denoising / "one.json").write_text(json.dumps(record))
    output = tmp_path / "REPORT.md"
    places = [f"--{name}={tmp_path / name}" for name in ("results", "figures")]
    assert main(["report", *places, f"--output={output}"]) == 0
    text = section(output.read_text(), "Trade-off", "MNIST")
    fast, slow = cells(text, "VDL", LAM)
    assert fast[4:8] == ["2", "19.01 ± 0.01", "20.7", "-1.69"]
    assert fast[8:] == ["70.0 ± 0.0", "69.0", "+1.0", "0", "missed"]
    assert slow[4:8] == ["2", "20.76 ± 0.01", "20.7", "+0.06"]
    assert slow[-2:] == ["better in both", "used"]
    assert "11 not run, 1 better in both" in text
    text = section(output.read_text(), "Denoising", "MNIST")
    ((*_, denoised, verdict),) = cells(text, "VDL", "0.02", "1.5")
    assert denoised == "11.50 (12.2)"
    assert verdict == "missed by 0.70 dB"
