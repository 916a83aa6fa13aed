"""Metrics say what a worker does and nothing about a user."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from math import inf
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

import ldp_kafka
from ldp_kafka.accounting import Guarantee
from ldp_kafka.errors import ConfigurationError, Dropped, InvariantError, Reason
from ldp_kafka.methods.delay.windows import SETTINGS
from ldp_kafka.metrics import EDGE_ONLY, LABELS, NAMES, PROGRESS, Metrics
from ldp_kafka.runtime.log import Output
from ldp_kafka.runtime.stages import (
    asked,
    collect,
    collect_devices,
    coordinate,
    counting,
    curate,
    destinations,
    gates,
    merge,
    panes,
    perturb,
    raw,
    windows,
)
from ldp_kafka.runtime.wire.dead_letters import DeadLetters
from tests.cases import cases

PERTURB = {
    "events": 7,
    "reports": 5,
    "silent": 1,
    "late": 2,
    "late_by_clocks": 9,
    "duplicates": 3,
    "refused": 4,
    "clamped": 6,
    "watermark": 1_500,
    "reports_waiting": 12,
    "open_slots": 13,
    "windows": 14,
    "requests": 15,
    "requests_late": 16,
    "requests_refused": 17,
    "dead_letters:not_json": 8,
}
COLLECT = {
    "reports": 5,
    "repeated": 2,
    "partials": 3,
    "second_reports": 1,
    "releases": 4,
    "closed": 9,
    "dead_letters:range": 1,
}
MERGE = {
    "releases": 1,
    "repeated": 1,
    "second_reports": 2,
    "released": 8,
    "dead_letters:not_json": 1,
}
CURATE = {
    "events": 7,
    "late": 2,
    "duplicates": 3,
    "clamped": 6,
    "windows": 4,
    "releases": 9,
    "watermark": 1_500,
    "open_slots": 3,
    "dead_letters:not_json": 8,
}
COORDINATE = {
    "releases": 3,
    "publications": 2,
    "requests": 2,
    "unanswered": 1,
    "overdue": 2,
    "repeated": 1,
    "released": 8,
    "waiting": 2,
    "window_publications": 4,
    "dissimilarity": -0.5,
    "publication_error": 0.25,
    "dead_letters:not_json": 1,
}
OWN_LABELS = {
    "topology",
    "role",
    "method",
    "reason",
    "setting",
    "le",
    "level",
    "epsilon",
    "window",
    "calibration",
    "protects",
}
"""Every label that a series may carry."""
GUARANTEE = Guarantee("w-event", 1.0, 0.0, 10, 10, "values", "sound")


def made(role: str = "perturb") -> Metrics:
    return Metrics("meters", role, "capp")


def samples(metrics: Metrics) -> dict[str, float]:
    """What is shown; labels beside the constant ones in the name, unless they are empty."""
    found = {}
    for family in metrics.registry.collect():
        for sample in family.samples:
            assert [sample.labels[label] for label in LABELS] == ["meters", metrics.role, "capp"]
            own = ",".join(
                f"{name}={value}"
                for name, value in sample.labels.items()
                if name not in LABELS and value
            )
            found[f"{sample.name}{{{own}}}" if own else sample.name] = sample.value
    return found


def families(role: str) -> dict[str, str]:
    """Name in the inventory's spelling, and type."""
    return {
        family.name + "_total" * (family.type == "counter"): family.type
        for family in made(role).registry.collect()
    }


def output(said: dict[str, float]) -> Output:
    """What a fold gives that counts these."""
    made_ = Output(DeadLetters("dead", "raw", 0))
    for key, value in said.items():
        if key in PROGRESS:
            made_.gauge(key, value)
        else:
            made_.count(key, value)
    return made_


def counted(*modules) -> set[str]:
    """Every name under which these sources count: those from zero, and what they are told."""
    found = set()
    for module in modules:
        for node in ast.walk(ast.parse(Path(module.__file__).read_text())):
            names: list[ast.expr] = []
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
                names = [node.value] if ast.unparse(target) in ("COUNTS", "counts") else []
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                if node.func.attr == "dead_letter":
                    found.add("dead_letters")
                elif node.func.attr in ("count", "gauge"):
                    names = node.args[:1]
            found |= {
                each.value
                for name in names
                for each in ast.walk(name)
                if isinstance(each, ast.Constant) and isinstance(each.value, str)
            }
    return found


