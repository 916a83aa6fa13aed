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
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from ldp_kafka.errors import BrokerError, ConfigurationError

__all__ = [
    "DEFAULT_VERSION",
    "KafkaServer",
    "Status",
    "artefacts",
    "free_port",
    "java",
    "start",
    "status",
    "stop",
]

DEFAULT_VERSION = "4.3.1"
JAVA = 17

_POM = """<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>ldp_kafka</groupId>
  <artifactId>broker</artifactId>
  <version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka_2.13</artifactId>
      <version>{version}</version>
    </dependency>
    <dependency>
      <groupId>org.slf4j</groupId>
      <artifactId>slf4j-simple</artifactId>
      <version>1.7.36</version>
    </dependency>
  </dependencies>
</project>
"""


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
        self.directory = (directory or _cache() / "broker").absolute()
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
        return {node: pid for node in range(self.nodes) if (pid := self._pid(node)) is not None}

    def status(self) -> Status:
        """What runs now. It never raises for a node that is dead."""
        pids = self.pids()
        return Status(
            version=self.version,
            bootstrap_servers=self.bootstrap_servers,
            pids=tuple(pids.get(node) for node in range(self.nodes)),
            logs=tuple(self._home(node) / "server.log" for node in range(self.nodes)),
            ready=len(pids) == self.nodes and _answers(self.bootstrap_servers.split(",")),
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
            if not self.port and (runs or not _taken(last.port, last.nodes)):
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
        if not runs and (taken := _taken(self.port, self.nodes)):
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
        home.mkdir(exist_ok=True)
        settings = {**_properties(node, self.nodes, self.port, home / "data"), **self.properties}
        # Java reads latin-1 with JSON's escapes.
        written = "".join(f"{name}={json.dumps(value)[1:-1]}\n" for name, value in settings.items())
        properties = home / "server.properties"
        properties.write_text(written)
        log = home / "server.log"
        run = [program, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", f"{libs}/*"]
        if not (home / "data" / "meta.properties").exists():
            with log.open("ab") as out:
                # with "=": an id may begin with a dash
                format_ = [
                    *run,
                    "kafka.tools.StorageTool",
                    "format",
                    f"--cluster-id={cluster}",
                    "-c",
                    str(properties),
                ]
                if subprocess.run(  # noqa: S603
                    format_, stdin=subprocess.DEVNULL, stdout=out, stderr=out, check=False
                ).returncode:
                    raise BrokerError(
                        f"Kafka {self.version} could not format {home / 'data'}; log:"
                        f" {log}{_tail(log)}"
                    )
        serve = [
            *run[:1],
            f"-Xmx{512 if self.nodes == 1 else 400}m",
            *run[1:],
            "kafka.Kafka",
            str(properties),
        ]
        # Through a shell, so that the node is nobody's child: it outlives us, is never our zombie,
        # and Ctrl-C in our terminal does not reach it.
        shell = ["/bin/sh", "-c", '"$@" >>"$0" 2>&1 </dev/null & echo $!', str(log), *serve]
        answer = subprocess.run(  # noqa: S603
            shell, stdout=subprocess.PIPE, check=True, start_new_session=True
        )
        (home / "server.pid").write_text(answer.stdout.decode())

    def _pid(self, node: int) -> int | None:
        """The node's process, if it is alive and still the one that was started: process numbers
        are given out again.
        """
        home = self._home(node)
        with suppress(FileNotFoundError, ValueError):
            pid = int((home / "server.pid").read_text())
            # The shell between fork and exec also names the properties: no gap right after the
            # start.
            return pid if str(home / "server.properties") in _command_line(pid) else None
        return None

    def _wait(self, timeout: float) -> None:
        end = time.monotonic() + timeout
        addresses = self.bootstrap_servers.split(",")
        while not _answers(addresses):
            for node in range(self.nodes):
                if self._pid(node) is None:
                    log = self._home(node) / "server.log"
                    raise BrokerError(
                        f"Kafka {self.version} ended at its start; log: {log}{_tail(log)}"
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


def artefacts(version: str = DEFAULT_VERSION) -> Path:
    """Return the directory of Kafka's jars; Maven brings them once into ``~/.cache/ldp_kafka``
    (LDP_KAFKA_CACHE in its place).

    Raises
    ------
    ConfigurationError : Maven is missing
    BrokerError : Maven could not bring them (the text says where its log is)

    """
    libs = _cache() / f"kafka-{version}" / "libs"
    if libs.exists():
        return libs
    maven = shutil.which("mvn")
    if maven is None:
        raise ConfigurationError(
            f"Apache Kafka {version} is downloaded by Maven, and mvn is not on the PATH: install"
            " Maven, or use a broker of your own"
        )
    libs.parent.mkdir(parents=True, exist_ok=True)
    log = libs.parent / "mvn.log"
    # Beside its place and moved there when complete: an interrupted download is never taken for a
    # whole one.
    with tempfile.TemporaryDirectory(dir=libs.parent) as temporary, log.open("wb") as out:
        (Path(temporary) / "pom.xml").write_text(_POM.format(version=version))
        command = [
            maven,
            "-q",
            "-B",
            "dependency:copy-dependencies",
            "-DincludeScope=runtime",
            "-DoutputDirectory=libs",
        ]
        done = subprocess.run(  # noqa: S603
            command, cwd=temporary, stdin=subprocess.DEVNULL, stdout=out, stderr=out, check=False
        )
        if done.returncode:
            raise BrokerError(f"Maven could not download Apache Kafka {version}; log: {log}")
        # Another process may have been first: then its copy is as good.
        with suppress(OSError):
            (Path(temporary) / "libs").rename(libs)
    return libs


def _cache() -> Path:
    return Path(
        os.environ.get("LDP_KAFKA_CACHE") or Path.home() / ".cache" / "ldp_kafka"
    ).absolute()


def java() -> str:
    """Return the Java to run Kafka with: of JAVA_HOME, or the PATH.

    Raises
    ------
    ConfigurationError : there is none, or it is older than 17

    """
    home = os.environ.get("JAVA_HOME")
    program = shutil.which(str(Path(home) / "bin" / "java") if home else "java")
    if program is None:
        raise ConfigurationError(
            f"Apache Kafka needs Java {JAVA} or later, and"
            f" {'JAVA_HOME has no bin/java' if home else 'java is not on the PATH'}"
        )
    answer = subprocess.run(  # noqa: S603
        [program, "-version"], capture_output=True, text=True, check=False
    )
    found = re.search(r'version "(\d+)', answer.stderr)
    if found is None or int(found[1]) < JAVA:
        raise ConfigurationError(
            f"Apache Kafka needs Java {JAVA} or later, and {program} is"
            f" {found[1] if found else 'of no known version'}"
        )
    return program


def _properties(node: int, nodes: int, port: int, data: Path) -> dict[str, str]:
    controllers = ",".join(f"{i + 1}@127.0.0.1:{port + 2 * i + 1}" for i in range(nodes))
    client, controller = (f"127.0.0.1:{port + 2 * node + i}" for i in (0, 1))
    copies, in_sync = str(nodes), str(min(nodes, 2))
    return {
        "process.roles": "broker,controller",
        "node.id": str(node + 1),
        "controller.quorum.voters": controllers,
        "listeners": f"PLAINTEXT://{client},CONTROLLER://{controller}",
        "advertised.listeners": f"PLAINTEXT://{client}",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": str(data),
        "default.replication.factor": copies,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": copies,
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": copies,
        "share.coordinator.state.topic.min.isr": in_sync,
        "group.initial.rebalance.delay.ms": "0",
        "auto.create.topics.enable": "false",
    }


def _recorded(directory: Path) -> dict[str, Any] | None:
    with suppress(FileNotFoundError):
        facts: dict[str, Any] = json.loads((directory / "broker.json").read_text())
        return facts
    return None


def _found(directory: Path | None) -> KafkaServer | None:
    directory = directory or _cache() / "broker"
    facts = _recorded(directory)
    return (
        KafkaServer(facts["version"], directory, facts["port"], nodes=facts["nodes"])
        if facts
        else None
    )


def _command_line(pid: int) -> str:
    """What a process was started with; nothing where it is gone or a zombie."""
    with suppress(FileNotFoundError, ProcessLookupError):
        for _ in range(20):
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
            if words or Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1][0] in "ZX":
                break
            time.sleep(0.01)  # in the middle of exec there is nothing to read
        return words.replace(b"\0", b" ").decode(errors="surrogateescape")
    if Path("/proc/self").exists():
        return ""
    command = ["ps", "-p", str(pid), "-o", "command="]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout  # noqa: S603


def _signal(pids: Mapping[int, int], number: signal.Signals) -> None:
    for pid in pids.values():
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _taken(port: int, nodes: int) -> list[int]:
    """Which of the ports of a server are in use."""
    taken = []
    for candidate in range(port, port + 2 * nodes):
        with socket.socket() as probe:
            # As Java does: a port whose last connections are only waiting to be forgotten is free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", candidate))
            except OSError:
                taken.append(candidate)
    return taken


def free_port(nodes: int = 1) -> int:
    """Neighbouring free ports, below the range from which systems serve outgoing connections: one
    of those could be taken again at any time.

    Looked for from a random place on: two that look at the same moment find different ones.
    """
    first = 20000 + 2 * secrets.randbelow(5000)
    for port in range(first, first + 2000, 2):
        if not _taken(port, nodes):
            return port
    raise BrokerError(f"no {2 * nodes} free neighbouring ports between {first} and {first + 2000}")


def _answers(addresses: list[str]) -> bool:
    """Whether all nodes listen, and know as many brokers as there are nodes."""
    try:
        for address in addresses:
            host, port = address.split(":")
            with socket.create_connection((host, int(port)), timeout=2):
                pass
        # Silent: while it starts, a failure is the rule.
        admin = AdminClient({"bootstrap.servers": addresses[0], "log_level": 0})
        return len(admin.list_topics(timeout=3).brokers) == len(addresses)
    except (OSError, KafkaException):
        return False


def _tail(log: Path) -> str:
    """The end of a log, for an error that may be read where the file is not."""
    lines = [
        line
        for line in log.read_text(errors="replace").splitlines()
        if not line.startswith("\tat ")
    ][-5:]
    return "".join(f"\n  {line}" for line in lines)
