"""The edge's fold: raw messages in, report batches and dead letters out.

What depends on the log alone is in ``meta`` (the watermark and the last closed slot), what depends
on a user is in that user's shard. Lateness is decided here, once, by position in the log: every row
of a message is judged by what was closed before the message. Order of a user's events: by message,
then slot, then row; one at or before the user's last slot drops.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import NEVER, take16
from ldp_kafka.methods import Method
from ldp_kafka.methods.base import REFUSED, SENT
from ldp_kafka.randomness import Digests, Keyed
from ldp_kafka.records import Events, Ids, Reports
from ldp_kafka.runtime.log import Folded, Message, Record
from ldp_kafka.runtime.partitioning import partitions_of
from ldp_kafka.runtime.stages.users import Users
from ldp_kafka.runtime.wire.dead_letters import dead_letter
from ldp_kafka.runtime.wire.events import Decoded, EventReader
from ldp_kafka.runtime.wire.records import write_reports

__all__ = ["Edge", "EdgeState"]

CHUNK_ROWS = 2**14  # reports in one message at most ...
CHUNK_BYTES = (
    700_000  # ... and about this many bytes of them: well below what a broker takes by default
)
ROW_BYTES = 48  # of a report, beside its packed bits


@dataclass
class EdgeState:
    """What the edge knows of one partition."""

    users: Users
    covers: NDArray[np.int64]
    """Last offset that each shard has folded, where it is ahead of the partition: after a crash
    between shards and meta.
    """
    watermark: int = -1
    """Greatest event time accepted, milliseconds."""
    closed: int = NEVER
    """Last closed slot."""


class Rows(NamedTuple):
    """Valid events of a run of messages as columns."""

    users: Ids
    slots: NDArray[np.int64]
    values: NDArray[np.int64]
    """Bound to the method's integers: (n,), or (n, dimension)."""
    message: NDArray[np.intp]
    """Which message of the run each came with."""

    def __repr__(self) -> str:
        return f"Rows({len(self.slots)})"  # never a value


class Several(NamedTuple):
    """Reports of a step whose rows have several, each of a slot of its own."""

    rows: NDArray[np.intp]
    """Of the step."""
    source: NDArray[np.intp]
    """Row of each report."""
    slots: NDArray[np.int64]
    answers: NDArray[np.int64]
    """On the method's grid."""

    def __repr__(self) -> str:
        return f"Several({len(self.slots)})"  # never a value


