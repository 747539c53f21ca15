"""What all figures share: size, style, and how they are saved."""

from io import BytesIO
from pathlib import Path

import matplotlib
from PIL import Image

from ..store import write_whole

# no windows, not in worker processes either
matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import LogLocator, NullLocator

_COLOURS = {"SDL": "#0072B2", "VDL": "#D55E00", "WDL": "#009E73", "DO": "#CC79A7"}


def style_of(system: str) -> dict[str, str]:
    """Return colour and line of a system in every plot: one colour per kind, networks solid."""
    colour = _COLOURS.get(system.partition("-")[0], "black")
    if system == "LISTA + linear":
        colour = "0.5"
    line = "-" if system.endswith("-NL") else "--" if colour in _COLOURS.values() else ":"
    return {"color": colour, "linestyle": line}


def new_figure(n_rows: int, n_columns: int, width: float, height: float, **options):
    """Return a figure of a size in inches, and its axes in a two-dimensional array."""
    options |= {"figsize": (width, height), "layout": "constrained"}
    return plt.subplots(n_rows, n_columns, squeeze=False, **options)


def tidy(ax) -> None:
    """Draw a light grid and leave out the lines that say nothing."""
    ax.grid(color="0.9")
    ax.spines[["top", "right"]].set_visible(False)


def log_axis(axis) -> None:
    """Make an axis logarithmic, with plain numbers at its ticks."""
    axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter("{x:g}")


def save_figure(figure, path: Path) -> None:
    """Write a figure, whole or not at all, and close it.

    It gets 256 colours, which takes a third of the space without a visible difference.
    """
    drawn = BytesIO()
    figure.savefig(drawn, format="png", dpi=110, bbox_inches="tight")
    plt.close(figure)
    # colours that cover the range, then moved to where most pixels are
    method = Image.Quantize.MAXCOVERAGE
    small = Image.open(drawn).convert("RGB").quantize(256, method, kmeans=3)
    write_whole(path, lambda temporary: small.save(temporary, format="png", optimize=True))
