"""What the judge of the chaos harness compares by what came first."""

from __future__ import annotations

import json

from ldp_kafka.runtime import local
from ldp_kafka.runtime.keys import edge_randomness
from tests.broker.judge.logs import firsts
from tests.runtime.test_methods import logs_of, streams_of, topology_of


def test_what_came_first_is_what_counts():
    """A partial that is not whole is seen where it comes before the right one, and means nothing
    after it.
    """
    topology = topology_of("sw_direct")
    run = local.run(
        topology,
        edge_randomness(topology, bytes(32), "here"),
        logs_of(topology, streams_of(topology)),
    )
    right = [(record.partition, record.value) for record in run.partials]
    place, number = next(
        (place, at) for at, place in enumerate(firsts(right)) if json.loads(right[at][1])["support"]
    )
    other = json.loads(right[number][1])
    other["support"][0] -= 1
    wrong = (right[number][0], json.dumps(other).encode())
    assert firsts([*right, wrong]) == firsts(right)
    assert {at for at, value in firsts([wrong, *right]).items() if firsts(right)[at] != value} == {
        place
    }


def test_batches_by_the_message_that_they_answer():
    topology = topology_of("sw_direct")
    run = local.run(
        topology,
        edge_randomness(topology, bytes(32), "here"),
        logs_of(topology, streams_of(topology)),
    )
    batches = [(record.partition, record.value) for made in run.reports for record in made]
    assert list(firsts(batches).values()) == [value for _, value in batches]
    swapped = [batches[1], *batches]
    assert firsts(swapped) == firsts(batches)
