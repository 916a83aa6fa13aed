"""The Prometheus metrics of a worker, made from one registry.

Names begin with ``ldp_``, units are seconds and ratios, counters end in ``_total``. Labels are the
topology, the role and the method, which are constant in a process, and so is how windows lie; the
reason of dead letters and of dropped requests, and what a guarantee says. Never a user and never a
value: a reason that is none of `ldp_kafka.errors.Reason`, or of `ldp_kafka.errors.Dropped`, is
refused, and so is a setting of windows that there is none of.

What depends on values stays at the edge. How many values were clamped or refused, how many were
late, the greatest event time: these are exact functions of raw data, without any noise. So they
exist in the processes of the edge's roles alone (`EDGE_ONLY`), which serve them on loopback unless
they are told otherwise; whoever scrapes them is trusted by the users as the edge is. The
collector's roles refuse to count them.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from http import HTTPStatus
from socketserver import ThreadingMixIn
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    make_wsgi_app,
)

from ldp_kafka.accounting import Guarantee
from ldp_kafka.accounting.words import at_most
from ldp_kafka.errors import ConfigurationError, Dropped, InvariantError, Reason
from ldp_kafka.methods.delay.windows import SETTINGS
from ldp_kafka.topology.roles import COLLECTOR, EDGE, ROLES

__all__ = ["EDGE_ONLY", "LABELS", "NAMES", "Metrics", "Probe", "listening", "serve"]

LABELS = ("topology", "role", "method")
"""On every metric."""

AT_EDGE, AT_COLLECTOR = frozenset({EDGE}), frozenset({COLLECTOR})
# A fold of one message takes some hundred microseconds, a snapshot of a million users some seconds.
BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


Probe = tuple[bool, str]
"""What a probe says: whether, and why in one line."""


class Counted(Protocol):
    """What a fold counted, and where it stands: `ldp_kafka.runtime.log.Output`."""

    @property
    def counts(self) -> Mapping[str, float]:
        """By name; those of dead letters as ``dead_letters:`` and the reason."""

    @property
    def gauges(self) -> Mapping[str, float]:
        """By name, one of `PROGRESS`."""


class Relayed(Protocol):
    """Where a relay stands: `ldp_kafka.runtime.kafka.relayer.Shown`."""

    @property
    def waiting(self) -> int:
        """Offsets that are not copied."""

    @property
    def held(self) -> float:
        """Seconds."""


class Family(NamedTuple):
    """One metric: on which sides of the trust line roles have it, and which labels beside
    `LABELS`.
    """

    kind: type[Counter | Gauge | Histogram]
    name: str
    help: str
    sides: frozenset[str] = AT_EDGE | AT_COLLECTOR
    labels: tuple[str, ...] = ()


FAMILIES = (
    Family(Counter, "ldp_events_total", "Valid events that were processed.", AT_EDGE),
    Family(Counter, "ldp_reports_total", "Reports: written (perturb), counted (collect)."),
    Family(
        Counter, "ldp_silent_total", "Events of users who were not to report in this slot.", AT_EDGE
    ),
    Family(Counter, "ldp_late_total", "Events that came after their slot was closed.", AT_EDGE),
    Family(
        Counter,
        "ldp_duplicates_total",
        "Events at or before their user's last slot, dropped.",
        AT_EDGE,
    ),
    Family(
        Counter,
        "ldp_refused_total",
        "Reports that the ledger refused: the budget was spent.",
        AT_EDGE,
    ),
    Family(
        Counter,
        "ldp_requests_total",
        "Requests: folded in a raw partition, those that ask nobody too (perturb); written that ask"
        " for reports (coordinate).",
    ),
    Family(
        Counter,
        "ldp_requests_late_total",
        "Requests whose slot had no second phase any more, or not yet; repeats of one among them.",
        AT_EDGE,
    ),
    Family(
        Counter,
        "ldp_requests_refused_total",
        "Requests that no user may answer: of a cost or a fraction that the method does not have.",
        AT_EDGE,
    ),
    Family(Counter, "ldp_clamped_total", "Values outside the domain, clamped to it.", AT_EDGE),
    Family(
        Counter,
        "ldp_repeated_total",
        "Batches, devices' reports and partials that arrived again and were not counted again.",
        AT_COLLECTOR,
    ),
    Family(
        Counter,
        "ldp_second_reports_total",
        "Second reports of a user in a slot, found by their ids (in a sample; of devices: all)."
        " Causes: a user in two partitions, an edge that lost its state, a copied device database.",
        AT_COLLECTOR,
    ),
    Family(
        Counter,
        "ldp_partials_total",
        "Partials written: the sums of one source partition for a slot.",
        AT_COLLECTOR,
    ),
    Family(
        Counter,
        "ldp_releases_total",
        "Releases written: by the collector, or a curator. Of windows by their setting.",
        labels=("setting",),
    ),
    Family(
        Counter,
        "ldp_windows_total",
        "Windows that have closed, of each stream (curate) or user (perturb) by itself, by their"
        " setting.",
        AT_EDGE,
        ("setting",),
    ),
    Family(
        Gauge,
        "ldp_window_lag_seconds",
        "Time from the end of a slot to its release (curate) or report (perturb), of the slot that"
        " waited longest in the windows that closed last: the delay, the lateness, and how far"
        " events are behind the clock. Of the assigned partition where it is longest.",
        AT_EDGE,
    ),
    Family(
        Gauge,
        "ldp_open_slots",
        "Slots with values that wait until their windows close, of the assigned partition that has"
        " most.",
        AT_EDGE,
    ),
    Family(
        Counter,
        "ldp_publications_total",
        "Releases that a coordinator has published; the others hold what stood before them.",
        AT_COLLECTOR,
    ),
    Family(
        Counter,
        "ldp_unanswered_total",
        "Slots for which a coordinator asked and got no report: the request came later than the"
        " hold, or nobody had a value. Their releases are approximations.",
        AT_COLLECTOR,
    ),
    Family(
        Counter,
        "ldp_overdue_total",
        "Slots with reports that a coordinator came to when the edge had settled them: nobody could"
        " be asked any more, and the last release stands.",
        AT_COLLECTOR,
    ),
    Family(
        Counter,
        "ldp_dead_letters_total",
        "Records that could not be used and became dead letters, by reason.",
        labels=("reason",),
    ),
    Family(
        Counter,
        "ldp_requests_forwarded_total",
        "Requests of the coordinator that were appended to every partition of the raw log.",
        AT_EDGE,
    ),
    Family(
        Counter,
        "ldp_requests_dropped_total",
        "Requests of the coordinator that were not forwarded, by reason.",
        AT_EDGE,
        labels=("reason",),
    ),
    Family(
        Counter,
        "ldp_relayed_total",
        "Records of someone else's topic that were copied into the raw log.",
        AT_EDGE,
    ),
    Family(
        Counter,
        "ldp_relay_dropped_total",
        "Records of someone else's topic that read as requests of ours, and were not copied.",
        AT_EDGE,
    ),
    Family(
        Gauge,
        "ldp_relay_lag_messages",
        "Offsets of someone else's topic that wait to be copied, of this process's partitions.",
        AT_EDGE,
    ),
    Family(
        Gauge,
        "ldp_relay_held_back_seconds",
        "How long the relay of a partition has waited for a coordinator's decision, the longest; 0"
        " where none waits.",
        AT_EDGE,
    ),
    Family(
        Gauge,
        "ldp_watermark_timestamp_seconds",
        "Greatest event time accepted, of the assigned partition where it is smallest.",
        AT_EDGE,
    ),
    Family(
        Gauge,
        "ldp_waiting_reports",
        "Reports that are drawn and wait to be sent together, of the assigned partitions.",
        AT_EDGE,
    ),
    Family(
        Gauge,
        "ldp_closed_slot",
        "Last slot that the edge (or the watermark of devices) has closed, of the assigned"
        " partition where it is smallest.",
        AT_COLLECTOR,
    ),
    Family(Gauge, "ldp_released_slot", "Last slot that was released or skipped.", AT_COLLECTOR),
    Family(
        Gauge,
        "ldp_waiting_slots",
        "Slots that a coordinator has still to decide or to release.",
        AT_COLLECTOR,
    ),
    Family(
        Gauge,
        "ldp_window_publications",
        "Slots of the last window that were published; what stood before holds in the others.",
        AT_COLLECTOR,
    ),
    Family(
        Gauge,
        "ldp_dissimilarity",
        "Squared distance of the truth from the last release, as the first phase of the last slot"
        " tells; below zero where noise explains more than it. Public: releases have it.",
        AT_COLLECTOR,
    ),
    Family(
        Gauge,
        "ldp_publication_error",
        "Squared error that a publication was expected to have in the last slot; where it is below"
        " the dissimilarity, one was asked. NaN where nothing was left to publish with.",
        AT_COLLECTOR,
    ),
    Family(Histogram, "ldp_step_seconds", "Time to process one run of messages."),
    Family(Histogram, "ldp_snapshot_seconds", "Time to write a snapshot of one partition's state."),
    Family(Counter, "ldp_snapshot_bytes_total", "Bytes of state written in snapshots."),
    Family(
        Gauge, "ldp_release_reports", "Reports in the slot that was released last.", AT_COLLECTOR
    ),
    Family(
        Gauge,
        "ldp_release_standard_error",
        "Standard error of the last release (the largest, of a list); absent without reports.",
        AT_COLLECTOR,
    ),
    Family(
        Gauge,
        "ldp_release_lag_seconds",
        "Time from the end of the slot that was released last to its release.",
        AT_COLLECTOR,
    ),
    Family(
        Gauge,
        "ldp_spent_ratio",
        "Largest epsilon spent in any user's current window, as a share of the budget.",
        AT_EDGE,
    ),
    Family(
        Gauge,
        "ldp_guarantee_info",
        "What the topology promises.",
        labels=("level", "epsilon", "window", "calibration", "protects"),
    ),
    Family(Gauge, "ldp_partitions", "Partitions assigned to this process."),
    Family(Gauge, "ldp_lag_messages", "Messages that wait in the assigned partitions."),
    Family(
        Gauge,
        "ldp_idle_partitions",
        "Assigned partitions without an event for longer than ldp_hop_slots + 2 slots, and five"
        " minutes; each holds every release back. Those that get ticks (input.idle) do not count.",
    ),
    Family(
        Gauge,
        "ldp_idle_seconds",
        "How long the assigned partition that has waited longest has had no event, since it was"
        " assigned; 0 where all get ticks (input.idle).",
    ),
    Family(
        Gauge,
        "ldp_outage_seconds",
        "For how long a broker that this worker needs has been away; 0 while all are there.",
    ),
    Family(
        Gauge,
        "ldp_start_timestamp_seconds",
        "When this process began: it changes with each restart, whoever starts it again.",
    ),
    Family(Gauge, "ldp_slot_seconds", "Length of the topology's slots."),
    Family(
        Gauge,
        "ldp_hop_slots",
        "Slots from one window's end to the next one's; 1 where every slot is released by itself.",
    ),
)

NAMES: dict[str, str] = {family.name: family.help for family in FAMILIES}
"""Every metric there is, and what it says."""

EDGE_ONLY = frozenset(family.name for family in FAMILIES if family.sides == AT_EDGE)
"""Exact functions of raw data: never beyond the processes of the edge."""

PROGRESS: dict[str, tuple[str, Callable[[Any], float]]] = {
    "watermark": ("ldp_watermark_timestamp_seconds", min),
    "reports_waiting": ("ldp_waiting_reports", sum),
    "open_slots": ("ldp_open_slots", max),
    "closed": ("ldp_closed_slot", min),
    "released": ("ldp_released_slot", min),
    "waiting": ("ldp_waiting_slots", min),
    "window_publications": ("ldp_window_publications", min),
    "dissimilarity": ("ldp_dissimilarity", min),
    "publication_error": ("ldp_publication_error", min),
}
"""What a fold says of where it stands, by its name there: the metric, and what is shown of all
partitions held.
"""
REASONS: dict[str, type[Reason | Dropped]] = {
    "ldp_dead_letters_total": Reason,
    "ldp_requests_dropped_total": Dropped,
}
"""Counters by reason, and the reasons that there are."""
GUARANTEE = "ldp_guarantee_info"
CONSTANT = frozenset(
    {
        GUARANTEE,
        "ldp_slot_seconds",
        "ldp_hop_slots",
        "ldp_outage_seconds",
        "ldp_start_timestamp_seconds",
    }
)
"""Gauges of the topology or of the process itself, whatever partitions are held."""


class Metrics:
    """The metrics of one process, which runs one role of one topology.

    Counters are there from the start, so that a first count is seen as an increase. A gauge is
    there once it is known.

    Parameters
    ----------
    topology, role, method : the constant labels; the role is one of `ldp_kafka.topology.roles`
    registry : where the metrics are registered; default: one of their own
    setting : how the topology's windows lie, ``batch`` or ``sliding``; empty where it has none

    Raises
    ------
    ConfigurationError : an unknown role, or an unknown setting
    InvariantError : by each method, for a metric that does not exist or that the role must not have

    """

    def __init__(
        self,
        topology: str,
        role: str,
        method: str,
        registry: CollectorRegistry | None = None,
        setting: str = "",
    ) -> None:
        if role not in ROLES:
            raise ConfigurationError(f"role must be one of {', '.join(ROLES)}")
        if setting and setting not in SETTINGS:
            raise ConfigurationError(f"setting must be one of {', '.join(SETTINGS)}")
        self.role, self._setting = role, setting
        # of the process: a second series for each counter
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry() if registry is None else registry
        self._constant = (topology, role, method)
        self._counters: dict[str, Counter] = {}
        self._gauges: dict[str, Gauge] = {}
        self._histograms: dict[str, Histogram] = {}
        self._held: dict[str, dict[int, float]] = {}
        for family in FAMILIES:
            if ROLES[role] in family.sides:
                self._register(family)

    def _register(self, family: Family) -> None:
        labels = (*LABELS, *family.labels)
        if family.kind is Gauge:
            self._gauges[family.name] = Gauge(
                family.name, family.help, labels, registry=self.registry
            )
        elif family.kind is Histogram:
            self._histograms[family.name] = Histogram(
                family.name, family.help, labels, registry=self.registry, buckets=BUCKETS
            ).labels(*self._constant)
        else:
            counter = Counter(family.name, family.help, labels, registry=self.registry)
            reasons = REASONS.get(family.name)
            if reasons is None:
                own = [self._setting] * len(family.labels)
                self._counters[family.name] = counter.labels(*self._constant, *own)
            else:
                self._counters |= {
                    f"{family.name}:{reason}": counter.labels(*self._constant, reason)
                    for reason in reasons
                }

    def count(self, output: Counted, partition: int = 0) -> None:
        """Take what the fold of a partition counted, and where it stands
        (`ldp_kafka.runtime.log.Output`).
        """
        for key, value in output.gauges.items():
            if key not in PROGRESS:
                raise InvariantError(f"no gauge of the {self.role} role shows how far a fold is")
            if not (key == "watermark" and value < 0):  # -1: no event yet
                seconds = value / 1000 if key == "watermark" else value
                name, combine = PROGRESS[key]
                self._hold(name, partition, seconds, combine)
        self.add(output.counts)

    def add(self, counts: Mapping[str, float]) -> None:
        """So many more of what is counted under each of these names, as `Output` has them."""
        for key, value in counts.items():
            name, colon, reason = key.partition(":")
            self._counter(f"ldp_{name}_total{colon}{reason}").inc(value)

    def step(self, seconds: float) -> None:
        """One run of messages was folded."""
        self._histograms["ldp_step_seconds"].observe(seconds)

    def snapshot(self, seconds: float, size: int) -> None:
        """One partition's snapshot was written, in so many bytes."""
        self._histograms["ldp_snapshot_seconds"].observe(seconds)
        self._counter("ldp_snapshot_bytes_total").inc(size)

    def release(
        self,
        reports: int,
        standard_error: float | Sequence[float | None] | None,
        lag_seconds: float,
    ) -> None:
        """A slot's crowd statistic was released, so long after the slot's end; of a list of
        standard errors the largest is shown, None says that there were no reports.
        """
        self._set("ldp_release_reports", reports)
        self._set("ldp_release_lag_seconds", lag_seconds)
        if standard_error is None:
            self._gauge("ldp_release_standard_error").clear()
        else:
            # of a vector's coordinates some
            known = (
                [error for error in standard_error if error is not None]
                if isinstance(standard_error, Sequence)
                else [standard_error]
            )
            self._set("ldp_release_standard_error", max(known))

    def window(self, lag_seconds: float, partition: int = 0) -> None:
        """Windows of a partition have closed, so long after the end of the earliest slot that they
        released; the longest of all partitions is shown.
        """
        self._hold("ldp_window_lag_seconds", partition, lag_seconds, max)

    def spent(self, largest_micro: int, budget_micro: int, partition: int = 0) -> None:
        """The largest spending of any user of a partition in a current window, and the budget; the
        largest of all partitions is shown.
        """
        self._hold("ldp_spent_ratio", partition, largest_micro / budget_micro, max)

    def guarantee(self, guarantee: Guarantee) -> None:
        """What the topology promises."""
        info = self._gauge(GUARANTEE)
        info.clear()
        said = (
            guarantee.level,
            at_most(guarantee.epsilon),
            str(guarantee.window),
            guarantee.calibration,
            guarantee.protects,
        )
        info.labels(*self._constant, *said).set(1)

    def partitions(self, number: int) -> None:
        """Partitions assigned, of all of the role's logs."""
        self._set("ldp_partitions", number)

    def revoked(self) -> None:
        """The partitions are no longer held: what was known of them is no longer shown, since
        another worker may have them now.
        """
        self._held.clear()
        for name, gauge in self._gauges.items():
            if name not in CONSTANT:
                gauge.clear()
        self.partitions(0)

    def lag(self, messages: int) -> None:
        """Messages that wait in the assigned partitions."""
        self._set("ldp_lag_messages", messages)

    def relay(self, shown: Relayed) -> None:
        """Where the relay of someone else's topic stands."""
        self._set("ldp_relay_lag_messages", shown.waiting)
        self._set("ldp_relay_held_back_seconds", shown.held)

    def idle(self, number: int, seconds: float) -> None:
        """Assigned partitions without events, and for how long the one has had none that has waited
        longest.
        """
        self._set("ldp_idle_partitions", number)
        self._set("ldp_idle_seconds", seconds)

    def slots(self, slot_ms: int, hop: int) -> None:
        """The length of the topology's slots, and how many there are from one window's end to the
        next one's: what durations are long for it.
        """
        self._set("ldp_slot_seconds", slot_ms / 1000)
        self._set("ldp_hop_slots", hop)

    def outage(self, seconds: float) -> None:
        """For how long brokers have been away."""
        self._set("ldp_outage_seconds", seconds)

    def started(self, moment: float) -> None:
        """When this process began, in seconds since the epoch."""
        self._set("ldp_start_timestamp_seconds", moment)

    def _hold(
        self, name: str, partition: int, value: float, combine: Callable[[Any], float]
    ) -> None:
        held = self._held.setdefault(name, {})
        held[partition] = value
        self._set(name, combine(held.values()))

    def _set(self, name: str, value: float) -> None:
        self._gauge(name).labels(*self._constant).set(value)

    def _gauge(self, name: str) -> Gauge:
        if name not in self._gauges:
            raise InvariantError(f"the {self.role} role has no metric {name}")
        return self._gauges[name]

    def _counter(self, name: str) -> Counter:
        if name not in self._counters:
            # What follows the colon is not shown: it may be anything, since it is no known reason.
            raise InvariantError(
                f"the {self.role} role has no metric {name.partition(':')[0]}, or none with this"
                " reason"
            )
        return self._counters[name]


