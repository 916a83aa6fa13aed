"""What one writes after reading Faust's introduction: an event a message, a table write and a send
for each. ``python -m tests.bench.naive NAME BOOTSTRAP FROM TO``

Its noise is a line of floating point and its state a dict: it stands for the cost of the pattern
and promises nothing.
"""

from __future__ import annotations

import random
import sys
import tempfile

import faust


class Event(faust.Record, serializer="json"):
    user: str
    time: int
    value: float


class Report(faust.Record, serializer="json"):
    slot: int
    value: float


def app(name: str, boot: str, source: str, target: str) -> faust.App:
    made = faust.App(
        name,
        broker=f"kafka://{boot}",
        store="memory://",
        web_enabled=False,
        topic_replication_factor=1,
        datadir=tempfile.mkdtemp(prefix="ldp-kafka-naive-"),
    )
    events, reports = made.topic(source, value_type=Event), made.topic(target, value_type=Report)
    spent = made.Table("spent", default=int, partitions=1)
    noise = random.SystemRandom()

    @made.agent(events)
    async def perturb(stream):
        async for event in stream:
            slot, unit = event.time // 60_000, event.value / 100
            spent[event.user] += 1
            value = (
                unit + noise.uniform(-0.2, 0.2)
                if noise.random() < 0.6
                else noise.uniform(-0.2, 1.2)
            )
            await reports.send(value=Report(slot=slot, value=value))

    return made


if __name__ == "__main__":
    faust.Worker(app(*sys.argv[1:5]), loglevel="WARNING", quiet=True).execute_from_commandline()
