"""``contribution`` bounds what one event moves, whatever stands beside it: the game of an attacker
who sends a huge value and takes it away again, so that a sum of floats rounds.
"""

from __future__ import annotations

import json
import secrets
from pathlib import Path

import pytest

from ldp_kafka.errors import TopologyError
from ldp_kafka.methods.delay import DelayMethod
from ldp_kafka.methods.values import FIXED
from ldp_kafka.records import Tick
from ldp_kafka.runtime import local
from ldp_kafka.runtime.keys import edge_randomness
from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.partitioning import partitions_of
from ldp_kafka.runtime.wire.records import encode_json
from ldp_kafka.topology import load, loads
from ldp_kafka.topology.planner import plan

SHOP = Path(__file__).parents[3] / "topologies" / "shop-sales.yaml"
EDGE = """
topology: mine
input: {slot: 1d, lateness: 1, per_slot: sum, user: $.shop, value: $.sold}
privacy: {level: event, method: naive, epsilon: 1.0, delay: 1, domain: [0, 1600], contribution: 40}
output: {statistics: [per_user]}
"""
DAY = 86_400_000
FIRST, LAST = 19_675, 19_715  # days
HUGE = 2.0**62  # next to it a sum of floats moves by 1,024, and by that from 513 on
OTHERS = [*[40.0] * 12, 28.0]


def topologies():
    return [pytest.param(load(SHOP), id="shop-sales"), pytest.param(loads(EDGE), id="edge")]


def run_of(topology, *shops):
    """A run over the events of shops on one day, each in its partition, and ticks that close all
    windows, under a new key; and the shops' names in releases.
    """
    names, partitions = [f"s{at}" for at in range(len(shops))], topology.input.partitions
    tick, logs = encode_json(Tick(LAST * DAY)), [[] for _ in range(partitions)]
    for name, home, values in zip(names, partitions_of(names, partitions), shops, strict=True):
        for at, value in enumerate(values):
            event = b'{"shop": "%s", "sold": %s, "time": %d}'
            made = event % (name.encode(), str(value).encode(), FIRST * DAY + at)
            logs[home].append(Message(len(logs[home]), FIRST * DAY, made))
    logs = [[*log, Message(len(log), LAST * DAY, tick)] for log in logs]
    noise = edge_randomness(topology, secrets.token_bytes(32), "here")
    if not topology.curated:
        names = [row.tobytes().hex() for row in noise.series(noise.digests(names))]
    return local.run(topology, noise, logs, together=1000), names


def reached(topology, values, monkeypatch):
    """The values of slots that reached the method; plans have many at once."""
    seen, bound = [], DelayMethod.bound

    def watched(self, values):
        seen.extend(values.tolist() if len(values) == 1 else [])
        return bound(self, values)

    with monkeypatch.context() as patch:
        patch.setattr(DelayMethod, "bound", watched)
        run_of(topology, values)
    return seen


@pytest.mark.parametrize("topology", topologies())
def test_one_event_moves_what_reaches_the_method_by_its_contribution(topology, monkeypatch):
    """A 5 beside M and -M: 548 becomes 553, and not 0 1,024."""
    without, with_five = (
        reached(topology, [*OTHERS, five, HUGE, -HUGE], monkeypatch) for five in (0.0, 5.0)
    )
    assert (without, with_five) == ([548.0], [553.0])


def released(topology, *shops):
    """The first day's release of each shop, under a new key."""
    run, names = run_of(topology, *shops)
    releases = [json.loads(record.value) for record in run.releases]
    found = {each["user"]: each["value"] for each in releases if each["slot"] == FIRST}
    return [found[name] for name in names]


@pytest.mark.parametrize("topology", topologies())
def test_the_game_is_not_won(topology):
    """Who guesses which of two events was there is right in e / (1 + e) of all games at epsilon 1,
    219 of 300: in 262 or more with a chance of 1e-8.
    """
    fives = [5.0 * (game % 2) for game in range(300)]
    found = released(topology, *([*OTHERS, five, HUGE, -HUGE] for five in fives))
    won = sum((value > 512 + 40) == (five > 0) for five, value in zip(fives, found, strict=True))
    assert won < 262


