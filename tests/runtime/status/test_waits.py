"""What a release waits for: each rule alone, their order, and that no state of a broker is left
without an answer.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from ldp_kafka.runtime.stages.slot_sums import SecondReports
from ldp_kafka.runtime.status.closing import ALL, NONE, OWN, Closing, closing_of
from ldp_kafka.runtime.status.facts import (
    Facts,
    Group,
    InputPartition,
    Lag,
    Letters,
    OpenTransaction,
    Releases,
    Side,
    TopicState,
)
from ldp_kafka.runtime.status.view import parts_of
from ldp_kafka.runtime.status.waits import RULES, waits_for
from ldp_kafka.topology import loads
from tests.cases import cases

HOUR = 3_600_000
NOON = 17_000 * 24 + 12  # 2016-07-18 12:00 UTC


def partition(number, newest=NOON, event=NOON, **more):
    """One that has come to noon."""
    given = {"messages": 8, "sampled": 8, "events": 8, "oldest": NOON - 3, **more}
    return InputPartition(number, event=event, newest=newest, **given)


def groups(perturb=0, collect=0, members=1):
    """Both roles', with so much unread."""
    return (
        Group(
            "meters-perturb",
            "perturb",
            "edge",
            state="stable",
            members=members,
            lags=(Lag("meters.raw", {0: 0, 1: perturb}),),
        ),
        Group(
            "meters-collect",
            "collect",
            "collector",
            state="stable",
            members=1,
            lags=(Lag("meters.reports", {0: collect, 1: 0}), Lag("meters.partials", {0: 0})),
        ),
    )


# hourly slots, two of lateness: with events of noon, 09:00 is released
FLOWS = Facts(
    "meters",
    Closing(ALL, HOUR, lateness=2),
    (Side("edge", 1, "a"), Side("collector", 1, "b")),
    (
        TopicState("meters.raw", "edge", 2, 2),
        TopicState("meters.reports", "collector", 2, 2),
        TopicState("meters.releases", "collector", 2, 2),
    ),
    groups(),
    given="meters.raw",
    log="meters.raw",
    given_messages=16,
    input=(partition(0), partition(1)),
    letters=(Letters("meters.dead-letters", "edge", 0),),
    releases=Releases("meters.releases", 4, 4, NOON - 3, "mean", 0, NOON - 3, NOON - 3),
)
NEVER = {"messages": 0, "sampled": 0, "events": 0, "oldest": None}
EMPTY = (
    partition(0, None, None, **NEVER),
    partition(1, None, None, **NEVER),
)
BAD = tuple(
    partition(at, None, None, events=0, oldest=None, bad={"user": 7, "value": 1}) for at in (0, 1)
)
NOTHING = Releases("meters.releases", 0)
AWAY = Side("edge", away="b:9092 gave no good answer")
GONE = TopicState("meters.partials", "collector", 1, None)
FOREIGN = TopicState("bills", "edge", 2, None, ours=False)
FEW = TopicState("meters.raw", "edge", 2, 3)
DONE = Releases("meters.releases", 4, 4, NOON, "mean", 0)
FAST = (partition(0), partition(1, late=7, clocks=6, bad={"user": 1}))
AWAY_FROM_HOME = tuple(replace(each, bad={"partition": 4, "user": 1}) for each in FAST[:1])
TWICE = SecondReports(24, NOON - 4)
OPEN = OpenTransaction(1, 40, 1200, NOON * HOUR)
BEHIND = (partition(0), partition(1, NOON - 1, NOON - 1))


