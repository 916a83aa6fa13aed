"""The picture: releases with their error bars against the truth."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np

from ldp_kafka.runtime.demo.result import Result
from ldp_kafka.runtime.releases.plot import label_axis

__all__ = ["plot"]

_TRUE, _RELEASED, _OUTSIDE = "#222222", "#1f6fb2", "#c8452d"


def plot(
    path: Path,
    result: Result,
    starts_ms: list[int],
    *,
    title: str,
    unit: str,
    caption: str,
    panels: tuple[str, ...] = (),
) -> bool:
    """Draw a PNG: one panel, or one a category; False without matplotlib.

    Parameters
    ----------
    path
        of the file
    result
        what to draw
    starts_ms
        the start of each slot, milliseconds
    title, unit
        of the picture, and of its y axis
    caption
        below it: what is guaranteed
    panels
        names of the categories

    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        return False
    columns = 3 if len(panels) > 2 else max(len(panels), 1)
    rows = -(-max(len(panels), 1) // columns)
    figure = Figure(figsize=(10, 5.4) if not panels else (4.2 * columns, 2.9 * rows + 1.4), dpi=120)
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    times = [datetime.fromtimestamp(start / 1000, UTC) for start in starts_ms]
    for at, axis in enumerate(axes.flat):
        if at >= max(len(panels), 1):
            axis.set_visible(False)
            continue
        _panel(axis, times, result, at if panels else None)
        if panels:
            axis.set_title(panels[at], fontsize=10, loc="left")
        label_axis(
            axis, unit if at % columns == 0 else "", below=at + columns >= max(len(panels), 1)
        )
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.suptitle(title, x=0.02, y=0.98, ha="left", fontsize=12, fontweight="bold")
    figure.legend(
        handles,
        labels,
        loc="upper right",
        bbox_to_anchor=(0.99, 0.995),
        ncols=3,
        fontsize=9,
        frameon=False,
    )
    width = 130 if not panels else 46 * columns
    text = fill(caption, width)
    figure.text(0.02, 0.015, text, fontsize=8, color="#555555", va="bottom", ha="left")
    bottom = 0.03 + 0.028 * (text.count("\n") + 1) * (5.4 / figure.get_figheight())
    figure.tight_layout(rect=(0, bottom, 1, 0.99))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    return True


def _panel(axis: Any, times: list[datetime], result: Result, category: int | None) -> None:
    def of(values: Any) -> Any:
        return values if category is None else values[:, category]

    inside = of(result.inside)
    axis.plot(times, of(result.truth), color=_TRUE, linewidth=1.6, label="truth", zorder=3)
    for chosen, colour, label in (
        (inside, _RELEASED, "released, 95 % interval"),
        (~inside, _OUTSIDE, "interval misses the truth"),
    ):
        some = np.flatnonzero(chosen & np.isfinite(of(result.released)))
        axis.errorbar(
            [times[i] for i in some],
            of(result.released)[some],
            yerr=[of(bar)[some] for bar in result.bars],
            fmt="o",
            color=colour,
            markersize=3.5,
            elinewidth=1,
            capsize=2,
            alpha=0.85,
            label=label,
        )
