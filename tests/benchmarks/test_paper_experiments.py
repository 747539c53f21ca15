"""Every experiment of benchmarks/paper end to end, at toy size on digits."""

import os
import re
import signal
import sys
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import joblib
import numpy as np
import pytest
from _paper_helpers import cells, folders_in, read, run_record, section

from benchmarks.paper import settings
from benchmarks.paper.__main__ import main
from benchmarks.paper.draws import pack, unpack
from benchmarks.paper.run import low_data, models, probes, sweep
from benchmarks.paper.run.plan import Plan
from benchmarks.paper.settings import LOW_DATA, Run
from benchmarks.paper.targets import TARGETS
from skvdl import VarianceDictionaryLearning, paper
from skvdl.datasets import load_digits

# Tracing many fits takes long, and other tests reach the same lines of the package.
pytestmark = pytest.mark.no_cover

LAM = "0.005"


def arguments(folder):
    """Options that keep everything small and in a folder of its own."""
    places = [f"--{name}={folder / name}" for name in ("models", "results", "figures")]
    return ["--dataset=digits", "--size=toy", *places]


def run_of(system, lam=0.005, seed=0):
    return Run(system, "digits", lam, seed, size="toy")


def pixel_scale(data):
    """Pixels by which a scaled image differs from black where it differs by 1."""
    pixels = data.to_pixels(data.X_test)
    return np.ptp(pixels) / np.ptp(data.X_test)


def labels_of(folder, protocol, name):
    """Entries of a protocol by number of labels."""
    labels = read(folder, LOW_DATA[protocol], name)["labels"]
    return {n: unpack(packed) for n, packed in labels.items()}


def tables_in(folder):
    return {path: path.read_bytes() for path in folder.glob("*.jsonl")}


