"""Processes that do nothing but forward requests, or relay someone else's topic, and that end when
they are told to: `python -m tests.broker.alone TOPOLOGY.yaml forward|relay N SIGNAL` sends itself
the signal behind the n-th record that it has written (0: never).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Self

from ldp_kafka.runtime.kafka import forwarder, relayer, setup
from ldp_kafka.runtime.kafka.copying import Copying
from ldp_kafka.runtime.kafka.deployment import RawTopic, read_deployment
from ldp_kafka.runtime.kafka.producer import OrderedProducer
from ldp_kafka.runtime.log import Record
from ldp_kafka.runtime.worker.exits import end
from ldp_kafka.topology import Topology, load

__all__ = ["Alone"]


class Alone:
    """Processes of one kind over one topology: ``forward`` or ``relay``."""

    def __init__(self, path: Path, kind: str) -> None:
        self.path, self.kind = path, kind
        self.processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            process.kill()
            process.wait()

    def start(self, dies: int = 0, by: int = signal.SIGKILL) -> subprocess.Popen[bytes]:
        """One that sends itself a signal behind its n-th record: one that forwards when the record
        has arrived, one that relays at once.
        """
        words = [sys.executable, "-m", "tests.broker.alone", str(self.path), self.kind]
        made = subprocess.Popen([*words, str(dies), str(int(by))], cwd=Path(__file__).parents[2])
        self.processes.append(made)
        return made


def dying(after: int, number: int, *, arrived: bool) -> type[OrderedProducer]:
    """A producer that ends its process behind a record, which ``arrived`` or may not have."""

    class Dies(OrderedProducer):
        left = after

        def send(self, records: Iterable[Record]) -> None:
            for record in records:
                super().send([record])
                Dies.left -= 1
                if not Dies.left:
                    while arrived and not self.arrived(self.mark()):
                        self.poll(0.01)
                    os.kill(os.getpid(), number)

    return Dies


def forwards(topology: Topology, after: int, number: int) -> Copying:
    """A forwarder that will die."""
    forwarder.OrderedProducer = dying(after, number, arrived=True)
    forward = topology.role("perturb").forward
    assert forward is not None
    return forwarder.Forwarder(
        topology,
        forward,
        *(
            {**setup.client_config(topology, side), "log_level": 0}
            for side in ("collector", "edge")
        ),
        counted=lambda _: None,
        failed=end,
    )


def relays(topology: Topology, after: int, number: int) -> Copying:
    """A relayer that will die, on a cluster that is both sides'."""
    relayer.OrderedProducer = dying(after, number, arrived=False)
    relay = topology.role("perturb").relay
    assert relay is not None
    config = {**setup.client_config(topology, "edge"), "log_level": 0}
    return relayer.Relayer(
        topology,
        relay,
        config,
        config,
        raw=RawTopic(topology, config, read_deployment(topology, config)),
        counted=lambda _: None,
        shown=lambda _: None,
        failed=end,
    )


def main(path: str, kind: str, after: str, number: str) -> None:
    """Be such a process."""
    make = {"forward": forwards, "relay": relays}[kind]
    made = make(load(path), int(after), int(number))
    made.start()
    signal.signal(signal.SIGTERM, lambda *_: made.stop())
    while not made.join(0.2):
        pass


if __name__ == "__main__":
    main(*sys.argv[1:])
