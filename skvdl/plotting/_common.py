"""What all displays share: colours, new axes, and arrays in place of tensors."""

__all__ = ["COLOURS", "new_axes", "percent", "tidy", "to_host"]

# Okabe and Ito's colours, which everybody can tell apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")


def to_host(values):
    """Array of a tensor, wherever it is; anything else as it is."""
    return values.detach().cpu().numpy() if hasattr(values, "detach") else values


def new_axes(width, height):
    """Axes of a new figure of this size in inches."""
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(width, height), layout="constrained")[1]


def percent(value, _):
    """Text of a tick for a share."""
    return f"{100 * value:.4g}%"


def tidy(ax):
    """Leave out the lines that say nothing."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(color="0.9", linewidth=0.8)
    ax.set_axisbelow(True)
