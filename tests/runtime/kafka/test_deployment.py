"""One topology and one key in two places: nothing that leaves them tells equal values."""

from __future__ import annotations

import numpy as np
import pytest

from ldp_kafka.errors import BrokerError, ConfigurationError, StateError
from ldp_kafka.randomness import Ids
from ldp_kafka.records import Events
from ldp_kafka.runtime import local
from ldp_kafka.runtime.brokers.embedded import EmbeddedBroker
from ldp_kafka.runtime.brokers.run_files import publish
from ldp_kafka.runtime.kafka import deployment
from ldp_kafka.runtime.kafka.deployment import read_deployment
from ldp_kafka.runtime.keys import edge_randomness
from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.wire.codec import encode
from ldp_kafka.runtime.wire.reports import read_reports
from ldp_kafka.topology import loads

KEY = bytes(range(5, 37))
USERS, SLOTS, SLOT = 500, 8, 60_000
START = 1_700_000_040_000
TEXT = """
topology: meters
kafka: {{bootstrap_servers: "{boot}"}}
input: {{topic: raw, slot: 60s, lateness: 0, partitions: 1}}
privacy: {{method: sw_direct, epsilon: 1.0, window: 4, domain: [0, 100]}}
output: {{statistics: [mean, per_user]}}
edge: {{deployment: {deployment}}}
"""


def reports(deployment):
    """{id: value} and the pseudonyms of one crowd at one place."""
    topology = loads(TEXT.format(boot="127.0.0.1:1", deployment="null"))
    names = Ids.of([f"m{i}" for i in range(USERS)])
    log = [
        Message(
            slot + 1,
            -1,
            encode(Events(names, np.full(USERS, START + slot * SLOT), np.full(USERS, 50.0))),
        )
        for slot in range(SLOTS)
    ]
    noise = edge_randomness(topology, KEY, deployment)
    found, series = {}, set()
    for record in local.run(topology, noise, [log]).reports[0]:
        for report in read_reports(record.value).singles():
            found[report.id] = report.value
            series.add(report.series)
    return found, series


def test_equal_values_are_not_told_by_equal_reports():
    """No id and no pseudonym comes twice; equal reports are no more than chance gives. The same
    deployment gives the same bytes.
    """
    eu, of_eu = reports("eu")
    us, of_us = reports("us")
    assert len(eu) == len(us) == USERS * SLOTS
    assert not eu.keys() & us.keys()
    assert not of_eu & of_us
    same = np.array(list(eu.values())) == np.array(list(us.values()))
    assert same.mean() < 0.01  # of some two thousand outputs none has a thousandth
    assert reports("eu") == (eu, of_eu)


def test_each_embedded_broker_is_a_deployment_of_its_own(tmp_path, monkeypatch):
    """Its run file says which, to all processes; without one the topology must."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    seen = set()
    for _ in range(2):
        with EmbeddedBroker() as broker:
            broker.create_topic("raw", 1)
            topology = loads(TEXT.format(boot=broker.bootstrap_servers, deployment="null"))
            config = {"bootstrap.servers": broker.bootstrap_servers}
            with pytest.raises(ConfigurationError, match=r"edge\.deployment must say"):
                read_deployment(topology, config)
            written = loads(TEXT.format(boot=broker.bootstrap_servers, deployment="here"))
            assert read_deployment(written, config) == "/here"
            publish("meters", broker)
            seen.add(read_deployment(topology, config))
            assert read_deployment(topology, config) in seen
            seen.add(read_deployment(written, config))
            with pytest.raises(BrokerError, match="no topic other"):
                read_deployment(topology, config, "other")
    assert len(seen) == 4


@pytest.mark.parametrize("more", ["", ", relay: true"])
def test_it_is_the_topic_that_holds_the_values(more, monkeypatch):
    """A relay's own log can be made anew, and gets the same values once more: under another id they
    would be drawn again.
    """
    text = TEXT.replace("partitions: 1", f"partitions: 1{more}")
    topology = loads(text.format(boot="127.0.0.1:1", deployment="null"))
    monkeypatch.setattr(deployment, "_topic_id", lambda name, config, topic, timeout: topic)
    assert topology.raw_topic == ("meters.edge" if more else "raw")
    assert read_deployment(topology, {}) == "raw/"


def test_a_topic_that_was_made_anew_is_told_while_a_worker_runs(monkeypatch):
    """A client that got no answer asks no more: it may have lost its brokers for good."""
    topology = loads(TEXT.format(boot="127.0.0.1:1", deployment="here"))
    made, answers = [], ["first", "first", BrokerError("away"), "first", "second"]

    def describe(config, client, topic, timeout):
        assert (client, topic) == (made[-1], "raw")
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def client(config):
        made.append(object())
        return made[-1]

    monkeypatch.setattr(deployment, "AdminClient", client)
    monkeypatch.setattr(deployment, "cluster_of", lambda *_: "a real one")
    monkeypatch.setattr(deployment, "_described", describe)
    raw = deployment.RawTopic(topology, {}, "first/here")
    raw.check(), raw.check()
    with pytest.raises(BrokerError):
        raw.check()
    assert len(made) == 1
    raw.check()
    with pytest.raises(StateError, match="the raw topic was made anew"):
        raw.check()
    assert len(made) == 2


def test_an_embedded_broker_is_not_asked():
    """Its topics have no ids, and none is ever deleted."""
    with EmbeddedBroker() as broker:
        topology = loads(TEXT.format(boot=broker.bootstrap_servers, deployment="here"))
        config = {"bootstrap.servers": broker.bootstrap_servers}
        deployment.RawTopic(topology, config, "whatever").check()


def test_the_key_check_and_the_context_tell():
    """Two deployments are two keys, as far as a state can tell."""
    topology = loads(TEXT.format(boot="127.0.0.1:1", deployment="null"))
    noises = [edge_randomness(topology, KEY, name) for name in ("eu", "us", "")]
    assert len({noise.check for noise in noises}) == 3
    assert [noise.deployment for noise in noises] == ["eu", "us", ""]
