"""Made-up records of the paper's experiments, and how to find a table in the report."""

from benchmarks.paper.store import Folders


def run_record(system, lam, psnr, sparsity, *, dataset="mnist", recipe="fast", seed=0, l1=(1, 1)):
    """Record of a run that never was."""
    how = {"recipe": recipe, "epochs": None, "size": "full", "n_iter": 14, "diverged": None}
    test = {"psnr": psnr, "sparsity": sparsity, "dead": 0}
    point = {"system": system, "dataset": dataset, "lam": lam, "seed": seed, "test": test}
    return {**point, **how, "history": {"l1": list(l1)}}


def section(page, title, dataset):
    """Part of the report on one experiment and dataset."""
    text = page.partition(f"\n## {title}")[2].partition("\n## ")[0]
    return text.partition(f"\n### {dataset}\n")[2].partition("\n### ")[0]


def cells(text, *start):
    """Rows of a table that begin with these cells."""
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return [row for row in rows if row[: len(start)] == list(start)]


def folders_in(folder):
    """Folders of models, results and figures below a folder."""
    return Folders(folder / "models", folder / "results", folder / "figures")


def read(folder, kind, name):
    """One record of a table."""
    return folders_in(folder).table(kind).read()[name]
