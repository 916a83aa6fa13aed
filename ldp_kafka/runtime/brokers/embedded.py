"""The embedded broker: librdkafka's mock cluster inside the confluent-kafka wheel, hosted by this
process.

It is for demonstrations and fast tests. It keeps everything in memory, at most 5 MiB a partition
(older records go), does not compact, creates no topics for clients and treats transactions as a
façade: nothing about durability may be claimed from a run on it.

Whoever starts one hosts it and publishes its address in a *run file* of the topology; other
processes of the same user read that file.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import fcntl
import functools
import importlib.util
import json
import os
import re
import socket
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Self

from ldp_kafka.errors import BrokerError, ConfigurationError

__all__ = ["EmbeddedBroker", "address_of", "is_embedded", "publish"]

_ALREADY_EXISTS = 36  # RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS
_PRODUCER = 0  # RD_KAFKA_PRODUCER
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")


class EmbeddedBroker:
    """A Kafka broker in the threads of this process.

    Parameters
    ----------
    rebalance_delay_ms : how long a new consumer group waits for more members, in milliseconds

    Notes
    -----
    A member that leaves a group blocks the next join for about its session timeout: give clients
    one of 1 to 2 seconds.

    Examples
    --------
    >>> with EmbeddedBroker() as broker:
    ...     broker.create_topic("raw", 2), broker.create_topic("raw", 2)
    (True, False)

    """

    def __init__(self, *, rebalance_delay_ms: int = 0) -> None:
        if isinstance(rebalance_delay_ms, bool) or not 0 <= rebalance_delay_ms < 2**31:
            raise ConfigurationError(
                f"rebalance_delay_ms must be an integer of 0 or more, got {rebalance_delay_ms!r}"
            )
        self._delay = rebalance_delay_ms
        self._cleanup = ExitStack()
        self._cluster: int | None = None
        self._address = ""

    def start(self) -> Self:
        """Start to serve; a second start changes nothing.

        Raises
        ------
        ConfigurationError : no librdkafka with a mock cluster is to be found
        BrokerError : librdkafka could not start it

        """
        if self._cluster is not None:
            return self
        library = _librdkafka()
        with ExitStack() as cleanup:
            handle = _handle(library)
            cleanup.callback(library.rd_kafka_destroy, handle)
            cluster = library.rd_kafka_mock_cluster_new(handle, 1)
            if not cluster:
                raise BrokerError("librdkafka could not start the embedded broker")
            cleanup.callback(library.rd_kafka_mock_cluster_destroy, cluster)
            library.rd_kafka_mock_group_initial_rebalance_delay_ms(cluster, self._delay)
            self._address = library.rd_kafka_mock_cluster_bootstraps(cluster).decode()
            self._cluster = cluster
            self._cleanup = cleanup.pop_all()
        return self

    def stop(self) -> None:
        """End it, with all its records and run files; a second stop changes nothing."""
        self._cluster = None
        self._cleanup.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def bootstrap_servers(self) -> str:
        """``127.0.0.1:port``; BrokerError where it does not run."""
        self._running()
        return self._address

    def create_topic(self, name: str, partitions: int) -> bool:
        """Create a topic.

        Returns
        -------
        whether it was created; False where there was one of this name (whatever its partitions)

        Raises
        ------
        ConfigurationError : partitions is not a positive integer
        BrokerError : the broker does not run, or refused

        """
        if isinstance(partitions, bool) or not 1 <= partitions < 2**31:
            raise ConfigurationError(
                f"partitions of topic {name} must be a positive integer, got {partitions!r}"
            )
        library = _librdkafka()
        code = library.rd_kafka_mock_topic_create(self._running(), name.encode(), partitions, 1)
        if code not in (0, _ALREADY_EXISTS):
            raise BrokerError(
                f"the embedded broker refused topic {name}:"
                f" {library.rd_kafka_err2name(code).decode()}"
            )
        return bool(code == 0)

    def at_stop(self, callback: Callable[[], object]) -> None:
        """Call this when the broker stops, before it is gone; BrokerError where it does not run."""
        self._running()
        self._cleanup.callback(callback)

    def _running(self) -> int:
        if self._cluster is None:
            raise BrokerError("the embedded broker does not run: start() it first")
        return self._cluster


def is_embedded(cluster_id: str | None) -> bool:
    """Whether a cluster's id, as its metadata gives it, is that of an embedded broker, in whatever
    process.
    """
    return cluster_id is not None and cluster_id.startswith("mockCluster")


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
    content = json.dumps({"address": broker.bootstrap_servers, "pid": os.getpid()})
    with suppress(FileExistsError):
        path.parent.mkdir(mode=0o700)
    _refuse_shared(path.parent)
    with _locked(path.parent):
        if (found := _read(path)) and _alive(*found):
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
    if not _alive(*found):
        raise BrokerError(
            f"the embedded broker of topology {topology_name} is gone with its host, process"
            f" {found[1]}; {hint}"
        )
    return found[0]


@functools.cache
def _librdkafka() -> ctypes.CDLL:
    """The library that confluent_kafka itself uses, with the C signatures used here."""
    library = ctypes.CDLL(_library_path())
    pointer, text, integer = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
    signatures: dict[str, tuple[type | None, list[type]]] = {
        "rd_kafka_conf_new": (pointer, []),
        "rd_kafka_conf_set": (integer, [pointer, text, text, text, ctypes.c_size_t]),
        "rd_kafka_conf_destroy": (None, [pointer]),
        "rd_kafka_new": (pointer, [integer, pointer, text, ctypes.c_size_t]),
        "rd_kafka_destroy": (None, [pointer]),
        "rd_kafka_err2name": (text, [integer]),
        "rd_kafka_mock_cluster_new": (pointer, [pointer, integer]),
        "rd_kafka_mock_cluster_destroy": (None, [pointer]),
        "rd_kafka_mock_cluster_bootstraps": (text, [pointer]),
        "rd_kafka_mock_topic_create": (integer, [pointer, text, integer, integer]),
        "rd_kafka_mock_group_initial_rebalance_delay_ms": (None, [pointer, ctypes.c_int32]),
    }
    for name, (result, arguments) in signatures.items():
        try:
            function = getattr(library, name)
        except AttributeError as error:
            raise ConfigurationError(
                f"the embedded broker needs {name}, which this librdkafka lacks: install a newer"
                " confluent-kafka wheel"
            ) from error
        function.restype, function.argtypes = result, arguments
    return library


def _library_path() -> str:
    spec = importlib.util.find_spec("confluent_kafka")
    if spec is None or spec.origin is None:
        raise ConfigurationError(
            "the embedded broker needs confluent-kafka: pip install 'ldp-kafka[kafka]'"
        )
    package = Path(spec.origin).parent
    for folder in (package.with_name("confluent_kafka.libs"), package / ".dylibs"):
        # Not librdkafka++: the C++ wrapper lies beside it.
        for path in sorted(folder.glob("librdkafka[-.]*")):
            return str(path)
    # A confluent-kafka built from source uses the system's library.
    if system := ctypes.util.find_library("rdkafka"):
        return system
    raise ConfigurationError(
        "the embedded broker needs the librdkafka of the confluent-kafka wheel; this installation"
        " has none"
    )


def _handle(library: ctypes.CDLL) -> int:
    """A client handle: the mock cluster runs on its queue and ends with it."""
    why = ctypes.create_string_buffer(512)
    conf = library.rd_kafka_conf_new()
    # Below errors there is only the notice that this client has no broker, which is the point of
    # it.
    library.rd_kafka_conf_set(conf, b"log_level", b"3", why, len(why))
    handle: int | None = library.rd_kafka_new(_PRODUCER, conf, why, len(why))
    if not handle:
        library.rd_kafka_conf_destroy(conf)
        raise BrokerError(
            f"librdkafka could not start the embedded broker: {why.value.decode(errors='replace')}"
        )
    return handle


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


def _read(path: Path) -> tuple[str, int] | None:
    try:
        content = json.loads(path.read_text())
        return str(content["address"]), int(content["pid"])
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
