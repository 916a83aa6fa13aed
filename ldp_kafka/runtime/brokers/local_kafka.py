"""A real Apache Kafka (KRaft) on this machine, from its published Java artefacts: needs Java 17 and
Maven, no Docker, no root.

It listens on 127.0.0.1 without authentication: for development and tests. It is started detached
and outlives the process that started it::

    start(port=9092)      # ldp-kafka broker start --port 9092
    status()              # ldp-kafka broker status
    stop()                # ldp-kafka broker stop
"""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from ldp_kafka.errors import BrokerError, ConfigurationError
from ldp_kafka.runtime.brokers.jars import DEFAULT_VERSION, artefacts, cache, java
from ldp_kafka.runtime.brokers.nodes import answers, launch, process_of, settings_of, tail
from ldp_kafka.runtime.brokers.ports import free_port, taken_ports

__all__ = ["KafkaServer", "Status", "start", "status", "stop"]


@dataclass(frozen=True)
class Status:
    """The status of a Kafka server, as its directory tells it.

    Parameters
    ----------
    pids : the process of each node, None where it does not run
    logs : the log file of each node
    ready : whether all nodes run and know each other

    """

    version: str
    bootstrap_servers: str
    pids: tuple[int | None, ...]
    logs: tuple[Path, ...]
    ready: bool


