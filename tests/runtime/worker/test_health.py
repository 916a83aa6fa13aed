"""Whether a worker is alive: what the table says of it, what is noted for it, and what a probe
answers.
"""

from __future__ import annotations

import asyncio
import json
import re
import signal
import threading
import time
from http.client import HTTPException
from types import SimpleNamespace
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import pytest

from ldp_kafka.errors import BrokerError, ConfigurationError
from ldp_kafka.runtime.brokers.embedded import EmbeddedBroker
from ldp_kafka.runtime.kafka.broker_health import BrokerHealth, Question
from ldp_kafka.runtime.worker import health as room
from ldp_kafka.runtime.worker import health_rules
from ldp_kafka.runtime.worker.exits import RETRY, WRONG
from ldp_kafka.runtime.worker.health import Health
from ldp_kafka.runtime.worker.health_rules import (
    GOODBYE,
    JOIN,
    LEAVE,
    LONGEST,
    RULES,
    STALL,
    START,
    STUCK,
    Assignment,
    Facts,
    Follows,
    Still,
    ending,
    live,
    ready,
)
from ldp_kafka.runtime.worker.watch import Backlog
from tests.broker.flow import Flow

WORKS = Facts(age=1000.0, turned=0.5, looked=1.0, partitions=2)
LATE = STUCK + 1
UNBORN = WORKS._replace(
    turned=None, looked=3.0, joining=3.0, age=3.0, assignment=Assignment.NONE, partitions=0
)

# facts, /live and its words, /ready and its words
TABLE = {
    "works": (WORKS, True, "makes progress", True, "are recovered (2)"),
    "stands by": (WORKS._replace(partitions=0), True, "makes progress", True, "it stands by"),
    "starts": (UNBORN, True, "it starts", False, "it starts"),
    "starts for too long": (
        UNBORN._replace(age=START + 1),
        False,
        "has been starting for 601 s",
        False,
        "has been starting for 601 s",
    ),
    "joins": (
        WORKS._replace(assignment=Assignment.NONE, partitions=0),
        True,
        "makes progress",
        False,
        "has not assigned partitions yet",
    ),
    "joins for long": (
        WORKS._replace(assignment=Assignment.NONE, partitions=0, looked=LATE),
        True,
        "makes progress",
        False,
        "has not assigned partitions yet",
    ),
    "is kept out of its group": (
        WORKS._replace(assignment=Assignment.NONE, partitions=0, joining=JOIN + 1),
        False,
        "its consumer group has not assigned anything for 601 s",
        False,
        "has not assigned anything",
    ),
    "revoked": (
        WORKS._replace(assignment=Assignment.REVOKED, partitions=0),
        True,
        "makes progress",
        False,
        "partitions are revoked",
    ),
    "recovers": (
        WORKS._replace(assignment=Assignment.RECOVERING),
        True,
        "makes progress",
        False,
        "recovers the state of its partitions (2)",
    ),
    "recovers for long": (
        WORKS._replace(assignment=Assignment.RECOVERING, looked=LATE),
        True,
        "makes progress",
        False,
        "recovers the state",
    ),
    "a long fold": (WORKS._replace(turned=STUCK), True, "makes progress", True, "are recovered"),
    "hangs": (
        WORKS._replace(turned=LATE, looked=LATE),
        False,
        "its loop has not turned for 121 s",
        False,
        "its loop has not turned for 121 s",
    ),
    "hangs while it joins": (
        WORKS._replace(turned=LATE, assignment=Assignment.NONE),
        False,
        "its loop has not turned",
        False,
        "its loop has not turned",
    ),
    "is not looked after": (
        WORKS._replace(looked=LATE),
        False,
        "has not looked after its partitions for 121 s",
        False,
        "has not looked after its partitions",
    ),
    "waits for a broker": (
        WORKS._replace(turned=290.0, looked=290.0, silent=290.4),
        True,
        "waits for the broker, which has not answered for 290 s",
        True,
        "are recovered",
    ),
    "waits for one while it recovers": (
        WORKS._replace(silent=9.0, assignment=Assignment.RECOVERING),
        True,
        "waits for the broker",
        False,
        "recovers the state",
    ),
    "ends": (WORKS._replace(ending=True), True, "ends in order", False, "it ends"),
    "hangs while it ends": (  # it is ended then, see `ENDS`
        WORKS._replace(ending=True, turned=LATE, looked=LATE),
        True,
        "ends in order",
        False,
        "it ends",
    ),
}


