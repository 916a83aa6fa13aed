"""The plot of an audit: log likelihood ratios of sets of reports, beside what was claimed."""

from __future__ import annotations

from math import inf, log
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np

from ldp_kafka.audits.result import AuditResult
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms import binomial
from ldp_kafka.version import install

__all__ = ["plot"]

_EVENT, _OTHER, _CLAIM = "#c8452d", "#1f6fb2", "#222222"
_BAND = 0.025  # of each side of a bin's own 95 % band


def plot(path: Path, result: AuditResult, *, title: str = "Audit") -> None:
    """Draw a PNG. Each point is a set of reports, from the least to the most telling order in which
    they were ranked; the sets of the chosen event are marked.

    Raises
    ------
    ConfigurationError : matplotlib is missing, or the finding is exact and has no counts to draw
    """
    if not result.bins:
        raise ConfigurationError("nothing to draw: the finding is exact, it has no counts")
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise ConfigurationError(f"a plot needs matplotlib: {install('plots')}") from None
    figure = Figure(figsize=(10, 5.4), dpi=120)
    FigureCanvasAgg(figure)
    axis = figure.subplots()
    _points(axis, result)
    _bounds(axis, result)
    handles, labels = axis.get_legend_handles_labels()
    figure.suptitle(title, x=0.02, y=0.98, ha="left", fontsize=12, fontweight="bold")
    figure.legend(
        handles,
        labels,
        loc="upper right",
        bbox_to_anchor=(0.99, 0.955),
        ncols=3,
        fontsize=8,
        frameon=False,
    )
    text = "\n".join(fill(line.strip(), 150) for line in result.lines())
    figure.text(0.02, 0.015, text, fontsize=8, color="#555555", va="bottom", ha="left")
    figure.tight_layout(rect=(0, 0.03 + 0.026 * (text.count("\n") + 1), 1, 0.94))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def _points(axis: Any, result: AuditResult) -> None:
    """The bins with their bands; what one input never showed is an arrow at the bound
    of its ratio.
    """
    n, m = result.likelier.trials, result.other.trials
    a, b = (
        np.array([getattr(each, name) for each in result.bins]) for name in ("likelier", "other")
    )
    low = _log(binomial.lower(a, n, _BAND)) - np.log(binomial.upper(b, m, _BAND))
    high = np.log(binomial.upper(a, n, _BAND)) - _log(binomial.lower(b, m, _BAND))
    middle = np.where(
        (a > 0) & (b > 0), _log(np.maximum(a, 1) / n) - _log(np.maximum(b, 1) / m), np.nan
    )
    chosen = np.array([each.chosen for each in result.bins])
    place = np.arange(len(a))
    for which, colour, label in (
        (chosen, _EVENT, "in the event"),
        (~chosen, _OTHER, "other reports"),
    ):
        both = which & np.isfinite(middle)
        whiskers = np.array([middle[both] - low[both], high[both] - middle[both]])
        if both.any():
            axis.errorbar(
                place[both],
                middle[both],
                yerr=whiskers,
                fmt="o",
                color=colour,
                markersize=4,
                elinewidth=1,
                capsize=2,
                label=f"{label}, 95 % band",
            )
        for never, edge, marker in ((b == 0, low, "^"), (a == 0, high, "v")):
            some = which & never & ~((a == 0) & (b == 0))
            if some.any():
                axis.plot(
                    place[some],
                    edge[some],
                    marker,
                    color=colour,
                    markersize=7,
                    label=f"{label}, never for one input",
                )
    axis.set_xlabel("sets of reports, in the order that the event was cut from", fontsize=9)
    axis.set_ylabel("log likelihood ratio, likelier input over the other", fontsize=9)
    axis.axhline(0, color="#999999", linewidth=0.6)
    axis.grid(visible=True, color="#e4e4e4", linewidth=0.6)
    axis.set_axisbelow(True)
    axis.tick_params(labelsize=8)
    if len(place) <= 12:
        axis.set_xticks(place)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)


def _bounds(axis: Any, result: AuditResult) -> None:
    """What was claimed, and what was found of the whole event."""
    if result.claimed is not None and result.claimed < inf:
        for sign, label in ((1, "claimed epsilon, both ways"), (-1, None)):
            axis.axhline(
                sign * result.claimed, color=_CLAIM, linewidth=1.2, linestyle="--", label=label
            )
    if result.epsilon_lower > 0:
        axis.axhline(
            result.epsilon_lower,
            color=_EVENT,
            linewidth=1.2,
            label="lower bound of epsilon, from the whole event",
        )
    a, b = result.likelier, result.other
    if a.hits and b.hits:
        seen = log(a.hits / a.trials) - log(b.hits / b.trials)
        axis.axhspan(
            result.epsilon_lower,
            max(seen, result.epsilon_lower),
            color=_EVENT,
            alpha=0.12,
            linewidth=0,
            label="from the bound to the event's own ratio",
        )


def _log(x: Any) -> Any:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log(np.asarray(x, np.float64))
