"""A worker's log: each line in both formats, who may write into it, and how it ends."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
import time
import warnings
from datetime import datetime
from pathlib import Path

import pytest

from ldp_kafka.cli import main
from ldp_kafka.errors import BrokerError, InvariantError, StateError
from ldp_kafka.runtime.worker import exits, logs
from ldp_kafka.runtime.worker.events import COMMON, TEXTS, Event
from ldp_kafka.runtime.worker.logs import Log
from ldp_kafka.runtime.worker.pages import PAGE, written

FIELDS = {
    "version": "0.2.0",
    "fingerprint": "92299f65",
    "guarantee": "w-event, epsilon 4; protects values",
    "message": "it may read t.raw",
    "partitions": {"t.raw": [0, 1]},
    "seconds": 1.5,
    "records": 12,
    "topic": "t.raw",
    "users": None,
    "offset": -1,
    "slot": 17,
    "reasons": {"wrong_type": 3},
    "events": 4,
    "reports": 24,
    "bytes": 4096,
    "reason": "the broker did not\nconfirm",
    "code": 75,
    "frames": ["app.py:3 in main"],
    "logger": "librdkafka",
    "error": "ValueError",
    "at": "app.py:3 in main",
    "count": 266,
}
"""One of each."""


def lines(capsys, log_format="json"):
    """What was written since the last look."""
    found = capsys.readouterr().err.splitlines()
    return [json.loads(line) for line in found] if log_format == "json" else found


@pytest.fixture
def writing():
    with logs.writing("json", "t", "perturb"):
        yield


@pytest.mark.parametrize("event", Event, ids=lambda event: event.value.name)
def test_each_event_is_one_line(capsys, event):
    """With every field that it may have, in both formats."""
    fields = {name: FIELDS[name] for name in event.value.fields}
    with logs.writing("json", "t", "perturb", verbose=True):
        Log("t", "perturb").say(event, partition=1, **fields)
    (line,) = lines(capsys)
    assert line.keys() == {*COMMON, *fields}
    assert {name: line[name] for name in fields} == fields
    assert (line["topology"], line["role"], line["partition"]) == ("t", "perturb", 1)
    assert line["event"] == event.value.name
    assert line["level"] == logging.getLevelName(event.value.level).lower()
    assert line["time"].endswith("Z")
    assert abs(datetime.fromisoformat(line["time"]).timestamp() - time.time()) < 60
    with logs.writing("text", "t", "perturb", verbose=True):
        Log("t", "perturb").say(event, partition=1, **fields)
    (text,) = lines(capsys, "text")
    assert f" {line['level'].upper()} t perturb {event.value.name} partition=1" in text
    assert all(f" {name}=" in text for name in fields if name not in TEXTS)
    for name in fields.keys() & set(TEXTS):
        assert text.endswith(": " + FIELDS[name].replace("\n", " | "))


def test_text_quotes_what_would_not_be_told_apart(capsys):
    """Of what stands between, the bounds can be seen."""
    with logs.writing("text", "t", ""):
        Log("t", "").say(Event.RECOVERED, topic='a b="c"', users=None, offset=3)
    (line,) = lines(capsys, "text")
    assert line.split(" ", 1)[1] == ('INFO t - recovered topic="a b=\\"c\\"" users=null offset=3')


def test_a_field_that_lines_of_its_name_have_not_is_refused():
    """What a line may hold is what the table says."""
    with pytest.raises(InvariantError, match="have no field value"):
        Log("t", "perturb").say(Event.ASSIGNED, value=37.5)


def test_snapshots_are_for_who_asks(capsys):
    for verbose in (False, True):
        with logs.writing("json", "t", "perturb", verbose=verbose):
            Log("t", "perturb").say(Event.SNAPSHOT, topic="t.raw")
        assert len(lines(capsys)) == verbose


def test_the_page_has_every_line():
    """``python -m ldp_kafka.runtime.worker.pages`` writes it anew."""
    text = Path(PAGE).read_text("utf-8")
    assert text == written(text)
    assert all(f"- `{event.value.name}` (" in text for event in Event)


# what others log


def test_what_others_log_stands_in_the_same_log(capsys, writing):
    """From warnings on."""
    logging.getLogger("faust.worker").info("starting")
    logging.getLogger("faust.worker").warning("slow: %s", 3)
    (line,) = lines(capsys)
    assert (line["event"], line["logger"], line["message"]) == ("log", "faust.worker", "slow: 3")
    assert (line["level"], line["topology"], line["role"]) == ("warning", "t", "perturb")


def test_a_flood_is_three_lines_and_a_number(capsys):
    """Whatever the numbers in it; said when the log ends, if not before."""
    with logs.writing("json", "t", "perturb"):
        for size in range(500):
            message = f"producer buffer full size {size}"
            logging.getLogger("faust").warning(message)
        logging.getLogger("librdkafka").error("another")
    found = lines(capsys)
    assert [line["event"] for line in found] == ["log"] * 4 + ["repeated"]
    assert (found[-1]["count"], found[-1]["logger"]) == (497, "faust")
    assert found[-1]["message"] == "producer buffer full size #"


def test_a_flood_that_stops_is_told_of_without_another_line(capsys, monkeypatch):
    """A look, once a second, is enough."""
    now = [0.0]
    with logs.writing("json", "t", "perturb"):
        monkeypatch.setattr(logs._writer._limiter, "_clock", lambda: now[0])
        for _ in range(5):
            logging.getLogger("faust").warning("full")
        logs.catch_up()
        assert len(lines(capsys)) == 3
        now[0] = 60.0
        logs.catch_up()
        (line,) = lines(capsys)
        assert (line["event"], line["count"]) == ("repeated", 2)
    assert lines(capsys) == []


def test_our_own_lines_are_not_limited(capsys, writing):
    for n in range(10):
        Log("t", "perturb").say(Event.ASSIGNED, partitions={"t.raw": [n]})
    assert len(lines(capsys)) == 10


@pytest.mark.parametrize("verbose", [False, True])
def test_an_exception_is_a_line_without_its_text(capsys, verbose):
    """Its type, and where it was raised; the way there for who asks."""
    with logs.writing("json", "t", "perturb", verbose=verbose):
        try:
            float("poison 31337.4242")
        except ValueError:
            logging.getLogger("faust").exception("crashed: %r", sys.exception())
    (line,) = lines(capsys)
    assert (line["message"], line["error"]) == ("crashed: ValueError", "ValueError")
    assert line["at"].endswith("in test_an_exception_is_a_line_without_its_text")
    assert ("frames" in line) is verbose
    assert "31337" not in json.dumps(line)


@pytest.mark.filterwarnings("default")
def test_threads_and_warnings_of_python_are_lines(capsys, writing):
    """A warning's text and place, without the source beside it."""
    thread = threading.Thread(target=lambda: float("poison"), name="guard")
    thread.start()
    thread.join()
    warnings.warn("slow", RuntimeWarning, stacklevel=1)
    ended, warned = lines(capsys)
    assert (ended["message"], ended["error"]) == ("guard has ended", "ValueError")
    assert warned["logger"] == "py.warnings"
    assert warned["message"].endswith("RuntimeWarning: slow")


