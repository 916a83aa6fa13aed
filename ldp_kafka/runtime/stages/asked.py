"""What a coordinator asks of the edge for, folded: values that wait for a request, and the reports
of the second phase.

A value gives its report of the first phase at once. It is then held, in its user's shard, until the
request for its slot is folded, or until ``hold`` slots more are closed: then the slot is settled,
and its value gone. What a request finds is decided by its position in the log alone: it counts
where its slot is closed and not yet settled, so the first valid one of a slot does, and none after
it; and requests count in the order of their slots.

Where a slot's values go together, they wait twice: in panes until their slot is closed, and the
slot's one value a user then waits for the request. So a request finds what it would find had each
user's one value come with the message that closes its slot. Where a message closes more than
``hold`` slots, the first of them are settled by it: their reports of the first phase go out with
it, and their values are let go with it.

Each user and slot is drawn for once a phase, whichever worker folds: a record of users that was
written at some offset has taken up the slots that were closed by there, and answered the requests,
so its users are left alone up to there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

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
from ldp_kafka.runtime.keys import EdgeNoise
from ldp_kafka.runtime.log import Message, Output
from ldp_kafka.runtime.stages.places import Passed
from ldp_kafka.runtime.stages.requests import read_request
from ldp_kafka.runtime.stages.users import Users
from ldp_kafka.topology import Topology

__all__ = ["ASKED", "Asked", "Requested", "Second", "asked_of"]

ASKED = ("requests", "requests_late", "requests_refused")
NOTHING = -1  # no value is held
# one number holds a value and the lap of the ring in which it came
VALUE_BITS, LAPS = 34, 2**28


@dataclass(repr=False)
class Asked:
    """How far the requests of a partition are."""

    history: History
    """What was asked of those who can be selected."""
    settled: int = NEVER
    """Last slot that no request can come for."""

    def saved(self) -> dict[str, Any]:
        """As JSON."""
        return {"settled": self.settled, "history": self.history.saved()}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Take in what `saved` gave."""
        self.settled = saved["settled"]
        self.history.restore(saved["history"])

    def __repr__(self) -> str:
        return f"Asked(settled={self.settled})"


class Edge(Protocol):
    """What the edge knows of one partition."""

    users: Users
    shard_offsets: NDArray[np.int64]
    closed: int

    @property
    def asked(self) -> Asked:
        """How far its requests are."""


class Second(NamedTuple):
    """Reports (n,) of the second phase."""

    users: NDArray[np.intp]
    """Rows of the state."""
    slot: int
    values: NDArray[np.int64]
    scale: float
    cost: int

    def __repr__(self) -> str:
        return f"Second({len(self.users)})"  # never a value


