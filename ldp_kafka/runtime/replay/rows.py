"""The rows of a table as the messages that a replay would send, for who looks at them first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.replay.csv_text import delimiter_of, named_delimiter, rows
from ldp_kafka.runtime.replay.files import PARQUET, read_file
from ldp_kafka.runtime.replay.messages import singles
from ldp_kafka.runtime.replay.vectors import value_names
from ldp_kafka.topology import Topology

__all__ = ["TableRows", "is_table", "read_rows"]

CSV = (".csv", ".tsv")


class TableRows(NamedTuple):
    """Messages in the order in which a replay sends them: that of time."""

    messages: Sequence[Message]
    place: Callable[[int], str]
    """Of the message at an offset, in words."""
    left_out: int
    """Rows that lack a user, a value or a time."""

    def __repr__(self) -> str:
        return f"TableRows({len(self.messages)} messages)"  # never a value


def is_table(path: Path) -> bool:
    """Whether a file is one, by its name."""
    return path.suffix.lower() in (*CSV, *PARQUET)


def read_rows(
    topology: Topology,
    path: Path,
    user: str = "user",
    value: str = "value",
    *,
    when: str = "time",
    delimiter: str | None = None,
    tell: Callable[[str], None] | None = None,
) -> TableRows:
    """The events of a file, a message each; see `read_file`."""
    source = read_file(topology, path, user, value, when=when, delimiter=delimiter, tell=tell)
    found = list(singles(topology, source))
    messages = [Message(at, -1, text) for at, (_, text) in enumerate(found)]
    if path.suffix.lower() in PARQUET:
        return TableRows(messages, lambda at: f"row {found[at][0] + 1}", source.left_out)

    @cache
    def lines() -> list[int]:
        """Of the rows behind the header; asked for only where something is wrong."""
        wanted = (user, *value_names(topology, value), when)
        parts = delimiter_of(path, wanted) if delimiter is None else named_delimiter(delimiter)
        return [line for line, _ in rows(path, parts)][1:]

    return TableRows(messages, lambda at: f"line {lines()[found[at][0]]}", source.left_out)
