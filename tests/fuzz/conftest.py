"""Budgets: small and repeatable by default, large and random with --hypothesis-profile=fuzz."""

import os

import pytest
from hypothesis import HealthCheck, Phase, settings

pytest.register_assert_rewrite("_promises")
_always = {
    "deadline": None,
    "database": None,
    "suppress_health_check": list(HealthCheck),
}
# without time to look for the simplest example
settings.register_profile(
    "small", derandomize=True, max_examples=15, phases=[Phase.generate], **_always
)
settings.register_profile(
    "fuzz", max_examples=int(os.environ.get("SKVDL_FUZZ_EXAMPLES", "2000")), **_always
)
settings.load_profile("small")


@pytest.fixture(autouse=True, scope="module")
def brief(less_work):
    """All tests of this folder."""


def pytest_terminal_summary(terminalreporter):
    from _promises import COUNTS

    # with pytest-xdist, the calls are counted in its workers
    if COUNTS["calls"]:
        terminalreporter.write_line("fuzz: {calls} calls, {errors} refused".format(**COUNTS))
