"""The edge's fold: raw messages in, report batches and dead letters out.

What depends on the log alone is in ``meta`` (the watermark and the last closed slot), what depends
on a user is in that user's shard. Lateness is decided here, once, by position in the log: every row
of a message is judged by what was closed before the message. Order of a user's events: by message,
then slot, then row; one at or before the user's last slot drops.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import NEVER, Field
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.methods import Method
from ldp_kafka.methods.base import Step
from ldp_kafka.randomness import Digests
from ldp_kafka.records import Reports
from ldp_kafka.runtime.keys import EdgeNoise
from ldp_kafka.runtime.log import Look, Message, Output, Record
from ldp_kafka.runtime.sealing import Seal
from ldp_kafka.runtime.stages.raw import RawPartition, raw_partition
from ldp_kafka.runtime.stages.rows import Answers, Placed, Rows, by_phase, rounds
from ldp_kafka.runtime.stages.users import Users, look_at_users
from ldp_kafka.runtime.wire.dead_letters import DeadLetters
from ldp_kafka.runtime.wire.events import EventReader
from ldp_kafka.runtime.wire.reports import write_reports
from ldp_kafka.runtime.wire.single_reports import write_singles
from ldp_kafka.topology import Topology

__all__ = ["COUNTS", "Passed", "Perturb", "PerturbState", "make_perturb"]

CHUNK_ROWS = 2**14  # reports in one message at most ...
# ... and of about so many bytes: well below what a broker takes by default
CHUNK_BYTES = 700_000
ROW_BYTES = 48  # of a report, beside its packed bits
COUNTS = ("events", "reports", "silent", "late", "duplicates", "refused", "clamped")


class Passed(NamedTuple):
    """How far a partition has come, as whoever reads its reports is told."""

    closed: int
    """Last slot that no event can come for."""
    settled: int | None = None
    """Last slot that no request can come for; None where there are none."""


@dataclass(repr=False)
class PerturbState:
    """What the edge knows of one partition."""

    users: Users
    shard_offsets: NDArray[np.int64]
    """Last offset that each shard has folded, where it is ahead of the partition: after a crash
    between shards and meta.
    """
    watermark: int = -1
    """Greatest event time accepted, milliseconds."""
    closed: int = NEVER
    """Last closed slot."""

    def __repr__(self) -> str:
        return f"PerturbState({self.users!r}, closed={self.closed})"  # never a time of a user


@dataclass(frozen=True)
class Perturb:
    """The perturb stage of one topology.

    Parameters
    ----------
    method, randomness : what perturbs; keyed, the only source of noise
    reader : of the raw topic's messages
    slot_ms, lateness, max_ahead_ms : as in the topology; lateness in slots
    shards : of a partition's users
    per_user : whether reports carry a series
    """

    oversize: ClassVar[str] = "runtime.shards is too small for so many users"

    method: Method
    randomness: EdgeNoise
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
        """A check value of the edge's keys, bound to the state. Under another first key all users
        would look new, their budgets unspent; under other rotations a (user, slot) could be drawn
        twice.
        """
        return self.randomness.check

    @property
    def deployment(self) -> str:
        """Which raw topic's values the state holds; under another one each would be drawn again."""
        return self.randomness.deployment

    @property
    def seal(self) -> Seal:
        """Of the edge's key: the state holds what users have spent and, in some methods, values."""
        return self.randomness.seal

    @cached_property
    def _raw(self) -> RawPartition:
        return RawPartition(
            self.reader,
            self.method,
            self.partition,
            self.partitions,
            self.slot_ms,
            self.max_ahead_ms,
        )

    def fresh(self) -> PerturbState:
        return PerturbState(*self._nobody())

    def _nobody(self) -> tuple[Users, NDArray[np.int64]]:
        """The users before the first one, and how far their shards are."""
        compressed = ("last", *self.method.ledger.fields)
        users = Users(self.fields, compressed, self.randomness, self.shards)
        return users, np.full(self.shards, -1, np.int64)

    @property
    def fields(self) -> dict[str, Field]:
        """The arrays of a user's state."""
        return self.method.fields

    def fold(self, state: PerturbState, messages: Sequence[Message]) -> Output:
        """Reports of consecutive messages; the same records whether they are folded one by one or
        together.
        """
        output = self._output()
        self._events(state, messages, output)
        output.gauge("watermark", state.watermark)
        return output

    def _events(self, state: PerturbState, messages: Sequence[Message], output: Output) -> None:
        """Fold messages that hold events, or a tick."""
        rows, latest = self._raw.read(messages, output)
        before, after = self._watermarks(state, latest)
        output.count("events", len(rows.slots))
        if len(rows.slots):
            self._perturb(state, messages, rows, before, after, output)
        else:
            none = np.empty(0, np.int64)
            self._reports(output, messages, self._empty, none, none, before, after)

    def latest(self, messages: Sequence[Message]) -> int:
        """The greatest event time (milliseconds) in these messages that a fold of them accepts or
        drops as late; -1 if there is none.
        """
        return max(self._raw.read(messages, self._output())[1], default=-1)

    def _output(self) -> Output:
        return Output(DeadLetters(self.dead_letters_topic, self.topic, self.partition), COUNTS)

    def _watermarks(
        self, state: PerturbState, latest: list[int]
    ) -> tuple[list[Passed], list[Passed]]:
        """How far the partition is before and after each message. A late event cannot move the
        watermark, so the greatest time of all valid ones is that of the accepted ones.
        """
        before, after, passed = [], [], self._passed(state)
        for time in latest:
            before.append(passed)
            if time > state.watermark:
                state.watermark = time
                state.closed = max(state.closed, time // self.slot_ms - self.lateness - 1)
                passed = self._passed(state)
            after.append(passed)
        return before, after

    def _passed(self, state: PerturbState) -> Passed:
        """How far the partition is."""
        return Passed(state.closed)

    def _perturb(
        self,
        state: PerturbState,
        messages: Sequence[Message],
        rows: Rows,
        before: list[Passed],
        after: list[Passed],
        output: Output,
    ) -> None:
        found = Placed(state.users.rows(rows.users), rows.slots, rows.values, rows.message)
        closed = [passed.closed for passed in before]
        if found.slots.min() <= max(closed):
            keep = found.slots > np.array(closed)[found.message]
            output.count("late", int(np.count_nonzero(~keep)))
            found = found.take(keep)
        # some shards are ahead: their rows were folded and reported before the crash
        if messages[0].offset <= int(state.shard_offsets.max()):
            keep = (
                state.shard_offsets[state.users.shard[found.users]]
                < np.array([m.offset for m in messages])[found.message]
            )
            found = found.take(keep)
        found = found.in_order()
        users, slots, values, _ = found
        others = output.counts["duplicates"]
        answers = Answers(self.method, len(users))
        for group in rounds(users, slots, distinct=state.users.distinct(users)):
            self._step(state, group, users, slots, values, answers, output)
        state.users.touch(users)
        output.count("refused", answers.refused)
        repeated = int(output.counts["duplicates"] - others)
        output.count("silent", len(users) - answers.sent - answers.refused - repeated)
        made = answers.of(found)
        output.count("reports", len(made.slots))
        digests = state.users.state.digests(made.users)
        batch = Reports(
            self._ids(digests, made.slots, made.phases),
            made.slots,
            made.values,
            self.method.scale,
            self.fingerprint,
            0,
            None,
            series=self.randomness.series(digests, made.slots) if self.per_user else None,
        )
        self._reports(output, messages, batch, made.phases, made.message, before, after)

    def _ids(
        self, digests: Digests, slots: NDArray[np.int64], phases: NDArray[np.int64]
    ) -> Digests:
        """Of the reports of these users, each of its slot and phase."""
        ids = np.empty_like(digests)
        for phase, rows in by_phase(phases):
            ids[rows] = self.randomness.report_ids(digests[rows], slots[rows], phase)
        return ids

    def _step(
        self,
        state: PerturbState,
        group: NDArray[np.intp] | slice,
        users: NDArray[np.intp],
        slots: NDArray[np.int64],
        values: NDArray[np.int64],
        answers: Answers,
        output: Output,
    ) -> None:
        """One step of distinct users at one slot; what comes at or before a user's
        last slot drops.
        """
        who, what = users[group], values[group]
        if not len(who):
            return
        slot = int(slots[group][0])
        new = state.users.state.columns["last"][who] < slot
        if not new.all():
            output.count("duplicates", int(np.count_nonzero(~new)))
            group = np.arange(len(users))[group][new]
            who, what = who[new], what[new]
            if not len(who):
                return
        answers.take(group, self._answer(state, who, slot, what))

    def _answer(
        self, state: PerturbState, who: NDArray[np.intp], slot: int, what: NDArray[np.int64]
    ) -> Step:
        """What these users say of a slot that is new to all of them."""
        return self.method.step(state.users.state, who, slot, what, self.randomness)

    @cached_property
    def _empty(self) -> Reports:
        """A batch without rows: it only tells what is closed."""
        nobody = np.empty((0, 2), np.uint64)
        return Reports(
            nobody,
            np.empty(0, np.int64),
            self.method.blank(0),
            self.method.scale,
            self.fingerprint,
            0,
            None,
            series=nobody if self.per_user else None,
        )

    def _reports(
        self,
        output: Output,
        messages: Sequence[Message],
        batch: Reports,
        phases: NDArray[np.int64],
        message: NDArray[np.intp],
        before: list[Passed],
        after: list[Passed],
    ) -> None:
        """The reports of a run of messages, which are in their order; see `_report`. Those that are
        the only one of their message are written together.
        """
        ends = np.searchsorted(message, np.arange(len(messages) + 1))
        count = np.diff(ends)
        (single,) = np.nonzero(count == 1)
        texts: dict[int, bytes] = {}
        if len(single):
            rows = ends[:-1][single]
            where = single.tolist()
            written = write_singles(
                batch.take(rows),
                [messages[at].offset for at in where],
                phases[rows].tolist(),
                [self._said(after[at]) for at in where],
            )
            texts = dict(zip(where, written, strict=True))
        for at, (source, last) in enumerate(zip(messages, ends.tolist()[1:], strict=True)):
            if (text := texts.get(at)) is not None:
                output.send(Record(self.reports_topic, self.partition, None, text))
            else:
                part = slice(last - int(count[at]), last)
                self._report(output, source, batch.take(part), phases[part], before[at], after[at])

    def _said(self, passed: Passed) -> tuple[int | None, int | None]:
        """What a message of reports says is closed, and settled: a report may still come for a slot
        that is so far back.
        """
        return _slot(passed.closed, self.method.delay), _slot(passed.settled)

    def _report(
        self,
        output: Output,
        source: Message,
        batch: Reports,
        phases: NDArray[np.int64],
        before: Passed,
        after: Passed,
    ) -> None:
        """One batch a raw message and phase, in chunks where it is large; one without rows where it
        only tells how far the partition is, which the last chunk alone does. Each phase is sorted
        whole before it is cut: which chunk a row is in says nothing of its user either.
        """
        if not len(batch) and before == after:
            return
        passed = self._said(before), self._said(after)
        width = batch.values.itemsize * prod(batch.values.shape[1:])
        most = min(CHUNK_ROWS, max(1, CHUNK_BYTES // (ROW_BYTES + width)))
        parts = [
            (phase, part)
            for phase, rows in by_phase(phases)
            for part in batch.take(rows).sort().chunk_by(most)
        ]
        for chunk, (phase, part) in enumerate(parts):
            stamped = part.stamp(source.offset, chunk, phase, *passed[chunk == len(parts) - 1])
            output.send(Record(self.reports_topic, self.partition, None, write_reports(stamped)))

    def dirty(self, state: PerturbState) -> set[str]:
        found = {str(shard) for shard in np.flatnonzero(state.users.changed)}
        state.users.changed[:] = False
        return found

    def shards_of(self, state: PerturbState) -> set[str]:
        return {str(shard) for shard in np.unique(state.users.shard[: state.users.state.count])}

    def dump(self, state: PerturbState, shards: Iterable[str]) -> dict[str, bytes]:
        return state.users.dump(shards)

    def watermark(self, state: PerturbState) -> int:
        return state.watermark

    def budget(self, state: PerturbState) -> tuple[int, int]:
        ledger = self.method.ledger
        return ledger.largest(state.users.state), ledger.budget

    def meta(self, state: PerturbState) -> dict[str, Any]:
        return {"watermark": state.watermark, "closed": state.closed}

    def load(
        self, meta: Mapping[str, Any], shards: Mapping[str, tuple[int, bytes]]
    ) -> PerturbState:
        state = self.fresh()
        state.watermark, state.closed = meta["watermark"], meta["closed"]
        state.users.load({shard: payload for shard, (_, payload) in shards.items()})
        for shard, (cover, _) in shards.items():
            state.shard_offsets[int(shard)] = cover
        return state

    def look(self, meta: Mapping[str, Any], shards: Mapping[str, bytes]) -> Look:
        """The users of the partition, shard by shard, and their ledgers."""
        found = look_at_users(shards, self.shards, self.fields, self.method.ledger)
        found.watermark = int(meta["watermark"]) if meta["watermark"] >= 0 else None
        found.closed = int(meta["closed"]) if meta["closed"] != NEVER else None
        return found


def _slot(last: int | None, back: int = 0) -> int | None:
    """A slot so far back; None where there is none yet."""
    return None if last is None or last == NEVER else last - back


def make_perturb(topology: Topology, partition: int, randomness: EdgeNoise | None) -> Perturb:
    """The perturb stage of one raw partition.

    Raises
    ------
    ConfigurationError : there is no keyed randomness to perturb with
    """
    if randomness is None:
        raise ConfigurationError("the edge needs a key: without one it has no noise to draw")
    source, raw = topology.input, raw_partition(topology, partition)
    return Perturb(
        method=topology.method,
        randomness=randomness,
        reader=raw.reader,
        topic=topology.raw_topic,
        reports_topic=topology.reports_topic,
        dead_letters_topic=topology.dead_letters_topic,
        partition=partition,
        fingerprint=topology.fingerprint,
        layout=topology.layout,
        slot_ms=source.slot_ms,
        lateness=source.lateness,
        max_ahead_ms=source.max_ahead_ms,
        shards=topology.runtime.shards,
        per_user=topology.per_user,
        partitions=raw.partitions,
    )