def test_a_line_that_cannot_be_written_is_said(capfd, monkeypatch, writing):
    """And ends nothing; of what it holds nothing is shown."""
    monkeypatch.setattr(logs, "message_of", lambda record: 1 / 0)
    logging.getLogger("faust").error("poison %s", "31337")
    (line,) = [json.loads(each) for each in capfd.readouterr().err.splitlines()]
    assert (line["logger"], line["message"]) == ("faust", "a line could not be written")


def test_a_log_that_nobody_reads_any_more_ends_nothing(monkeypatch, writing):
    """The reader of a pipe may die; a worker goes on, and keeps its exit code."""

    class Gone:
        def write(self, _):
            raise BrokenPipeError

    def gone(*_):
        raise BrokenPipeError

    monkeypatch.setattr(sys, "stderr", Gone())
    monkeypatch.setattr(logs.os, "write", gone)
    logging.getLogger("faust").error("lost")
    Log("t", "perturb").say(Event.READY, seconds=1.0, records=0)
    for _ in range(9):
        logging.getLogger("faust").error("lost")
    logs.catch_up()
    assert logs.ended("told to end", 0)
    assert logs.ended("no answer", 75, at_once=True)
    monkeypatch.undo()


def test_who_is_hushed(writing):
    """Faust's timers, whose warnings are of every long snapshot; with -v too."""
    for verbose in (False, True):
        with logs.writing("json", "t", "perturb", verbose=verbose):
            logs.hush()
            assert logging.getLogger("mode.timers").getEffectiveLevel() == logging.ERROR
            assert logging.getLogger("mode.services").getEffectiveLevel() == logging.WARNING


