"""What a curator does not hide is said wherever a guarantee is printed."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from ldp_kafka.cli import cli
from ldp_kafka.errors import TopologyError
from ldp_kafka.topology import load, loads
from ldp_kafka.topology.planner import plan
from tests.test_topologies import SHIPPED

CURATED = [path for path in SHIPPED if load(path).curated]
SHARED = ", as long as the same slots have values and the same streams have events"
OF_EVENTS = (
    ", as long as the same slots have values, the same streams have events and the same events"
    " close slots"
)
TEXT = """
topology: t
input: {slot: 1m, lateness: 0, partitions: 1, per_slot: sum}
privacy:
  {trust: curator, level: event, method: naive, epsilon: 2.0, delay: 1, domain: [0, 1000],
   setting: sliding}
output: {statistics: [per_stream]}
"""


def events(text):
    """A topology whose events close slots."""
    return text.replace("input: {", "input: {closing: events, ")


@pytest.mark.parametrize("path", CURATED, ids=lambda path: path.stem)
def test_it_is_said_wherever_a_guarantee_is(path):
    made = load(path)
    assert SHARED in made.guarantee.describe()
    assert SHARED in "\n".join(plan(made, 50).lines())
    assert SHARED in json.dumps(plan(made, 50).as_json())
    printed = CliRunner().invoke(cli, ["validate", str(path)]).output
    assert SHARED in printed.replace("\n", " ")


@pytest.mark.parametrize("level", ["event", "w-event, window: 7"])
def test_it_is_said_at_every_level(level):
    text = TEXT.replace("level: event", f"level: {level}")
    assert loads(text).guarantee.within.endswith(SHARED)
    assert loads(events(text)).guarantee.within.endswith(OF_EVENTS)


def test_it_is_said_of_a_curator_alone():
    """Of a user's own stream the slots that have values are public, as of every user."""
    edge = TEXT.replace("trust: curator, ", "").replace("per_stream", "per_user")
    assert "as long as" not in loads(edge).guarantee.describe()


KNOWN = TEXT.replace("per_slot: sum", 'per_slot: sum, streams: [north, 17], start: "2026-03-01"')
SLOTS, STREAMS, MESSAGES, EVENTS = (
    "the same slots have values",
    "the same streams have events",
    "the same messages can be read",
    "the same events close slots",
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (TEXT, {SLOTS, STREAMS}),
        (events(TEXT), {SLOTS, STREAMS, EVENTS}),
        (KNOWN, set()),
        (events(KNOWN), {EVENTS}),
        (KNOWN.replace("per_slot: sum", "per_slot: count"), set()),
        (KNOWN.replace("lateness: 0", "lateness: 0, events: $"), {MESSAGES}),
        (KNOWN.replace("lateness: 0", "lateness: 0, format: arrow"), {MESSAGES}),
        (KNOWN.replace("sum", "last").replace(', start: "2026-03-01"', ""), {SLOTS}),
        # nobody writes ticks into it, but whoever owns it says that they are there
        (TEXT.replace("input: {", "input: {create: false, "), {SLOTS, STREAMS, EVENTS}),
        (
            TEXT.replace("input: {", "input: {create: false, closing: ticks, "),
            {SLOTS, STREAMS},
        ),
    ],
)
def test_what_streams_that_are_known_hide(text, said):
    made = loads(text)
    assert {
        each for each in (SLOTS, STREAMS, MESSAGES, EVENTS) if each in made.guarantee.within
    } == said
    warned = "\n".join(plan(made, 50).warnings)
    assert ("input.streams is not given" in warned) == (STREAMS in said)
    assert ("shows that nobody was there" in warned) == (SLOTS in said)
    assert ("events close slots: one that is ahead" in warned) == (EVENTS in said)
    foreign_ticks = made.input.by_ticks and not made.input.create
    assert ("until the producers of t.raw write ticks" in warned) == foreign_ticks
    assert ("as long as" in made.guarantee.within) == bool(said)


def test_streams_are_ids_as_messages_have_them():
    """A whole number is the text of its digits, and text is in NFC."""
    made = loads(KNOWN.replace("north", '"caf\\u0065\\u0301"')).input
    assert made.streams == ("caf\u00e9", "17")
    assert (
        made.start_ms == 1_772_323_200_000 and made.before_start == 1_772_323_200_000 // 60_000 - 1
    )


