"""Rules of benchmarks/paper: what is selected, how points are judged, when claims are confirmed."""

from types import SimpleNamespace

import numpy as np
import pytest
from _paper_helpers import cells, run_record
from sklearn.metrics import top_k_accuracy_score

from benchmarks.paper.analyse import ablation, claims, low_data, trade_off
from benchmarks.paper.analyse.tables import NOT_RUN, group
from benchmarks.paper.draws import pack
from benchmarks.paper.render.markdown import table
from benchmarks.paper.run import low_data as run_low_data
from benchmarks.paper.run import probes
from benchmarks.paper.settings import FEATURES, FIXED_PENALTY, PROTOCOLS, RAW, SCRATCH
from skvdl import paper


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
    wanted = [(protocol, 5, draw) for protocol in PROTOCOLS for draw in (0, 1)]
    rows = {
        (seed, draw, protocol): tuple(rows)
        for seed in (0, 1)
        for ((protocol, _, draw),), rows in run_low_data._labelled(data, seed, wanted)
    }
    for draw in (0, 1):
        assert rows[0, draw, "paper"] == rows[1, draw, "paper"]
    assert len(set(rows.values())) == len(rows) - 2  # all else is different


def test_folds_keep_labels_apart():
    y = np.repeat(np.arange(10), 4)
    folds = probes.splits(y, 0)
    assert len(folds) == 5 * 4
    for fit, judge in folds:
        assert not set(fit) & set(judge)
        assert np.bincount(y[judge]).tolist() == [1] * 10
    assert probes.splits(np.arange(10), 0) == []
    assert len(probes.splits(np.repeat(np.arange(10), 300), 0)) == 1


def probe_record(system, seed, lam, entries, labels=(2,)):
    """Record of one protocol with the same entries for all numbers of labels."""
    how = {"dataset": "mnist", "recipe": "fast", "epochs": None, "size": "full"}
    point = {"system": system, "seed": seed, "lam": lam}
    return {**point, **how, "labels": {str(n): pack(entries) for n in labels}}


def entry(top1, C=1.0, draw=0, **by):
    return {"draw": draw, "C": C, "top1": top1, "top3": top1 / 2, **by}


def test_papers_protocol_selects_by_mean_validation_accuracy():
    accuracies = {0.001: (0.9, 0.5), 0.005: (0.8, 0.7), 0.01: (0.6, 0.6)}
    records = [
        probe_record("VDL", seed, lam, [entry(lam, val=value)])
        for lam, values in accuracies.items()
        for seed, value in enumerate(values)
    ]
    assert [e["lam"] for e in low_data.select(records, "paper", 2)] == [0.005, 0.005]
    assert low_data.select(records, "paper", 5) is None


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_seeds_without_all_lams_do_not_count(protocol):
    scores = {(0, 0.001): 0.9, (0, 0.005): 0.5, (1, 0.005): 0.8}
    records = []
    for (seed, lam), value in scores.items():
        entries = [entry(lam, val=value, cv=value)]
        records.append(probe_record("VDL", seed, lam, entries))
    assert [(e["seed"], e["lam"]) for e in low_data.select(records, protocol, 2)] == [(0, 0.001)]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_draws_without_all_lams_do_not_count(protocol):
    """As while an experiment is being repeated with more draws."""
    records = []
    for lam, n_draws in ((0.001, 2), (0.005, 1)):
        entries = [entry(lam, draw=draw, val=0.5 + lam, cv=0.5 + lam) for draw in range(n_draws)]
        records.append(probe_record("VDL", 0, lam, entries))
    assert [(e["draw"], e["lam"]) for e in low_data.select(records, protocol, 2)] == [(0, 0.005)]


def test_strict_protocol_selects_for_each_draw_and_the_papers_for_all_together():
    scores = {0.001: (0.8, 0.5, 0.5), 0.02: (0.7, 0.6, 0.6)}
    records = []
    for lam, values in scores.items():
        entries = [entry(lam, draw=draw, val=v, cv=v) for draw, v in enumerate(values)]
        records.append(probe_record("VDL", 0, lam, entries))
    strict = low_data.select(records, "strict", 2)
    assert [(e["draw"], e["lam"]) for e in strict] == [(0, 0.001), (1, 0.02), (2, 0.02)]
    together = low_data.select(records, "paper", 2)
    assert [(e["draw"], e["lam"]) for e in together] == [(0, 0.02), (1, 0.02), (2, 0.02)]


