"""What the checks of a client are made with: a device's folder, a client class over it, and a
producer that keeps what it is given.
"""

from __future__ import annotations

import base64
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

__all__ = [
    "FIRST",
    "HOUR",
    "ClientClass",
    "ClientTrial",
    "Kept",
    "key_in_environment",
    "new_device",
]

TEXT = """
topology: {name}
input: {{source: devices, slot: 1h, lateness: 1000}}
privacy: {{method: sw_direct, epsilon: 1.0, window: 10, domain: [0, 100]}}
output: {{statistics: [mean]}}
"""
VARIABLE = "LDP_KAFKA_EDGE_KEY"
HOUR = 3_600_000
FIRST = 480_000  # the first slot


class ClientClass(Protocol):
    """What is checked: a class that is used as `ldp_kafka.Client` is."""

    def __call__(self, topology: str, /, **settings: Any) -> Any:
        """A client over the files of a device."""

    def provision(self, topology: str, /, **settings: Any) -> None:
        """Make the files of a device."""


class Kept:
    """A producer that keeps what it is given and acknowledges it."""

    def __init__(self) -> None:
        self.left: list[bytes] = []
        self._calls: list[Callable[[Any, Any], None]] = []

    def produce(
        self, topic: str, *, value: bytes, partition: int, on_delivery: Callable[[Any, Any], None]
    ) -> None:
        del topic, partition
        self.left.append(value)
        self._calls.append(on_delivery)

    def poll(self, timeout: float) -> int:
        del timeout
        calls, self._calls = self._calls, []
        for call in calls:
            call(None, None)
        return len(calls)


@dataclass(frozen=True)
class ClientTrial:
    """A client class and a folder of one device.

    Parameters
    ----------
    client : the class
    folder : of the device's files
    name : of its topology
    own_key : whether the device has a key of its own; else the environment has it
    text : of its topology, with ``{name}`` for its name
    """

    client: ClientClass
    folder: Path
    name: str = "devices"
    own_key: bool = True
    text: str = TEXT

    @property
    def topology(self) -> str:
        """The path of its topology."""
        path = self.folder.with_name(f"{self.name}.yaml")
        path.write_text(self.text.format(name=self.name))
        return str(path)

    @property
    def files(self) -> dict[str, Any]:
        """Of the device."""
        self.folder.mkdir(exist_ok=True)
        key = {"key_file": self.folder / "device.key"} if self.own_key else {}
        return {"database": self.folder / "device.db", **key}

    def provision(self, deployment: str = "here") -> None:
        """Make the device's files."""
        self.client.provision(self.topology, deployment=deployment, **self.files)

    def reports(self, slots: range, value: float = 37.5) -> dict[int, set[tuple[str, int]]]:
        """Start the device, report in each slot, and stop: (id, index) of what left it, by slot."""
        kept = Kept()
        found: dict[int, set[tuple[str, int]]] = {}
        with closing(
            self.client(self.topology, user="somebody", producer=kept, **self.files)
        ) as client:
            for slot in slots:
                client.report(value, time=(FIRST + slot) * HOUR)
        for message in kept.left:
            report = json.loads(message)
            found.setdefault(int(report["slot"]), set()).add((report["id"], report["index"]))
        return found


@contextmanager
def new_device(trial: ClientTrial) -> Iterator[ClientTrial]:
    """A device of its own for one check."""
    with tempfile.TemporaryDirectory() as folder:
        yield replace(trial, folder=Path(folder) / "device")


@contextmanager
def key_in_environment() -> Iterator[None]:
    """One key for all devices that have none of their own."""
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = base64.b64encode(os.urandom(32)).decode()
    try:
        yield
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before
