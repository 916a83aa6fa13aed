"""Every rule that halts a worker: it is provoked, the message is read, the way out that it names is
gone, and the worker runs again: no event lost, nothing drawn twice.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random
from types import SimpleNamespace

import pytest

from ldp_kafka.errors import ConfigurationError, StateError
from ldp_kafka.runtime import local, roles
from ldp_kafka.runtime.kafka.group_offsets import SKIPPED, GroupOffsets, read_facts
from ldp_kafka.runtime.keys import edge_randomness, new_key, read_key
from ldp_kafka.runtime.recovery import start
from ldp_kafka.runtime.recovery.begin import begin
from ldp_kafka.runtime.recovery.checkpoints import checkpoints
from ldp_kafka.runtime.recovery.epoch import Limits
from ldp_kafka.runtime.recovery.inspection import inspect
from ldp_kafka.runtime.recovery.rules import PartitionOffsets
from ldp_kafka.runtime.tools.state import plan_rewind, plan_skip
from ldp_kafka.topology import loads
from tests.fold import cases
from tests.fold.epochs import Shelf
from tests.fold.judge import said
from tests.runtime.stages import rekeys

(LOG,) = cases.orderly(1, 6)
TOPOLOGY = cases.topology(1)
END = len(LOG) + 1
KEPT, LATER = 5, 11  # messages that the older and the newer state cover
OTHER = bytes(reversed(cases.KEY))


@dataclass
class Place:
    """What brokers hold of one partition, and a worker that comes and goes: `recovery.begin`
    decides, as in a worker.
    """

    topology: object = TOPOLOGY
    key: object = cases.KEY
    role: str = "perturb"
    log: list = field(default_factory=lambda: list(LOG))
    start: int = 0
    committed: int | None = 1
    skipped: int | None = None
    table: dict = field(default_factory=dict)
    sent: list = field(default_factory=list)

    def __post_init__(self):
        self.spec, *_ = self.topology.role(self.role).agents

    @property
    def position(self):
        return PartitionOffsets(
            self.committed, self.start, self.log[-1].offset + 1, False, self.skipped
        )

    def stage(self, number=0):
        if self.role == "collect":
            return roles.make(self.topology, "collect", number)
        noise = edge_randomness(self.topology, self.key, cases.HERE)
        return roles.make(self.topology, self.spec, number, noise)

    @property
    def facts(self):
        """As a worker reads them."""
        offsets = SimpleNamespace(
            position=lambda *_: self.position,
            reported=lambda *_: bool(self.sent),
            first=lambda *_: None,
            partitions=lambda _: self.spec.partitions,
        )
        return read_facts(offsets, self.spec, 0, self.stage())

    def load(self):
        shelf = Shelf()
        return begin(
            self.stage(),
            self.facts,
            dict(self.table),
            lambda: self.table,
            table=shelf,
            output=shelf,
            acknowledge=shelf.acknowledged.append,
            clock=lambda: 0.0,
            limits=Limits(run=10**9, run_bytes=10**12),
        )

    def work(self, until=None, *, keep=True):
        """A worker reads so far, keeps its state, acknowledges, and ends."""
        epoch = self.load()
        for message in self.log:
            if message.offset >= epoch.next_offset and (until is None or message.offset <= until):
                epoch.take(message, None)
        epoch.fold()
        self.sent += epoch.output.records
        if keep:
            snapshot = epoch.snapshot()
            self.table |= snapshot.records
            for key in snapshot.drop:
                self.table.pop(key, None)
            self.committed, self.skipped = epoch.next_offset, None

    def halts(self, words):
        with pytest.raises(StateError, match=words):
            self.load()

    def rewind(self, *, key=True):
        """`ldp-kafka state rewind`, with the edge's key or where it cannot be read; what it
        refused.
        """
        facts = self.facts
        if not key:
            known = {name: of for name, of in facts.bindings.items() if name != "key"}
            facts = replace(facts, bindings=known, seal=None)
        held = inspect(self.topology, self.spec, self.table, facts)
        plan = plan_rewind(held, facts, checkpoints(self.table, 0, facts.seal), 1)
        for move in plan.moves:
            self.committed = move.to
        return plan.refusals

    def skip(self, reported=None):
        """`ldp-kafka state skip`, where the collector has counted all; what it refused."""
        facts = self.facts
        held = inspect(self.topology, self.spec, self.table, facts)
        plan = plan_skip(
            held,
            facts,
            checkpoints(self.table, 0, facts.seal),
            self.counted() if reported is None else reported,
        )
        for move in plan.moves:
            self.committed = move.to
            if move.metadata.startswith(SKIPPED):
                self.skipped = int(move.metadata.removeprefix(SKIPPED))
        return plan.refusals

    def counted(self):
        """The last bound of the reports, as a collector knows it."""
        stage = roles.make(self.topology, self.topology.role("collect").agents[0], 0)
        sent = [each for each in self.sent if each.topic == self.topology.reports_topic]
        stage.fold(state := stage.fresh(), local.log(sent, 1))
        return stage.meta(state)["last"][0]

    def gaps(self):
        """What the state says was left out."""
        facts = self.facts
        return inspect(self.topology, self.spec, self.table, facts).skipped

    def reports(self):
        """Of each report what was ever said."""
        found = {}
        for name, what in said(
            0, [record for record in self.sent if record.topic == self.topology.reports_topic]
        ):
            found.setdefault(name, set()).add(what)
        return found

    def clean(self, log=None):
        """Whether each report that the log gives was made, once or again the same, and no other."""
        run = local.run(
            self.topology,
            edge_randomness(self.topology, self.key, cases.HERE),
            [self.log if log is None else log],
        )
        return (
            self.reports() == {name: {what} for name, what in said(0, run.reports[0])}
            and len(self.reports()) > 0
        )


def worked(**more):
    """A place where a worker has kept a state twice; and the older one."""
    place = Place(**more)
    place.work(KEPT)
    old = dict(place.table)
    place.work(LATER)
    return place, old


def renamed(place, name="fold-2", **more):
    """The topology under a new name, on what the raw log still holds."""
    text = cases.TEXT.format(
        partitions=1, privacy=cases.CAPP, statistics="[mean, per_user]", lateness=1
    ).replace("topology: fold", f"topology: {name}")
    text = text.replace("input: {", f"input: {{topic: {place.topology.raw_topic}, ")
    return Place(
        loads(text),
        log=[message for message in place.log if message.offset >= place.start],
        start=place.start,
        committed=None if place.start else 1,
        **more,
    )


def test_undisturbed():
    """The harness itself: three workers, one report each; and it sees a second draw, a lost event
    and another's report.
    """
    place, _ = worked()
    place.work()
    assert place.clean()
    assert not replace(place, key=OTHER).clean()
    assert not replace(place, sent=place.sent[:-3]).clean()
    twin = Place(key=OTHER)
    twin.work(3)
    assert not replace(place, sent=place.sent + twin.sent).clean()


def test_an_old_changelog_rewound():
    """What the state does not cover is read again, and reported again as it was."""
    place, old = worked()
    newer, place.table = place.table, old
    place.halts(
        "state ends at offset 5, but offset 11 was acknowledged: it is an old one.*`ldp-kafka state"
        " rewind`"
    )
    assert place.rewind() == [] and place.committed == KEPT + 1
    before = len(place.sent)
    place.work()
    assert place.clean() and len(place.sent) > before
    # or the newer one is brought back
    other = Place(table=newer, committed=LATER + 1, sent=place.sent[:before])
    other.work()
    assert other.clean()


def test_other_ways_around_an_old_changelog_are_found():
    """Why it goes back to what the state covers: a worker that went on from what was acknowledged
    would lose events, one with an empty state would say other things of what it reads again.
    """
    place, old = worked()
    stage = place.stage()
    for held, first in ((old, LATER), ({}, KEPT)):
        state = Place(table=held, committed=1).load().state if held else stage.fresh()
        broken = replace(place, sent=place.sent + stage.fold(state, LOG[first:]).records)
        assert not broken.clean()


def test_no_changelog():
    """A rewind is refused, since nothing tells whether the key is the same; the changelog brought
    back is the way.
    """
    place, _ = worked()
    newer, place.table = place.table, {}
    place.halts("no complete state.*bring it back")
    assert place.rewind() and place.committed == LATER + 1
    assert place.rewind(key=False) and place.committed == LATER + 1, "nor where it cannot be read"
    place.table = newer
    place.work()
    assert place.clean()


def test_a_half_written_changelog():
    """A shard that its meta lists is gone."""
    place, old = worked()
    newer = place.table
    shard = next(key.split("/")[1] for key in newer if not key.startswith("0/meta"))
    place.table = {k: value for k, value in newer.items() if not k.startswith(f"0/{shard}/")}
    place.halts("no complete state.*where it is an old one, `ldp-kafka state rewind`")
    place.table = old
    assert place.rewind() == []
    place.work()
    assert place.clean()


def test_a_collector_without_changelog():
    """It begins anew from the whole log: it has no secret and no budget."""
    edge = Place()
    edge.work()
    reports = local.log(
        [record for record in edge.sent if record.topic == TOPOLOGY.reports_topic], 1
    )
    place = Place(role="collect", log=reports)
    place.work(4)
    place.work(len(reports) - 1)
    place.table = {}
    place.halts("no complete state")
    assert place.rewind() == [] and place.committed == 1
    place.work()
    straight = place.stage()
    state = straight.fresh()
    expected = {(record.key, record.value) for record in straight.fold(state, reports).records}
    assert {(record.key, record.value) for record in place.sent} >= expected
    assert place.load().offset == reports[-1].offset


def test_a_log_that_was_cut_behind_an_old_state():
    """A rewind is refused, the newer changelog is the way."""
    place, old = worked()
    newer, place.table, place.start, place.committed = place.table, old, KEPT + 3, None
    place.halts(
        f"the log begins at offset {KEPT + 3}, but no state has what was before it; bring the"
        " changelog back; the edge goes on behind the gap with `ldp-kafka state skip`, .*: else"
        " give the topology a new name"
    )
    assert "drawn of what is lost" in place.skip()[0]
    place.committed = LATER + 1
    assert "new name" in place.rewind()[0]
    place.table = newer
    place.work()
    assert place.clean()


def test_a_log_that_was_cut_before_it_was_read():
    """Events are gone; under a new name what is left is folded by a topology that shares no report
    with the old one.
    """
    place, _ = worked()
    place.start = LATER + 3
    place.halts(
        "begins at offset 14, after the committed 12: records were lost before they were read;"
        " the edge goes on behind the gap with `ldp-kafka state skip`, .*: else give the topology a"
        " new name"
    )
    fresh = renamed(place)
    fresh.work(LATER + 4)
    fresh.work()
    assert fresh.clean() and not fresh.reports().keys() & place.reports().keys()


def there(place, first=LATER + 1):
    """What is left of its log, but for what was lost from ``first`` on."""
    return [each for each in LOG if each.offset < first or each.offset >= place.start]


@pytest.mark.parametrize("committed", [LATER + 1, None])
def test_a_log_that_was_cut_before_it_was_read_is_skipped(committed):
    """The state goes on: of each report there is one, as a log gives them that never had what is
    lost. The gap is in the state, and another one comes behind it. Offsets of a group expire, too.
    """
    place, _ = worked()
    place.start, place.committed = LATER + 3, committed
    assert place.skip() == [] and (place.committed, place.skipped) == (LATER + 3, LATER + 1)
    assert place.gaps() == [[LATER + 1, LATER + 2]]
    assert not place.skip(), "nothing is lost any more"
    place.work(LATER + 5)
    assert place.clean([each for each in there(place) if each.offset <= LATER + 5])
    place.start = LATER + 8
    assert place.skip() == []
    place.work()
    assert place.gaps() == [[LATER + 1, LATER + 2], [LATER + 6, LATER + 7]]
    lost = {LATER + 1, LATER + 2, LATER + 6, LATER + 7}
    assert place.clean([each for each in LOG if each.offset not in lost])


@pytest.mark.parametrize("kept", [0, 3])
def test_a_skip_in_a_log_that_is_re_keyed(kept):
    """What is lost comes again, of a relay that had not committed it. The state goes on to know
    what it has of each source: it takes what is new to it, and nothing behind what was kept.
    """
    dice, of = Random(1), rekeys.topology(partitions=1)
    theirs = [rekeys.messages_of(dice, each) for each in rekeys.events_of(dice)]
    world = rekeys.World(of, theirs)
    dies, relay = (world.relay(*range(rekeys.SOURCES)) for _ in range(2))
    for source in range(rekeys.SOURCES):
        for _ in range(12):
            dies.copy(source)
    dies.arrive(0)
    end = len(world.ours[0])
    relay.finish()
    place = Place(topology=of, log=world.ours[0])
    place.work(end // 2)
    place.start = end + 1 - kept
    assert place.skip() == [] and place.skipped == end // 2 + 1
    place.work()
    lost = range(end // 2 + 1, place.start)
    assert len(lost) > 10 and place.gaps() == [[lost[0], lost[-1]]]
    assert place.clean([each for each in place.log if each.offset not in lost])
    assert place.clean() is (kept == 0)


def test_a_skip_that_retention_overtakes_again():
    """Before any worker has begun behind it."""
    place, _ = worked()
    place.start = LATER + 2
    assert place.skip() == []
    place.start = LATER + 4
    place.halts("records were lost before they were read")
    assert place.skip() == []
    place.work()
    assert place.gaps() == [[LATER + 1, LATER + 3]] and place.clean(there(place))


def test_what_was_reported_of_what_is_lost_is_not_drawn_again():
    """A worker read on, sent reports, and kept no state of them: their users could report on the
    same slots a second time, and spend what no ledger has. So it is not skipped.
    """
    place, _ = worked()
    place.work(LATER + 2, keep=False)
    place.start = LATER + 3
    assert "they are in no ledger, and could be drawn again" in place.skip()[0]
    place.halts("records were lost before they were read")
    assert place.skip(reported="nobody knows")[0].endswith("nobody knows")


def test_a_skip_without_a_state():
    """Where nobody has reported anything the log begins anew; else users' ledgers are missing."""
    place = Place(start=3)
    place.halts("records were lost before they were read")
    assert place.skip() == [] and (place.committed, place.skipped) == (3, None)
    other, _ = worked()
    other.table, other.start = {}, LATER + 3
    assert "no complete state" in other.skip()[0]
    sent = Place(start=3, sent=other.sent)
    assert "no complete state" in sent.skip()[0]