def test_strict_protocol_selects_for_each_seed_by_its_own_labels():
    scores = {(0, 0.001): 0.9, (0, 0.02): 0.8, (1, 0.001): 0.5, (1, 0.02): 0.6}
    records = [
        probe_record("VDL", seed, lam, [entry(0.1, C=10.0, cv=cv - 0.1), entry(0.2, cv=cv)])
        for (seed, lam), cv in scores.items()
    ]
    chosen = low_data.select(records, "strict", 2)
    assert [(e["seed"], e["lam"], e["C"]) for e in chosen] == [(0, 0.001, 1.0), (1, 0.02, 1.0)]


def test_strict_protocol_does_not_look_with_one_label_per_class():
    lams = paper.lams("VDL")
    entries = [entry(0.5), entry(0.01, C=100.0)]
    records = [probe_record("VDL", 0, lam, entries, labels=[1]) for lam in lams]
    (chosen,) = low_data.select(records, "strict", 1)
    assert (chosen["lam"], chosen["C"]) == (lams[3], FIXED_PENALTY)
    without = [record for record in records if record["lam"] != lams[3]]
    assert low_data.select(without, "strict", 1) is None


def test_equal_scores_fall_to_what_was_fixed_in_advance():
    records = [
        probe_record("VDL", 0, lam, [entry(0.1, C=C, cv=0.5) for C in probes.PENALTIES])
        for lam in paper.lams("VDL")
    ]
    (chosen,) = low_data.select(records, "strict", 2)
    assert (chosen["lam"], chosen["C"]) == (paper.lams("VDL")[3], FIXED_PENALTY)


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
        (-0.304, 0.0, "missed"),
        (0.1, -0.0201, "missed"),
        (18.1 - 18.4, 0.0, "within"),
    ],
)
def test_verdicts_on_points(psnr, sparsity, verdict):
    assert trade_off.judge(psnr, sparsity, 0.3, 0.02) == verdict


def results_of(runs=(), low=None, noise=None):
    none = {protocol: [] for protocol in PROTOCOLS}
    return SimpleNamespace(runs=list(runs), low_data=low or none, noise=noise or {})


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
    # better than the paper is not worse than close to it
    runs = [run_record("VDL-NL", 0.003, 22.6, 0.73, seed=seed) for seed in range(3)]
    runs += [run_record("VDL-NL", 0.003, 22.65, 0.59, recipe="paper")]
    used = trade_off.chosen(trade_off.points(results_of(runs), "mnist"))
    assert used["VDL-NL", 0.003].recipe == "fast"


def test_runs_of_the_ablation_are_no_points_of_the_curve():
    runs = [run_record("VDL", 0.005, 20.7, 0.69)]
    runs += [{**run_record("VDL", 0.005, 15.0, 0.9), "learning_rate": "constant"}]
    (point,) = trade_off.points(results_of(runs), "mnist")
    assert point.psnr == 20.7


def test_curve_is_read_off_at_the_papers_zeros():
    runs = [run_record("VDL", 0.003, 22.0, 0.6), run_record("VDL", 0.01, 19.0, 0.9)]
    (curve,) = trade_off.curves(results_of(runs), "mnist").values()
    # the paper has 20.7 dB at 69 %: three tenths of the way
    assert trade_off.at_zeros(curve, 0.69) == pytest.approx(21.1)
    assert trade_off.at_zeros(curve, 0.91) is None
    assert trade_off.at_zeros(curve, 0.69, widest=0.31) == pytest.approx(21.1)
    assert trade_off.at_zeros(curve, 0.69, widest=0.29) is None
    (row,) = trade_off.at_papers_zeros(results_of(runs), "mnist").rows
    assert row == ("VDL", "0.005", "69.0", "21.10", "20.70", "+0.40")


@pytest.mark.parametrize(
    ("l1", "verdict"),
    [
        ([10, 8, 6, 4, 3], True),
        ([10, 5, 3, 3, 3], True),
        ([10, 1, 0, 0, 0], True),
        ([10, 9, 8, 7, 6], False),
        ([3, 5, 8, 9, 10], False),
    ],
)
def test_collapse_is_a_fall_to_less_than_half(l1, verdict):
    assert ablation.collapsed(np.array(l1)) is verdict


