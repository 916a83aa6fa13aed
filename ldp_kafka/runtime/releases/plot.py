"""Releases with their error bars as a picture."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby
from math import nan
from pathlib import Path
from textwrap import fill
from typing import Any, NamedTuple

import numpy as np

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.records import Release
from ldp_kafka.runtime.releases.files import whole_file
from ldp_kafka.runtime.releases.rows import Row, rows_of
from ldp_kafka.version import install

__all__ = ["FORMATS", "PANELS", "check_plot", "label_axis", "plot"]

PANELS = 12  # of one statistic: what a page shows
FORMATS = ("png", "svg", "pdf")
COLUMNS = 3
_BARS = "Bars: 95 % intervals."
_LETTERS = 16  # of a caption in an inch
_BLUE, _GREY = "#1f6fb2", "#555555"
_FIRST, _LAST = -62_135_596_800_000, 253_402_300_799_999  # milliseconds that a datetime has


class _Series(NamedTuple):
    """One number over time."""

    statistic: str
    name: str
    """What it is of; empty for the crowd's only number."""
    rows: list[Row]

    @property
    def unit(self) -> str:
        """What its axis says."""
        threshold = self.rows[-1]["above"]
        return self.statistic if threshold is None else f"probability above {threshold:,.6g}"


def check_plot(path: Path) -> None:
    """What can be known before anything is read.

    Raises
    ------
    ConfigurationError : there is no matplotlib, or the file's ending is none of `FORMATS`
    """
    if path.suffix.removeprefix(".").lower() not in FORMATS:
        raise ConfigurationError(f"{path}: a plot must end in {', '.join(FORMATS)}")
    try:
        import matplotlib.figure
    except ModuleNotFoundError:
        raise ConfigurationError(f"a plot needs matplotlib: {install('plots')}") from None
    del matplotlib


def plot(
    path: Path, releases: Iterable[Release], slot_ms: int, *, title: str, caption: str
) -> list[str]:
    """Draw releases, at least one: a panel each number, of each statistic twelve at most, over
    time; of a distribution its newest slot over the bins.

    Parameters
    ----------
    path : of the picture, its ending one of `FORMATS`
    slot_ms : length of a slot, milliseconds
    caption : below it: what is guaranteed

    Returns
    -------
    what is left out, and how many releases state no error, in words

    Raises
    ------
    ConfigurationError : it cannot be drawn, or written
    """
    check_plot(path)
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    binned, series, notes = _chosen(releases)
    panels = len(binned) + len(series)
    across = min(COLUMNS, panels) if panels != 4 else 2
    down = -(-panels // across)
    size = (10, 5.4) if panels == 1 else (max(4.2 * across, 8.4), 2.9 * down + 1.4)
    figure = Figure(figsize=size, dpi=120)
    FigureCanvasAgg(figure)
    axes = figure.subplots(down, across, squeeze=False).ravel()
    for axis, distribution in zip(axes, binned, strict=False):
        _draw_bins(axis, distribution)
    limits = _limits(series)
    below = panels - across
    for at, one in enumerate(series, len(binned)):
        _draw_series(axes[at], one, slot_ms)
        axes[at].set_ylim(*limits[one.statistic])
        label_axis(axes[at], one.unit if at % across == 0 else "", below=at >= below)
        if panels > 1:
            axes[at].set_title(one.name or one.unit, fontsize=10, loc="left")
    for axis in axes[panels:]:
        axis.set_visible(False)
    figure.suptitle(title, x=0.02, y=0.98, ha="left", fontsize=12, fontweight="bold")
    text = fill(" ".join([_BARS, caption, *notes]), round(_LETTERS * size[0]))
    figure.text(0.02, 0.015, text, fontsize=8, color=_GREY, va="bottom", ha="left")
    bottom = 0.03 + 0.028 * (text.count("\n") + 1) * (5.4 / size[1])
    figure.tight_layout(rect=(0, bottom, 1, 0.99))
    with whole_file(path) as part:
        figure.savefig(part)
    return notes


def label_axis(axis: Any, unit: str, *, below: bool) -> None:
    """An axis of time: plain dates, a light grid.

    Parameters
    ----------
    unit : of the values; empty: beside another axis that says it
    below : whether no other axis is below
    """
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    locator = AutoDateLocator(minticks=4, maxticks=8)
    axis.xaxis.set_major_locator(locator)
    axis.xaxis.set_major_formatter(ConciseDateFormatter(locator, show_offset=False))
    _plain(axis)
    axis.tick_params(labelbottom=below)
    if unit:
        axis.set_ylabel(unit, fontsize=9)
    if below:
        axis.set_xlabel("start of the slot (UTC)", fontsize=9)


def _plain(axis: Any) -> None:
    axis.grid(visible=True, color="#e4e4e4", linewidth=0.6)
    axis.set_axisbelow(True)
    axis.tick_params(labelsize=8)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)


