"""Where the time of a fold goes: its named parts, each without the parts inside it."""

from __future__ import annotations

import tempfile
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import accumulate
from pathlib import Path
from statistics import median
from unittest.mock import patch

from ldp_kafka import accounting, mechanisms, methods, randomness, records
from ldp_kafka.runtime.keys import edge_randomness
from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.recovery.epoch import Limits
from ldp_kafka.runtime.runs import Run
from ldp_kafka.runtime.stages import perturb, report_messages, users, waiting
from ldp_kafka.runtime.stages.perturb import make_perturb
from ldp_kafka.runtime.wire import events
from ldp_kafka.runtime.worker.transport.messages import MOST
from tests.bench import inputs
from tests.bench.measure import Figure, cores, pin, say
from tests.fold.epochs import opened

USERS, SLOTS, QUICK = 100_000, 12, 3
SHARE = 5  # of so many users there is one whose events come alone

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
    """Self time of nested calls by part; of the CPU, since the machine may have other things to
    do.
    """

    def __init__(self) -> None:
        self.spent: Counter[str] = Counter()
        self._inner = [0]

    def wrap(self, call, part: str):
        def traced(*args, **kwargs):
            begin = time.thread_time_ns()
            self._inner.append(0)
            try:
                return call(*args, **kwargs)
            finally:
                whole = time.thread_time_ns() - begin
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


def fetches(messages: Sequence[Message]) -> Iterator[Sequence[Message]]:
    """Messages as a worker fetches them: those of one batch of the log together."""
    sizes = list(accumulate(len(message.value) for message in messages))
    start = before = 0
    while start < len(messages):
        end = max(bisect_right(sizes, before + inputs.BATCH), start + 1)
        yield messages[start:end]
        start, before = end, sizes[end - 1]


def measure(*, quick: bool = False) -> list[Figure]:
    """Nanoseconds an event of every part: of Arrow batches, and of single events whose reports are
    single, too. Messages are folded in the runs in which a worker hands them over.
    """
    pin(cores()[0])
    slots = QUICK if quick else SLOTS
    say(f"profile: {slots} slots of {USERS} users")
    batches = [value for value, _ in inputs.batches(USERS, slots)]
    singles = [value for _, value in inputs.singles(USERS // SHARE, slots * USERS // SHARE)]
    alone = inputs.runtime(1) or ""
    return [
        *_parts("fold", batches, "arrow", "", len(batches) // slots),
        *_parts("fold, single", singles, "json", alone, len(singles) // slots),
    ]


def _parts(area: str, values: list[bytes], shape: str, more: str, per: int) -> list[Figure]:
    """What a log costs part by part, ``per`` messages a round; the first round, in which users are
    new, does not count.
    """
    with tempfile.TemporaryDirectory(prefix="ldp-kafka-bench-") as folder:
        _, topology = inputs.topology(
            Path(folder), "profile", "embedded", "raw", shape=shape, more=more
        )
    epoch = opened(
        make_perturb(topology, 0, edge_randomness(topology, inputs.KEY, "here")),
        want=0,
        limits=Limits(run=MOST),
    )
    messages = [Message(offset, -1, value) for offset, value in enumerate(values)]

    counts: Counter[str] = Counter()
    epoch.output.send = lambda _, folded, __: counts.update(folded.counts)

    def take(some: Sequence[Message]) -> None:
        for fetch in fetches(some):
            for start in range(0, len(fetch), MOST):
                epoch.take_run(Run.of(fetch[start : start + MOST]), None)
            epoch.fold()

    rounds = []
    for start in range(0, len(messages) // per * per, per):
        tracer = Tracer()
        fold = tracer.wrap(take, "the rest of the fold")
        counts.clear()
        with tracer.on():
            fold(messages[start : start + per])
        if start:
            spent = tracer.spent.items()
            rounds.append(Counter({part: time / counts["events"] for part, time in spent}))
    with tracer.on():
        tracer.spent.clear()
        tracer.wrap(epoch.snapshot, "snapshot")()
    users = epoch.state.users.state.count
    whole = [sum(spent.values()) for spent in rounds]
    parts = sorted(rounds[0], key=lambda part: -median(spent[part] for spent in rounds))
    share = median(whole)
    return [
        Figure(
            area,
            "all",
            "ns/event",
            tuple(whole),
            note=f"{1e3 / share:.2f} M events/s on the fold alone",
        ),
        *(
            Figure(
                area,
                part,
                "ns/event",
                tuple(spent[part] for spent in rounds),
                note=f"{median(spent[part] for spent in rounds) / share:.0%}",
            )
            for part in parts
        ),
        Figure(area, "a snapshot of all shards", "ns/user", (tracer.spent["snapshot"] / users,)),
    ]
