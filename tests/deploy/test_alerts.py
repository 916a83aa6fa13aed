"""Each alert fires on its fault, in slots of a second, an hour and a day, and on nothing else."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import NamedTuple

import pytest
from ruamel.yaml import YAML

from tests import needs
from tests.deploy.healthy import DAY, HOP, HOUR, SHAPES, Series, Shape, healthy, notation
from tests.deploy.test_prometheus import PROGRAMS, check

ROOT = Path(__file__).parents[2]
ALERTS = ROOT / "deploy" / "alerts.yml"
RULES = {
    rule["alert"]: rule
    for group in YAML(typ="safe").load(ALERTS.read_text())["groups"]
    for rule in group["rules"]
}
MINUTE = 60


@pytest.fixture(scope="session")
def promtool() -> str:
    return needs.program("promtool", how=PROGRAMS)


class Fault(NamedTuple):
    """What goes wrong with one series, from ``begin`` on.

    Parameters
    ----------
    series : the beginning of the name, with its labels as far as they tell it apart
    value : what it is then: a number, or more than before, or as it stood
    quiet, fires : seconds after ``begin`` at which it must not fire yet, and at which it must
    clears : at which it must not any more; None: it goes on
    """

    series: str
    value: str
    quiet: int
    fires: int
    clears: int | None = None


def counted(series: str, shape: Shape) -> Fault:
    """One more: an alert at once, for two slots, and 15 minutes at least."""
    lasts = {1: 15 * MINUTE, HOUR: 2 * HOUR, DAY: 2 * DAY}[shape.slot]
    return Fault(series, "+5", -shape.step, lasts - 2 * shape.step, lasts + 3 * shape.step)


def lasting(series: str, value: str, shape: Shape, after: int, hold: int) -> Fault:
    """It has to last: not after that, but with what the rule waits beyond it."""
    return Fault(series, value, after - shape.step, after + hold + 3 * shape.step)


def faults(shape: Shape) -> dict[str, Fault]:
    """One of each alert, by its name; with an ending where there are two."""
    slots = 3 * shape.slot
    # from when the last batch came, just before it begins
    lag = {1: 0, HOUR: HOUR, DAY: DAY}[shape.slot] - 3 * shape.step
    still = {1: 900, HOUR: 4 * HOUR, DAY: 4 * DAY}[shape.slot]
    return {
        "LdpCalibrationNotSound": Fault(
            "ldp_guarantee_info{perturb", 'calibration="published"', -shape.step, shape.step
        ),
        "LdpBudgetExceeded": Fault("ldp_spent_ratio", "1.01", -shape.step, shape.step),
        "LdpSecondReports": counted("ldp_second_reports_total", shape),
        "LdpRefused": counted("ldp_refused_total", shape),
        "LdpWorkerDown": Fault('up{job="ldp-kafka",instance="p"', "0", 0, 120 + 2 * shape.step),
        "LdpBrokersAway": Fault("ldp_outage_seconds{perturb", "121", -shape.step, shape.step),
        # another moment at each sample: five are too many
        "LdpRestarts": Fault(
            "ldp_start_timestamp_seconds{perturb", "since", 4 * shape.step, 5 * shape.step
        ),
        "LdpDeadLetters": counted("ldp_dead_letters_total{perturb", shape),
        "LdpDeadLetters at the collector": counted("ldp_dead_letters_total{collect", shape),
        "LdpRequestsDropped": counted('ldp_requests_dropped_total{ahead"', shape),
        "LdpUnanswered": counted("ldp_unanswered_total", shape),
        "LdpUnanswered, overdue": counted("ldp_overdue_total", shape),
        "LdpRequestsRefused": counted("ldp_requests_refused_total", shape),
        "LdpRelayHeldBack": lasting(
            "ldp_relay_held_back_seconds", "since", shape, max(600, slots), 5 * MINUTE
        ),
        "LdpRelayDropped": counted("ldp_relay_dropped_total", shape),
        "LdpWatermarkStuck": lasting(
            "ldp_watermark_timestamp_seconds", "stuck", shape, still - shape.slot, shape.slot + 900
        ),
        "LdpWatermarkStuck, ahead": lasting(
            "ldp_watermark_timestamp_seconds",
            f"{shape.length + 4 * shape.slot + 1800}",
            shape,
            still - shape.slot,
            shape.slot + 900,
        ),
        "LdpPartitionIdle": lasting(
            "ldp_idle_seconds{perturb", "since", shape, max(300, slots), 2 * MINUTE
        ),
        "LdpPartitionIdle in windows": lasting(
            "ldp_idle_seconds{collect", "since", shape, max(300, (HOP + 2) * shape.slot), 2 * MINUTE
        ),
        "LdpLag": lasting("ldp_lag_messages{perturb", "40000", shape, lag, 20 * MINUTE),
    }


def test_every_alert_has_a_fault():
    assert {name.split()[0].strip(",") for name in faults(SHAPES["1h"])} == RULES.keys()


def broken(series: Series, shape: Shape, fault: Fault, begin: int) -> Series:
    """The same with the fault."""
    wanted, *labels = fault.series.split("{")
    (name,) = (
        each
        for each in series
        if each.startswith(wanted) and all(label in each for label in labels)
    )
    made = {each: list(samples) for each, samples in series.items()}
    at = begin // shape.step
    if "=" in fault.value:  # another label is another series
        other = re.sub(r'calibration="\w+"', fault.value, name)
        made[other] = [None] * at + made[name][at:]
        made[name][at:] = [None] * len(made[name][at:])
        return made
    for index in range(at, len(made[name])):
        time, before = index * shape.step, series[name][index]
        made[name][index] = {
            "+5": lambda before=before: None if before is None else before + 5,
            "since": lambda time=time: time - begin,
            "stuck": lambda: made[name][at - 1],
        }.get(fault.value, lambda: float(fault.value))()
    return made


def case(name: str, shape: Shape, series: Series, checks: list[tuple[str, int, set[str]]]):
    """One of promtool's tests: at each time, which alerts the query gives."""
    return {
        "name": name,
        "interval": f"{shape.step}s",
        "input_series": [
            {"series": each, "values": notation(samples)} for each, samples in series.items()
        ],
        "promql_expr_test": [
            {
                "expr": f"count by (alertname) (count by (alertname) ({query}))",
                "eval_time": f"{time}s",
                "exp_samples": [
                    {"labels": f'{{alertname="{each}"}}', "value": 1} for each in sorted(names)
                ],
            }
            for query, time, names in checks
        ],
    }