class _Server(ThreadingMixIn, WSGIServer):
    """A thread a request; none of them holds the process back when it ends."""

    daemon_threads = True

    def __init__(self, bound: socket.socket) -> None:
        self.address_family = bound.family
        super().__init__(bound.getsockname(), _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = bound
        host, port = bound.getsockname()[:2]
        self.server_name, self.server_port = str(host), int(port)
        self.setup_environ()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing: whoever asked has gone away."""


class _Handler(WSGIRequestHandler):
    """Logs no request."""

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name there
        """Nothing."""


def _app(registry: CollectorRegistry, probes: Mapping[str, Callable[[], Probe]]) -> WSGIApplication:
    """Metrics at /metrics, a probe at each of these paths, and nothing else."""
    shown: WSGIApplication = make_wsgi_app(registry)
    known = ", ".join(("/metrics", *probes))

    def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path == "/metrics":
            return shown(environ, start_response)
        if path in probes:
            yes, why = probes[path]()
            status = HTTPStatus.OK if yes else HTTPStatus.SERVICE_UNAVAILABLE
        else:
            status, why = HTTPStatus.NOT_FOUND, f"there is only {known}"
        said = json.dumps({"ok": status == HTTPStatus.OK, "why": why})
        headers = [("Content-Type", "application/json"), ("Cache-Control", "no-store")]
        start_response(f"{status.value} {status.phrase}", headers)
        return [f"{said}\n".encode()]

    return answer


def listening(port: int, host: str = "127.0.0.1") -> socket.socket:
    """A socket for `serve` that listens already: whoever keeps it keeps the port, and what it runs
    may answer there, one process after the other. ConfigurationError where it cannot be bound.
    """
    if not 0 <= port < 2**16:
        raise ConfigurationError("metrics port must be from 0 to 65535")
    try:
        family, kind, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with ExitStack() as unless_bound:
            bound = unless_bound.enter_context(socket.socket(family, kind))
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(address)
            bound.listen()
            unless_bound.pop_all()
    except OSError as error:
        raise ConfigurationError(f"metrics port {port} at {host}: {error.strerror}") from None
    return bound


def serve(
    metrics: Metrics,
    port: int,
    host: str = "127.0.0.1",
    probes: Mapping[str, Callable[[], Probe]] = MappingProxyType({}),
    *,
    bound: socket.socket | None = None,
) -> tuple[int, Callable[[], None]]:
    """Answer over HTTP, in a thread: Prometheus at ``/metrics``, and whoever runs the worker at the
    paths of its probes. Returns the real port (0 takes a free one), and what ends the server.

    A probe gives whether, and why: its answer is 200 or 503, with one line of JSON, ``{"ok": true,
    "why": "..."}``. Any other path is 404.

    Any ``host`` but loopback lets a network read the metrics: for the perturb role, let that be the
    edge's own. ConfigurationError where the address cannot be bound. ``bound`` is a socket that
    listens (`listening`), in place of a port and a host.
    """
    server = _Server(listening(port, host) if bound is None else bound)
    server.set_app(_app(metrics.registry, probes))
    thread = threading.Thread(target=server.serve_forever, daemon=True, name="metrics")
    thread.start()

    def close() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return server.server_port, close
