"""Who reads nothing but the reports topic pairs the reports of one user across slots: by the
message that they are in, by their rank in the slot, or by what they say.

What ``plan`` says is measured here with 1,000 users, each later slot paired with the first. Chance
is one user in 1,000: a random order of n users has one in its place on average, with a variance of
one. Of what is sent a batch a message (gaps allowed), and of what is sent between bounds:

======================================================  ===========  =======  ========  ======
raw messages                                            paired by    of each  between   of
======================================================  ===========  =======  ========  ======
Arrow, one household's 24 slots each                    message      23,000   24        23,000
one event each, meters in a fixed order                 rank         7,000    8         7,000
one event each, meters in a fresh order in each slot    rank         6        5         7,000
Arrow, all users of a slot, always in one order         rank         22       22        23,000
the same                                                value        24       24        23,000
the same, epsilon 80 in place of 1                      value        16,467   16,467    23,000
======================================================  ===========  =======  ========  ======

Where a partition has ten times the events that wait together, a fixed order puts users into the
same tenth of each slot: 1,000 users with 100 rows at a time are paired ten times as often as by
chance, and no more.
"""

from __future__ import annotations

from math import exp, sqrt

import numpy as np
import pytest

from ldp_kafka.randomness import Ids
from ldp_kafka.records import Event, Events, Tick
from ldp_kafka.runtime.keys import edge_randomness
from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.stages import bounds, perturb
from ldp_kafka.runtime.stages.perturb import make_perturb
from ldp_kafka.runtime.wire.codec import encode
from ldp_kafka.runtime.wire.reports import read_reports
from ldp_kafka.topology import loads, plan

START, USERS, SLOTS, WINDOW = 1_700_000_000, 1000, 24, 4
SINGLE_SLOTS = 8  # of messages of one event
NAMES = [f"m{at}" for at in range(USERS)]
VALUES = np.linspace(0, 10, USERS)
"""Of each user, in every slot: the most that values can link."""
TEXT = """
topology: meters
kafka: {{bootstrap_servers: "127.0.0.1:1"}}
input: {{slot: 1s, lateness: {lateness}, partitions: 1, format: {format}, gaps: {gaps}}}
privacy: {{method: sw_direct, epsilon: {epsilon}, window: {window}, domain: [0, 10]}}
output: {{statistics: [mean]}}
runtime: {{report_rows: {rows}}}
"""


def topology_of(form, epsilon=1.0, gaps="strict", rows=2**16, lateness=SLOTS):
    return loads(
        TEXT.format(
            format=form, epsilon=epsilon, window=WINDOW, lateness=lateness, gaps=gaps, rows=rows
        )
    )


def at(slot):
    return 1000 * (START + slot)


def households():
    """A message a household, with all its slots."""
    times = np.array([at(slot) for slot in range(SLOTS)])
    return [
        encode(Events(Ids.of([name] * SLOTS), times, np.full(SLOTS, value)))
        for name, value in zip(NAMES, VALUES, strict=True)
    ]


def singles(order):
    """A message an event; ``order`` of the users in each slot."""
    return [
        encode(Event(NAMES[user], at(slot), float(VALUES[user])))
        for slot in range(SINGLE_SLOTS)
        for user in order(slot)
    ]


def batches():
    """A message a slot, with all users in the same order."""
    return [
        encode(Events(Ids.of(NAMES), np.full(USERS, at(slot)), VALUES)) for slot in range(SLOTS)
    ]


def fixed(_):
    return range(USERS)


def fresh(slot):
    return np.random.default_rng(slot).permutation(USERS).tolist()


def seen(topology, messages):
    """(records of the reports topic; the user of each report by its id, which needs the key and
    serves to count what a reader has right).
    """
    randomness = edge_randomness(topology, bytes(range(32)), "here")
    log = [
        Message(offset, -1, value) for offset, value in enumerate([*messages, encode(Tick(at(99)))])
    ]
    edge = make_perturb(topology, 0, randomness)
    records = edge.fold(edge.fresh(), log).records
    assert {record.topic for record in records} == {topology.reports_topic}
    digests, whose = randomness.digests(Ids.of(NAMES)), {}
    for slot in range(START, START + SLOTS):
        ids = randomness.report_ids(digests, np.full(USERS, slot), 0)
        whose |= {row.tobytes(): user for user, row in enumerate(ids)}
    return records, whose


def by_message(batch):
    """Those of the same message, or of the same raw one, are one user's."""
    return np.full(len(batch), batch.bound)


def by_rank(batch):
    """Who is k-th in one slot is k-th in the next."""
    return np.zeros(len(batch), np.int64)  # the order of the topic is left as it is


def by_value(batch):
    """Who has the k-th value in one slot has it in the next."""
    return batch.values


def paired(records, whose, key):
    """Of how many reports of each later slot a reader finds the user's report in the first one: by
    the order of a key in each slot, and by the topic's where that is equal.
    """
    read = [batch for batch in (read_reports(record.value) for record in records) if len(batch)]
    slots = np.concatenate([batch.slots for batch in read])
    keys = np.concatenate([key(batch) for batch in read])
    users = np.array([whose[row.tobytes()] for batch in read for row in batch.ids])
    order = np.lexsort((keys, slots))  # stable
    by_slot = users[order].reshape(-1, USERS)  # one report a user and slot
    assert len(by_slot) in (SINGLE_SLOTS, SLOTS)
    return (by_slot[1:] == by_slot[0]).sum(1).tolist()