@dataclass(frozen=True)
class Edge:
    """The perturb stage of one topology.

    Parameters
    ----------
    method, randomness : what perturbs, and the one door to noise
    reader : of the raw topic's messages
    slot_ms, lateness, max_ahead_ms : as in the topology; lateness in slots
    shards : of a partition's users
    per_user : whether reports carry a series
    """

    method: Method
    randomness: Keyed
    reader: EventReader
    topic: str
    reports_topic: str
    dead_letters_topic: str
    partition: int
    fingerprint: str
    layout: str
    slot_ms: int
    lateness: int
    max_ahead_ms: int
    shards: int
    per_user: bool
    partitions: int = 0
    """Where users are spread by murmur2 of their ids over so many; a user elsewhere would have a
    second budget.
    """

    @property
    def key(self) -> str:
        """Under another first key all users would look new, their budgets unspent; under other
        rotations a (user, slot) could be drawn twice.
        """
        return self.randomness.check

    def fresh(self) -> EdgeState:
        return EdgeState(
            Users(self.method.fields, self.randomness, self.shards),
            np.full(self.shards, -1, np.int64),
        )

    def fold(self, state: EdgeState, messages: Sequence[Message]) -> Folded:
        """Reports of consecutive messages; the same records whether they are folded one by one or
        together.
        """
        counts: dict[str, float] = dict.fromkeys(
            ("events", "reports", "silent", "late", "duplicates", "refused", "clamped"), 0
        )
        records: list[Record] = []
        rows, latest = self._read(messages, records, counts)
        before, after = self._watermarks(state, latest)
        counts["events"] = len(rows.slots)
        if len(rows.slots):
            self._perturb(state, messages, rows, before, after, records, counts)
        else:
            for at, message in enumerate(messages):
                self._report(records, message, None, before[at], after[at])
        counts["watermark"] = state.watermark
        return Folded(records, counts)

    def latest(self, messages: Sequence[Message]) -> int:
        """The greatest event time (milliseconds) in these messages that a fold of them accepts or
        drops as late; -1 if there is none.
        """
        return max(self._read(messages, [], {})[1], default=-1)

    def _read(
        self, messages: Sequence[Message], records: list[Record], counts: dict[str, float]
    ) -> tuple[Rows, list[int]]:
        """All valid events of the messages, and the greatest time in each message (-1 if none)."""
        users: list[Ids] = []
        times, values, source, latest = [], [], [], []
        for at, message in enumerate(messages):
            decoded = self._timely(self._at_home(self.reader.read(message.value)), message)
            for row, reason in decoded.bad:
                records.append(
                    dead_letter(
                        self.dead_letters_topic,
                        self.topic,
                        self.partition,
                        message.offset,
                        row,
                        reason,
                    )
                )
                counts[f"dead_letters:{reason}"] = counts.get(f"dead_letters:{reason}", 0) + 1
            time = -1 if decoded.tick is None else decoded.tick
            if decoded.events is not None and len(decoded.events):
                events = decoded.events
                users.append(events.users)
                times.append(events.times)
                values.append(events.values)
                source.append(np.full(len(events), at))
                time = max(time, int(events.times.max()))
            latest.append(time)
        if not users:
            return (
                Rows(
                    Ids.of([]), np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.intp)
                ),
                latest,
            )
        value = _joined(values)
        counts["clamped"] = int(np.count_nonzero(self.method.outside(value)))
        return (
            Rows(
                Ids.join(users),
                _joined(times) // self.slot_ms,
                self.method.bound(value),
                _joined(source),
            ),
            latest,
        )

    def _at_home(self, decoded: Decoded) -> Decoded:
        """Without users of other partitions, where the partitioner is known."""
        events = decoded.events
        if not self.partitions or events is None or not len(events):
            return decoded
        away = partitions_of(events.users.texts(), self.partitions) != self.partition
        return _without(decoded, away, "partition") if away.any() else decoded

    def _timely(self, decoded: Decoded, message: Message) -> Decoded:
        """Without what is further ahead of the message's own timestamp than allowed: that would
        close slots for everybody.
        """
        if message.timestamp < 0:
            return decoded
        limit = message.timestamp + self.max_ahead_ms
        if decoded.tick is not None and decoded.tick > limit:
            return Decoded(bad=[(0, "ahead")])
        if (
            decoded.events is None
            or not len(decoded.events)
            or int(decoded.events.times.max()) <= limit
        ):
            return decoded
        return _without(decoded, decoded.events.times > limit, "ahead")

    def _watermarks(self, state: EdgeState, latest: list[int]) -> tuple[list[int], list[int]]:
        """The last closed slot before and after each message. A late event cannot move the
        watermark, so the greatest time of all valid ones is that of the accepted ones.
        """
        before, after = [], []
        for time in latest:
            before.append(state.closed)
            if time > state.watermark:
                state.watermark = time
                state.closed = max(state.closed, time // self.slot_ms - self.lateness - 1)
            after.append(state.closed)
        return before, after

    def _perturb(
        self,
        state: EdgeState,
        messages: Sequence[Message],
        rows: Rows,
        before: list[int],
        after: list[int],
        records: list[Record],
        counts: dict[str, float],
    ) -> None:
        users, slots, values, message = (
            state.users.rows(rows.users),
            rows.slots,
            rows.values,
            rows.message,
        )
        keep = slots > (np.array(before)[message] if len(messages) > 1 else before[0])
        if not keep.all():
            counts["late"] = int(np.count_nonzero(~keep))
        if messages[0].offset <= int(
            state.covers.max()
        ):  # some shards are ahead: their rows were folded and reported before the crash
            keep &= (
                state.covers[state.users.shard[users]]
                < np.array([m.offset for m in messages])[message]
            )
        if not keep.all():
            users, slots, values, message = users[keep], slots[keep], values[keep], message[keep]
        if len(slots) and slots.min() != slots.max():
            order = np.lexsort((slots, message))
            if (order[1:] < order[:-1]).any():
                users, slots, values, message = (
                    users[order],
                    slots[order],
                    values[order],
                    message[order],
                )
        answers = self.method.blank(len(users))
        status = np.zeros(len(users), np.uint8)
        several: list[Several] = []
        for group in _rounds(users, slots, distinct=state.users.distinct(users)):
            self._step(state, group, users, slots, values, answers, status, several, counts)
        state.users.touch(users)
        sent = status == SENT
        counts["reports"] = int(np.count_nonzero(sent))
        counts["refused"] = int(np.count_nonzero(status == REFUSED))
        counts["silent"] = (
            len(status) - counts["reports"] - counts["refused"] - counts["duplicates"]
        )
        if several:
            users, slots, answers, message = _expanded(
                several, sent, users, slots, answers, message
            )
            counts["reports"] = len(slots)
        elif not sent.all():
            users, slots, answers, message = users[sent], slots[sent], answers[sent], message[sent]
        digests = state.users.state.digests(users)
        ids = self._ids(digests, slots)
        batch = Reports(
            ids,
            slots,
            answers,
            self.method.scale,
            self.fingerprint,
            0,
            None,
            series=self.randomness.series(digests, slots) if self.per_user else None,
        )
        ends = np.searchsorted(message, np.arange(len(messages) + 1))
        for at, source in enumerate(messages):
            self._report(
                records,
                source,
                _part(batch, slice(int(ends[at]), int(ends[at + 1]))),
                before[at],
                after[at],
            )

    def _ids(self, digests: Digests, slots: NDArray[np.int64]) -> Digests:
        """Of the reports of these users, each of the phase of its slot."""
        if self.method.phases == 1:
            return self.randomness.report_ids(digests, slots, 0)
        ids, phases = np.empty_like(digests), slots % self.method.phases
        for phase in np.unique(phases).tolist():
            rows = phases == phase
            ids[rows] = self.randomness.report_ids(digests[rows], slots[rows], phase)
        return ids

    def _step(
        self,
        state: EdgeState,
        group: NDArray[np.intp] | slice,
        users: NDArray[np.intp],
        slots: NDArray[np.int64],
        values: NDArray[np.int64],
        answers: NDArray[np.int64],
        status: NDArray[np.uint8],
        several: list[Several],
        counts: dict[str, float],
    ) -> None:
        """One step of distinct users at one slot; what comes at or before a user's
        last slot drops.
        """
        who, what = users[group], values[group]
        if not len(who):
            return
        slot = int(slots[group][0])
        new = state.users.state.columns["last"].take(who) < slot
        if not new.all():
            counts["duplicates"] += int(np.count_nonzero(~new))
            group = np.arange(len(users))[group][new]
            who, what = who[new], what[new]
            if not len(who):
                return
        step = self.method.step(state.users.state, who, slot, what, self.randomness)
        scale = self.method.scale
        index = step.answers if scale == 1 else step.answers * (1 / scale)
        status[group] = step.status
        if step.slots is None:
            answers[group] = index
            return
        row, nth = np.nonzero((step.slots != NEVER) & (step.status == SENT)[:, None])
        several.append(
            Several(
                np.arange(len(users))[group],
                np.arange(len(users))[group][row],
                step.slots[row, nth],
                index[row, nth].astype(np.int64),
            )
        )

    def _report(
        self, records: list[Record], source: Message, batch: Reports | None, before: int, after: int
    ) -> None:
        """One batch a raw message and phase, in chunks where it is large; one without rows where it
        only moves ``closed``, which the last chunk alone does.
        """
        n = 0 if batch is None else len(batch)
        if not n and before == after:
            return
        closed = [
            None if slot == NEVER else slot - self.method.delay for slot in (before, after)
        ]  # a report may still come for a slot that is so far back
        empty = Reports(
            np.empty((0, 2), np.uint64),
            np.empty(0, np.int64),
            self.method.blank(0),
            self.method.scale,
            self.fingerprint,
            0,
            None,
            series=np.empty((0, 2), np.uint64) if self.per_user else None,
        )
        rows = min(
            CHUNK_ROWS,
            max(
                1, CHUNK_BYTES // (ROW_BYTES + empty.values.itemsize * prod(empty.values.shape[1:]))
            ),
        )
        parts = [
            (phase, part)
            for phase, of_phase in self._by_phase(empty if batch is None else batch)
            for part in _chunks(of_phase, rows)
        ]
        for chunk, (phase, part) in enumerate(parts):
            stamped = Reports(
                part.ids,
                part.slots,
                part.values,
                part.scale,
                part.fingerprint,
                source.offset,
                closed[chunk == len(parts) - 1],
                chunk,
                phase,
                part.series,
            )
            records.append(Record(self.reports_topic, self.partition, None, write_reports(stamped)))

    def _by_phase(self, batch: Reports) -> list[tuple[int, Reports]]:
        """The reports of each phase, sorted whole before they are cut: which chunk a row is in says
        nothing either.
        """
        if self.method.phases == 1 or not len(batch):
            return [(0, _sorted(batch))]
        phases = batch.slots % self.method.phases
        return [
            (phase, _sorted(_part(batch, np.flatnonzero(phases == phase))))
            for phase in np.unique(phases).tolist()
        ]

    def dirty(self, state: EdgeState) -> set[str]:
        found = {str(shard) for shard in np.flatnonzero(state.users.changed)}
        state.users.changed[:] = False
        return found

    def shards_of(self, state: EdgeState) -> set[str]:
        return {str(shard) for shard in np.unique(state.users.shard[: state.users.state.count])}

    def dump(self, state: EdgeState, shards: Iterable[str]) -> dict[str, bytes]:
        return state.users.dump(shards)

    def meta(self, state: EdgeState) -> dict[str, Any]:
        return {"watermark": state.watermark, "closed": state.closed}

    def load(self, meta: Mapping[str, Any], shards: Mapping[str, tuple[int, bytes]]) -> EdgeState:
        state = self.fresh()
        state.watermark, state.closed = meta["watermark"], meta["closed"]
        state.users.load({shard: payload for shard, (_, payload) in shards.items()})
        for shard, (cover, _) in shards.items():
            state.covers[int(shard)] = cover
        return state


def _expanded(
    several: list[Several],
    sent: NDArray[np.bool_],
    users: NDArray[np.intp],
    slots: NDArray[np.int64],
    answers: NDArray[Any],
    message: NDArray[np.intp],
) -> tuple[NDArray[np.intp], NDArray[np.int64], NDArray[Any], NDArray[np.intp]]:
    """One row a report, in the order of messages: those of the rows' own slots, and those of rows
    that have several.
    """
    own = sent.copy()
    own[np.concatenate([part.rows for part in several])] = False
    source = np.concatenate([np.flatnonzero(own), *(part.source for part in several)])
    at = np.concatenate([slots[own], *(part.slots for part in several)])
    values = np.concatenate([answers[own], *(part.answers for part in several)])
    order = np.argsort(message[source], kind="stable")
    source = source[order]
    return users[source], at[order], values[order], message[source]


def _without(decoded: Decoded, wrong: NDArray[np.bool_], reason: str) -> Decoded:
    """The rows that are not wrong; the others are bad for this reason."""
    events = decoded.events
    assert events is not None
    rows = np.arange(len(events)) if decoded.rows is None else decoded.rows
    kept = np.flatnonzero(~wrong)
    fewer = Events(events.users.take(kept), events.times[kept], events.values[kept])
    return Decoded(fewer, rows[kept], [*decoded.bad, *((int(row), reason) for row in rows[wrong])])


def _joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _rounds(
    users: NDArray[np.intp], slots: NDArray[np.int64], *, distinct: bool
) -> Iterable[NDArray[np.intp] | slice]:
    """Groups of rows of one slot in which a user occurs once, so that each user's rows come in
    their order.
    """
    if distinct and (not len(users) or slots.min() == slots.max()):
        yield slice(0, len(users))
        return
    order = np.argsort(users, kind="stable")
    by_user = users[order]
    first = np.concatenate([[True], by_user[1:] != by_user[:-1]])
    start = np.flatnonzero(first)
    nth = np.empty(len(users), np.intp)
    nth[order] = np.arange(len(users)) - np.repeat(start, np.diff(np.append(start, len(users))))
    groups = np.lexsort((slots, nth))
    edges = np.flatnonzero((np.diff(nth[groups]) != 0) | (np.diff(slots[groups]) != 0)) + 1
    yield from np.split(groups, edges)


def _chunks(batch: Reports, rows: int) -> Iterable[Reports]:
    """At least one."""
    return (
        _part(batch, slice(start, min(start + rows, len(batch))))
        for start in range(0, max(len(batch), 1), rows)
    )


def _part(batch: Reports, rows: slice | NDArray[np.intp]) -> Reports:
    if isinstance(rows, slice) and (rows.start, rows.stop) == (0, len(batch)):
        return batch
    return Reports(
        batch.ids[rows],
        batch.slots[rows],
        batch.values[rows],
        batch.scale,
        batch.fingerprint,
        batch.offset,
        batch.closed,
        series=None if batch.series is None else batch.series[rows],
    )


def _sorted(batch: Reports) -> Reports:
    """By report id: the order of rows says nothing of the order of users."""
    if len(batch) < 2:
        return batch
    order = np.argsort(batch.ids[:, 0].byteswap())  # as the digits read
    series = None if batch.series is None else take16(batch.series, order)
    return Reports(
        take16(batch.ids, order),
        batch.slots.take(order),
        batch.values.take(order, axis=0),
        batch.scale,
        batch.fingerprint,
        0,
        None,
        series=series,
    )