@cases(
    ("role", "counts", "modules"),
    [
        ("perturb", PERTURB, (perturb, gates, asked, windows, panes, raw)),
        ("collect", COLLECT, (collect, counting)),
        ("collect", COLLECT, (collect_devices, counting)),
        ("collect", MERGE, (merge, destinations)),
        ("coordinate", COORDINATE, (coordinate,)),
        ("curate", CURATE, (curate, windows, panes, raw)),
    ],
)
def test_every_count_of_a_stage_is_mapped(role, counts, modules):
    """The names in a stage's source are those of the specimen, and each of them moves one
    sample.
    """
    assert counted(*modules) == {key.partition(":")[0] for key in counts}
    for key, value in counts.items():
        metrics = made(role)
        before = samples(metrics)
        metrics.count(output({key: value}))
        after = samples(metrics)
        moved = {name: number for name, number in after.items() if number != before.get(name)}
        assert list(moved.values()) == [value / 1000 if key == "watermark" else value], moved


def test_a_dead_letter_is_counted_by_its_reason():
    """And sent."""
    folded = output({})
    folded.dead_letter(7, 2, Reason.USER)
    folded.dead_letter(8, 0, Reason.USER)
    assert [json.loads(record.value)["offset"] for record in folded.records] == [7, 8]
    metrics = made()
    metrics.count(folded)
    assert samples(metrics)["ldp_dead_letters_total{reason=user}"] == 2


def test_counts_add_up():
    """Counters add, gauges hold the last."""
    metrics = made("collect")
    for counts in (COLLECT, MERGE, MERGE):
        metrics.count(output(counts))
    shown = samples(metrics)
    assert shown["ldp_releases_total"] == 6
    assert shown["ldp_repeated_total"] == 4
    assert shown["ldp_released_slot"] == 8
    assert shown["ldp_dead_letters_total{reason=not_json}"] == 2
    assert shown["ldp_dead_letters_total{reason=range}"] == 1


def test_what_is_asked_is_counted_at_the_edge():
    """Requests that went into its log, and those that did not, by reason: at the perturb role
    alone.
    """
    metrics = made()
    metrics.add({"requests_forwarded": 3, f"requests_dropped:{Dropped.AHEAD}": 2})
    metrics.add({"requests_forwarded": 1})
    shown = samples(metrics)
    assert shown["ldp_requests_forwarded_total"] == 4
    assert {
        name.partition("{")[2]: value
        for name, value in shown.items()
        if name.startswith("ldp_requests_dropped_total")
    } == {f"reason={reason}}}": 2.0 * (reason is Dropped.AHEAD) for reason in Dropped}
    for role in ("collect", "coordinate"):
        with pytest.raises(InvariantError, match=f"{role} role has no metric"):
            made(role).add({"requests_forwarded": 1})


@cases(
    "key",
    [
        "users",
        "events:x",
        "dead_letters",
        "dead_letters:",
        "dead_letters:poison",
        "dead_letters:repeated",
        "requests_dropped",
        "requests_dropped:range",
        "requests_dropped:poison",
        "",
    ],
)
def test_unknown_keys_raise(key):
    """Nothing is dropped in silence, and no text that came with a key is shown."""
    metrics = made()
    with pytest.raises(InvariantError) as caught:
        metrics.count(output({key: 1}))
    assert "poison" not in str(caught.value)
    assert not any("poison" in name for name in samples(metrics))


def test_raw_counts_stay_at_the_edge():
    """The collect role has no metric for what is an exact function of raw data, and refuses to take
    one.
    """
    assert {
        "ldp_clamped_total",
        "ldp_refused_total",
        "ldp_late_total",
        "ldp_late_by_clocks_total",
        "ldp_watermark_timestamp_seconds",
        "ldp_waiting_reports",
        "ldp_spent_ratio",
        "ldp_windows_total",
        "ldp_open_slots",
        "ldp_window_lag_seconds",
    } <= EDGE_ONLY
    assert EDGE_ONLY.isdisjoint(families("collect"))
    assert set(families("perturb")) >= EDGE_ONLY
    metrics = made("collect")
    for key in ("clamped", "refused", "events", "late", "late_by_clocks", "watermark"):
        with pytest.raises(InvariantError, match="collect role has no metric"):
            metrics.count(output({key: 1}))
    with pytest.raises(InvariantError, match="ldp_spent_ratio"):
        metrics.spent(1, 2)
    with pytest.raises(InvariantError, match="perturb role has no metric ldp_release"):
        made().release(1, 0.1, 2.0)


def test_the_inventory_is_what_exists():
    """No metric without an entry, none listed that no role has; a help text that is a sentence."""
    both = families("perturb") | families("collect")
    assert both.keys() == NAMES.keys()
    assert all(text.endswith(".") for text in NAMES.values())


