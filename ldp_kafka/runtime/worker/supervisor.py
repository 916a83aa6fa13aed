"""Running a topology: one process a role, started and kept by a parent that holds no state."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from ldp_kafka.errors import BrokerError, ConfigurationError, LdpKafkaError
from ldp_kafka.runtime.worker import logs
from ldp_kafka.runtime.worker.children import METRICS_SOCKET, SUPERVISED, keep
from ldp_kafka.runtime.worker.events import Event
from ldp_kafka.runtime.worker.exits import HALT, WRONG, fail
from ldp_kafka.runtime.worker.logs import Format, Log
from ldp_kafka.topology import Admission, Topology, admission, admit
from ldp_kafka.topology.roles import COLLECTOR, EDGE, Role
from ldp_kafka.topology.stamps import UNBOUNDED
from ldp_kafka.version import __version__

__all__ = ["refuse", "run"]


def run(
    topology: Topology,
    *,
    role: str | None = None,
    metrics_port: int | None = None,
    metrics_host: str = "127.0.0.1",
    until_idle_ms: int | None = None,
    log_format: Format = "text",
    verbose: bool = False,
    restart: bool = False,
) -> int:
    """Run a role of a topology, or all of them in one child process each; returns the exit code.

    Parameters
    ----------
    role : one of the topology's; None: all that it has
    metrics_port : for Prometheus; 0 or None: a free one, printed; with several roles each next one
        has the next port. Restarts change no port
    until_idle_ms : end after so long without anything to read
    log_format : ``json`` or ``text``, a line each on standard error; as JSON also what is wrong
        before the work begins, which else is raised
    verbose : what the log has beside what an operator needs
    restart : have the role in a child process, too, and start it again as children are

    Raises
    ------
    ConfigurationError : no such role, no key where one is needed, topics that do not fit, more than
        the edge's budget has left
    """
    port, kept = metrics_port or 0, role is None or restart
    with logs.writing(log_format, topology.name, "" if kept else role or "", verbose=verbose):
        try:
            one = None if role is None else topology.role(role)
            if one is None or restart:
                return _supervise(topology, one, port, metrics_host, until_idle_ms, log_format)
            return _work(topology, one, port, metrics_host, until_idle_ms)
        except BrokerError as error:  # whoever keeps this process starts it again
            return fail(error)
        except Exception as error:
            if log_format == "text" and isinstance(error, LdpKafkaError):
                raise  # whoever calls says it
            return fail(error, WRONG if isinstance(error, ConfigurationError) else HALT)


def refuse(error: ConfigurationError, role: str | None) -> int:
    """Say in a log of JSON why there is nothing to run; the exit code."""
    with logs.writing("json", "", role or ""):
        return fail(error, WRONG)


def _begin(topology: Topology, role: str) -> None:
    """Say what begins."""
    Log(topology.name, role).say(
        Event.START,
        version=__version__,
        fingerprint=topology.fingerprint,
        guarantee=topology.guarantee.describe(linked=topology.linked),
    )


def _work(topology: Topology, role: Role, port: int, host: str, until_idle_ms: int | None) -> int:
    from ldp_kafka.metrics import Metrics, serve
    from ldp_kafka.runtime.kafka.admin import partitions_of
    from ldp_kafka.runtime.kafka.deployment import read_deployment
    from ldp_kafka.runtime.kafka.setup import check_topics, client_config, resolve
    from ldp_kafka.runtime.keys import edge_randomness, read_key
    from ldp_kafka.runtime.worker.health import Health

    _begin(topology, role.name)
    # a collector does not have the edge's file
    permit = _permit(topology) if role.needs_key else None
    key = read_key(topology.edge.key_file) if role.needs_key else None
    shared = topology.collector_kafka is topology.edge_kafka
    noise = until = None
    try:
        edge, collector = resolve(topology)
        if not os.environ.get(SUPERVISED):
            _ready(topology, role)
        else:
            # a worker that finds no broker would fail instead of coming again
            config = client_config(topology, COLLECTOR, collector)
            flow = topology.flow
            partitions_of(config, (flow.partials or flow.releases).name, timeout=5)
            # a right may have been taken away, a topic changed
            _allowed(topology, role)
            check_topics(topology, role)
        if key is not None:
            config = client_config(topology, EDGE, edge)
            until = _admitted(topology, role, permit, config)
            noise = edge_randomness(topology, key, read_deployment(topology, config))
    except BrokerError as error:
        if os.environ.get(SUPERVISED):
            return fail(error)
        raise
    if os.environ.get(SUPERVISED):
        _die_with_parent()
    metrics = Metrics(topology.name, role.name, topology.privacy.method, setting=topology.setting)
    metrics.guarantee(topology.guarantee)
    metrics.slots(topology.input.slot_ms, topology.hop)
    metrics.started(time.time())
    health = Health()
    if until is not None:
        health.retires = topology.name, until / 1000
    given = os.environ.get(METRICS_SOCKET)  # a parent keeps the port, and has said it
    bound = None if given is None else socket.socket(fileno=int(given))
    port, close = serve(metrics, port, host, health.pages, bound=bound)
    if bound is None:
        print(  # noqa: T201 - what the command says
            f"{topology.name} {role.name}: metrics at http://{host}:{port}/metrics", flush=True
        )
    from ldp_kafka.runtime.worker.app import Side, work

    sides = {COLLECTOR: Side(topology.collector_kafka, collector)}
    if EDGE in role.sides:  # a collector knows neither the edge's address nor its credentials
        sides[EDGE] = sides[COLLECTOR] if shared else Side(topology.edge_kafka, edge)
    try:
        return work(
            topology,
            role.name,
            sides,
            metrics,
            noise=noise,
            until_idle=None if until_idle_ms is None else until_idle_ms / 1000,
            health=health,
        )
    finally:
        close()


def _permit(topology: Topology) -> Admission | None:
    """What its budget file says of a topology before a broker is asked; ConfigurationError where it
    may not run, whatever the answer is.
    """
    found = admission(topology)
    if found is not None:
        found.require()
    return found


def _admitted(
    topology: Topology, role: Role, permit: Admission | None, config: Mapping[str, Any]
) -> int | None:
    """The moment at which a topology must end, where the broker's answer lets it run."""
    from ldp_kafka.runtime.kafka.setup import read_stamps

    if permit is None or not permit.asks:
        return admit(topology)
    stamps = UNBOUNDED
    if not topology.edge_kafka.embedded:
        stamps = read_stamps(topology, config)
        why = stamps.unbounded(topology.input.topic, topology.input.max_ahead_ms)
        if why:
            Log(topology.name, role.name).say(Event.BUDGET, message=why)
    return admit(topology, stamps=stamps)


