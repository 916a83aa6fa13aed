"""Run files: where the embedded broker of a topology is, for other processes of the same user.

Whoever starts the broker hosts it and publishes its address; the file goes when the broker stops.
"""

from __future__ import annotations

import fcntl
import functools
import json
import os
import re
import socket
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ldp_kafka.errors import BrokerError, ConfigurationError
from ldp_kafka.runtime.brokers.embedded import EmbeddedBroker

__all__ = ["address_of", "deployment_of", "publish"]

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")


def publish(topology_name: str, broker: EmbeddedBroker) -> Path:
    """Write the run file of a topology: where its embedded broker is, and which process hosts it.

    The file goes when the broker stops; one left behind by a killed host is replaced.

    Raises
    ------
    BrokerError : the broker does not run, or another one is already hosted for this topology
    ConfigurationError : the name cannot be a file's name, or the directory of run files is open to
        other users

    """
    path = _run_file(topology_name)
    content = json.dumps(
        {
            "address": broker.bootstrap_servers,
            "pid": os.getpid(),
            "deployment": broker.deployment,
        }
    )
    with suppress(FileExistsError):
        path.parent.mkdir(mode=0o700)
    _refuse_shared(path.parent)
    with _locked(path.parent):
        if (found := _read(path)) and _alive(*found[:2]):
            raise BrokerError(
                f"topology {topology_name} already has an embedded broker at {found[0]}, hosted by"
                f" process {found[1]}"
            )
        written = path.with_suffix(".new")
        written.write_text(content)
        written.replace(path)
    broker.at_stop(functools.partial(_withdraw, path, content))
    return path


def address_of(topology_name: str) -> str:
    """Where the embedded broker of a topology is: ``127.0.0.1:port``.

    Raises
    ------
    BrokerError : none was published for it, or its host is dead
    ConfigurationError : the name cannot be a file's name, or the directory of run files is open to
        other users

    """
    path = _run_file(topology_name)
    hint = (
        "an embedded broker lives in the process that started it: start `ldp-kafka run` without"
        " --role first, or give kafka.bootstrap_servers (LDP_KAFKA_BOOTSTRAP) the address of a"
        " Kafka broker"
    )
    if path.parent.exists():
        _refuse_shared(path.parent)
    found = _read(path)
    if found is None:
        raise BrokerError(
            f"no embedded broker runs for topology {topology_name} (no run file {path}); {hint}"
        )
    if not _alive(*found[:2]):
        raise BrokerError(
            f"the embedded broker of topology {topology_name} is gone with its host, process"
            f" {found[1]}; {hint}"
        )
    return found[0]


def deployment_of(topology_name: str) -> str | None:
    """What tells the embedded broker of a topology from every other; None without a run file."""
    path = _run_file(topology_name)
    if path.parent.exists():
        _refuse_shared(path.parent)
    found = _read(path)
    return None if found is None else found[2]


def _run_file(topology_name: str) -> Path:
    if not _NAME.fullmatch(topology_name):
        raise ConfigurationError(
            "a topology's name must be letters, digits, dots, dashes and underscores, got"
            f" {topology_name!r}"
        )
    own = os.environ.get("XDG_RUNTIME_DIR")
    directory = (
        Path(own) / "ldp_kafka" if own else Path(tempfile.gettempdir()) / f"ldp_kafka-{os.getuid()}"
    )
    return directory / f"{topology_name}.broker.json"


def _refuse_shared(directory: Path) -> None:
    """A run file decides where raw values are sent: nobody else may be able to put one there."""
    found = directory.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise ConfigurationError(
            f"{directory} must be a directory of this user with mode 0700; remove it or set"
            " XDG_RUNTIME_DIR"
        )


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """One publisher at a time; the lock goes with its holder."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _read(path: Path) -> tuple[str, int, str] | None:
    try:
        content = json.loads(path.read_text())
        return str(content["address"]), int(content["pid"]), str(content["deployment"])
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise BrokerError(f"{path} is not a run file: remove it") from error


def _alive(address: str, pid: int) -> bool:
    """Whether the host is there and serves: a process number alone may have been given to another
    process.
    """
    try:
        os.kill(pid, 0)
        host, _, port = address.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=2):
            return True
    except OSError:
        return False


def _withdraw(path: Path, content: str) -> None:
    with suppress(FileNotFoundError):
        if path.read_text() == content:
            path.unlink()
