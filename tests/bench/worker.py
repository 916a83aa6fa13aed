"""The whole perturb worker on a real broker, beside a raw loop, a naive agent and quixstreams:
batches and single events, side by side in each round.
"""

from __future__ import annotations

import importlib.util
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

from ldp_kafka.runtime.kafka.setup import prepare
from tests.bench import inputs, weigh
from tests.bench.broker import Topics
from tests.bench.measure import Figure, cores, pin, ratio, say
from tests.bench.subject import Outcome, observe

USERS = 100_000
# Each for ten seconds or more: batches at 1.3 million events a second, single ones at 100,000, an
# agent of Faust at 3,000
SLOTS, SINGLES, NAIVE, ROUNDS = 130, 1_000_000, 30_000, 5
QUICK = (20, 20_000, 4_000, 1)
PASSES = 2  # of the raw loop, which is faster
PEERS = "stateless", "stateful"
LOOSE, TOGETHER = "ours, single", "ours, single, reports in batches"


class Bench:
    """The inputs, written once, and one run over them after the other."""

    def __init__(self, boot: str, folder: Path, *, quick: bool) -> None:
        self.topics, self.folder = Topics(boot), folder
        self.prefix = f"bench-{uuid.uuid4().hex[:8]}"
        slots, singles, self.naive_count, self.rounds = (
            QUICK if quick else (SLOTS, SINGLES, NAIVE, ROUNDS)
        )
        self.batched, self.single = (
            self.topics.create(f"{self.prefix}.{name}") for name in ("batched", "single")
        )
        say(f"worker: writing {slots * USERS:,} events in batches and {singles:,} single ones")
        self.rows, self.count = slots * USERS, singles
        self.messages = {
            self.batched: self.topics.fill(self.batched, self._batches(slots)),
            self.single: self.topics.fill_keyed(self.single, inputs.singles(USERS, singles)),
        }

    def _batches(self, slots: int) -> Iterator[bytes]:
        for value, _ in inputs.batches(USERS, slots):
            yield value
        yield inputs.closing(slots)

    def ours(
        self,
        label: str,
        shape: str,
        words: tuple[str, ...] = ("-m", "ldp_kafka"),
        more: str = "",
    ) -> Outcome:
        """``shape``: ``arrow``, in batches, or ``json``, an event a message."""
        raw, events = {
            "arrow": (self.batched, self.rows),
            "json": (self.single, self.count),
        }[shape]
        name = f"{self.prefix}-{label}"
        path, topology = inputs.topology(
            self.folder, name, self.topics.boot, raw, shape=shape, more=more
        )
        self.topics.create(topology.reports_topic)
        prepare(topology)
        try:
            outcome = observe(
                self.topics,
                [*words, "run", str(path), "--role", "perturb"],
                self.folder / f"{name}.log",
                topology.reports_topic,
                events,
                weigh.reports,
            )
        finally:
            self.topics.delete(name)
        if not events <= outcome.whole <= events + inputs.AFTER:
            raise RuntimeError(f"{events} events gave {outcome.whole} reports")
        return outcome

    def raw(self, label: str, source: str) -> Outcome:
        target = self.topics.create(f"{self.prefix}-{label}.out")
        count = self.messages[source]
        events = {self.batched: self.rows + inputs.AFTER, self.single: count}[source]
        words = [self.topics.boot, source, target, str(count), str(PASSES)]
        try:
            return observe(
                self.topics,
                ["-m", "tests.bench.raw_loop", *words],
                self.folder / f"{label}.log",
                target,
                events * PASSES,
                weigh.rows,
            )
        finally:
            self.topics.delete(f"{self.prefix}-{label}")

    def naive(self, label: str) -> Outcome:
        return self.peer(label, "tests.bench.naive", (), self.naive_count)

    def quix(self, label: str, kind: str) -> Outcome:
        return self.peer(label, "tests.bench.quix", (kind,), self.count)

    def peer(self, label: str, module: str, words: tuple[str, ...], events: int) -> Outcome:
        """A program over the single events that is not ours, and makes one record of each."""
        name = f"{self.prefix}-{label}"
        target = self.topics.create(f"{name}.out")
        try:
            return observe(
                self.topics,
                ["-m", module, *words, name, self.topics.boot, self.single, target],
                self.folder / f"{label}.log",
                target,
                events,
                weigh.rows,
            )
        finally:
            self.topics.delete(name)
            self.topics.delete(f"changelog__{name}")