def test_ablation_lists_every_way_a_system_was_run_and_what_was_not():
    """Linear systems know no thorough inference: they are not missing from it."""
    runs = [run_record("unguarded", 0.005, 20, 0.5, l1=(8, 4, 2))]
    for thorough, l1 in ((False, (8, 7, 6)), (True, (8, 4, 3))):
        runs.append({**run_record("unguarded-NL", 0.005, 20, 0.5, l1=l1), "thorough": thorough})
    runs = [{**run, "learning_rate": "constant"} for run in runs]
    page = "\n".join(table(ablation.table(ablation.groups(results_of(runs), "mnist"))))
    own, thorough = "fast, constant rate", "fast, constant rate, thorough inference"
    (row,) = cells(page, "unguarded", "nothing", "0.005")
    assert (row[3], row[8], row[-1]) == (own, "0.25", "collapse")
    rows = cells(page, "unguarded-NL")
    assert {(row[3], row[-1]) for row in rows} == {(own, "no collapse"), (thorough, "collapse")}
    (row,) = cells(page, "WDL-NL")
    assert (row[3], row[-1]) == ("not run", "not run")


def curves(best, *, without=(), most=0.93):
    """Runs of all systems and lams on both datasets: the best one 1 dB above the others."""
    runs = []
    for dataset in ("mnist", "natural"):
        lams = group(trade_off.wanted(dataset), lambda pair: pair[0])
        for (system,), pairs in lams.items():
            zeros = np.linspace(most - 0.14, most, len(pairs))
            for (_, lam), share in zip(pairs, zeros, strict=True):
                psnr = 20.0 - 20 * (share - 0.8) + (system == best)
                if not {(dataset, system), (dataset, system, lam)} & set(without):
                    runs.append(run_record(system, lam, psnr, share, dataset=dataset))
    return runs


def wide(runs):
    """The same runs with the first point of every curve further off."""
    least = min(run["test"]["sparsity"] for run in runs)
    for run in runs:
        if run["test"]["sparsity"] == least:
            run["test"]["sparsity"] -= 0.02
    return runs


SO_FAR = " so far"


@pytest.mark.parametrize(
    ("runs", "verdict"),
    [
        (curves("VDL-NL"), claims.CONFIRMED),
        (curves("SDL"), claims.REFUTED),
        (curves("VDL-NL", most=0.82), claims.CONFIRMED),
        (curves("VDL-NL", most=0.75), NOT_RUN),
        (curves("VDL-NL", without=[("natural", "VDL-NL")]), claims.UNDECIDED),
        (curves("VDL-NL", without=[("mnist", "DO")]), claims.CONFIRMED + SO_FAR),
        (curves("VDL-NL", without=[("mnist", "DO", 0.001)]), claims.CONFIRMED + SO_FAR),
        (curves("SDL", without=[("mnist", "DO")]), claims.REFUTED + SO_FAR),
        ([], NOT_RUN),
    ],
)
def test_first_claim(runs, verdict):
    assert claims.best_at_high_sparsity(results_of(runs)).verdict == verdict


def test_first_claim_tells_the_figures_it_rests_on():
    evidence = claims.best_at_high_sparsity(results_of(curves("VDL-NL"))).evidence
    assert evidence[0].startswith("MNIST, 80% zeros: VDL-NL 21.00 dB, SDL 20.00 dB, ")
    assert evidence[3].startswith("natural patches, 80% zeros: VDL-NL 21.00 dB, ")
    few = claims.best_at_high_sparsity(results_of(curves("VDL-NL", most=0.82))).evidence
    assert "not judged" in few[1]
    less = curves("VDL-NL", without=[("mnist", "DO"), ("natural", "SDL-NL", 0.01)])
    lines = claims.best_at_high_sparsity(results_of(less)).evidence
    lacking = "MNIST, DO 0, 0.0001, 0.0005, 0.001, 0.003, 0.005; natural patches, SDL-NL 0.01"
    assert lines[-1] == f"lams not run: {lacking}"
    # SDL and DO-NL get there, but between points that are too far from each other
    gaps = [("mnist", s, lam) for s in ("SDL", "DO-NL") for lam in paper.lams(s)[1:-1]]
    lines = claims.best_at_high_sparsity(results_of(wide(curves("VDL-NL", without=gaps)))).evidence
    assert lines[0].endswith("; left out, points too far apart: SDL, DO-NL")


def test_first_claim_does_not_rest_on_long_lines():
    """The paper's two points of VDL-NL on natural patches are too far apart to be joined."""
    runs = curves("VDL-NL", without=[("natural", "VDL-NL")])
    runs += [run_record("VDL-NL", 0.003, 28.4, 0.676, dataset="natural")]
    runs += [run_record("VDL-NL", 0.01, 24.9, 0.908, dataset="natural")]
    assert claims.best_at_high_sparsity(results_of(runs)).verdict == claims.UNDECIDED
    runs += [run_record("VDL-NL", 0.005, 27.5, 0.8, dataset="natural")]
    assert claims.best_at_high_sparsity(results_of(runs)).verdict == claims.CONFIRMED


