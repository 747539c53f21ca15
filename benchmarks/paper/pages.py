"""What the parts of the report share: groups of results, tables in Markdown, figures."""

import os
from io import BytesIO

import matplotlib
import numpy as np
from PIL import Image

from .files import read_all, write_whole
from .models import is_current

# no window, in worker processes neither
matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import LogLocator, NullLocator

NOT_RUN = "not run"
NAMES = {"mnist": "MNIST", "natural": "natural patches", "digits": "digits"}
_COLOURS = {"SDL": "#0072B2", "VDL": "#D55E00", "WDL": "#009E73", "DO": "#CC79A7"}


class Results:
    """Everything that was measured, as read from the folder of results.

    Records of models with other settings than today's are left out, and counted.
    """

    def __init__(self, folder):
        self.n_outdated = 0
        self.runs = self._read(folder / "runs")
        self.denoising = self._read(folder / "denoising")
        self.low_data = self._read(folder / "low_data")
        self.atoms = self._read(folder / "atoms")
        noise = [record for record in read_all(folder / "noise") if record["size"] == "full"]
        self.noise = {record["dataset"]: record["psnr"] for record in noise}

    def _read(self, folder):
        records = read_all(folder)
        # baselines have no model, hence no parameters
        current = [r for r in records if "parameters" not in r or is_current(r)]
        self.n_outdated += len(records) - len(current)
        return current

    def datasets(self):
        """Those of the paper, and digits if something was run on them."""
        return ["mnist", "natural"] + ["digits"] * any(r["dataset"] == "digits" for r in self.runs)


def recipe_of(record):
    """How a model was trained, in a word or two."""
    epochs = record["epochs"]
    label = record["recipe"] + (f", {epochs} epochs" if epochs else "")
    label += f", {record['learning_rate']} rate" if record.get("learning_rate") else ""
    label += ", thorough inference" if record.get("thorough") else ""
    return label + (f", {record['size']}" if record["size"] != "full" else "")


def epochs_of(records):
    """Epochs that were run, and whether training broke off there."""
    epochs = "/".join(map(str, sorted({record["n_iter"] for record in records})))
    return epochs + (", diverged" if any(record["diverged"] for record in records) else "")


def group(records, *fields):
    """Records by the values of some fields, each a name or a function of the record."""
    groups = {}
    for record in records:
        key = tuple(f(record) if callable(f) else record[f] for f in fields)
        groups.setdefault(key, []).append(record)
    return groups


def mean_std(values, digits=2, factor=1.0):
    """Mean over seeds with the standard deviation, where there is more than one."""
    values = factor * np.asarray(values, dtype=float)
    text = f"{values.mean():.{digits}f}"
    return text + (f" ± {values.std():.{digits}f}" if len(values) > 1 else "")


def signed(value, digits=2):
    """Number with its sign, of which a zero has none."""
    text = f"{value:+.{digits}f}"
    return text[1:] if float(text) == 0 else text


def table(header, rows):
    """Lines of a table in Markdown, without columns that are empty in every row."""
    keep = [i for i in range(len(header)) if not rows or any(row[i] != "" for row in rows)]
    lines = [[str(row[i]) for i in keep] for row in [header, ["---"] * len(header), *rows]]
    return ["| " + " | ".join(cells) + " |" for cells in lines] + [""]


def style_of(system):
    """Colour and line of a system in every plot: one colour a kind, networks with a full line."""
    colour = _COLOURS.get(system.partition("-")[0], "black")
    if system == "LISTA + linear":
        colour = "0.5"
    line = "-" if system.endswith("-NL") else "--" if colour in _COLOURS.values() else ":"
    return {"color": colour, "linestyle": line}


def new_figure(n_rows, n_columns, width, height, **options):
    """Figure of a size in inches, and its axes in an array of two dimensions."""
    size = {"figsize": (width, height), "layout": "constrained", "squeeze": False}
    return plt.subplots(n_rows, n_columns, **size, **options)


def tidy(ax):
    """Leave out the lines that say nothing."""
    ax.grid(color="0.9")
    ax.spines[["top", "right"]].set_visible(False)


def log_axis(axis):
    """Make the axis of a plot logarithmic, with plain numbers at its ticks."""
    axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter("{x:g}")


def save_figure(figure, path):
    """Write a figure, whole or not at all, and forget it.

    In 256 colours, a third of the size and no difference to the eye.
    """
    drawn = BytesIO()
    figure.savefig(drawn, format="png", dpi=110, bbox_inches="tight")
    plt.close(figure)
    # colours that cover the range, then moved to where most pixels are
    method = Image.Quantize.MAXCOVERAGE
    small = Image.open(drawn).convert("RGB").quantize(256, method, kmeans=3)
    write_whole(path, lambda temporary: small.save(temporary, format="png", optimize=True))


def picture(path, page, text):
    """Line that shows a figure on a page."""
    link = os.path.relpath(path, page.parent).replace(os.sep, "/")
    return [f"![{text}]({link})", ""]
