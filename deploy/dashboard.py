# ruff: noqa: INP001 - a script beside the files that it makes
"""Makes the Grafana dashboard: ``python deploy/dashboard.py`` writes
docker/grafana/dashboards/ldp-kafka.json.

Needs grafana-foundation-sdk. Edit this file, never the JSON: a test compares them, and runs every
query against a real Prometheus.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from grafana_foundation_sdk.builders import dashboard, prometheus, stat, table, timeseries
from grafana_foundation_sdk.builders.common import ReduceDataOptions
from grafana_foundation_sdk.builders.dashboard import Dashboard, Row
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import BigValueColorMode, BigValueGraphMode
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DataSourceRef,
    DataTransformerConfig,
    Threshold,
    ThresholdsMode,
    VariableOption,
    VariableRefresh,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

OUTPUT = Path(__file__).parents[1] / "docker" / "grafana" / "dashboards" / "ldp-kafka.json"
SOURCE = DataSourceRef("prometheus", "prometheus")
SELECT = '{topology=~"$topology"}'
WINDOWED = '{topology=~"$topology",setting!=""}'  # those of topologies with windows
WINDOW = "[$__rate_interval]"


class Chart(NamedTuple):
    """A panel over time: queries by legend."""

    title: str
    unit: str
    queries: dict[str, str]
    description: str
    width: int = 8


def rate(metric: str, by: str = "topology", select: str = SELECT) -> str:
    """Per second, over all workers."""
    return f"sum by ({by}) (rate({metric}{select}{WINDOW}))"


def by_setting(metric: str) -> str:
    """Per second, of windows that lie in either way."""
    return rate(metric, "topology, setting", WINDOWED)


def quantile(share: float, metric: str) -> str:
    """Of a histogram, each role by itself."""
    return (
        f"histogram_quantile({share}, sum by (topology, role, le)"
        f" (rate({metric}_bucket{SELECT}{WINDOW})))"
    )


def gauge(metric: str, how: str = "max", by: str = "topology") -> str:
    """One number of all workers."""
    return f"{how} by ({by}) ({metric}{SELECT})"


OPERATION = (
    Chart(
        "Flow",
        "short",
        {
            "{{topology}} events": rate("ldp_events_total"),
            "{{topology}} reports ({{role}})": rate("ldp_reports_total", "topology, role"),
            "{{topology}} partials": rate("ldp_partials_total"),
            "{{topology}} releases": rate("ldp_releases_total"),
        },
        "Per second. Reports are written by perturb and counted by collect.",
    ),
    Chart(
        "Messages waiting",
        "short",
        {"{{topology}} {{role}}": gauge("ldp_lag_messages", "sum", "topology, role")},
        "In all assigned partitions.",
    ),
    Chart(
        "Time to process a run of messages",
        "s",
        {
            "{{topology}} {{role}} p50": quantile(0.5, "ldp_step_seconds"),
            "{{topology}} {{role}} p99": quantile(0.99, "ldp_step_seconds"),
        },
        "Decoding, ledger, method, noise and encoding.",
    ),
    Chart(
        "Event time behind the clock",
        "s",
        {"{{topology}}": "time() - " + gauge("ldp_watermark_timestamp_seconds", "min")},
        "Of the slowest partition. It rises while nothing newer comes, and is large where old data"
        " are replayed.",
    ),
    Chart(
        "Event time behind the clock, in slots",
        "none",
        {
            "{{topology}}": "max by (topology) ((time() - ldp_watermark_timestamp_seconds"
            f"{SELECT}) / ldp_slot_seconds{SELECT})"
        },
        "Of the slowest partition. One or two are usual, where a batch comes once a slot.",
    ),
    Chart(
        "Longest without an event",
        "s",
        {
            "{{topology}} {{role}}": gauge("ldp_idle_seconds", by="topology, role"),
            "{{topology}} {{role}} too long": (
                "max by (topology, role) (clamp_min("
                f"(ldp_hop_slots{SELECT} + 2) * ldp_slot_seconds{SELECT}, 300))"
            ),
        },
        "Of the partition that has waited longest, and where the alert begins. Partitions that get"
        " ticks (input.idle) do not count.",
    ),
    Chart(
        "Release lag",
        "s",
        {"{{topology}}": gauge("ldp_release_lag_seconds", "min")},
        "Time from the end of the slot that was released last to its release.",
    ),
    Chart(
        "Reports that wait",
        "none",
        {"{{topology}}": gauge("ldp_waiting_reports", "sum")},
        "Drawn, and sent together once their slot closes or `report_rows` of them wait in a"
        " partition.",
    ),
    Chart(
        "Slots",
        "none",
        {
            "{{topology}} closed": gauge("ldp_closed_slot", "min"),
            "{{topology}} released": gauge("ldp_released_slot"),
        },
        "The last slot that every source has closed, and the last one released.",
    ),
    Chart(
        "Dead letters",
        "short",
        {
            "{{topology}} {{role}} {{reason}}": (
                "increase(ldp_dead_letters_total" + SELECT + WINDOW + ") > 0"
            )
        },
        "By reason, in each interval. Empty where there are none.",
    ),
    Chart(
        "Events without a report, repeats",
        "short",
        {
            "{{topology}} late": rate("ldp_late_total"),
            "{{topology}} late by a fast clock": rate("ldp_late_by_clocks_total"),
            "{{topology}} duplicates": rate("ldp_duplicates_total"),
            "{{topology}} silent": rate("ldp_silent_total"),
            "{{topology}} repeated at the collector": rate("ldp_repeated_total"),
        },
        "Per second. Silent users have no turn in this slot; repeats come after a crash and count"
        " once.",
    ),
    Chart(
        "Partitions",
        "none",
        {
            "{{topology}} {{role}} held": gauge("ldp_partitions", "sum", "topology, role"),
            "{{topology}} {{role}} idle": gauge("ldp_idle_partitions", "sum", "topology, role"),
        },
        "An idle partition has had no event for longer than three slots (of windows: two slots"
        " beyond a window) and five minutes, and holds every release back.",
    ),
    Chart(
        "Time to write a snapshot",
        "s",
        {"{{topology}} {{role}} p99": quantile(0.99, "ldp_snapshot_seconds")},
        "Of one partition's state.",
    ),
    Chart(
        "State written",
        "Bps",
        {"{{topology}} {{role}}": rate("ldp_snapshot_bytes_total", "topology, role")},
        "To the changelogs.",
    ),
    Chart(
        "Requests of the coordinator",
        "short",
        {
            "{{topology}} forwarded": rate("ldp_requests_forwarded_total"),
            "{{topology}} dropped {{reason}}": rate(
                "ldp_requests_dropped_total", "topology, reason"
            ),
        },
        "Per second, at the edge: what is asked of each slot's users. Repeats come after a crash of"
        " the coordinator; any other reason says that it is wrong.",
    ),
)

RELAY = (
    Chart(
        "Relay of someone else's topic",
        "short",
        {
            "{{topology}} copied": rate("ldp_relayed_total"),
            "{{topology}} dropped": rate("ldp_relay_dropped_total"),
        },
        "Records per second. Dropped is what reads as a request of ours.",
    ),
    Chart(
        "Relay: waiting",
        "short",
        {"{{topology}}": gauge("ldp_relay_lag_messages", "sum")},
        "Offsets that are not copied yet.",
    ),
    Chart(
        "Relay: held back",
        "s",
        {"{{topology}}": gauge("ldp_relay_held_back_seconds")},
        "How long the relay has waited for a coordinator's decision: it copies no further than can"
        " still be asked for.",
    ),
)

PRIVACY = (
    Chart(
        "Largest epsilon spent, as a share of the budget",
        "percentunit",
        {"{{topology}}": gauge("ldp_spent_ratio")},
        "In any user's current window. Never above 100 %.",
    ),
    Chart(
        "Refused by the ledger",
        "short",
        {"{{topology}}": rate("ldp_refused_total")},
        "Reports per second that would have exceeded a user's budget.",
    ),
    Chart(
        "Clamped values",
        "percentunit",
        {"{{topology}}": rate("ldp_clamped_total") + " / " + rate("ldp_events_total")},
        "Share of events outside the domain. Many say that the domain is too small, which biases"
        " what is released.",
    ),
    Chart(
        "Reports in the last slot",
        "short",
        {"{{topology}}": gauge("ldp_release_reports")},
        "Of the slot that was released last.",
    ),
    Chart(
        "Standard error of the last release",
        "short",
        {"{{topology}}": gauge("ldp_release_standard_error")},
        "In the unit of the values, slot by slot. Of a list, the largest; none where a release"
        " states none, and says why.",
    ),
    Chart(
        "Second reports",
        "short",
        {"{{topology}}": rate("ldp_second_reports_total")},
        "Per second, of users who report twice in a slot: there must be none.",
    ),
)


COORDINATION = (
    Chart(
        "Publications in the last window",
        "none",
        {"{{topology}}": gauge("ldp_window_publications")},
        "Slots whose release is their own. What stood before holds in the others.",
    ),
    Chart(
        "Published, not answered",
        "short",
        {
            "{{topology}} published": rate("ldp_publications_total"),
            "{{topology}} asked, not answered": rate("ldp_unanswered_total"),
            "{{topology}} too late to ask": rate("ldp_overdue_total"),
        },
        "Slots per second. What is not answered, or was too late to be asked, is an approximation:"
        " input.hold was over, or nobody had a value.",
    ),
    Chart(
        "Requests",
        "short",
        {
            "{{topology}} {{role}}": rate("ldp_requests_total", "topology, role"),
            "{{topology}} late": rate("ldp_requests_late_total"),
            "{{topology}} refused": rate("ldp_requests_refused_total"),
        },
        "Per second. coordinate: those that ask for reports; perturb: all that its partitions"
        " answered, whether they ask or not.",
    ),
    Chart(
        "Dissimilarity and error",
        "none",
        {
            "{{topology}} dissimilarity": gauge("ldp_dissimilarity"),
            "{{topology}} error of a publication": gauge("ldp_publication_error"),
        },
        "Squared, of the slot that was decided last. Something is asked where the dissimilarity is"
        " larger. Both are public: they are in the releases.",
        12,
    ),
    Chart(
        "Slots to be decided",
        "none",
        {"{{topology}}": gauge("ldp_waiting_slots")},
        "A slot that was asked waits until its second phase is closed, and those behind it wait.",
        12,
    ),
)


WINDOWS = (
    Chart(
        "Windows of streams",
        "short",
        {
            "{{topology}} {{setting}} windows": by_setting("ldp_windows_total"),
            "{{topology}} {{setting}} releases": by_setting("ldp_releases_total"),
        },
        "Per second, batch and sliding. A window of each stream closes once, by event time.",
    ),
    Chart(
        "Slots that wait for their windows",
        "none",
        {"{{topology}}": gauge("ldp_open_slots")},
        "Of the partition with most: at most the delay and the lateness, unless events are far"
        " apart.",
    ),
    Chart(
        "Window lag",
        "s",
        {"{{topology}} {{role}}": gauge("ldp_window_lag_seconds", by="topology, role")},
        "From the end of a slot to its release, of the slot that waited longest in the windows that"
        " closed last. Beyond the delay and the lateness it is how far events are behind the"
        " clock.",
    ),
)


def query(expression: str, legend: str, ref_id: str) -> prometheus.Dataquery:
    """A query over the dashboard's time."""
    return (
        prometheus.Dataquery()
        .expr(expression)
        .legend_format(legend)
        .ref_id(ref_id)
        .datasource(SOURCE)
    )


