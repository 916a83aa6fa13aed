"""Plots of the papers' figures: panels side by side, the same line for a method in all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from math import isfinite
from pathlib import Path
from textwrap import fill
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.version import install

__all__ = ["Line", "Panel", "draw", "draw_apart", "needed"]

_MARKS = ("o", "s", "^", "D", "v", "P", "X", "*")
_DASHES = ("-", "--", "-.", ":")
_ACROSS = 3  # panels in a row
# characters that fit into an inch: of the legend, a panel's title, and a figure's
CHARACTERS, OF_PANEL, OF_FIGURE = 13, 11, 8
ENTRY = 0.18  # inches of a legend's line; there is room for two
FEW = 8  # points that are ticks of their own


class Line(NamedTuple):
    """One line of a panel."""

    x: Sequence[float]
    y: Sequence[float]
    error: Sequence[float] | None = None
    """Standard errors of ``y``: bars of two of them each way."""
    joined: bool = True
    """Whether the points are joined."""


class Panel(NamedTuple):
    """One panel: lines by name."""

    title: str
    lines: Mapping[str, Line]
    xlabel: str
    ylabel: str
    xscale: str = "linear"
    yscale: str = "log"
    band: tuple[float, float] | None = None
    """A range of ``y`` that is shaded."""
    diagonal: bool = False
    """Whether the line y = x is drawn, on which a guess lies."""
    names: Sequence[str] = ()
    """Of x = 0, 1, ..., where these are no numbers."""
    image: NDArray[np.float64] | None = None
    """Shades of squares in place of lines, (rows, columns): the greatest of the first panel's, and
    what is above it, is black in all of them."""


def needed() -> None:
    """ConfigurationError where there is nothing to draw with: said before anything is computed."""
    if find_spec("matplotlib") is None:
        raise ConfigurationError(f"a plot needs matplotlib: {install('plots')}")


def draw(path: Path, title: str, panels: Sequence[Panel]) -> list[Path]:
    """Draw all panels as one PNG, and say where it is.

    Parameters
    ----------
    path : of the file; ``.png`` is added where its name does not end so

    Raises
    ------
    ConfigurationError : see `needed`
    """
    needed()
    figure = _figure(title, panels, _names(panels))
    made = path.with_name(f"{path.name.removesuffix('.png')}.png")
    made.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(made)
    return [made]


def draw_apart(path: Path, title: str, panels: Sequence[Panel]) -> list[Path]:
    """Draw each panel as an SVG of its own, without the title, for a page that lays them out: the
    same bytes whenever it is drawn. Parameters and errors are those of `draw`.
    """
    del title
    needed()
    import matplotlib as mpl

    path.parent.mkdir(parents=True, exist_ok=True)
    made = []
    for at, panel in enumerate(panels, 1):
        made.append(path.with_name(f"{path.name}-{at}.svg"))
        # text as text; and ids that no other plot of a page has
        with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": made[-1].name}):
            nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
            _figure("", [panel], _names(panels)).savefig(
                made[-1], transparent=True, metadata=nothing
            )
    return made


def _names(panels: Sequence[Panel]) -> list[str]:
    """Of all lines: the same line looks alike in all panels."""
    return list(dict.fromkeys(name for panel in panels for name in panel.lines))


def _figure(title: str, panels: Sequence[Panel], names: Sequence[str]) -> Any:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    across = min(len(panels), _ACROSS)
    down = -(-len(panels) // across)
    width, height = 0.6 + 4.2 * across, 1.1 + 3.5 * down
    figure = Figure(figsize=(width, height), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(down, across, squeeze=False).ravel()
    handles: dict[str, Any] = {}
    darkest = None if panels[0].image is None else panels[0].image.max()
    for axis, panel in zip(axes, panels, strict=False):
        for name, line in panel.lines.items():
            if any(map(isfinite, line.y)):
                handles[name] = _line(axis, line, names.index(name))
        _dressed(axis, panel)
        if panel.image is not None:
            axis.imshow(panel.image, cmap="Greys", vmin=0, vmax=darkest)
    for axis in axes[len(panels) :]:
        axis.set_visible(False)
    if title:
        wrapped = fill(title, int(width * OF_FIGURE))
        figure.suptitle(wrapped, x=0.01, ha="left", fontsize=12, fontweight="bold")
    if handles:
        most = max(1, int(width * CHARACTERS // (max(map(len, handles)) + 7)))
        deep = -(-len(handles) // most)
        figure.set_figheight(height + ENTRY * max(deep - 2, 0))
        figure.legend(
            handles.values(),
            handles.keys(),
            loc="outside lower center",
            ncols=-(-len(handles) // deep),
            frameon=False,
            fontsize=9,
        )
    return figure


def _line(axis: Any, line: Line, at: int) -> Any:
    return axis.errorbar(
        line.x,
        line.y,
        yerr=None if line.error is None else [2 * each for each in line.error],
        color=f"C{at}",
        linestyle=_DASHES[at % len(_DASHES)] if line.joined else "none",
        marker=_MARKS[at % len(_MARKS)] if len(line.x) <= 20 else "none",
        markersize=4.5,
        linewidth=1.5,
        elinewidth=0.8,
        capsize=2,
    )


def _dressed(axis: Any, panel: Panel) -> None:
    axis.set(xscale=panel.xscale, yscale=panel.yscale)
    places = sorted({x for line in panel.lines.values() for x in line.x})
    if panel.yscale == "log":
        _plain(axis.yaxis)
    if panel.xscale == "log":
        _plain(axis.xaxis)
    if len(places) <= FEW and not panel.names:
        axis.set_xticks(places, [f"{x:,g}" for x in places])
        axis.set_xticks([], minor=True)
    axis.set_xlabel(panel.xlabel, fontsize=9)
    axis.set_ylabel(panel.ylabel, fontsize=9)
    axis.set_title(fill(panel.title, int(3.5 * OF_PANEL)), loc="left", fontsize=10)
    if panel.band is not None:
        axis.axhspan(*panel.band, color="#999999", alpha=0.15, linewidth=0)
    if panel.names:
        many = len(panel.names) > FEW  # would run into each other
        axis.set_xticks(
            range(len(panel.names)),
            panel.names,
            rotation=35 if many else 0,
            ha="right" if many else "center",
        )
    if panel.diagonal:
        axis.plot([0, 1], [0, 1], color="#999999", linewidth=0.8)
    axis.grid(which="both", alpha=0.2)
    axis.tick_params(labelsize=8)
    axis.spines[["top", "right"]].set_visible(False)


def _plain(axis: Any) -> None:
    """Ticks at 1, 2 and 5 of each power of ten, as plain numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
