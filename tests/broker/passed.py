"""What has passed of a test that takes hours, so that it can be taken up where it was left.

LDP_KAFKA_PASSED names a file of JSON lines. Each line is something that held, of one state of
``ldp_kafka/runtime``: what is asked counts the lines of today's state alone.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from functools import cache
from pathlib import Path

import ldp_kafka

__all__ = ["note", "passed"]


@cache
def _runtime() -> str:
    """What tells one state of the runtime from every other."""
    digest = hashlib.sha256()
    root = Path(ldp_kafka.__file__).parent / "runtime"
    for path in sorted(root.rglob("*.py")):
        digest.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _file() -> Path | None:
    name = os.environ.get("LDP_KAFKA_PASSED")
    return None if name is None else Path(name)


def note(test: str, count: int, said: str) -> None:
    """Something of a test has held."""
    if (path := _file()) is not None:
        line = {"runtime": _runtime(), "test": test, "count": count, "said": said}
        with path.open("a") as out:
            out.write(json.dumps({**line, "at": time.strftime("%F %T")}) + "\n")


def passed(test: str) -> int:
    """The counts of a test that have held with this runtime, summed."""
    path = _file()
    if path is None or not path.exists():
        return 0
    lines = map(json.loads, path.read_text().splitlines())
    mine = [each for each in lines if (each["runtime"], each["test"]) == (_runtime(), test)]
    return sum(each["count"] for each in mine)
