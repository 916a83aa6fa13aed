"""All experiments by name; each is run, printed and written in one way."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

from ldp_kafka.accounting.words import at_most
from ldp_kafka.evaluation import capp, cgm, cgm_streams, plots, sppa, sppa_cases
from ldp_kafka.evaluation.claims import Claim
from ldp_kafka.evaluation.delay import all_methods, bounds, clipping, figures, parameters
from ldp_kafka.evaluation.experiment import Row, Rows
from ldp_kafka.evaluation.ldp_ids import events, means, meters, scale, sweeps, table_two

__all__ = ["EXPERIMENTS", "Result", "as_plain", "evaluated", "text"]

EXPERIMENTS = {
    experiment.name: experiment
    for room in (
        *(capp, cgm, cgm_streams, sppa, sppa_cases),
        *(table_two, sweeps, events, means, meters, scale),
        *(all_methods, clipping, parameters, figures, bounds),
    )
    for experiment in room.EXPERIMENTS
}


class Result(NamedTuple):
    """What an experiment has come to."""

    rows: list[Row]
    """Infinities and NaN as None."""
    claims: Sequence[Claim]
    plots: list[Path]


def evaluated(name: str, *, quick: bool = False, directory: Path | None = None) -> Result:
    """An experiment's rows, what its paper says of them, and its plots in a directory.

    Raises
    ------
    ConfigurationError : plots are asked for without matplotlib
    FileNotFoundError : the data are not there
    """
    experiment = EXPERIMENTS[name]
    wanted = {} if directory is None else experiment.figures
    if wanted:
        plots.needed()
    rows = list(experiment.rows(**experiment.quick) if quick else experiment.rows())
    drawn = []
    for figure, panels in wanted.items():
        path = Path(directory or "") / f"{name}{'-' * bool(figure)}{figure}.png"
        drawn.append(plots.draw(path, experiment.title, panels(rows)))
    return Result(as_plain(rows), experiment.claims(rows), drawn)


def as_plain(rows: Rows) -> list[Row]:
    """Rows with None for infinities and NaN."""
    return [
        {
            key: None if isinstance(value, float) and not isfinite(value) else value
            for key, value in row.items()
        }
        for row in rows
    ]


def text(rows: Rows) -> list[str]:
    """The rows as aligned lines.

    Examples
    --------
    >>> text([{"method": "capp", "mse": 0.0528}, {"method": "app", "mse": None}])
    ['method     mse', 'capp    0.0528', 'app          -']
    """
    if not rows:
        return []
    cells = [list(rows[0]), *([_cell(*cell) for cell in row.items()] for row in rows)]
    widths = [max(len(line[at]) for line in cells) for at in range(len(cells[0]))]
    words = [isinstance(value, str) for value in rows[0].values()]
    return [
        "  ".join(
            cell.ljust(width) if word else cell.rjust(width)
            for cell, width, word in zip(line, widths, words, strict=True)
        ).rstrip()
        for line in cells
    ]


def _cell(column: str, value: Any) -> str:
    if value is None:
        return "-"
    if column == "epsilon":
        return at_most(value)
    return f"{value:.4g}" if isinstance(value, float) else str(value)
