"""scikit-learn's own checks, for every kind of model, with no expected failures."""

import pytest
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
VARIANTS = [
    {},
    {"regularizer": "unit_norm"},
    {"regularizer": "weight_decay"},
    {"regularizer": None},
    {"encoder": None},
    {"transform_method": "fista"},
    {"regularizer": "unit_norm", "encoder": None},
    {"positive_code": False},
    {"early_stopping": True},
    {"missing_values": "nan"},
]


# Names of columns, containers and parameters have nothing to do with how the model learns.
CONTAINER_VARIANTS = [{}, {"encoder": None}, {"positive_code": False}, {"missing_values": "nan"}]


def _models(variants):
    for variant in variants:
        yield VarianceDictionaryLearning(6, **QUICK, **variant)
        yield NonLinearVDL(6, hidden_layer_sizes=(8,), **QUICK, **variant)


DEFAULTS = [
    VarianceDictionaryLearning(max_iter=2),
    NonLinearVDL(hidden_layer_sizes=32, max_iter=2),
]


# Tracing thousands of small fits takes long, and other tests reach the same lines.
pytestmark = pytest.mark.no_cover


@parametrize_with_checks([*DEFAULTS, *_models(VARIANTS)])
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
@pytest.mark.parametrize("model", list(_models(CONTAINER_VARIANTS)), ids=str)
def test_check_that_is_not_run_by_default(model, check):
    check(type(model).__name__, model)