SAYS = {
    "brokers": (
        replace(FLOWS, sides=(AWAY, FLOWS.sides[1])),
        "waits for brokers that do not answer: edge: b:9092 gave no good answer",
    ),
    "topics": (
        replace(FLOWS, topics=(GONE, *FLOWS.topics)),
        "waits for topics that are not there: meters.partials: `ldp-kafka topics` makes them",
    ),
    "topics: someone else's": (
        replace(FLOWS, topics=(GONE, FOREIGN)),
        "waits for topic bills, which is not there: its owner has to create it",
    ),
    "partitions": (
        replace(FLOWS, topics=(FEW,)),
        (
            "waits for topic meters.raw as it must be: with 2 partitions, and it has 3"
            " (input.partitions)"
        ),
    ),
    "gaps": (
        replace(FLOWS, hole=(1, 7)),
        "meters.raw partition 1: no record is at offset 7: the topic is written by transactions",
    ),
    "gaps: compacted": (
        replace(FLOWS, compacted=True),
        "meters.raw is compacted: set input.gaps: allow",
    ),
    "transaction": (
        replace(FLOWS, open=(OPEN,)),
        (
            "waits for a transaction that is open since 2016-07-18T12:00:00Z, in partition 1 of"
            " meters.raw at offset 40: nothing behind it is given to readers, 1,200 offsets by now."
            " Its producer has to end it"
        ),
    ),
    "transaction: several": (
        replace(FLOWS, open=(OPEN._replace(since=-1), OPEN._replace(partition=0))),
        (
            "waits for a transaction that is open, in partition 1 of meters.raw at offset 40 (also"
            " in partition 0): nothing"
        ),
    ),
    "workers": (
        replace(FLOWS, groups=groups(members=0)),
        (
            "waits for workers: no member in group meters-perturb: start them, `ldp-kafka run` with"
            " --role perturb"
        ),
    ),
    "workers: none at all": (
        replace(FLOWS, groups=(groups(members=0)[0], replace(groups()[1], members=0))),
        "no member in group meters-perturb, meters-collect: start them, `ldp-kafka run`",
    ),
    "empty": (
        replace(FLOWS, input=EMPTY, given_messages=0, releases=NOTHING),
        "waits for events: meters.raw is empty",
    ),
    "empty: devices": (
        replace(
            FLOWS,
            input=EMPTY,
            given_messages=0,
            given="meters.device-reports",
            log="meters.device-reports",
            devices=True,
            releases=NOTHING,
        ),
        "waits for reports of devices: meters.device-reports is empty",
    ),
    "empty: ticks": (
        replace(FLOWS, input=tuple(replace(each, messages=1, sampled=1) for each in EMPTY)),
        "waits for events: meters.raw has none, but ticks or requests",
    ),
    "dead_letters": (
        replace(FLOWS, input=BAD, releases=NOTHING),
        (
            "all of the 16 messages of meters.raw are dead letters: user: the user is missing,"
            " empty, longer than 256 bytes, or neither text nor a whole number below 2**64 (17.0"
            " has a point); let input.user name the field that has the id, and send it in every"
            " event; write any other number as text (also value)"
        ),
    ),
    "dead_letters: ticks too": (
        replace(FLOWS, input=(replace(BAD[0], messages=9, sampled=9), EMPTY[1]), releases=NOTHING),
        "no event is in the 9 messages of meters.raw, but 8 dead letters: user: ",
    ),
    "dead_letters: a sample": (
        replace(FLOWS, input=(replace(BAD[0], messages=900), EMPTY[1])),
        "all of the last 8 messages of meters.raw are dead letters: ",
    ),
    "clock": (
        replace(FLOWS, input=FAST, max_ahead_ms=24 * HOUR),
        (
            "an event far ahead of its record's timestamp, yet not by more than input.max_ahead"
            " (1d), closed the slots of all others in partition 1 of meters.raw (6 of the 8 events"
            " read there are late by it alone): set that sender's clock, or let a smaller"
            " input.max_ahead make such events dead letters (that needs another name for the"
            " topology); a greater input.lateness does not help"
        ),
    ),
    "clock: seen in the reports alone": (
        replace(
            FLOWS,
            input=tuple(replace(each, closed=NOON + 3) for each in FLOWS.input),
            present=NOON + 2,
        ),
        "closed the slots of all others in partitions 0, 1 of meters.raw: set that sender's clock",
    ),
    "split": (
        replace(FLOWS, split=20),
        (
            "20 users of the events read are in several partitions of meters.raw, with a budget in"
            " each of them: key each message by its user's id, and let input.partitioning: murmur2"
            " refuse what lies elsewhere; of someone else's topic, input.relay: rekey brings each"
            " user into one partition"
        ),
    ),
    "split: verified": (
        replace(FLOWS, input=AWAY_FROM_HOME),
        (
            "of the events read in meters.raw 4 are no good: partition: the user, or stream,"
            " belongs to another partition (input.partitioning: murmur2); let producers key by"
        ),
    ),
    "second_reports": (
        replace(FLOWS, second=TWICE),
        (
            "users reported twice in a slot, at least 24 times, last in slot 2016-07-18 08:00 UTC:"
            " what is guaranteed does not hold for them: they are in several partitions of"
            " meters.raw (`ldp-kafka validate --from-topic` counts them; key each message by its"
            " user's id, and let input.partitioning: murmur2 refuse what lies elsewhere; of someone"
            " else's topic, input.relay: rekey brings each user into one partition), or an edge"
            " lost its state; mend that, and give the topology a new name"
        ),
    ),
    "second_reports: of devices": (
        replace(FLOWS, second=TWICE, devices=True),
        "hold for them: a device's database was copied; mend that, and give",
    ),
    "current": (
        replace(FLOWS, releases=DONE),
        "up to date: no event is later than slot 2016-07-18 12:00 UTC, which is done",
    ),
    "current: of a sample": (
        replace(FLOWS, releases=DONE, input=tuple(replace(e, sampled=5) for e in FLOWS.input)),
        "up to date: no event among the last messages is later than slot 2016-07-18 12:00 UTC,",
    ),
    "current: passed over": (
        replace(FLOWS, releases=replace(NOTHING, passed=NOON)),
        "up to date",
    ),
    "current: as they come": (
        replace(FLOWS, closing=Closing(NONE, HOUR)),
        "up to date: all messages are read, and each report was released when it came",
    ),
    "behind": (
        replace(FLOWS, groups=groups(30, 7), releases=NOTHING),
        (
            "waits for group meters-perturb, which has not acknowledged 30 messages of"
            " meters.raw, most of them in partition 1"
        ),
    ),
    "behind: the collector": (
        replace(FLOWS, groups=groups(0, 7), releases=NOTHING),
        (
            "waits for group meters-collect, which has not acknowledged 7 messages of"
            " meters.reports, most of them in partition 0"
        ),
    ),
    "behind: members are not known": (
        replace(FLOWS, groups=groups(30, members=None), releases=NOTHING),
        "waits for group meters-perturb (whether it has members is not known here), which",
    ),
    "idle": (
        replace(
            FLOWS,
            input=(partition(0), partition(1, NOON - 5, NOON - 5)),
            releases=Releases("meters.releases", 1, 1, NOON - 8, "mean", 0),
        ),
        (
            "waits for partition 1 of meters.raw: its latest event or tick is of 2016-07-18 07:00"
            " UTC; slot 2016-07-18 05:00 UTC is released when an event or tick of 2016-07-18"
            " 08:00 UTC or later comes there (`input.idle: 30s` has workers write ticks where no"
            " event comes for so long)"
        ),
    ),
    "idle: nothing ever": (
        replace(
            FLOWS,
            input=(partition(0), EMPTY[1]),
            releases=NOTHING,
            idle_ms=30_000,
        ),
        (
            "waits for partition 1 of meters.raw: it is empty; slot 2016-07-18 09:00 UTC is"
            " released when an event or tick of 2016-07-18 12:00 UTC or later comes there"
            " (`input.idle: 30s` has workers write one after such a silence)"
        ),
    ),
    "idle: someone else's": (
        replace(FLOWS, input=(partition(0), EMPTY[1]), releases=NOTHING, written=False),
        (
            "(nothing is written into someone else's topic: relay: true copies it into one that"
            " gets ticks)"
        ),
    ),
    "idle: seen by the collector": (
        replace(
            FLOWS,
            input=(InputPartition(0, closed=NOON - 3), InputPartition(1, closed=NOON - 5)),
            input_why="the edge was not asked",
            releases=Releases("meters.releases", 1, 1, NOON - 5, "mean", 0),
        ),
        "waits for partition 1 of meters.raw: its slots are closed through 2016-07-18 07:00 UTC",
    ),
    "idle: two of three": (
        replace(
            FLOWS,
            input=(partition(0), *(partition(at, NOON - 5, NOON - 5) for at in (1, 2))),
            releases=Releases("meters.releases", 1, 1, NOON - 8, "mean", 0),
        ),
        "or later comes in each of them",
    ),
    "silent": (
        replace(FLOWS, releases=NOTHING),
        "waits for reports: all messages are read, and no release came of what is closed",
    ),
    "silent: as they come": (
        replace(FLOWS, closing=Closing(NONE, HOUR), releases=NOTHING),
        "waits for reports: all messages are read, and no release came",
    ),
    "open": (
        FLOWS,
        (
            "waits until slot 2016-07-18 10:00 UTC closes: its events go to 2016-07-18 11:00 UTC,"
            " and `lateness: 2` keeps it open until an event or tick of 2016-07-18 13:00 UTC or"
            " later comes in each partition; partition 0: its latest event or tick is of"
            " 2016-07-18 12:00 UTC"
        ),
    ),
    "open: the first slot": (
        replace(
            FLOWS,
            closing=Closing(ALL, HOUR, lateness=6),
            releases=NOTHING,
        ),
        (
            "waits until slot 2016-07-18 09:00 UTC closes: its events go to 2016-07-18 10:00 UTC,"
            " and `lateness: 6` keeps it open until an event or tick of 2016-07-18 16:00 UTC or"
            " later"
        ),
    ),
    "open: a window": (
        replace(FLOWS, closing=Closing(OWN, HOUR, hop=100), releases=NOTHING, groups=groups(3)),
        "and a window of 100 slots keeps it open until an event or tick of",
    ),
    "open: any partition": (
        replace(
            FLOWS,
            closing=Closing(OWN, HOUR, lateness=2),
            input=BEHIND,
        ),
        "or later comes; partition 0: its latest event or tick is of 2016-07-18 12:00 UTC",
    ),
    "unknown: releases that cannot be read": (
        replace(FLOWS, releases=Releases("meters.releases", 3, why="this login may not do that")),
        "what it waits for is not known here: this login may not do that",
    ),
    "unknown": (
        replace(
            FLOWS,
            sides=(Side("edge", not_asked="EDGE_PASSWORD is not set"), FLOWS.sides[1]),
            groups=groups()[1:],
            input=(InputPartition(0), InputPartition(1)),
            given_messages=None,
            input_why="the edge was not asked: EDGE_PASSWORD is not set",
            releases=Releases("meters.releases", 3, why="this login may not do that"),
        ),
        (
            "what it waits for is not known here: the edge was not asked: EDGE_PASSWORD is not set;"
            " this login may not do that"
        ),
    ),
}


