"""Where the time of a fold goes: its named parts, each without the parts inside it."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from unittest.mock import patch

from ldp_kafka import accounting, mechanisms, methods, randomness, records
from ldp_kafka.runtime.keys import edge_randomness
from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.stages import perturb, report_messages, users, waiting
from ldp_kafka.runtime.stages.perturb import make_perturb
from ldp_kafka.runtime.wire import events
from tests.bench import inputs
from tests.bench.measure import Figure, cores, pin, say
from tests.fold.epochs import opened

USERS, SLOTS, QUICK = 100_000, 12, 3

# (owner, attribute, part)
PARTS = [
    (events.EventReader, "read_run", "decode"),
    (randomness.Keyed, "digests", "digests"),
    (users.Users, "rows", "look-up"),
    (users.Users, "distinct", "distinct"),
    (users.Users, "touch", "dirty shards"),
    (accounting.Ledger, "charge", "ledger"),
    (accounting.State, "digests", "gather digests"),
    (methods.METHODS["capp"], "step", "method"),
    (methods.METHODS["capp"], "bound", "bound values"),
    (randomness.Bound, "words", "noise"),
    (mechanisms.SquareWave, "perturb", "mechanism"),
    (randomness.Keyed, "report_ids", "ids"),
    (report_messages, "cut", "sort"),
    (records.Reports, "gather", "sort"),
    (report_messages, "write_reports", "encode"),
    (report_messages, "write_singles", "encode"),
    (perturb, "find_bounds", "bounds"),
    (perturb, "assign", "bounds"),
    (waiting.Waiting, "add", "wait"),
    (waiting.Waiting, "take", "wait"),
    (perturb.Perturb, "dump", "snapshot"),
]


class Tracer:
    """Self time of nested calls by part."""

    def __init__(self) -> None:
        self.spent: Counter[str] = Counter()
        self._inner = [0]

    def wrap(self, call, part: str):
        def traced(*args, **kwargs):
            begin = time.perf_counter_ns()
            self._inner.append(0)
            try:
                return call(*args, **kwargs)
            finally:
                whole = time.perf_counter_ns() - begin
                self.spent[part] += whole - self._inner.pop()
                self._inner[-1] += whole

        return traced

    @contextmanager
    def on(self) -> Iterator[None]:
        with ExitStack() as stack:
            for owner, name, part in PARTS:
                stack.enter_context(
                    patch.object(owner, name, self.wrap(getattr(owner, name), part))
                )
            yield


def measure(*, quick: bool = False) -> list[Figure]:
    """Nanoseconds an event of every part, a round a slot; the first slot, in which all users are
    new, does not count.
    """
    pin(cores()[0])
    slots = QUICK if quick else SLOTS
    say(f"profile: {slots} slots of {USERS} users")
    with tempfile.TemporaryDirectory(prefix="ldp-kafka-bench-") as folder:
        _, topology = inputs.topology(Path(folder), "profile", "embedded", "raw")
    epoch = opened(make_perturb(topology, 0, edge_randomness(topology, inputs.KEY, "here")), want=0)

    def take(message: Message) -> None:
        epoch.take(message, None)
        epoch.fold()
        epoch.output.records.clear()

    messages = [
        Message(offset, -1, value) for offset, (value, _) in enumerate(inputs.batches(USERS, slots))
    ]
    per, rounds = len(messages) // slots, []
    for slot in range(slots):
        tracer = Tracer()
        fold = tracer.wrap(take, "the rest of the fold")
        with tracer.on():
            for message in messages[slot * per : (slot + 1) * per]:
                fold(message)
        if slot:
            rounds.append(Counter({part: spent / USERS for part, spent in tracer.spent.items()}))
    with tracer.on():
        tracer.spent.clear()
        tracer.wrap(epoch.snapshot, "snapshot")()
    whole = [sum(spent.values()) for spent in rounds]
    parts = sorted(rounds[0], key=lambda part: -median(spent[part] for spent in rounds))
    share = median(whole)
    return [
        Figure(
            "fold",
            "all",
            "ns/event",
            tuple(whole),
            note=f"{1e3 / share:.2f} M events/s on the fold alone",
        ),
        *(
            Figure(
                "fold",
                part,
                "ns/event",
                tuple(spent[part] for spent in rounds),
                note=f"{median(spent[part] for spent in rounds) / share:.0%}",
            )
            for part in parts
        ),
        Figure("fold", "a snapshot of all shards", "ns/user", (tracer.spent["snapshot"] / USERS,)),
    ]
