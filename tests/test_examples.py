"""The examples run, draw, and what they say is true; the API page leaves out no public name."""

import importlib.util
import runpy
from functools import partial
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pytest

import skvdl

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted(ROOT.joinpath("examples").glob("plot_*.py"))
# What makes the slow ones faster; `make docs` runs them as they are.
SMALLER = {
    "atoms": {
        "X[:5000], X[5000:6000]": "X[:2000], X[5000:5500]",
        "(512,), max_iter=20": "(128,), max_iter=10",
    },
    "collapse": {'"inference_max_iter": 200': '"inference_max_iter": 60'},
    "few_labels": {"range(10)]": "range(5)]"},
    "grid_search": {"max_iter=25": "max_iter=15"},
    "inpaint": {"[60:160, 120:300]": "[60:130, 120:230]", "max_patches=3000": "max_patches=1000"},
    "streaming": {"256, 640]": "160]"},
}


def check_quick_start(v):
    codes, vdl = v["codes"], v["vdl"]
    assert (codes >= 0).all()
    assert (codes == 0).mean() > 0.7
    assert v["active"] == pytest.approx((codes != 0).sum() / len(codes))
    assert v["explained"] > 0.7
    whole = vdl.inverse_transform(codes)[v["digit"]]
    np.testing.assert_allclose(v["parts"].sum(axis=0) + vdl.intercept_, whole, atol=1e-5)
    zeros = vdl.history_["sparsity"]
    assert abs(zeros[-1] - zeros[-20]) < 0.02
    assert vdl.n_dead_components_ == 0


def check_denoise(v):
    mse = {
        name: np.square(image - v["clean"].astype(float)).mean()
        for name, image in v["results"].items()
    }
    # in dB: 10 log10 of these ratios
    assert mse["noisy"] / mse["denoised"] > 10**0.6
    assert mse["smoothed"] / mse["denoised"] > 10**0.15
    assert v["denoised"].shape == v["noisy"].shape
    assert v["denoised"].dtype == v["noisy"].dtype
    assert v["quality"](v["noisy"]) == pytest.approx(10 * np.log10(255**2 / mse["noisy"]))
    # smoothing had its chance: its best width is not at the end of the list
    ends = [
        v["gaussian_filter"](v["noisy"], (w, w, 0)) for w in v["widths"][:: len(v["widths"]) - 1]
    ]
    assert all(np.square(end - v["clean"].astype(float)).mean() > mse["smoothed"] for end in ends)


def check_inpaint(v):
    for name, mask in v["masks"].items():
        np.testing.assert_array_equal(v["filled"][name][~mask], v["roof"][~mask])
        errors = [
            np.square(image[mask] - v["roof"][mask].astype(float)).mean()
            for image in (v["filled"][name], v["nearest"](v["roof"], mask))
        ]
        assert v["gains"][name] == pytest.approx(10 * np.log10(errors[1] / errors[0]))
        assert v["gains"][name] > 2
    assert v["masks"]["lost"].mean() == pytest.approx(0.5, abs=0.02)


def check_atoms(v):
    # equally sparse, so that the comparison is one
    assert abs(v["zeros"]["dictionary"] - v["zeros"]["network"]) < 0.05
    np.testing.assert_allclose(v["alike"]["dictionary"], 1, atol=1e-3)
    assert v["alike"]["network"].mean() < 0.99


def check_few_labels(v):
    gain = v["accuracies"]["codes"] - v["accuracies"]["raw pixels"]
    assert (gain > 0).all()
    # the classifier left the codes alone
    assert v["probe"][0].estimator is v["vdl"]


def check_grid_search(v):
    results = v["search"].cv_results_
    best = None
    for i, zeros in enumerate(results["mean_test_sparsity"]):
        quality = results["mean_test_psnr"][i]
        if zeros > 0.7 and (best is None or quality > results["mean_test_psnr"][best]):
            best = i
    assert v["search"].best_index_ == best
    assert (v["codes"] == 0).mean() > 0.65
    # neither end of the range: lam was chosen by the rule, not by the grid
    assert min(results["param_lam"]) < v["search"].best_params_["lam"] < max(results["param_lam"])


def check_streaming(v):
    assert v["vdl"].n_steps_ == v["moments"][-1]
    assert len(v["explained"]) == len(v["moments"])
    assert v["explained"][-1] > v["explained"][0] + 0.05
    pieces = v["stream"](0, 232, seed=5)
    assert not np.array_equal(next(pieces), next(pieces))
    np.testing.assert_allclose(v["held_out"].mean(axis=1), 0, atol=1e-4)


