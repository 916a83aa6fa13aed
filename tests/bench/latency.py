"""How long it takes, with all workers on a real broker and events that come at a steady rate: of
a topology ``per_user`` from an event to its report, of a crowd from the event that closes a slot
to the slot's release. From when the generator hands a message to its client, until the broker
has the answer, by the broker's clock, to a millisecond.
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import orjson

from tests.bench.broker import Topics
from tests.bench.live import PROBES, Live, live
from tests.bench.measure import Figure, cores, pin, say

RATES = 20, 5_000, 50_000  # events a second
SLOT = 500  # milliseconds
SECONDS, WARM, ROUNDS = 20.0, 3.0, 3
QUICK = 5.0, 1.0, 1
PATIENCE = 120.0  # seconds for what waits when the last event is sent
STILL = 2.0  # seconds without news, after which nothing more is expected
LATE = 100.0  # milliseconds, beyond which at p99 the generator did not keep up
BEHIND = 1000.0  # milliseconds: who takes longer over the last second has not kept up

Records = Iterable[tuple[float, bytes]]


class Outcome(NamedTuple):
    """Of one run."""

    taken: np.ndarray
    """Milliseconds, of each event or slot after the warm-up, in order; nan: no answer."""
    behind: float
    """Milliseconds: the median of the last twentieth."""
    late: float
    """Milliseconds that the generator was late, p99."""

    @property
    def missing(self) -> int:
        return int(np.isnan(self.taken).sum())

    @property
    def troubles(self) -> list[str]:
        """Why its figures are not those of the rate, where they are not."""
        found = []
        if self.late > LATE:
            found.append(f"THE GENERATOR COULD NOT KEEP UP: {self.late:,.0f} ms late at p99")
        if not self.behind < BEHIND:
            found.append(f"NOT CARRIED on these cores: {self.behind:,.0f} ms behind at the end")
        if self.missing:
            found.append(f"{self.missing:,} without an answer")
        return found


def to_reports(sent: np.ndarray, records: Records) -> np.ndarray:
    """Milliseconds from each event to the first copy of its report."""
    taken = np.full(len(sent), np.nan)
    for seconds, value in records:
        at = orjson.loads(value).get("bound", -1) - PROBES
        if 0 <= at < len(sent) and np.isnan(taken[at]):
            taken[at] = 1000 * (seconds - sent[at])
    return taken


def to_releases(sent: np.ndarray, records: Records, slot_ms: int, lateness: int) -> np.ndarray:
    """Milliseconds from the event that closes a slot to the slot's first release; of every slot
    that is closed and had an event, in order.
    """
    slots = (sent * 1000).astype(np.int64) // slot_ms
    first = {}
    for seconds, value in records:
        first.setdefault(orjson.loads(value)["slot"], seconds)
    closes = np.searchsorted(slots, asked := np.unique(slots) + 1 + lateness)
    pairs = ((slot - 1 - lateness, at) for slot, at in zip(asked, closes, strict=True))
    return np.array(
        [1000 * (first.get(slot, np.nan) - sent[at]) for slot, at in pairs if at < len(sent)]
    )


def of_reports(run: Live, sent: np.ndarray, warm: float) -> np.ndarray:
    taken = to_reports(sent, run.topics.records(run.topology.reports_topic))
    return taken[sent >= sent[0] + warm]


def of_releases(run: Live, sent: np.ndarray, warm: float) -> np.ndarray:
    source = run.topology.input
    records = run.topics.records(run.topology.releases_topic)
    kept = sent[np.searchsorted(sent, sent[0] + warm) :]
    return to_releases(kept, records, source.slot_ms, source.lateness)[1:]  # the first began before


class Watched(NamedTuple):
    """What is measured of a shape of topology."""

    what: str
    answers: Callable[[Live], str]
    """The topic."""
    taken: Callable[[Live, np.ndarray, float], np.ndarray]


WATCHED = {
    "per_user": Watched("event to report", lambda run: run.topology.reports_topic, of_reports),
    "crowd": Watched(
        "closing event to release", lambda run: run.topology.releases_topic, of_releases
    ),
}


def measure(boot: str, *, quick: bool = False) -> list[Figure]:
    """Shapes and rates take turns, round by round."""
    seconds, warm, rounds = QUICK if quick else (SECONDS, WARM, ROUNDS)
    pin(cores()[1])
    topics, prefix = Topics(boot), f"bench-{uuid.uuid4().hex[:8]}"
    found: dict[tuple[str, int], list[Outcome]] = {}
    with tempfile.TemporaryDirectory(prefix="ldp-kafka-bench-") as folder:
        for at in range(rounds):
            for rate in RATES:
                for shape in WATCHED:
                    name = f"{prefix}-{shape}-{rate}-{at}"
                    made = run(topics, Path(folder), name, shape, rate, seconds, warm)
                    found.setdefault((shape, rate), []).append(made)
                    say(f"latency: round {at + 1} of {rounds}: {told(shape, rate, made)}")
    return figures(found)


def run(
    topics: Topics, folder: Path, name: str, shape: str, rate: int, seconds: float, warm: float
) -> Outcome:
    """One topology of its own under one rate, each user in every second slot."""
    watched = WATCHED[shape]
    with live(topics, folder, name, shape, SLOT) as made:
        generator = made.generate(rate, warm + seconds, rate * 2 * SLOT // 1000)
        late = made.told(generator, warm + seconds + PATIENCE)["p99"]
        made.quiet(watched.answers(made), STILL, PATIENCE)
        taken = watched.taken(made, made.sent(), warm)
    answered = taken[~np.isnan(taken)]
    tail = answered[-max(len(answered) // 20, 1) :]
    return Outcome(taken, float(np.median(tail)) if len(tail) else float("inf"), late)


def told(shape: str, rate: int, made: Outcome) -> str:
    p50, p99 = np.nanpercentile(made.taken, (50, 99))
    figures = (
        f"{shape} at {rate:,}/s: {WATCHED[shape].what} p50 {p50:,.1f} ms, p99 {p99:,.1f} ms"
        f" of {len(made.taken):,}, generator {made.late:.1f} ms late at p99"
    )
    return "; ".join([figures, *made.troubles])


def figures(found: dict[tuple[str, int], list[Outcome]]) -> list[Figure]:
    """p50 and p99 of each shape under each rate."""
    made = []
    for (shape, rate), outcomes in sorted(found.items()):
        troubles = [trouble for each in outcomes for trouble in each.troubles]
        count, late = len(outcomes[0].taken), np.median([each.late for each in outcomes])
        notes = [f"of {count:,}; generator {late:.1f} ms late at p99", *troubles]
        made += [
            Figure(
                "latency",
                f"{shape} at {rate:,}/s: {WATCHED[shape].what}, p{share}",
                "ms",
                tuple(float(np.nanpercentile(each.taken, share)) for each in outcomes),
                note="; ".join(notes),
            )
            for share in (50, 99)
        ]
    return made
