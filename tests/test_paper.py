from functools import cache

import numpy as np
import pytest
import torch
from _helpers import solve

from skvdl import NonLinearVDL, VarianceDictionaryLearning, paper

# Tracing many fits takes long, and other tests reach the same lines.
pytestmark = pytest.mark.no_cover
ALL = paper.SYSTEMS + paper.ABLATIONS

# The published table: lam, gamma, beta, decoder's rate, encoder's rate, decay of b1, of b, step.
PUBLISHED = {
    ("mnist", "SDL"): ([0, 1e-4, 5e-4, 1e-3, 3e-3, 5e-3], 1, 0, 1e-3, 3e-4, None, 0, 1),
    ("mnist", "VDL"): ([0, 1e-3, 3e-3, 5e-3, 1e-2, 2e-2], 5, 10, 3e-4, 1e-4, None, 0, 0.5),
    ("mnist", "SDL-NL"): ([0, 1e-3, 3e-3, 5e-3, 1e-2, 2e-2], 1, 0, 1e-3, 1e-4, 1e-3, 0, 1),
    ("mnist", "VDL-NL"): ([0, 1e-3, 3e-3, 5e-3, 1e-2, 2e-2], 100, 10, 3e-4, 1e-4, 1e-3, 0, 0.5),
    ("natural", "SDL"): ([0, 5e-4, 1e-3, 2e-3, 3e-3, 5e-3], 1, 0, 1e-3, 1e-4, None, 0.01, 0.5),
    ("natural", "VDL"): ([0, 1e-3, 3e-3, 5e-3, 1e-2, 1.5e-2], 5, 10, 3e-4, 1e-4, None, 0.01, 0.5),
    ("natural", "SDL-NL"): ([0, 1e-3, 3e-3, 5e-3, 8e-3, 1e-2], 1, 0, 1e-3, 1e-4, 0.01, 0.01, 0.5),
    ("natural", "VDL-NL"): (
        [0, 1e-3, 2e-3, 3e-3, 5e-3, 1e-2, 2e-2],
        {0: 20, 1e-3: 20, 2e-3: 20, 3e-3: 20, 5e-3: 20, 1e-2: 40, 2e-2: 40},
        *(10, 5e-5, 1e-4, 0.1, 0.01, 0.5),
    ),
}
# Points of the trade-off that the paper gives in figures.
REPORTED = [
    *(("mnist", "SDL", lam) for lam in (0.001, 0.005)),
    *(("mnist", "VDL", lam) for lam in (0.005, 0.02)),
    *(("mnist", "SDL-NL", lam) for lam in (0.003, 0.01)),
    *(("mnist", "VDL-NL", lam) for lam in (0.003, 0.02)),
    *(("mnist", "WDL", lam) for lam in (0.001, 0.005)),
    *(("mnist", "DO", lam) for lam in (0.001, 0.005)),
    *(("natural", "SDL", lam) for lam in (0.002, 0.005)),
    *(("natural", "VDL", lam) for lam in (0.005, 0.01)),
    *(("natural", "SDL-NL", lam) for lam in (0.003, 0.01)),
    *(("natural", "VDL-NL", lam) for lam in (0.003, 0.01)),
]


@pytest.fixture(scope="module")
def scaled(digits):
    X = digits[0]
    return ((X - X.mean()) / X.std()).astype(np.float32)[:200]


@pytest.fixture(scope="module")
def fitted(scaled):
    """Every system after a short fit with few components; each only once."""

    @cache
    def fit(system, recipe="fast"):
        settings = {"n_components": 16, "random_state": 0}
        if system.endswith("-NL"):
            settings["hidden_layer_sizes"] = (24,)
        if not system.startswith("DO"):
            settings["gamma"] = 1.0  # per component as much as with 128 of them
        if recipe == "fast":
            # large steps on small batches, so that a collapse shows soon
            settings |= {"learning_rate_init": 0.03, "learning_rate": "constant"}
            settings |= {"max_iter": 40, "batch_size": 50, "inference_max_iter": 30, "beta": 50.0}
        else:
            settings |= {"max_iter": 3}
        return paper.make(system, lam=0.02, recipe=recipe, **settings).fit(scaled)

    return fit


