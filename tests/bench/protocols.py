"""The edge's worker under each protocol of LDP-IDS beside it under sw_direct, on batches: the same
values. Where there is a second phase it is asked for as coordinators do: of divided users in every
slot, of divided budgets in one slot of `EVERY`.
"""

from __future__ import annotations

import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ldp_kafka.methods import Method
from ldp_kafka.methods.protocols import PROTOCOLS, Responder
from ldp_kafka.methods.protocols import Request as Asking
from ldp_kafka.methods.protocols.request import SECOND
from ldp_kafka.records import Request
from ldp_kafka.runtime.kafka.setup import prepare
from ldp_kafka.runtime.wire.records import encode_json
from ldp_kafka.runtime.wire.reports import read_reports
from ldp_kafka.topology import Topology, load
from tests.bench import inputs
from tests.bench.broker import Topics
from tests.bench.measure import Figure, cores, pin, ratio, say
from tests.bench.subject import spawn, stop

USERS, WINDOW = 100_000, 10
SLOTS, ROUNDS = 40, 3
QUICK = 8, 1
WARM = 3  # slots before which nothing counts
EVERY = 4  # 1.25 reports a user and slot; in Table 2 of LDP-IDS lbd has 1.27 of them, lba 1.17
ASIDE = "sw_direct"
PAUSE, STILL = 0.02, 40  # seconds between two looks; looks without news
LIMIT = 180.0  # seconds

TEXT = """
topology: {name}
kafka: {{bootstrap_servers: {boot}}}
input: {{partitions: 1, format: arrow, slot: 60s, lateness: 0, max_ahead: 20000d}}
privacy: {{method: {method}, mechanism: square_wave, epsilon: 1.0, window: {window},
  domain: [0.0, 100.0]}}
output: {{statistics: [mean]}}
edge: {{key_file: {key}}}
"""


class Outcome(NamedTuple):
    """Of one run."""

    events: float
    """A second: the worker has a core of its own, which it fills."""
    second: int
    """Reports of the second phase."""


def measure(boot: str, *, quick: bool = False) -> list[Figure]:
    """Each protocol's events a second over sw_direct's, round by round."""
    slots, rounds = QUICK if quick else (SLOTS, ROUNDS)
    pin(cores()[1])
    topics, prefix = Topics(boot), f"bench-{uuid.uuid4().hex[:8]}"
    found: dict[str, list[Outcome]] = {name: [] for name in (ASIDE, *PROTOCOLS)}
    with tempfile.TemporaryDirectory(prefix="ldp-kafka-bench-") as folder:
        for at in range(rounds):
            for method in list(found)[:: 1 if at % 2 == 0 else -1]:
                made = run(topics, Path(folder), f"{prefix}-{method}-{at}", method, slots)
                found[method].append(made)
                say(
                    f"protocols: round {at + 1} of {rounds}: {method}: {made.events:,.0f} events/s,"
                    f" {made.second:,} reports of the second phase"
                )
    return figures(found)


def figures(found: dict[str, list[Outcome]]) -> list[Figure]:
    """The table's lines."""
    beside = [each.events for each in found[ASIDE]]
    note = f"{USERS:,} users, batches of {inputs.ROWS:,}, window {WINDOW}"
    return [
        Figure("protocols", ASIDE, "events/s", tuple(beside), note=note),
        *(
            ratio(
                "protocols",
                f"{method} / {ASIDE}",
                [each.events for each in found[method]],
                beside,
                ">= 0.8",
            )
            for method in PROTOCOLS
        ),
    ]


def run(topics: Topics, folder: Path, name: str, method: str, slots: int) -> Outcome:
    """One worker over a raw topic of its own, written before it starts."""
    key = folder / "edge.key"
    key.write_bytes(inputs.KEY)
    key.chmod(0o600)
    path, log = folder / f"{name}.yaml", folder / f"{name}.log"
    path.write_text(TEXT.format(name=name, boot=topics.boot, method=method, window=WINDOW, key=key))
    topology = load(path)
    prepare(topology)
    try:
        topics.fill(topology.input.topic, _log(topology, slots))
        return _observed(topics, topology, path, log, slots)
    finally:
        topics.delete(name)


def _log(topology: Topology, slots: int) -> Iterator[bytes]:
    """Values of these slots, and each slot's request as soon as it is closed, by the first batch
    of the next one.
    """
    asks = topology.flow.requests is not None
    at = -(-USERS // inputs.ROWS)
    for number, (value, _) in enumerate(inputs.batches(USERS, slots)):
        yield value
        slot, first = divmod(number, at)
        if slot and not first and asks:
            yield encode_json(
                _request(topology.method, inputs.FIRST + slot - 1, topology.input.hold)
            )


def _request(method: Method, slot: int, hold: int) -> Request:
    """What is asked of a slot: most ask for nothing, where a report more of everybody is asked."""
    assert isinstance(method, Responder)
    terms = method.protocol.terms
    if not terms.population and slot % EVERY:
        return Request(f"{slot}/{SECOND}", slot, SECOND, 0, slot + hold, 1, 1)
    if terms.population:
        cost, share, of = terms.budget, 1, 2  # of those who are free: in a window all of half B
    else:
        cost, share, of = terms.second * EVERY // (WINDOW + EVERY), 1, 1
    if not method.valid(Asking(slot, cost, share, of)):
        raise RuntimeError(f"{method.name} would refuse what is asked of it")
    return Request(f"{slot}/{SECOND}", slot, SECOND, cost, slot + hold, share, of)


def _observed(topics: Topics, topology: Topology, path: Path, log: Path, slots: int) -> Outcome:
    """From when the slots of the warm-up are closed until the last but one is."""
    process = spawn(["-m", "ldp_kafka", "run", str(path), "--role", "perturb"], log)
    consumer, seen, until = topics.reader(), [0], time.monotonic() + LIMIT
    first, last = inputs.FIRST + WARM - 1, inputs.FIRST + slots - 2
    try:
        while not (_still(seen) and _closed(topics, topology, seen[-1]) >= last):
            time.sleep(PAUSE)
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(
                    f"{path.stem} ended or stood still: {log.read_text(errors='replace')[-2000:]}"
                )
            seen.append(topics.end(topology.reports_topic, consumer))
    finally:
        stop(process)
        consumer.close()
    records = topics.read(topology.reports_topic)
    batches = [read_reports(value) for _, value in records]
    begun, done = (
        next(
            at
            for at, batch in enumerate(batches)
            if batch is not None and batch.closed is not None and batch.closed >= slot
        )
        for slot in (first, last)
    )
    events = USERS * (last - first)
    return Outcome(
        events / max(records[done][0] - records[begun][0], 1e-3),
        sum(len(batch) for batch in batches if batch is not None and batch.phase == SECOND),
    )


def _still(seen: list[int]) -> bool:
    """Whether nothing has come for a while."""
    return len(seen) > STILL and seen[-STILL] == seen[-1]


def _closed(topics: Topics, topology: Topology, end: int) -> int:
    """The last slot that the last report batch says is closed; -1 before any."""
    if not end:
        return -1
    _, value = topics.read(topology.reports_topic, end - 1)[0]
    batch = read_reports(value)
    return -1 if batch is None or batch.closed is None else batch.closed
