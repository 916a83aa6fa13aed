"""What one draw per (user, slot), the ledger and the recoverable state cost: the worker as it is beside one without them, in turns."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.bench.measure import Figure, cores, pin, ratio, say
from tests.bench.subject import Outcome
from tests.bench.worker import Bench

ROUNDS = 5
OFF = ("-m", "tests.bench.off")


def measure(boot: str, *, quick: bool = False) -> list[Figure]:
    """Events a second with and without, and their ratio round by round; every second round begins with the other one."""
    pin(cores()[1])
    found: dict[str, list[Outcome]] = {}
    with tempfile.TemporaryDirectory(prefix="ldp-kafka-bench-") as folder:
        bench = Bench(boot, Path(folder), quick=quick)
        try:
            for at in range(1 if quick else ROUNDS):
                runs = [
                    ("with, batches", lambda at=at: bench.ours(f"on{at}", bench.batched, bench.sizes, "arrow")),
                    ("without, batches", lambda at=at: bench.ours(f"off{at}", bench.batched, bench.sizes, "arrow", OFF)),
                    ("with, single", lambda at=at: bench.ours(f"onsingle{at}", bench.single, [1] * bench.count, "json")),
                    ("without, single", lambda at=at: bench.ours(f"offsingle{at}", bench.single, [1] * bench.count, "json", OFF)),
                ]
                for name, run in runs if at % 2 == 0 else runs[::-1]:
                    found.setdefault(name, []).append(outcome := run())
                    say(f"cost: round {at + 1}: {name}: {outcome.events:,.0f} events/s, {outcome.cpu:,.0f} ns of CPU an event")
        finally:
            bench.topics.delete(bench.prefix)
    return figures(found)


def figures(found: dict[str, list[Outcome]]) -> list[Figure]:
    made = []
    for shape in ("batches", "single"):
        on, off = found[f"with, {shape}"], found[f"without, {shape}"]
        speed = [[outcome.events for outcome in side] for side in (on, off)]
        made += [
            Figure("cost", f"with, {shape}", "events/s", tuple(speed[0]), note="keyed noise, report ids, ledger, snapshots, commits after them"),
            Figure("cost", f"without, {shape}", "events/s", tuple(speed[1]), note="fresh noise, random ids, no ledger, offsets alone"),
            ratio("cost", f"{shape}: with / without", *speed, ">= 0.75"),
            ratio("cost", f"{shape}: with / without, by CPU", [outcome.cpu for outcome in off], [outcome.cpu for outcome in on]),
        ]
    return made
