"""On a real broker with TLS, SASL and an authorizer: every role works with exactly the rights that
``topics --acls --apply`` makes, names each that it lacks, and a collector that can read what is the
edge's is refused.
"""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer

import ldp_kafka as lk
from ldp_kafka.cli import main
from ldp_kafka.errors import ConfigurationError, LdpKafkaError
from ldp_kafka.records import Request
from ldp_kafka.runtime.kafka.rights import check_rights
from ldp_kafka.runtime.kafka.setup import client_config
from ldp_kafka.runtime.wire.records import encode_json
from ldp_kafka.topology import Right, access, loads
from tests.broker.asking import Reader
from tests.broker.flow import KEY, TEXT, Flow
from tests.broker.forks import Life
from tests.broker.secured import PRINCIPALS, Secured, secured_broker

OF_TOPIC = loads(
    "topology: t\ninput: {slot: 60s, idle: 5s}\n"
    "privacy: {method: capp, epsilon: 1.0, window: 3, domain: [0, 1]}\n"
    "output: {statistics: [mean]}\n"
)
RIGHTS = [
    (each.role, each.login, Right(right.resource, right.name.removeprefix("t"), (operation,)))
    for each in access(OF_TOPIC)
    for right in each.rights
    for operation in right.operations
]
"""(role, login, right) of every single right, without the topology's name."""


@pytest.fixture(scope="module")
def secured(can_start, tmp_path_factory):
    with secured_broker(tmp_path_factory.mktemp("secured")) as made:
        yield made


def new(secured: Secured, tmp: Path, name: str, **more) -> Flow:
    text = more.pop("text", secured.text()).replace("lateness: 1", "lateness: 1\n  idle: 5s")
    return Flow(
        secured.plain[0],
        tmp,
        name,
        text=text,
        ready=lambda topology, _: secured.ready(topology.file),
        **more,
    )


@pytest.fixture(scope="module")
def flow(secured, tmp_path_factory):
    """A topology with all rights; no worker runs."""
    name = "test-rights-" + random.SystemRandom().randbytes(6).hex()
    made = new(secured, tmp_path_factory.mktemp("rights"), name)
    yield made
    made.close()


def ended(flow: Flow, role: str) -> tuple[int, str]:
    """What a role ends with that cannot start, and what it says."""
    before = flow.log_path.stat().st_size
    process = flow.start(role)
    try:
        code = process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        code = None
    flow.workers.clear()
    return code, flow.log_path.read_bytes()[before:].decode(errors="replace")


def fold(flow: Flow, slots: int = 6) -> None:
    """Slots of values, and a judge over all that came of them."""
    rnd = random.Random(1)
    for t in range(slots):
        flow.slot(rnd, t, 60)
    flow.finish(slots)
    verdict = flow.settled()
    flow.stop()
    assert verdict.clean and verdict.reports > 200 and verdict.releases > 5, verdict


@pytest.mark.parametrize(
    ("role", "login", "right"), RIGHTS, ids=[f"{role} {right}" for role, _, right in RIGHTS]
)
def test_each_right_that_is_missing_is_named(flow, secured, role, login, right):
    right = right._replace(name=flow.topology.name + right.name)
    with secured.without(login, right):
        code, said = ended(flow, role)
    assert code == 2, said
    # a login without READ or WRITE may not even DESCRIBE the topic: then it lacks all of it
    assert re.search(rf"{right.operations[0]}[A-Z_, ]* on {right.resource} {right.name}\b", said)
    assert f"kafka.{login}" in said and "--acls" in said
    assert "secret" not in said


def test_two_sides_with_exactly_their_rights(flow, secured, tmp_path, capsys):
    """To the releases, and what is refused above is refused for want of one right; none of the
    passwords is in a log. With the same logins `status` says what each may know.
    """
    flow.start("perturb")
    # The collector's own copy of the file has no way to the edge: another port, and a password
    # that it is not told
    text = flow.path.read_text()
    other = tmp_path / "collector.yaml"
    assert "  edge:\n    client: {" in text
    other.write_text(
        text.replace(
            "  edge:\n    client: {",
            "  edge:\n    bootstrap_servers: localhost:1\n    client: {",
        ).replace("edge-secret", '"${LDP_KAFKA_TEST_EDGE_PASSWORD}"')
    )
    words = [sys.executable, "-m", "ldp_kafka", "run", str(other), "--role", "collect"]
    flow.workers.append(
        (
            "collect",
            subprocess.Popen(
                words, stdout=flow.log, stderr=flow.log, cwd=Path(__file__).parents[2]
            ),
        )
    )
    fold(flow)
    assert "secret" not in flow.log_path.read_text()
    letters = Producer({"bootstrap.servers": secured.plain[0]})
    letters.produce(flow.topology.dead_letters_topic, b"one")
    assert letters.flush(10) == 0
    both, mine = status(flow.path, capsys), status(other, capsys)
    assert [each["brokers"] for each in both["brokers"]] == [1, 1]
    assert both["waits_for"]["rule"] == "workers"
    assert all(each["fits"] for each in both["topics"])
    assert [each["why"] for each in both["groups"]] == [None, None]
    assert all(each["events"] for each in both["input"]["partitions"])
    # neither side has to read what it writes there: how many there are it may know
    edge, collector = both["dead_letters"]
    assert edge["total"] == 1 and edge["reasons"] == [] and "authoriz" in edge["why"].lower()
    assert collector["total"] == 0
    for found in (both, mine):
        assert found["releases"]["total"] > 5 and found["releases"]["slot"] is None
        assert "authoriz" in found["releases"]["why"].lower()
        assert found["releases"]["passed"] > found["releases"]["first"]
    edge, _ = mine["brokers"]
    assert "LDP_KAFKA_TEST_EDGE_PASSWORD" in edge["not_asked"]
    assert {each["side"] for each in mine["topics"]} == {"collector"}
    assert [each["role"] for each in mine["groups"]] == ["collect"]
    assert all(each["messages"] is None for each in mine["input"]["partitions"])
    assert all(each["closed"] is not None for each in mine["input"]["partitions"])