def chart(panel: Chart) -> timeseries.Panel:
    """As Grafana has it."""
    built = (
        timeseries.Panel()
        .title(panel.title)
        .description(panel.description)
        .unit(panel.unit)
        .datasource(SOURCE)
        .span(panel.width)
        .height(8)
        .fill_opacity(8)
        .span_nulls(True)
    )
    for at, (legend, expression) in enumerate(panel.queries.items()):
        built.with_target(query(expression, legend, "ABCDEFGH"[at]))
    return built if panel.unit == "none" else built.min(0)


def number(
    title: str, description: str, expression: str, unit: str, warn: float | None = None
) -> stat.Panel:
    """One large number of now; red from ``warn`` on."""
    steps = [
        Threshold(color="green"),
        *([] if warn is None else [Threshold(color="red", value=warn)]),
    ]
    return (
        stat.Panel()
        .title(title)
        .description(description)
        .unit(unit)
        .datasource(SOURCE)
        .span(6)
        .height(4)
        .graph_mode(BigValueGraphMode.NONE)
        .color_mode(BigValueColorMode.VALUE)
        .reduce_options(ReduceDataOptions().calcs(["lastNotNull"]))
        .thresholds(dashboard.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(steps))
        .with_target(query(expression, "{{topology}}", "A"))
    )


