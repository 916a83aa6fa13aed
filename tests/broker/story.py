"""Somebody else's topic as it is found in the world: readings of meters in nested JSON, in four
partitions, with thirty kinds of messages that are no good among them.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime

import numpy as np
from confluent_kafka import Producer

from ldp_kafka.errors import Reason
from ldp_kafka.runtime.kafka import admin
from ldp_kafka.runtime.kafka.admin import TopicSpec

__all__ = ["BAD", "PARTITIONS", "SLOTS", "START", "fill", "reasons", "truth"]

PARTITIONS, SLOTS = 4, 24
START = 1_767_225_600  # seconds: 2026-01-01
EVERY = 97  # a message that is no good after so many good ones


def when(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


TIME = when(START + 1800)


def said(**parts: object) -> bytes:
    """A reading with these parts in place of good ones; a part that is ``...`` is left out."""
    whole: dict[str, object] = {
        "meter": {"id": "bad-1"},
        "reading": {"kwh": 2.5},
        "ts": TIME,
    }
    whole |= parts
    return json.dumps({name: part for name, part in whole.items() if part is not ...}).encode()


GOOD = said()
BAD: dict[str, tuple[bytes | None, Reason]] = {
    "a deletion": (None, Reason.EMPTY),
    "nothing": (b"", Reason.EMPTY),
    "no JSON": (b"meter=17;kwh=2.5", Reason.NOT_JSON),
    "half a message": (GOOD[: len(GOOD) // 2], Reason.NOT_JSON),
    "two messages in one": (GOOD + b"\n" + GOOD, Reason.NOT_JSON),
    "compressed by the application": (gzip.compress(GOOD, mtime=0), Reason.NOT_JSON),
    "Latin-1": ('{"meter": {"id": "Zähler"}}'.encode("latin-1"), Reason.NOT_JSON),
    "UTF-16": (GOOD.decode().encode("utf-16"), Reason.NOT_JSON),
    "a byte order mark": (b"\xef\xbb\xbf" + GOOD, Reason.NOT_JSON),
    "a schema registry's framing": (b"\x00\x00\x00\x00\x07" + GOOD, Reason.NOT_JSON),
    "nested too deeply": (said(more=json.loads("[" * 200 + "]" * 200)), Reason.NOT_JSON),
    "NaN": (said(reading={"kwh": float("nan")}), Reason.NOT_FINITE),
    "infinity": (said(reading={"kwh": float("inf")}), Reason.NOT_FINITE),
    "a number beyond floats": (GOOD.replace(b"2.5", b"1e999"), Reason.NOT_FINITE),
    "a list": (b"[" + GOOD + b"]", Reason.NOT_A_RECORD),
    "a single number": (b"2.5", Reason.NOT_A_RECORD),
    "null": (b"null", Reason.NOT_A_RECORD),
    "no meter": (said(meter=...), Reason.USER),
    "an empty id": (said(meter={"id": ""}), Reason.USER),
    "an id that is null": (said(meter={"id": None}), Reason.USER),
    "an id of 300 letters": (said(meter={"id": "m" * 300}), Reason.USER),
    "an id with a fraction": (said(meter={"id": 17.5}), Reason.USER),
    "a meter that is no object": (said(meter="bad-1"), Reason.USER),
    "no time": (said(ts=...), Reason.TIME),
    "a time of day": (said(ts="half past ten"), Reason.TIME),
    "a time before 1970": (said(ts=-5), Reason.TIME),
    "the 30th of February": (said(ts="2026-02-30T10:00:00Z"), Reason.TIME),
    "no reading": (said(reading=...), Reason.VALUE),
    "a reading that is null": (said(reading={"kwh": None}), Reason.VALUE),
    "a reading with its unit": (said(reading={"kwh": "2.5 kWh"}), Reason.VALUE),
    "true": (said(reading={"kwh": True}), Reason.VALUE),
    "a decimal comma": (said(reading={"kwh": "2,5"}), Reason.VALUE),
}
"""What is no good: the message, and what becomes of it."""


def good(users: int, slots: int) -> Iterator[tuple[int, bytes]]:
    """(partition, message) of every meter in each slot; a meter stays in one partition."""
    rng = np.random.default_rng(1)
    usual = rng.gamma(4.0, 0.6, users)
    for slot in range(slots):
        readings = usual * (1 + 0.5 * np.sin(slot / 24 * 2 * np.pi)) + rng.normal(0, 0.1, users)
        seconds = START + 3600 * slot + rng.integers(0, 3600, users)
        for user, (kwh, at) in enumerate(zip(readings.tolist(), seconds.tolist(), strict=True)):
            message = {
                "meter": {"id": f"m-{user:05d}", "site": "north"},
                "reading": {"kwh": round(max(kwh, 0.0), 3)},
                "ts": when(at),
            }
            yield user % PARTITIONS, json.dumps(message).encode()


def truth(users: int, slots: int) -> list[float]:
    """The mean of each slot."""
    sums = [0.0] * slots
    for at, (_, message) in enumerate(good(users, slots)):
        sums[at // users] += json.loads(message)["reading"]["kwh"]
    return [each / users for each in sums]


def fill(bootstrap: str, topic: str, users: int, slots: int) -> Counter[Reason]:
    """Make the topic, write it, and say how many messages of each kind are no good."""
    admin.ensure({"bootstrap.servers": bootstrap}, [TopicSpec(topic, PARTITIONS)])
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20})
    wrong, kinds = Counter(), list(BAD.values())
    for at, (partition, message) in enumerate(good(users, slots)):
        _put(producer, topic, partition, message)
        if at % EVERY == 0:
            bad, reason = kinds[at // EVERY % len(kinds)]
            _put(producer, topic, partition, bad)
            wrong[reason] += 1
    assert producer.flush(60) == 0
    return wrong


def _put(producer: Producer, topic: str, partition: int, value: bytes | None) -> None:
    while True:
        try:
            producer.produce(topic, value, partition=partition)
        except BufferError:
            producer.poll(0.1)
        else:
            return


def reasons() -> Counter[Reason]:
    """How many kinds each reason has."""
    return Counter(reason for _, reason in BAD.values())