ENDS = {
    "away for too long": (
        WORKS._replace(silent=LONGEST + 2, asked=LONGEST + 1, reason="it timed out"),
        "15 minutes: a new process looks for it anew; it timed out",
        RETRY,
    ),
    "retired": (
        WORKS._replace(retired="t"),
        "t is retired by its budget file",
        WRONG,
    ),
    "failed": (WORKS._replace(failed=True), "the error", None),
    "saved": (
        WORKS._replace(ending=True, unsaved=1.0, saved=GOODBYE + 1),
        "all is saved, but its group was not told within 5 s",
        0,
    ),
    "unsaved": (
        WORKS._replace(ending=True, unsaved=LEAVE + 1),
        "ending in order came to nothing for 15 s: ended at once; it waited here:",
        RETRY,
    ),
    "stands still": (
        WORKS._replace(still=Still("t.raw", 1, 7, STALL + 1)),
        "t.raw partition 1: 7 messages wait, but none was delivered for 60 s;",
        RETRY,
    ),
    "idle": (WORKS._replace(idle=9.0), "nothing was left to read", None),
}
"""By rule: facts by which the process ends, its words, and the exit code."""
ALONE = {
    "ends in order": TABLE["ends"][0],
    "ends": TABLE["ends"][0],
    "away": TABLE["waits for a broker"][0],
    "starts for too long": TABLE["starts for too long"][0],
    "starts": UNBORN,
    "hangs": TABLE["hangs while it joins"][0],
    "left out": TABLE["is kept out of its group"][0],
    "does not look": TABLE["is not looked after"][0],
    "works": WORKS,
    "joins": TABLE["joins"][0],
    "revoked": TABLE["revoked"][0],
    "recovers": TABLE["recovers"][0],
    "stands by": TABLE["stands by"][0],
    "ready": WORKS,
} | {name: facts for name, (facts, *_) in ENDS.items()}
"""By rule: facts of which it alone decides something."""


@pytest.mark.parametrize("row", TABLE.values(), ids=TABLE.keys())
def test_what_follows_from_the_facts(row):
    facts, lives, live_why, works, ready_why = row
    for answer, yes, why in ((live, lives, live_why), (ready, works, ready_why)):
        found = answer(facts)
        assert found.yes is yes, found
        assert why in found.why
        assert "\n" not in found.why
    assert ending(facts) is None


@pytest.mark.parametrize("name", ENDS)
def test_what_ends_the_process(name):
    """At once, with the code and the words; a moment before, by nothing else. What is answered in
    the meantime is what the other rules say.
    """
    facts, words, code = ENDS[name]
    rule = ending(facts)
    assert rule is RULES[name]
    assert words in rule.text(facts) and "{" not in rule.text(facts)
    assert rule.code == code
    assert rule.follows is (Follows.STOP if name == "idle" else Follows.END)
    assert live(facts).yes


def test_a_process_ends_after_its_time_and_not_before():
    for facts in (
        WORKS._replace(silent=LONGEST + 9, asked=LONGEST),
        WORKS._replace(ending=True, unsaved=LEAVE, saved=GOODBYE),
        WORKS._replace(still=Still("t.raw", 1, 7, STALL)),
    ):
        assert ending(facts) is None


def test_every_rule_decides_something():
    """One that never does is not needed, or stands behind another by mistake."""
    assert ALONE.keys() == RULES.keys()


def decided(facts):
    """What is answered, and how the process ends."""
    answers = []
    for ask in (live, ready):
        try:
            answers.append(ask(facts))
        except StopIteration:
            answers.append(None)
    rule = ending(facts)
    return *answers, rule and (rule.follows, rule.code)


@pytest.mark.parametrize("name", ALONE)
def test_without_a_rule_the_table_is_a_broken_twin(name, monkeypatch):
    """Nothing else says what the rule said: another answer is given, or another end."""
    before = decided(ALONE[name])
    monkeypatch.setattr(health_rules, "RULES", {key: RULES[key] for key in RULES if key != name})
    assert decided(ALONE[name]) != before


def test_the_probes_end_with_an_answer_whatever_the_facts_are():
    """The last rules about each question hold always."""
    for ask in ("live", "ready"):
        last = [rule for rule in RULES.values() if getattr(rule.follows, ask) is not None][-1]
        assert all(last.holds(facts) for facts in ALONE.values())


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


class Broker:
    """Answers, or does not."""

    error: BrokerError | None = None

    def __call__(self) -> None:
        if self.error is not None:
            raise self.error