def test_names_follow_the_conventions():
    """ldp_ in front; counters, and they alone, end in _total; base units; histograms are of
    seconds.
    """
    for name, kind in (families("perturb") | families("collect")).items():
        assert re.fullmatch(r"ldp_[a-z]+(_[a-z]+)*", name)
        assert name.endswith("_total") == (kind == "counter")
        assert name.endswith("_seconds") or kind != "histogram"
        assert not re.search(r"_(ms|milliseconds|micro|percent|count|sum|bucket)(_|$)", name)


def test_no_label_can_carry_a_user():
    """All label names there are; those that vary within a process take values from fixed lists or
    from the topology.
    """
    metrics = [made(role) for role in ("perturb", "collect")]
    for each in metrics:
        each.guarantee(GUARANTEE)
    names = {
        label
        for each in metrics
        for family in each.registry.collect()
        for sample in family.samples
        for label in sample.labels
    }
    assert names == OWN_LABELS
    reasons = {
        sample.labels["reason"]
        for each in metrics
        for family in each.registry.collect()
        for sample in family.samples
        if "reason" in sample.labels
    }
    assert reasons == {*Reason, *Dropped}


def test_counters_are_there_before_the_first_count_and_gauges_are_not():
    """A first dead letter is an increase, not a new series; a watermark of zero would be 1970."""
    shown = samples(made())
    assert (
        shown["ldp_dead_letters_total{reason=not_json}"]
        == shown["ldp_refused_total"]
        == shown["ldp_step_seconds_count"]
        == 0
    )
    assert "ldp_watermark_timestamp_seconds" not in shown
    metrics = made()
    metrics.count(output({"watermark": -1}))
    assert "ldp_watermark_timestamp_seconds" not in samples(metrics)


