"""The users' own messages, strictly, in any of the formats of events.

A format is a file of its own, a line in `FORMATS`, and one in
`ldp_kafka.topology.formats.INPUT_FORMATS`. Which one a message has is seen from how it
begins, whatever the topology's ``input.format``: that is what `ldp-kafka replay` writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import compress
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.errors import BadRecord, Reason
from ldp_kafka.runtime.wire import event_arrow, event_json
from ldp_kafka.runtime.wire.arrow import ARROW, check_size
from ldp_kafka.runtime.wire.decoded_run import DecodedRun, PlainRun, join_runs
from ldp_kafka.runtime.wire.fields import Decoded, Fields
from ldp_kafka.topology import Topology

__all__ = ["FORMATS", "Decoded", "EventFormat", "EventReader", "event_reader"]

_FIRST = itemgetter(0)  # byte of a message


def _none_plain(messages: Sequence[bytes], fields: Fields) -> Sequence[PlainRun]:
    """For a format that has no faster way for many small messages."""
    del messages, fields
    return ()


class EventFormat(NamedTuple):
    """How a message of events can be written."""

    begins: bytes
    """How every such message begins; empty: any that is of no other format."""
    read: Callable[[bytes, Fields], Decoded]
    """Events and bad rows of one message. BadRecord where it is bad as a whole."""
    read_plain: Callable[[Sequence[bytes], Fields], Sequence[PlainRun]] = _none_plain
    """The plain events among many messages; what is left out is read message by message."""


FORMATS: dict[str, EventFormat] = {
    "json": EventFormat(b"", event_json.read, event_json.read_plain),
    "arrow": EventFormat(ARROW, event_arrow.read, event_arrow.read_plain),
}


class EventReader:
    """Reads the messages of one raw topic.

    Parameters
    ----------
    user, value, time, categories, dimension, coerce, time_unit, events, parts : see
        `ldp_kafka.runtime.wire.fields.Fields`
    """

    def __init__(
        self,
        user: Sequence[str | int],
        value: Sequence[str | int],
        time: Sequence[str | int],
        categories: int | Sequence[str] | None = None,
        dimension: int = 0,
        *,
        coerce: bool = False,
        time_unit: str | None = None,
        events: Sequence[str | int] | None = None,
        parts: Sequence[Sequence[str | int]] = (),
    ) -> None:
        self._fields = Fields(
            user,
            value,
            time,
            categories,
            dimension,
            coerce=coerce,
            time_unit=time_unit,
            events=events,
            parts=parts,
        )
        # the last one begins with nothing: it is that of all that is of no other
        self._formats = sorted(FORMATS.values(), key=lambda one: -len(one.begins))

    def read(self, message: bytes | None) -> Decoded:
        """Events and bad rows of one message; never raises for what a producer sent."""
        try:
            check_size(message)
            assert message is not None
            return self._format(message).read(message, self._fields)
        except BadRecord as bad:
            return Decoded(bad=[(0, bad.reason)])
        except ValueError:  # what a format's own parser says of a stranger's bytes
            return Decoded(bad=[(0, Reason.NOT_JSON)])

    def read_run(self, messages: Sequence[bytes | None]) -> DecodedRun:
        """The same of many messages: what `read` says of each, as columns."""
        plain: list[PlainRun] = []
        careful = np.ones(len(messages), np.bool_)
        for one, at, texts in self._by_format(messages):
            for run in one.read_plain(texts, self._fields):
                plain.append(run._replace(places=at[run.places]))
                careful[plain[-1].places] = False
        rest = np.flatnonzero(careful).tolist()
        return join_runs(plain, [(at, self.read(messages[at])) for at in rest])

    def _by_format(
        self, messages: Sequence[bytes | None]
    ) -> Iterator[tuple[EventFormat, NDArray[np.intp], Sequence[bytes]]]:
        """The messages of each format, which are not empty, and their places (n,)."""
        left = list(filter(None, messages))
        at = np.arange(len(messages))
        if len(left) < len(messages):
            at = np.flatnonzero(list(map(bool, messages)))
        firsts = set(map(_FIRST, left))
        *others, last = self._formats
        for one in others:
            if one.begins[0] in firsts:
                mine = np.array([text.startswith(one.begins) for text in left], np.bool_)
                yield one, at[mine], list(compress(left, mine))
                at, left = at[~mine], list(compress(left, ~mine))
        if left:
            yield last, at, left

    def _format(self, message: bytes) -> EventFormat:
        """Which one it has."""
        return next(one for one in self._formats if message.startswith(one.begins))

    def fields(self, record: Mapping[str, Any]) -> tuple[str, int, float | int | list[float]]:
        """User, milliseconds and value (or category number) of one JSON object. BadRecord
        otherwise.
        """
        return self._fields.of(record)


def event_reader(topology: Topology) -> EventReader:
    """The reader of a topology's raw topic, as its ``input`` says."""
    source, privacy = topology.input, topology.privacy
    return EventReader(
        source.user,
        source.value,
        source.time,
        privacy.category_names or privacy.categories,
        topology.method.dimension,
        coerce=source.coerce == "numbers",
        time_unit=source.time_unit,
        events=source.events,
        parts=source.parts,
    )
