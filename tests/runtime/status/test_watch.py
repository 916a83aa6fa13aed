"""What is said beside the workers while no release comes: when, how often, and that nothing of it
disturbs them.
"""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import pytest

from ldp_kafka.cli import main
from ldp_kafka.errors import BrokerError
from ldp_kafka.runtime.status import watch
from ldp_kafka.runtime.status.watch import FIRST, LAST, Silence, watching
from ldp_kafka.topology import loads
from tests.runtime.status.test_waits import FLOWS, NOTHING, SAYS, groups

OPEN = FLOWS
EMPTY, LETTERS = SAYS["empty"][0], SAYS["dead_letters"][0]
HOURS = 7200.0  # seconds: two slots
TOPOLOGY = loads("""
topology: meters
kafka: {bootstrap_servers: "127.0.0.1:1"}
input: {slot: 1s}
privacy: {method: sw_direct, epsilon: 2.0, window: 4, domain: [0, 10]}
output: {statistics: [mean]}
""")


def said(silence, facts, *times, total=4):
    """What is said of the same facts at these times."""
    return [silence.says(facts, now) for now in times if silence.wonders(total, now)]


def test_an_open_slot_is_nothing_to_tell_before_its_time():
    """Two slots' time, or half a minute where slots are short."""
    assert said(Silence(HOURS, 0.0), OPEN, FIRST, 600, HOURS - 1) == [None, None, None]
    [line] = said(Silence(HOURS, 0.0), OPEN, HOURS)
    assert line.startswith("no release for 2h: waits until slot 2016-07-18 10:00 UTC closes")
    assert said(Silence(2.0, 0.0), OPEN, FIRST - 1) == []
    [line] = said(Silence(2.0, 0.0), OPEN, FIRST)
    assert line.startswith("no release for 30s: waits until")


@pytest.mark.parametrize("facts", [EMPTY, LETTERS])
def test_what_no_time_mends_is_said_at_once(facts):
    [line] = said(Silence(HOURS, 0.0), facts, FIRST)
    assert line.startswith("no release for 30s: ")


def test_the_same_is_not_said_again_until_it_changes():
    """And it is looked at less and less often."""
    silence = Silence(HOURS, 0.0)
    lines = said(silence, EMPTY, *range(0, 3600, 5))
    assert [line is not None for line in lines] == [True] + [False] * (len(lines) - 1)
    assert 6 <= len(lines) <= 12
    assert silence.says(LETTERS, 3601.0) is not None
    assert silence.says(LETTERS, 3602.0) is None
    assert not silence.wonders(4, 3602.0 + FIRST)
    assert silence.wonders(4, 3602.0 + LAST)


def test_a_release_begins_it_anew():
    silence = Silence(2.0, 0.0)
    assert said(silence, OPEN, FIRST)[0]
    assert said(silence, OPEN, FIRST + 5, FIRST + 6, total=5) == []
    assert said(silence, OPEN, 2 * FIRST + 5, total=5)[0].startswith("no release for 30s: ")


def test_what_is_not_known_is_not_said():
    assert said(Silence(2.0, 0.0), SAYS["unknown"][0], FIRST) == [None]


@pytest.fixture
def quick(monkeypatch):
    """Without the pauses."""
    monkeypatch.setattr(watch, "LOOK", 0.01)
    monkeypatch.setattr(watch, "FIRST", 0.05)
    monkeypatch.setattr(watch, "client_config", lambda *_: {})
    monkeypatch.setattr(watch.admin, "extents", lambda *_, **__: {0: (0, 4)})
    return monkeypatch


def until(what):
    end = time.monotonic() + 10
    while not what():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_it_says_it_beside_the_work(quick):
    lines = []
    quick.setattr(watch, "read_facts", lambda _: SAYS["behind"][0])
    with watching(TOPOLOGY, lines.append, speed=1000.0):
        until(lambda: lines)
    assert lines[0].startswith("meters: no release for 0s: waits for group meters-perturb")
    assert not [each for each in threading.enumerate() if each.name == "status"]
    assert len(lines) == 1


def test_a_broker_that_is_away_is_asked_again(quick):
    lines, asked = [], []

    def facts(_):
        asked.append(1)
        if len(asked) < 3:
            raise BrokerError("away")
        return SAYS["behind"][0]

    quick.setattr(watch, "read_facts", facts)
    with watching(TOPOLOGY, lines.append, speed=1000.0):
        until(lambda: lines)
    assert len(asked) >= 3


def test_a_bug_of_its_own_is_nobodys_business(quick):
    """The work goes on, and nothing is said."""
    lines, asked = [], []

    def facts(_):
        asked.append(1)
        raise RuntimeError

    quick.setattr(watch, "read_facts", facts)
    with watching(TOPOLOGY, lines.append, speed=1000.0):
        until(lambda: asked)
        until(lambda: not [each for each in threading.enumerate() if each.name == "status"])
    assert (lines, asked) == ([], [1])


def test_where_a_side_is_not_asked_nothing_is_said(quick):
    lines, asked = [], []
    facts = replace(FLOWS, groups=groups(30), releases=NOTHING)
    facts = replace(facts, sides=(replace(FLOWS.sides[0], not_asked="no login"), FLOWS.sides[1]))

    def read(_):
        asked.append(1)
        return facts

    quick.setattr(watch, "read_facts", read)
    with watching(TOPOLOGY, lines.append, speed=1000.0):
        until(lambda: len(asked) > 2)
    assert lines == []


def test_the_work_does_not_wait_for_an_answer(quick):
    """Longer than a moment."""
    asked, goes_on = threading.Event(), threading.Event()
    quick.setattr(watch, "_JOIN", 0.1)

    def facts(_):
        asked.set()
        goes_on.wait(20)
        return SAYS["behind"][0]

    lines = []
    quick.setattr(watch, "read_facts", facts)
    with watching(TOPOLOGY, lines.append, speed=1000.0):
        assert asked.wait(10)
        before = time.monotonic()
    assert time.monotonic() - before < 5
    goes_on.set()
    until(lambda: not [each for each in threading.enumerate() if each.name == "status"])
    assert lines == []


@pytest.mark.parametrize(("words", "watched"), [([], True), (["--role", "perturb"], False)])
def test_run_says_it_where_it_runs_all_roles(monkeypatch, tmp_path, words, watched):
    """Each of its children is one role, and says nothing."""
    path = tmp_path / "meters.yaml"
    path.write_text(
        "topology: meters\ninput: {slot: 1s}\noutput: {statistics: [mean]}\n"
        "privacy: {method: sw_direct, epsilon: 2.0, window: 4, domain: [0, 10]}\n"
    )
    threads = []

    def work(*_, **__):
        threads.extend(each.name for each in threading.enumerate())
        return 0

    monkeypatch.setattr("ldp_kafka.runtime.worker.supervisor.run", work)
    assert main(["run", str(path), *words]) == 0
    assert ("status" in threads) is watched
