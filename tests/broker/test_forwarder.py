"""The forwarder on a real broker, in processes that are killed, stopped and woken, and with logins
that lack a right.
"""

from __future__ import annotations

import os
import signal
import time
from itertools import pairwise
from pathlib import Path

import pytest

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.runtime.kafka.rights import check_rights
from ldp_kafka.runtime.kafka.setup import client_config, prepare
from ldp_kafka.topology import Right, access, load
from tests.broker.alone import Alone
from tests.broker.cluster import Cluster
from tests.broker.flow import KEY
from tests.broker.requests import PARTITIONS, TEXT, Copier, ask, asked, in_order, waiting
from tests.broker.secured import secured_broker
from tests.broker.watching import until

LONG = 120  # seconds


class Place(Alone):
    """A topology on a broker, and processes that do nothing but forward."""

    def __init__(self, boot: str, folder: Path, name: str) -> None:
        (folder / "edge.key").write_bytes(KEY)
        (folder / "edge.key").chmod(0o600)
        super().__init__(folder / f"{name}.yaml", "forward")
        self.path.write_text(TEXT.format(name=name, boot=boot, key="edge.key", session="6s"))
        self.topology = load(self.path)
        prepare(self.topology)
        self.config = {"bootstrap.servers": boot, "log_level": 0}

    def ask(self, *slots: int) -> None:
        ask(self.topology, self.config, *slots)

    def asked(self) -> list[list[int]]:
        return asked(self.topology, self.config)

    def done(self) -> bool:
        return waiting(self.topology, self.config) == 0


@pytest.fixture
def place(kafka, tmp_path, prefix):
    with Place(kafka, tmp_path, prefix) as made:
        yield made


def test_killed_between_partitions_again_and_again(place):
    """Each process writes some records, none of which it can commit, or some of which it did; the
    last one lives. Every partition has every request, in order, and repeats only of whole runs.
    """
    place.ask(*range(10))
    written = 0
    for dies in (1, 2, PARTITIONS, 2 * PARTITIONS + 1):
        process = place.start(dies)
        assert process.wait(LONG) == -signal.SIGKILL
        written += dies
        place.ask(10 + written)
    assert sum(map(len, place.asked())) == written
    survivor = place.start()
    until(place.done, LONG)
    found = place.asked()
    slots = in_order(found[0])
    assert len(slots) == 14 and slots[:10] == list(range(10))
    assert [in_order(each) for each in found] == [slots] * PARTITIONS
    survivor.terminate()
    assert survivor.wait(60) == 0


def test_the_other_goes_on_where_one_was_killed(place):
    """Two in a group: the one at work dies between partitions, the other repeats what was not
    committed, and goes on.
    """
    one = place.start()
    place.ask(1, 2)
    until(place.done, LONG)
    one.send_signal(signal.SIGSTOP)  # it does not leave: its session has to end
    two = place.start(2 * PARTITIONS + 1)
    place.ask(3, 4, 5)
    assert two.wait(LONG) == -signal.SIGKILL
    assert not place.done()
    three = place.start()
    until(place.done, LONG)
    found = place.asked()
    assert [in_order(each) for each in found] == [[1, 2, 3, 4, 5]] * PARTITIONS
    assert any(len(each) > 5 for each in found)
    # woken, it may still be given what the broker had sent to it before its session was over
    one.send_signal(signal.SIGCONT)
    place.ask(6)
    until(place.done, LONG)
    time.sleep(2)
    for before, each in zip(found, place.asked(), strict=True):
        assert each[: len(before)] == before
        assert list(dict.fromkeys(each)) == [1, 2, 3, 4, 5, 6]
    for process in (one, three):
        process.terminate()
        assert process.wait(60) == 0


def test_a_zombie_repeats_and_takes_nothing_back(place):
    """Stopped between partitions, and woken when another has forwarded all: what it still had to
    say comes late, once for each partition. The first of each slot stay in their order.
    """
    place.ask(*range(100))
    stopped = 50 * PARTITIONS + 1
    zombie = place.start(stopped, signal.SIGSTOP)
    until(lambda: sum(map(len, place.asked())) == stopped, LONG)
    other = place.start()
    until(place.done, LONG)
    before = [in_order(each) for each in place.asked()]
    assert before == [list(range(100))] * PARTITIONS
    zombie.send_signal(signal.SIGCONT)
    until(lambda: sum(map(len, place.asked())) >= 2 * 100 * PARTITIONS, LONG)
    place.ask(*range(100, 120))
    until(place.done, LONG)
    for each in place.asked():
        assert list(dict.fromkeys(each)) == list(range(120))
    for process in (zombie, other):
        process.terminate()
        assert process.wait(60) == 0