@cases("name", SAYS)
def test_each_rule_says_what_it_waits_for(name):
    facts, line = SAYS[name]
    found = waits_for(facts)
    assert found.rule == name.split(":")[0]
    assert line in found.line


def test_every_rule_has_a_case():
    assert {name.split(":")[0] for name in SAYS} == set(RULES)


ORDER = [
    ("brokers", {"sides": (AWAY, FLOWS.sides[1])}),
    ("topics", {"topics": (GONE, FEW)}),
    ("partitions", {"topics": (FEW,)}),
    ("gaps", {"hole": (0, 4)}),
    ("workers", {"groups": groups(30, 7, members=0)}),
    ("empty", {"input": EMPTY, "given_messages": 0}),
    ("dead_letters", {"input": BAD}),
    ("clock", {"input": FAST}),
    ("split", {"split": 2}),
    ("second_reports", {"second": TWICE}),
    ("transaction", {"open": (OPEN,)}),
    ("current", {"releases": DONE}),
    ("behind", {"groups": groups(30, 7), "releases": NOTHING}),
]


@cases("at", range(len(ORDER) - 1))
def test_what_keeps_all_else_from_going_on_is_said_first(at):
    """Where several rules have something to say, the first one in the table does."""
    name, wrong = ORDER[at]
    for _, later in ORDER[at + 1 :]:
        if later.keys() & wrong.keys():
            continue
        assert waits_for(replace(FLOWS, **{**later, **wrong})).rule == name
    assert list(RULES)[at] == name


