"""`lk.decode` takes what lies in a topology's topics, but for state and for what users write."""

from __future__ import annotations

import json

import pytest

import ldp_kafka as lk
from ldp_kafka.errors import BadRecord, Reason
from ldp_kafka.runtime import local, roles
from ldp_kafka.runtime.keys import edge_randomness
from ldp_kafka.runtime.replay.messages import as_log, messages
from ldp_kafka.runtime.replay.source import from_arrays
from ldp_kafka.runtime.wire.records import header
from ldp_kafka.topology import loads
from tests.runtime.test_same_bytes import KEY, START, untidy

PLAIN = """
topology: meters
input: {slot: 1h, lateness: 0, partitions: 2}
privacy: {method: sw_direct, domain: [0, 100], epsilon: 2.0, window: 4}
output: {statistics: [mean, per_user]}
"""
TOPOLOGIES = {
    "crowd and users": PLAIN,
    "coordinator": PLAIN.replace("sw_direct", "lba").replace("mean, per_user", "mean"),
    "curator": """
topology: shops
input: {slot: 1h, partitions: 1}
privacy:
  {trust: curator, level: event, method: naive, domain: [0, 100], epsilon: 2.0, delay: 4}
output: {statistics: [per_stream]}
""",
}


def written(topology):
    """By topic, what the stages of a topology write of one raw log with bad records in it."""
    values = [[10.0 * (user + slot) % 100 for slot in range(8)] for user in range(12)]
    log = as_log(topology, messages(topology, from_arrays(topology, values, START), 3), 1)
    noise = edge_randomness(topology, KEY, "here")
    run = local.run(topology, noise, untidy(log, 1))
    found = [*run.partials, *run.releases, *run.dead_letters, *run.requests]
    found += [record for part in run.reports for record in part]
    if topology.flow.sums is not None:
        merge = roles.make(topology, "merge", 0)
        found += merge.fold(merge.fresh(), local.log(run.partials)).records
    by_topic: dict[str, list[local.Record]] = {}
    for record in found:
        by_topic.setdefault(record.topic, []).append(record)
    return by_topic, run


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_everything_that_lies_in_the_topics_is_decoded(name):
    """Every record of every topic of ours, but changelogs; the collector's dead letters are made of
    another topology's reports.
    """
    topology = loads(TOPOLOGIES[name])
    found, run = written(topology)
    if topology.flow.reports is not None:
        other = loads(TOPOLOGIES[name].replace("epsilon: 2.0", "epsilon: 3.0"))
        collect = roles.make(other, "collect", 0)
        foreign = local.log(found[topology.reports_topic])
        letters = collect.fold(collect.fresh(), foreign).records
        found[topology.collector_dead_letters_topic] = [
            each for each in letters if each.topic == topology.collector_dead_letters_topic
        ]
    state = {role.changelog(agent.name) for role in topology.roles for agent in role.agents}
    wanted = {topic.name for topic in topology.topics()} - state - {topology.raw_topic}
    assert found.keys() == wanted
    kinds = {
        "releases": lk.Release,
        "reports": lk.Report,
        "requests": lk.Request,
        "partials": lk.Partial,
        "sums": lk.Sums,
        "dead-letters": lk.DeadLetter,
    }
    for topic, records in found.items():
        kind = kinds[topic.rpartition(".")[2]]
        every = [one for record in records for one in lk.decode(record.value)]
        assert every and {type(one) for one in every} == {kind}, topic
        begins = header(topology.name, topology.fingerprint, topology.layout)
        assert lk.decode(begins) == []
    if run.raw:  # a coordinator's requests lie between the values
        controls = [message.value for log in run.raw for message in log if message.value]
        decoded = [lk.decode(value) for value in controls if b'"request"' in value]
        assert decoded and all(type(one) is lk.Request for [one] in decoded)


def test_a_dead_letter_says_where_and_why():
    """The same as its headers, and nothing of the record."""
    topology = loads(PLAIN)
    records = written(topology)[0][topology.dead_letters_topic]
    for record in records:
        [letter] = lk.decode(record.value)
        headers = {name: value.decode() for name, value in record.headers}
        assert headers == {
            "__connect.errors.topic": letter.topic,
            "__connect.errors.partition": str(letter.partition),
            "__connect.errors.offset": str(letter.offset),
            "ldp.row": str(letter.row),
            "ldp.reason": str(letter.reason),
        }
        assert isinstance(letter.reason, Reason)
        assert lk.encode(letter) == record.value
        assert list(json.loads(record.value)) == [
            *("ldp_kafka", "type", "topic", "partition", "offset", "row", "reason")
        ]
    assert len({lk.decode(record.value)[0].reason for record in records}) > 2


@pytest.mark.parametrize(
    "wrong", [{"reason": "because"}, {"reason": None}, {"offset": -1}, {"row": True}, {"topic": 3}]
)
def test_what_is_no_dead_letter(wrong):
    good = {"topic": "t", "partition": 0, "offset": 1, "row": 2, "reason": "user"}
    mark = {"ldp_kafka": 1, "type": "dead_letter"}
    assert lk.decode(json.dumps(mark | good).encode()) == [lk.DeadLetter("t", 0, 1, 2, Reason.USER)]
    with pytest.raises(BadRecord) as raised:
        lk.decode(json.dumps(mark | good | wrong).encode())
    assert raised.value.reason == Reason.WRONG_FIELDS


def test_what_users_write_is_not_ours():
    """Their fields are the topology's to read."""
    with pytest.raises(BadRecord) as raised:
        lk.decode(b'{"meter_id": "m1", "kwh": 2.5, "ts": 1700000000}')
    assert raised.value.reason == Reason.NOT_A_RECORD
