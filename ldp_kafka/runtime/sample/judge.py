"""The verdict of the workers' own reader on messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from ldp_kafka.accounting import NEVER
from ldp_kafka.errors import Reason
from ldp_kafka.runtime.log import Message, Output, Record
from ldp_kafka.runtime.runs import Run
from ldp_kafka.runtime.sample.looks import (
    Events,
    Looks,
    look_at_ids,
    look_at_slots,
    look_at_times,
    look_at_values,
)
from ldp_kafka.runtime.sample.parts import Part, require_raw
from ldp_kafka.runtime.sample.shapes import Shapes
from ldp_kafka.runtime.stages.clocks import Timely, late_by_clocks
from ldp_kafka.runtime.stages.per_slot import taking_of
from ldp_kafka.runtime.stages.places import Passed, advance, closed_at
from ldp_kafka.runtime.stages.raw import RawPartition, given_partition
from ldp_kafka.runtime.stages.requests import is_request
from ldp_kafka.topology import Topology

__all__ = ["PLACES", "Missing", "Problem", "Verdict", "judge"]

PLACES = 5  # of each reason, that are named
CHUNK = 4096  # messages that are read at a time


@dataclass(frozen=True, repr=False)
class Problem:
    """What is no event, of one reason."""

    reason: Reason
    count: int
    places: Sequence[str]
    """The first of them: of several rows of a message the first, and how many more."""
    placed: int
    """So many rows lie there."""
    found: Sequence[tuple[str, int]]
    """What lies there in place of what is asked for, in words, and how often; most first."""


@dataclass(frozen=True, repr=False)
class Missing:
    """A field that messages lack."""

    role: str
    """``user`` (of several fields ``user[0]`` and so on), ``time`` or ``value``."""
    count: int
    nearest: str | None
    """A path that most of these messages have, and that may be meant."""
    array: str | None
    """The array of objects that its path leads through: ``input.events``, if it should."""


@dataclass(frozen=True, repr=False)
class Verdict:
    """What workers would make of messages.

    Everything is computed from raw data, without noise: it is for the edge's own eyes.
    """

    messages: int
    with_events: int
    """Messages with an event in them."""
    events: int
    others: int
    """Messages that are neither events nor bad: ticks, requests and headers of ours."""
    left_out: int
    problems: Sequence[Problem]
    """Most first."""
    missing: Sequence[Missing]
    names: Sequence[str]
    """Paths that most messages have that lack a field."""
    time_kinds: Sequence[tuple[str, int]]
    """Messages by the kind of their times, most first; none of tables."""
    looks: Looks | None
    """Of its events; None where there are none."""
    wrong: Sequence[str] = ()
    """Why no worker could fold where they lie."""

    @property
    def bad(self) -> int:
        """Rows that would be dead letters."""
        return sum(problem.count for problem in self.problems)

    @property
    def split(self) -> int:
        """Users of its events who lie in more than one partition."""
        return 0 if self.looks is None else self.looks.ids.split

    @property
    def lost_share(self) -> float:
        """Of all rows, those that would be dead letters, or late: 0 to 1."""
        late = 0 if self.looks is None else self.looks.slots.late
        return (self.bad + late) / max(self.bad + self.events, 1)


def judge(
    topology: Topology,
    parts: Sequence[Part],
    *,
    now_ms: int,
    progress: Callable[[int], None] | None = None,
) -> Verdict:
    """What the topology's workers would make of messages: the reader, the checks of time and of
    partition, and lateness are theirs.

    A part without a partition is judged as a log of its own: ``partition`` is no reason there, and
    ``ahead`` none where messages have no timestamp. Whether events are late depends on what comes
    before them: it is as if the log began with the first message of each part.

    Parameters
    ----------
    now_ms : what time it is
    progress : is told how many messages were judged

    Raises
    ------
    ConfigurationError : the topology has no raw topic
    """
    require_raw(topology)
    tally = _Tally(topology, progress or (lambda _: None))
    for part in parts:
        tally.add(part)
    verdict = tally.verdict(sum(part.left_out for part in parts), now_ms)
    return replace(verdict, wrong=[part.wrong for part in parts if part.wrong is not None])


@dataclass
class _Progress:
    """How far a partition is; see `ldp_kafka.runtime.stages.places.Progress`."""

    watermark: int = -1
    closed: int = NEVER
    come: int = NEVER
    """The last slot that has come, but for what was far ahead of its message's timestamp: see
    `clocks`.
    """

    def __repr__(self) -> str:
        return "_Progress()"  # never a time of a user


@dataclass(repr=False)
class _Place:
    """A message with bad rows of one reason."""

    message: str
    first: int
    """Of its rows."""
    rows: int = 1

    @property
    def words(self) -> str:
        row = f" row {self.first}" if self.first or self.rows > 1 else ""
        more = self.rows - 1
        return f"{self.message}{row}" + (
            f" and {more:,} more row{'s' * (more > 1)}" if more else ""
        )


class _Tally:
    """What was found so far."""

    def __init__(self, topology: Topology, progress: Callable[[int], None]) -> None:
        self._topology, self._progress = topology, progress
        self._shapes = Shapes(topology)
        self._messages = self._with_events = self._others = 0
        self._reasons: Counter[Reason] = Counter()
        self._places: dict[Reason, dict[tuple[int, int], _Place]] = {}
        self._last, self._bad = (0, -1), 0  # the last message with a bad row, and how many have
        self._ids: dict[str, int] = {}
        self._users: list[list[str]] = []
        self._events: list[Events] = []
        self._starts: list[int] = []

    def add(self, part: Part) -> None:
        """Judge messages of one partition."""
        raw = given_partition(self._topology, part.partition or 0)
        raw = replace(
            raw,
            slot_ms=1,  # so that what are slots there are times here
            held=True,  # values stay as they came
            partitions=0 if part.partition is None else raw.partitions,
        )
        at = _Progress(closed=self._topology.input.before_start)
        users = list[str]()
        self._starts.append(sum(map(len, self._events)))
        for start in range(0, len(part.messages), CHUNK):
            chunk = part.messages[start : start + CHUNK]
            users += self._read(raw, part, chunk, start, at)
            self._messages += len(chunk)
            self._progress(self._messages)
        self._users.append(users)

    def _read(
        self, raw: RawPartition, part: Part, chunk: Sequence[Message], start: int, at: _Progress
    ) -> list[str]:
        asked = self._topology.flow.requests is not None
        places = [i for i, each in enumerate(chunk) if not (asked and is_request(each.value))]
        messages = [chunk[i] for i in places]
        by_offset = {message.offset: message for message in messages}
        bad: list[tuple[int, int, Reason]] = []

        def letter(offset: int, row: int, reason: Reason) -> Record:
            bad.append((offset, row, reason))
            return Record("", 0, None, b"")

        rows, latest = raw.read(messages, Output(letter))
        for offset, row, reason in bad:
            self._note(part, by_offset[offset], row, reason)
        good = np.unique(rows.message)
        if not part.table:
            self._shapes.good([messages[i].value or b"" for i in good.tolist()])
        self._with_events += len(good)
        self._others += len(chunk) - len({*good.tolist(), *self._at(messages, bad)})
        slot_ms, lateness = self._topology.input.slot_ms, self._topology.input.lateness
        times = rows.slots
        slots = self._topology.slot_of(times)
        stamps = Run.of(messages).timestamps
        timely = Timely(slot_ms=slot_ms, lateness=lateness, ticked=raw.ticked)
        come = timely.before(at.come, slots, rows.message, latest, stamps)
        at.come = come.item(-1)
        steps = advance(
            at,
            np.arange(len(messages)),
            latest,
            slot_ms=slot_ms,
            lateness=lateness,
            passed=lambda: Passed(at.closed),
        )
        late_for, come = steps.closed_before, come[:-1]
        if raw.ticked:  # an event is as late as its own record
            own = closed_at(stamps, slot_ms=slot_ms, lateness=lateness)
            late_for, come = np.maximum(late_for, own), np.maximum(come, stamps // slot_ms)
        come = come[rows.message]
        in_time = slots > late_for[rows.message]
        clocks = late_by_clocks(slots, come, ~in_time, lateness)
        back = come - slots
        texts = rows.users.texts()
        users = np.array([self._ids.setdefault(each, len(self._ids)) for each in texts], np.int64)
        if texts:
            self._events.append(
                Events(
                    users, times, slots, rows.message + start, in_time, back, clocks, rows.values
                )
            )
        return texts

    def _at(self, messages: Sequence[Message], bad: Sequence[tuple[int, int, Reason]]) -> list[int]:
        """The places of messages with something bad."""
        offsets = {offset for offset, _, _ in bad}
        return [i for i, message in enumerate(messages) if message.offset in offsets]

    def _note(self, part: Part, message: Message, row: int, reason: Reason) -> None:
        self._reasons[reason] += 1
        places, at = self._places.setdefault(reason, {}), (len(self._starts), message.offset)
        if at in places:
            places[at].rows += 1
        elif len(places) < PLACES:
            places[at] = _Place(part.place(message.offset), row)
        if at != self._last:
            self._last, self._bad = at, self._bad + 1
        self._shapes.bad(message.value, row, reason, self._bad)

    def verdict(self, left_out: int, now_ms: int) -> Verdict:
        """All of it."""
        events = Events.join(self._events) if self._events else None
        source, shapes = self._topology.input, self._shapes
        method = self._topology.method
        return Verdict(
            messages=self._messages,
            with_events=self._with_events,
            events=0 if events is None else len(events),
            others=self._others,
            left_out=left_out,
            problems=[
                Problem(
                    reason,
                    count,
                    [each.words for each in self._places[reason].values()],
                    sum(each.rows for each in self._places[reason].values()),
                    shapes.found[reason].most_common(),
                )
                for reason, count in self._reasons.most_common()
            ],
            missing=[
                Missing(role, count, shapes.nearest(role), shapes.array(role))
                for role, count in shapes.missing.most_common()
            ],
            names=shapes.names,
            time_kinds=shapes.times.most_common(),
            looks=Looks(
                # where a relay re-keys, a user may be in any partition
                look_at_ids([[*chain(*self._users)]] if source.rekey else self._users),
                look_at_times(events, now_ms, source.max_ahead_ms),
                look_at_slots(events, self._starts),
                look_at_values(
                    events,
                    self._starts,
                    taking=taking_of(self._topology) if self._topology.holds_slots else None,
                    outside=method.outside if method.kind == "numeric" else None,
                ),
            )
            if events is not None
            else None,
        )