def test_progress_is_that_of_the_slowest_partition():
    """Neither of two partitions hides the other."""
    metrics, other = made(), made("collect")
    for partition, time in ((0, 5_000), (1, 3_000), (0, 9_000)):
        metrics.count(output({"watermark": time, "reports_waiting": 2 * time}), partition)
        other.count(output({"closed": time // 1000}), partition=partition)
        metrics.spent(250_000 * (1 + partition), 1_000_000, partition)
    assert (
        samples(metrics)["ldp_watermark_timestamp_seconds"]
        == samples(other)["ldp_closed_slot"]
        == 3
    )
    assert samples(metrics)["ldp_spent_ratio"] == 0.5
    assert samples(metrics)["ldp_waiting_reports"] == 24_000  # of both: it is an amount


@cases("role", ["perturb", "curate"])
def test_windows_are_counted_by_their_setting(role):
    """So are releases; where there are no windows the label is empty, which is as if it were not
    there.
    """
    for setting in SETTINGS:
        metrics = Metrics("meters", role, "capp", setting=setting)
        metrics.count(output({"windows": 4, "releases": 9}))
        shown = samples(metrics)
        assert shown[f"ldp_windows_total{{setting={setting}}}"] == 4
        assert shown[f"ldp_releases_total{{setting={setting}}}"] == 9
    assert samples(made(role))["ldp_windows_total"] == 0
    with pytest.raises(ConfigurationError, match="setting must be one of batch, sliding"):
        Metrics("meters", role, "capp", setting="poison")


def test_the_longest_lag_of_windows_is_shown():
    """Of the windows that closed last in each partition, and at the edge alone."""
    metrics = made("curate")
    assert "ldp_window_lag_seconds" not in samples(metrics)
    for lag, partition in ((90.0, 0), (60.0, 1), (30.0, 0)):
        metrics.window(lag, partition)
    assert samples(metrics)["ldp_window_lag_seconds"] == 60
    metrics.revoked()
    assert "ldp_window_lag_seconds" not in samples(metrics)
    with pytest.raises(InvariantError, match="collect role has no metric ldp_window_lag"):
        made("collect").window(1.0)


def test_what_is_revoked_is_forgotten():
    """What another worker has now is no longer shown here; what was counted and what is promised
    is.
    """
    metrics = made()
    metrics.guarantee(GUARANTEE)
    metrics.slots(250, 24)
    metrics.started(1_760_000_000.5)
    metrics.outage(7.5)
    metrics.count(output(PERTURB), 1)
    metrics.lag(10)
    metrics.idle(1, 2.0)
    metrics.partitions(2)
    assert samples(metrics)["ldp_watermark_timestamp_seconds"] == 1.5
    metrics.revoked()
    shown = samples(metrics)
    gauges = {
        family.name
        for family in metrics.registry.collect()
        if family.type == "gauge" and family.samples
    }
    assert gauges == {
        "ldp_partitions",
        "ldp_guarantee_info",
        "ldp_slot_seconds",
        "ldp_hop_slots",
        "ldp_outage_seconds",
        "ldp_start_timestamp_seconds",
    }
    assert shown["ldp_start_timestamp_seconds"] == 1_760_000_000.5
    assert shown["ldp_outage_seconds"] == 7.5
    assert (shown["ldp_slot_seconds"], shown["ldp_hop_slots"]) == (0.25, 24)
    assert shown["ldp_partitions"] == 0
    assert shown["ldp_events_total"] == 7
    metrics.count(output({"watermark": 20_000}), 0)
    assert samples(metrics)["ldp_watermark_timestamp_seconds"] == 20


def test_the_rest_of_what_a_worker_says():
    """Steps, snapshots, releases, assignment."""
    metrics = made("collect")
    metrics.step(0.002)
    metrics.step(0.02)
    metrics.snapshot(0.5, 1000)
    metrics.snapshot(0.25, 500)
    metrics.release(600, 0.25, 12.5)
    metrics.partitions(2)
    metrics.release(500, [0.25, 0.5, 0.125], 2.5)
    metrics.lag(7)
    metrics.idle(1, 2.0)
    shown = samples(metrics)
    metrics.release(500, [None, 0.25, None], 2.5)
    assert samples(metrics)["ldp_release_standard_error"] == 0.25
    assert (shown["ldp_step_seconds_count"], shown["ldp_step_seconds_sum"]) == (
        2,
        pytest.approx(0.022),
    )
    assert shown["ldp_step_seconds_bucket{le=0.0025}"] == 1
    assert (
        shown["ldp_snapshot_seconds_count"],
        shown["ldp_snapshot_seconds_sum"],
        shown["ldp_snapshot_bytes_total"],
    ) == (2, 0.75, 1500)
    assert (
        shown["ldp_release_reports"],
        shown["ldp_release_standard_error"],
        shown["ldp_release_lag_seconds"],
    ) == (500, 0.5, 2.5)
    names = ("partitions", "lag_messages", "idle_partitions", "idle_seconds")
    assert [shown[f"ldp_{name}"] for name in names] == [2, 7, 1, 2.0]


def test_a_release_without_reports_has_no_standard_error():
    """The last one's is not left standing beside it."""
    metrics = made("collect")
    metrics.release(10, 0.25, 1.0)
    metrics.release(0, None, 1.0)
    assert samples(metrics)["ldp_release_reports"] == 0
    assert "ldp_release_standard_error" not in samples(metrics)


def test_the_epsilon_that_is_shown_is_true():
    """Rounded up, as wherever a guarantee is printed."""
    metrics = made("perturb")
    metrics.guarantee(GUARANTEE._replace(epsilon=1.2345601))
    assert any("epsilon=1.23457," in name for name in samples(metrics))


def test_the_guarantee_is_one_series():
    """A second one replaces the first; none at all reads as infinite."""
    metrics = made()
    metrics.guarantee(GUARANTEE)
    metrics.guarantee(GUARANTEE._replace(epsilon=inf, calibration="published"))
    shown = {
        name: value for name, value in samples(metrics).items() if name.startswith("ldp_guarantee")
    }
    labels = "level=w-event,epsilon=inf,window=10,calibration=published,protects=values"
    assert shown == {f"ldp_guarantee_info{{{labels}}}": 1}


def test_an_unknown_role_is_refused():
    """It would show half of the metrics."""
    with pytest.raises(ConfigurationError, match="perturb, curate, collect"):
        made("pertub")


def test_a_given_registry_is_used():
    """And two processes' worth of metrics do not meet in one."""
    registry = CollectorRegistry()
    assert Metrics("meters", "perturb", "capp", registry).registry is registry
    assert made().registry is not made().registry


def test_import_makes_nothing():
    """No metric in the default registry, no thread; and the package itself does not need the
    client.
    """
    code = """if True:
        import sys, threading
        import ldp_kafka
        assert "prometheus_client" not in sys.modules
        import ldp_kafka.metrics
        from prometheus_client import REGISTRY
        assert not [family.name for family in REGISTRY.collect() if family.name.startswith("ldp")]
        assert threading.active_count() == 1
    """
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_no_other_module_imports_the_client():
    """One door."""
    root = Path(ldp_kafka.__file__).parent
    users = {
        path.relative_to(root).parts[0]
        for path in root.rglob("*.py")
        if re.search(r"^\s*(from|import) prometheus_client", path.read_text(), re.MULTILINE)
    }
    assert users == {"metrics"}