def test_a_skip_is_no_way_around_another_rule():
    """Another key, other parameters, or a log that was made anew."""
    place, _ = worked()
    place.start = LATER + 3
    assert "another key" in replace(place, key=OTHER).skip()[0]
    assert "another layout" in replace(place, topology=CHANGED["layout"]).skip()[0]
    assert "made anew" in replace(place, start=4, committed=2, log=place.log[:KEPT]).skip()[0]


def test_a_log_that_was_made_anew():
    """Its offsets begin again: other events than those that the state has."""
    place, _ = worked()
    place.log = place.log[:KEPT]
    place.halts(
        "offset 11 was folded or acknowledged, but the log ends before 6: the topic was made anew;"
        " give the topology a new name"
    )
    committed, place.committed = place.committed, END
    assert "made anew" in place.rewind()[0]
    place.committed = committed
    assert not place.rewind() and place.committed == committed
    fresh = renamed(place)
    fresh.work()
    assert fresh.clean() and not fresh.reports().keys() & place.reports().keys()


def check_partitions(spec, offsets):
    """As a worker does, again and again."""
    start.check_partitions(spec.topic, spec.partitions, offsets.partitions(spec.topic))


CHANGED = {
    "fingerprint": cases.topology(1, privacy=cases.CAPP.replace("epsilon: 2.0", "epsilon: 3.0")),
    "layout": cases.topology(1, lateness=2),
}


