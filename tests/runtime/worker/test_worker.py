"""The worker's wiring, as far as it needs no broker; the rest is in tests/broker."""

from __future__ import annotations

import re
import subprocess
import sys
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest

from ldp_kafka.errors import BrokerError, StateError
from ldp_kafka.runtime.worker.health import Health
from ldp_kafka.runtime.worker.health_rules import ending

BUILD = """
import os
from ldp_kafka.metrics import Metrics
from ldp_kafka.runtime.worker.app import Side, Worker
from ldp_kafka.topology import loads
topology = loads('''
topology: t
kafka: {bootstrap_servers: 127.0.0.1:1}
input: {slot: 1h}
privacy: {method: sw_direct, epsilon: 1.0, window: 2, domain: [0, 1]}
output: {statistics: [mean]}
''')
side = Side(topology.edge_kafka, "127.0.0.1:1")
metrics = Metrics("t", "perturb", "sw_direct")
sides = {"edge": side, "collector": side}
app = Worker(topology, "perturb", sides, metrics, None, None).app
conf = app.conf
kept = [conf.version, conf.producer_acks, conf.processing_guarantee.value]
print(conf.web_enabled, app.config["bootstrap.servers"], *kept)
os._exit(0)
"""

END = """
from ldp_kafka.errors import *
from ldp_kafka.runtime.worker.exits import end
def fold():
    {raises}
try:
    fold()
except BaseException as error:
    end(error)
"""

HANG = """
import asyncio
from types import SimpleNamespace
from ldp_kafka.runtime.worker import health, health_rules, process as worker

async def hang(self):
    await asyncio.sleep(60)

worker.faust.Worker.stop = hang
for name, seconds in (("unsaved", 0.8), ("saved", 0.2)):
    health_rules.RULES[name] = health_rules.RULES[name]._replace(after=seconds)
made, told = object.__new__(worker.Process), health.Health()
made.app, made.services = SimpleNamespace(finished={finished}), [SimpleNamespace()]
made.ending, told.finished = told.ending, lambda: made.finished
told.start()
asyncio.run(made.stop())
"""