def guarantees() -> table.Panel:
    """One row a topology and role: what is promised."""
    expression = (
        "sum by (topology, role, method, level, epsilon, window, calibration, protects)"
        f" (ldp_guarantee_info{SELECT})"
    )
    order = [
        "topology",
        "role",
        "method",
        "level",
        "epsilon",
        "window",
        "calibration",
        "protects",
        "Value",
    ]
    options = {
        "excludeByName": {"Time": True},
        "indexByName": {name: at for at, name in enumerate(order)},
        "renameByName": {"Value": "workers"},
    }
    return (
        table.Panel()
        .title("Guarantees")
        .description(
            "An epsilon of inf is no guarantee. Calibration published spends as the paper does,"
            " whatever truly holds."
        )
        .datasource(SOURCE)
        .span(24)
        .height(6)
        .with_target(query(expression, "", "A").instant().format(PromQueryFormat.TABLE))
        .with_transformation(DataTransformerConfig("organize", options=options))
    )


def build() -> str:
    """The dashboard as JSON."""
    board = (
        Dashboard("ldp-kafka")
        .uid("ldp-kafka")
        .description("Made by deploy/dashboard.py.")
        .tags(["ldp-kafka"])
        .readonly()
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .refresh("5s")
        .time("now-15m", "now")
        .timezone("utc")
        .with_variable(
            dashboard.QueryVariable("topology")
            .label("Topology")
            .datasource(SOURCE)
            .query("label_values(ldp_guarantee_info, topology)")
            .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
            .include_all(True)
            .all_value(".*")
            .multi(True)
            .current(VariableOption(selected=True, text="All", value="$__all"))
        )
        .with_row(Row("Now"))
        .with_panel(number("Events per second", "At the edge.", rate("ldp_events_total"), "short"))
        .with_panel(
            number(
                "Messages waiting",
                "In all assigned partitions.",
                gauge("ldp_lag_messages", "sum"),
                "short",
                1000,
            )
        )
        .with_panel(
            number(
                "Budget spent",
                "The largest share of any user.",
                gauge("ldp_spent_ratio"),
                "percentunit",
                1.000001,
            )
        )
        .with_panel(
            number(
                "Workers that are not sound",
                "Workers whose calibration is not sound: what they promise need not be what the"
                " topology says.",
                'sum(ldp_guarantee_info{topology=~"$topology", calibration!="sound"}) or vector(0)',
                "none",
                1,
            )
        )
        .with_row(Row("Privacy"))
        .with_panel(guarantees())
    )
    for panel in PRIVACY:
        board.with_panel(chart(panel))
    board.with_row(Row("Coordination"))
    for panel in COORDINATION:
        board.with_panel(chart(panel))
    board.with_row(Row("Windows"))
    for panel in WINDOWS:
        board.with_panel(chart(panel))
    board.with_row(Row("Operation"))
    for panel in (*OPERATION, *RELAY):
        board.with_panel(chart(panel))
    built = board.build()
    for at, panel_model in enumerate(built.panels or (), 1):
        panel_model.id_val = at
    return json.dumps(built, cls=JSONEncoder, indent=2, sort_keys=True) + "\n"


if __name__ == "__main__":
    OUTPUT.write_text(build())