def _ready(topology: Topology, role: Role | None = None, host: Any = None) -> None:
    """See that a role, or all, have what they need before they start: rights, and topics."""
    from ldp_kafka.runtime.kafka.setup import prepare

    roles = topology.roles if role is None else (role,)
    # asked first, before anything fails for want of a right
    warnings = [warning for each in roles for warning in _allowed(topology, each)]
    if prepare(topology, host, role=role):  # of a topic that was not there nothing was known
        warnings = [warning for each in roles for warning in _allowed(topology, each)]
    log = Log(topology.name, "" if role is None else role.name)
    for warning in warnings:
        log.say(Event.RIGHTS, message=warning)


def _allowed(topology: Topology, role: Role) -> list[str]:
    from ldp_kafka.runtime.kafka.rights import check_rights
    from ldp_kafka.runtime.kafka.setup import client_config

    configs = {side: client_config(topology, side) for side in role.sides}
    return check_rights(topology, role, configs)


def _die_with_parent() -> None:
    """A child whose parent is gone ends at once, without acknowledging: as after any crash, what it
    had not saved is folded again.
    """

    def wait() -> None:
        while os.read(0, 1024):  # not sys.stdin: its lock would be held when the interpreter ends
            pass
        os._exit(HALT)

    threading.Thread(target=wait, daemon=True, name="parent").start()


def _supervise(
    topology: Topology,
    role: Role | None,
    port: int,
    host: str,
    until_idle_ms: int | None,
    log_format: Format,
) -> int:
    """Keep the children of a role, or of all."""
    from ldp_kafka.runtime.keys import read_key

    roles = topology.roles if role is None else (role,)
    if any(each.needs_key for each in roles):
        _permit(topology)  # before anything is started
        read_key(topology.edge.key_file)
    with ExitStack() as stack:
        _ready(topology, role, None if role else _host(topology, stack))
        return keep(topology, roles, port, host, until_idle_ms, log_format)


def _host(topology: Topology, stack: ExitStack) -> Any:
    """The embedded broker, where the topology wants one and no other process hosts it: it lives as
    long as this process.
    """
    from ldp_kafka.runtime.brokers.embedded import EmbeddedBroker
    from ldp_kafka.runtime.brokers.run_files import address_of, publish

    if not (topology.edge_kafka.embedded or topology.collector_kafka.embedded):
        return None
    try:
        address_of(topology.name)
    except BrokerError:
        broker = stack.enter_context(EmbeddedBroker())
        publish(topology.name, broker)
        print(  # noqa: T201
            f"embedded broker: {broker.bootstrap_servers}, in this process; it keeps nothing when"
            " it ends",
            flush=True,
        )
        return broker
    return None