@dataclass(frozen=True, repr=False)
class Requested:
    """The values of one partition that are asked for.

    Parameters
    ----------
    method : answers
    hold : closed slots whose values wait for a request
    places : of the ring of held values: a slot's place is free again when it is settled
    """

    method: Responder
    hold: int
    places: int

    def __repr__(self) -> str:
        return f"Requested({self.method.name})"

    @property
    def fields(self) -> dict[str, Field]:
        """The arrays of a user's state beside the method's."""
        return {"held": Field("i8", self.places, NOTHING)}

    def fresh(self) -> Asked:
        """Before the first request."""
        return Asked(self.method.history())

    def passed(self, state: Edge) -> Passed:
        """How far the partition is."""
        asked = state.asked
        if state.closed != NEVER:
            asked.settled = max(asked.settled, state.closed - self.hold)
        return Passed(state.closed, asked.settled)

    def first(self, state: Edge, batch: Batch) -> Step:
        """The first phase of a slot that is new to all of these users; their values are held."""
        who, what = batch.rows, batch.values
        users, terms = state.users.state, self.method.terms
        # of divided users those of half A are never asked, and nothing of theirs is held
        can = in_second_half(users.digests(who)) if terms.population else slice(None)
        at, lap = self._place(batch.slot)
        users.columns["held"][at, who[can]] = lap | what[can]
        return self.method.first(users, batch, state.asked.history)

    def _place(self, slot: int) -> tuple[int, int]:
        """Where a slot's values are held, and what is added to each."""
        lap, at = divmod(slot, self.places)
        return at, lap % LAPS << VALUE_BITS

    def _held(self, state: Edge, slot: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The values of a slot, one a user, and whether there is one."""
        at, lap = self._place(slot)
        held = state.users.state.columns["held"][at, : state.users.state.count]
        there = (held >> VALUE_BITS) == lap >> VALUE_BITS
        return np.where(there, held - lap, 0), there

    def forget(self, state: Edge, before: int | None, offset: int) -> None:
        """Let go of the values of slots that have been settled since. A shard that is ahead of
        ``offset`` has done so, and may hold values of any slots to come.
        """
        settled = state.asked.settled
        first = max(NEVER if before is None else before, settled - self.places) + 1
        users = state.users.state
        ahead = offset <= int(state.shard_offsets.max())  # some have let go before a crash
        for slot in range(first, settled + 1):
            at, lap = self._place(slot + self.places)  # whose values alone may lie there by now
            held = users.columns["held"][at, : users.count]
            rows = np.flatnonzero((held != NOTHING) & (held >> VALUE_BITS != lap >> VALUE_BITS))
            if ahead:
                rows = rows[state.shard_offsets[state.users.shard[rows]] < offset]
            held[rows] = NOTHING
            state.users.touch(rows)

    def ask(
        self, state: Edge, message: Message, randomness: EdgeNoise, output: Output
    ) -> Second | None:
        """The reports that a request asks for, maybe none; None where it does not count."""
        try:
            request = read_request(message.value or b"")
        except BadRecord as bad:
            output.dead_letter(message.offset, 0, bad.reason)
            return None
        if not state.asked.settled < request.slot <= state.closed:
            output.count("requests_late")
            return None
        asking = Asking(request.slot, request.epsilon, request.share, request.of)
        if request.phase != SECOND or not (request.epsilon == 0 or self.method.valid(asking)):
            output.count("requests_refused")
            return None
        output.count("requests")
        found = Second(np.empty(0, np.intp), request.slot, self.method.blank(0), 1.0, 0)
        if request.epsilon:
            found = self._second(state, asking, message.offset, randomness) or found
        state.asked.settled = request.slot
        return found

    def _second(
        self, state: Edge, asking: Asking, offset: int, randomness: EdgeNoise
    ) -> Second | None:
        """The reports of those who are selected; the turn of those without a value is gone too."""
        users = state.users
        rows = np.arange(users.state.count)
        codes, there = self._held(state, asking.slot)
        if offset <= int(state.shard_offsets.max()):  # some have answered before a crash
            rows = rows[state.shard_offsets[users.shard[rows]] < offset]
            codes, there = codes[rows], there[rows]
        batch = Batch(rows, asking.slot, codes, randomness, there)
        step = self.method.second(users.state, batch, asking, state.asked.history)
        state.asked.history.add(asking)
        users.touch(rows)
        sent = np.flatnonzero(step.status == SENT)
        form = self.method.form(SECOND, asking.cost)
        if not len(sent) or form is None:
            return None
        answers = step.answers[sent]
        if form.scale != 1:
            answers = (answers * (1 / form.scale)).astype(np.int64)
        return Second(rows[sent], asking.slot, answers, form.scale, asking.cost)

    def left(self, held: Iterable[NDArray[np.int64]], settled: int) -> int:
        """How many values of settled slots are among the held ones (places, n) of each shard."""
        found = 0
        for values in held:
            for back in range(self.places if settled != NEVER else 0):
                at, lap = self._place(settled - back)
                ago = ((lap >> VALUE_BITS) - (values[at] >> VALUE_BITS)) % LAPS
                found += int(np.count_nonzero((values[at] != NOTHING) & (ago < LAPS // 2)))
        return found


def asked_of(topology: Topology) -> Requested | None:
    """That of a topology's edge; None where no coordinator asks."""
    method, hold = topology.method, topology.input.hold
    if method.phases < 2:  # an answer of one phase is a report of its slot
        return None
    if not isinstance(method, Responder):
        raise InvariantError(f"{method.name} is asked for nothing")
    # values of open slots are held in the ring, too, unless they wait in panes
    places = hold + (0 if topology.holds_slots else topology.input.lateness + 1)
    return Requested(method, hold, places)
