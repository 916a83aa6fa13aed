"""The edge's fold where a coordinator asks: values and its requests in, reports of both phases out.

A value gives its report of the first phase at once. It is then held, in its user's shard, until the
request for its slot is folded, or until ``hold`` slots more are closed: then the slot is settled,
and its value gone. What a request finds is decided by its position in the log alone: it counts
where its slot is closed and not yet settled, so the first valid one of a slot does, and none after
it; and requests count in the order of their slots.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import NEVER, Field
from ldp_kafka.errors import BadRecord, InvariantError
from ldp_kafka.methods.base import SENT, Step
from ldp_kafka.methods.batch import Batch
from ldp_kafka.methods.protocols import Request as Asking
from ldp_kafka.methods.protocols import Responder
from ldp_kafka.methods.protocols.history import History
from ldp_kafka.methods.protocols.request import SECOND
from ldp_kafka.methods.protocols.turns import in_second_half
from ldp_kafka.records import Reports
from ldp_kafka.runtime.keys import EdgeNoise
from ldp_kafka.runtime.log import Look, Message, Output
from ldp_kafka.runtime.runs import Run
from ldp_kafka.runtime.stages.perturb import Perturb, PerturbState, make_perturb, parameters_of
from ldp_kafka.runtime.stages.places import Passed, Places
from ldp_kafka.runtime.stages.report_messages import Drawn
from ldp_kafka.runtime.stages.requests import is_request, read_request
from ldp_kafka.runtime.stages.rows import stretches
from ldp_kafka.runtime.stages.shards import read_shards
from ldp_kafka.runtime.stages.users import UNREADABLE
from ldp_kafka.topology import Topology

__all__ = ["Answer", "AnswerState", "make_answer"]

ASKED = ("requests", "requests_late", "requests_refused")
NOTHING = -1  # no value is held
# one number holds a value and the lap of the ring in which it came
VALUE_BITS, LAPS = 34, 2**28


@dataclass(repr=False)
class AnswerState(PerturbState):
    """What the edge knows of one partition."""

    settled: int = NEVER
    """Last slot that no request can come for."""
    history: History = field(default_factory=lambda: History(1))
    """What was asked of those who can be selected."""


@dataclass(frozen=True)
class Answer(Perturb):
    """The perturb stage of a topology whose coordinator asks for a second phase.

    Parameters
    ----------
    hold : closed slots whose values wait for a request
    """

    hold: int = 1

    @cached_property
    def _asked(self) -> Responder:
        if not isinstance(self.method, Responder):
            raise InvariantError(f"{self.method.name} is asked for nothing")
        return self.method

    @property
    def _places(self) -> int:
        """Of the ring of held values: a slot's place is free again when it is settled."""
        return self.lateness + 1 + self.hold

    @property
    def fields(self) -> dict[str, Field]:
        return {**super().fields, "held": Field("i8", self._places, NOTHING)}

    def fresh(self) -> AnswerState:
        return AnswerState(*self._nobody(), history=self._asked.history())

    def fold(self, state: PerturbState, messages: Sequence[Message]) -> Output:
        """Reports of consecutive messages; the same records whether they are folded one by one or
        together.
        """
        assert isinstance(state, AnswerState)
        output = self._output()
        if messages:
            self._begin(state, messages)
        before = self._passed(state).settled
        run = Run.of(messages)
        asks = np.array(list(map(is_request, run.values)), np.int64)
        for part in stretches(asks):
            if not asks[part.start]:
                self._events(state, run[part], output)
                continue
            for message in run[part]:
                self._ask(state, message, output)
        if messages:
            self._forget(state, before, messages[-1].offset)
        self._stand(state, output)
        return output

    def latest(self, messages: Sequence[Message]) -> int:
        return super().latest([each for each in messages if not is_request(each.value)])

    def _output(self) -> Output:
        output = super()._output()
        for name in ASKED:
            output.count(name, 0)
        return output

    def _passed(self, state: PerturbState) -> Passed:
        assert isinstance(state, AnswerState)
        if state.closed != NEVER:
            state.settled = max(state.settled, state.closed - self.hold)
        return Passed(state.closed, state.settled)

    def _answer(self, state: PerturbState, batch: Batch) -> Step:
        assert isinstance(state, AnswerState)
        who, what = batch.rows, batch.values
        users, terms = state.users.state, self._asked.terms
        # of divided users those of half A are never asked, and nothing of theirs is held
        can = in_second_half(users.digests(who)) if terms.population else slice(None)
        at, lap = self._place(batch.slot)
        users.columns["held"][at, who[can]] = lap | what[can]
        return self._asked.first(users, batch, state.history)

    def _place(self, slot: int) -> tuple[int, int]:
        """Where a slot's values are held, and what is added to each."""
        lap, at = divmod(slot, self._places)
        return at, lap % LAPS << VALUE_BITS

    def _held(self, state: AnswerState, slot: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The values of a slot, one a user, and whether there is one."""
        at, lap = self._place(slot)
        held = state.users.state.columns["held"][at, : state.users.state.count]
        there = (held >> VALUE_BITS) == lap >> VALUE_BITS
        return np.where(there, held - lap, 0), there

    def _forget(self, state: AnswerState, before: int | None, offset: int) -> None:
        """Let go of the values of slots that have been settled since. A shard that is ahead of
        ``offset`` has done so, and may hold values of any slots to come.
        """
        first = max(NEVER if before is None else before, state.settled - self._places) + 1
        users = state.users.state
        ahead = offset <= int(state.shard_offsets.max())  # some have let go before a crash
        for slot in range(first, state.settled + 1):
            at, lap = self._place(slot + self._places)  # whose values alone may lie there by now
            held = users.columns["held"][at, : users.count]
            rows = np.flatnonzero((held != NOTHING) & (held >> VALUE_BITS != lap >> VALUE_BITS))
            if ahead:
                rows = rows[state.shard_offsets[state.users.shard[rows]] < offset]
            held[rows] = NOTHING
            state.users.touch(rows)

    def _ask(self, state: AnswerState, message: Message, output: Output) -> None:
        """Fold one request."""
        try:
            request = read_request(message.value or b"")
        except BadRecord as bad:
            output.dead_letter(message.offset, 0, bad.reason)
            return
        before = self._passed(state)
        if not state.settled < request.slot <= state.closed:
            output.count("requests_late")
            return
        asking = Asking(request.slot, request.epsilon, request.share, request.of)
        if request.phase != SECOND or not (request.epsilon == 0 or self._asked.valid(asking)):
            output.count("requests_refused")
            return
        output.count("requests")
        batch = self._asks(state, asking, message.offset) if request.epsilon else self._empty
        state.settled = request.slot
        output.count("reports", len(batch))
        place = Places.of(message.offset, before, self._passed(state))
        drawn = Drawn(batch, np.full(len(batch), SECOND), np.zeros(len(batch), np.intp))
        self._send(state, place, drawn, output)

    def _asks(self, state: AnswerState, asking: Asking, offset: int) -> Reports:
        """The reports of those who are selected; the turn of those without a value is gone too."""
        users = state.users
        rows = np.arange(users.state.count)
        codes, there = self._held(state, asking.slot)
        if offset <= int(state.shard_offsets.max()):  # some have answered before a crash
            rows = rows[state.shard_offsets[users.shard[rows]] < offset]
            codes, there = codes[rows], there[rows]
        batch = Batch(rows, asking.slot, codes, self.randomness, there)
        step = self._asked.second(users.state, batch, asking, state.history)
        state.history.add(asking)
        users.touch(rows)
        sent = np.flatnonzero(step.status == SENT)
        form = self._asked.form(SECOND, asking.cost)
        if not len(sent) or form is None:
            return self._empty
        digests = users.state.digests(rows[sent])
        slots, phases = np.full(len(sent), asking.slot), np.full(len(sent), SECOND)
        answers = step.answers[sent]
        return Reports(
            self._ids(digests, slots, phases),
            slots,
            answers if form.scale == 1 else (answers * (1 / form.scale)).astype(np.int64),
            form.scale,
            self.fingerprint,
            0,
            None,
            cost=asking.cost,
        )

    def meta(self, state: PerturbState) -> dict[str, Any]:
        assert isinstance(state, AnswerState)
        asked = {"settled": state.settled, "history": state.history.saved()}
        return {**super().meta(state), **asked}

    def load(self, meta: Mapping[str, Any], shards: Mapping[str, tuple[int, bytes]]) -> AnswerState:
        state = super().load(meta, shards)
        assert isinstance(state, AnswerState)
        state.settled = meta["settled"]
        state.history.restore(meta["history"])
        return state

    def look(self, meta: Mapping[str, Any], shards: Mapping[str, bytes]) -> Look:
        """As of any edge, and that no value of a settled slot is there."""
        found, settled, left = super().look(meta, shards), int(meta["settled"]), 0
        kind = self._kept_as
        for payload in shards.values():
            try:
                held = read_shards([payload], self.fields, kind).columns["held"]
            except UNREADABLE:
                continue  # that has been said
            for back in range(self._places if settled != NEVER else 0):
                at, lap = self._place(settled - back)
                ago = ((lap >> VALUE_BITS) - (held[at] >> VALUE_BITS)) % LAPS
                left += int(np.count_nonzero((held[at] != NOTHING) & (ago < LAPS // 2)))
        found.complain("shards", left, "values are held of slots that are settled")
        return found


def make_answer(topology: Topology, partition: int, randomness: EdgeNoise | None) -> Answer:
    """The stage of one raw partition whose log holds requests.

    Raises
    ------
    ConfigurationError : there is no keyed randomness to perturb with
    """
    plain = make_perturb(topology, partition, randomness)
    return Answer(**parameters_of(plain), hold=topology.input.hold)
