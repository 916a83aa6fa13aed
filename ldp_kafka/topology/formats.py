"""How events may lie in messages: what a topology's ``input.format`` may be, as data.

A format is a line here and one in `ldp_kafka.runtime.wire.events.FORMATS`, which reads it; a test
compares them.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["INPUT_FORMATS", "InputFormat"]


class InputFormat(NamedTuple):
    """What a topology has to know of one."""

    description: str
    batches: bool
    """Whether a message holds many events; else it holds one."""
    columns: bool
    """Whether a field is a column, and no path that goes deeper."""


INPUT_FORMATS = {
    "json": InputFormat(
        "one event a message, or an array of them (events)", batches=False, columns=False
    ),
    "arrow": InputFormat(
        "a batch of events a message as an Arrow IPC stream", batches=True, columns=True
    ),
}
