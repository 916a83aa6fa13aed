"""What many streams at a curator cost, without a broker: the state of full windows, the time to
have it back, and the fold that closes a window, which is what lies between a window's end and its
releases. All in seconds of CPU.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from ldp_kafka.runtime.keys import edge_randomness
from ldp_kafka.runtime.log import Message, Output
from ldp_kafka.runtime.recovery.epoch import Epoch
from ldp_kafka.runtime.stages.curate import Curate, make_curate
from ldp_kafka.runtime.wire.arrow import write_batch
from ldp_kafka.runtime.worker.process import look_seldom
from ldp_kafka.topology import loads
from tests.bench import inputs
from tests.bench.measure import Figure, cores, line, pin, ratio, say
from tests.fold.epochs import Shelf, opened, saved

METHODS = "segment_mean", "discontin_group"
"""What keeps least of a stream, and what keeps every value of a window."""
SIZES, DELAY, ROUNDS = (2_500, 5_000, 10_000), 100, 3
QUICK = (20, 40, 80), 10, 2

TEXT = """
topology: curators
input: {{slot: 60s, lateness: 0, partitions: 1, format: arrow, closing: events}}
privacy:
  {{trust: curator, level: event, method: {method}, epsilon: 1.0, delay: {delay},
   setting: {setting}, domain: [0, 1]}}
output: {{statistics: [per_stream]}}
"""


class Found(NamedTuple):
    """Of one number of streams."""

    records: int
    """Of the changelog, once it is compacted."""
    bytes: int
    """Of these, with their keys."""
    releases: int
    """Of the window that closes."""
    other: float
    """Seconds of the longest fold that closed nothing but slots."""
    loads: list[float]
    """Seconds until another owner has the state, a round each, ..."""
    firsts: list[float]
    """... of its first fold, of `inputs.ROWS` values at most, ..."""
    closings: list[float]
    """... and of the fold that closes the window."""


class Sink(Shelf):
    """Counts records, and keeps none."""

    def __init__(self) -> None:
        super().__init__()
        self.number = 0

    def send(self, partition: int, folded: Output, seconds: float) -> None:
        self.number += sum(each.number for each in folded.sent)


def stage_of(method: str, setting: str, delay: int) -> Curate:
    topology = loads(TEXT.format(method=method, setting=setting, delay=delay))
    return make_curate(topology, 0, edge_randomness(topology, inputs.KEY, "here"))


def slots_of(streams: int, delay: int) -> Iterator[list[bytes]]:
    """The messages of one slot after the other, every stream once in each; the first slot begins a
    batch.
    """
    rng, first = np.random.default_rng(1), -(-inputs.FIRST // delay) * delay
    ids = pa.array([f"stream-{stream:06d}" for stream in range(streams)])
    for slot in itertools.count(first):
        times, values = pa.array([slot * inputs.SLOT] * streams), pa.array(rng.random(streams))
        yield [
            write_batch(
                "event",
                ["user", "time", "value"],
                [column.slice(start, inputs.ROWS) for column in (ids, times, values)],
            )
            for start in range(0, streams, inputs.ROWS)
        ]


def folding(epoch: Epoch[Any], value: bytes) -> float:
    """Seconds of the fold of one message more."""
    epoch.take(Message(epoch.next_offset, -1, value), None)
    begin = time.process_time()
    epoch.fold()
    return time.process_time() - begin


def found_of(stage: Curate, streams: int, rounds: int) -> Found:
    """Full windows: as many slots as one holds, of which the last is open."""
    slots = slots_of(streams, stage.method.delay)
    epoch = opened(stage, want=0, shelf=Sink())
    window = list(itertools.islice(slots, stage.method.windows.span))
    other = max(folding(epoch, value) for slot in window for value in slot)
    table, closing = saved(epoch), next(slots)[0]
    took: dict[str, list[float]] = {"load": [], "first": [], "closing": []}
    for _ in range(rounds):
        sink, begin = Sink(), time.process_time()
        again = opened(stage, 0, table, epoch.offset + 1, committed=True, shelf=sink)
        took["load"].append(time.process_time() - begin)
        took["first"].append(folding(again, window[-1][0]))
        took["closing"].append(folding(again, closing))
    wanted = streams * stage.method.windows.hop
    if sink.number != wanted:
        raise RuntimeError(f"{sink.number:,} releases of a window of {wanted:,}")
    size = sum(len(key) + len(value) for key, value in table.items())
    return Found(len(table), size, wanted, other, *took.values())


def measure(*, quick: bool = False) -> list[Figure]:
    pin(cores()[0])
    look_seldom()  # as a worker does
    sizes, delay, rounds = QUICK if quick else (SIZES, DELAY, ROUNDS)
    figures = []
    for method, setting in itertools.product(METHODS, ("batch", "sliding")):
        what, every = f"{method}, {setting}, delay {delay}", []
        for streams in sizes:
            every.append(found_of(stage_of(method, setting, delay), streams, rounds))
            say(
                f"curators: {what}: {streams:,} streams: {every[-1].bytes / 2**20:.1f} MiB in"
                f" {every[-1].records:,} records, loaded in {min(every[-1].loads):.2f} s, closed in"
                f" {min(every[-1].closings):.2f} s"
            )
        figures += list(figures_of(what, delay, sizes, every))
    return figures


def figures_of(
    what: str, delay: int, sizes: Sequence[int], every: Sequence[Found]
) -> Iterator[Figure]:
    """Of one method in one setting: what each number of streams costs, and how it grows."""
    for streams, found in zip(sizes, every, strict=True):
        name = f"{what}, {streams:,} streams"
        cells = found.bytes / (streams * delay)
        yield Figure(
            "curators",
            f"{name}: state of full windows",
            "MB",
            (found.bytes / 1e6,),
            note=f"{found.records:,} records, {cells:.1f} bytes a stream and slot",
        )
        yield Figure("curators", f"{name}: recovery", "s", tuple(found.loads))
        yield Figure("curators", f"{name}: first fold after it", "s", tuple(found.firsts))
        yield Figure(
            "curators",
            f"{name}: from a window's end to its releases",
            "s",
            tuple(found.closings),
            note=f"{found.releases:,} releases in one fold; any other took {found.other:.3f} s",
        )
    grown = sizes[-1] / sizes[0]
    parts = {
        "state": [[found.bytes] * len(found.loads) for found in every],
        "recovery": [found.loads for found in every],
        "from a window's end to its releases": [found.closings for found in every],
    }
    for part, rounds in parts.items():
        _, off = line(sizes, [float(np.median(each)) for each in rounds])
        yield ratio(
            "curators",
            f"{what}: {part}, {sizes[-1]:,} streams / {sizes[0]:,}",
            rounds[-1],
            rounds[0],
            f"<= {grown:g}",
            f"furthest point from the line {off:.1f} % of the largest",
        )
