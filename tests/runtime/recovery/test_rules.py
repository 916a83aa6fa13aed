"""Every rule of a start has one home: where it is broken it is named, with its way out; without it
the same start would be allowed.
"""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from ldp_kafka.errors import ConfigurationError, StateError
from ldp_kafka.runtime.recovery import rules_page
from ldp_kafka.runtime.recovery import start as starting
from ldp_kafka.runtime.recovery.checkpoints import VERSION, checkpoints, latest
from ldp_kafka.runtime.recovery.packing import pack
from ldp_kafka.runtime.recovery.rules import RULES, Facts, PartitionOffsets
from ldp_kafka.runtime.recovery.start import (
    Refusal,
    Start,
    check_deployment,
    check_partitions,
    decide,
    no_record,
    refusals,
    rewound,
)
from ldp_kafka.runtime.sealing import Seal
from tests.cases import cases

BINDINGS = {"fingerprint": "f", "layout": "l", "deployment": "d", "key": "k"}
SEAL = Seal([bytes(32)], b"", "k")


def held(offset, epoch="e", *, shards=("0",), lost=(), **changed):
    """What one epoch has written."""
    meta = {"version": VERSION, **BINDINGS, "manifest": dict.fromkeys(shards, offset), "state": {}}
    meta = {name: value for name, value in (meta | changed).items() if value is not None}
    records = {f"0/{shard}/{epoch}": pack(offset, b"x") for shard in shards if shard not in lost}
    return records | {f"0/meta/{epoch}": pack(offset, json.dumps(meta).encode())}


def facts(committed=7, start=0, end=9, *, begun=False, skipped=None, **more):
    position = PartitionOffsets(committed, start, end, begun, skipped)
    return Facts(
        **{"topic": "t", "partition": 0, "position": position, "header": True}
        | {"bindings": BINDINGS}
        | more
    )


SOUND = facts(), held(6)
BROKEN = {
    "partitions": (facts(partitions_found=2), held(6)),
    "gaps": (facts(hole=8), held(6)),
    "unread": (facts(committed=7, start=8), held(7)),
    "readable": (facts(), held(6) | {"0/meta/other": pack(6, b"{")}),
    "sealed": (facts(seal=SEAL), held(6)),
    "complete": (facts(), held(6, lost=("0",))),
    "current": (facts(), held(5)),
    "version": (facts(), held(6, version=None)),
    "fingerprint": (facts(), held(6, fingerprint="g")),
    "layout": (facts(), held(6, layout="g")),
    "deployment": (facts(), held(6, deployment="g")),
    "key": (facts(), held(6, key="g")),
    "log_end": (facts(end=6), held(6)),
    "log_start": (facts(None, 8), held(6)),
}
"""Of each rule a start in which it alone is broken."""


def found_in(found_facts, records):
    return checkpoints(records, 0, found_facts.seal)


def decided(found_facts, records):
    return decide(found_facts, found_in(found_facts, records))


def test_a_sound_state_starts():
    """From its checkpoint, behind what was acknowledged."""
    found = decided(*SOUND)
    assert isinstance(found, Start)
    assert (found.checkpoint.offset, found.next_offset) == (6, 7)
    assert set(found.obsolete) == SOUND[1].keys() and "meta" in found.obsolete[0]


def test_each_rule_has_its_case():
    assert BROKEN.keys() == RULES.keys()


@cases("name", BROKEN)
def test_a_broken_rule_refuses_the_start(name):
    """It is named, alone, with where and the way out; and without it nothing would stop the
    start: nobody else knows it.
    """
    found_facts, records = BROKEN[name]
    found = decided(found_facts, records)
    assert isinstance(found, Refusal)
    assert found.rule == name
    assert [each.rule for each in refusals(found_facts, found_in(found_facts, records))] == [name]
    said = str(found)
    assert said.startswith("t partition 0: ") and found.way_out in said and "{" not in said
    wrong = name == "gaps"  # the topology's own fault
    with pytest.raises(ConfigurationError if wrong else StateError, match="t partition 0"):
        raise found.exception()


@pytest.mark.parametrize("name", BROKEN)
def test_without_a_rule_its_case_would_start(name, monkeypatch):
    # a rule that is put back into the table itself would stand at its end
    monkeypatch.setattr(starting, "RULES", {key: RULES[key] for key in RULES if key != name})
    assert isinstance(decided(*BROKEN[name]), Start)


def test_the_first_broken_rule_is_told():
    """In the order of the table."""
    both = facts(end=6, partitions_found=2), held(6)
    assert decided(*both).rule == "partitions"
    assert [each.rule for each in refusals(both[0], checkpoints(both[1], 0))] == [
        "partitions",
        "log_end",
    ]