def test_another_number_of_partitions_is_named_by_its_key():
    """Of a topic that is re-keyed there is one of its own."""
    facts = replace(FLOWS, topics=(FEW,), given_by="input.sources")
    assert waits_for(facts).line.endswith("and it has 3 (input.sources)")
    assert waits_for(replace(facts, given="theirs")).line.endswith("(input.partitions)")


def test_events_that_do_not_say_how_far_a_partition_is():
    """Where ticks alone do, none may be among the last messages: it has events nevertheless."""
    facts = replace(FLOWS, input=(partition(0), partition(1, newest=None)), releases=NOTHING)
    found = waits_for(facts)
    assert found.rule == "idle"
    assert "partition 1 of meters.raw: its last messages do not say how far it is;" in found.line


def test_who_is_behind_comes_before_a_partition_that_is():
    """Messages that nobody has read may bring it further."""
    facts, _ = SAYS["idle"]
    assert waits_for(facts).rule == "idle"
    further = replace(facts, input=(facts.input[0], partition(1, NOON - 4, NOON - 4)))
    assert waits_for(replace(further, groups=groups(30))).rule == "behind"
    # what is unread has been looked at, and does not
    assert waits_for(replace(facts, groups=groups(30))).rule == "idle"


def test_a_group_that_only_copies_may_have_no_member():
    """One process of the role does it beside its agents."""
    copies = Group("meters-forward", "perturb", "collector", copies=True, members=0)
    assert waits_for(replace(FLOWS, groups=(*groups(), copies))).rule == "open"


