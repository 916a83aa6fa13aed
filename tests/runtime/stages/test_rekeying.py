"""Someone else's topic of any key, re-keyed: whatever happens to who copies it, the fold makes of
our log what it would make of the same events in a topic that is keyed by the user.
"""

from __future__ import annotations

import json
from collections import Counter
from random import Random

import numpy as np
import pytest

from ldp_kafka.errors import ConfigurationError, Reason
from ldp_kafka.runtime.kafka import admin, setup
from ldp_kafka.runtime.kafka.reader import Kept
from ldp_kafka.runtime.log import Message, Output, Record
from ldp_kafka.runtime.partitioning import partitions_of
from ldp_kafka.runtime.replay.messages import messages
from ldp_kafka.runtime.runs import Run
from ldp_kafka.runtime.sample.judge import judge
from ldp_kafka.runtime.sample.parts import Part
from ldp_kafka.runtime.stages.raw import given_partition
from ldp_kafka.runtime.stages.relaying import Mark, Rekeying, Relaying, relaying_of
from ldp_kafka.runtime.stages.requests import is_request
from ldp_kafka.runtime.stages.sources import Sources
from ldp_kafka.runtime.status.sample import of_raw
from ldp_kafka.runtime.wire.copies import CopyReader, Place, place_of, tick_of
from ldp_kafka.topology import loads, plan
from tests.cases import cases
from tests.depth import depth
from tests.fold.cases import SLOT, START, batch
from tests.fold.judge import Pure
from tests.runtime.stages import rekeys
from tests.runtime.stages.crashes import differs, over_crashes
from tests.runtime.stages.rekeys import (
    CURATOR,
    END,
    LPA,
    PARTITIONS,
    SOURCES,
    TEXT,
    World,
    events_of,
    hunted,
    keyed,
    messages_of,
    stage_of,
    told,
    topology,
)

HUNTS = depth(12, 400)
KINDS = {
    "reports between bounds": {},
    "a batch a message": {"per_user": True},
    "the greatest value": {"per_slot": "max"},
    "a curator": {"privacy": CURATOR},
}


def line(of, source=0, mark=None):
    return relaying_of(of, source, mark or Mark(0, -1, None))


def at(value, offset=0, stamp=-1):
    return Message(offset, stamp, value)


def copied(relaying, message):
    return relaying.copied(message, relaying.extent(message), b"bike-7", [("trace", b"1")])


def array(*rows):
    return json.dumps(rows).encode()


def event(user, slot=0, value=1.5):
    return {"user": user, "time": START + slot * SLOT, "value": value}


def found(values, dtype=np.float64):
    """What the fold reads of these."""
    run = CopyReader(np.dtype(dtype)).read_run(values)
    events = run.events
    rows = []
    if events is not None:
        columns = events.users.texts(), events.times.tolist(), events.values.tolist()
        rows = list(zip(run.message.tolist(), run.row.tolist(), *columns, strict=True))
    return rows, list(run.bad), list(run.ticks)


# what is written


def test_each_event_goes_to_the_partition_of_its_user():
    """As the same event, with its place; whatever key the record has."""
    users = ["m1", "17", "été", "m1", 'a"b']
    values = [1.5, -0.0, 1e-300, 0.1 + 0.2, 7]
    rows = [
        event(int(user) if user.isdigit() else user, value=value)
        for user, value in zip(users, values, strict=True)
    ]
    made = copied(line(topology(), 1), at(array(*rows), 40, stamp=START))
    of_events = [each for each in made if not place_of(each.value).is_tick]
    assert [each.partition for each in of_events] == partitions_of(users, PARTITIONS).tolist()
    assert [place_of(each.value) for each in of_events] == [Place(1, 40, row) for row in range(5)]
    read, bad, ticks = found([each.value for each in of_events])
    assert [each[2:] for each in read] == [
        (user, START, value) for user, value in zip(users, values, strict=True)
    ]
    assert not bad and not ticks
    assert {each.topic for each in made} == {"bikes.edge"}
    assert {(each.key, each.headers, each.timestamp) for each in made} == {(None, (), START)}