def _chosen(
    releases: Iterable[Release],
) -> tuple[list[Release], list[_Series], list[str]]:
    """The newest release of each distribution, the numbers over time, and what is left out."""
    newest: dict[str, Release] = {}
    found: dict[tuple[str, str, int], list[Row]] = {}
    for release in sorted(releases, key=lambda each: each.slot):
        if release.edges is not None:
            if release.value is not None:
                newest[release.statistic] = release
            continue
        for row in rows_of(release):
            place = (release.statistic, row["subject"], row["position"])
            found.setdefault(place, []).append(row)
    series, notes = [], []
    first = {statistic: at for at, (statistic, _, _) in reversed(list(enumerate(found)))}

    def order(place: tuple[str, str, int]) -> tuple[bool, int, str, int]:
        """What is of the crowd first, else as it came."""
        return place[1] != "", first[place[0]], *place[1:]

    for statistic, places in groupby(sorted(found, key=order), key=lambda place: place[0]):
        every = list(places)
        many = len({at for _, _, at in every}) > 1
        series += [
            _Series(statistic, _name(found[place], many=many), found[place])
            for place in every[:PANELS]
        ]
        if len(every) > PANELS:
            notes.append(f"{statistic}: {PANELS} of {len(every):,} are shown.")
        rows = [row for place in every for row in found[place] if row["value"] is not None]
        without = [row["error_reason"] for row in rows if row["error_reason"]]
        if without:
            of, words = f"{len(without):,} of {len(rows):,}", ", ".join(sorted(set(without)))
            notes.append(f"{statistic}: {of} state no error ({words}).")
    if not (newest or series):
        raise ConfigurationError("there is no release to draw")
    return list(newest.values()), series, notes


def _name(rows: Sequence[Row], *, many: bool) -> str:
    """What the numbers of one series are of."""
    last = rows[-1]
    place = last["category"] or (str(last["position"]) if many else "")
    return " ".join(each for each in (last["subject"][:16], place) if each)


def _draw_series(axis: Any, one: _Series, slot_ms: int) -> None:
    times, values, low, high = [], [], [], []
    for row in one.rows:
        start = row["slot"] * slot_ms
        if not _FIRST <= start <= _LAST or row["value"] is None:
            continue
        times.append(datetime.fromtimestamp(start / 1000, UTC))
        values.append(_drawn(row))
        # a share that is none, below 0, has an interval of what shares can be
        low.append(nan if row["low"] is None else max(row["value"] - row["low"], 0.0))
        high.append(nan if row["high"] is None else max(row["high"] - row["value"], 0.0))
    if not times:
        return
    axis.errorbar(
        times,
        values,
        yerr=[low, high],
        fmt="o",
        color=_BLUE,
        markersize=3.5,
        elinewidth=1,
        capsize=2,
        alpha=0.85,
    )


def _drawn(row: Row) -> float:
    """The value; of an event how likely it is that the truth is above."""
    if row["above"] is None or row["error"] is None:
        return float(row["value"])
    return float(1 - row["error"] if row["value"] else row["error"])


def _draw_bins(axis: Any, release: Release) -> None:
    """Shares of bins, each as wide as its bin."""
    rows = list(rows_of(release))
    low, high, values, least, most = (
        np.array([row[name] for row in rows], float)
        for name in ("bin_low", "bin_high", "value", "low", "high")
    )
    bars = np.maximum([values - least, most - values], 0.0)
    axis.bar(low, values, high - low, align="edge", color=_BLUE, alpha=0.45, edgecolor="white")
    axis.errorbar((low + high) / 2, values, yerr=bars, fmt="none", color=_BLUE, capsize=2)
    axis.set_title(f"{release.statistic}, slot from {release.start}", fontsize=10, loc="left")
    axis.set_ylabel("share", fontsize=9)
    _plain(axis)


def _limits(series: Sequence[_Series]) -> dict[str, tuple[float, float]]:
    """By statistic, one range for all of its panels."""
    found: dict[str, tuple[float, float]] = {}
    for one in series:
        ends = [end for row in one.rows for end in _ends(row)]
        before = found.get(one.statistic)
        ends += [] if before is None else list(before)
        found[one.statistic] = (min(ends, default=0.0), max(ends, default=1.0))
    return {
        name: (low - 0.05 * ((high - low) or 1), high + 0.05 * ((high - low) or 1))
        for name, (low, high) in found.items()
    }


def _ends(row: Row) -> Iterator[float]:
    if row["above"] is not None:
        yield from (0.0, 1.0)
        return
    for name in ("low", "value", "high"):
        if row[name] is not None:
            yield row[name]
