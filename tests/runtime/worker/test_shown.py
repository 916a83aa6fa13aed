"""What a worker's metrics show of the releases that it has sent."""

from __future__ import annotations

import time
from types import SimpleNamespace

from ldp_kafka.metrics import Metrics
from ldp_kafka.runtime.log import Output
from ldp_kafka.runtime.stages.releases import publisher
from ldp_kafka.runtime.wire.dead_letters import DeadLetters
from ldp_kafka.runtime.worker.app import Worker
from ldp_kafka.runtime.worker.diary import Diary
from ldp_kafka.topology import loads
from tests.cases import cases

TEXT = """\
topology: meters
input: {slot: 1h}
privacy: {method: sw_direct, epsilon: 4.0, window: 4, domain: [0, 10]}
output: {statistics: [mean], events: {above: 4}}
"""


def shown(metrics, name):
    """The one value of a metric; None where it is not shown."""
    found = [
        sample.value
        for family in metrics.registry.collect()
        for sample in family.samples
        if sample.name == name
    ]
    return found[0] if found else None


def test_an_event_hides_nothing_of_the_release_beside_it():
    """It has no standard error of its own, and the release's stays."""
    made = loads(TEXT)
    metrics = Metrics("meters", "collect", "sw_direct")
    worker = SimpleNamespace(
        topology=made,
        metrics=metrics,
        producers=SimpleNamespace(send=lambda _: None),
        releases=True,
        diary=Diary("meters", "collect"),
    )
    answers = made.method.blank(50)
    folded = Output(DeadLetters("dead", "partials", 0))
    folded.send(*publisher(made).of_slot(5, made.method.support(answers).tolist()))
    assert len(folded.records) == 2
    Worker.send(worker, 0, folded, 0.0)
    assert shown(metrics, "ldp_release_reports") == 50
    assert shown(metrics, "ldp_release_standard_error") > 0


WINDOWS = """\
topology: shops
input: {slot: 1h}
privacy:
  {trust: TRUST, level: event, method: naive, epsilon: 1.0, delay: 4, setting: batch,
   domain: [0, 10]}
output: {statistics: [STATISTIC]}
"""


@cases(
    ("trust", "statistic", "role"),
    [("curator", "per_stream", "curate"), ("edge", "per_user", "perturb")],
)
def test_the_lag_of_windows_is_that_of_the_earliest_slot_they_released(
    trust, statistic, role, monkeypatch
):
    """Counted from the slot's end; a fold in which no window closed leaves it as it is."""
    made = loads(WINDOWS.replace("TRUST", trust).replace("STATISTIC", statistic))
    metrics = Metrics("shops", role, "naive", setting=made.setting)
    sent = SimpleNamespace(send=lambda _: None)
    worker = SimpleNamespace(topology=made, metrics=metrics, producers=sent, releases=False)
    worker.diary = Diary("shops", role)
    monkeypatch.setattr(time, "time", lambda: made.slot_start(100) / 1000 + 7.5)
    for slots in ((), (97, 95, 96), ()):
        folded = Output(DeadLetters("dead", "raw", 0))
        for slot in slots:
            folded.released(slot)
        Worker.send(worker, 0, folded, 0.0)
    assert shown(metrics, "ldp_window_lag_seconds") == 4 * 3600 + 7.5
