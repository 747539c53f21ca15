"""Markdown tables and figures from the table of results."""

from collections import defaultdict
from statistics import mean

from .data import DATASETS

TITLES = {
    "vdl": "VDL",
    "vdl-encoder": "VDL, encoder",
    "topk": "TopK",
    "batch-topk": "BatchTopK",
    "spams": "SPAMS",
    "spams-refitted": "SPAMS, refitted",
    "mbdl": "MiniBatchDictionaryLearning",
    "mbdl-refitted": "MiniBatchDictionaryLearning, refitted",
    "nmf": "NMF",
    "pca": "PCA (dense)",
    "raw": "raw features",
}
USES = {
    "choice": "used for choosing default values",
    "unseen": "not used for any choice",
}
COLOURS = {
    "vdl": "C3",
    "topk": "C0",
    "batch": "C9",
    "spams": "C2",
    "mbdl": "C1",
    "nmf": "C4",
    "pca": "grey",
}
OURS = ("vdl", "vdl-encoder")
# Levels of the tables; others only help to interpolate.
COLUMNS = (0.6, 0.7, 0.8, 0.9)
# How far beyond the outermost shares of zeros the line through the last two is trusted.
REACH = 0.05


def by_dataset(records):
    """Return data set -> method -> level -> list of records, one per seed, in the fixed order."""
    found = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for record in records:
        found[record["dataset"]][record["method"]][record["level"]].append(record)
    return {
        dataset: {m: found[dataset][m] for m in TITLES if m in found[dataset]}
        for dataset in DATASETS
        if dataset in found
    }


def at_zeros(shares, decibels, level):
    """Return what a method reaches at a share of zeros, along the line through its results.

    The zeros of test rows are near the level that was asked for, but not the same for all methods.

    Parameters
    ----------
    shares, decibels : list of float
        Zeros and reconstruction of each result.
    level : float
        The share of zeros to compare at.

    Returns
    -------
    float or None
        dB; None if the level is too far from all results.
    """
    points = sorted(dict(zip(shares, decibels, strict=True)).items())
    if len(points) < 2 or not points[0][0] - REACH <= level <= points[-1][0] + REACH:
        return None
    after = next((i for i, (share, _) in enumerate(points) if share >= level), len(points) - 1)
    (a, low), (b, high) = points[max(after, 1) - 1], points[max(after, 1)]
    return low + (high - low) * (level - a) / (b - a)


def _means(methods, get):
    """Return method -> level -> mean over seeds of what `get` takes from a record."""
    return {
        method: {level: mean(get(r) for r in rs) for level, rs in levels.items()}
        for method, levels in methods.items()
    }


def markdown(dataset, methods):
    """Return the tables of one data set: reconstruction and time, then probe, then atoms."""
    description = DATASETS[dataset]
    first = next(r for levels in methods.values() for rs in levels.values() for r in rs)
    lines = [
        f"## {description.title}",
        "",
        f"{first['shape'][0]} x {first['shape'][1]} training rows, {first['test_rows']} test rows, "
        f"{first['n_components']} components; {USES[description.use]}.",
        "",
    ]
    models = {m: levels for m, levels in methods.items() if m != "raw"}
    known = {level for levels in models.values() for level in levels}
    columns = [level for level in COLUMNS if level in known]
    if models:
        lines += _reconstruction(models, columns)
    probes = {
        m: ls for m, ls in methods.items() if all("probe" in r for rs in ls.values() for r in rs)
    }
    if probes:
        lines += _probe(probes, columns)
    atoms = {
        m: ls for m, ls in models.items() if all("atoms" in r for rs in ls.values() for r in rs)
    }
    if atoms:
        lines += _atoms(atoms, columns)
    return "\n".join(lines)


def _table(header, rows):
    rule = ["---"] * len(header)
    return [f"| {' | '.join(row)} |" for row in (header, rule, *rows)] + [""]


def at_levels(methods, columns):
    """Return method -> level -> dB, interpolated, or None."""
    db = _means(methods, lambda r: r["db"])
    share = _means(methods, lambda r: r["zeros"])
    return {
        method: {
            # dense codes have no zeros to compare at
            level: db[method].get(level)
            if method == "pca"
            else at_zeros(share[method].values(), db[method].values(), level)
            for level in columns
        }
        for method in methods
    }


