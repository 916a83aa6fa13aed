"""The users' own messages, strictly, in any of the formats of events.

A format is a file of its own, a line in `FORMATS`, and one in
`ldp_kafka.topology.formats.INPUT_FORMATS`. Which one a message has is seen from how it
begins, whatever the topology's ``input.format``: that is what `ldp-kafka replay` writes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ldp_kafka.errors import BadRecord, Reason
from ldp_kafka.runtime.wire import event_arrow, event_json
from ldp_kafka.runtime.wire.arrow import ARROW, check_size
from ldp_kafka.runtime.wire.fields import Decoded, Fields

__all__ = ["FORMATS", "Decoded", "EventFormat", "EventReader"]


class EventFormat(NamedTuple):
    """How a message of events can be written."""

    begins: bytes
    """How every such message begins; empty: any that is of no other format."""
    read: Callable[[bytes, Fields], Decoded]
    """Events and bad rows of one message. BadRecord where it is bad as a whole."""


FORMATS: dict[str, EventFormat] = {
    "json": EventFormat(b"", event_json.read),
    "arrow": EventFormat(ARROW, event_arrow.read),
}


class EventReader:
    """Reads the messages of one raw topic.

    Parameters
    ----------
    user, value, time, categories, dimension : see `ldp_kafka.runtime.wire.fields.Fields`
    """

    def __init__(
        self,
        user: Sequence[str | int],
        value: Sequence[str | int],
        time: Sequence[str | int],
        categories: int | Sequence[str] | None = None,
        dimension: int = 0,
    ) -> None:
        self._fields = Fields(user, value, time, categories, dimension)
        self._formats = sorted(FORMATS.values(), key=lambda one: -len(one.begins))

    def read(self, message: bytes | None) -> Decoded:
        """Events and bad rows of one message; never raises for what a producer sent."""
        try:
            check_size(message)
            assert message is not None
            for begins, read in self._formats:  # the last one begins with nothing
                if message.startswith(begins):
                    return read(message, self._fields)
            raise BadRecord(Reason.NOT_JSON)
        except BadRecord as bad:
            return Decoded(bad=[(0, bad.reason)])
        except ValueError:  # what a format's own parser says of a stranger's bytes
            return Decoded(bad=[(0, Reason.NOT_JSON)])

    def fields(self, record: Mapping[str, Any]) -> tuple[str, int, float | int | list[float]]:
        """User, milliseconds and value (or category number) of one JSON object. BadRecord
        otherwise.
        """
        return self._fields.of(record)