def test_the_environment_does_not_change_faust(monkeypatch):
    """Faust lets variables win over arguments: a web server that serves the tables, another broker,
    no acknowledgements.
    """
    for name, value in {
        "APP_WEB_ENABLED": "1",
        "BROKER_URL": "kafka://elsewhere:9092",
        "APP_VERSION": "7",
        "PRODUCER_ACKS": "0",
        "PROCESSING_GUARANTEE": "exactly_once",
    }.items():
        monkeypatch.setenv(name, value)
    done = subprocess.run(
        [sys.executable, "-c", BUILD], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.split() == [
        "False",
        "127.0.0.1:1",
        "1",
        "-1",
        "at_least_once",
    ], done.stderr[-500:]


@pytest.mark.parametrize(
    ("raises", "code", "says"),
    [
        ("raise ValueError('poison 31337.4242')", 1, "unexpected ValueError"),
        (f"raise {StateError.__name__}('the state is old')", 1, "the state is old"),
        (f"raise {BrokerError.__name__}('no answer')", 75, "no answer"),
    ],
)
def test_the_end_says_why_and_shows_no_value(raises, code, says):
    """Of what nobody expected only the type and the place: its text may hold a value."""
    done = subprocess.run(
        [sys.executable, "-c", END.format(raises=raises)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == code
    assert says in done.stderr
    assert "poison" not in done.stderr
    assert "31337" not in done.stderr


def hung(*, finished=False):
    code = HANG.format(finished=finished)
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=30
    )


def test_a_worker_that_hangs_while_it_ends_is_ended():
    """It asks to be started again, as after a crash, and says where it hung."""
    done = hung()
    assert done.returncode == 75
    assert "ending in order came to nothing for 0.8 s" in done.stderr
    assert re.search(r"\n  1 x \S+/tasks.py:\d+ in Process.stop > hang > sleep\n", done.stderr)


def test_a_worker_that_has_saved_all_leaves_without_a_word():
    """What hangs then is the client's leave from its group: nothing is lost, and nothing of it
    would be done again.
    """
    done = hung(finished=True)
    assert done.returncode == 0, done.stderr
    assert "all is saved, but its group was not told within 0.2 s" in done.stderr


@pytest.mark.parametrize(("finished", "code"), [(True, 0), (False, 75)])
def test_what_crashes_when_all_is_saved_is_no_failure(monkeypatch, finished, code):
    """Faust's exit code says that there was a crash, and not when."""
    from ldp_kafka.runtime.worker import app as room

    class Crashed:
        crash_reason = TimeoutError()

        def __init__(self, *_, **__):
            self.finished = finished

        def execute_from_commandline(self):
            raise SystemExit(70)

    for name in ("look_seldom", "ignored"):
        monkeypatch.setattr(room, name, lambda: None)
    monkeypatch.setattr(room.uvloop, "install", lambda: None)
    monkeypatch.setattr(room, "Process", Crashed)
    worker = MagicMock(copying=(), app=SimpleNamespace(crash_reason=None))
    assert room.Worker._run(worker) == code
    assert worker.health.finished() is finished  # the table's rules of an end look at the same


def gone_with(line: str) -> int:
    """The exit code of a process that has this about it when all it has to do is done."""
    code = f"""if True:
        import time
        from concurrent.futures import ThreadPoolExecutor
        from ldp_kafka.runtime.worker.exits import gone
        class Client:
            def __del__(self):
                time.sleep(100)
        {line}
        gone(7, 0.2)
    """
    return subprocess.run([sys.executable, "-c", code], check=False, timeout=30).returncode


def test_nothing_outlives_the_last_line_for_long():
    """A thread that asks a broker which does not answer would: Python waits for those."""
    assert gone_with("ThreadPoolExecutor().submit(time.sleep, 100)") == 7


def test_no_client_outlives_the_last_line():
    """One that hangs while the interpreter is taken down, where no other thread gets a turn."""
    assert gone_with("client = Client()") == 7


def test_no_client_outlives_a_command():
    """Of the parent of roles, too, which asks brokers before it starts them."""
    code = """if True:
        import time
        from ldp_kafka import cli
        from ldp_kafka.__main__ import program
        class Client:
            def __del__(self):
                time.sleep(100)
        def command():
            cli.client = Client()
            return 7
        cli.main = command
        program()
    """
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=30).returncode == 7


def test_a_crash_that_is_its_own_cause_is_looked_at_once():
    """A worker that went round and round in it heard no SIGTERM any more. A connection that is gone
    asks for a new start, any other crash of Faust's for somebody who looks.
    """
    from ldp_kafka.runtime.worker.process import passing

    def crash(kind: type[Exception]) -> BaseException:
        """Raised, handled, and raised again for what came of that, as a task's stored crash is."""
        first, second = kind("gone"), RuntimeError()
        second.__context__, first.__cause__ = first, second
        return first

    assert passing(TimeoutError()) and passing(crash(ConnectionResetError))
    assert not passing(None) and not passing(crash(KeyError))


@pytest.mark.parametrize(
    ("privacy", "role", "windows"),
    [
        ("trust: curator, level: event, method: naive, delay: 3", "curate", ["TumblingWindow"]),
        ("level: event, method: naive, delay: 3", "perturb", ["TumblingWindow"]),
        ("method: sw_direct, window: 2", "perturb", ["NoneType"]),
    ],
)
def test_the_tables_of_panes_are_windowed(privacy, role, windows):
    """One table an agent; nothing of it expires, and nothing is called when a window closes."""
    statistics = {"curate": "per_stream"}.get(role, "per_user" if "naive" in privacy else "mean")
    code = (
        BUILD.partition("app = ")[0]
        .replace("method: sw_direct, epsilon: 1.0, window: 2", f"{privacy}, epsilon: 1.0")
        .replace("statistics: [mean]", f"statistics: [{statistics}]")
        .replace('"perturb"', f'"{role}"')
    ) + (
        f'app = Worker(topology, "{role}", sides, metrics, None, None).app\n'
        "for table in app.tables.data.values():\n"
        "    window = table.window\n"
        "    stale = bool(window and window.stale(0, 1e12))\n"
        "    print(type(window).__name__, stale, table._on_window_close)\n"
        "    print(window and window.ranges(7))\n"
        "sys.stdout.flush(); os._exit(0)\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", f"import sys\n{code}"], capture_output=True, text=True, check=False
    )
    lines = found.stdout.splitlines()
    assert [line.split()[0] for line in lines[::2]] == windows, found.stderr
    assert all(line.split()[1:] == ["False", "None"] for line in lines[::2])
    assert lines[1::2] == ["[(7.0, 7.9)]" if windows[0] != "NoneType" else "None"]


