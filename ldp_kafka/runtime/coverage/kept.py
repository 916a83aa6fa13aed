"""Rows that were made are kept, since all of them take hours: a line of JSON a group of cells."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, NamedTuple

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.evaluation.coverage.cells import Row

__all__ = ["Group", "Kept", "read"]


class Group(NamedTuple):
    """Names of the cells that are made together."""

    method: str
    statistic: str
    stream: str
    users: int


class Kept(NamedTuple):
    """A file's content."""

    runs: int
    seed: int
    rows: dict[Group, list[Row]]


def read(path: Path) -> Kept | None:
    """Parameters
    ----------
    path : of a file that `start` and `add` made; None where there is none

    Raises
    ------
    ConfigurationError : a line is none of theirs. The last may be torn: its group is made again
    """
    if not path.exists():
        return None
    lines = path.read_text("utf-8").split("\n")
    if lines.pop():  # torn
        path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    try:
        head, *groups = map(json.loads, lines)
        rows = {
            Group(*name): [Row(*name, *each).floats(float) for each in found]
            for name, found in groups
        }
        return Kept(head["runs"], head["seed"], rows)
    except (ValueError, TypeError, KeyError):
        raise ConfigurationError(f"{path}: not a file of coverage's rows") from None


def start(path: Path, runs: int, seed: int) -> None:
    """Begin a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _append(path, {"runs": runs, "seed": seed})


def add(path: Path, group: Group, rows: list[Row]) -> None:
    """Keep the rows of a group."""
    _append(path, [group, [[_plain(value) for value in row[len(group) :]] for row in rows]])


def _append(path: Path, made: Any) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(made, allow_nan=False, separators=(",", ":")) + "\n")


def _plain(value: Any) -> Any:
    """JSON has neither infinity nor NaN: they are text here."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