@pytest.mark.parametrize(("dataset", "system"), PUBLISHED)
def test_settings_are_the_published_ones(dataset, system):
    lams, gamma, beta, rate, encoder_rate, decay_b1, decay_b, step = PUBLISHED[dataset, system]
    assert paper.lams(system, dataset) == tuple(lams)
    for lam in lams:
        model = paper.make(system, dataset=dataset, lam=lam)
        assert model.lam == lam
        assert model.gamma == (gamma[lam] if isinstance(gamma, dict) else gamma)
        assert model.beta == beta
        assert model.learning_rate_init == rate
        assert model.encoder_learning_rate_init == encoder_rate
        assert model.bias_decay == (decay_b1 or 0.0, decay_b)
        assert model.step_size == step
        assert model.n_components == {"mnist": 128, "natural": 256}[dataset]
        assert model.max_iter == {"mnist": 200, "natural": 100}[dataset]
        assert model.batch_size == 250
        assert model.inference_max_iter == model.transform_max_iter == 200
        assert model.transform_tol == 1e-3
        assert model.learning_rate == (30 if system == "VDL-NL" else "constant")
        assert model.early_stopping
        assert model.n_iter_no_change is None
        assert model.positive_code
        if beta:
            assert (model.regularizer, model.variance_threshold) == ("variance", 0.5)
        else:
            assert model.regularizer == "unit_norm"
        if system.endswith("-NL"):
            assert model.hidden_layer_sizes == {"mnist": (1024,), "natural": (2048,)}[dataset]
        else:
            assert model.init == "random"


@pytest.mark.parametrize("dataset", paper.DATASETS)
@pytest.mark.parametrize("suffix", ["", "-NL"])
@pytest.mark.parametrize(
    ("system", "row", "changes"),
    [
        ("WDL", "SDL", {"regularizer": "weight_decay"}),
        ("DO", "SDL", {"encoder": None, "gamma": 0.0}),
        ("unguarded", "VDL", {"regularizer": None, "beta": 0.0}),
    ],
)
def test_systems_told_in_words_follow_a_row_of_the_table(system, row, changes, suffix, dataset):
    model = paper.make(system + suffix, dataset=dataset, lam=0.01)
    expected = paper.make(row + suffix, dataset=dataset, lam=0.01).set_params(**changes)
    assert model.get_params() == expected.get_params()
    assert model.weight_decay == 5e-4
    assert paper.lams(system + suffix, dataset) == paper.lams(row + suffix, dataset)


def test_reported_points_are_among_the_lams():
    for dataset, system, lam in REPORTED:
        assert lam in paper.lams(system, dataset)


def test_as_many_rows_validate_as_in_the_paper():
    assert round(60_000 * paper.make("VDL", lam=0).validation_fraction) == 5_000
    natural = paper.make("VDL", dataset="natural", lam=0)
    assert round(220_000 * natural.validation_fraction) == 20_000


@pytest.mark.parametrize("dataset", paper.DATASETS)
@pytest.mark.parametrize("system", ALL)
def test_fast_recipe_is_the_same_system_learnt_otherwise(system, dataset):
    fast = paper.make(system, dataset=dataset, lam=0.01, recipe="fast").get_params()
    slow = paper.make(system, dataset=dataset, lam=0.01, recipe="paper").get_params()
    may_differ = {
        *("init", "step_size", "learning_rate", "learning_rate_init", "max_iter"),
        *(
            "encoder_learning_rate_init",
            "n_iter_no_change",
            "early_stopping",
            "validation_fraction",
        ),
        *("batch_size", "inference_max_iter"),
    }
    assert {name for name in slow if slow[name] != fast[name]} <= may_differ
    assert fast["max_iter"] == "auto" or fast["max_iter"] < slow["max_iter"]


