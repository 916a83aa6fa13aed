"""What a curator does not hide is said wherever a guarantee is printed."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from ldp_kafka.cli import cli
from ldp_kafka.topology import load, loads
from ldp_kafka.topology.planner import plan
from tests.test_topologies import SHIPPED

CURATED = [path for path in SHIPPED if load(path).curated]
SHARED = (
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
    assert SHARED in loads(TEXT.replace("level: event", f"level: {level}")).guarantee.within


def test_it_is_said_of_a_curator_alone():
    """Of a user's own stream the slots that have values are public, as of every user."""
    edge = TEXT.replace("trust: curator, ", "").replace("per_stream", "per_user")
    assert SHARED not in loads(edge).guarantee.describe()
