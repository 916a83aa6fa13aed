"""What one writes with quixstreams: JSON in, a value clipped and perturbed, JSON out; or the same
with a state of each user, read and written a message. ``python -m tests.bench.quix
stateless|stateful NAME BOOTSTRAP FROM TO``

As in production: at least once, commits every five seconds, an idempotent producer with our
linger, state in RocksDB with a changelog. Its noise is a line of floating point: it stands for
the cost of the pattern and promises nothing.
"""

from __future__ import annotations

import random
import sys
import tempfile
from typing import Any

SLOT, RANGE = 60_000, 100.0  # milliseconds; of the values
COMMIT, LINGER = 5.0, 5  # seconds, milliseconds


def perturb(event: dict[str, Any]) -> dict[str, Any]:
    """The report of one event."""
    return report(event, 0.0)


def correct(event: dict[str, Any], state: Any) -> dict[str, Any]:
    """The report of one event, off by less for what those before it were off by."""
    off = state.get("off", 0.0)
    made = report(event, off)
    state.set("off", off + clip(event["value"] / RANGE) - made["value"])
    return made


def report(event: dict[str, Any], off: float) -> dict[str, Any]:
    unit = clip(event["value"] / RANGE + off)
    value = unit + random.uniform(-0.2, 0.2) if random.random() < 0.6 else random.uniform(-0.2, 1.2)
    return {"slot": event["time"] // SLOT, "value": value}


def clip(value: float) -> float:
    return min(max(value, 0.0), 1.0)


STEPS = {"stateless": (perturb, {}), "stateful": (correct, {"stateful": True})}


def main(kind: str, name: str, boot: str, source: str, target: str) -> None:
    from quixstreams import Application

    app = Application(
        boot,
        consumer_group=name,
        auto_offset_reset="earliest",
        processing_guarantee="at-least-once",
        commit_interval=COMMIT,
        producer_extra_config={"linger.ms": LINGER},
        state_dir=tempfile.mkdtemp(prefix="ldp-kafka-quix-"),
        loglevel="WARNING",
    )
    step, how = STEPS[kind]
    events = app.topic(source, value_deserializer="json")
    reports = app.topic(target, value_serializer="json")
    app.dataframe(events).apply(step, **how).to_topic(reports)
    app.run()


if __name__ == "__main__":
    main(*sys.argv[1:6])
