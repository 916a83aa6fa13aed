"""What should have come out, recomputed from the input by a straight fold, and every way in which a
run can differ from it.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, cached_property, lru_cache
from itertools import chain
from typing import Any

import numpy as np

from ldp_kafka.accounting import NEVER
from ldp_kafka.randomness import Keyed
from ldp_kafka.records import Ids
from ldp_kafka.runtime import local, roles
from ldp_kafka.runtime.log import Message, Record, Stage
from ldp_kafka.runtime.recovery.checkpoints import META, checkpoints, latest
from ldp_kafka.runtime.recovery.epoch import Epoch
from ldp_kafka.runtime.recovery.keys import place_of
from ldp_kafka.runtime.recovery.packing import unpack
from ldp_kafka.runtime.stages.parts import Part
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
        number, name, _ = place_of(key).split("/")
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
    """Looks at each report by itself, as an outside consumer would, at what the collector's side
    makes of them, and at every user's budget.
    """

    def __init__(
        self, topology: Topology, randomness: Keyed, logs: Sequence[Sequence[Message]]
    ) -> None:
        super().__init__(lambda number: roles.make(topology, "perturb", number, randomness), logs)
        self.topology, self.randomness = topology, randomness

    @cached_property
    def reports(self) -> list[list[Record]]:
        """Those of the straight fold, by partition."""
        return [self.of(pure.records) for pure in self.pure]

    @cached_property
    def expected(self) -> dict[tuple[int, bytes], Any]:
        """Of each report: (partition, id) to what it says."""
        return dict(
            item for number, records in enumerate(self.reports) for item in said(number, records)
        )

    @cached_property
    def users(self) -> dict[bytes, tuple[str, int]]:
        """Whose report, and of which slot, an id is: as only the edge can tell."""
        reader = self.pure[0].stage.reader  # type: ignore[attr-defined]
        read = [reader.read(message.value).events for log in self.logs for message in log]
        names = sorted({name for events in read if events for name in events.users.texts()})
        digests = self.randomness.digests(Ids.of(names))
        slots = {slot for slot, *_ in self.expected.values()}
        return {
            row.tobytes(): (name, slot)
            for slot in slots
            for phase in (0, 1)
            for name, row in zip(
                names,
                self.randomness.report_ids(digests, np.full(len(names), slot), phase),
                strict=True,
            )
        }

    def of(self, records: Sequence[Record]) -> list[Record]:
        """The batches of reports."""
        return [record for record in records if record.topic == self.topology.reports_topic]

    def outcome(self, world: World) -> None:
        topology = self.topology
        reports = [world.topics[topology.reports_topic, number] for number in range(len(self.logs))]
        seen: dict[tuple[int, bytes], set[Any]] = defaultdict(set)
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
            for records, pure in zip(reports, self.reports, strict=True)
        ):
            self.complaints.add("different batch")
        if self.overspent(seen):
            self.complaints.add("over budget")
        dead = topology.dead_letters_topic
        letters, expected = (
            {(each.value, each.headers) for each in found if each.topic == dead}
            for found in (chain(*world.topics.values()), chain(*(p.records for p in self.pure)))
        )
        if letters != expected:
            self.complaints.add("dead letters")
        if releases(topology, reports) != releases(topology, self.reports):
            self.complaints.add("different release")

    def overspent(self, seen: Mapping[tuple[int, bytes], set[Any]]) -> bool:
        """Whether any user, in any run of slots that the ledger looks at, said more than the budget
        allows: each different report costs.
        """
        method = self.topology.method
        terms = method.protocol.terms if method.phases else None
        run = terms.window if terms else method.ledger.run
        budget = terms.budget if terms else method.ledger.budget
        spend = terms.first if terms else method.spend
        spent: dict[str, Counter[int]] = defaultdict(Counter)
        for (_, name), what in seen.items():
            if name in self.users:
                user, slot = self.users[name]
                spent[user][slot] += sum(cost or spend for _, _, cost, *_ in what)
        return any(
            sum(by[slot - back] for back in range(run)) > budget
            for by in spent.values()
            for slot in list(by)
        )


def first_copies(records: Sequence[Record]) -> dict[tuple[int, int], bytes]:
    """Of each batch, by its place, what came first: all that counts."""
    found: dict[tuple[int, int], bytes] = {}
    for record in records:
        if (place := batch(record.value)[0]) is not None:
            found.setdefault(place, record.value)
    return found


def said(number: int, records: Sequence[Record]) -> list[tuple[tuple[int, bytes], Any]]:
    """Each single report in records of the reports topic: its place and id, and all
    that it says.
    """
    return [((number, name), what) for each in records for name, what in batch(each.value)[1]]


@lru_cache(4096)
def batch(value: bytes) -> tuple[tuple[int, int] | None, list[tuple[bytes, Any]]]:
    """The place of a batch, None of what is none; of each report its id, and all that it says."""
    made = read_reports(value)
    if made is None:
        return None, []
    shared = made.cost, made.scale, made.fingerprint
    series = [b""] * len(made) if made.series is None else [row.tobytes() for row in made.series]
    return (made.bound, made.chunk), [
        (
            made.ids[at].tobytes(),
            (int(made.slots[at]), made.phase, *shared, made.values[at].tobytes(), series[at]),
        )
        for at in range(len(made))
    ]


behind = cache(roles.make)
"""Stages behind the edge, made once: how a release is read is worked out from the method's law."""


def downstream(
    topology: Topology, reports: Sequence[Sequence[Record]]
) -> tuple[list[Record], list[Record], list[Record]]:
    """Partials, sums, and all else that the collector's side makes of reports as they were
    written, repeats and all: releases, requests, dead letters.
    """
    rest: list[Record] = []

    def folded(agent: str, number: int, records: Sequence[Record], topic: Any) -> list[Record]:
        """Records of a topic; others are the rest."""
        stage = behind(topology, agent, number)
        made = stage.fold(stage.fresh(), local.log(records, 1)).records
        rest.extend(each for each in made if each.topic != topic)
        return [each for each in made if each.topic == topic]

    partials = [
        each
        for number, records in enumerate(reports)
        for each in folded("collect", number, records, topology.partials_topic)
    ]
    if topology.flow.sums is None:
        folded("merge", 0, partials, None)
        return partials, [], rest
    sums = folded("merge", 0, partials, topology.sums_topic)
    folded("coordinate", 0, sums, None)
    return partials, sums, rest


def releases(topology: Topology, reports: Sequence[Sequence[Record]]) -> set[Record]:
    """What comes of reports: dead letters of the collector's side are releases that nobody
    expects.
    """
    return _releases(topology, tuple(map(tuple, reports)))


@lru_cache(512)
def _releases(topology: Topology, reports: tuple[tuple[Record, ...], ...]) -> set[Record]:
    return set(downstream(topology, reports)[2])
