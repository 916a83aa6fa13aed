"""The edge of a topology with a coordinator once more, message by message: what is closed, what is
held and which request counts is told by dictionaries, and who answers by the protocol's responder.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ldp_kafka.accounting import NEVER
from ldp_kafka.errors import BadRecord
from ldp_kafka.methods.batch import Batch
from ldp_kafka.methods.protocols import Request as Asking
from ldp_kafka.methods.protocols.request import FIRST, SECOND
from ldp_kafka.methods.step import SENT
from ldp_kafka.randomness import Ids
from ldp_kafka.records import Reports
from ldp_kafka.runtime.log import Message, Output
from ldp_kafka.runtime.stages.perturb import make_perturb
from ldp_kafka.runtime.stages.requests import is_request, read_request
from ldp_kafka.runtime.wire.dead_letters import DeadLetters
from tests.broker.flow import Flow
from tests.exact import mean_of

TAKEN = {
    "first": lambda values, _: values[0],
    "last": lambda values, _: values[-1],
    "mean": mean_of,
}
"""What a user's values in one slot come to, by ``input.per_slot``."""


@dataclass
class Answered:
    """What the users of all partitions had to say."""

    said: dict[str, tuple] = field(default_factory=dict)
    """Of each report id what `judge.told` makes of its report."""
    answers: dict[tuple[int, int, int], list] = field(default_factory=lambda: defaultdict(list))
    """Reports of each slot, phase and cost, as the mechanism emitted them."""
    owners: dict[str, tuple[tuple[int, bytes], int]] = field(default_factory=dict)
    """Whose report an id is, a user of a partition, and of which slot."""
    timely: Counter[int] = field(default_factory=Counter)
    """Of each slot, in how many partitions its request came in time, and asked for something."""


def answered(flow: Flow, raw: Sequence[Sequence[Message]]) -> Answered:
    """All reports of a raw log, given by partition."""
    found = Answered()
    for number, log in enumerate(raw):
        _Edge(flow, number, log, found).run()
    return found


class _Edge:
    """One partition."""

    def __init__(self, flow: Flow, number: int, log: Sequence[Message], found: Answered) -> None:
        self.topology, self.noise, self.number, self.log = flow.topology, flow.noise(), number, log
        self.found = found
        self.method = self.topology.method
        self.responder = self.method.protocol.responder()
        self.history = self.responder.history()
        self.waits = self.topology.holds_slots
        raw = make_perturb(self.topology, number, self.noise)._raw
        reader = replace(raw, held=self.waits)
        self.rows = [
            None if is_request(message.value) else reader.read([message], self._nowhere())
            for message in log
        ]
        names = [name for each in self.rows if each is not None for name in each[0].users.texts()]
        self.number_of = {name: at for at, name in enumerate(dict.fromkeys(names))}
        self.digests = self.noise.digests(Ids.of(list(self.number_of)))
        self.state = self.responder.state(self.digests)
        self.last = np.full(len(self.digests), NEVER)
        self.held: dict[int, dict[int, int]] = defaultdict(dict)
        self.waiting: dict[int, dict[int, list]] = defaultdict(lambda: defaultdict(list))
        self.watermark, self.closed, self.settled = -1, NEVER, NEVER

    def _nowhere(self) -> Output:
        topology = self.topology
        return Output(DeadLetters(topology.dead_letters_topic, topology.raw_topic, self.number), ())

    def run(self) -> None:
        for message, rows in zip(self.log, self.rows, strict=True):
            if rows is None:
                self.ask(message)
            else:
                self.take(*rows)

    def take(self, rows, latest: list[int]) -> None:
        """The values of one message."""
        values = dict(enumerate(rows.values.tolist()))
        users = [self.number_of[name] for name in rows.users.texts()]
        for slot in sorted(set(rows.slots.tolist())):
            if slot <= self.closed:
                continue
            for at in np.flatnonzero(rows.slots == slot).tolist():
                self.waiting[slot][users[at]].append(values[at])
            if not self.waits:
                self.first(slot)
        if latest[0] > self.watermark:
            self.watermark = latest[0]
            slot = self.watermark // self.topology.input.slot_ms
            self.closed = max(self.closed, slot - self.topology.input.lateness - 1)
        for slot in sorted(slot for slot in self.waiting if slot <= self.closed):
            self.first(slot)

    def first(self, slot: int) -> None:
        """What those who have not yet been taken for in this slot answer unasked."""
        waiting = self.waiting.pop(slot)
        mine = {who: values for who, values in waiting.items() if self.last[who] < slot}
        if not mine:
            return
        take, grid = TAKEN[self.topology.input.per_slot], self.topology.grid
        taken = np.array([take(each, grid) for each in mine.values()])
        codes = self.method.bound(taken) if self.waits else taken
        who = np.array(list(mine))
        self.last[who] = slot
        self.held[slot].update(zip(mine, codes.tolist(), strict=True))
        batch = Batch(who, slot, codes, self.noise)
        step = self.responder.first(self.state, batch, self.history)
        self.note(step, who, slot, FIRST, 0)

    def ask(self, message: Message) -> None:
        """One request."""
        try:
            request = read_request(message.value)
        except BadRecord:
            return
        if self.closed != NEVER:
            self.settled = max(self.settled, self.closed - self.topology.input.hold)
        asking = Asking(request.slot, request.epsilon, request.share, request.of)
        if not (
            self.settled < request.slot <= self.closed
            and request.phase == SECOND
            and (request.epsilon == 0 or self.responder.valid(asking))
        ):
            return
        self.settled = request.slot
        held = self.held.get(request.slot, {})
        if not request.epsilon:
            return
        self.found.timely[request.slot] += 1
        everybody = np.arange(len(self.digests))
        codes, there = np.zeros(len(everybody), np.int64), np.zeros(len(everybody), bool)
        for who, code in held.items():
            codes[who], there[who] = code, True
        batch = Batch(everybody, asking.slot, codes, self.noise, there)
        step = self.responder.second(self.state, batch, asking, self.history)
        self.history.add(asking)
        self.note(step, everybody, request.slot, SECOND, request.epsilon)

    def note(self, step, who, slot: int, phase: int, cost: int) -> None:
        """What was said, and what it cost whom."""
        sent = np.flatnonzero(step.status == SENT)
        form = self.method.form(phase, cost)
        slots = np.full(len(who), slot)
        digests = self.digests[who]
        names = self.noise.report_ids(digests, slots, phase)
        for name, digest in zip(names, digests, strict=True):
            self.found.owners[name.tobytes().hex()] = (self.number, digest.tobytes()), slot
        answers = step.answers[sent]
        values = answers if form.scale == 1 else (answers * (1 / form.scale)).astype(np.int64)
        batch = Reports(
            names[sent], slots[sent], values, form.scale, "", 0, None, phase=phase, cost=cost
        )
        self.found.answers[slot, phase, cost] += list(answers)
        for one in batch.singles():
            self.found.said[one.id] = one.slot, one.phase, str(one.value), one.series, cost
