"""Which librdkafka is there: what it can do hangs on its version."""

from __future__ import annotations

import re
from importlib.metadata import version

__all__ = ["confluent_kafka"]


def confluent_kafka() -> tuple[int, ...]:
    """The first two parts of the version of confluent-kafka, which brings it."""
    return tuple(int(part) for part in re.findall(r"[0-9]+", version("confluent-kafka"))[:2])
