"""Where the real data sets are, and how they are read. None of them is part of this package.

``LDP_KAFKA_DATA`` names their folder; without it, ``../shared/data`` beside the current directory
or beside the checkout.
"""

from __future__ import annotations

import csv
import os
from collections import defaultdict
from datetime import date, timedelta
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.evaluation.sources import SOURCES

__all__ = ["SERIES", "VARIABLE", "Series", "columns", "find", "series", "volume_days"]

VARIABLE = "LDP_KAFKA_DATA"
_DEFAULT = Path("../shared/data")


class Series(NamedTuple):
    """One series among the data sets."""

    file: str
    column: str
    domain: tuple[float, float]
    """Public bounds of a value."""
    unit: str


SERIES = {
    "volume": Series("volume.csv", "value", (0.0, 7280.0), "vehicles per hour"),
    "c6h6": Series("c6h6.csv", "value", (0.0, 63.7), "micrograms of benzene in a cubic metre"),
    "covid19_death": Series("covid19_death.csv", "value", (0.0, 30_000.0), "deaths per week"),
    "unemployment": Series("unemployment.csv", "value", (0.0, 1000.0), "thousands of persons"),
    "outpatient": Series("outpatient.csv", "total_patients", (0.0, 3e6), "patients per week"),
    "foodmart": Series("foodmart.csv", "value", (0.0, 1600.0), "id of an item"),
    "appliances": Series(
        "appliances_energy.csv", "Appliances", (0.0, 1100.0), "watt-hours in ten minutes"
    ),
}


def find(file: str) -> Path:
    """The path of a data file.

    Raises
    ------
    FileNotFoundError : it is in none of the folders; the text says which were tried,
        what to get, from where and under which licence, and what to set

    """
    own = os.environ.get(VARIABLE)
    folders = [Path(own)] if own else [_DEFAULT, Path(__file__).parents[2] / _DEFAULT]
    for folder in folders:
        if (folder / file).is_file():
            return folder / file
    tried = " and ".join(str(folder) for folder in dict.fromkeys(folders))
    raise FileNotFoundError(
        f"no {file} in {tried}: the data sets are not part of ldp_kafka. It is"
        f" {SOURCES.get(file, 'a file of yours')}. Put it into a folder under the name {file}, and"
        f" set {VARIABLE} to the folder"
    )


def columns(file: str, *names: str) -> list[list[str]]:
    """Columns of a CSV file with one header line, as text.

    Raises
    ------
    FileNotFoundError : see `find`
    ConfigurationError : it has no such column

    """
    with find(file).open(newline="", encoding="utf-8") as opened:
        rows = csv.reader(opened)
        head = next(rows, [])
        missing = [name for name in names if name not in head]
        if missing:
            raise ConfigurationError(
                f"{file} has no column {', '.join(missing)}; it has {', '.join(head)}"
            )
        places = [head.index(name) for name in names]
        out: list[list[str]] = [[] for _ in names]
        for row in rows:
            for column, place in zip(out, places, strict=True):
                column.append(row[place])
    return out


def series(name: str) -> NDArray[np.float64]:
    """The values (n,) of one of `SERIES`, in the order of its file.

    Raises
    ------
    FileNotFoundError : see `find`
    ConfigurationError : there is no series of this name

    """
    if name not in SERIES:
        raise ConfigurationError(f"unknown series {name!r}; known: {', '.join(sorted(SERIES))}")
    (texts,) = columns(SERIES[name].file, SERIES[name].column)
    return np.array(texts, np.float64)


def volume_days(days: int = 2) -> NDArray[np.float64]:
    """Every run of ``days`` whole days of the traffic volume, from midnight, as one stream: (runs,
    24 * days). Runs overlap where ``days`` is more than 1.

    Raises
    ------
    FileNotFoundError : see `find`

    """
    hours: defaultdict[date, dict[int, float]] = defaultdict(dict)
    for moment, value in zip(*columns("volume_hourly_dedup.csv", "datetime", "value"), strict=True):
        hours[date.fromisoformat(moment[:10])][int(moment[11:13])] = float(value)
    whole = {
        day: [found[hour] for hour in range(24)] for day, found in hours.items() if len(found) == 24
    }
    runs = [[day + timedelta(ahead) for ahead in range(days)] for day in sorted(whole)]
    return np.array(
        [
            [value for day in run for value in whole[day]]
            for run in runs
            if all(day in whole for day in run)
        ]
    )
