"""What one draw per (user, slot), the ledger and the recoverable state cost: the worker as it is
beside one without them, in turns.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.bench.measure import Figure, ratio
from tests.bench.subject import Outcome
from tests.bench.worker import Bench, in_turns

OFF = ("-m", "tests.bench.off")


def measure(boot: str, *, quick: bool = False) -> list[Figure]:
    """Events a second with and without, and their ratio round by round."""

    def runs(bench: Bench, at: int) -> dict[str, Callable[[], Outcome]]:
        return {
            "with, batches": lambda: bench.ours(f"on{at}", "arrow"),
            "without, batches": lambda: bench.ours(f"off{at}", "arrow", OFF),
            "with, single": lambda: bench.ours(f"onsingle{at}", "json"),
            "without, single": lambda: bench.ours(f"offsingle{at}", "json", OFF),
        }

    return figures(in_turns(boot, "cost", runs, quick=quick))


def figures(found: dict[str, list[Outcome]]) -> list[Figure]:
    made = []
    for shape in ("batches", "single"):
        on, off = found[f"with, {shape}"], found[f"without, {shape}"]
        speed = [[outcome.events for outcome in side] for side in (on, off)]
        made += [
            Figure(
                "cost",
                f"with, {shape}",
                "events/s",
                tuple(speed[0]),
                note="keyed noise, report ids, ledger, snapshots, commits after them",
            ),
            Figure(
                "cost",
                f"without, {shape}",
                "events/s",
                tuple(speed[1]),
                note="fresh noise, random ids, no ledger, offsets alone",
            ),
            ratio("cost", f"{shape}: with / without", *speed, ">= 0.75"),
            ratio(
                "cost",
                f"{shape}: with / without, by CPU",
                [outcome.cpu for outcome in off],
                [outcome.cpu for outcome in on],
            ),
        ]
    return made
