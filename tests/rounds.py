"""Topologies whose coordinator asks for a second phase, and raw logs with requests in them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from random import Random
from typing import Any

import numpy as np

from ldp_kafka.records import Request, Tick
from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.wire.records import encode_json
from ldp_kafka.topology import Topology, loads
from tests.fold import cases

NAMES = ("lbd", "lba", "lpd", "lpa")
FIRST_SLOT = cases.START // cases.SLOT
TEXT = """
topology: fold
input:
  {{slot: 1m, lateness: {lateness}, partitions: {partitions}, max_ahead: 1h, hold: {hold},
    per_slot: {per_slot}}}
privacy: {{method: {name}, epsilon: {epsilon}, window: {window}, {kind}}}
output: {{statistics: [{statistic}]}}
runtime: {{shards: 3, report_rows: 6}}
"""


@cache
def topology(
    name: str,
    partitions: int = 1,
    *,
    lateness: int = 1,
    hold: int = 2,
    window: int = 3,
    epsilon: float = 3.0,
    numeric: bool = False,
    per_slot: str = "first",
) -> Topology:
    """Of categories 0, 1 and 2, or of numbers of 0 to 10."""
    kind = "domain: [0, 10], mechanism: hybrid" if numeric else "categories: 3, mechanism: grr"
    return loads(
        TEXT.format(
            name=name,
            partitions=partitions,
            lateness=lateness,
            hold=hold,
            per_slot=per_slot,
            window=window,
            epsilon=epsilon,
            kind=kind,
            statistic="mean" if numeric else "frequencies",
        )
    )


def batch(rows: Sequence[tuple[str, int, Any]]) -> bytes:
    """Events (user, slot counted from the first, value) as one message."""
    return cases.batch(
        [(user, cases.START + slot * cases.SLOT + 7, value) for user, slot, value in rows]
    )


def tick(slot: int) -> bytes:
    """The time when a slot begins."""
    return encode_json(Tick(cases.START + slot * cases.SLOT))


def request(
    slot: int, cost: int, share: int = 1, of: int = 1, *, phase: int = 1, name: str = "r"
) -> bytes:
    """A control record, of a slot counted from the first."""
    at = FIRST_SLOT + slot
    return encode_json(Request(name, at, phase, cost, at + 2, share, of))


def messages(values: Sequence[bytes], first: int = 1) -> list[Message]:
    """As a log without timestamps: nothing is too far ahead."""
    return [Message(offset, -1, value) for offset, value in enumerate(values, first)]


def value_of(of: Topology, random: Random) -> Any:
    """Any value, now and then one that is clamped."""
    return random.uniform(-1, 11) if of.method.kind == "numeric" else random.randrange(3)


def asked(of: Topology, random: Random) -> tuple[int, int, int]:
    """What a request asks: a cost and a fraction that mostly can be answered."""
    terms = of.method.protocol.terms
    if random.random() < 0.2:
        return 0, 1, 1
    if terms.population:
        cost = terms.budget if random.random() < 0.8 else random.choice((1, terms.budget + 1, -1))
        fractions = ((1, 1),) * 5 + ((2, 3), (1, 2), (1, 2), (1, 10**9), (3, 2), (0, 1))
        return cost, *random.choice(fractions)
    costs = (terms.second, terms.second // 2, terms.second // 3, terms.second + 1, -5, 2**40)
    share, of_ = (1, 1) if random.random() < 0.85 else random.choice(((1, 2), (0, 0), (-1, -1)))
    return random.choice(costs[: 3 if random.random() < 0.8 else 6]), share, of_


def wild(of: Topology, seed: int, length: int = 40, users: int = 16) -> list[Message]:
    """Values and requests in any order: late and early values, several slots in a message, slots
    that jump by more than is held; requests twice, too early, too late, out of order, of no valid
    cost, malformed.
    """
    random, source = Random(seed), of.input
    now, latest, values = 0, 0, []
    for _ in range(length):
        kind = random.random()
        if kind < 0.5:
            slots = [max(0, now - random.choice((0, 0, 0, 1, 1, 2, 4))) for _ in range(users)]
            if random.random() < 0.15:
                slots[0] = now = now + random.choice((2, 5, source.hold + source.lateness + 1, 40))
            rows = [
                (f"u{random.randrange(users)}", slot, value_of(of, random))
                for slot in slots[: random.randint(1, users)]
            ]
            values.append(batch(rows))
            latest = max(latest, *(slot for _, slot, _ in rows))
        elif kind < 0.6:
            values.append(tick(now))
            latest = max(latest, now)
        elif kind < 0.93:
            closed = latest - source.lateness - 1
            slot = closed + random.choice((0, 0, 0, 0, 0, -1, -1, -2, -3, 1, 2))
            phase = random.choice((1,) * 12 + (0, 2))
            values.append(request(slot, *asked(of, random), phase=phase))
            values += [request(slot, *asked(of, random))] * (random.random() < 0.3)
        else:
            values.append(
                random.choice(
                    (
                        b'{"ldp_kafka":1,"type":"request",',
                        b'{"ldp_kafka":1,"type":"request","slot":1}',
                        request(now, 1).replace(b'"slot":', b'"slots":'),
                        b'{"user": 1}',
                    )
                )
            )
        now += random.choice((0, 0, 0, 1, 1))
    return messages([*values, tick(now + source.lateness + 2), tick(now + 20)])


def numbers(given: Sequence[Any], like: np.ndarray) -> np.ndarray:
    """Values, errors or intervals of releases (T, ...) in the shape of a trace's, NaN for null."""
    shape = like.shape[1:]
    nothing, turned = np.full(shape, np.nan), shape[1:] + shape[:1]  # intervals: their ends first
    return np.array(
        [nothing if each is None else np.array(each, float).reshape(turned).T for each in given]
    )


def are_of(found: Sequence[Any], trace: Any, first: int, start: int, atol: float = 0) -> None:
    """Releases are those of a protocol's trace, from its first slot with a report on.

    Parameters
    ----------
    start : the slot in which the trace begins
    """
    assert [each["slot"] - start for each in found] == list(range(first, len(trace.values)))
    for key, told in (
        ("value", trace.values),
        ("standard_error", trace.standard_error),
        ("confidence_interval", trace.confidence_interval),
    ):
        theirs = numbers([each[key] for each in found], told)
        assert np.allclose(theirs, told[first:], rtol=1e-13, atol=atol, equal_nan=True)
    reasons = [each.get("error_reason") or "" for each in found]
    assert reasons == trace.error_reason[first:].tolist()


def held(state: Any) -> dict[tuple[int, int], int]:
    """All values that a state of the answer stage holds: (row, slot) to the value."""
    cells = state.users.state.columns["held"][:, : state.users.state.count]
    places = len(cells)
    found = {}
    for at, row in np.argwhere(cells != -1).tolist():
        lap, value = divmod(int(cells[at, row]), 2**34)
        found[row, lap * places + at] = value
    return found
