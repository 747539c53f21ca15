"""Order of the gallery: from the first steps to the finer points."""

__all__ = ["reading_order"]

_ORDER = (
    "plot_quick_start.py",
    "plot_denoise.py",
    "plot_inpaint.py",
    "plot_atoms.py",
    "plot_few_labels.py",
    "plot_grid_search.py",
    "plot_streaming.py",
    "plot_collapse.py",
)


def reading_order(filename):
    """Place of an example; one that is not listed comes last."""
    name = filename.rpartition("/")[2]
    return _ORDER.index(name) if name in _ORDER else len(_ORDER), name