def test_a_broker_that_is_away_for_a_while(can_start, tmp_path, prefix):
    """The forwarder waits, and goes on; it has neither ended nor lost anything."""
    with Cluster(tmp_path / "kafka") as cluster, Place(cluster.boot, tmp_path, prefix) as place:
        with Copier(place.topology, place.config) as copier:
            place.ask(1)
            until(place.done, LONG)
            cluster.away("ended", 12)  # longer than its session
            place.ask(2, 3)
            until(place.done, LONG)
            assert not copier.ended
        assert [in_order(each) for each in place.asked()] == [[1, 2, 3]] * PARTITIONS


@pytest.fixture(scope="module")
def secured(can_start, tmp_path_factory):
    with secured_broker(tmp_path_factory.mktemp("secured")) as made:
        yield made


@pytest.fixture(scope="module")
def flow(secured, tmp_path_factory):
    """A topology with two logins, whose topics and rights are those that `ldp-kafka topics`
    makes.
    """
    folder = tmp_path_factory.mktemp("asks")
    (folder / "edge.key").write_bytes(KEY)
    (folder / "edge.key").chmod(0o600)
    text = TEXT.format(name=f"asks-{os.getpid()}", boot="BOOT", key="edge.key", session="6s")
    path = folder / "asks.yaml"
    path.write_text(text.replace("kafka: {bootstrap_servers: BOOT}\n", secured.block()))
    secured.ready(path)
    return load(path)


RIGHTS = [
    ("collector", Right("topic", ".requests", ("READ",))),
    ("collector", Right("group", "-forward", ("READ",))),
    ("edge", Right("topic", ".raw", ("WRITE",))),
]


def sides(flow) -> tuple[dict, dict]:
    """Client settings of the collector's cluster and of the edge's."""
    collector, edge = (
        {**client_config(flow, side), "log_level": 0} for side in ("collector", "edge")
    )
    return collector, edge


def test_it_forwards_with_exactly_its_rights(flow, secured):
    """Those that the ACLs of the topology give, each login at its own cluster; the collector's has
    none on the raw topic.
    """
    everywhere = {"bootstrap.servers": secured.plain[0], "log_level": 0}
    mine = [each for each in access(flow) if each.role == "perturb"]
    given = {(each.login, right) for each in mine for right in each.rights}
    name = flow.name
    assert ("collector", Right("topic", f"{name}.requests", ("READ", "DESCRIBE_CONFIGS"))) in given
    assert ("collector", Right("group", f"{name}-forward", ("READ",))) in given
    both = Right("topic", f"{name}.raw", ("READ", "WRITE", "DESCRIBE_CONFIGS"))
    assert ("edge", both) in given
    assert not any(
        right.name == flow.raw_topic
        for each in access(flow)
        for right in each.rights
        if each.login == "collector"
    )
    configs = dict(zip(("collector", "edge"), sides(flow), strict=True))
    assert check_rights(flow, flow.role("perturb"), configs) == []
    assert [prepare(flow, role=role) for role in flow.roles] == [[], [], []]
    with Copier(flow, *sides(flow)) as copier:
        ask(flow, everywhere, 1, 2)
        until(lambda: waiting(flow, everywhere) == 0, LONG)
    assert not copier.ended
    assert [each[-2:] for each in asked(flow, everywhere)] == [[1, 2]] * PARTITIONS


@pytest.mark.parametrize(("login", "right"), RIGHTS, ids=str)
def test_each_right_that_is_missing_is_named_at_the_start(flow, secured, login, right):
    right = right._replace(name=flow.name + right.name)
    configs = dict(zip(("collector", "edge"), sides(flow), strict=True))
    with secured.without(login, right), pytest.raises(ConfigurationError) as caught:
        check_rights(flow, flow.role("perturb"), configs)
    assert f"{right.resource} {right.name}" in str(caught.value)
    assert f"kafka.{login}" in str(caught.value)


@pytest.mark.parametrize(("login", "right"), RIGHTS, ids=str)
def test_a_right_that_is_taken_away_ends_it(flow, secured, login, right):
    """It says which, and does not say: start me again."""
    right = right._replace(name=flow.name + right.name)
    everywhere = {"bootstrap.servers": secured.plain[0], "log_level": 0}
    last = max(max(each, default=10) for each in asked(flow, everywhere))
    with Copier(flow, *sides(flow)) as copier:
        ask(flow, everywhere, last + 1)
        until(lambda: waiting(flow, everywhere) == 0, LONG)
        with secured.without(login, right):
            ask(flow, everywhere, last + 2)
            until(lambda: copier.ended, LONG)
    (told,) = copier.ended
    assert isinstance(told, ConfigurationError) and right.name in str(told)
    with Copier(flow, *sides(flow)) as again:
        until(lambda: waiting(flow, everywhere) == 0, LONG)
    assert not again.ended
    for each in asked(flow, everywhere):
        first = list(dict.fromkeys(each))
        assert first[-2:] == [last + 1, last + 2]
        assert all(a < b for a, b in pairwise(first))