def check_collapse(v):
    l1 = {name: model.history_["l1"] for name, model in v["models"].items()}
    zeros = {name: model.history_["sparsity"] for name, model in v["models"].items()}
    assert l1["none"][-1] < 0.4 * l1["none"][0]
    assert l1["none"][-1] < 0.9 * l1["none"][len(l1["none"]) // 2]
    assert zeros["none"][-1] < zeros["none"][0] - 0.2
    for name in set(l1) - {"none"}:
        assert l1[name][-1] > 1.5 * l1["none"][-1]
        assert l1[name][-1] > 0.9 * l1[name][len(l1[name]) // 2]
        assert zeros[name][-1] > zeros["none"][-1] + 0.15
        assert v["norms"][name] < v["norms"]["none"] / 2


CHECKS = {name[6:]: check for name, check in dict(globals()).items() if name[:6] == "check_"}


# Tracing would take a third of the time again, and tells nothing that other tests do not.
@pytest.mark.no_cover
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem.removeprefix("plot_"))
def test_example_draws_and_tells_the_truth(path, tmp_path, monkeypatch, recwarn):
    monkeypatch.chdir(tmp_path)
    n_drawn = []

    def show():
        for number in plt.get_fignums():
            figure = plt.figure(number)
            figure.canvas.draw()
            n_drawn.append(any(ax.images or ax.lines for ax in figure.axes))
        plt.close("all")

    monkeypatch.setattr(plt, "show", show)
    name = path.stem.removeprefix("plot_")
    code = path.read_text()
    for given, smaller in SMALLER.get(name, {}).items():
        assert code.count(given) == 1
        code = code.replace(given, smaller)
    variables = {"__name__": "__main__"}
    exec(compile(code, path, "exec"), variables)
    assert n_drawn
    assert all(n_drawn)
    assert not plt.get_fignums()  # every figure was shown
    assert [str(w.message) for w in recwarn] == []
    assert not list(tmp_path.iterdir())
    CHECKS[name](variables)


@pytest.fixture
def demo():
    spec = importlib.util.spec_from_file_location("demo", ROOT / "examples" / "demo.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _brief(kind, **parameters):
    return kind(**parameters | {"max_iter": 3})


def test_demo_draws_no_label_twice(demo, monkeypatch):
    drawn = []

    class Probe:
        def fit(self, rows, labels):
            drawn.append((rows.ravel(), labels))
            return self

        def score(self, rows, labels):
            return 0.5

    monkeypatch.setattr(demo, "make_pipeline", lambda *steps: Probe())
    labels = np.repeat(np.arange(10), 6)
    demo.probe_accuracy(np.arange(60)[:, None], labels, None, None)
    assert len(drawn) == demo.DRAWS
    for rows, found in drawn:
        assert len(set(rows)) == len(rows) == 50
        np.testing.assert_array_equal(np.bincount(found), [5] * 10)


def test_demo_prints_a_table_and_writes_pictures(demo, tmp_path, monkeypatch, capsys):
    # will do to see that it works
    demo.DRAWS = 2
    for name in ("VarianceDictionaryLearning", "NonLinearVDL"):
        brief = partial(_brief, getattr(skvdl, name))
        monkeypatch.setattr(demo, name, brief)
    monkeypatch.chdir(tmp_path)
    demo.main()
    plt.close("all")
    lines = capsys.readouterr().out.splitlines()
    header = next(i for i, line in enumerate(lines) if "probe accuracy" in line)
    rows = [line.split() for line in lines[header + 1 : header + 4]]
    assert [row[0] for row in rows] == ["raw", "VDL", "VDL-NL"]
    assert all(float(row[-1]) > 0 for row in rows)
    names = {"atoms_NonLinearVDL.png", "atoms_VarianceDictionaryLearning.png", "denoising.png"}
    assert {path.name for path in tmp_path.joinpath("demo_output").iterdir()} == names


def test_gallery_lists_every_example():
    order = runpy.run_path(str(ROOT / "docs" / "gallery_order.py"))["_ORDER"]
    assert sorted(order) == [path.name for path in EXAMPLES]


def test_api_page_lists_every_public_name():
    listed, module = set(), None
    for line in ROOT.joinpath("docs", "api.rst").read_text().splitlines():
        if line.startswith(".. currentmodule::"):
            module = line.split()[-1]
        elif line.startswith("   ") and not line.strip().startswith(":"):
            listed.add(f"{module}.{line.strip()}")
    # each name once: those at top level on pages of their own, without the short names
    top = {f"skvdl.{name}" for name in set(skvdl.__all__) - {"VDL", "VDLNL"}}
    below = {
        f"skvdl.{name}.{member}"
        for name in skvdl._SUBMODULES
        for member in importlib.import_module(f"skvdl.{name}").__all__
        if member not in skvdl.__all__
    }
    assert listed == top | below
