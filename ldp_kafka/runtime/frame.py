"""A topology over a table in memory, without Kafka: the releases that its topic would hold."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from os import PathLike, fspath
from typing import Any

import pyarrow as pa

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.randomness import KEY_BYTES
from ldp_kafka.records import DeadLetter, Release
from ldp_kafka.runtime import local
from ldp_kafka.runtime.keys import edge_randomness
from ldp_kafka.runtime.releases.columns import table_of
from ldp_kafka.runtime.releases.rows import rows_of
from ldp_kafka.runtime.replay.messages import BATCH, as_log, messages
from ldp_kafka.runtime.replay.source import from_table
from ldp_kafka.runtime.wire.codec import decode
from ldp_kafka.topology import Topology, load

__all__ = ["as_table", "over_frame"]


def over_frame(
    topology: Topology | str | PathLike[str],
    frame: Any,
    *,
    user: str | None = None,
    value: str | None = None,
    time: str | None = None,
    key: bytes | None = None,
    deployment: str = "",
) -> Any:
    """See `ldp_kafka.run`.

    Raises
    ------
    ConfigurationError : the frame is no table, lacks a column, or a row of it cannot be read; the
        topology reads devices, or a topic that a relay re-keys
    """
    loaded = topology if isinstance(topology, Topology) else load(fspath(topology))
    if loaded.flow.raw is None:
        raise ConfigurationError(f"{loaded.name} has no raw topic: its devices report themselves")
    names = [_column(loaded, role, given) for role, given in _roles(user, value, time)]
    source = from_table(loaded, as_table(frame), *names)
    noise = edge_randomness(loaded, os.urandom(KEY_BYTES) if key is None else key, deployment)
    # nothing comes after the table: ticks close its last slots, in a topic of someone else's too
    raw = as_log(loaded, messages(loaded, source, ticks=True))
    made = local.run(loaded, noise, raw, together=BATCH)
    _warn([each for record in made.dead_letters for each in decode(record.value or b"")])
    found = (each for record in made.releases for each in decode(record.value or b""))
    rows = (row for each in found if isinstance(each, Release) for row in rows_of(each))
    return table_of(rows, loaded.input.slot_ms)


def _roles(*given: str | None) -> list[tuple[str, str | None]]:
    return list(zip(("user", "value", "time"), given, strict=True))


def _column(topology: Topology, role: str, given: str | None) -> str:
    """The name of a column: as given, or as the topology's own path has it."""
    path = getattr(topology.input, role)
    if given is not None or topology.input.parts or len(path) != 1:
        return role if given is None else given
    return str(path[0])


def as_table(frame: Any) -> Any:
    """A data frame of pandas or polars, or whatever else gives Arrow, as a `pyarrow.Table`.
    ConfigurationError for what is no table.
    """
    try:
        return pa.table(frame)
    except (TypeError, ValueError, pa.ArrowException):
        pass  # what it says may show values, and would stand behind an error that is raised here
    raise ConfigurationError(
        "the frame must be a table with named columns, each of one type: of pandas, polars or"
        f" Arrow, or a dict of lists; it is {type(frame).__name__}"
    )


def _warn(letters: list[Any]) -> None:
    """Say how many rows could not be used, and why; of what reports did not come to, nothing."""
    reasons = Counter(each.reason for each in letters if isinstance(each, DeadLetter))
    if reasons:
        said = ", ".join(f"{reason}: {count:,}" for reason, count in sorted(reasons.items()))
        warnings.warn(f"rows that could not be used ({said})", stacklevel=4)
