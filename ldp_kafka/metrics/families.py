"""Every metric there is: what it says, who has it, and what is shown of many partitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from prometheus_client import Counter, Gauge, Histogram

from ldp_kafka.errors import Dropped, Reason
from ldp_kafka.topology.roles import COLLECTOR, EDGE

__all__ = [
    "CONSTANT",
    "EDGE_ONLY",
    "FAMILIES",
    "GUARANTEE",
    "LABELS",
    "NAMES",
    "PROGRESS",
    "REASONS",
    "Family",
]

LABELS = ("topology", "role", "method")
"""On every metric."""

AT_EDGE, AT_COLLECTOR = frozenset({EDGE}), frozenset({COLLECTOR})


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
        "ldp_late_by_clocks_total",
        "Of these, events that are late by another one alone, which was far ahead of its record's"
        " timestamp: a sender's clock is fast.",
        AT_EDGE,
    ),
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
    Family(
        Counter,
        "ldp_clamped_total",
        "Values outside the domain or the contribution, clamped to it.",
        AT_EDGE,
    ),
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
        "Standard error of the last release (the largest, of a list); absent where it states none.",
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
