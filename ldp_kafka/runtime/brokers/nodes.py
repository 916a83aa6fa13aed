"""Kafka nodes as processes of this machine: their settings, how one is started, and whether they
run and answer.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from ldp_kafka.errors import BrokerError

__all__ = ["answers", "launch", "process_of", "settings_of", "tail"]

# a node that runs for minutes takes twice as much of a processor where Java makes it fast first
QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_THREADS = 16  # where /proc/PID/stat counts the threads, from the field behind the state on


def settings_of(node: int, nodes: int, port: int, data: Path) -> dict[str, str]:
    """The server.properties of one node, which is broker and controller."""
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


def launch(
    home: Path,
    settings: Mapping[str, str],
    *,
    version: str,
    cluster: str,
    program: str,
    libs: Path,
    megabytes: int,
) -> None:
    """Start one node, whose files lie in its home; its data are formatted at its first start.

    Parameters
    ----------
    version : of Apache Kafka, for errors
    cluster : the cluster's id
    program, libs : the Java, and the directory of Kafka's jars
    megabytes : the most that its heap may take

    Raises
    ------
    BrokerError : its data could not be formatted

    """
    home.mkdir(exist_ok=True)
    # Java reads latin-1 with JSON's escapes.
    written = "".join(f"{name}={json.dumps(value)[1:-1]}\n" for name, value in settings.items())
    properties = home / "server.properties"
    properties.write_text(written)
    log = home / "server.log"
    run = [program, *QUICK, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", f"{libs}/*"]
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
                    f"Kafka {version} could not format {home / 'data'}; log: {log}{tail(log)}"
                )
    serve = [
        *run[:1],
        f"-Xmx{megabytes}m",
        *run[1:],
        "kafka.Kafka",
        str(properties),
    ]
    # Through a shell, so that the node is nobody's child: it outlives us, is never our zombie, and
    # neither Ctrl-C in our terminal nor its end reaches it. In our session all the same: Linux
    # shares processors out by sessions (autogroups), and on a machine that workers keep busy a
    # node in one of its own was seen to get nothing for seconds.
    start = """trap '' HUP; "$@" >>"$0" 2>&1 </dev/null & echo $!"""
    answer = subprocess.run(  # noqa: S603
        ["/bin/sh", "-c", start, str(log), *serve],
        stdout=subprocess.PIPE,
        check=True,
        process_group=0,
    )
    (home / "server.pid").write_text(answer.stdout.decode())


def process_of(home: Path) -> int | None:
    """The node's process, if it is alive and still the one that was started: process numbers are
    given out again.
    """
    with suppress(FileNotFoundError, ValueError):
        pid = int((home / "server.pid").read_text())
        # The shell between fork and exec also names the properties: no gap right after the start.
        return pid if _is_started_with(pid, str(home / "server.properties")) else None
    return None


def answers(addresses: list[str]) -> bool:
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


def tail(log: Path) -> str:
    """The end of a log, for an error that may be read where the file is not."""
    lines = [
        line
        for line in log.read_text(errors="replace").splitlines()
        if not line.startswith("\tat ")
    ][-5:]
    return "".join(f"\n  {line}" for line in lines)


def _is_started_with(pid: int, properties: str) -> bool:
    """Whether a process was started with these properties and has not ended yet."""
    with suppress(FileNotFoundError, ProcessLookupError):
        for _ in range(20):
            if words := Path(f"/proc/{pid}/cmdline").read_bytes():
                return os.fsencode(properties) in words
            state, *numbers = Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
            # A process that is killed looks like a zombie as soon as its first thread has ended;
            # it has its ports until the last one has.
            if int(numbers[_THREADS]) > 1:
                return True
            if state in "ZX":
                return False
            time.sleep(0.01)  # in the middle of exec there is nothing to read
        return False
    if Path("/proc/self").exists():
        return False
    command = ["ps", "-p", str(pid), "-o", "command="]
    return (
        properties
        in subprocess.run(  # noqa: S603
            command, capture_output=True, text=True, check=False
        ).stdout
    )