@pytest.mark.parametrize("system", ALL)
def test_kind_of_decoder_follows_from_the_name(system):
    kind = NonLinearVDL if system.endswith("-NL") else VarianceDictionaryLearning
    assert type(paper.make(system, lam=0.005)) is kind


def test_parameters_can_be_overridden():
    model = paper.make("VDL", lam=0.005, max_iter=3, random_state=7, beta=1.0)
    assert (model.max_iter, model.random_state, model.beta) == (3, 7, 1.0)


def test_weight_of_the_hinge_is_the_published_one_for_any_batch_size():
    for batch_size in (64, 250, 500):
        assert paper.make("VDL", lam=0.005, batch_size=batch_size).beta == 10.0


@pytest.mark.parametrize(
    ("arguments", "choices"),
    [
        ({"system": "LDV"}, ALL),
        ({"system": "sdl"}, ALL),
        ({"dataset": "cifar"}, paper.DATASETS),
        ({"recipe": "slow"}, paper.RECIPES),
    ],
)
def test_unknown_names_are_answered_with_the_choices(arguments, choices):
    with pytest.raises(ValueError, match="is not known; choose one of") as caught:
        paper.make(**{"system": "VDL", "lam": 0.005, **arguments})
    assert all(name in str(caught.value) for name in choices)
    if "recipe" not in arguments:
        with pytest.raises(ValueError, match="is not known; choose one of"):
            paper.lams(**{"system": "VDL", **arguments})


@pytest.mark.parametrize("recipe", paper.RECIPES)
@pytest.mark.parametrize("system", ["SDL", "SDL-NL", "DO", "DO-NL"])
def test_columns_of_every_layer_have_unit_norm(system, recipe, fitted):
    model = fitted(system, recipe)
    assert len(model.decoder_.matrices) == (2 if system.endswith("-NL") else 1)
    for weight in model.decoder_.matrices:
        assert np.allclose(weight.detach().norm(dim=0), 1, atol=1e-5)


@pytest.mark.parametrize("suffix", ["", "-NL"])
def test_weight_decay_makes_weights_smaller_in_every_layer(suffix, fitted):
    # the same start and batches: all that differs is the decay
    decayed, free = (fitted(kind + suffix).decoder_.matrices for kind in ("WDL", "unguarded"))
    for small, large in zip(decayed, free, strict=True):
        assert small.norm() < 0.9 * large.norm()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("system", ["DO", "DO-NL"])
def test_decoder_only_has_codes_from_fista(system, fitted, scaled):
    model = fitted(system, "paper")
    published = {"step_size": 1.0, "max_iter": 200, "tol": 1e-3}
    found = solve(torch.from_numpy(scaled[:50]), model.decoder_, lam=0.02, **published)
    assert model.encoder_ is None
    assert np.allclose(model.transform(scaled[:50]), found.codes.numpy(), atol=1e-6)
    assert model.history_["proximity"] == [0.0] * model.n_iter_


@pytest.mark.parametrize("suffix", ["", "-NL"])
def test_hinge_holds_the_deviation_of_every_component(suffix, fitted, scaled):
    held, free = (fitted(kind + suffix).transform(scaled) for kind in ("VDL", "unguarded"))
    assert held.std(axis=0).min() > 0.35
    assert np.median(free.std(axis=0)) < 0.3


@pytest.mark.parametrize("suffix", ["", "-NL"])
def test_codes_collapse_without_a_guard_only(suffix, fitted):
    kinds = ("SDL", "VDL", "WDL", "DO", "unguarded")
    l1 = {kind: fitted(kind + suffix).history_["l1"] for kind in kinds}
    free = l1.pop("unguarded")
    assert free[-1] < 0.9 * free[len(free) // 2] < 0.8 * free[0]
    assert free[-1] < 0.75 * min(curve[-1] for curve in l1.values())
