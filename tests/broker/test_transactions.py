"""A raw topic that somebody writes in transactions, or has compacted, on a real broker: it is named
wherever somebody looks, and `input.gaps: allow` reads it.
"""

from __future__ import annotations

import json
import time

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from ldp_kafka.cli import main
from ldp_kafka.runtime.kafka.holes import check_ends
from ldp_kafka.runtime.kafka.reader import read_records
from ldp_kafka.runtime.status import foreign
from tests.broker.asking import configure
from tests.broker.flow import TEXT, Flow
from tests.broker.relays import event
from tests.broker.test_made_anew import theirs
from tests.broker.watching import until

THEIRS = TEXT.replace("input:\n", "input:\n  create: false\n  gaps: {gaps}\n")
USERS = 10


class Theirs:
    """Their producer, which writes both partitions."""

    def __init__(self, flow: Flow) -> None:
        self.topic = flow.topology.input.topic
        name = {"transactional.id": flow.topology.name}
        self.producer = Producer({"bootstrap.servers": flow.boot, **name})
        self.producer.init_transactions()

    def begin(self, slot: int) -> None:
        """A transaction with events of a slot, which stays open."""
        self.producer.begin_transaction()
        for number in range(USERS):
            for partition in range(2):
                made = event(slot, f"u{partition}-{number}", value=50)
                self.producer.produce(self.topic, made, partition=partition)
        self.producer.flush(20)

    def write(self, *slots: int) -> None:
        """A transaction for each slot."""
        for slot in slots:
            self.begin(slot)
            self.producer.commit_transaction()


@pytest.fixture
def flow(kafka, tmp_path, prefix):
    """A topology over a topic of somebody else's, in which nothing may be missing."""
    with Flow(kafka, tmp_path, prefix, text=THEIRS, ready=theirs, gaps="strict") as made:
        yield made


def said(capsys, *words):
    """The exit code, and what a command prints."""
    capsys.readouterr()
    code = main([*words])
    out, err = capsys.readouterr()
    return code, out if "--json" in words else out + err


def names_the_way_out(text):
    """Whether it says what it is, and what to do."""
    return "written by transactions" in text and "set input.gaps: allow" in text


def test_it_is_said_before_anything_is_read(flow, capsys):
    """By whoever runs, looks, or tries messages; no restart would help."""
    Theirs(flow).write(*range(4))
    worker = flow.start("perturb")
    assert worker.wait(60) == 2
    assert names_the_way_out(flow.log_path.read_text())
    assert len(flow.read(flow.topology.reports_topic)) == 2  # headers
    code, text = said(capsys, "status", str(flow.path))
    assert code == 1 and names_the_way_out(text), text
    code, text = said(capsys, "status", str(flow.path), "--json")
    assert json.loads(text)["input"]["hole"][1] > 0
    code, text = said(capsys, "validate", str(flow.path), "--from-topic", "100")
    assert code == 1 and names_the_way_out(text), text


def test_it_is_said_at_the_first_gap(flow):
    """Where the topic was empty when the worker began: at once, and not after thirty reads."""
    worker = flow.start("perturb")
    until(lambda: "perturb ready" in flow.log_path.read_text())
    Theirs(flow).write(*range(4))
    begin = time.monotonic()
    assert worker.wait(30) == 2
    assert time.monotonic() - begin < 20
    assert names_the_way_out(flow.log_path.read_text())


@pytest.mark.parametrize("relay", [True, False])
def test_what_it_advises_reads_the_topic(kafka, tmp_path, prefix, relay, capsys):
    """What was committed is reported on, once; `status` and `validate` find nothing wrong."""
    more = "  gaps: allow\n  create: false\n"
    if relay:
        more = "  topic: {name}.theirs\n  relay: true\n  gaps: allow\n"
    text = TEXT.replace("input:\n", "input:\n" + more)
    with Flow(kafka, tmp_path, prefix, text=text, ready=theirs) as flow:
        Theirs(flow).write(*range(6))
        flow.start("collect"), flow.start("perturb")
        until(lambda: len(flow.read(flow.topology.releases_topic)) >= 3)
        code, text = said(capsys, "status", str(flow.path))
        assert code == 0 and "transactions" not in text, text
        code, text = said(capsys, "validate", str(flow.path), "--from-topic", "100")
        assert code == 0, text


@pytest.mark.parametrize("relay", [True, False])
def test_an_open_transaction_is_named(kafka, tmp_path, prefix, relay, capsys, monkeypatch):
    """It keeps from readers what is behind it, also of other producers. Once it has ended all is
    well.
    """
    more = "  gaps: allow\n  create: false\n"
    if relay:
        more = "  topic: {name}.theirs\n  relay: true\n  gaps: allow\n"
    text = TEXT.replace("input:\n", "input:\n" + more)
    monkeypatch.setattr(foreign, "LONG", 0)
    with Flow(kafka, tmp_path, prefix, text=text, ready=theirs) as flow:
        producer = Theirs(flow)
        producer.write(0, 1)
        flow.start("collect"), flow.start("perturb")
        until(lambda: "collect ready" in flow.log_path.read_text())
        until(lambda: len(flow.read(flow.topology.reports_topic)) > 2)  # behind both headers
        producer.begin(2)
        code, text = said(capsys, "status", str(flow.path), "--json")
        found = json.loads(text)
        assert (code, found["waits_for"]["rule"]) == (0, "transaction"), found["waits_for"]
        opened = found["input"]["open_transactions"]
        assert [(each["partition"], each["behind"]) for each in opened] == [(0, USERS), (1, USERS)]
        producer.producer.commit_transaction()
        code, text = said(capsys, "status", str(flow.path), "--json")
        assert json.loads(text)["waits_for"]["rule"] != "transaction"


def test_an_open_transaction_holds_no_reader_of_ours_up(flow):
    """Who reads a topic up to its end reads up to what is open: it need not end."""
    producer = Theirs(flow)
    producer.write(0)
    producer.begin(1)
    config, begin = {"bootstrap.servers": flow.boot}, time.monotonic()
    assert len(list(read_records(config, producer.topic))) == 2 * USERS
    assert time.monotonic() - begin < 10
    producer.producer.abort_transaction()


def test_a_topic_without_transactions_is_whole(flow):
    """Also where it is empty."""
    config, topic = {"bootstrap.servers": flow.boot}, flow.topology.input.topic
    check_ends(config, topic)
    producer = Producer(config)
    producer.produce(topic, b"x", partition=1)
    assert producer.flush(10) == 0
    check_ends(config, topic)


def test_a_compacted_topic_is_named(flow, capsys):
    """Its policy says so before anything is missing."""
    producer = Producer({"bootstrap.servers": flow.boot})
    producer.produce(flow.topology.input.topic, event(0), b"k", 0)
    assert producer.flush(10) == 0
    client = AdminClient({"bootstrap.servers": flow.boot})
    configure(client, flow.topology.input.topic, "cleanup.policy", "compact")
    worker = flow.start("perturb")
    assert worker.wait(60) == 2
    for text in (
        flow.log_path.read_text(),
        (wrong := said(capsys, "status", str(flow.path)))[1],
        (tried := said(capsys, "validate", str(flow.path), "--from-topic", "9"))[1],
    ):
        assert "set input.gaps: allow" in text and "input.relay as well" in text, text
    assert (wrong[0], tried[0]) == (1, 2)