def test_a_log_that_ended_is_gone(capsys):
    """Another program in the same process has its own logging back."""
    root = logging.getLogger()
    before = root.level, list(root.handlers), threading.excepthook
    with logs.writing("json", "t", "perturb"):
        assert root.handlers != before[1]
    assert (root.level, list(root.handlers), threading.excepthook) == before
    assert not logs.ended("told to end", 0)
    assert lines(capsys) == []


# the end

END = """
from ldp_kafka.errors import *
from ldp_kafka.runtime.worker import logs
from ldp_kafka.runtime.worker.exits import end, leave
import logging
def fold():
    {raises}
with logs.writing("{log_format}", "t", "perturb", verbose={verbose}):
    for _ in range(9):
        logging.getLogger("faust").warning("full")
    try:
        fold()
    except BaseException as error:
        end(error)
"""


def ended(raises, log_format="json", *, verbose=False):
    """The lines of a process that ends so, and its exit code."""
    code = END.format(raises=raises, log_format=log_format, verbose=verbose)
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    return done.stderr.splitlines(), done.returncode


@pytest.mark.parametrize("verbose", [False, True])
@pytest.mark.parametrize(
    ("raises", "code", "reason", "bug"),
    [
        ("raise ValueError('poison 31337.4242')", 1, "unexpected ValueError", True),
        ("raise InvariantError('it must not be')", 1, "it must not be", True),
        ("raise StateError('the state is old')", 1, "the state is old", False),
        ("raise BrokerError('no answer; it waits here:\\n  2 x')", 75, "no answer", False),
        ("raise ConfigurationError('wrong')", 2, "wrong", False),
        ("leave('all is saved')", 0, "all is saved", None),
    ],
)
def test_the_last_line_says_why(raises, code, reason, bug, verbose):
    """And before it how many lines were left out. Where it was raised is said of a bug, and for who
    asks.
    """
    found, rc = ended(raises, verbose=verbose)
    assert rc == code
    *_, repeated, last = [json.loads(line) for line in found]
    assert (repeated["event"], repeated["count"]) == ("repeated", 6)
    assert (last["event"], last["code"]) == ("end", code)
    assert last["level"] == ("error" if code else "info")
    assert last["reason"].startswith(reason)
    assert ("frames" in last) == (bug is not None and (bug or verbose))
    if "frames" in last:
        assert last["frames"][-1].endswith("in fold")
    assert "31337" not in "".join(found)


@pytest.mark.parametrize(("ends", "rc"), [("raise BrokerError('x')", 75), ("leave('x')", 0)])
def test_a_process_ends_whatever_becomes_of_its_log(ends, rc):
    """A bug in what writes the last line leaves no worker that neither works nor ends; nor does a
    thread that hangs while it writes one.
    """
    fails = "logs.ended = lambda *_, **__: 1 / 0"
    assert ended(f"{fails}; {ends}")[1] == rc
    hangs = "import threading, time; threading.Thread(target=logs._writer.acquire).start()"
    found, code = ended(f"{hangs}; time.sleep(0.2); {ends}")
    assert code == rc
    assert json.loads(found[-1])["event"] == "end"


def test_the_last_line_is_one_as_text_too():
    found, rc = ended("raise BrokerError('no answer; it waits here:\\n  2 x')", "text")
    assert rc == 75
    assert found[-1].endswith("ERROR t perturb end code=75: no answer; it waits here: | 2 x")