FIRING = 'ALERTS{alertstate="firing"}'


def run(promtool: str, folder: Path, shape: Shape, cases: list) -> None:
    rules = {
        "rule_files": [str(ALERTS)],
        "evaluation_interval": f"{shape.step}s",
        "tests": cases,
    }
    (folder / "test.yml").write_text(json.dumps(rules))
    check(promtool, "test", "rules", str(folder / "test.yml"))


@pytest.mark.parametrize("slot", SHAPES)
def test_nothing_fires_where_all_is_well(promtool, tmp_path, slot):
    """A day and more of hourly batches, ten of daily ones, hours of seconds; through a restart."""
    shape = SHAPES[slot]
    end = shape.times[-1]
    ever = f"last_over_time({FIRING}[{end}s])"
    run(promtool, tmp_path, shape, [case("well", shape, healthy(shape), [(ever, end, set())])])


@pytest.mark.parametrize("slot", SHAPES)
def test_each_alert_fires_on_its_fault_and_on_no_other(promtool, tmp_path, slot):
    """Not before it must, by when it must, alone, and not for longer than it must."""
    shape = SHAPES[slot]
    series, cases = healthy(shape), []
    begin = 3 * shape.length // 10 // shape.step * shape.step
    begin = (shape.last(begin) or begin) // shape.step * shape.step + 2 * shape.step
    for name, fault in faults(shape).items():
        alert = name.split()[0].strip(",")
        assert begin + max(fault.fires, fault.clears or 0) < shape.length, name
        checks = [(fault.quiet, set()), (fault.fires, {alert})]
        checks += [] if fault.clears is None else [(fault.clears, set())]
        # at samples, since Prometheus forgets one after five minutes
        checks = [
            (
                FIRING,
                begin + (after // shape.step + bool(names and after % shape.step)) * shape.step,
                names,
            )
            for after, names in checks
        ]
        cases.append(case(name, shape, broken(series, shape, fault, begin), checks))
    run(promtool, tmp_path, shape, cases)


def test_each_alert_has_its_section_in_the_runbook():
    """In the order of the rules, where its pointer leads to, with something to do."""
    parts = re.split(r"^## ", (ROOT / "deploy" / "runbook.md").read_text(), flags=re.MULTILINE)[1:]
    sections = {part.partition("\n")[0]: part for part in parts}
    assert list(sections) == list(RULES)
    for name, rule in RULES.items():
        assert rule["annotations"]["runbook"] == f"deploy/runbook.md#{name.lower()}"
        assert "\n1. " in sections[name], name
