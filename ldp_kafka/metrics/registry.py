"""The metrics of one process, made from one registry."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
)

from ldp_kafka.accounting import Guarantee
from ldp_kafka.accounting.words import at_most
from ldp_kafka.errors import ConfigurationError, InvariantError
from ldp_kafka.methods.delay.windows import SETTINGS
from ldp_kafka.metrics.families import (
    CONSTANT,
    FAMILIES,
    GUARANTEE,
    LABELS,
    PROGRESS,
    REASONS,
    Family,
)
from ldp_kafka.topology.roles import ROLES

__all__ = ["Metrics"]

# A fold of one message takes some hundred microseconds, a snapshot of a million users some seconds.
BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


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