def test_of_several_checkpoints_the_complete_one_with_the_greatest_offset_counts():
    """Whatever lies around it; all of them go once a new one is there."""
    records = held(6, "a") | held(8, "b", lost=("0",)) | held(3, "c")
    found = decided(facts(), records)
    assert (found.checkpoint.epoch, found.checkpoint.offset) == ("a", 6)
    assert set(found.obsolete) == records.keys()
    assert latest(checkpoints({}, 0)) is None


def test_a_shard_that_meta_does_not_list_is_not_loaded():
    """It ended before, or began after."""
    records = held(6, shards=("0", "1"), manifest={"0": 4})
    assert decided(facts(), records).checkpoint.state.keys() == {"0"}


def test_where_a_log_may_have_gaps_the_first_offset_is_the_logs():
    """What comes before it is a leftover of an earlier assignment."""
    found = decided(facts(gaps=True, first=8), held(6))
    assert (found.next_offset, found.gaps, found.wait_for_first) == (8, True, True)
    found = decided(facts(gaps=True), held(6))
    assert (found.next_offset, found.gaps, found.wait_for_first) == (7, True, False)


def test_partitions_are_looked_at_while_a_worker_runs():
    check_partitions("t", 3, 3)
    with pytest.raises(StateError, match=r"must have 3 partitions, found 4.*input.partitions: 4"):
        check_partitions("t", 3, 4)


def test_what_a_raw_topic_lacks_or_is_not_any_more_is_said_while_a_worker_runs():
    check_deployment("t", "d", "d")
    with pytest.raises(StateError, match=r"the raw topic was made anew.*new name"):
        check_deployment("t", "d", "e")
    assert "no record is at offset 8" in str(no_record("t", 1, 8))
    assert no_record("t", 1, 8).where == "t partition 1"


def test_a_start_is_allowed_exactly_where_nothing_acknowledged_is_lost():
    """All positions of a group, a log and a state of up to five offsets: by the words of the fold
    rule, without the rules' own code.
    """
    seen = {True: 0, False: 0}
    for committed, start, length, offset, answered, skipped in product(
        [None, *range(5)], range(5), range(5), [None, *range(4)], [False, True], [None, 0, 2, 3]
    ):
        end = start + length
        if skipped is not None and (committed is None or skipped >= committed):
            continue
        found_facts = facts(
            committed, start, end, header=False, folded_before=answered, skipped=skipped
        )
        records = {} if offset is None else held(offset)
        last = -1 if offset is None else offset
        done = -1 if committed is None else committed - 1
        anew = max(last, done) >= end
        if skipped is not None:
            done = skipped - 1
        forgotten = done >= 0 and (offset is None or last < done)
        unread = committed is not None and start > committed
        gone = start > last + 1 and (offset is not None or (committed != start and answered))
        gone = gone and (skipped is None or skipped > last + 1)
        allowed = not (forgotten or anew or unread or gone)
        assert isinstance(decided(found_facts, records), Start) == allowed, (found_facts, offset)
        seen[allowed] += 1
    assert min(seen.values()) > 100


REWINDS = [
    (facts(), held(6), None),
    (facts(), held(5), 6),
    (facts(), {}, "complete"),
    (facts(bindings={"fingerprint": "f", "layout": "l"}), {}, "complete"),
    (facts(), {"0/meta/e": pack(6, b"{")}, "complete"),
    (facts(bindings=BINDINGS | {"key": ""}), {"0/meta/e": pack(6, b"{")}, "readable"),
    (facts(bindings=BINDINGS | {"key": ""}), {}, 1),
    (facts(committed=8, start=5, bindings=BINDINGS | {"key": ""}), {}, "unread"),
    (facts(), held(5, layout="g"), "layout"),
    (facts(), held(5, key="g"), "key"),
    (facts(end=5), held(3), "log_end"),
    (facts(start=6), held(3), "log_start"),
    (facts(partitions_found=2), held(3), "partitions"),
]


@cases(("found_facts", "records", "to"), REWINDS)
def test_where_a_rewind_leads(found_facts, records, to):
    """To what the state has, where a worker would then be allowed to start; else the rule that
    would stop it.
    """
    found = rewound(found_facts, checkpoints(records, 0), 1)
    assert (found.rule if isinstance(found, Refusal) else found) == to
    if isinstance(found, int):
        moved = replace(found_facts, position=found_facts.position._replace(committed=found))
        assert isinstance(decided(moved, records), Start)


def test_the_page_is_made_of_the_rules():
    """``python -m ldp_kafka.runtime.recovery.rules_page`` writes it anew."""
    text = Path(rules_page.PAGE).read_text("utf-8")
    assert text == rules_page.written(text)
    assert all(f"`{name}`" in text for name in RULES)