def summary(datasets):
    """Return one table for all data sets: VDL and its best rival at each level."""

    def cells(values, others):
        words = []
        for value, other in zip(values, others, strict=True):
            if value is None:
                words.append("-")
            elif other is None or value > other:
                words.append(f"**{value:.2f}**")
            else:
                words.append(f"{value:.2f}")
        return words

    rows = []
    for dataset, methods in datasets.items():
        rivals = {m: ls for m, ls in methods.items() if m not in (*OURS, "pca", "raw")}
        if "vdl" not in methods or not rivals:
            continue
        ours = list(at_levels({"vdl": methods["vdl"]}, COLUMNS)["vdl"].values())
        found = at_levels(rivals, COLUMNS)
        best = [
            max((found[m][level] for m in found if found[m][level] is not None), default=None)
            for level in COLUMNS
        ]
        rows.append([DATASETS[dataset].title, "VDL", *cells(ours, best)])
        rows.append(["", "best rival", *cells(best, ours)])
    header = ["", "dB of test rows at zeros of", *(f"{level:.0%}" for level in COLUMNS)]
    return "\n".join(["## Summary", "", *_table(header, rows)])


def _reconstruction(methods, columns):
    """dB at each level, the best one bold; seconds averaged over the levels."""
    fit = _means(methods, lambda r: r["fit_seconds"])
    transform = _means(methods, lambda r: r["transform_seconds"])
    at_level = at_levels(methods, columns)
    best = {
        level: max(
            (at_level[m][level] for m in methods if m != "pca" and at_level[m][level] is not None),
            default=None,
        )
        for level in columns
    }

    def cell(method, level):
        value = at_level[method][level]
        if value is None:
            return "-"
        return f"**{value:.2f}**" if value == best[level] and method != "pca" else f"{value:.2f}"

    return _table(
        [
            "dB of test rows at zeros of",
            *(f"{level:.0%}" for level in columns),
            "fit, s",
            "transform, s",
        ],
        [
            [
                TITLES[method],
                *(cell(method, level) for level in columns),
                f"{mean(fit[method].values()):.3g}",
                f"{mean(transform[method].values()):.2g}",
            ]
            for method in methods
        ],
    )


def _probe(methods, columns):
    """Accuracy with its standard error over draws of labels."""
    accuracy = _means(methods, lambda r: r["probe"]["accuracy"])
    error = _means(methods, lambda r: r["probe"]["standard_error"])

    def cell(method, level):
        level = None if method == "raw" else level
        if level not in accuracy[method]:
            return "-"
        return f"{accuracy[method][level]:.1%} ± {100 * error[method][level]:.1f}"

    header = ["accuracy, five labels per class", *(f"{level:.0%}" for level in columns or [0])]
    return _table(
        header, [[TITLES[m], *(cell(m, level) for level in columns or [0])] for m in methods]
    )


def _atoms(methods, columns):
    """Mean cosine after assignment, and the share of true atoms found."""
    cosine = _means(methods, lambda r: r["atoms"]["mean_cosine"])
    share = _means(methods, lambda r: r["atoms"]["share_above_0.9"])

    def cell(method, level):
        if level not in cosine[method]:
            return "-"
        return f"{cosine[method][level]:.3f} ({share[method][level]:.0%})"

    header = ["mean cosine (share above 0.9)", *(f"{level:.0%}" for level in columns)]
    return _table(header, [[TITLES[m], *(cell(m, level) for level in columns)] for m in methods])


def draw(dataset, methods, path):
    """Draw dB against the share of zeros."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 4.4), layout="constrained")
    for method, levels in methods.items():
        if method == "raw":
            continue
        points = []
        for level, records in sorted(levels.items()):
            share = level if method == "pca" else mean(r["zeros"] for r in records)
            points.append((100 * share, mean(r["db"] for r in records)))
        # Two entries of one method have one colour.
        base, _, second = method.partition("-")
        second = second and method != "batch-topk"
        axes.plot(
            *zip(*points, strict=True),
            "--" if second else ":" if method == "pca" else "-",
            marker="s" if second else "o",
            color=COLOURS[base],
            linewidth=2.5 if method == "vdl" else 1.3,
            label=TITLES[method],
        )
    axes.set_xlabel("zeros in the codes, % (PCA: components left out)")
    axes.set_ylabel("reconstruction of test rows, dB")
    description = DATASETS[dataset]
    axes.set_title(f"{description.title} ({USES[description.use]})")
    figure.legend(loc="outside right center", fontsize="small")
    axes.grid(alpha=0.3)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def report(table, figures, prefix):
    """Print the tables of all data sets in the file and draw their figures."""
    datasets = by_dataset(table.read().values())
    for dataset, methods in datasets.items():
        print(f"\n{markdown(dataset, methods)}")
        if any(method != "raw" for method in methods):
            path = figures / f"{prefix}_{dataset}.png"
            draw(dataset, methods, path)
            print(f"figure: {path}")
    print(f"\n{summary(datasets)}")
