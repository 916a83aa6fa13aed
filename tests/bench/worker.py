"""The whole perturb worker on a real broker, beside a raw loop and a naive agent: batches and
single events, side by side in each round.
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Callable
from pathlib import Path

from ldp_kafka.runtime.kafka.setup import prepare
from ldp_kafka.runtime.wire.reports import read_reports
from tests.bench import inputs
from tests.bench.broker import Topics
from tests.bench.measure import Figure, cores, pin, ratio, say
from tests.bench.subject import Outcome, observe

USERS = 100_000
SLOTS, SINGLES, NAIVE, ROUNDS = 130, 100_000, 20_000, 5
QUICK = (20, 20_000, 4_000, 1)


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
        self.sizes: list[int] = []
        self.topics.fill(self.batched, self._batches(slots))
        self.count = self.topics.fill(self.single, inputs.singles(USERS, singles))

    def _batches(self, slots):
        for value, rows in inputs.batches(USERS, slots):
            self.sizes.append(rows)
            yield value

    def ours(
        self,
        label: str,
        raw: str,
        sizes: list[int],
        shape: str,
        words: tuple[str, ...] = ("-m", "ldp_kafka"),
    ) -> Outcome:
        name = f"{self.prefix}-{label}"
        path, topology = inputs.topology(self.folder, name, self.topics.boot, raw, shape=shape)
        self.topics.create(topology.reports_topic)
        prepare(topology)
        try:
            outcome = observe(
                self.topics,
                [*words, "run", str(path), "--role", "perturb"],
                self.folder / f"{name}.log",
                topology.reports_topic,
                sizes,
                header=1,
            )
        finally:
            self.topics.delete(name)
        reports = sum(len(read_reports(value) or ()) for value in outcome.values)
        if reports != sum(sizes):
            raise RuntimeError(f"{sum(sizes)} events gave {reports} reports")
        return outcome

    def raw(self, label: str, source: str, sizes: list[int], passes: int) -> Outcome:
        target = self.topics.create(f"{self.prefix}-{label}.out")
        words = [
            "-m",
            "tests.bench.raw_loop",
            self.topics.boot,
            source,
            target,
            str(len(sizes)),
            str(passes),
        ]
        try:
            return observe(
                self.topics, words, self.folder / f"{label}.log", target, sizes * passes, keep=False
            )
        finally:
            self.topics.delete(f"{self.prefix}-{label}")

    def naive(self, label: str) -> Outcome:
        name = f"{self.prefix}-{label}"
        target = self.topics.create(f"{name}.out")
        try:
            return observe(
                self.topics,
                ["-m", "tests.bench.naive", name, self.topics.boot, self.single, target],
                self.folder / f"{label}.log",
                target,
                [1] * self.naive_count,
            )
        finally:
            self.topics.delete(name)


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


def measure(boot: str, *, quick: bool = False) -> list[Figure]:
    def runs(bench: Bench, at: int) -> dict[str, Callable[[], Outcome]]:
        return {
            "ours, batches": lambda: bench.ours(f"ours{at}", bench.batched, bench.sizes, "arrow"),
            "raw, batches": lambda: bench.raw(f"raw{at}", bench.batched, bench.sizes, 2),
            "ours, single": lambda: bench.ours(
                f"single{at}", bench.single, [1] * bench.count, "json"
            ),
            "naive": lambda: bench.naive(f"naive{at}"),
            "raw, single": lambda: bench.raw(f"rawsingle{at}", bench.single, [1] * bench.count, 20),
        }

    return figures(in_turns(boot, "worker", runs, quick=quick))


def figures(found: dict[str, list[Outcome]]) -> list[Figure]:
    speed = {name: [outcome.events for outcome in outcomes] for name, outcomes in found.items()}
    cost = {name: tuple(outcome.cpu for outcome in outcomes) for name, outcomes in found.items()}

    def pair(name, note):
        return [
            Figure("worker", name, "events/s", tuple(speed[name]), note=note),
            Figure("worker", f"{name}, CPU", "ns/event", cost[name]),
        ]

    return [
        *pair(
            "ours, batches", f"capp, {USERS:,} users, batches of {inputs.ROWS:,}, default snapshots"
        ),
        *pair("raw, batches", "confluent-kafka: consume(1000), copy, produce"),
        *pair("ours, single", "JSON, one event a message"),
        *pair("raw, single", "the same loop"),
        *pair("naive", "Faust agent: JSON, a table write and a send an event"),
        ratio(
            "worker",
            "batches: ours / raw",
            speed["ours, batches"],
            speed["raw, batches"],
            ">= 0.15",
            "aim 0.2",
        ),
        ratio("worker", "batches: ours / raw, by CPU", cost["raw, batches"], cost["ours, batches"]),
        ratio("worker", "batches: ours / naive", speed["ours, batches"], speed["naive"], ">= 300"),
        ratio("worker", "single: ours / naive", speed["ours, single"], speed["naive"], ">= 3"),
        ratio("worker", "single: ours / raw", speed["ours, single"], speed["raw, single"]),
    ]
