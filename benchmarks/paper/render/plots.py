"""Plots of what the analysis found."""

from pathlib import Path

import numpy as np

from skvdl.plotting import TradeOffDisplay

from ..analyse.low_data import MEASURES
from ..analyse.tables import NAMES
from ..analyse.trade_off import Point
from ..settings import FEATURES, GUARDS, LABELS, PROTOCOLS
from ..targets import TARGETS, reported
from .figures import log_axis, new_figure, save_figure, style_of, tidy


def plot_trade_off(
    curves: dict[str, list[Point]],
    papers: dict[str, list[tuple[float, float]]],
    dataset: str,
    path: Path,
) -> None:
    """Plot curves with error bars over the seeds, and stars where the paper has figures."""
    flat = [(system, point) for system, curve in curves.items() for point in curve]
    most = max(len(point.records) for _, point in flat)

    def padded(name):
        rows = [point.values(name) for _, point in flat]
        return [row + [np.nan] * (most - len(row)) for row in rows]

    display = TradeOffDisplay.from_predictions(
        padded("sparsity"), padded("psnr"), labels=[system for system, _ in flat]
    )
    ax = display.ax_
    display.figure_.set_size_inches(8, 5.5)
    for system, container in display.curves_.items():
        style = style_of(system)
        container.lines[0].set_linestyle(style["linestyle"])
        for artist in container.get_children():
            artist.set_color(style["color"])
        x, y = zip(*papers[system], strict=True) if papers[system] else ((), ())
        # filled for networks, as their lines are solid
        fill = style["color"] if style["linestyle"] == "-" else "none"
        ax.plot(x, y, "*", color=style["color"], markersize=13, markerfacecolor=fill)
    stars = "stars: the paper, filled for networks"
    noted = stars if reported("trade_off", dataset) else "no figures in the paper"
    if dataset in TARGETS["relative_to_noise"]:
        noted += ", shifted by the difference of noise"
    ax.set_title(f"{NAMES[dataset]}, test set ({noted})", loc="left", fontsize="medium")
    ax.legend(frameon=False)
    save_figure(display.figure_, path)


def plot_low_data(curves: dict, path: Path) -> None:
    """Plot errors against labels: a row of panels per protocol, a column per measure."""
    figure, axes = new_figure(2, 2, 11, 8, sharex=True)
    places = dict(zip(LABELS, (*range(len(LABELS) - 1), len(LABELS) - 0.5), strict=True))
    for row, protocol in zip(axes, PROTOCOLS, strict=True):
        for ax, (measure, name) in zip(row, MEASURES.items(), strict=True):
            of_systems = curves.get((protocol, measure), {})
            for system in (system for system in FEATURES if system in of_systems):
                labels, means, deviations = zip(*of_systems[system], strict=True)
                ax.errorbar(
                    [places[n] for n in labels],
                    means,
                    deviations,
                    **style_of(system),
                    label=system,
                    marker="o",
                    markersize=4,
                    elinewidth=1,
                )
            ax.set_title(f"protocol {protocol}, {name}", loc="left", fontsize="medium")
            log_axis(ax.yaxis)
            ax.set_ylabel("error, %")
            tidy(ax)
    for ax in axes[-1]:
        ax.set_xticks(list(places.values()), [str(n) for n in LABELS])
        ax.set_xlabel("labels per class")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside right upper")
    save_figure(figure, path)


def plot_ablation(curves: dict[str, np.ndarray], title: str, path: Path) -> None:
    """Plot the l1 norm over the epochs, linear systems beside networks."""
    kinds = {"linear": "", "network": "-NL"}
    run = {name: [k for k in GUARDS if k + suffix in curves] for name, suffix in kinds.items()}
    run = {name: guards for name, guards in run.items() if guards}
    figure, axes = new_figure(1, len(run), 4.5 * len(run), 3.8, sharey=True)
    for ax, (name, guards) in zip(axes[0], run.items(), strict=True):
        for system, guard in ((k + kinds[name], GUARDS[k]) for k in guards):
            l1 = curves[system]
            style = style_of(system)
            ax.plot(np.arange(1, len(l1) + 1), l1, label=f"{system} ({guard})", **style)
        ax.set_title(f"{title}: {name}", loc="left", fontsize="small")
        log_axis(ax.yaxis)
        ax.xaxis.get_major_locator().set_params(integer=True)
        ax.set_xlabel("epoch")
        tidy(ax)
        ax.legend(frameon=False, fontsize="small")
    axes[0, 0].set_ylabel("l1 norm of a code")
    save_figure(figure, path)
