"""How benchmarks/paper is built: what imports what, and what is committed."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import paper
from benchmarks.paper.analyse.results import Results
from benchmarks.paper.settings import LOW_DATA, Run, is_current
from benchmarks.paper.store import Folders

ROOT = Path(paper.__file__).parent
KINDS = ("runs", "denoising", "atoms", *LOW_DATA.values())


def imports_of(path):
    """Full names of the modules that a file imports."""
    package = ("benchmarks", "paper", *path.relative_to(ROOT).parent.parts)
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*above, *(node.module or "").split(".")]).strip(".")
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


def room_imports(room):
    files = sorted((ROOT / room).glob("*.py"))
    assert files
    return {name for path in files for name in imports_of(path)}


@pytest.mark.parametrize(
    ("room", "others"),
    [
        (".", ("run", "analyse", "render")),
        ("run", ("analyse", "render")),
        ("analyse", ("run", "render")),
        ("render", ("run",)),
    ],
)
def test_lower_parts_do_not_import_upper_ones(room, others):
    if room == ".":
        files = [path for path in ROOT.glob("*.py") if path.name != "__main__.py"]
        found = {name for path in files for name in imports_of(path)}
    else:
        found = room_imports(room)
    assert any(name.startswith("benchmarks.paper.s") for name in found) or room == "."
    for other in others:
        assert not [n for n in found if f"{n}.".startswith(f"benchmarks.paper.{other}.")]


def test_analysis_imports_neither_torch_nor_matplotlib():
    allowed = {"benchmarks", "skvdl", "numpy", *sys.stdlib_module_names}
    found = room_imports("analyse")
    assert {name.partition(".")[0] for name in found} <= allowed
    # of the package it needs the names of systems only
    ours = {name for name in found if name.partition(".")[0] == "skvdl"}
    assert ours == {"skvdl", "skvdl.paper"}


def test_only_rendering_loads_matplotlib():
    files = [path for room in ("run", "analyse") for path in (ROOT / room).glob("[a-z]*.py")]
    modules = [f"benchmarks.paper.{path.parent.name}.{path.stem}" for path in files]
    code = f"import sys, {', '.join(modules)}; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.fixture(scope="module")
def committed():
    """Folders of what is committed."""
    folders = Folders()
    assert len(folders.table("runs").read()) >= 168
    return folders


def test_committed_records_are_named_after_what_they_are(committed):
    for kind in KINDS:
        for name, record in committed.table(kind).read().items():
            if "parameters" in record:
                assert Run.of(record).name == name


def test_committed_records_count_as_done(committed):
    assert Results(committed).n_outdated == 0
    # and would not if a setting were another
    records = committed.table("runs").read().values()
    for name, value in (("gamma", 7.0), ("batch_size", 3), ("regularizer", "other")):
        for record in records:
            changed = {**record, "parameters": {**record["parameters"], name: value}}
            assert not is_current(changed)


def test_committed_tables_are_few_and_small(committed):
    files = [path for path in committed.results.iterdir() if path.suffix == ".jsonl"]
    assert len(files) <= 6
    assert all(path.stat().st_size < 2**20 for path in files)


def test_committed_tables_are_as_they_would_be_written(committed, tmp_path):
    for path in committed.results.glob("*.jsonl"):
        copy = Folders(results=tmp_path).table(path.stem)
        copy.path.write_bytes(path.read_bytes())
        name, record = next(iter(copy.read().items()))
        copy.put(name, record)
        assert copy.path.read_bytes() == path.read_bytes()


def test_committed_report_has_its_pictures():
    page = (ROOT / "REPORT.md").read_text()
    links = set(re.findall(r"!\[.*?\]\((.*?)\)", page))
    assert links == {f"figures/{path.name}" for path in (ROOT / "figures").iterdir()}