def test_first_claim_is_open_where_others_get_and_vdl_nl_does_not():
    runs = curves("VDL-NL")
    for run in runs:
        if (run["system"], run["dataset"]) == ("VDL-NL", "natural"):
            run["test"]["sparsity"] -= 0.04
    judgement = claims.best_at_high_sparsity(results_of(runs))
    assert "not judged" in judgement.evidence[5]
    assert judgement.verdict == claims.UNDECIDED


def probe_results(errors, labels, strict=None, seed=0):
    """Records by protocol with these errors by feature, and perhaps others in the strict one."""
    return {
        protocol: [
            probe_record(system, seed, lam, [entry(values.get(system, 0.5), val=0.5)], labels)
            for system in FEATURES
            for lam in (paper.lams(system) if system in paper.SYSTEMS else [None])
        ]
        for protocol, values in (("paper", errors), ("strict", strict or errors))
    }


def test_claims_about_probes():
    good = {RAW: 0.3, "SDL": 0.2, "SDL-NL": 0.2, "VDL": 0.2, "VDL-NL": 0.1}
    every = (1, 2, 5, 10, 20, 50, 100)
    results = results_of(low=probe_results(good, every))
    assert claims.probes_beat_raw(results).verdict == claims.CONFIRMED
    assert claims.best_with_few_labels(results).verdict == claims.CONFIRMED
    # the same but for one feature
    for changed, first, second in (
        ({"VDL": 0.35}, claims.REFUTED, claims.CONFIRMED),
        ({"WDL": 0.05}, claims.CONFIRMED, claims.REFUTED),
        ({SCRATCH: 0.05}, claims.CONFIRMED, claims.REFUTED),
    ):
        results = results_of(low=probe_results({**good, **changed}, every))
        assert claims.probes_beat_raw(results).verdict == first
        assert claims.best_with_few_labels(results).verdict == second
    # SDL is excepted with one or two labels, not with more
    for labels, verdict in ((every[:2], NOT_RUN), (every, claims.REFUTED)):
        results = results_of(low=probe_results({**good, "SDL": 0.4}, labels))
        assert claims.probes_beat_raw(results).verdict == verdict
    # the paper's protocol decides, the other is told
    results = results_of(low=probe_results(good, every, strict={**good, "VDL": 0.35}))
    judgement = claims.probes_beat_raw(results)
    assert judgement.verdict == claims.CONFIRMED
    assert f"protocol *strict* (seeds: 1, draws: 1): **{claims.REFUTED}**" in judgement.evidence
    assert any("not below: VDL 35.0%" in line for line in judgement.evidence)


def test_claims_about_probes_compare_what_was_measured_on_the_same_seeds():
    good = {RAW: 0.3, "SDL": 0.2, "SDL-NL": 0.2, "VDL": 0.2, "VDL-NL": 0.1}
    every = (1, 2, 5, 10, 20, 50, 100)
    # raw pixels have a second seed, of easier rows
    low = probe_results(good, every)
    for records in low.values():
        records.append(probe_record(RAW, 1, None, [entry(0.0, val=1.0)], every))
    judgement = claims.probes_beat_raw(results_of(low=low))
    assert judgement.verdict == claims.CONFIRMED
    assert f"protocol *paper* (seeds: 1, draws: 1): **{claims.CONFIRMED}**" in judgement.evidence
    # or other draws
    entries = [entry(0.3, val=0.5), entry(0.0, draw=1, val=1.0)]
    low["paper"][0] = probe_record(RAW, 0, None, entries, every)
    assert claims.probes_beat_raw(results_of(low=low)).verdict == claims.CONFIRMED
    # with a lam missing the verdict is not the last word
    low = {
        protocol: [r for r in records if (r["system"], r["lam"]) != ("SDL-NL", 0.02)]
        for protocol, records in low.items()
    }
    judgement = claims.probes_beat_raw(results_of(low=low))
    assert judgement.verdict == claims.CONFIRMED + SO_FAR
    assert judgement.evidence[-1] == "lams not run: SDL-NL 0.02"


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
    assert claims.collapse_without_guard(results_of()).verdict == NOT_RUN