def copy_records(old, new, kind, names=None):
    """Copy records of one kind to other tables."""
    records = folders_in(old).table(kind).read()
    for name in names or records:
        folders_in(new).table(kind).put(name, records[name])


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
    record = read(done, "runs", run.name)
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
    tables = tables_in(done / "results")
    common = arguments(done)
    few = ["--systems", "VDL", "DO", "--lams", LAM]
    assert main(["train", *few, *common]) == 0
    assert main(["trade-off", *few, *common]) == 0
    assert main(["denoising", *common]) == 0
    assert main(["low-data", *few, "--labels", "2", "all", *common]) == 0
    assert main(["atoms", *few, *common]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines
    folder = done / "results"
    assert all(line.endswith(f": nothing left to do, results are in {folder}") for line in lines)
    assert tables == tables_in(done / "results")


def test_records_without_models_are_enough_for_the_trade_off(done, tmp_path, monkeypatch):
    (tmp_path / "results").symlink_to(done / "results")
    monkeypatch.setattr(sweep, "fit_or_load", None)
    assert main(["trade-off", "--systems", "VDL", "--lams", LAM, *arguments(tmp_path)]) == 0
    assert main(["train", "--systems", "VDL", "--lams", LAM, *arguments(tmp_path)]) == 1


def test_interrupted_sweep_goes_on(tmp_path, monkeypatch, capsys):
    command = ["train", "--systems", "SDL", "VDL", "--lams", LAM, "--seeds", "2"]
    command += arguments(tmp_path)
    order, fit = [], VarianceDictionaryLearning.fit

    def interrupted(model, X, y=None):
        order.append((model.random_state, model.regularizer))
        if len(order) == 3:
            raise KeyboardInterrupt
        return fit(model, X, y)

    monkeypatch.setattr(VarianceDictionaryLearning, "fit", interrupted)
    assert main(command) == 130
    assert "the same command continues where this one stopped" in capsys.readouterr().err
    # a first seed of everything comes first
    assert order == [(0, "unit_norm"), (0, "variance"), (1, "unit_norm")]
    assert len(list(tmp_path.rglob("*.joblib"))) == 2
    assert main(command) == 0
    assert order[3:] == [(1, "unit_norm"), (1, "variance")]
    assert len(list(tmp_path.rglob("*.joblib"))) == 4
    assert len(folders_in(tmp_path).table("runs").read()) == 4
    assert not list(tmp_path.rglob("*.tmp"))


@pytest.mark.parametrize(("jobs", "terminal"), [(1, True), (1, False), (2, True)])
def test_epochs_of_a_long_run_are_shown_to_who_watches_it(
    jobs, terminal, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    plan = Plan(dataset="digits", size="toy", jobs=jobs, folders=folders_in(tmp_path))
    sweep._train_one(run_of("VDL"), plan)
    assert ("4/4" in capsys.readouterr().err) == (terminal and jobs == 1)


def test_missing_images_are_told_without_a_traceback(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("SKVDL_DATA_HOME", str(tmp_path))
    assert main(["train", *arguments(tmp_path), "--dataset=natural"]) == 1
    assert capsys.readouterr().err.startswith(f"There is no folder {tmp_path / 'natural'}.")


@pytest.mark.parametrize("option", ["--seeds", "--jobs", "--epochs"])
def test_counts_start_from_one(option, capsys):
    with pytest.raises(SystemExit):
        main(["train", option, "0"])
    assert f"argument {option}: 0 is less than 1" in capsys.readouterr().err


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
    assert f"[1/2] {run_of('SDL').name} FAILED: no luck; " in out
    assert re.search(rf"\[2/2\] {run_of('VDL').name}: .* dB, .* zeros, .*; 0 s left", out)
    assert "Traceback" in err
    plan = Plan(folders=folders_in(tmp_path))
    assert sweep.trained([run_of("SDL"), run_of("VDL")], plan) == [run_of("VDL")]


def test_run_with_other_settings_counts_as_missing(done, monkeypatch):
    runs, denoising = (folders_in(done).table(kind).read() for kind in ("runs", "denoising"))
    name = run_of("VDL", 0.02).name
    assert models.current(name, runs) == runs[name]
    assert models.current(name, denoising) == denoising[name]
    assert models.current(run_of("VDL", seed=7).name, runs) is None
    monkeypatch.setattr(settings, "_TOY", {**settings._TOY, "learning_rate_init": 0.1})
    assert models.current(name, runs) is None
    assert models.current(name, denoising) is None


def test_model_older_than_its_record_is_trained_again(tmp_path):
    run, folders, data = run_of("VDL"), folders_in(tmp_path), load_digits()
    fitted = models.fit_or_load(run, data, folders)[0]
    joblib.dump(fitted.set_params(lam=0.5), models.model_path(run, folders))
    model, record = models.fit_or_load(run, data, folders)
    assert model.lam == record["parameters"]["lam"] == 0.005
    assert models.measure(model, data, "test")["psnr"] == pytest.approx(record["test"]["psnr"])


def test_report_leaves_out_records_with_other_settings(done, tmp_path, monkeypatch, capsys):
    output = tmp_path / "REPORT.md"
    places = [f"--results={done / 'results'}", f"--figures={tmp_path}", f"--output={output}"]
    assert main(["report", *places]) == 0
    assert "left out" not in capsys.readouterr().out
    monkeypatch.setattr(settings, "_TOY", {**settings._TOY, "learning_rate_init": 0.1})
    assert main(["report", *places]) == 0
    n_records = sum(
        "lam" in name
        for kind in ("runs", "denoising", "atoms", *LOW_DATA.values())
        for name in folders_in(done).table(kind).read()
    )
    assert f"left out: {n_records} records" in capsys.readouterr().out
    assert "fast, toy" not in output.read_text()


def test_several_processes_do_the_same(done, tmp_path):
    command = ["train", "--systems", "SDL", "VDL", "--lams", LAM, "--jobs", "2"]
    assert main([*command, *arguments(tmp_path)]) == 0
    for system in ("SDL", "VDL"):
        alone, beside = (read(folder, "runs", run_of(system).name) for folder in (done, tmp_path))
        assert beside["test"] == pytest.approx(alone["test"], rel=1e-4)
        assert sweep.trained([run_of(system)], Plan(folders=folders_in(tmp_path)))


def test_killed_process_counts_as_a_failure(tmp_path, capfd):
    plan = Plan(dataset="digits", size="toy", jobs=2, folders=folders_in(tmp_path))
    runs = [run_of("VDL", seed=seed) for seed in range(2)]
    assert sweep.each(_kill_oneself, runs, plan, "nothing") == 2
    assert "terminated" in capfd.readouterr().err


def _kill_oneself(run, plan):
    os.kill(os.getpid(), signal.SIGKILL)


def test_divergence_after_some_epochs_is_a_result(tmp_path, monkeypatch):
    fit = VarianceDictionaryLearning.fit

    def diverge(model, X, y=None):
        fit(model, X, y)
        raise FloatingPointError("The energy is no longer finite")

    monkeypatch.setattr(VarianceDictionaryLearning, "fit", diverge)
    record = models.fit_or_load(run_of("unguarded"), load_digits(), folders_in(tmp_path))[1]
    assert record["diverged"] == "The energy is no longer finite"
    assert read(tmp_path, "runs", run_of("unguarded").name) == record


def test_names_differ_where_results_may():
    run = Run("VDL", "mnist", 0.005, 0)
    others = [{"system": "SDL"}, {"dataset": "digits"}, {"lam": 0.0005}, {"seed": 1}]
    others += [{"recipe": "paper"}, {"epochs": 5}, {"size": "toy"}, {"learning_rate": "constant"}]
    others += [{"thorough": True}]
    names = {run.name, *(replace(run, **change).name for change in others)}
    assert len(names) == 10
    assert run.name == "mnist_VDL_lam0.005_seed0_fast"


def test_paper_recipe_learns_from_training_rows_and_judges_by_as_many_as_validate():
    data = load_digits()
    run = Run("VDL", "digits", 0.005, 0, recipe="paper")
    model = run.make()
    X = models.training_rows(run, model, data)
    assert len(X) == len(data.X_train) + len(data.X_val)
    assert round(model.validation_fraction * len(X)) == len(data.X_val)
    # the published step is right for the published gamma per component
    assert model.gamma / model.n_components == 5 / 128


def test_no_figures_of_validation_rows_that_may_have_been_learnt_from(tmp_path):
    for recipe, judged in (("paper", False), ("fast", True)):
        run = replace(run_of("VDL"), recipe=recipe)
        record = models.fit_or_load(run, load_digits(), folders_in(tmp_path))[1]
        assert (record["validation"] is not None) == judged


def test_default_lams_are_published_or_reported():
    assert Plan(dataset="mnist").lams_of("SDL") == paper.lams("SDL")
    assert Plan(dataset="natural").lams_of("SDL") == (0.002, 0.005)
    assert Plan(dataset="natural", lams="all").lams_of("SDL") == paper.lams("SDL", "natural")
    assert Plan(dataset="mnist", lams="reported").lams_of("VDL") == (0.005, 0.02)
    assert len(Plan(seeds=3).runs()) == 3 * 8 * 6


def test_denoising_has_every_kind_of_codes_and_noise(done):
    entries = read(done, "denoising", run_of("VDL", 0.02).name)["denoising"]
    keys = [(entry["codes"], entry["sigma"]) for entry in entries]
    assert keys == [("encoder", 1.0), ("encoder", 1.5), ("fista", 1.0), ("fista", 1.5)]
    scale = pixel_scale(load_digits())
    for entry in entries:
        # of so many pixels the mean of squares is close to the variance
        assert entry["psnr_noisy"] == pytest.approx(-20 * np.log10(entry["sigma"] * scale), abs=0.2)
        assert entry["psnr_noisy_rec"] > entry["psnr_noisy"] + 2
        assert entry["psnr_clean_rec"] > entry["psnr_noisy_rec"]
    encoder, exact = entries[0], entries[2]
    record = read(done, "runs", run_of("VDL", 0.02).name)
    assert encoder["psnr_clean_rec"] == pytest.approx(record["test"]["psnr"])
    assert encoder["sparsity_clean"] == pytest.approx(record["test"]["sparsity"])
    assert exact["sparsity_clean"] > encoder["sparsity_clean"]
    only = read(done, "denoising", run_of("DO").name)["denoising"]
    assert [entry["codes"] for entry in only] == ["fista", "fista"]


def test_probes_are_measured_by_both_protocols(done):
    for name in (run_of("VDL").name, run_of("DO").name, "digits_rawpixels_seed0_toy"):
        found = {protocol: labels_of(done, protocol, name) for protocol in LOW_DATA}
        for protocol, by in (("paper", "val"), ("strict", "cv")):
            assert set(found[protocol]) == {"1", "2", "all"}
            assert [(entry["draw"], entry["C"]) for entry in found[protocol]["2"]] == [
                (draw, penalty) for draw in (0, 1) for penalty in probes.PENALTIES
            ]
            assert all(0 < entry[by] <= 1 for entry in found[protocol]["2"])
            for entries in found[protocol].values():
                assert all(0 <= entry["top3"] <= entry["top1"] < 0.9 for entry in entries)
        # nothing of the validation set, and nothing to divide with one label per class
        assert all("val" not in entry for entry in found["strict"]["2"])
        assert all("cv" not in entry for entry in found["strict"]["1"])
    for name in ("digits_rawpixels_seed0_toy", "digits_LISTA-linear_seed0_toy"):
        found = labels_of(done, "strict", name)
        assert found["all"][0]["top1"] < 0.15 < found["1"][0]["top1"]


def test_more_labels_are_added_to_what_is_there(done, tmp_path, monkeypatch):
    run = run_of("VDL")
    quick = partial(low_data.LISTAClassifier, n_steps=5)
    monkeypatch.setattr(low_data, "LISTAClassifier", quick)
    for kind in ("runs", *LOW_DATA.values()):
        copy_records(done, tmp_path, kind, [run.name])
    (tmp_path / "models").symlink_to(done / "models")
    command = ["low-data", "--systems", "VDL", "--lams", LAM, "--labels", "5"]
    assert main([*command, *arguments(tmp_path)]) == 0
    for protocol in LOW_DATA:
        before, after = (labels_of(folder, protocol, run.name) for folder in (done, tmp_path))
        assert set(after) == {"1", "2", "5", "all"}
        assert {n: entries for n, entries in after.items() if n != "5"} == before


@pytest.mark.parametrize("protocols", [("paper", "strict"), ("paper",), ("strict",)])
def test_draws_that_are_missing_are_added(protocols, done, tmp_path):
    """Also to one protocol alone, as after a kill between writing the two tables."""
    run = run_of("VDL")
    for kind in ("runs", *LOW_DATA.values()):
        copy_records(done, tmp_path, kind)
    for protocol in protocols:
        table = folders_in(tmp_path).table(LOW_DATA[protocol])
        record = read(tmp_path, LOW_DATA[protocol], run.name)
        entries = unpack(record["labels"]["2"])
        record["labels"]["2"] = pack([entry for entry in entries if entry["draw"] == 0])
        table.put(run.name, record)
    (tmp_path / "models").symlink_to(done / "models")
    command = ["low-data", "--systems", "VDL", "--lams", LAM, "--labels", "1", "2", "all"]
    assert main([*command, *arguments(tmp_path)]) == 0
    for kind in LOW_DATA.values():
        assert read(tmp_path, kind, run.name) == read(done, kind, run.name)


def test_draws_of_a_model_with_other_settings_are_dropped(done):
    start = {"system": "VDL", "dataset": "digits", "lam": 0.005, "seed": 0, "size": "toy"}
    start["parameters"] = read(done, "runs", run_of("VDL").name)["parameters"]
    entry = {"C": 1.0, "top1": 0.5, "top3": 0.2}
    other = {**start, "parameters": {**start["parameters"], "gamma": 123.0}}
    for then, draws in ((start, [0, 1]), (other, [1])):
        old = low_data._extended(None, then, {(2, 0): [{"draw": 0, **entry}]})
        new = low_data._extended(old, start, {(2, 1): [{"draw": 1, **entry}]})
        assert new["labels"]["2"]["draw"] == draws
        assert new["parameters"] == start["parameters"]


def test_low_data_needs_labels(monkeypatch, tmp_path):
    monkeypatch.setattr(low_data, "load_data", lambda *args: SimpleNamespace(y_train=None))
    with pytest.raises(SystemExit, match="no labels"):
        main(["low-data", *arguments(tmp_path)])


def test_report_tells_that_nothing_was_trained_as_published(page):
    assert "No figure on this page was made with *paper*." in page.partition("\n## ")[0]


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
        records = [read(done, "runs", run_of(system).name)]
        if system == "VDL":
            records.append(read(done, "runs", run_of(system, seed=1).name))
        assert (recipe, epochs, seeds) == ("fast, toy", "4", str(len(records)))
        values = [record["test"]["psnr"] for record in records]
        spread = f" ± {np.std(values):.2f}" if len(values) > 1 else ""
        assert psnr == f"{np.mean(values):.2f}{spread}"
        assert zeros.startswith(f"{100 * np.mean([r['test']['sparsity'] for r in records]):.1f}")
    ((*_, psnr),) = cells(section(page, "Denoising", "digits"), "VDL", "0.02", "1.5", "fista")
    entries = read(done, "denoising", run_of("VDL", 0.02).name)["denoising"]
    assert psnr == f"{entries[3]['psnr_noisy_rec']:.2f}"
    rows = cells(section(page, "Classification", "digits"), "VDL")
    errors = [row for row in rows if row[1] == "fast, toy"]
    assert len(errors) == 4  # two protocols, two measures
    # middle lam of SDL, whose lams DO has, was not run: it cannot be taken in advance
    assert all(row[3] != "not run" and row[6] == "not run" for row in errors)
    strict = cells(section(page, "Classification", "digits"), "DO", "fast, toy")[2]
    assert strict[3] == "not run"
    collapse = cells(section(page, "Ablation", "digits"), "unguarded-NL")
    ways = {row[3]: row[5:8] for row in collapse}
    assert len(ways) == len(collapse) == 2
    own, deep = "fast, constant rate", "fast, constant rate, thorough inference"
    for how, thorough, most in ((own, False, 200), (deep, True, 40)):
        run = replace(run_of("unguarded-NL"), learning_rate="constant", thorough=thorough)
        record = read(done, "runs", run.name)
        assert record["parameters"]["learning_rate"] == "constant"
        assert record["parameters"]["inference_max_iter"] == most
        l1 = record["history"]["l1"]
        assert ways[f"{how}, toy"] == [f"{value:.3g}" for value in (l1[0], l1[2], l1[3])]


def test_report_has_its_pictures(page, done):
    links = re.findall(r"!\[.*?\]\((.*?)\)", page)
    names = {link.rpartition("/")[2] for link in links}
    assert {"trade_off_digits.png", "low_data_digits.png"} <= names
    for name in (run_of("VDL").name, run_of("DO").name):
        assert f"atoms_{name}.png" in names
    assert f"denoising_{run_of('VDL', 0.02).name}.png" in names
    assert any(name.startswith("ablation_digits") for name in names)
    for link in links:
        assert (done / link).read_bytes().startswith(b"\x89PNG")


def test_paper_figures_are_compared_and_judged(tmp_path):
    """A report on made-up results of MNIST: verdicts, differences, and which recipe is used."""
    folders = folders_in(tmp_path)
    for recipe, psnr in (("fast", 19.0), ("paper", 20.75)):
        for seed in range(2):
            record = run_record("VDL", 0.005, psnr + 0.02 * seed, 0.7, recipe=recipe, seed=seed)
            folders.table("runs").put(f"{recipe}{seed}", record)
    target = next(t for t in TARGETS["denoising"] if t["system"] == "VDL" and t["sigma"] == 1.5)
    found = {**target, "codes": "encoder", "psnr_noisy_rec": target["psnr_noisy_rec"] - 0.7}
    record = {**run_record("VDL", 0.02, 17.0, 0.9), "denoising": [found], "figure": None}
    folders.table("denoising").put("one", record)
    output = tmp_path / "REPORT.md"
    places = [f"--{name}={tmp_path / name}" for name in ("results", "figures")]
    assert main(["report", *places, f"--output={output}"]) == 0
    assert "made with *paper*" not in output.read_text()
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
