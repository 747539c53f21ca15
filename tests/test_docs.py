"""Every public name is documented in numpydoc, with an example that runs."""

import doctest
import importlib
import inspect
import pkgutil

import pytest
from numpydoc.validate import validate

import skvdl
import skvdl.plotting

# Form only; what is left out is either scikit-learn's custom too or taste.
IGNORED = {
    "ES01",  # no extended summary
    "EX01",  # no example: judged below, because methods need none
    "GL01",  # text starts on the first line
    "GL08",  # no docstring: judged below
    "RT02",  # the return value may have a name
    "RT03",  # return description on the line below
    "SA01",  # no See Also
    "SA04",  # See Also without description
    "SS05",  # infinitive
    "SS06",  # summary longer than a line
    "PR01",  # parameters documented in the class, not in __init__
}
PUBLIC_MODULES = [f"skvdl.{name}" for name in skvdl._SUBMODULES]
ALL_MODULES = [module.name for module in pkgutil.walk_packages(skvdl.__path__, "skvdl.")]


def public_names():
    for module_name in ["skvdl", *PUBLIC_MODULES]:
        module = importlib.import_module(module_name)
        for name in module.__all__:
            yield f"{module_name}.{name}"


def public_methods():
    displays = [getattr(skvdl.plotting, name) for name in skvdl.plotting.__all__]
    estimators = (skvdl.VarianceDictionaryLearning, skvdl.NonLinearVDL, skvdl.ImageDenoiser)
    for kind in (*estimators, *displays):
        for name, member in inspect.getmembers(kind):
            ours = str(getattr(member, "__module__", "")).startswith("skvdl")
            if not name.startswith("_") and ours and callable(member):
                yield f"{kind.__module__}.{kind.__name__}.{name}"


@pytest.mark.parametrize("name", sorted({*public_names(), *public_methods()}))
def test_docstring_is_valid_numpydoc(name):
    problems = [error for error in validate(name)["errors"] if error[0] not in IGNORED]
    assert not problems


@pytest.mark.parametrize("name", sorted(set(public_names())))
def test_public_name_has_an_example(name):
    module_name, _, attribute = name.rpartition(".")
    doc = getattr(importlib.import_module(module_name), attribute).__doc__
    assert ">>> " in doc


@pytest.mark.parametrize("name", ALL_MODULES)
def test_examples_run(name):
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert result.failed == 0


@pytest.mark.parametrize("kind", [skvdl.VarianceDictionaryLearning, skvdl.NonLinearVDL])
def test_documented_defaults_are_the_real_ones(kind):
    documented = kind.__doc__
    for name, parameter in inspect.signature(kind).parameters.items():
        line = next(x for x in documented.splitlines() if x.strip().startswith(f"{name} : "))
        value = line.rpartition("default=")[2]
        assert eval(value) == parameter.default
