"""Run what is missing in the table of results, one line per data set, method, level and seed."""

import sys
import traceback
from time import perf_counter

from ..common import machine
from .autoencoders import BatchTopK, TopK
from .data import DATASETS
from .dictionaries import ScikitLearn, Spams, spams
from .factors import NMF, PCA, RawFeatures
from .measures import atoms_found, decibels, probe, timed, zeros
from .ours import VDL

LEVELS = (0.6, 0.7, 0.8, 0.9)
FAMILIES = (VDL, ScikitLearn, Spams, NMF, TopK, BatchTopK, PCA, RawFeatures)
METHODS = {entry: family for family in FAMILIES for entry in family.entries}


def key(dataset, method, level, seed):
    """Return the name of a record. Raw features have no level."""
    return f"{dataset}/{method}/{'-' if method == 'raw' else format(level, 'g')}/{seed}"


def plan(datasets, methods, levels, seed, done):
    """Return the missing entries as data set -> class of methods -> level -> entries."""
    missing = {}
    for dataset in datasets:
        for family in FAMILIES:
            if family is Spams and spams is None:
                continue
            for level in levels[:1] if family is RawFeatures else levels:
                entries = [
                    entry
                    for entry in family.entries
                    if entry in methods
                    and entry not in DATASETS[dataset].without
                    and key(dataset, entry, level, seed) not in done
                ]
                if entries:
                    missing.setdefault(dataset, {}).setdefault(family, {})[level] = entries
    return missing


def run(table, datasets, methods, levels=LEVELS, seed=0, quick=False):
    """Compute all missing records and return how many failed or were skipped."""
    if spams is None and any(method in Spams.entries for method in methods):
        print("SPAMS is not installed and is skipped: pip install spams-bin")
    missing = plan(datasets, methods, levels, seed, table.read())
    count = _count(missing)
    print(f"{count} results to compute")
    n_done = n_failed = 0
    for dataset, families in missing.items():
        try:
            data = DATASETS[dataset].prepare(dataset, quick)
        except (FileNotFoundError, ImportError) as error:
            print(f"{dataset} is skipped: {error}")
            n_failed += _count({dataset: families})
            continue
        for family, by_level in families.items():
            method = family(data, seed)
            for level, entries in by_level.items():
                # One failure must not cost the results of the next half an hour.
                try:
                    solved = method.solve(level)
                    records = [measure(data, e, solved[e], level, seed) for e in entries]
                except Exception:
                    traceback.print_exc()
                    print(f"{dataset}, {', '.join(entries)}, {level:.0%} failed", file=sys.stderr)
                    n_failed += len(entries)
                    continue
                for record in records:
                    record["quick"] = quick
                    table.put(key(dataset, record["method"], level, seed), record)
                    n_done += 1
                    print(f"[{n_done + n_failed}/{count}] {summary(record)}", flush=True)
    return n_failed


def _count(missing):
    return sum(len(e) for f in missing.values() for levels in f.values() for e in levels.values())


def measure(data, entry, fitted, level, seed):
    """Measure one fitted model, once, on the test rows."""
    start = perf_counter()
    codes, seconds = timed(lambda: fitted.encode(data.test))
    record = {
        "dataset": data.name,
        "use": data.use,
        "method": entry,
        "level": None if entry == "raw" else level,
        "seed": seed,
        "n_components": data.n_components,
        "shape": list(data.train.shape),
        "test_rows": len(data.test),
        "machine": machine(),
    }
    if entry != "raw":
        record |= {
            "db": decibels(data.test, fitted.decode(codes)),
            "zeros": zeros(codes),
            "fit_seconds": fitted.fit_seconds,
            "transform_seconds": seconds,
            "settings": fitted.settings,
        }
    if data.labels_train is not None:
        record["probe"] = probe(fitted.encode, data, codes, seed)
    if data.atoms is not None and fitted.atoms is not None:
        record["atoms"] = atoms_found(fitted.atoms, data.atoms)
    record["measure_seconds"] = perf_counter() - start
    return record


def summary(record):
    """Return one line about a record."""
    words = [f"{record['dataset']}, {record['method']}"]
    if record["level"] is not None:
        words.append(
            f"{record['level']:.0%}: {record['db']:.2f} dB, {record['zeros']:.1%} zeros, "
            f"fit {record['fit_seconds']:.1f} s, transform {record['transform_seconds']:.2g} s"
        )
    if "probe" in record:
        words.append(f"probe {record['probe']['accuracy']:.1%}")
    if "atoms" in record:
        words.append(f"cosine {record['atoms']['mean_cosine']:.3f}")
    return ", ".join(words)
