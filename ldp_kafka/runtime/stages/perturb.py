"""The edge's fold: raw messages in, report batches and dead letters out.

What depends on the log alone is in ``meta`` (the watermark and the last closed slot), what depends
on a user is in that user's shard. Lateness is decided here, once, by position in the log: every row
of a message is judged by what was closed before the message. Order of a user's events: by message,
then slot, then row; one at or before the user's last slot drops. Reports are drawn when their event
is folded, and wait, with their user, for the next bound (`bounds`), unless each message has a batch
of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import NEVER, Field
from ldp_kafka.errors import ConfigurationError, InvariantError, StateError
from ldp_kafka.methods import Method
from ldp_kafka.methods.base import Step
from ldp_kafka.methods.batch import Batch
from ldp_kafka.methods.protocols.request import SECOND
from ldp_kafka.randomness import Digests
from ldp_kafka.records import Reports
from ldp_kafka.runtime.keys import EdgeNoise
from ldp_kafka.runtime.log import Look, Message, Output
from ldp_kafka.runtime.runs import Run
from ldp_kafka.runtime.stages.accepted import LAST_BEFORE, Accepted
from ldp_kafka.runtime.stages.asked import ASKED, Asked, Requested, asked_of
from ldp_kafka.runtime.stages.bounds import assign, find_bounds
from ldp_kafka.runtime.stages.clocks import Timely, late_by_clocks
from ldp_kafka.runtime.stages.gates import AtOnce, gate_of
from ldp_kafka.runtime.stages.keyed import KeyedStage
from ldp_kafka.runtime.stages.panes import Panes, is_pane
from ldp_kafka.runtime.stages.places import Passed, Places, advance
from ldp_kafka.runtime.stages.raw import RawPartition, raw_partition
from ldp_kafka.runtime.stages.report_messages import Drawn, ReportMessages
from ldp_kafka.runtime.stages.requests import is_request
from ldp_kafka.runtime.stages.rows import (
    Answered,
    Answers,
    Placed,
    Rows,
    by_phase,
    rounds,
    stretches,
)
from ldp_kafka.runtime.stages.shards import BEFORE, read_shards
from ldp_kafka.runtime.stages.sources import Sources, read_new
from ldp_kafka.runtime.stages.users import UNREADABLE, Users, look_at_users
from ldp_kafka.runtime.stages.waiting import Waiting
from ldp_kafka.runtime.wire.copies import CopyReader
from ldp_kafka.runtime.wire.dead_letters import DeadLetters
from ldp_kafka.runtime.wire.events import EventReader
from ldp_kafka.topology import Topology

__all__ = ["COUNTS", "Perturb", "PerturbState", "make_perturb"]

COUNTS = ("events", "reports", "silent", "late", "duplicates", "refused", "clamped")


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
    offset: int = -1
    """The last one that was folded since the state was loaded; -1: none was."""
    accepted: Accepted | None = None
    """None before the first message that is folded since the state was loaded."""
    bound: int | None = -1
    """The number of the last bound; None where a version wrote the state that took offsets."""
    come: int = NEVER
    """The last slot that has come, but for what was far ahead of its record's timestamp: see
    `clocks`.
    """
    waiting: dict[int, int] = field(default_factory=dict)
    """Events accepted since they were last sent, by slot; of all users."""
    sources: Sources | None = None
    """Where a relay re-keys."""
    held: Panes | None = None
    """See `panes`; None where no value waits for its slot's close."""
    requests: Asked | None = None
    """See `asked`; None where no coordinator asks."""

    @property
    def panes(self) -> Panes:
        """The values of slots that are not closed, where they wait."""
        if self.held is None:
            raise InvariantError("a state whose values wait must have panes")
        return self.held

    @property
    def asked(self) -> Asked:
        """How far requests are, where a coordinator asks."""
        if self.requests is None:
            raise InvariantError("a state of which is asked must say how far")
        return self.requests

    def __repr__(self) -> str:
        return f"PerturbState({self.users!r}, closed={self.closed})"  # never a time of a user