def status(path: Path, capsys) -> dict:
    """What the command prints; no password."""
    capsys.readouterr()
    assert main(["status", str(path), "--json"]) == 1  # no worker runs
    said = capsys.readouterr()
    assert "secret" not in said.out + said.err
    return json.loads(said.out)


def test_no_right_is_idle(flow):
    """Those that are taken away above are all that there are."""
    given = {
        (role, login, flow.topology.name + right.name, right.operations)
        for role, login, right in RIGHTS
    }
    assert given == {
        (each.role, each.login, right.name, (operation,))
        for each in access(flow.topology)
        for right in each.rights
        for operation in right.operations
    }


@pytest.mark.parametrize(
    ("at", "operation"), [(0, "READ"), (1, "READ"), (2, "READ"), (0, "DESCRIBE")]
)
def test_a_collector_that_can_read_what_is_the_edges(flow, secured, at, operation):
    """The raw topic, the edge's changelog, or its dead letters."""
    (mine,) = [each for each in access(flow.topology) if each.must_not_read]
    assert {*mine.must_not_read} == {
        flow.topology.raw_topic,
        flow.topology.changelog("perturb", "perturb"),
        flow.topology.dead_letters_topic,
    }
    name = mine.must_not_read[at]
    right = Right("topic", name, (operation,))
    secured.grant("collector", right)
    try:
        code, said = ended(flow, "collect")
    finally:
        secured.take("collector", right)
    assert code == 2 and f"the collect role can read or describe {name} " in said, said
    assert "Take the rights to READ and to DESCRIBE it away" in said


@pytest.mark.parametrize(
    ("role", "right"),
    [
        ("perturb", Right("topic", ".reports", ("WRITE",))),
        ("perturb", Right("topic", ".raw", ("READ",))),
        ("perturb", Right("group", "-perturb", ("READ",))),
    ],
    ids=str,
)
def test_a_right_that_is_taken_from_a_worker(flow, secured, role, right):
    """It ends, names it, and does not say: start me again."""
    right = right._replace(name=flow.topology.name + right.name)
    process = flow.start(role)
    rnd = random.Random(2)
    flow.slot(rnd, 20, 60)
    flow.until_acknowledged()
    before = flow.log_path.stat().st_size
    login = "collector" if right.name == flow.topology.reports_topic else "edge"
    with secured.without(login, right):
        flow.slot(rnd, 21, 60)
        code = process.wait(60)
    flow.workers.clear()
    said = flow.log_path.read_bytes()[before:].decode(errors="replace")
    assert code == 2, said[-2000:]
    assert right.name in said, said[-2000:]


@pytest.mark.parametrize(
    ("password", "user"), [("wrong-word", "collector"), ("collector-secret", "nobody")]
)
def test_a_login_that_is_refused(secured, flow, tmp_path, password, user):
    """A wrong password, an unknown user: a clear error without the password, and no long wait."""
    path = tmp_path / "other.yaml"
    text = flow.path.read_text()
    path.write_text(
        text.replace("collector-secret", password).replace(
            "username: collector", f"username: {user}"
        )
    )
    process = subprocess.run(
        [sys.executable, "-m", "ldp_kafka", "run", str(path), "--role", "collect"],
        capture_output=True,
        text=True,
        timeout=30,
        cwd=Path(__file__).parents[2],
        check=False,
    )
    assert process.returncode == 2, process.stderr
    assert "it refuses this login" in process.stderr
    assert f"localhost:{secured.port}" in process.stderr
    assert password not in process.stderr


