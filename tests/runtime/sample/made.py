"""Topologies and messages that are tried."""

from __future__ import annotations

import json

from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.sample.judge import judge
from ldp_kafka.runtime.sample.parts import Part
from ldp_kafka.topology import loads

HOUR = 3_600_000
START = 1_700_000_000_000 // HOUR * HOUR
NOW = START + 1000 * HOUR
TEXT = """
topology: meters
input: {{slot: 1h, lateness: 1, user: $.meter, value: $.kwh, time: $.ts, {more}}}
privacy: {{method: {method}, epsilon: 4.0, window: 3, {shape}}}
output: {{statistics: [{statistic}]}}
"""


def topology(more="partitions: 1", *, categories=None, method=None, **words):
    """Of numbers from 0 to 10, or of categories."""
    method = method or ("sw_direct" if categories is None else "lpu")
    shape = "domain: [0, 10]" if categories is None else f"categories: {categories}"
    statistic = "mean" if categories is None else "frequencies"
    given = {"more": more, "method": method, "shape": shape, "statistic": statistic, **words}
    return loads(TEXT.format(**given))


def event(meter="m1", kwh=1.5, ts=START, **more):
    """One message."""
    return json.dumps({"meter": meter, "kwh": kwh, "ts": ts, **more}).encode()


def part(*messages, partition=None, timestamp=-1, first=1):
    """Messages, a line each."""
    found = [Message(first + at, timestamp, each) for at, each in enumerate(messages)]
    return Part(found, "line {}".format, partition)


def verdict(of, *messages):
    """What is said of messages of a file."""
    return judge(of, [part(*messages)], now_ms=NOW)
