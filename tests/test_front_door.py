"""What `import skvdl` offers, and what it does not load."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import skvdl

PACKAGE = Path(skvdl.__file__).parent
# From the top of the house down: a room imports from those below it only.
ROOMS = ["estimators", "training", "solvers", "energy", "models", "distributed"]


def run(code, *options):
    done = subprocess.run(
        [sys.executable, *options, "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_public_modules_are_found_when_used_and_libraries_are_not_loaded():
    uses = "; ".join(f"skvdl.{name}.__all__" for name in skvdl._SUBMODULES)
    fit = "X = [[0.0, 1.0], [1.0, 0.0]] * 9; skvdl.VDL(2, max_iter=1).fit(X).score(X)"
    names = ("skvdl.plotting", "matplotlib", "PIL", "dask")
    loaded = f"print([m for m in {names} if m in sys.modules])"
    found = run(f"import sys, skvdl; {loaded}; {uses}; {fit}; {loaded}").splitlines()
    assert found == ["[]", "['skvdl.plotting']"]


def test_unknown_names_are_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'metric'"):
        skvdl.metric  # noqa: B018


def test_everything_public_is_listed():
    assert {*skvdl.__all__, *skvdl._SUBMODULES} <= set(dir(skvdl))


def test_the_package_works_without_docstrings():
    modules = ", ".join(["skvdl", *(f"skvdl.{name}" for name in skvdl._SUBMODULES)])
    code = f"import {modules}; print(skvdl.VDL(4).get_params()['n_components'], skvdl.VDL.__doc__)"
    assert run(code, "-OO") == "4 None"


def imported_rooms(path):
    """Rooms that a module imports from, and the top-level packages."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level == 2:
            # a room, or a module beside the rooms, by the door
            assert node.module, path
            assert "." not in node.module, path
            yield node.module, None
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield None, node.module.partition(".")[0]
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield None, alias.name.partition(".")[0]


@pytest.mark.parametrize("room", ROOMS)
def test_lower_rooms_never_import_upper_ones(room):
    above = ROOMS[: ROOMS.index(room)]
    for path in PACKAGE.joinpath(room).glob("*.py"):
        rooms, packages = (
            zip(*imported_rooms(path), strict=True) if any(imported_rooms(path)) else ((), ())
        )
        assert not set(rooms) & {*above, "images", "plotting", "datasets"}, path
        assert "skvdl" not in packages, path
        if room != "estimators":
            # numba compiles functions of arrays
            allowed = {"numpy"} if "numba" in packages else set()
            assert not set(packages) & {"sklearn", "numpy", "tqdm"} - allowed, path