SUM = """topology: t
input: {slot: 1h, per_slot: PER_SLOT}
privacy:
  trust: curator
  level: event
  method: naive
  delay: 4
  epsilon: 1.0
  domain: DOMAIN
  contribution: CONTRIBUTION
output: {statistics: [per_stream]}
"""


def made(per_slot="sum", domain="[0, 100]", contribution="2.5"):
    text = SUM.replace("PER_SLOT", per_slot).replace("DOMAIN", domain)
    return loads(text.replace("CONTRIBUTION", contribution), "t.yaml")


@pytest.mark.parametrize(
    ("per_slot", "domain", "contribution", "said"),
    [
        ("mean", "[0, 100]", "2.5", r"t\.yaml:2: input\.per_slot: must not be mean where privacy"),
        ("count", "[0, 100]", "0.5", r"t\.yaml:10: privacy\.contribution: must be at least 1 wher"),
        ("sum", "[1e9, 1000000001]", "1e-8", r"t\.yaml:10: privacy\.contribution: must be at lea"),
    ],
)
def test_a_contribution_that_bounds_nothing_is_refused(per_slot, domain, contribution, said):
    with pytest.raises(TopologyError, match=said):
        made(per_slot, domain, contribution)


@pytest.mark.parametrize(
    ("per_slot", "domain", "said", "moves"),
    [
        ("sum", "[0, 100]", "one event's part of a slot's value, at most 2.5 (events of", 2.5),
        ("sum", "[-50, 50]", "one event's part of a slot's value, from -2.5 to 2.5 (ev", 5.0),
        ("count", "[0, 100]", "one event's part of a slot's value, at most 2.5 (events of", 2.5),
        *(
            (
                each,
                "[-50, 50]",
                "what one person adds to a slot's value, at most 2.5 as the s",
                2.5,
            )
            for each in ("first", "last", "min", "max")
        ),
    ],
)
def test_the_line_says_what_is_hidden(per_slot, domain, said, moves):
    """One event's part, which the fold sees to; or the source's promise. And the noise is for as
    far as a replaced event moves a value.
    """
    topology = made(per_slot, domain)
    assert f"protects values, {said}" in topology.guarantee.describe()
    assert topology.windowed.contribution == moves
    assert topology.windowed.reach == int(moves / 100 * FIXED) + (moves / 100 * FIXED % 1 > 0) + 1


def test_a_signed_contribution_as_wide_as_the_domain_has_noise_for_all_of_it():
    topology = made("sum", "[-50, 50]", "80")
    assert topology.windowed.contribution == 100 and topology.windowed.reach == FIXED


def test_a_release_at_the_edge_says_the_same_line():
    topology = loads(EDGE)
    [record] = run_of(topology, [5.0])[0].releases
    assert json.loads(record.value)["guarantee"] == topology.guarantee.as_json()
    assert "one event's part" in json.loads(record.value)["guarantee"]["within"]


def test_events_that_are_clamped_are_counted():
    run, _ = run_of(load(SHOP), [41.0, 40.0, -1.0, 1e308])
    assert run.counts["clamped"] == 3


def test_numbers_that_are_not_finite_are_no_events():
    """They are dead letters, and move no sum."""
    bad = ("NaN", "Infinity", "-Infinity", "1e999", "-1e999")
    run, _ = run_of(loads(EDGE), [*bad, "5"])
    assert (run.counts["events"], len(run.dead_letters)) == (1, 5)


def test_the_plan_says_what_the_curator_hides():
    """From everybody else what the guarantee's line says: one event's part."""
    topology = made()
    said = "\n".join(plan(topology, 10).lines())
    assert "is released hides what the guarantee says" in said
    assert topology.guarantee.within.startswith("one event's part of a slot's value, at most 2.5 (")
    assert topology.guarantee.within in said