def test_without_a_log_it_is_said_as_ever():
    """A process that nobody gave a log says it in plain words, the way to it a line a place."""
    code = END.format(raises="raise ValueError('31337')", log_format="text", verbose=False)
    code = code.replace('with logs.writing("text", "t", "perturb", verbose=False):', "if True:")
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    *_, first, second, third = done.stderr.splitlines()
    assert first == "ldp-kafka: unexpected ValueError"
    assert second.startswith("  <string>:") and third.endswith("in fold")
    assert done.stderr.endswith("\n") and "31337" not in done.stderr


# what is wrong before the work begins

TEXT = """\
topology: t
kafka: {bootstrap_servers: "127.0.0.1:1"}
input: {slot: 1h}
privacy: {method: sw_direct, epsilon: 1.0, window: 2, domain: [0, 1]}
output: {statistics: [mean]}
edge: {key_file: /nowhere/edge.key}
"""


@pytest.fixture
def topology(tmp_path):
    path = tmp_path / "t.yaml"
    path.write_text(TEXT)
    return path


def test_no_key_is_an_end_as_any_other(topology, capsys):
    """As text it is said to whoever sits there."""
    words = ["run", str(topology), "--role", "perturb"]
    assert main([*words, "--log-format", "json"]) == 2
    start, end = lines(capsys)
    assert (start["event"], start["role"]) == ("start", "perturb")
    assert start["guarantee"].startswith("w-event, epsilon 1 ")
    assert (end["event"], end["code"]) == ("end", 2)
    assert "/nowhere/edge.key" in end["reason"]
    assert main(words) == 2
    start, *errors = lines(capsys, "text")
    assert " INFO t perturb start " in start
    assert errors and all(line.startswith("error: ") for line in errors)


def test_a_topology_that_is_wrong_is_an_end_as_any_other(topology, capsys):
    topology.write_text(TEXT.replace("epsilon: 1.0", "epsilon: -1.0"))
    assert main(["run", str(topology), "--log-format", "json"]) == 2
    (end,) = lines(capsys)
    assert (end["event"], end["code"], end["topology"]) == ("end", 2, "")
    assert "t.yaml:4: privacy.epsilon" in end["reason"]
    assert main(["run", str(topology)]) == 2
    assert lines(capsys, "text")[0].startswith("error: ")


def test_what_nobody_expected_before_the_work_is_an_end_too(topology, capsys, monkeypatch):
    """In either format, without its text."""

    def fails(*_, **__):
        raise ValueError("31337")

    monkeypatch.setattr("ldp_kafka.runtime.worker.supervisor._begin", fails)
    assert main(["run", str(topology), "--role", "perturb", "--log-format", "json"]) == 1
    (end,) = lines(capsys)
    assert end["reason"] == "unexpected ValueError"
    assert end["frames"][-1].endswith("in fails")
    assert main(["run", str(topology), "--role", "perturb"]) == 1
    (text,) = lines(capsys, "text")
    assert "unexpected ValueError" in text and "31337" not in text


def test_fail_has_the_codes_of_end(capsys, writing):
    """A child that finds no broker asks to be started again."""
    assert exits.fail(BrokerError("away")) == exits.RETRY
    assert exits.fail(StateError("old")) == exits.HALT
    assert [line["code"] for line in lines(capsys)] == [75, 1]


def test_a_login_with_more_rights_than_it_needs_is_a_line(topology, capsys, monkeypatch, writing):
    import ldp_kafka as lk
    from ldp_kafka.runtime.worker import supervisor

    monkeypatch.setattr(supervisor, "_allowed", lambda *_: ["it may read t.raw"])
    monkeypatch.setattr("ldp_kafka.runtime.kafka.setup.prepare", lambda *_, **__: [])
    loaded = lk.load_topology(topology)
    supervisor._ready(loaded, loaded.role("collect"))
    (line,) = lines(capsys)
    assert (line["event"], line["role"]) == ("rights", "collect")
    assert line["message"] == "it may read t.raw"
