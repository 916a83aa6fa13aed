"""What a worker's metrics show of the releases that it has sent."""

from __future__ import annotations

from types import SimpleNamespace

from ldp_kafka.metrics import Metrics
from ldp_kafka.runtime.log import Output
from ldp_kafka.runtime.stages.releases import publisher
from ldp_kafka.runtime.wire.dead_letters import DeadLetters
from ldp_kafka.runtime.worker.app import Worker
from ldp_kafka.topology import loads

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
    )
    answers = made.method.blank(50)
    folded = Output(DeadLetters("dead", "partials", 0))
    folded.send(*publisher(made).of_slot(5, made.method.support(answers).tolist()))
    assert len(folded.records) == 2
    Worker.send(worker, 0, folded, 0.0)
    assert shown(metrics, "ldp_release_reports") == 50
    assert shown(metrics, "ldp_release_standard_error") > 0
