"""VDL and its rivals on eight data sets, at 60, 70, 80 and 90 % zeros.

    SKVDL_DATA_HOME=... python -m benchmarks.bench_rivals
    python -m benchmarks.bench_rivals report

Every rival is tuned over its own strength with validation rows; VDL has its default settings. Each
result is one line of results/rivals.jsonl, written as soon as it is there: the same command
continues where an earlier one stopped. At the end, and with `report`, tables are printed and
figures drawn from that file. Data sets whose files are missing are skipped.
"""

import argparse
import sys
from pathlib import Path

from .common import RESULTS
from .paper.store import Table
from .rivals.data import DATASETS
from .rivals.report import report
from .rivals.run import LEVELS, METHODS, run

FIGURES = Path(__file__).parent / "figures"


def _level(text):
    level = float(text)
    if not 0 < level < 1:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 1")
    return level


def parse(arguments=None):
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.bench_rivals",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("command", nargs="?", choices=("run", "report"), default="run")
    add(
        "--datasets",
        nargs="+",
        choices=DATASETS,
        default=list(DATASETS),
        metavar="DATASET",
        help=f"of {', '.join(DATASETS)}; default: all",
    )
    add(
        "--methods",
        nargs="+",
        choices=METHODS,
        default=list(METHODS),
        metavar="METHOD",
        help=f"of {', '.join(METHODS)}; default: all",
    )
    add("--levels", nargs="+", type=_level, default=LEVELS, help="shares of zeros")
    add("--seed", type=int, default=0, help="of the methods and of the labels drawn")
    add(
        "--quick",
        action="store_true",
        help="few rows and small grids, to see that everything runs; in files of its own",
    )
    add("--fresh", action="store_true", help="discard all results in the file first")
    add("--results", type=Path, default=RESULTS, help="folder of the table file")
    add("--figures", type=Path, default=FIGURES, help="folder of the figures")
    return parser.parse_args(arguments)


def main(arguments=None):
    options = parse(arguments)
    name = "rivals_quick" if options.quick else "rivals"
    table = Table(options.results / f"{name}.jsonl")
    n_missing = 0
    if options.command == "run":
        if options.fresh:
            table.path.unlink(missing_ok=True)
        n_missing = run(
            table, options.datasets, options.methods, options.levels, options.seed, options.quick
        )
    report(table, options.figures, name)
    if n_missing:
        print(f"\n{n_missing} results are missing; see above", file=sys.stderr)
    return int(n_missing > 0)


if __name__ == "__main__":
    sys.exit(main())
