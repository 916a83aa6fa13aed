"""What should have come out, recomputed from the input by a straight fold, and every way in which a
run can differ from it.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, cached_property, lru_cache
from typing import Any

import numpy as np

from ldp_kafka.accounting import NEVER
from ldp_kafka.randomness import Keyed
from ldp_kafka.records import Ids
from ldp_kafka.runtime import local, roles
from ldp_kafka.runtime.log import Message, Record, Stage
from ldp_kafka.runtime.recovery.checkpoints import META, checkpoints, latest
from ldp_kafka.runtime.recovery.epoch import Epoch
from ldp_kafka.runtime.recovery.packing import unpack
from ldp_kafka.runtime.stages.parts import Part
from ldp_kafka.runtime.stages.perturb import make_perturb
from ldp_kafka.runtime.stages.shards import BEFORE, unpacked
from ldp_kafka.runtime.wire.arrow import ARROW, read_batch
from ldp_kafka.runtime.wire.reports import read_reports
from ldp_kafka.topology import Topology
from tests.fold.driver import World
from tests.sealed import plain

Shard = Mapping[bytes, Any]


@lru_cache(4096)
def shard(payload: bytes) -> Shard:
    """A shard of the edge as {user: fields}, without users who were never in time: the order of
    rows means nothing. A slot shard as {slot and phase: sums and ids}, a coordinator's state as
    {part: all of it}, a curator's pane as {stream: value and number}, its ids as {id: nothing}; a
    part of what devices have sent as {id: what it said}, with its sums under no id.
    """
    if payload.startswith(b"["):
        part = Part.read(payload)
        return {b"": part.sums, **part.ids}
    if payload.startswith(b"{"):
        return {name.encode(): held for name, held in json.loads(payload).items()}
    if payload.startswith(ARROW):
        rows = [tuple(row.values()) for row in read_batch(payload)[0].to_pylist()]
        return {name if isinstance(name, bytes) else name.encode(): rest for name, *rest in rows}
    rows = read_batch(unpacked(payload))[0].to_pylist()
    return {
        row.pop("user"): tuple(
            tuple(cell) if isinstance(cell, list) else cell
            for name, cell in row.items()
            if name != BEFORE  # says when the snapshot before was
        )
        for row in rows
        if row["last"] != NEVER
    }


def by_topic(records: Sequence[Record]) -> dict[str, list[Record]]:
    """Records in their order, topic by topic: that of different topics says nothing."""
    found: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        found[record.topic].append(record)
    return found


class Pure:
    """The straight fold of one log, or of the runs that it is cut into: what came out, and the
    state behind each.
    """

    def __init__(self, stage: Stage[Any], log: Iterable[Message | Sequence[Message]]) -> None:
        self.stage, state = stage, stage.fresh()
        self.records: list[Record] = []
        self.given: dict[int, list[Record]] = {}
        """Of each run, by its last offset: its records."""
        self.counts: Counter[str] = Counter()
        self._metas = {-1: stage.meta(state)}
        self._shards: dict[int, dict[str, Shard]] = {-1: {}}
        self._last = -1
        for each in log:
            run = [each] if isinstance(each, Message) else each
            folded, message = stage.fold(state, run), run[-1]
            self.given[message.offset] = folded.records
            self.records += folded.records
            self.counts.update(folded.counts)
            self._metas[message.offset] = json.loads(json.dumps(stage.meta(state)))
            dirty = stage.dirty(state)
            dumped = {name: shard(payload) for name, payload in stage.dump(state, dirty).items()}
            self._shards[message.offset] = {
                name: held for name, held in self._shards[self._last].items() if name not in dirty
            } | dumped
            self._last = message.offset

    def meta(self, cover: int) -> Any:
        return self._metas[cover]

    def names(self, cover: int) -> set[str]:
        return set(self._shards[cover])

    def shard(self, name: str, cover: int) -> Shard:
        return self._shards[cover].get(name, {})

    @property
    def whole(self) -> tuple[dict[str, list[Record]], Counter[str], tuple[str, dict[str, Shard]]]:
        """The records of each topic, the counts, and the state at the end."""
        held = {name: found for name, found in self._shards[self._last].items() if found}
        return by_topic(self.records), self.counts, (json.dumps(self._metas[self._last]), held)

    def holds(self, stage: Stage[Any], state: Any, cover: int, ahead: Mapping[str, int]) -> bool:
        """Whether a state is that of an offset; ``ahead``: the offsets of shards that are past
        it.
        """
        have = {
            name: shard(payload)
            for name, payload in stage.dump(state, stage.shards_of(state)).items()
        }
        return json.loads(json.dumps(stage.meta(state))) == self.meta(cover) and all(
            have.get(name, {}) == self.shard(name, max(cover, ahead.get(name, -1)))
            for name in have.keys() | self.names(cover)
        )


class Judge:
    """Watches a `World`, and says what is wrong with it.

    `state`: a changelog record, or a state that was loaded, is not that of its offset.
    `acknowledged`: an offset was committed that no complete tenure covers. `counted`: an event was
    taken for a duplicate that is none, or a repeat for an event.
    """

    def __init__(
        self, make: Callable[[int], Stage[Any]], logs: Sequence[Sequence[Message]]
    ) -> None:
        self.logs = logs
        self.pure = [Pure(make(number), log) for number, log in enumerate(logs)]
        self.complaints: set[str] = set()

    def fresh(self) -> Judge:
        """The same for another run."""
        self.complaints = set()
        return self

    def written(self, world: World, key: str, value: bytes | None) -> None:
        number, name, _ = key.split("/")
        if value is not None:
            pure = self.pure[int(number)]
            seal = pure.stage.seal
            cover, payload = unpack(value if seal is None else plain(key, value, seal))
            if name == META:
                if json.loads(payload)["state"] != pure.meta(cover):
                    self.complaints.add("state")
            elif shard(payload) != pure.shard(name, cover):
                self.complaints.add("state")
        self.kept(world, int(number))

    def kept(self, world: World, number: int) -> None:
        committed = world.committed[number]
        if committed is not None and committed > world.start:
            best = latest(checkpoints(world.changelog, number, self.pure[number].stage.seal))
            if best is None or best.offset < committed - 1:
                self.complaints.add("acknowledged")

    def loaded(self, epoch: Epoch[Any]) -> None:
        pure = self.pure[epoch.partition]
        if not pure.holds(epoch.stage, epoch.state, epoch.offset, epoch.shard_offsets):
            self.complaints.add("state")

    def folded(self, number: int, counts: Mapping[str, float]) -> None:
        """Counts are a metric, and at least once; but what never was must not be counted."""
        for name in ("duplicates", "refused"):
            if counts.get(name, 0) and not self.pure[number].counts.get(name, 0):
                self.complaints.add("counted")

    def judge(self, world: World) -> set[str]:
        """After the survivor: all complaints."""
        for number in range(len(self.logs)):
            if world.committed[number] != world.end_of(number):
                self.complaints.add("stuck")
            self.kept(world, number)
        self.outcome(world)
        return self.complaints

    def outcome(self, world: World) -> None:
        """Records are byte for byte those of the straight fold, each at least once."""
        seen: dict[tuple[str, int], set[Any]] = {}
        expected: dict[tuple[str, int], set[Any]] = {}
        for place, records in world.topics.items():
            seen.setdefault(place, set()).update(
                (record.key, record.value, record.headers) for record in records
            )
        for pure in self.pure:
            for record in pure.records:
                expected.setdefault((record.topic, record.partition), set()).add(
                    (record.key, record.value, record.headers)
                )
        for place in seen.keys() | expected.keys():
            if seen.get(place, set()) - expected.get(place, set()):
                self.complaints.add("different record")
            if expected.get(place, set()) - seen.get(place, set()):
                self.complaints.add("missing record")


class EdgeJudge(Judge):
    """Looks at each report by itself, as an outside consumer would, at what the collector makes of
    them, and at every user's budget.
    """

    def __init__(
        self, topology: Topology, randomness: Keyed, logs: Sequence[Sequence[Message]]
    ) -> None:
        super().__init__(lambda number: make_perturb(topology, number, randomness), logs)
        self.topology, self.randomness = topology, randomness
        self.run = local.run(topology, randomness, logs)

    @cached_property
    def expected(self) -> dict[tuple[int, str], Any]:
        """Of each report: (partition, id) to what it says."""
        return dict(
            item
            for number, records in enumerate(self.run.reports)
            for item in said(number, records)
        )

    @cached_property
    def users(self) -> dict[str, tuple[int, int]]:
        """Whose report, and of which slot, an id is: as only the edge can tell."""
        found: dict[str, tuple[int, int]] = {}
        slot_ms = self.topology.input.slot_ms
        reader = make_perturb(self.topology, 0, self.randomness).reader
        for log in self.logs:
            for message in log:
                events = reader.read(message.value).events
                if events is None:
                    continue
                for name, time in zip(events.users.texts(), events.times.tolist(), strict=True):
                    digest = self.randomness.digests(Ids.of([name]))
                    found[
                        self.randomness.report_ids(digest, np.array([time // slot_ms]), 0)
                        .tobytes()
                        .hex()
                    ] = (int(digest[0, 0]), time // slot_ms)
        return found

    def outcome(self, world: World) -> None:
        topology = self.topology
        reports = [world.topics[topology.reports_topic, number] for number in range(len(self.logs))]
        seen: dict[tuple[int, str], set[Any]] = defaultdict(set)
        for number, records in enumerate(reports):
            for name, what in said(number, records):
                seen[name].add(what)
        if seen.keys() - self.expected.keys():
            self.complaints.add("unknown report")
        if self.expected.keys() - seen.keys():
            self.complaints.add("missing report")
        if any(what != {self.expected.get(name)} for name, what in seen.items()):
            self.complaints.add("second report")
        if any(
            first_copies(records) != first_copies(pure)
            for records, pure in zip(reports, self.run.reports, strict=True)
        ):
            self.complaints.add("different batch")
        if self.overspent(seen):
            self.complaints.add("over budget")
        dead = [
            record
            for number in range(len(self.logs))
            for record in world.topics[topology.dead_letters_topic, number]
        ]
        dead += world.topics[topology.dead_letters_topic, -1]
        if {(record.value, record.headers) for record in dead} != {
            (record.value, record.headers) for record in self.run.dead_letters
        }:
            self.complaints.add("dead letters")
        if releases(topology, reports) != {
            (record.key, record.value) for record in self.run.releases
        }:
            self.complaints.add("different release")

    def overspent(self, seen: Mapping[tuple[int, str], set[Any]]) -> bool:
        """Whether any user, in any run of window + memory slots, said more than the budget allows:
        each different report costs.
        """
        ledger, spend = self.topology.method.ledger, self.topology.method.spend
        spent: dict[int, Counter[int]] = defaultdict(Counter)
        for (_, name), what in seen.items():
            if name in self.users:
                user, slot = self.users[name]
                spent[user][slot] += spend * len(what)
        return any(
            sum(by[slot - back] for back in range(ledger.run)) > ledger.budget
            for by in spent.values()
            for slot in list(by)
        )


def first_copies(records: Sequence[Record]) -> dict[tuple[int, int], bytes]:
    """Of each batch, by its place, what came first: all that counts."""
    found: dict[tuple[int, int], bytes] = {}
    for record in records:
        if (place := _place(record.value)) is not None:
            found.setdefault(place, record.value)
    return found


@lru_cache(4096)
def _place(value: bytes) -> tuple[int, int] | None:
    """Of a batch: its bound and chunk; None of what is none."""
    batch = read_reports(value)
    return None if batch is None else (batch.bound, batch.chunk)


def said(number: int, records: Sequence[Record]) -> list[tuple[tuple[int, str], Any]]:
    """Each single report in records of the reports topic: its place and id, and all
    that it says.
    """
    return [((number, name), what) for record in records for name, what in _singles(record.value)]


@lru_cache(4096)
def _singles(value: bytes) -> list[tuple[str, Any]]:
    """Of a batch: each id, and all that its report says."""
    batch = read_reports(value)
    return [
        (one.id, (one.slot, one.phase, one.value, one.fingerprint, one.series))
        for one in (() if batch is None else batch.singles())
    ]


def releases(
    topology: Topology, reports: Sequence[Sequence[Record]]
) -> set[tuple[bytes | None, bytes]]:
    """What collectors and the merger make of the reports topic as it was written, repeats and all.
    Dead letters of theirs are releases that nobody expects.
    """
    return _releases(topology, tuple(map(tuple, reports)))


behind = cache(roles.make)
"""Stages behind the edge, made once: how a release is read is worked out from the method's law."""


@lru_cache(512)
def _releases(
    topology: Topology, reports: tuple[tuple[Record, ...], ...]
) -> set[tuple[bytes | None, bytes]]:
    partials: list[Record] = []
    made: list[Record] = []
    for number, records in enumerate(reports):
        collect = behind(topology, "collect", number)
        for record in collect.fold(collect.fresh(), local.log(records, 1)).records:
            (partials if record.topic == topology.partials_topic else made).append(record)
    merge = behind(topology, "merge", 0)
    made += merge.fold(merge.fresh(), local.log(partials, 1)).records
    return {(record.key, record.value) for record in made}