@cases(
    ("more", "value"),
    [
        ("privacy: {method: lpu, epsilon: 1.0, window: 4, categories: [up, down]}", "down"),
        ("privacy: {method: sw_direct, epsilon: 2.0, window: 3, domain: [0, 10]}", "2.25"),
    ],
)
def test_a_value_is_copied_as_it_was_read(more, value):
    """Names as numbers of categories, numbers that are text as numbers, nested fields."""
    text = """
    topology: bikes
    kafka: {bootstrap_servers: "h:1"}
    input: {topic: theirs, relay: rekey, sources: 1, slot: 1m, user: [$.who.site, $.who.name],
      value: $.what, time: $.at.when, time_unit: us%s}
    %s
    output: {statistics: [%s]}
    edge: {key_file: k}
    """
    names = "categories" in more
    coerce = "" if names else ", coerce: numbers"
    of = loads(text % (coerce, more, "frequencies" if names else "mean"))
    record = {"who": {"site": 4, "name": "x"}, "what": value, "at": {"when": START * 1000 + 999}}
    made = [each.value for each in copied(line(of), at(json.dumps(record).encode()))]
    stage = stage_of(of, partitions_of(['["4","x"]'], 2).item())
    output = Output(lambda *_: Record("", 0, None, b""))
    rows, latest = stage._raw.read([at(made[0])], output)
    assert rows.users.texts() == ['["4","x"]'] and latest.tolist() == [-1]
    assert rows.slots.tolist() == [START // SLOT]
    assert rows.values.tolist() == [1 if names else 2.25]


def test_arrow_batches_are_split():
    text = TEXT.replace("per_slot: {", "format: arrow, per_slot: {").format(
        partitions=3,
        per_slot="mean",
        more=", relay: rekey, sources: 2",
        privacy=rekeys.SW,
        output="statistics: [mean]",
    )
    of = loads(text)
    value = batch([("m1", START, 1.0), ("m2", START + 1, 2.0), ("m3", START + SLOT, 3.0)])
    made = copied(line(of), at(value, 3))
    read, _, ticks = found([each.value for each in made])
    assert [each[2:] for each in read] == [
        ("m1", START, 1.0),
        ("m2", START + 1, 2.0),
        ("m3", START + SLOT, 3.0),
    ]
    assert [time for _, time in ticks] == [START + SLOT] * PARTITIONS


def test_what_is_no_event_goes_to_a_partition_of_its_source_without_its_value():
    """One record a bad row, in the order of rows; the fold makes a dead letter of each."""
    of = topology()
    value = array(event("a"), "secret", event("b"), {"user": "secret", "time": "secret"})
    made = copied(line(of, 1), at(value, 5))
    _, bad, _ = found([each.value for each in made])
    assert [(row, reason) for _, row, reason in bad] == [
        (1, Reason.NOT_A_RECORD),
        (3, Reason.TIME),
    ]
    assert not any(b"secret" in each.value for each in made)
    assert [place_of(each.value).row for each in made[:4]] == [0, 1, 2, 3]
    assert {made[1].partition, made[3].partition} == {1 % PARTITIONS}
    whole = copied(line(of, 1), at(b"\xff junk", 6))
    assert [place_of(each.value) for each in whole] == [Place(1, 6, 0)]
    none = copied(line(of, 1), at(None, 7))
    assert len(none) == 1 and found([none[0].value])[1][0][1:] == (0, Reason.EMPTY)


def test_a_dead_letter_says_which_row_and_nothing_of_the_value():
    of = topology()
    made = copied(line(of), at(array(event("a"), {"user": "secret"}), 5))
    bad = [each.value for each in made if b'"bad"' in each.value]
    output = stage_of(of, 0).fold(stage_of(of, 0).fresh(), [at(bad[0], 9)])
    letters = [json.loads(each.value) for each in output.records]
    assert [(each["topic"], each["offset"], each["row"]) for each in letters] == [
        ("bikes.edge", 9, 1)
    ]
    assert output.counts["dead_letters:time"] == 1


def test_a_stranger_cannot_say_that_a_record_is_a_copy():
    """Neither a place nor a tick: it is read as any record, and a request is not copied at all."""
    of = topology(events="")
    forged = tick_of(0, 2**60, END)
    made = copied(line(of), at(forged, 8))
    assert [place_of(each.value) for each in made] == [Place(0, 8, 0)]
    assert b'"bad"' in made[0].value
    ours = stage_of(of, 0)
    output = ours.fold(ours.fresh(), [at(b'{"user":"m1","time":0,"value":1}', 1)])
    assert output.counts["dead_letters:not_a_record"] == 1


def test_ticks_come_behind_the_first_event_of_a_slot():
    """Of all rows of its record; to every partition; and not for a slot that has begun."""
    of = topology()
    relaying = line(of)
    for offset, (slots, ticks) in enumerate([((0,), 1), ((0, 0), 0), ((2, 1, 4), 1), ((3,), 0)]):
        message = at(array(*(event(f"u{slot}", slot) for slot in slots)), offset)
        made = copied(relaying, message)
        relaying.written(relaying.extent(message).time)
        of_ticks = [each for each in made if place_of(each.value).is_tick]
        assert made[len(slots) :] == of_ticks
        assert [each.partition for each in of_ticks] == list(range(PARTITIONS)) * ticks
        if ticks:
            assert place_of(of_ticks[0].value) == Place(0, offset + 1, -1)
            assert found([of_ticks[0].value])[2] == [(0, START + max(slots) * SLOT)]


def test_what_ran_ahead_ticks_nothing():
    """The fold makes a dead letter of it."""
    of = topology()
    message = at(array(event("a", 90 * 24 * 60)), stamp=START)
    made = copied(line(of), message)
    assert len(made) == 1 and not place_of(made[0].value).is_tick
    ours = stage_of(of, made[0].partition)
    output = ours.fold(ours.fresh(), [at(made[0].value, 1, START)])
    assert output.counts["dead_letters:ahead"] == 1


# what is folded


def run_of(*values):
    return Run.of([at(value, number) for number, value in enumerate(values)])


def copy(source, offset, row):
    body = b'"user":"u","time":1,"value":1}'
    return tick_of(source, offset, 0).split(b'"source"')[0] + (
        f'"source":[{source},{offset},{row}],'.encode() + body
    )


def test_repeats_are_dropped_row_by_row():
    """Of each source by itself; a tick may stand where one has stood, and nothing behind it."""
    of = Sources(2)
    given = [
        (copy(0, 5, 0), True),
        (copy(0, 5, 1), True),
        (copy(0, 5, 1), False),
        (copy(1, 3, 0), True),
        (copy(0, 4, 9), False),
        (tick_of(0, 6, 10), True),
        (tick_of(0, 6, 20), True),
        (tick_of(0, 5, 99), False),
        (copy(0, 5, 2), False),
        (copy(0, 6, 0), True),
        (tick_of(0, 6, 99), False),
        (b"none", True),
    ]
    run, whose = of.new(run_of(*(value for value, _ in given)))
    assert run.offsets.tolist() == [number for number, (_, new) in enumerate(given) if new]
    assert whose.tolist() == [0, 0, 1, 0, 0, 0, -1]
    again = Sources(2)
    again.restore(json.loads(json.dumps(of.saved())))
    assert again.saved() == of.saved() and len(again.new(run)[0]) == 1


def test_the_slowest_source_says_how_far_it_is():
    of = Sources(3)
    whose, times = np.array([0, 1, 1, 2, 0, -1]), np.array([50, 90, 70, 40, -1, 99])
    assert of.come(whose, times).tolist() == [-1, -1, -1, 40, 40, 40]
    assert of.come(np.array([2, 2]), np.array([60, 80])).tolist() == [50, 50]


def world_of(seed, kind, make=relaying_of, **more):
    """A topic, our log after a hunt, and what it must come to."""
    dice = Random(seed)
    of = topology(**kind)
    events = events_of(dice)
    world = World(of, [messages_of(dice, each) for each in events], make)
    hunted(world, dice, **more)
    return world, [each for source in events for each in source], dice


def complaints(world, events, dice, kind):
    """What is wrong with our log."""
    stages = [stage_of(world.topology, number) for number in range(PARTITIONS)]
    of = topology(rekey=False, **kind)
    twins = [stage_of(of, number) for number in range(PARTITIONS)]
    mine, counts = told(stages, world.ours, dice)
    theirs, due = told(twins, keyed(of, events))
    assert len(theirs) > 50 and due["late"] == 0
    reader = given_partition(world.topology, 0).reader
    bad = sum(len(reader.read_run([each.value for each in log]).bad) for log in world.theirs)
    letters = sum(count for name, count in counts.items() if name.startswith("dead_letters"))
    return {
        what
        for what, wrong in {
            "another report": mine.keys() - theirs.keys(),
            "lost report": theirs.keys() - mine.keys(),
            "twice": [each for each, count in mine.items() if count != 1],
            "late": counts["late"],
            "counted": counts["events"] != len(events),
            "dead letters": letters != bad,
        }.items()
        if wrong
    }


@pytest.mark.parametrize("kind", KINDS)
def test_no_fault_of_a_relay_makes_a_second_report_or_loses_one(kind):
    """Kills, zombies and rebalances between any two records that arrive; sources hours apart. Each
    event is folded once, none is late, and what is released is what a keyed topic gives.
    """
    repeats = 0
    for seed in range(HUNTS):
        world, events, dice = world_of(seed, KINDS[kind])
        repeats += sum(map(len, world.ours)) - sum(map(len, unrepeated(world)))
        assert complaints(world, events, dice, KINDS[kind]) == set(), seed
    assert repeats > 100 * HUNTS  # else nothing was tried


def unrepeated(world):
    """Our log without what the fold drops."""
    logs = []
    for log in world.ours:
        run, _ = Sources(SOURCES).new(Run.of(log))
        logs.append([at(value, n) for n, value in enumerate(run.values, 1)])
    return logs


@pytest.mark.parametrize("per_user", [False, True])
def test_repeats_move_nothing_that_crosses_the_trust_line(per_user):
    """Byte for byte what is sent of the log without them: no number of a bound slips."""
    number = 0
    for seed in range(4):
        world, _, dice = world_of(seed, {"per_user": per_user})
        stages = [stage_of(world.topology, number) for number in range(PARTITIONS)]
        for stage, log, plain in zip(stages, world.ours, unrepeated(world), strict=True):
            assert len(plain) < len(log)
            sent, expected = (
                [
                    each.value
                    for each in rekeys.folded(stage, messages, dice).records
                    if each.topic == stage.reports_topic
                ]
                for messages in (log, plain)
            )
            assert sent == expected
            number += len(sent)
    assert number > 100


class NothingDropped(Sources):
    """Folds what was folded."""

    def _is_new(self, place):
        return True


class DroppedByOffset(Sources):
    """Takes the rows of a record for one."""

    def _is_new(self, place):
        return place.offset > self._last[place.source][0]


class KeptByOffset(Sources):
    """Takes the rows of the last record again."""

    def _is_new(self, place):
        return place.offset >= self._last[place.source][0]


class Fastest(Sources):
    """A slot closes by the fastest source."""

    def come(self, of, times):
        super().come(of, times)
        return np.maximum.accumulate(times)


class AnyTickMovesAll(Sources):
    """A tick says of all sources how far they are."""

    def come(self, of, times):
        for source in range(len(self._times)):
            last = super().come(np.where(of < 0, of, source), times)
        return last


class TicksToItsOwn(Rekeying):
    """Other partitions do not hear how far a source is."""

    def _ticks(self, *given):
        own = self.raw.partition % self.partitions
        return [each for each in super()._ticks(*given) if each.partition == own]


class TicksFirst(Rekeying):
    """Ticks come before the events that they speak of."""

    def copied(self, *given):
        return super().copied(*given)[::-1]


class TicksOfTheTopic(Rekeying):
    """Events say themselves how far a source is, and others do not hear of it."""

    def _ticks(self, *given):
        return []


def of_kind(kind):
    """Makes relays of this kind."""

    def make(of, source, mark):
        made = relaying_of(of, source, mark)
        return kind(**vars(made))

    return make


MUTANTS = {
    "nothing dropped": (NothingDropped, {}, "another report"),
    "dropped by offset": (DroppedByOffset, {}, "counted"),
    "rows of the last record kept": (KeptByOffset, {}, "counted"),
    "the fastest source": (Fastest, {}, "late"),
    "a tick moves all": (AnyTickMovesAll, {}, "late"),
    "rows from behind": (Sources, {"make": of_kind(TicksFirst)}, "counted"),
    "committed before arrival": (Sources, {"early": True}, "lost report"),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_relay_or_fold_is_found(name, monkeypatch):
    """In hunts in which the right one is clean."""
    kind, more, complaint = MUTANTS[name]
    for stage in ("perturb", "curate"):
        monkeypatch.setattr(f"ldp_kafka.runtime.stages.{stage}.Sources", kind)
    every = set()
    for seed in range(12):
        every |= complaints(*world_of(seed, {}, **more), {})
    assert complaint in every


@pytest.mark.parametrize("kind", [TicksToItsOwn, TicksOfTheTopic])
def test_a_source_that_does_not_say_how_far_it_is_is_found(kind):
    """Slots stay open that a keyed topic closes: seen before the last tick."""
    dice = Random(3)
    of = topology()
    theirs = [messages_of(dice, each) for each in events_of(dice, apart=0)]
    closed = []
    for make in (relaying_of, of_kind(kind)):
        world = World(of, theirs, make)
        relay = world.relay(*range(SOURCES))
        for source in range(SOURCES):
            while relay.copy(source):
                pass
        for number in range(PARTITIONS):
            relay.arrive(number)
        stage, state = stage_of(of, 0), stage_of(of, 0).fresh()
        stage.fold(state, world.ours[0])
        closed.append(state.closed)
    assert closed[1] < closed[0] == START // SLOT + rekeys.SLOTS - 3


@pytest.mark.parametrize("kind", KINDS)
def test_crashes_of_the_fold(kind):
    """Torn snapshots and owners that end anywhere, over logs with repeats in them: nothing is
    drawn twice, and a successor drops what was folded.
    """
    for seed in range(depth(3, 40)):
        world, _, dice = world_of(seed, KINDS[kind])
        for number in range(PARTITIONS):
            crashes(stage_of(world.topology, number), world.ours[number], dice, seed)


def crashes(stage, log, dice, seed):
    """Of the fold of a log, cut into runs of any length."""
    runs, start = [], 0
    while start < len(log):
        size = dice.choice((1, 2, 5, 20))
        runs.append(log[start : start + size])
        start += size
    over_crashes(stage, runs, seed, Pure(stage, runs))


class Forgets(Sources):
    """What was folded is not in the state."""

    def saved(self):
        return [[-1, -1, time] for *_, time in super().saved()]


class ForgetsHowFar(Sources):
    """How far the sources have come is not in the state."""

    def saved(self):
        return [[*last, -1] for *last, _ in super().saved()]


@pytest.mark.parametrize("kind", [Forgets, ForgetsHowFar])
def test_a_broken_state_of_the_sources_is_found(kind, monkeypatch):
    told_apart = 0
    for seed in range(6):
        world, _, _ = world_of(seed, {})
        stage, log = stage_of(world.topology, 0), world.ours[0]
        runs = [log[start : start + 5] for start in range(0, len(log), 5)]
        pure = Pure(stage, runs)
        with monkeypatch.context() as patch:
            patch.setattr("ldp_kafka.runtime.stages.perturb.Sources", kind)
            told_apart += differs(stage, runs, seed, pure)
    assert told_apart


# the pace


def paced(seed, make=relaying_of, faults=0):
    """What the fold counts where a coordinator decides each slot once all partitions have closed
    it, and how many events there are; and our log. So many relays die, and may go on as zombies.
    """
    dice = Random(seed)
    of = topology(privacy=LPA)
    events = events_of(dice, apart=(0, 2, 9, 40)[seed % 4])
    world = World(of, [messages_of(dice, each) for each in events], make)
    relay, gone = world.relay(*range(SOURCES)), []
    stages = [stage_of(of, number) for number in range(PARTITIONS)]
    states = [stage.fresh() for stage in stages]
    done, counts = [0] * PARTITIONS, Counter()
    first = min(time for source in events for _, time, _ in source) // SLOT

    def fold():
        for number, log in enumerate(world.ours):
            relay.arrive(number)
            counts.update(stages[number].fold(states[number], log[done[number] :]).counts)
            done[number] = len(log)

    def decide():
        following = first if world.decided is None else world.decided + 1
        if following > min(state.closed for state in states):
            return False
        world.decided = following
        for number in range(PARTITIONS):
            world.add(number, rekeys.asked(following))
        return True

    def idle(source):
        due = relay.lines[source].news(max(each.time for each in relay.lines.values()))
        if relay.next[source] < len(world.theirs[source]) or due is None:
            return False
        relay.tick(source, due)
        return True

    def fault():
        """It ends with some of what is under way, or is taken for dead; another has its place."""
        for number in range(PARTITIONS):
            relay.arrive(number, dice.randrange(4))
        gone.append(relay)
        zombie = dice.choice(gone)
        for source in range(SOURCES):
            for _ in range(dice.randrange(6)):
                zombie.copy(source)
        for number in range(PARTITIONS):
            zombie.arrive(number, dice.choice((0, 2, 10**9)))
        return world.relay(*range(SOURCES))

    while any(relay.next[source] < len(log) for source, log in enumerate(world.theirs)):
        went = [relay.copy(source) for source in dice.sample(range(SOURCES), SOURCES)]
        went += [idle(source) for source in range(SOURCES)]
        if len(gone) < faults and dice.random() < 0.4:
            relay = fault()
            continue
        fold()
        if dice.random() < 0.2:
            relay.commit()
        assert decide() or any(went), "nothing can be decided, and nothing copied"
        fold()
    assert any(is_request(each.value) for each in world.ours[0])
    return counts, sum(map(len, events)), world


PACED = depth(8, 80)


@pytest.mark.parametrize("seed", range(PACED))
def test_pacing_by_source_loses_no_event_and_comes_to_an_end(seed):
    """What is held back of one source holds no other, every request comes in time, and nothing is
    late.
    """
    counts, events, _ = paced(seed)
    assert counts["events"] == events
    assert counts["late"] == counts["requests_late"] == 0


@pytest.mark.parametrize("seed", range(PACED))
def test_pacing_loses_no_event_where_relays_die_and_come_back(seed):
    """Each goes on with what was committed of how far its partitions are and what was decided; and
    so does the fold, whose snapshots are torn.
    """
    counts, events, world = paced(seed, faults=8)
    assert counts["events"] == events
    assert counts["late"] == counts["requests_late"] == 0
    repeats = sum(map(len, world.ours)) - sum(map(len, unrepeated(world)))
    assert repeats > 20
    for number, log in enumerate(world.ours):
        crashes(stage_of(world.topology, number), log, Random(seed), seed)


class IdleRunsAway(Rekeying):
    """A source of which nothing is left follows the others past what can be asked."""

    news = Relaying.news


def test_a_broken_pace_is_found():
    late = [paced(seed, of_kind(IdleRunsAway))[0]["requests_late"] for seed in range(PACED)]
    assert any(late)


# what is refused


@cases(
    ("more", "says"),
    [
        ("relay: rekey", "input.sources: must be given where relay is rekey"),
        ("relay: true, sources: 3", "input.sources: must be given only where relay is rekey"),
        ("sources: 3", "input.sources: must be given only where relay is rekey"),
        ("relay: rekey, sources: 3, partitioning: trusted", "input.partitioning: must be murmur2"),
        ("relay: rekey, sources: 3, per_slot: first", "input.per_slot: must not be first"),
        ("relay: rekey, sources: 0", "input.sources: must be at least 1"),
        ("relay: other, sources: 3", "input.relay: must be true, false or rekey"),
        ("relay: rekey, sources: 3, create: true", "input.create: must be false where relay"),
        ("relay: rekey, sources: 3, source: devices", "input.relay: must not be given"),
    ],
)
def test_what_is_refused(more, says):
    text = TEXT.replace("per_slot: {per_slot}, ", "")
    with pytest.raises(Exception, match=says.replace(".", r"\.")):
        loads(
            text.format(
                partitions=2,
                more=f", {more}",
                privacy=rekeys.SW,
                output="statistics: [mean]",
            )
        )


def test_how_it_is_spread_is_part_of_the_layout():
    """A running topology cannot change it; what it was before is what it was."""
    layouts = {topology(sources=sources).layout for sources in (1, 2, 3)}
    layouts |= {topology(partitions=partitions).layout for partitions in (2, 3)}
    layouts.add(topology(rekey=False).layout)
    assert len(layouts) == 5
    assert topology().fingerprint == topology(rekey=False).fingerprint


def test_the_topics_have_each_its_partitions():
    of = topology(partitions=6, sources=4)
    assert of.flow.given.partitions == 4 and of.flow.raw.partitions == 6
    relay = of.role("perturb").relay
    assert (relay.reads.partitions, relay.writes.partitions, relay.rekey) == (4, 6, True)


# what is said of it


def test_the_plan_says_where_events_go():
    made = plan(topology(partitions=6, sources=4), users=100).lines()
    assert (
        "relay        theirs, 4 partitions, each event copied into the one of 6 of bikes.edge that"
        " its user has, as it comes; no ticks"
    ) in made


def test_a_user_in_several_partitions_is_no_complaint():
    """Of the topic as its owner writes it: there each partition may have any user."""
    parts = [
        Part([at(array(event("a"), event(f"b{n}")), n)], "offset {}".format, n)
        for n in range(SOURCES)
    ]
    found = judge(topology(), parts, now_ms=END)
    assert (found.events, found.looks.ids.distinct, found.split) == (4, 3, 0)


def test_status_reads_our_log_as_its_worker_does():
    """The slowest source says how far a partition has come, once all have been heard of."""
    of = topology()
    relay = [line(of, source) for source in range(SOURCES)]
    values = [
        each.value
        for source, slot in ((0, 3), (1, 9), (0, 5))
        for each in copied(relay[source], at(array(event("a", slot)), slot))
        if each.partition == partitions_of(["a"], PARTITIONS).item()
    ]
    number = partitions_of(["a"], PARTITIONS).item()
    held = [Kept(number, offset, START, None, value) for offset, value in enumerate(values, 1)]
    found = of_raw(of, number, [*held, held[0]])
    assert found.newest == START // SLOT + 5 and (found.events, found.late) == (3, 0)
    assert of_raw(of, number, held[:2]).newest is None


def test_another_number_of_partitions_is_named_by_its_key(monkeypatch):
    monkeypatch.setattr(admin, "partitions_of", lambda *_: SOURCES + 1)
    spec = setup._foreign(topology(), {}, None)
    assert spec.partitions == SOURCES and "input.sources" in spec.cure


def test_replay_does_not_write_to_it():
    with pytest.raises(ConfigurationError, match="only its owner's producers write to it"):
        messages(topology(), None)