def test_the_facts_are_what_was_noted(clock):
    health, broker = Health(clock), Broker()
    health.brokers = BrokerHealth([Question("one", broker)], clock=clock)
    clock.now += 3
    assert health.facts() == UNBORN

    async def turn():
        health.beat()

    asyncio.run(turn())
    assert health.facts().joining == 3
    health.assigned()
    health.assignment, health.partitions = (lambda: Assignment.RECOVERED), (lambda: 2)
    clock.now += 5
    assert health.facts() == Facts(8.0, 5.0, 5.0, 0.0, None, Assignment.RECOVERED, 2, False)
    health.looked()
    clock.now += 1
    health.revoked()
    broker.error = BrokerError("away")
    health.brokers.look()
    clock.now += 50
    health.brokers.look()
    clock.now += 1
    facts = health.facts()
    assert (facts.turned, facts.looked, facts.joining, facts.silent) == (57, 52, 51, 51)
    assert (facts.asked, facts.reason) == (50, "away")
    broker.error = None
    health.brokers.look()
    clock.now += 7
    facts = health.facts()
    # an outage counts for nobody
    assert (facts.turned, facts.looked, facts.joining, facts.silent) == (7, 7, 7, None)
    health.brokers.look()
    clock.now += 1
    assert health.facts().turned == 8
    health.assignment = lambda: Assignment.REVOKED
    assert health.facts().partitions == 0
    assert (health.facts().ending, health.facts().unsaved) == (False, None)
    health.ending()
    clock.now += 4
    assert (health.facts().ending, health.facts().unsaved) == (True, 4)
    health.saved()
    clock.now += 2
    health.ending()
    assert health.facts().unsaved == 2


def test_what_is_saved_is_seen_while_it_ends(clock):
    """From the look that sees it on; a partition that stood still is nobody's business then."""
    health = Health(clock)
    health.finished = lambda: True
    health.waiting({("t", 0): 1}, ())
    health.look()
    assert health.facts().saved is None and health.facts().still is not None
    health.ending()
    health.look()
    clock.now += 3
    assert health.facts().saved == 3 and health.facts().still is None


class Ended(BaseException):
    """What an end is here: a process ends with nothing above it to catch."""


def test_the_thread_that_looks_does_what_the_table_says(clock, monkeypatch):
    """It ends the process with the rule's code and words, or with the error."""
    ended = []
    for name in ("end", "leave"):

        def end(*reason, name=name):
            ended.append((name, *reason))
            raise Ended

        monkeypatch.setattr(room, name, end)
    health, error = Health(clock), ConfigurationError("a right is missing")
    health.look()
    health.waiting({("t", 0): 5}, ())
    health.brokers.clock = lambda: STALL + 1
    health.waiting({("t", 0): 5}, ())
    with pytest.raises(Ended):
        health.look()
    health.ending()
    health.finished = lambda: True
    health.look()
    clock.now += GOODBYE + 1
    with pytest.raises(Ended):
        health.look()
    health.failed(error)
    with pytest.raises(Ended):
        health.look()
    (still, still_words, code), (saved, saved_words), failed = ended
    assert (still, code, saved, failed) == ("end", RETRY, "leave", ("end", error))
    assert "5 messages wait" in still_words and "all is saved" in saved_words


def test_an_error_of_the_thread_that_looks_ends_the_process(monkeypatch):
    """Else nobody would look any more."""
    ended, health = [], Health()
    health.look = lambda: 1 / 0
    monkeypatch.setattr(room, "end", ended.append)
    health._run()
    assert isinstance(ended[0], ZeroDivisionError)


def test_nothing_is_looked_at_once_it_has_left():
    looked, health = [], Health()
    health.look = lambda: looked.append(1)
    health.left()
    health._run()
    assert not looked


def test_a_loop_that_hangs_is_seen():
    """The beat goes on by itself, and stands still where the loop does."""
    health = Health()
    seen = []

    async def work():
        health.beat()
        await asyncio.sleep(2.5)
        seen.append(health.facts().turned)
        time.sleep(1.5)  # noqa: ASYNC251 - what hangs
        seen.append(health.facts().turned)

    asyncio.run(work())
    assert seen[0] < 1.4  # without the second beat it were 2.5
    assert seen[1] >= 1.5


class Offsets:
    """A broker that answers as told."""

    def __init__(self) -> None:
        self.answer: object = 3

    def lag(self, places):
        if isinstance(self.answer, Exception):
            raise self.answer
        return dict.fromkeys(places, self.answer)


def backlog(offsets, places=lambda: {("t", 0), ("t", 1)}):
    """A backlog, and what it showed."""
    shown = []
    metrics = SimpleNamespace(lag=shown.append)
    return Backlog(offsets, places, metrics, BrokerHealth()), shown


