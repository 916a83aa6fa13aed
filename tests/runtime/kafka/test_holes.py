"""Offsets without records, as a reader tells of them; what brokers do is in
tests/broker/test_transactions.py.
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.runtime.kafka import holes


@pytest.fixture
def log(monkeypatch):
    """The offsets of two partitions, and what was asked."""
    made = SimpleNamespace(held={0: range(10), 1: range(5)}, ends={0: (0, 10), 1: (2, 5)})

    def read(config, topic, wanted):
        assert (config["isolation.level"], topic) == ("read_uncommitted", "t")
        return (
            SimpleNamespace(partition=number, offset=at)
            for number, (first, end) in wanted.items()
            for at in made.held[number]
            if first <= at < end
        )

    monkeypatch.setattr(holes, "spans", lambda *_: made.ends)
    monkeypatch.setattr(holes, "read_records", read)
    return made


def test_a_last_offset_without_a_record_is_refused(log):
    """That of a partition which has nothing is none."""
    holes.check_ends({}, "t")
    log.ends[1] = (5, 5)
    holes.check_ends({}, "t")
    log.ends[1] = (0, 6)
    with pytest.raises(ConfigurationError, match=r"t partition 1: no record is at offset 5:.*gaps"):
        holes.check_ends({}, "t")


def test_an_offset_that_does_not_come_is_asked_for(log):
    holes.check_offset({}, "t", 0, 4)
    log.held[0] = [3, 5]
    with pytest.raises(ConfigurationError, match="t partition 0: no record is at offset 4"):
        holes.check_offset({}, "t", 0, 4)


@pytest.mark.parametrize(
    ("settings", "compacted"),
    [
        ({"cleanup.policy": "compact"}, True),
        ({"cleanup.policy": "delete,compact"}, True),
        ({"cleanup.policy": "delete"}, False),
        ({}, False),
        (ConfigurationError("no right"), False),
    ],
)
def test_whether_a_topic_is_compacted(monkeypatch, settings, compacted):
    """As far as this login may know."""

    def ask(*_):
        if isinstance(settings, Exception):
            raise settings
        return settings

    monkeypatch.setattr(holes, "settings_of", ask)
    assert holes.is_compacted({}, "t") is compacted