def test_a_worker_that_loses_its_broker_as_it_starts_waits_for_it():
    """It was there a moment ago, when the process asked; that is an outage as any other."""
    code = (
        BUILD.partition("app = ")[0]
        + 'os._exit(Worker(topology, "perturb", {"edge": side, "collector": side}, Metrics("t",'
        ' "perturb", "sw_direct"), None, None).main())'
    )
    with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True) as found:
        try:
            assert found.stderr is not None
            assert any(" outage: " in line for line in found.stderr)
            with pytest.raises(subprocess.TimeoutExpired):
                found.wait(8)
        finally:
            found.kill()


def standing_still(at, *, delivered=None, busy=False):
    """A worker at this moment, with 5 messages in one of two partitions: when each has moved on,
    and why it ends.
    """
    health = Health()
    for place, since in (delivered or {}).items():
        health.brokers.clock = lambda since=since: since
        health.delivered(place)
    health.brokers.clock = lambda: at
    health.waiting({("t", 0): 5, ("t", 1): 0}, {("t", 0)} if busy else ())
    facts = health.facts()
    rule = ending(facts)
    return health._delivered, rule and (rule.code, rule.text(facts))


def test_a_partition_that_stands_still_is_seen_beside_one_that_does_not():
    """Sixty seconds without a message of its own; not where all that is left is in our hands, or
    there is nothing.
    """
    assert standing_still(100.0) == ({("t", 0): 100.0, ("t", 1): 100.0}, None)
    assert standing_still(150.0, delivered={("t", 0): 100.0, ("t", 1): 149.0}) == (
        {("t", 0): 100.0, ("t", 1): 150.0},
        None,
    )
    moved, ends = standing_still(200.0, delivered={("t", 0): 100.0}, busy=True)
    assert (moved["t", 0], ends) == (200.0, None)
    _, (code, text) = standing_still(161.0, delivered={("t", 0): 100.0, ("t", 1): 160.0})
    assert code == 75 and "t partition 0: 5 messages wait" in text


def ends_idle(until_idle, *looks):
    """Why a worker ends that was begun at 0, and has looked: how many messages were left, when."""
    now = [0.0]
    health = Health(lambda: now[-1])
    health.until_idle = until_idle
    for lag, at in looks:
        now.append(at)
        health.reading(lag)
    rule = ending(health.facts())
    return rule and rule.text(health.facts())


def test_a_worker_ends_by_itself_once_nothing_was_left_for_so_long():
    """The time begins anew with every message, and while nothing is assigned."""
    assert [ends_idle(10.0, *((0, 9.9), (3, 10.0), (0, 19.9))[:n]) for n in (1, 2, 3)] == [None] * 3
    assert ends_idle(10.0, (0, 9.9), (3, 10.0), (0, 20.0)) == "nothing was left to read"
    assert not ends_idle(10.0, (0, 20.0), (None, 30.0))
    assert not ends_idle(10.0, (None, 30.0), (0, 39.0))
    assert ends_idle(10.0, (None, 30.0), (0, 40.0))
    assert not ends_idle(None, (0, 10**6))


def test_a_worker_notes_its_snapshots_and_has_its_health_looked_at():
    """Else it would be ended amid the last ones, and never where it hangs."""
    code = BUILD.partition("app = ")[0] + (
        "from types import SimpleNamespace\n"
        'made = Worker(topology, "perturb", sides, metrics, None, None)\n'
        "now = [made.health._clock()]\n"
        "made.health._clock = lambda: now[0]\n"
        "made.health.ending()\n"
        "now[0] += 9\n"
        "before = made.health.facts().unsaved\n"
        "made.saved(SimpleNamespace(bytes=1), 0.1)\n"
        "print(round(before, 3), made.health.facts().unsaved, flush=True)\n"
        "made.brokers.start = made.check = lambda: None\n"
        "made._run = lambda: 0\n"
        'made.health.start = lambda: print("looks", flush=True)\n'
        "os._exit(made.main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout.split() == ["9.0", "0.0", "looks"], done.stderr[-500:]


def test_the_watch_tells_the_probes_and_knows_the_slots():
    """Else /live were 503 after two minutes of any worker; hourly batches are no idleness."""
    code = BUILD.partition("app = ")[0] + (
        'made = Worker(topology, "perturb", sides, metrics, None, None)\n'
        "print(made.watch.health is made.health, made.watch.idle_after, flush=True)\n"
        "os._exit(0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout.split() == ["True", "10800.0"], done.stderr[-500:]
