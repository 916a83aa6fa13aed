"""The newest messages of a topic, on the embedded broker: nothing is left behind."""

from __future__ import annotations

import json
import time
from contextlib import nullcontext

import pytest
from confluent_kafka import Producer

from ldp_kafka.cli import main
from ldp_kafka.errors import BrokerError, ConfigurationError
from ldp_kafka.runtime.brokers.embedded import EmbeddedBroker
from ldp_kafka.runtime.kafka import admin
from ldp_kafka.runtime.sample import topic
from ldp_kafka.runtime.sample.topic import newest, read_parts
from ldp_kafka.topology import load, loads
from tests.cases import cases
from tests.runtime.sample.made import event

TEXT = """
topology: meters
kafka: {{bootstrap_servers: "{address}"}}
input: {{slot: 1h, user: $.meter, value: $.kwh, time: $.ts, topic: theirs, create: false{more}}}
privacy: {{method: sw_direct, epsilon: 2.0, window: 4, domain: [0, 10]}}
output: {{statistics: [mean]}}
"""


@pytest.fixture(scope="module")
def address():
    """A broker whose topic ``theirs`` has 30 messages in partition 0 and 3 in partition 1."""
    with EmbeddedBroker() as broker:
        broker.create_topic("theirs", 2)
        broker.create_topic("empty", 2)
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        for at in range(30):
            producer.produce("theirs", event(f"a{at}", ts=int(time.time())), partition=0)
        for one in (event("b"), None, event("b", ts=int(time.time()) + 10**6)):
            producer.produce("theirs", one, partition=1)
        assert producer.flush(10) == 0
        yield broker.bootstrap_servers


def made(address, more="", **words):
    return TEXT.format(address=address, more=more, **words)


@cases(
    ("held", "number", "wanted"),
    [
        ({0: (0, 100), 1: (0, 100)}, 10, {0: (95, 100), 1: (95, 100)}),
        ({0: (0, 100), 1: (98, 100), 2: (5, 5)}, 10, {0: (92, 100), 1: (98, 100)}),
        ({0: (3, 4), 1: (7, 9)}, 10, {0: (3, 4), 1: (7, 9)}),
        ({0: (0, 9), 1: (0, 9), 2: (0, 9)}, 1, {0: (8, 9)}),
        ({0: (0, 0)}, 5, {}),
    ],
)
def test_the_last_offsets_of_each_partition(held, number, wanted):
    """As many of each as there are, and no more in all than asked for."""
    assert newest(held, number) == wanted


def test_messages_come_with_their_places_and_leave_no_trace(address):
    """The newest ones of each partition, in their order, tombstones too; nothing is committed."""
    steps = []
    found = read_parts(loads(made(address)), 8, patience=10, progress=steps.append)
    assert [part.partition for part in found] == [0, 1]
    assert [[message.offset for message in part.messages] for part in found] == [
        list(range(25, 30)),
        [0, 1, 2],
    ]
    assert json.loads(found[0].messages[-1].value)["meter"] == "a29"
    assert found[1].messages[1].value is None
    assert found[1].place(found[1].messages[1].offset) == "partition 1 offset 1"
    assert all(message.timestamp > 0 for part in found for message in part.messages)
    assert steps[0] == 0
    config = {"bootstrap.servers": address}
    assert admin.committed(config, "ldp_kafka.reader", "theirs", [0, 1]) == {0: None, 1: None}


@pytest.mark.parametrize(("gaps", "code"), [("strict", 1), ("allow", 0)])
def test_what_a_transaction_leaves_is_said(address, monkeypatch, tmp_path, capsys, gaps, code):
    """At the end of a partition, or in it: a worker would end there, whatever the messages are."""
    real = topic.read_records

    def read(*words, **more):
        return (each for each in real(*words, **more) if each[:2] not in ((0, 29), (1, 1)))

    monkeypatch.setattr(topic, "read_records", read)
    path = tmp_path / "t.yaml"
    path.write_text(made(address, f", gaps: {gaps}"))
    ask = ["validate", str(path), "--from-topic", "100", "--max-bad", "1"]
    assert main(ask) == code
    said = capsys.readouterr().out
    assert ("theirs partition 0: no record is at offset 29" in said) is bool(code)
    assert ("theirs partition 1: no record is at offset 1:" in said) is bool(code)
    assert ("set input.gaps: allow" in said) is bool(code)
    assert main([*ask, "--json"]) == code
    assert len(json.loads(capsys.readouterr().out)[0]["sample"]["wrong"]) == 2 * code


