"""What clients of one cluster are set to."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.runtime.worker.health_rules import STUCK
from ldp_kafka.runtime.worker.side import MAX_POLL_MS, Side
from ldp_kafka.topology import KafkaSide
from ldp_kafka.topology.sections import frozen


def side(**client):
    named = {name.replace("_", "."): value for name, value in client.items()}
    return Side(KafkaSide("b:1", frozen(named)), "b:1")


def member(of, *, session_ms=45_000, read_committed=False):
    return of.member("group", session_ms=session_ms, read_committed=read_committed)


def test_a_member_of_a_group_is_a_client_that_librdkafka_makes():
    """It knows every name, and its session is shorter than the patience of its polls."""
    for session_ms in (6000, 45_000, 1_800_000):
        made = member(side(client_rack="a"), session_ms=session_ms)
        assert made["client.rack"] == "a"
        Consumer({name: value for name, value in made.items() if name != "logger"}).close()
    assert MAX_POLL_MS == STUCK * 1000


def test_what_a_topology_says_of_fetches_wins():
    """Of the group, of commits and of where to begin it has no say."""
    made = member(side(queued_min_messages="7", fetch_min_bytes="9", auto_offset_reset="latest"))
    assert (made["queued.min.messages"], made["fetch.min.bytes"]) == ("7", "9")
    assert made["auto.offset.reset"] == "earliest"
    assert not made["enable.auto.commit"] and not made["enable.auto.offset.store"]


@pytest.mark.parametrize("committed", [True, False])
def test_what_a_transaction_took_back_is_left_out_where_it_is_asked_for(committed):
    level = member(side(), read_committed=committed)["isolation.level"]
    assert level == ("read_committed" if committed else "read_uncommitted")


def test_who_comes_later_is_behind():
    """`range` sorts members by these names: who is there keeps the first partitions."""
    names = [member(side())["client.id"] for _ in range(3)]
    assert names == sorted(names) and len({len(name) for name in names}) == 1


def test_a_side_that_cannot_log_in_is_refused():
    with pytest.raises(ConfigurationError, match=r"sasl\.mechanism"):
        side(security_protocol="SASL_SSL")
