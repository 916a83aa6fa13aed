"""The coordinator's fold: merged sums in, a request for every slot and the topology's releases out.

It has one log of one partition, so what it decides follows from that log alone. Slots are decided
in their order, one after the other: what a slot is compared with is what the slot before it has
released. A slot that was asked waits until its second phase is closed, and those behind it wait
with it. Every slot has a request, which may ask for nothing: it frees the values that the edge
holds.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.errors import BadRecord, InvariantError, Reason
from ldp_kafka.methods.protocols import Coordinator, Responder
from ldp_kafka.methods.protocols.coordinator import PUBLISH
from ldp_kafka.methods.protocols.oracle import scalar
from ldp_kafka.methods.protocols.processing import Processing
from ldp_kafka.methods.protocols.request import FIRST, SECOND
from ldp_kafka.records import Request, Sums
from ldp_kafka.runtime.keys import EdgeNoise
from ldp_kafka.runtime.log import Look, Message, Output, Record
from ldp_kafka.runtime.stages.keyed import UnkeyedStage
from ldp_kafka.runtime.stages.releases import Publisher, publisher
from ldp_kafka.runtime.stages.rounds import Round, Rounds, Spent
from ldp_kafka.runtime.wire.arrow import check_size
from ldp_kafka.runtime.wire.dead_letters import DeadLetters
from ldp_kafka.runtime.wire.parsing import parse_json
from ldp_kafka.runtime.wire.records import decode_json, encode_json
from ldp_kafka.topology import Topology

__all__ = ["Coordinate", "CoordinateState", "make_coordinate"]

COUNTS = ("releases", "publications", "requests", "unanswered", "overdue", "repeated")
SHARD = "0"  # the only one


@dataclass
class CoordinateState:
    """What the coordinator knows of one topology."""

    coordinator: Coordinator
    rounds: Rounds
    cover: int = -1
    """Last offset in it, where it is ahead of ``meta``."""
    changed: bool = False


@dataclass(frozen=True)
class Coordinate(UnkeyedStage):
    """The coordinate stage of one topology.

    Parameters
    ----------
    method : whose reports were summed, and whose protocol decides
    requests_topic : None where the protocol asks for nothing
    hold : closed slots in which a request is answered
    processing : what is made of publications before they are released; no request depends on it
    """

    oversize: ClassVar[str] = "there are too many categories, or too many slots wait to be decided"

    method: Responder
    topic: str
    requests_topic: str | None
    dead_letters_topic: str
    fingerprint: str
    layout: str
    publisher: Publisher
    hold: int
    processing: Processing = field(default_factory=Processing)
    partition: int = 0

    def fresh(self) -> CoordinateState:
        decides = self.method.protocol.coordinator(self.processing)
        return CoordinateState(decides, Rounds(self.method.window))

    def fold(self, state: CoordinateState, messages: Sequence[Message]) -> Output:
        """Requests and releases that consecutive sums lead to."""
        output = Output(DeadLetters(self.dead_letters_topic, self.topic, self.partition), COUNTS)
        for message in messages:
            if message.offset <= state.cover:
                continue
            try:
                found = self._read(message)
            except BadRecord as bad:
                output.dead_letter(message.offset, 0, bad.reason)
                continue
            if found is not None:
                self._take(state, found, output)
                self._decide(state, output)
        released = _released(state)
        if released is not None:
            output.gauge("released", released)
        return output

    def _read(self, message: Message) -> Sums | None:
        """The sums of a phase; None for a header."""
        check_size(message.value)
        found = decode_json(parse_json(message.value or b""))
        if found is None:
            return None
        if not isinstance(found, Sums) or not found.phase < self.method.phases:
            raise BadRecord(Reason.NOT_A_RECORD)
        if found.support is not None:
            form = self.method.form(found.phase, found.cost)
            if form is None or len(form.support(form.blank(0))) != len(found.support):
                raise BadRecord(Reason.WRONG_FIELDS)
        return found

    def _take(self, state: CoordinateState, found: Sums, output: Output) -> None:
        """Note what is new; a merger that was killed writes again what it wrote last."""
        rounds, state.changed = state.rounds, True
        rounds.twice |= found.twice
        support = None if found.support is None else list(found.support)
        if found.phase == FIRST:
            if rounds.last is not None and found.slot <= rounds.last:
                output.count("repeated")
                return
            rounds.last = found.slot
            rounds.queue.append((found.slot, support))
            output.gauge("waiting", rounds.waiting)
        elif rounds.settled is not None and found.slot <= rounds.settled:
            output.count("repeated")
        elif support is None:
            rounds.settled = found.slot
        else:
            rounds.second.setdefault(found.slot, {})[found.cost] = support

    def _decide(self, state: CoordinateState, output: Output) -> None:
        """Go on as far as what is known allows."""
        rounds = state.rounds
        while True:
            if rounds.asked is not None:
                if rounds.settled is None or rounds.settled < rounds.asked.slot:
                    return
                found, rounds.asked = rounds.asked, None
                sums = rounds.second.get(found.slot, {}).get(found.cost)
                self._release(state, found, sums, output)
            elif rounds.queue:
                slot, first = rounds.queue.popleft()
                # of a slot that every edge has settled nobody would answer
                asks = rounds.settled is None or slot > rounds.settled
                verdict = state.coordinator.decide(slot, _array(first), asks=asks)
                output.count("overdue", int(not asks and first is not None))
                reports = 0 if first is None else first[0]
                cost = 0 if verdict.request is None else verdict.request.cost
                found = Round(slot, cost, reports, verdict.dissimilarity, verdict.error)
                if self.requests_topic is not None:
                    share, of = (1, 1) if verdict.request is None else verdict.request[2:]
                    output.send(self._request(slot, cost, share, of))
                if cost:
                    output.count("requests")
                    rounds.asked = found
                else:
                    self._release(state, found, None, output)
            else:
                return

    def _request(self, slot: int, cost: int, share: int, of: int) -> Record:
        assert self.requests_topic is not None
        name = f"{slot}/{SECOND}"
        asked = Request(name, slot, SECOND, cost, slot + self.hold, share, of)
        return Record(self.requests_topic, 0, name.encode(), encode_json(asked))

    def _release(
        self, state: CoordinateState, found: Round, sums: list[int] | None, output: Output
    ) -> None:
        rounds = state.rounds
        released = state.coordinator.release(_array(sums))
        second = 0 if sums is None else sums[0]
        rounds.spend(Spent(found.slot, found.reports, second, found.cost))
        for slot in [slot for slot in rounds.second if slot <= found.slot]:
            del rounds.second[slot]
        estimate = scalar(released.estimate) if self.method.protocol.scalar else released.estimate
        told = rounds.told(self.method.protocol, found, second)
        if self.processing.on:  # who reads it must know: projected shares, for one, are biased
            told["postprocess"] = self.processing.on
        publisher = replace(self.publisher, twice=True) if rounds.twice else self.publisher
        made = publisher.of_round(found.slot, estimate, released.strategy, told)
        output.count("releases", len(made))
        output.count("publications", int(released.strategy == PUBLISH))
        output.count("unanswered", int(found.cost > 0 and not second))
        output.gauge("waiting", rounds.waiting)
        output.gauge("window_publications", rounds.publications(self.method.phases))
        if self.method.phases > 1:
            output.gauge("dissimilarity", found.dissimilarity)
            output.gauge("publication_error", found.error)
        output.send(*made)

    def dirty(self, state: CoordinateState) -> set[str]:
        changed, state.changed = state.changed, False
        return {SHARD} if changed else set()

    def shards_of(self, state: CoordinateState) -> set[str]:
        return {SHARD} if state.rounds.begun else set()

    def dump(self, state: CoordinateState, shards: Iterable[str]) -> dict[str, bytes]:
        if SHARD not in set(shards) & self.shards_of(state):
            return {}
        told = {"coordinator": state.coordinator.saved(), "rounds": state.rounds.saved()}
        return {SHARD: json.dumps(told, separators=(",", ":")).encode()}

    def meta(self, _: CoordinateState) -> dict[str, Any]:
        """Nothing: all of it is in the shard, which can be ahead."""
        return {}

    def load(
        self, meta: Mapping[str, Any], shards: Mapping[str, tuple[int, bytes]]
    ) -> CoordinateState:
        del meta
        state = self.fresh()
        for cover, payload in shards.values():
            told = json.loads(payload)
            state.coordinator.restore(told["coordinator"])
            state.rounds = Rounds.load(self.method.window, told["rounds"])
            state.cover = cover
        return state

    def look(self, meta: Mapping[str, Any], shards: Mapping[str, bytes]) -> Look:
        """The slots that wait to be decided."""
        del meta
        found = Look(slots=0)
        unreadable = 0
        for payload in shards.values():
            try:
                state = self.load({}, {SHARD: (-1, payload)})
                found.slots = len(state.rounds.queue) + (state.rounds.asked is not None)
                found.closed = _released(state)
            except (ValueError, TypeError, KeyError, AttributeError):
                unreadable += 1
        found.complain("readable", unreadable, "states of the coordinator cannot be read")
        return found


def _released(state: CoordinateState) -> int | None:
    """The last slot that was released or passed over."""
    slot = state.coordinator.slot
    return None if slot is None else slot - (state.rounds.asked is not None)


def _array(sums: Sequence[int] | None) -> NDArray[np.int64] | None:
    return None if sums is None else np.array(sums, np.int64)


def make_coordinate(
    topology: Topology, partition: int = 0, randomness: EdgeNoise | None = None
) -> Coordinate:
    """The coordinate stage; its log has one partition."""
    del partition, randomness  # there is no other, and it draws nothing
    method, flow = topology.method, topology.flow
    if not isinstance(method, Responder):
        raise InvariantError(f"{method.name} has no coordinator")
    return Coordinate(
        method,
        topology.sums_topic,
        None if flow.requests is None else flow.requests.name,
        topology.collector_dead_letters_topic,
        topology.fingerprint,
        topology.layout,
        publisher(topology),
        topology.input.hold,
        topology.output.postprocess,
    )
