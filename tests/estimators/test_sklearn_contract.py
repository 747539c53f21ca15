"""scikit-learn's own checks, for every kind of model, with no expected failures."""

import pytest
from _helpers import as_published
from sklearn.utils.estimator_checks import (
    check_dataframe_column_names_consistency,
    check_get_feature_names_out_error,
    check_global_output_transform_pandas,
    check_global_set_output_transform_polars,
    check_n_features_in,
    check_param_validation,
    check_set_output_transform,
    check_set_output_transform_pandas,
    check_set_output_transform_polars,
    check_transformer_get_feature_names_out,
    check_transformer_get_feature_names_out_pandas,
    parametrize_with_checks,
)

from skvdl import NonLinearVDL, VarianceDictionaryLearning

QUICK = {"max_iter": 3, "random_state": 0}
# Most without the search for lam and the refit, which take ten times as long as such short fits.
BARE = {"lam": 0.01, "debias": False}
VARIANTS = [
    {},
    {"encoder": None, **BARE},
    {"transform_method": "encoder", "debias": False},
    {"transform_method": "fista", "lam": 0.01},
    {"positive_code": False, "lam": 0.01},
    {"missing_values": "nan", **BARE},
    {"early_stopping": True, **BARE},
    {"center": False, "scale": False, **BARE},
]
LINEAR_VARIANTS = [
    {"penalty": "l1"},
    {"regularizer": "variance", **BARE},
    {"regularizer": "weight_decay", **BARE},
    {"learning_rate_init": 5e-3, **BARE},
    {"step_size": 0.1, **BARE},
]
PUBLISHED_VARIANTS = [
    {},
    {"regularizer": "unit_norm"},
    {"regularizer": "weight_decay"},
    {"regularizer": None},
    {"transform_method": "fista"},
    {"regularizer": "unit_norm", "encoder": None},
    {"positive_code": False},
    {"missing_values": "nan"},
]


# Names of columns, containers and parameters have nothing to do with how the model learns.
CONTAINER_VARIANTS = [{}, {"encoder": None}, {"positive_code": False}, {"missing_values": "nan"}]


def _network(**params):
    return NonLinearVDL(6, hidden_layer_sizes=(8,), **params)


def _models(variants):
    for variant in variants:
        yield VarianceDictionaryLearning(6, **QUICK | variant)
        yield _network(**QUICK | variant)


def _published(variants):
    for variant in variants:
        dictionary = as_published(VarianceDictionaryLearning)
        yield VarianceDictionaryLearning(6, **QUICK | dictionary | variant)
        yield _network(**QUICK | as_published(NonLinearVDL) | variant)


class BriefDictionary(VarianceDictionaryLearning):
    _auto_steps = 4


class BriefNetwork(NonLinearVDL):
    _auto_steps = 4


DEFAULTS = [
    VarianceDictionaryLearning(max_iter=2),
    NonLinearVDL(hidden_layer_sizes=32, max_iter=2, **BARE),
    BriefDictionary(6),
    BriefNetwork(6, hidden_layer_sizes=8),
]
OF_DICTIONARIES = [VarianceDictionaryLearning(6, **QUICK | variant) for variant in LINEAR_VARIANTS]


# Tracing thousands of small fits takes long, and other tests reach the same lines.
pytestmark = [pytest.mark.no_cover, pytest.mark.usefixtures("less_work")]


@parametrize_with_checks(
    [*DEFAULTS, *_models(VARIANTS), *OF_DICTIONARIES, *_published(PUBLISHED_VARIANTS)]
)
def test_scikit_learn_check(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    "check",
    [
        check_dataframe_column_names_consistency,
        check_get_feature_names_out_error,
        check_global_output_transform_pandas,
        check_global_set_output_transform_polars,
        check_n_features_in,
        check_param_validation,
        check_set_output_transform,
        check_set_output_transform_pandas,
        check_set_output_transform_polars,
        check_transformer_get_feature_names_out,
        check_transformer_get_feature_names_out_pandas,
    ],
    ids=lambda check: check.__name__,
)
@pytest.mark.parametrize(
    "model", list(_published(CONTAINER_VARIANTS)) + list(_models([BARE])), ids=str
)
def test_check_that_is_not_run_by_default(model, check):
    check(type(model).__name__, model)
