"""All experiments by name; each is run, printed and written in one way."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

from ldp_kafka.accounting.words import at_most
from ldp_kafka.evaluation import cgm, cgm_streams, claims, plots, sppa, sppa_cases
from ldp_kafka.evaluation.capp import (
    beyond,
    clip_range,
    crowds,
    dimensions,
    mechanisms,
    order,
    sampling,
    table_one,
)
from ldp_kafka.evaluation.claims import Claim
from ldp_kafka.evaluation.delay import (
    all_methods,
    bounds,
    clipping,
    figures,
    parameters,
    truncating,
)
from ldp_kafka.evaluation.experiment import Experiment, Row, Rows
from ldp_kafka.evaluation.ldp_ids import events, means, meters, scale, sweeps, table_two
from ldp_kafka.evaluation.plots import Panel
from ldp_kafka.version import __version__

__all__ = [
    "EXPERIMENTS",
    "Document",
    "Result",
    "as_plain",
    "asked",
    "cell",
    "document",
    "evaluated",
    "text",
    "written",
]

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for room in (
        *(order, table_one, sampling, crowds, mechanisms, dimensions, clip_range, beyond),
        *(cgm, cgm_streams, sppa, sppa_cases),
        *(table_two, sweeps, events, means, meters, scale),
        *(all_methods, clipping, truncating, parameters, figures, bounds),
    )
    for experiment in room.EXPERIMENTS
}


Document = dict[str, Any]
"""What is written of an experiment, as JSON."""


class Result(NamedTuple):
    """The result of an experiment."""

    rows: list[Row]
    """Infinities and NaN as None."""
    claims: Sequence[Claim]
    plots: Mapping[str, list[Path]]
    """Files by figure."""


def evaluated(
    name: str,
    *,
    quick: bool = False,
    directory: Path | None = None,
    draw: Callable[[Path, str, Sequence[Panel]], list[Path]] = plots.draw,
) -> Result:
    """An experiment's rows, what its paper says of them, and its plots in a directory.

    Parameters
    ----------
    draw : `plots.draw` or `plots.draw_apart`

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
    drawn = {}
    for figure, panels in wanted.items():
        path = Path(directory or "") / f"{name}{'-' * bool(figure)}{figure}"
        drawn[figure] = draw(path, experiment.title, panels(rows))
    return Result(as_plain(rows), experiment.claims(rows), drawn)


def asked(name: str, *, quick: bool) -> Document:
    """What the rows of an experiment follow from, as JSON has it."""
    depth, parameters = ("quick", EXPERIMENTS[name].quick) if quick else ("full", {})
    found = {"version": __version__, "depth": depth, "parameters": dict(parameters)}
    return dict(json.loads(json.dumps(found)))


def document(name: str, found: Result, *, quick: bool) -> Document:
    """What there is to be known of a result; its plots by the names of their files."""
    experiment = EXPERIMENTS[name]
    return {
        "experiment": name,
        "title": experiment.title,
        "data": experiment.data,
        **asked(name, quick=quick),
        "rows": found.rows,
        "claims": claims.as_plain(found.claims),
        "plots": {figure: [path.name for path in paths] for figure, paths in found.plots.items()},
    }


def written(directory: Path, of: Document) -> Path:
    """The file of an experiment's document."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{of['experiment']}.json"
    path.write_text(json.dumps(of, indent=2) + "\n", encoding="utf-8")
    return path


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
    cells = [list(rows[0]), *([cell(*each) for each in row.items()] for row in rows)]
    widths = [max(len(line[at]) for line in cells) for at in range(len(cells[0]))]
    words = [isinstance(value, str) for value in rows[0].values()]
    return [
        "  ".join(
            each.ljust(width) if word else each.rjust(width)
            for each, width, word in zip(line, widths, words, strict=True)
        ).rstrip()
        for line in cells
    ]


def cell(column: str, value: Any) -> str:
    """A figure in a row, in few digits."""
    if value is None:
        return "-"
    if column == "epsilon":
        return at_most(value)
    if isinstance(value, float):
        return f"{value:g}" if column.startswith("printed") else f"{value:.4g}"
    return str(value)
