"""What a role is allowed, asked at its start: what is said, and when nothing is asked."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AclOperation

from ldp_kafka.errors import BrokerError, ConfigurationError
from ldp_kafka.runtime.brokers.embedded import EmbeddedBroker
from ldp_kafka.runtime.kafka import rights
from ldp_kafka.runtime.kafka.rights import check_rights, check_sides
from ldp_kafka.topology import Access, Right, access, loads, read_principals
from ldp_kafka.topology import acls as acls_of

ONE = """
topology: m
kafka: {bootstrap_servers: 'a:1'}
input: {slot: 1h}
privacy: {method: sw_direct, epsilon: 1.0, window: 10, domain: [0, 100]}
output: {statistics: [mean]}
"""
TWO = ONE.replace(
    "{bootstrap_servers: 'a:1'}",
    "{edge: {bootstrap_servers: 'a.invalid:1'}, collector: {bootstrap_servers: 'b.invalid:1'}}",
)
CONFIGS = {
    "edge": {"bootstrap.servers": "127.0.0.1:1"},
    "collector": {"bootstrap.servers": "127.0.0.1:2"},
}


@pytest.fixture
def brokers(monkeypatch):
    """What brokers answer: ids of clusters by address, and what is not what a role needs."""
    ids, differs = {"127.0.0.1:1": "A", "127.0.0.1:2": "B"}, {}
    monkeypatch.setattr(rights, "cluster_of", lambda config, *_: ids[config["bootstrap.servers"]])

    def allowed(_, wanted, __):
        needed = {right[:2]: frozenset(right.operations) for right in wanted.rights}
        hidden = {("topic", name): frozenset() for name in wanted.must_not_read}
        return {**needed, **hidden, **differs}

    monkeypatch.setattr(rights, "_allowed", allowed)
    return ids, differs


def test_nothing_is_said_of_what_is_in_order(brokers):
    for text in (ONE, TWO):
        made = loads(text)
        assert [check_rights(made, role, CONFIGS) for role in made.roles] == [[], []]


def test_everything_that_is_missing_is_said_at_once(brokers):
    _, differs = brokers
    made = loads(TWO)
    differs |= {
        ("topic", "m.raw"): frozenset({"READ"}),
        ("group", "m-perturb"): frozenset(),
        ("topic", "m.reports"): frozenset({"DESCRIBE"}),
    }
    with pytest.raises(ConfigurationError) as caught:
        check_rights(made, made.role("perturb"), CONFIGS)
    edge, collector = str(caught.value).splitlines()
    assert "as kafka.edge logs in: it lacks DESCRIBE_CONFIGS on topic m.raw; READ on group" in edge
    assert "at 127.0.0.1:2 what it has to, as kafka.collector logs in" in collector
    assert "WRITE, DESCRIBE_CONFIGS on topic m.reports" in collector
    assert "--acls --principal collector=User:NAME" in collector


def test_what_is_not_there_yet_is_not_missing(brokers):
    """Whoever makes it finds out."""
    _, differs = brokers
    made = loads(TWO)
    differs |= {("topic", "m.raw"): None, ("group", "m-perturb"): None}
    assert check_rights(made, made.role("perturb"), CONFIGS) == []


@pytest.mark.parametrize("right", ["READ", "DESCRIBE"])
@pytest.mark.parametrize("at", range(3))
def test_a_collector_that_can_read_the_edges_topics(brokers, at, right):
    """A warning with one block, an error with two, which name the topic. To describe a topic is
    enough: its offsets tell how many raw messages there were.
    """
    _, differs = brokers
    made = loads(TWO)
    name = access(made)[-1].must_not_read[at]
    differs["topic", name] = frozenset({right})
    with pytest.raises(
        ConfigurationError, match=f"the collect role can read or describe {name} at 1"
    ):
        check_rights(made, made.role("collect"), CONFIGS)
    one = loads(ONE)
    (said,) = check_rights(one, one.role("collect"), CONFIGS)
    assert said.startswith(f"the collect role can read or describe {name} at 127.0.0.1:2,")
    differs["topic", name] = frozenset({"CREATE"})
    assert check_rights(made, made.role("collect"), CONFIGS) == []


def test_two_addresses_of_one_cluster(brokers):
    """Without a login it is one side; with two logins it is two; one block was never two."""
    ids, _ = brokers
    ids["127.0.0.1:2"] = "A"
    with pytest.raises(ConfigurationError, match="are one cluster, and neither has a login"):
        check_sides(loads(TWO), CONFIGS)
    sasl = "security.protocol: SASL_SSL, sasl.username"
    logins = TWO.replace("a.invalid:1'", f"a.invalid:1', client: {{{sasl}: u}}")
    for text in (logins, ONE):
        check_sides(loads(text), CONFIGS)
    check_sides(loads(TWO), {"collector": CONFIGS["collector"]})
    ids["127.0.0.1:2"] = "B"
    check_sides(loads(TWO), CONFIGS)


def test_the_embedded_broker_is_not_asked():
    """It would not answer; a start neither waits nor says anything."""
    made = loads(ONE)
    with EmbeddedBroker() as broker:
        config = {"bootstrap.servers": broker.bootstrap_servers, "log_level": 0}
        configs = {"edge": config, "collector": config}
        assert [check_rights(made, role, configs, timeout=2) for role in made.roles] == [[], []]
        found = acls_of(made, read_principals(["edge=User:e"]))
        with pytest.raises(ConfigurationError, match="is an embedded broker: it has no ACLs"):
            rights.grant(made, found, configs)


def test_no_broker_is_the_usual_error():
    made = loads(ONE)
    config = {"bootstrap.servers": "127.0.0.1:1"}
    with pytest.raises(BrokerError, match=r"127.0.0.1:1 gave no good answer about its cluster"):
        check_rights(made, made.role("collect"), {"collector": config}, timeout=1)


def test_no_password_is_shown():
    found = rights.Cluster({"sasl.password": "hidden-word"}, None, "id")
    assert "hidden" not in repr(found)


def test_a_coordinator_that_is_only_just_made():
    """On a fresh broker the first question about a group finds none: it is asked again."""
    answers = [KafkaException(KafkaError(KafkaError.NOT_COORDINATOR)), None]

    class Client:
        def describe_consumer_groups(self, groups, **_):
            future, error = Future(), answers.pop(0)
            if error is None:
                future.set_result(SimpleNamespace(authorized_operations=[AclOperation.READ]))
            else:
                future.set_exception(error)
            return dict.fromkeys(groups, future)

    wanted = Access("", "", "", (Right("group", "g", ("READ",)),))
    found = rights._allowed(rights.Cluster({}, Client(), "id"), wanted, 5)
    assert found == {("group", "g"): frozenset({"READ"})} and not answers
