"""How long a curator's windows take on a real broker, with events of every stream in every slot at
a steady rate: from the event that closes a window to the window's first release, and to its last.
From when the generator hands a message to its client, until the broker has the release, by the
broker's clock, to a millisecond.
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import orjson

from ldp_kafka.methods.delay.windows import SETTINGS, Setting
from tests.bench.broker import Topics
from tests.bench.latency import LATE, PATIENCE, STILL
from tests.bench.live import live
from tests.bench.measure import Figure, cores, pin, say

STREAMS, DELAY = (1_000, 10_000), 100
QUICK = (100,), 10
SLOT = 500  # milliseconds
BATCHES = 4  # that close in a run, after one that fills


class Outcome(NamedTuple):
    """Of one run."""

    taken: np.ndarray
    """(windows, 2) milliseconds until the first release and until the last; nan: there is none."""
    releases: int
    """Of a window, the median."""
    late: float
    """Milliseconds that the generator was late, p99."""

    @property
    def troubles(self) -> list[str]:
        """Why its figures are not those of the rate, where they are not."""
        found = []
        if self.late > LATE:
            found.append(f"THE GENERATOR COULD NOT KEEP UP: {self.late:,.0f} ms late at p99")
        if missing := int(np.isnan(self.taken[:, 0]).sum()):
            found.append(f"{missing:,} windows without a release")
        return found


def to_windows(
    sent: np.ndarray,
    records: Iterable[tuple[float, bytes]],
    windows: Setting,
    slot_ms: int,
    lateness: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Of each window that closed, and whose releases are all of slots that events came for from the
    beginning: (windows, 2) milliseconds from the event that closed it to its first release and to
    its last; and how many there are.
    """
    slots = (sent * 1000).astype(np.int64) // slot_ms
    seen: dict[int, list[float]] = {}
    for seconds, value in records:
        number = (orjson.loads(value)["slot"] + windows.behind) // windows.hop
        span = seen.setdefault(number, [seconds, seconds, 0])
        span[1] = max(span[1], seconds)
        span[2] += 1
    # the first slot with an event may have begun before it
    first = -(-(slots[0] + 1 + windows.behind) // windows.hop)
    numbers = np.arange(first, max(first, (slots[-1] - lateness) // windows.hop))
    closes = sent[np.searchsorted(slots, (numbers + 1) * windows.hop + lateness)]
    none = [np.nan, np.nan, 0]
    found = np.array([seen.get(number, none) for number in numbers.tolist()]).reshape(-1, 3)
    return 1000 * (found[:, :2] - closes[:, None]), found[:, 2].astype(int)


def measure(boot: str, *, quick: bool = False) -> list[Figure]:
    """Each setting, each number of streams."""
    streams, delay = QUICK if quick else (STREAMS, DELAY)
    pin(cores()[1])
    topics, prefix = Topics(boot), f"bench-{uuid.uuid4().hex[:8]}"
    made: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="ldp-kafka-bench-") as folder:
        for setting in SETTINGS:
            for count in streams:
                name = f"{prefix}-{setting}-{count}"
                outcome = run(topics, Path(folder), name, setting, count, delay)
                made += figures(f"{setting}, delay {delay}, {count:,} streams", outcome)
                for each in made[-4:]:
                    say(f"curator latency: {each.name}: {each.median:,.0f} ms")
    return made


def run(topics: Topics, folder: Path, name: str, setting: str, streams: int, delay: int) -> Outcome:
    """One topology of its own."""
    seconds = (1 + BATCHES) * delay * SLOT / 1000
    with live(topics, folder, name, setting, SLOT, delay=delay) as made:
        generator = made.generate(streams * 1000 / SLOT, seconds, streams)
        late = made.told(generator, seconds + PATIENCE)["p99"]
        releases = made.topology.releases_topic
        made.quiet(releases, STILL, PATIENCE)
        windows = made.topology.windowed.windows
        records, lateness = topics.records(releases), made.topology.input.lateness
        taken, number = to_windows(made.sent(), records, windows, SLOT, lateness)
    if not len(taken):
        raise RuntimeError("no window has closed")
    return Outcome(taken, int(np.median(number)), late)


def figures(what: str, outcome: Outcome) -> list[Figure]:
    """Half of the windows, and the slowest of them."""
    count = f"{len(outcome.taken):,} windows of {outcome.releases:,} releases"
    notes = [count, f"generator {outcome.late:.1f} ms late at p99", *outcome.troubles]
    return [
        Figure(
            "curator-latency",
            f"{what}: closing event to the {which} release, {share}",
            "ms",
            (float(of(outcome.taken[:, at])),),
            note="; ".join(notes),
        )
        for at, which in enumerate(("first", "last"))
        for share, of in (("p50", np.nanmedian), ("longest", np.nanmax))
    ]