@dataclass(frozen=True, repr=False)
class Perturb(KeyedStage):
    """The perturb stage of one topology.

    Parameters
    ----------
    method, randomness : what perturbs; keyed, the only source of noise
    reader : of the raw topic's messages
    slot_ms, lateness, max_ahead_ms : as in the topology; lateness in slots
    shards : of a partition's users
    per_user : whether reports carry a series
    gate : when a value of a slot becomes input of the method
    requested : values that a coordinator asks for; None: it does not ask
    """

    oversize: ClassVar[str] = "runtime.shards is too small for so many users"

    method: Method
    randomness: EdgeNoise
    reader: EventReader | CopyReader
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
    gate: AtOnce
    requested: Requested | None = None
    partitions: int = 0
    """Where users are spread by murmur2 of their ids over so many; a user elsewhere would have a
    second budget.
    """
    report_rows: int = 0
    """Accepted events of which fewer wait before their reports are sent; 0: a batch a message."""
    sources: int = 0
    """Partitions of the topic that a relay re-keys; 0: it does not."""

    def __repr__(self) -> str:
        return f"Perturb({self.topic}, {self.method.name})"  # never what its key draws

    @cached_property
    def _raw(self) -> RawPartition:
        return RawPartition(
            self.reader,
            self.method,
            self.partition,
            self.partitions,
            self.slot_ms,
            self.max_ahead_ms,
            held=self.gate.holds,
            ticked=self._ticked,
        )

    @cached_property
    def _timely(self) -> Timely:
        return Timely(slot_ms=self.slot_ms, lateness=self.lateness, ticked=self._ticked)

    @property
    def _ticked(self) -> bool:
        """Whether ticks alone close slots."""
        return self.gate.ticked or self.sources > 0

    @property
    def _waits(self) -> bool:
        """Whether a report may wait for others: not where each message is a bound."""
        return self.report_rows > 1

    @property
    def _kept_as(self) -> np.dtype[Any] | None:
        """How a report that waits is kept; None where none does."""
        return Waiting(self.method.blank(0)).kind if self.report_rows else None

    @cached_property
    def _messages(self) -> ReportMessages:
        return ReportMessages(
            self.reports_topic, self.partition, self.method.delay, by_slot=self.report_rows > 0
        )

    def fresh(self) -> PerturbState:
        compressed = tuple(dict.fromkeys(["last", BEFORE, *self.method.ledger.fields]))
        blank = self.method.blank(0) if self.report_rows else None
        users = Users(self.fields, compressed, self.randomness, self.shards, blank)
        state = PerturbState(users, np.full(self.shards, -1, np.int64))
        state.held = self.gate.panes(users)
        state.requests = None if self.requested is None else self.requested.fresh()
        return state

    @property
    def fields(self) -> dict[str, Field]:
        """The arrays of a user's state."""
        assert BEFORE not in self.method.fields
        asked = {} if self.requested is None else self.requested.fields
        return {**self.method.fields, BEFORE: LAST_BEFORE, **asked}

    def fold(self, state: PerturbState, messages: Sequence[Message]) -> Output:
        """Reports of consecutive messages; the same records whether they are folded one by one or
        together.
        """
        output = self._output()
        if messages:
            self._begin(state, messages)
            if self.requested is None:
                self._events(state, messages, output)
            else:
                self._events_and_requests(state, Run.of(messages), self.requested, output)
        self._stand(state, output)
        return output

    def _events_and_requests(
        self, state: PerturbState, run: Run, requested: Requested, output: Output
    ) -> None:
        """Fold messages of which some are a coordinator's requests."""
        before = self._passed(state).settled
        asks = np.array(list(map(is_request, run.values)), np.int64)
        for part in stretches(asks):
            if not asks[part.start]:
                self._events(state, run[part], output)
                continue
            for message in run[part]:
                self._ask(state, message, requested, output)
        requested.forget(state, before, run.offsets.item(-1))

    def _ask(
        self, state: PerturbState, message: Message, requested: Requested, output: Output
    ) -> None:
        """Fold one request."""
        before = self._passed(state)
        found = requested.ask(state, message, self.randomness, output)
        if found is None:
            return
        count = len(found.users)
        output.count("reports", count)
        slots, phases = np.full(count, found.slot), np.full(count, SECOND)
        batch = self._batch(state, found.users, slots, phases, found.values)
        if count:
            batch = replace(batch, scale=found.scale, cost=found.cost)
        place = Places.of(message.offset, before, self._passed(state))
        self._send(state, place, Drawn(batch, phases, np.zeros(count, np.intp)), output)

    def _begin(self, state: PerturbState, messages: Sequence[Message]) -> None:
        """Make a state ready for the messages that come next.

        Raises
        ------
        StateError : a version wrote it that numbered bounds by offsets, and a crash ended it: what
            it has sent behind its last snapshot is not known
        """
        first = messages[0].offset
        if state.bound is None:
            if first <= state.shard_offsets.max():
                raise StateError(
                    "the last snapshot of an older version is not whole: run that version once"
                    " more, and stop it in order (SIGTERM)"
                )
            state.bound = first - 1
        if state.accepted is None:
            state.accepted = Accepted(state.users, state.shard_offsets, first)
        if state.sources is None and self.sources:
            state.sources = Sources(self.sources)
        state.offset = messages[-1].offset

    def _stand(self, state: PerturbState, output: Output) -> None:
        """Say where it stands."""
        output.gauge("watermark", state.watermark)
        if state.users.waiting is not None:
            output.gauge("reports_waiting", len(state.users.waiting))

    def _events(self, state: PerturbState, messages: Sequence[Message], output: Output) -> None:
        """Fold messages that hold events, or a tick."""
        run, rows, latest = read_new(self._raw, state.sources, Run.of(messages), output)
        if not len(run):
            return
        places = self._places_of(state, run.offsets, latest)
        self._clocks(state, run, rows, latest, places, output)
        output.count("events", len(rows.slots))
        accepted, made = self._reported(state, run, rows, places, output)
        if self._waits:
            self._at_bounds(state, places, accepted, made, output)
            return
        bounds = np.union1d(accepted.message, places.moving)
        batch = self._batch(state, made.users, made.slots, made.phases, made.values)
        drawn = Drawn(batch, made.phases, np.searchsorted(bounds, made.message))
        self._send(state, places.take(bounds), drawn, output)

    def _send(self, state: PerturbState, bounds: Places, drawn: Drawn, output: Output) -> None:
        """Send the reports of the next bounds. Each has a number, whether it has reports or not."""
        assert state.bound is not None
        first, state.bound = state.bound + 1, state.bound + len(bounds)
        self._messages.send(output, bounds, first, drawn)

    def _clocks(
        self,
        state: PerturbState,
        run: Run,
        rows: Rows,
        latest: NDArray[np.int64],
        places: Places,
        output: Output,
    ) -> None:
        """Count the events that are late by one alone that was far ahead of its timestamp."""
        come = self._timely.before(state.come, rows.slots, rows.message, latest, run.timestamps)
        state.come = come.item(-1)
        if not len(rows.slots) or rows.slots.min() > places.passed[-1].closed:
            return
        late = rows.slots <= places.closed_before[rows.message]
        found = late_by_clocks(rows.slots, come[rows.message], late, self.lateness)
        if found.any():
            output.count("late_by_clocks", int(np.count_nonzero(found)))

    def _is_behind(self, state: PerturbState) -> bool:
        """Whether something far ahead has brought the partition further than all else."""
        return state.watermark >= 0 and state.come < state.watermark // self.slot_ms

    def _reported(
        self,
        state: PerturbState,
        run: Run,
        rows: Rows,
        places: Places,
        output: Output,
    ) -> tuple[Placed, Answered]:
        """The values of a run of messages that are accepted, and the reports of them."""
        perturb = partial(self._perturb, state, run.offsets)
        return self.gate.reported(state, run, rows, places, output, perturb)

    def latest(self, messages: Sequence[Message]) -> int:
        """The greatest event time (milliseconds) in these messages that a fold of them accepts or
        drops as late; -1 if there is none.
        """
        if self.requested is not None:
            messages = [each for each in messages if not is_request(each.value)]
        return self._raw.latest(messages, self._output())

    def _output(self) -> Output:
        letters = DeadLetters(self.dead_letters_topic, self.topic, self.partition)
        return Output(letters, COUNTS if self.requested is None else COUNTS + ASKED)

    def _places_of(
        self, state: PerturbState, offsets: NDArray[np.int64], latest: NDArray[np.int64]
    ) -> Places:
        """Messages (n,) at these offsets, and how far the partition is before and with each."""
        return advance(
            state,
            offsets,
            latest,
            slot_ms=self.slot_ms,
            lateness=self.lateness,
            passed=lambda: self._passed(state),
        )

    def _passed(self, state: PerturbState) -> Passed:
        """How far the partition is."""
        return Passed(state.closed) if self.requested is None else self.requested.passed(state)

    def _perturb(
        self,
        state: PerturbState,
        offsets: NDArray[np.int64],
        found: Placed,
        output: Output,
    ) -> tuple[Placed, Answered]:
        """Those of the values that are accepted, in the order of messages, and the reports that
        they give.
        """
        if not len(found.slots):
            none = np.empty(0, np.int64)
            return found, Answered(none, none, none, none, self.method.blank(0), none)
        others_accepted = None
        # some shards are ahead: their rows were folded and reported before the crash
        if offsets[0] <= state.shard_offsets.max():
            assert state.accepted is not None
            ahead = state.shard_offsets[state.users.shard[found.users]] >= offsets[found.message]
            if ahead.any():
                others_accepted = state.accepted.of_ahead(found.take(ahead))
            found = found.take(~ahead)
        found = found.in_order()
        users, slots, values, _ = found
        others = output.counts["duplicates"]
        answers = Answers(self.method, len(users))
        for group in rounds(users, slots, state.users.distinct):
            self._step(state, group, users, slots, values, answers, output)
        state.users.touch(users)
        output.count("refused", answers.refused)
        repeated = int(output.counts["duplicates"] - others)
        output.count("silent", len(users) - answers.sent - answers.refused - repeated)
        made = answers.of(found)
        output.count("reports", len(made.slots))
        accepted = found if repeated == 0 else found.take(answers.taken)
        return Placed.join(accepted, others_accepted), made

    def _at_bounds(
        self,
        state: PerturbState,
        places: Places,
        accepted: Placed,
        made: Answered,
        output: Output,
    ) -> None:
        """Have reports wait, and send those that have a bound in a run of messages.

        Parameters
        ----------
        accepted : events, in the order of messages
        made : their reports, as far as their shards were not ahead

        Notes
        -----
        Bounds are the log's own: they are found from the events that are accepted, whether a shard
        skips them or not, and ``meta`` has what was counted. So is a bound's number: it counts
        bounds, also those of which all reports were sent before a crash. Nothing that comes of a
        bound depends on how many messages there were, nor on repeats, late events and bad ones.

        Where a crash leaves a shard that was written at offset s, ahead of the offset m of
        ``meta``, its rows up to s are neither drawn nor sent again. What the shard had sent by then
        was in the topic before it was written. What it holds has no bound between m and s: a bound
        takes all rows of a slot up to its own offset. So it waits for the same bound as before, and
        nothing is lost. Would it lie in ``meta``, what such a shard has drawn between m and s would
        be nowhere.
        """
        waiting = state.users.waiting
        assert waiting is not None
        closes = [(at, places.passed[places.after[at]].closed) for at in places.moving.tolist()]
        most = self.report_rows
        bounds = find_bounds(
            state.waiting, accepted.slots, accepted.message, closes, len(places), most
        )
        offsets = places.offsets
        waiting.add(made, offsets[made.message])
        if not bounds:
            return
        kept = waiting.take()
        ended = places.take([bound.at for bound in bounds])
        goes, of = assign(bounds, ended.offsets, kept.event_slot, kept.offset)
        stays = np.ones(len(kept.users), np.bool_)
        stays[goes] = False
        waiting.put(kept.take(np.flatnonzero(stays)))
        kept = kept.take(goes)
        state.users.touch(kept.users)
        batch = self._batch(state, kept.users, kept.slot, kept.phase, kept.value)
        self._send(state, ended, Drawn(batch, kept.phase, of), output)

    def _batch(
        self,
        state: PerturbState,
        users: NDArray[np.intp],
        slots: NDArray[np.int64],
        phases: NDArray[np.int64],
        values: NDArray[Any],
    ) -> Reports:
        """The reports of these users as columns."""
        if not len(users):
            return self._empty
        digests = state.users.state.digests(users)
        return Reports(
            self._ids(digests, slots, phases),
            slots,
            values,
            self.method.scale,
            self.fingerprint,
            0,
            None,
            series=self.randomness.series(digests, slots) if self.per_user else None,
        )

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
        answers.take(group, self._answer(state, Batch(who, slot, what, self.randomness)))

    def _answer(self, state: PerturbState, batch: Batch) -> Step:
        """What these users say of a slot that is new to all of them."""
        if self.requested is not None:
            return self.requested.first(state, batch)
        return self.method.step(state.users.state, batch)

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

    @property
    def windowed(self) -> bool:
        """Whether values wait in panes."""
        return self.gate.holds

    def dirty(self, state: PerturbState) -> set[str]:
        if state.accepted is not None:
            state.accepted.snapshot(state.offset)
        return state.users.dirty() | (state.held.dirty() if state.held is not None else set())

    def shards_of(self, state: PerturbState) -> set[str]:
        return state.users.records() | (state.held.names() if state.held is not None else set())

    def dump(self, state: PerturbState, shards: Iterable[str]) -> dict[str, bytes]:
        users, panes = self._parted(shards)
        found = state.users.dump(users)
        return found if state.held is None else {**found, **state.held.dump(panes)}

    def _parted(self, shards: Iterable[str]) -> tuple[set[str], set[str]]:
        """The names of records of users, and of panes."""
        names = set(shards)
        panes = set(filter(is_pane, names)) if self.gate.holds else set()
        return names - panes, panes

    def watermark(self, state: PerturbState) -> int:
        return state.watermark

    def users(self, state: PerturbState) -> int:
        return state.users.state.count

    def budget(self, state: PerturbState) -> tuple[int, int]:
        ledger = self.method.ledger
        return ledger.largest(state.users.state), ledger.budget

    def meta(self, state: PerturbState) -> dict[str, Any]:
        waiting = {"waiting": sorted(state.waiting.items())} if self.report_rows else {}
        bound = {} if state.bound is None else {"bound": state.bound}
        behind = {"come": state.come} if self._is_behind(state) else {}
        progress = {"watermark": state.watermark, "closed": state.closed}
        sources = {} if state.sources is None else {"sources": state.sources.saved()}
        asked = {} if state.requests is None else state.requests.saved()
        return {**progress, **bound, **behind, **waiting, **sources, **asked}

    def load(
        self, meta: Mapping[str, Any], shards: Mapping[str, tuple[int, bytes]]
    ) -> PerturbState:
        state = self.fresh()
        state.watermark, state.closed = meta["watermark"], meta["closed"]
        state.bound = meta.get("bound")
        come = NEVER if state.watermark < 0 else state.watermark // self.slot_ms
        state.come = meta.get("come", come)
        state.waiting = dict(meta["waiting"]) if self.report_rows else {}
        if self.sources:
            state.sources = Sources(self.sources)
            state.sources.restore(meta.get("sources", ()))
        if state.requests is not None:
            state.requests.restore(meta)
        users, panes = self._parted(shards)
        state.users.load({shard: shards[shard][1] for shard in shards if shard in users})
        for shard in users:
            state.shard_offsets[int(shard)] = shards[shard][0]
        if state.held is not None:
            ended = self.gate.ended(state.closed)
            state.held.load({shard: shards[shard] for shard in panes}, ended)
        return state

    def look(self, meta: Mapping[str, Any], shards: Mapping[str, bytes]) -> Look:
        """The users of the partition, shard by shard, and their ledgers; that panes are of open
        slots, and each user's value in its own; and that no value of a settled slot is there.
        """
        names, panes = self._parted(shards)
        users = {shard: shards[shard] for shard in shards if shard in names}
        ledger = self.method.ledger
        found = look_at_users(users, self.shards, self.fields, ledger, self._kept_as)
        found.watermark = int(meta["watermark"]) if meta["watermark"] >= 0 else None
        found.closed = int(meta["closed"]) if meta["closed"] != NEVER else None
        waits = {shard: shards[shard] for shard in shards if shard in panes}
        self.gate.look(found, waits, self.shards, int(meta["closed"]))
        if self.requested is not None:
            left = self.requested.left(self._held(users), int(meta["settled"]))
            found.complain("shards", left, "values are held of slots that are settled")
        return found

    def _held(self, shards: Mapping[str, bytes]) -> Iterator[NDArray[np.int64]]:
        """The values that wait for a request, of each shard that can be read."""
        for payload in shards.values():
            with suppress(*UNREADABLE):  # that has been said
                yield read_shards([payload], self.fields, self._kept_as).columns["held"]


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
        gate=gate_of(topology, randomness),
        requested=asked_of(topology),
        partitions=raw.partitions,
        report_rows=topology.report_rows,
        sources=source.sources or 0,
    )