def test_streams_and_start_are_bound_to_the_state():
    made = loads(KNOWN)
    others = [KNOWN.replace("north", "south"), KNOWN.replace("03-01", "03-02"), TEXT, events(KNOWN)]
    layouts = {loads(text).layout for text in others}
    assert len(layouts) == 4 and made.layout not in layouts
    assert {loads(text).fingerprint for text in others} == {made.fingerprint}
    assert loads(KNOWN.replace("north, 17", "17, north")).layout == made.layout


@pytest.mark.parametrize(
    ("old", "new", "line", "key", "why"),
    [
        ("[0, 1000]", "[1, 1000]", 5, "privacy.domain", "must contain 0"),
        ("[0, 1000]", "[-9, -1]", 5, "privacy.domain", "must contain 0"),
        (', start: "2026-03-01"', "", 3, "input.start", "must be given where input.streams are"),
        ("[north, 17]", "[north, north]", 3, "input.streams[1]", "is there before"),
        ("[north, 17]", '[17, "17"]', 3, "input.streams[1]", "is there before"),
        ("[north, 17]", '[""]', 3, "input.streams[0]", "must have 1 to 256 bytes"),
        ("[north, 17]", f"[{'x' * 257}]", 3, "input.streams[0]", "must have 1 to 256 bytes"),
        ("[north, 17]", "[]", 3, "input.streams", "must"),
        ("[north, 17]", "[true]", 3, "input.streams[0]", "must be"),
        ("streams:", "user: [$.a, $.b], streams:", 3, "input.streams[0]", "must be a JSON array"),
        ("2026-03-01", "March", 3, "input.start", "must be a time in ISO 8601"),
        ("2026-03-01", "1969-03-01", 3, "input.start", "must not be before 1970"),
        ("per_slot: sum", "per_slot: last", 3, "input.start", "must be given only with"),
        ("streams: [north, 17], ", "", 3, "input.start", "must be given only with"),
        ("trust: curator, ", "", 3, "input.streams", "must be given only where privacy.trust is"),
        ("slot: 1m", "slot: 1m, idle: 30s", 3, "input.idle", "must be off where closing is ticks"),
        (
            "slot: 1m",
            "slot: 1m, closing: ticks, relay: true, topic: x",
            3,
            "input.closing",
            "must be events where relay is true",
        ),
    ],
)
def test_what_streams_must_be(old, new, line, key, why):
    assert old in KNOWN
    text = KNOWN.replace(old, new)
    if "trust" in old:
        text = text.replace("per_stream", "per_user")
    with pytest.raises(TopologyError) as wrong:
        loads(text, "known.yaml")
    found = wrong.value.problems[0]
    assert (found.file, found.line, found.key) == ("known.yaml", line, key)
    assert why in found.reason


def test_ticks_alone_are_of_curators():
    edge = TEXT.replace("trust: curator, ", "").replace("per_stream", "per_user")
    assert loads(edge).input.closing == "events"
    with pytest.raises(TopologyError, match=r"input\.closing: must be events where privacy.trust"):
        loads(edge.replace("slot: 1m", "slot: 1m, closing: ticks"))


@pytest.mark.parametrize(("text", "writes"), [(TEXT, True), (events(TEXT), False)])
def test_who_writes_ticks_may_write_them(text, writes):
    """Into the raw topic, which a curator only reads otherwise."""
    text = text.replace("topology: t", "topology: t\nkafka: {bootstrap_servers: 'a:1'}")
    every = [right for each in plan(loads(text), 50).access for right in each.rights]
    [raw] = [right for right in every if (right.resource, right.name) == ("topic", "t.raw")]
    assert ("WRITE" in raw.operations) == writes


def test_streams_of_several_fields_are_their_arrays():
    text = KNOWN.replace("[north, 17]", """['["a","17"]']""")
    made = loads(text.replace("streams:", "user: [$.a, $.b], streams:"))
    assert made.input.streams == ('["a","17"]',)


def test_a_start_long_ago_is_warned_of():
    """By the releases of the first tick, two streams' a slot: more than a million."""
    start = 1_772_323_200_000
    for slots, warned in ((500_000, False), (500_001, True)):
        said = "\n".join(plan(loads(KNOWN), 50, start + slots * 60_000).warnings)
        assert ("input.start is 500,001 slots ago" in said) == warned