def test_the_lag_moves_while_a_fold_runs(monkeypatch):
    """It was asked for in the loop, which stands still then."""
    from ldp_kafka.runtime.worker import watch

    monkeypatch.setattr(watch, "ASK", 0.05)
    offsets = Offsets()
    made, shown = backlog(offsets)

    async def work():
        made.start()
        offsets.answer = 50
        time.sleep(0.5)  # noqa: ASYNC251 - a fold
        return list(shown)

    assert asyncio.run(work())[-1] == 100
    made.stop()
    for thread in threading.enumerate():
        if thread.name == "backlog":  # or it asks on in the tests that follow
            thread.join()


def test_the_lag_of_what_is_revoked_meanwhile_is_not_shown():
    """Another worker has it: it would stand here for ever."""
    answers = iter([{("t", 0)}, set(), {("t", 0)}, {("t", 0)}])
    made, shown = backlog(Offsets(), lambda: next(answers))
    made.look()
    assert not shown
    made.look()
    assert shown == [3]


@pytest.mark.parametrize("error", [BrokerError("away"), ConfigurationError("not for you")])
def test_a_lag_that_is_not_told_is_not_shown(error):
    """While brokers are away nobody asks; what they forbid is the watch's matter."""
    offsets = Offsets()
    made, shown = backlog(offsets)
    offsets.answer = error
    made.look()
    assert made.brokers.here == isinstance(error, ConfigurationError)
    offsets.answer = 3
    made.look()
    assert shown == ([6] if made.brokers.here else [])


# a worker's life


@pytest.fixture
def flow(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with EmbeddedBroker() as broker:
        made = Flow(
            broker.bootstrap_servers, tmp_path, "probes", statistics="mean", embedded=broker
        )
        yield made
        made.close()


def port_of(flow: Flow, number: int, limit: float = 60.0) -> int:
    """Where the worker that was started as this number serves."""
    until = time.monotonic() + limit
    while time.monotonic() < until:
        found = re.findall(r"metrics at http://127\.0\.0\.1:(\d+)/", flow.log_path.read_text())
        if len(found) > number:
            return int(found[number])
        time.sleep(0.02)
    raise AssertionError(flow.log_path.read_text())


def probe(port: int, path: str) -> tuple[int, str]:
    """Status and why; 0 where nobody answers, or ends in the middle of it."""
    try:
        try:
            with urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
                status, text = answer.status, answer.read()
        except HTTPError as error:
            with error:
                status, text = error.code, error.read()
    except (URLError, ConnectionError, TimeoutError, HTTPException):
        return 0, ""
    return (status, json.loads(text)["why"]) if text else (0, "")


def shown(port: int) -> list[str]:
    """The lines of its metrics."""
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        return answer.read().decode().splitlines()


class Watched(threading.Thread):
    """Asks one probe on and on; what was answered, each change once."""

    def __init__(self, port: int, path: str, pause: float = 0.01) -> None:
        super().__init__(daemon=True)
        self.pause = pause
        self.port, self.path, self.over, self.seen = port, path, threading.Event(), []
        self.start()

    def run(self) -> None:
        while not self.over.wait(self.pause):
            found = probe(self.port, self.path)
            if not self.seen or self.seen[-1] != found:
                self.seen.append(found)

    def until(self, what, limit: float = 60.0, since: int = 0) -> None:
        """That many answers are left out."""
        end = time.monotonic() + limit
        while not any(map(what, self.seen[since:])):
            assert time.monotonic() < end, self.seen[since:]
            time.sleep(0.02)

    def close(self) -> list[tuple[int, str]]:
        self.over.set()
        self.join(10)
        return [each for each in self.seen if each[0]]


def test_a_worker_is_ready_from_its_recovery_until_its_end(flow):
    """/live is true all the while. Rebalances are in `tests/broker/test_probes.py`: at this broker
    they may end a worker.
    """
    worker = flow.start("perturb")
    port = port_of(flow, 0)
    live, ready = Watched(port, "/live"), Watched(port, "/ready")
    ready.until(lambda found: found == (200, "its partitions are recovered (2)"))
    labels = 'method="capp",role="perturb",topology="probes"'
    lines = shown(port)
    assert f"ldp_slot_seconds{{{labels}}} 60.0" in lines
    assert f"ldp_hop_slots{{{labels}}} 1.0" in lines
    assert not [line for line in lines if "_created" in line]
    end = time.monotonic() + 60
    while not any(line.startswith(f"ldp_lag_messages{{{labels}}} ") for line in shown(port)):
        assert time.monotonic() < end, shown(port)
        time.sleep(0.1)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(30) == 0
    lived, answered = live.close(), ready.close()
    assert {code for code, _ in lived} == {200}
    assert answered[0][0] == 503
    assert answered[-1] == (503, "it ends")
    for code, why in answered:
        assert code == (200 if "are recovered" in why else 503), (code, why)
    flow.workers.clear()