def in_turns(
    boot: str,
    area: str,
    runs: Callable[[Bench, int], dict[str, Callable[[], Outcome]]],
    *,
    quick: bool,
) -> dict[str, list[Outcome]]:
    """Rounds of these runs one after the other, every second round from the other end; what each
    gave.
    """
    pin(cores()[1])
    found: dict[str, list[Outcome]] = {}
    with tempfile.TemporaryDirectory(prefix="ldp-kafka-bench-") as folder:
        bench = Bench(boot, Path(folder), quick=quick)
        try:
            for at in range(bench.rounds):
                made = list(runs(bench, at).items())
                for name, run in made if at % 2 == 0 else made[::-1]:
                    found.setdefault(name, []).append(outcome := run())
                    say(
                        f"{area}: round {at + 1} of {bench.rounds}: {name}: {outcome.events:,.0f}"
                        f" events/s, {outcome.cpu:,.0f} ns of CPU an event"
                    )
        finally:
            bench.topics.delete(bench.prefix)
    return found


def left_out() -> dict[str, str]:
    """What cannot be measured here, and why."""
    found = {}
    if importlib.util.find_spec("quixstreams") is None:
        found |= dict.fromkeys(
            map("quixstreams, {}".format, PEERS), "it is not installed; install the extra bench"
        )
    if inputs.runtime(inputs.BATCHED) is None:
        found[TOGETHER] = f"topologies have no runtime.{inputs.OPTION}"
    return found


def measure(boot: str, *, quick: bool = False) -> list[Figure]:
    missing = left_out()
    for name, why in missing.items():
        say(f"worker: {name} is left out: {why}")

    def runs(bench: Bench, at: int) -> dict[str, Callable[[], Outcome]]:
        def single(label: str, rows: int) -> Callable[[], Outcome]:
            more = inputs.runtime(rows) or ""
            return lambda: bench.ours(f"{label}{at}", "json", more=more)

        def quix(kind: str) -> Callable[[], Outcome]:
            return lambda: bench.quix(f"{kind}{at}", kind)

        every = {
            "ours, batches": lambda: bench.ours(f"ours{at}", "arrow"),
            "raw, batches": lambda: bench.raw(f"raw{at}", bench.batched),
            LOOSE: single("single", 1),
            TOGETHER: single("together", inputs.BATCHED),
            "naive": lambda: bench.naive(f"naive{at}"),
            **{f"quixstreams, {kind}": quix(kind) for kind in PEERS},
            "raw, single": lambda: bench.raw(f"rawsingle{at}", bench.single),
        }
        return {name: run for name, run in every.items() if name not in missing}

    return figures(in_turns(boot, "worker", runs, quick=quick))


NOTES = {
    "ours, batches": f"capp, {USERS:,} users, batches of {inputs.ROWS:,}, default snapshots",
    "raw, batches": "confluent-kafka: consume(1000), copy, produce",
    LOOSE: "JSON, one event a message, one report a message",
    TOGETHER: f"the same, up to {inputs.BATCHED:,} reports a message",
    "raw, single": "the same loop",
    "naive": "Faust agent: JSON, a table write and a send an event",
    "quixstreams, stateless": "JSON, a line of noise, JSON; commits every 5 s",
    "quixstreams, stateful": "the same with a state of each user in RocksDB and its changelog",
}
"""What runs, in the order of the table."""

RATES = (
    ("batches: ours / raw", "ours, batches", "raw, batches", ">= 0.15", "aim 0.2"),
    ("batches: ours / naive", "ours, batches", "naive", ">= 300", ""),
    ("single: ours / naive", LOOSE, "naive", ">= 40", ""),
    ("single: ours / quixstreams, stateless", LOOSE, "quixstreams, stateless", ">= 1.5", ""),
    ("single: ours / quixstreams, stateful", LOOSE, "quixstreams, stateful", ">= 2.5", ""),
    ("single: ours / raw", LOOSE, "raw, single", "", "aim 1"),
    ("single: reports in batches / one by one", TOGETHER, LOOSE, ">= 1.25", ""),
)
COSTS = (
    ("batches: ours / raw, by CPU", "ours, batches", "raw, batches", "<= 8"),
    ("single: ours / raw, by CPU", LOOSE, "raw, single", "<= 4"),
    ("single: reports in batches / raw, by CPU", TOGETHER, "raw, single", ""),
)


def figures(found: dict[str, list[Outcome]]) -> list[Figure]:
    """What ran, and the ratios between what ran."""
    speed = {name: [each.events for each in outcomes] for name, outcomes in found.items()}
    cost = {name: [each.cpu for each in outcomes] for name, outcomes in found.items()}
    made = []
    for name, note in NOTES.items():
        if name in found:
            made.append(Figure("worker", name, "events/s", tuple(speed[name]), note=note))
            made.append(Figure("worker", f"{name}, CPU", "ns/event", tuple(cost[name])))
    made += [
        ratio("worker", name, speed[over], speed[under], target, note)
        for name, over, under, target, note in RATES
        if over in found and under in found
    ]
    made += [
        ratio("worker", name, cost[over], cost[under], target, "nanoseconds an event")
        for name, over, under, target in COSTS
        if over in found and under in found
    ]
    return made