def says(topology, warning, line):
    """That plan warns of it once, and its line says that reports are not anonymous."""
    made = plan(topology, USERS)
    return sum(warning in one for one in made.warnings) == 1 and made.guarantee_line.endswith(
        f"not anonymous: reports of a user can be linked by {line}"
    )


EACH = "raw message, order or time"


def test_the_slots_of_one_raw_message_are_linked_where_each_has_its_batch():
    topology = topology_of("arrow", gaps="allow")
    records, whose = seen(topology, households())
    assert paired(records, whose, by_message) == [USERS] * (SLOTS - 1)
    assert says(topology, "the reports of one raw message can be linked to each other", EACH)


def test_a_fixed_order_links_by_rank_where_each_message_has_its_batch():
    topology = topology_of("json", gaps="allow")
    records, whose = seen(topology, singles(fixed))
    assert paired(records, whose, by_rank) == [USERS] * (SINGLE_SLOTS - 1)
    assert says(topology, "who reports in a fixed order or at fixed times can be linked", EACH)


def is_chance(right, of=1):
    """Within five standard errors; another key would fail less than once in 50,000."""
    chance = of * len(right)  # and its variance
    return abs(sum(right) - chance) < 5 * sqrt(chance)


@pytest.mark.parametrize("key", [by_message, by_rank])
def test_between_bounds_a_household_leaves_chance(key):
    """Its slots are in different batches, each with those of all others."""
    topology = topology_of("arrow")
    assert is_chance(paired(*seen(topology, households()), key))
    line = (
        "partition; also by order or time where 26,214 events or more lie in a partition's open"
        " slots"
    )
    assert says(topology, "can be linked by their partition, which stays the same", line)


@pytest.mark.parametrize("lateness", [0, 1, SLOTS])
@pytest.mark.parametrize("key", [by_message, by_rank])
def test_between_bounds_a_fixed_order_leaves_chance(key, lateness):
    """Also of who is always the first one of a slot: that report waits for others."""
    topology = topology_of("json", lateness=lateness)
    assert is_chance(paired(*seen(topology, singles(fixed)), key))
    by_user = first_ones(topology)
    assert len(by_user) == SINGLE_SLOTS
    assert min(by_user) == USERS


def first_ones(topology):
    """How many reports each slot's first batch has: among so many the first one hides."""
    records, _ = seen(topology, singles(fixed))
    read = [read_reports(record.value) for record in records]
    return list({int(one.slots[0]): len(one) for one in reversed(read) if len(one)}.values())


def test_beyond_what_waits_a_fixed_order_links_groups_and_no_more():
    """With a tenth of the users together: one of a hundred in its place, in place of a thousand."""
    right = paired(*seen(topology_of("json", rows=100, lateness=0), singles(fixed)), by_message)
    assert is_chance(right, of=10)
    assert not is_chance(right)


def test_a_fresh_order_leaves_chance():
    each, between = topology_of("json", gaps="allow"), topology_of("json")
    assert is_chance(paired(*seen(each, singles(fresh)), by_rank))
    assert is_chance(paired(*seen(between, singles(fresh)), by_rank))


@pytest.mark.parametrize("gaps", ["allow", "strict"])
@pytest.mark.parametrize("key", [by_rank, by_value])
def test_a_batch_of_all_users_leaves_chance(key, gaps):
    """Their order in the message is fixed, and that of the reports is not."""
    assert is_chance(paired(*seen(topology_of("arrow", gaps=gaps), batches()), key))


@pytest.mark.parametrize("epsilon", [1.0, 4.0, 8.0])
def test_values_tell_no_more_than_the_mechanism_allows(epsilon):
    """Even to a reader who knows all values: where two users change places in a slot, its reports
    become at most e^(2 epsilon a report) times likelier. So no two of them are further apart in how
    likely they are to be a certain user's.
    """
    topology = topology_of("arrow", epsilon)
    right = paired(*seen(topology, batches()), by_value)
    odds = exp(2 * epsilon / WINDOW)
    most = len(right) * USERS * odds / (USERS - 1 + odds)
    assert sum(right) < most + 5 * sqrt(most)


def test_a_link_by_value_would_be_found():
    """Where there is next to no noise, values do link."""
    right = paired(*seen(topology_of("arrow", 80.0), batches()), by_value)
    assert not is_chance(right)


def test_rows_in_the_order_of_users_would_be_found(monkeypatch):
    """An edge that does not sort a batch by its ids."""
    monkeypatch.setattr(bounds, "_sorted", lambda ids, keys: np.lexsort(keys[::-1]))
    for topology, messages in (
        (topology_of("arrow", gaps="allow"), batches()),
        (topology_of("json"), singles(fixed)),
    ):
        right = paired(*seen(topology, messages), by_rank)
        assert right == [USERS] * len(right)


def test_a_first_report_that_does_not_wait_would_be_found(monkeypatch):
    """An edge that sends all that waits with what it closes: the first one of each slot is alone
    in its batch.
    """

    def all_of_it(counts, *rest):
        found = [bound._replace(full=tuple(range(START, START + SLOTS))) for bound in real(
            counts, *rest)]  # fmt: skip
        if found:
            counts.clear()
        return found

    real = perturb.find_bounds
    monkeypatch.setattr(perturb, "find_bounds", all_of_it)
    assert min(first_ones(topology_of("json", lateness=0))) == 1