@pytest.mark.parametrize("what", CHANGED)
def test_changed_parameters(what):
    """The old ones back, or a new name."""
    place, _ = worked()
    place.topology = CHANGED[what]
    place.halts(
        f"written under another {what}: .*give the topology a new name, or its old parameters"
    )
    place.committed = KEPT + 1
    assert not place.rewind()  # nothing to move: no way around it either
    place.halts(f"written under another {what}")
    place.topology, place.committed = TOPOLOGY, LATER + 1
    place.work()
    assert place.clean()
    fresh = renamed(place)
    fresh.work()
    assert fresh.clean() and not fresh.reports().keys() & place.reports().keys()


def test_another_key():
    """The old one back; a rewind does not get around it, not even of an old changelog."""
    place, old = worked()
    place.key = OTHER
    place.halts("written under another key: .*bring back the key file.*`ldp-kafka key rotate`")
    newer, place.table = place.table, old
    assert "another key" in place.rewind()[0] and place.committed == LATER + 1
    place.key, place.table = cases.KEY, newer
    place.work()
    assert place.clean()


def test_no_key(tmp_path, monkeypatch):
    """The message names the command for a first key; over a state that command's key is another
    one, and only the old file helps.
    """
    monkeypatch.delenv("LDP_KAFKA_EDGE_KEY", raising=False)
    monkeypatch.setattr("ldp_kafka.runtime.keys.is_patterned", lambda _: False)  # it is one
    file = tmp_path / "edge.key"
    for path in (file, None):
        with pytest.raises(ConfigurationError, match="ldp-kafka key new FILE makes one"):
            read_key(path)
    place, _ = worked()
    new_key(file)
    place.key = read_key(file)
    place.halts("another key")
    file.write_bytes(cases.KEY)
    place.key = read_key(file)
    place.work()
    assert replace(place, key=cases.KEY).clean()