class KafkaServer:
    """One to three Kafka nodes, each broker and controller, whose data lie in one directory.

    Parameters
    ----------
    version : of Apache Kafka, such as ``4.3.1`` or ``3.9.2``
    directory : data, logs and process ids; default ``broker`` in the cache directory. Data stay
        there when it stops
    port : of the first node (two ports a node, one after the other); 0 = the one used last in this
        directory, or a free one
    nodes : 1, or 3 with replication 3 and min.insync.replicas 2 (400 MB each)
    properties : more lines for server.properties

    Raises
    ------
    ConfigurationError : a parameter is not as above

    """

    def __init__(
        self,
        version: str = DEFAULT_VERSION,
        directory: Path | None = None,
        port: int = 0,
        *,
        nodes: int = 1,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        if not re.fullmatch(r"\d+\.\d+\.\d+", version):
            raise ConfigurationError(
                f"version must be an Apache Kafka version such as {DEFAULT_VERSION}, got"
                f" {version!r}"
            )
        if nodes not in (1, 3):
            raise ConfigurationError(f"nodes must be 1 or 3, got {nodes!r}")
        if isinstance(port, bool) or not 0 <= port <= 65536 - 2 * nodes:
            raise ConfigurationError(f"port must be 0 (free) to {65536 - 2 * nodes}, got {port!r}")
        self.version, self.port, self.nodes = version, port, nodes
        self.directory = (directory or cache() / "broker").absolute()
        self.properties = dict(properties or {})

    @property
    def bootstrap_servers(self) -> str:
        """``127.0.0.1:port`` of each node, with commas; BrokerError before the first start."""
        if not self.port:
            raise BrokerError(
                f"the Kafka server in {self.directory} has no port yet: start() it first"
            )
        return ",".join(f"127.0.0.1:{self.port + 2 * node}" for node in range(self.nodes))

    def start(self, timeout: float = 90.0) -> Self:
        """Start the nodes that do not run, and wait until all answer; none of those that run is
        touched.

        Raises
        ------
        ConfigurationError : Java or Maven is missing, another version, port or number of nodes runs
            in the directory, or the port is taken
        BrokerError : the artefacts could not be had, a node died, or they did not answer within
            ``timeout`` seconds (the text says where the log is)

        """
        program, libs = java(), artefacts(self.version)
        self.directory.mkdir(parents=True, exist_ok=True)
        cluster = self._settle()
        ran = self.pids()
        try:
            for node in range(self.nodes):
                if node not in ran:
                    self._launch(node, cluster, program, libs)
            self._wait(timeout)
        except BaseException:
            # Half a start is no start; but what ran before this call is not this call's to end.
            if not ran:
                self.stop()
            raise
        return self

    def stop(self, timeout: float = 30.0) -> bool:
        """End all nodes in order, or by force after ``timeout`` seconds; the data stay.

        Returns
        -------
        whether any node ran

        """
        ran = self.pids()
        _signal(ran, signal.SIGTERM)
        end = time.monotonic() + timeout
        while self.pids() and time.monotonic() < end:
            time.sleep(0.1)
        _signal(self.pids(), signal.SIGKILL)
        while self.pids() and time.monotonic() < end + 10:
            time.sleep(0.1)
        for node in range(self.nodes):
            (self._home(node) / "server.pid").unlink(missing_ok=True)
        return bool(ran)

    def pids(self) -> dict[int, int]:
        """The process of each node that runs; nodes count from 0."""
        return {
            node: pid
            for node in range(self.nodes)
            if (pid := process_of(self._home(node))) is not None
        }

    def status(self) -> Status:
        """What runs now. It never raises for a node that is dead."""
        pids = self.pids()
        return Status(
            version=self.version,
            bootstrap_servers=self.bootstrap_servers,
            pids=tuple(pids.get(node) for node in range(self.nodes)),
            logs=tuple(self._home(node) / "server.log" for node in range(self.nodes)),
            ready=len(pids) == self.nodes and answers(self.bootstrap_servers.split(",")),
        )

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _home(self, node: int) -> Path:
        return self.directory / f"node-{node + 1}"

    def _settle(self) -> str:
        """Fix and record what must outlive a restart (version, port, nodes), and return the
        cluster's id.
        """
        found, runs = _recorded(self.directory), False
        if found:
            last = KafkaServer(
                found["version"], self.directory, found["port"], nodes=found["nodes"]
            )
            runs = bool(last.pids())
            if not self.port and (runs or not taken_ports(last.port, last.nodes)):
                self.port = last.port
            if runs and (self.version, self.port) != (last.version, last.port):
                raise ConfigurationError(
                    f"Kafka {last.version} already runs at {last.bootstrap_servers} from"
                    f" {self.directory}: stop it, or choose another directory"
                )
            if self.nodes != last.nodes:
                raise ConfigurationError(
                    f"{self.directory} holds the data of {last.nodes} nodes, not {self.nodes}:"
                    " choose another directory"
                )
        self.port = self.port or free_port(self.nodes)
        if not runs and (taken := taken_ports(self.port, self.nodes)):
            raise ConfigurationError(
                f"port {', '.join(map(str, taken))} is taken by another process: choose another"
                " --port (0 = a free one)"
            )
        cluster: str = (
            found["cluster"]
            if found
            else base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        )
        facts = {
            "version": self.version,
            "port": self.port,
            "nodes": self.nodes,
            "cluster": cluster,
        }
        (self.directory / "broker.json").write_text(json.dumps(facts))
        return cluster

    def _launch(self, node: int, cluster: str, program: str, libs: Path) -> None:
        home = self._home(node)
        settings = settings_of(node, self.nodes, self.port, home / "data")
        launch(
            home,
            {**settings, **self.properties},
            version=self.version,
            cluster=cluster,
            program=program,
            libs=libs,
            megabytes=512 if self.nodes == 1 else 400,
        )

    def _wait(self, timeout: float) -> None:
        end = time.monotonic() + timeout
        addresses = self.bootstrap_servers.split(",")
        while not answers(addresses):
            for node in range(self.nodes):
                if process_of(self._home(node)) is None:
                    log = self._home(node) / "server.log"
                    raise BrokerError(
                        f"Kafka {self.version} ended at its start; log: {log}{tail(log)}"
                    )
            if time.monotonic() > end:
                raise BrokerError(
                    f"Kafka {self.version} at {self.bootstrap_servers} did not answer within"
                    f" {timeout:g} s; log: {self._home(0) / 'server.log'}"
                )
            time.sleep(0.2)


def start(
    version: str = DEFAULT_VERSION, port: int = 0, directory: Path | None = None, *, nodes: int = 1
) -> Status:
    """Start a Kafka server that outlives this process; see `KafkaServer` for
    parameters and errors.
    """
    return KafkaServer(version, directory, port, nodes=nodes).start().status()


def stop(directory: Path | None = None) -> bool:
    """End the server of a directory; whether one ran."""
    server = _found(directory)
    return server is not None and server.stop()


def status(directory: Path | None = None) -> Status | None:
    """The server of a directory, running or not; None where there never was one."""
    server = _found(directory)
    return server.status() if server is not None else None


def _recorded(directory: Path) -> dict[str, Any] | None:
    with suppress(FileNotFoundError):
        facts: dict[str, Any] = json.loads((directory / "broker.json").read_text())
        return facts
    return None


def _found(directory: Path | None) -> KafkaServer | None:
    directory = directory or cache() / "broker"
    facts = _recorded(directory)
    return (
        KafkaServer(facts["version"], directory, facts["port"], nodes=facts["nodes"])
        if facts
        else None
    )


def _signal(pids: Mapping[int, int], number: signal.Signals) -> None:
    for pid in pids.values():
        with suppress(ProcessLookupError):
            os.kill(pid, number)
