"""Run every experiment of the paper with one command.

    SKVDL_DATA_HOME=... python -m benchmarks.paper trade-off --dataset mnist --seeds 3 --jobs 2
    python -m benchmarks.paper report

Each trained model and each result is saved as soon as it is finished. The same command continues
where an earlier one stopped. `report` writes REPORT.md from the results.
"""

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from skvdl import paper

from .analyse.results import Results
from .render.pictures import draw_atoms, draw_denoising
from .render.report import Report
from .run import ablation, atoms, denoising, low_data, sweep, trade_off
from .run.plan import Plan
from .settings import DATASETS, SIZES
from .store import HERE, BrokenTableError, Folders

EXPERIMENTS: dict[str, tuple[Callable[[Plan], int], str]] = {
    "train": (sweep.train, "train models that are missing, and nothing else"),
    "trade-off": (trade_off.run, "PSNR against sparsity"),
    "denoising": (
        partial(denoising.run, draw=draw_denoising),
        "reconstructions of images with noise",
    ),
    "low-data": (low_data.run, "classification with few labels"),
    "ablation": (ablation.run, "l1 norm of the codes without any guard"),
    "atoms": (partial(atoms.run, draw=draw_atoms), "pictures of atoms and encoder filters"),
}


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is less than 1")
    return number


def _lams(text: str) -> float | str:
    return text if text in ("all", "reported") else float(text)


def _labels(text: str) -> int | str:
    return text if text == "all" else _count(text)


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.paper",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    folders, plan = Folders(), Plan()
    places = argparse.ArgumentParser(add_help=False)
    places.add_argument("--results", type=Path, default=folders.results, help="folder of results")
    places.add_argument("--figures", type=Path, default=folders.figures, help="folder of plots")
    work = argparse.ArgumentParser(add_help=False)
    systems = (*paper.SYSTEMS, *paper.ABLATIONS)
    work.add_argument(
        "--dataset", choices=DATASETS, default=plan.dataset, help="default: %(default)s"
    )
    work.add_argument(
        "--systems",
        nargs="+",
        choices=systems,
        metavar="SYSTEM",
        help=f"of {', '.join(systems)}; default: those of the paper",
    )
    work.add_argument(
        "--lams",
        nargs="+",
        type=_lams,
        help="numbers; or 'all' published, or 'reported', those with figures in the paper (the "
        "default for natural patches)",
    )
    work.add_argument(
        "--seeds", type=_count, default=plan.seeds, help="how many, from 0 on; default: %(default)s"
    )
    work.add_argument(
        "--recipe",
        choices=paper.RECIPES,
        default=plan.recipe,
        help="as published, or the same in far fewer epochs; default: %(default)s",
    )
    work.add_argument("--epochs", type=_count, help="default: the recipe's")
    work.add_argument("--size", choices=SIZES, default=plan.size, help="toy is for tests")
    work.add_argument(
        "--jobs",
        type=_count,
        default=plan.jobs,
        help="processes, one thread each; default: %(default)s",
    )
    work.add_argument("--models", type=Path, default=folders.models, help="folder of models")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, (_, text) in EXPERIMENTS.items():
        command = commands.add_parser(name, parents=[places, work], help=text, description=text)
        if name == "low-data":
            command.add_argument(
                "--labels",
                nargs="+",
                type=_labels,
                default=list(plan.labels),
                help="numbers of labels per class, or 'all'; default: the paper's",
            )
    text = "write the page from the results"
    command = commands.add_parser("report", parents=[places], help=text, description=text)
    command.add_argument("--output", type=Path, default=HERE / "REPORT.md")
    options = parser.parse_args(arguments)
    lams = getattr(options, "lams", None) or []
    if len(lams) > 1 and any(isinstance(lam, str) for lam in lams):
        parser.error("--lams takes numbers, or one of 'all' and 'reported' alone")
    return options


def plan_of(options: argparse.Namespace) -> Plan:
    """Return the plan that options of an experiment ask for."""
    lams = options.lams and (options.lams[0] if isinstance(options.lams[0], str) else options.lams)
    return Plan(
        dataset=options.dataset,
        systems=tuple(options.systems) if options.systems else None,
        lams=tuple(lams) if isinstance(lams, list) else lams,
        seeds=options.seeds,
        recipe=options.recipe,
        epochs=options.epochs,
        size=options.size,
        jobs=options.jobs,
        labels=tuple(getattr(options, "labels", Plan().labels)),
        folders=Folders(options.models, options.results, options.figures),
    )


def report(options: argparse.Namespace) -> int:
    """Write the page."""
    results = Results(Folders(results=options.results))
    if results.n_outdated:
        print(f"left out: {results.n_outdated} records of models with other settings than today's")
    Report(results, options.figures, options.output).write()
    print(f"written: {options.output}")
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Run one command; the exit status tells whether anything failed."""
    options = parse(arguments)
    try:
        if options.command == "report":
            return report(options)
        failed = EXPERIMENTS[options.command][0](plan_of(options))
    except (FileNotFoundError, BrokenTableError) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; the same command continues where this one stopped", file=sys.stderr)
        return 130
    if failed:
        print(f"{failed} failed; the same command tries them again", file=sys.stderr)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