def test_other_partitions(monkeypatch):
    """Found at the start and again and again while it runs; a new name takes the new number."""
    place, _ = worked()
    metadata = SimpleNamespace(
        topics={
            place.topology.raw_topic: SimpleNamespace(partitions={0: None, 1: None}, error=None)
        }
    )
    monkeypatch.setattr(
        "ldp_kafka.runtime.kafka.group_offsets.asker",
        lambda *_, **__: SimpleNamespace(list_topics=lambda *_, **__: metadata),
    )
    with pytest.raises(
        StateError,
        match=(
            r"must have 1 partitions, found 2: users have moved.*new name, with input.partitions: 2"
        ),
    ):
        check_partitions(place.spec, GroupOffsets(place.topology, "perturb", [place.spec], {}, {}))
    two = replace(place.topology.input, partitions=2)
    assert replace(place.topology, input=two).layout != place.topology.layout
    fresh = renamed(place)
    fresh.topology = replace(fresh.topology, input=replace(fresh.topology.input, partitions=2))
    (spec,) = fresh.topology.role("perturb").agents
    check_partitions(spec, GroupOffsets(fresh.topology, "perturb", [spec], {}, {}))
    fresh.work()
    run = local.run(
        fresh.topology, edge_randomness(fresh.topology, fresh.key, cases.HERE), [fresh.log, []]
    )
    assert fresh.reports() == {name: {what} for name, what in said(0, run.reports[0])}
    assert not fresh.reports().keys() & place.reports().keys()