@pytest.mark.parametrize("known", [True, False])
def test_no_release_is_up_to_date_only_where_all_is_known(known):
    """Whose group was not asked may have much to read."""
    other = groups()[0] if known else replace(groups()[0], why="may not do that", lags=())
    facts = replace(SAYS["current: as they come"][0], groups=(other, groups()[1]))
    assert (waits_for(facts).rule == "current") is known


@cases("name", SAYS)
def test_facts_are_shown_and_written_whole(name):
    """Whatever is missing."""
    facts, _ = SAYS[name]
    parts = list(parts_of(facts, now_ms=5_000_000))
    assert all(len(row) == len(part.head) for part in parts for row in part.rows)
    found = facts.as_json()
    assert found["input"]["through"] == facts.through
    assert len(found["groups"]) == len(facts.groups)


def test_a_slot_that_is_running_may_be_closed():
    """By a clock that is a second fast, with no lateness: that is nobody's fault."""
    inside = tuple(replace(each, closed=NOON + 2) for each in FLOWS.input)
    assert waits_for(replace(FLOWS, input=inside, present=NOON + 2)).state != "broken"


def test_lateness_is_not_advised_against_a_fast_clock():
    """But against what comes late by itself."""
    [shown] = [part for part in parts_of(SAYS["clock"][0]) if part.head[:1] == ("partition",)]
    [advice] = [line for line in shown.lines if "input.lateness takes them" in line]
    assert advice.startswith("1 of the 16 events read come when their slot is closed")
    alone = replace(FLOWS, input=(partition(0, late=6, clocks=6), partition(1)))
    told = "\n".join(line for part in parts_of(alone) for line in part.lines)
    assert "input.lateness takes" not in told
    assert "input.max_ahead" in told


CROWD = "output: {statistics: [mean]}"
METHODS = {
    "crowd": ("{method: sw_direct, epsilon: 1.0, window: 4, domain: [0, 1]}", CROWD),
    "user": (
        "{method: sw_direct, epsilon: 1.0, window: 4, domain: [0, 1]}",
        "output: {statistics: [per_user]}",
    ),
    "both": (
        "{method: sw_direct, epsilon: 1.0, window: 4, domain: [0, 1]}",
        "output: {statistics: [mean, per_user]}",
    ),
    "asked": ("{method: lpa, epsilon: 1.0, window: 4, domain: [0, 1]}", CROWD),
    "batch": (
        (
            "{trust: curator, level: event, method: discontin_group, epsilon: 0.5, delay: 10,"
            " setting: batch, domain: [0, 9], contribution: 1}"
        ),
        "output: {statistics: [per_stream]}",
    ),
}


@cases(
    ("name", "closing"),
    [
        ("crowd", Closing(ALL, HOUR, 1)),
        ("user", Closing(NONE, HOUR, 1)),
        ("both", Closing(ALL, HOUR, 1)),
        ("asked", Closing(ALL, HOUR, 1, hold=4)),
        ("batch", Closing(OWN, HOUR, 1, hop=10)),
    ],
)
def test_closing_of_a_topology(name, closing):
    privacy, output = METHODS[name]
    text = f"topology: meters\ninput: {{slot: 1h, lateness: 1}}\nprivacy: {privacy}\n{output}"
    assert closing_of(loads(text)) == closing


@cases("closing", [Closing(ALL, 1, 2, 3, 4), Closing(OWN, 1, 0, hop=7), Closing(OWN, 1, 1, 10)])
def test_the_event_that_closes_a_slot_is_the_first_that_does(closing):
    for slot in range(100, 130):
        newest = closing.closer(slot)
        assert closing.through(newest) >= slot > closing.through(newest - 1)