@cases(
    ("more", "refused"),
    [
        ("", True),
        (", gaps: allow", True),
        (", relay: true", True),
        (", relay: true, gaps: allow", False),
        (", relay: rekey, sources: 2, partitions: 5", True),
        (", relay: rekey, sources: 2, partitions: 5, gaps: allow", False),
    ],
)
def test_a_compacted_topic_is_said(address, monkeypatch, more, refused):
    """It is read through a copy alone."""
    settings = {"cleanup.policy": "compact,delete"}
    monkeypatch.setattr("ldp_kafka.runtime.kafka.holes.settings_of", lambda *_: settings)
    text = made(address, more)
    text = text.replace(", create: false", "") if "relay" in more else text
    with (
        pytest.raises(ConfigurationError, match="theirs is compacted: set input")
        if refused
        else nullcontext()
    ):
        read_parts(loads(text), 8, patience=10)


def test_what_cannot_be_read(address):
    """No topic, none with a message, other partitions than the topology says, no broker."""
    for text, wrong in (
        (made(address).replace("theirs", "nobodys"), "there is no topic nobodys"),
        (made(address).replace("theirs", "empty"), "empty holds no message: there is none to try"),
        (
            made(address, ", partitions: 3"),
            "theirs has 2 partitions, and input.partitions says 3: set it to 2",
        ),
        (
            made(address, ", relay: rekey, sources: 3, partitions: 2"),
            "theirs has 2 partitions, and input.sources says 3: set it to 2",
        ),
    ):
        with pytest.raises(ConfigurationError, match=wrong):
            read_parts(loads(text), 8, patience=10)


def test_a_broker_that_says_nothing_is_given_up(address, monkeypatch):
    """After the time that was asked for."""
    later = {0: (0, 0), 1: (0, 5)}  # two more than there are
    monkeypatch.setattr("ldp_kafka.runtime.sample.topic.spans", lambda *_: later)
    begin = time.monotonic()
    with pytest.raises(BrokerError, match="theirs: nothing came for 1 s"):
        read_parts(loads(made(address)), 10**6, patience=1)
    assert time.monotonic() - begin < 15


def test_the_command_line(address, tmp_path, capsys):
    """The raw topic as a worker reads it: the timestamps are those of the records."""
    path = tmp_path / "t.yaml"
    path.write_text(made(address))
    assert load(path).input.topic == "theirs"
    assert main(["validate", str(path), "--from-topic", "100"]) == 1
    said = capsys.readouterr().out
    assert "theirs, newest messages: 33 messages, 31 of them with events; 2 would be dead" in said
    assert "1 x empty: " in said and "at partition 1 offset 1\n" in said
    assert "1 x ahead: " in said and "at partition 1 offset 2\n" in said
    assert main(["validate", str(path), "--from-topic", "100", "--max-bad", "0.1", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["sample"]["events"], found["sample"]["bad"]) == (31, 2)
    assert main(["validate", str(path), "--from-topic", "1", "--timeout", "soon"]) == 2
    assert "a duration must be" in capsys.readouterr().err


def test_a_topic_keyed_by_bike_is_refused(tmp_path, capsys):
    """Members lie in up to four partitions: their number is said, that of no pairs, and the exit
    code is 1, whatever --max-bad says.
    """
    now = int(time.time())
    with EmbeddedBroker() as broker:
        broker.create_topic("theirs", 4)
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        for member in range(100):
            for at in range(1 + member % 4):
                producer.produce("theirs", event(f"m{member}", ts=now), partition=at)
        assert producer.flush(10) == 0
        path = tmp_path / "bikes.yaml"
        path.write_text(made(broker.bootstrap_servers, more=", partitions: 4"))
        ask = ["validate", str(path), "--from-topic", "1000", "--max-bad", "1"]
        assert main(ask) == 1
        out = capsys.readouterr().out
        assert "75 of 100 ids lie in more than one partition" in out
        assert "input.partitioning: murmur2" in out
        assert main([*ask, "--json"]) == 1
        assert json.loads(capsys.readouterr().out)[0]["sample"]["users"]["split"] == 75
        rekeyed = made(broker.bootstrap_servers, more=", relay: rekey, sources: 4, partitions: 3")
        path.write_text(rekeyed)
        assert main(ask) == 0, "re-keyed, each is in one"