def test_one_cluster_at_two_addresses(secured, tmp_path, prefix, capsys):
    """Nobody logs in, and only the broker knows that both are one: nothing is made, nothing runs.
    With one block for both it is a warning, as on a laptop.
    """
    key = tmp_path / "edge.key"
    key.write_bytes(KEY)
    key.chmod(0o600)
    here, there = secured.plain
    shape = {"method": "capp", "shape": "domain: [0.0, 100.0]", "statistics": "mean"}
    shape |= {"partitions": 1, "key": key, "session": "6s", "name": prefix}
    path = tmp_path / "two.yaml"
    sides = f"kafka: {{edge: {{bootstrap_servers: '{here}'}}, collector: {{bootstrap_servers: '"
    two = TEXT.replace("kafka:\n  bootstrap_servers: {boot}\n", "KAFKA\n").format(**shape)
    path.write_text(two.replace("KAFKA", f"{sides}{there}'}}}}"))
    for words in (["topics"], ["run", "--role", "perturb"], ["run"]):
        assert main([words[0], str(path), *words[1:]]) == 2
        said = capsys.readouterr().err
        assert "are one cluster, and neither has a login" in said
        assert here in said and there in said
    one = tmp_path / "one.yaml"
    one.write_text(TEXT.format(boot=here, **shape))
    assert prefix not in str(secured.admin.list_topics(timeout=10).topics)
    assert main(["topics", str(one)]) == 0
    # now that there is something to read, a collector that knows its own side alone sees it
    assert main(["run", str(path), "--role", "collect"]) == 2
    assert f"can read or describe {prefix}.raw; {prefix}.dead-letters" in capsys.readouterr().err
    words = ["run", str(one), "--role", "collect", "--until-idle", "1s"]
    process = Life(words, log := tmp_path / "one.log")
    assert process.wait(60) == 0, log.read_text()
    (line,) = [line for line in log.read_text().splitlines() if " rights: " in line]
    assert f"the collect role can read or describe {prefix}.raw; {prefix}.dead-letters" in line


def test_who_may_not_grant(secured, flow, capsys):
    """Each side as itself has no right to give any, nor to make a topic."""
    assert main(["topics", str(flow.path), "--acls", *PRINCIPALS, "--apply"]) == 2
    said = capsys.readouterr().err
    assert "CLUSTER_AUTHORIZATION_FAILED" in said and "the ACLs of" in said


def of_devices(secured: Secured, tmp: Path, name: str, method: str) -> Path:
    """A topology of devices with all rights: its file."""
    text = secured.text().split("input:")[0].format(name=name)
    path = tmp / "devices.yaml"
    path.write_text(
        f"{text}input: {{source: devices, slot: 60s, partitions: 1}}\n"
        "output: {statistics: [mean]}\n"
        f"privacy: {{method: {method}, epsilon: 1.0, window: 3, domain: [0.0, 100.0]}}\n"
    )
    secured.ready(path)
    return path


def test_devices_with_exactly_their_right(secured, tmp_path, prefix):
    """They may only write their topic: a device is provisioned, and its report arrives."""
    path = of_devices(secured, tmp_path, prefix, "capp")
    files = {"database": tmp_path / "device.db", "key_file": tmp_path / "device.key"}
    lk.Client.provision(path, **files)
    with lk.Client(path, user="meter", **files) as client:
        client.report(41.5)
        assert client.flush(20) == 0
    made = lk.load_topology(path)
    # the header record and the report
    assert len(Reader(secured.plain[0], made.reports_topic).read(10)) == 2
    config = client_config(made, "collector")
    assert check_rights(made, made.role("collect"), {"collector": config}) == []
    (right,) = access(made)[0].rights
    with secured.without("edge", right), pytest.raises(LdpKafkaError, match=made.reports_topic):
        files = {"database": tmp_path / "other.db", "key_file": tmp_path / "other.key"}
        lk.Client.provision(path, **files)
    assert not (tmp_path / "other.key").exists()


def test_devices_that_are_asked_with_exactly_their_rights(secured, tmp_path, prefix):
    """They read requests too, in no group that they could join; one that may not is told so."""
    path = of_devices(secured, tmp_path, prefix, "lba")
    made, files = (
        lk.load_topology(path),
        {"database": tmp_path / "device.db", "key_file": tmp_path / "device.key"},
    )
    lk.Client.provision(path, **files)
    slot = 28_000_000
    asked = encode_json(Request(f"{slot}/1", slot, 1, 300_000, slot + 4))
    producer = Producer({"bootstrap.servers": secured.plain[0]})
    producer.produce(made.requests_topic, asked, partition=0)
    assert producer.flush(20) == 0
    until = time.time() + 30
    with lk.Client(path, user="meter", **files) as client:
        while client._answers.last < slot:
            assert time.time() < until, client.problem
            client.poll(0.2)
        client.report(41.5, (slot + 1) * 60_000)
        asked = asked.replace(str(slot).encode(), str(slot + 1).encode())
        assert client.answer(asked) == 1
        assert client.flush(20) == 0
    # the header record and both reports
    assert len(Reader(secured.plain[0], made.reports_topic).read(10)) == 3
    _, reads = access(made)[0].rights
    assert reads.name == made.requests_topic
    with (
        secured.without("edge", reads),
        pytest.raises(ConfigurationError, match=r"may not READ topic .*\.requests"),
        lk.Client(path, user="meter", **files) as client,
    ):
        until = time.time() + 30
        while time.time() < until:
            client.poll(0.2)
