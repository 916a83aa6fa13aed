"""What a parent of roles does with children that end; see also
`tests/broker/test_supervisor.py`.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.metrics import listening
from ldp_kafka.runtime.worker import children, logs, supervisor
from ldp_kafka.runtime.worker.logs import Log


def child(code: str) -> children.Child:
    return children.Child(
        lambda: subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.DEVNULL),
        Log("t", "perturb"),
    )


def test_a_role_that_had_nothing_to_read_yet_is_started_again(tmp_path):
    """With ``--until-idle`` a collector may have been idle before the edge had begun: what comes
    afterwards would stay unread.
    """
    said = tmp_path / "said"
    log = f"print(name, flush=True, file=open({str(said)!r}, 'a'))"
    edge = child(f"import time; time.sleep(1.5); name = 'edge'; {log}")
    collector = child(f"name = 'collector'; {log}")
    assert children.watch([edge, collector], ()) == 0
    assert said.read_text().split() == ["collector", "edge", "collector"]


def test_each_ends_once_where_they_end_in_order(tmp_path):
    said = tmp_path / "said"
    log = f"print(name, flush=True, file=open({str(said)!r}, 'a'))"
    edge = child(f"name = 'edge'; {log}")
    collector = child(f"import time; time.sleep(1.5); name = 'collector'; {log}")
    assert children.watch([edge, collector], ()) == 0
    assert said.read_text().split() == ["edge", "collector"]


def test_a_role_that_is_started_again_is_a_line(tmp_path, capsys, monkeypatch):
    """With the exit code, or the signal: who was killed has not said why. A loop of crashes shows:
    each is counted, and the pauses grow.
    """
    monkeypatch.setattr(children, "FIRST_PAUSE", 0.05)
    monkeypatch.setattr(children, "LONGEST_PAUSE", 0.3)
    lives = tmp_path / "lives"
    dies = f"""if True:
        import os, pathlib
        said = pathlib.Path({str(lives)!r})
        lives = len(said.read_text()) if said.exists() else 0
        said.write_text("x" * (lives + 1))
        if lives == 1: os.kill(os.getpid(), 9)
        if lives < 5: os._exit(75)
    """
    with logs.writing("json", "t", ""):
        assert children.watch([child(dies)], ()) == 0
    lines = [json.loads(each) for each in capsys.readouterr().err.splitlines()]
    assert {(line["event"], line["role"]) for line in lines} == {("restart", "perturb")}
    assert [line["code"] for line in lines] == [75, -9, 75, 75, 75]
    assert [line["count"] for line in lines] == [1, 2, 3, 4, 5]
    assert [line["seconds"] for line in lines] == [0.1, 0.2, 0.3, 0.3, 0.3]


@pytest.mark.parametrize("code", [1, 2])
def test_a_role_that_halts_is_not_started_again(tmp_path, capsys, code):
    """It would come to the same."""
    lives = tmp_path / "lives"
    halts = f"print('x', file=open({str(lives)!r}, 'a')); raise SystemExit({code})"
    with logs.writing("json", "t", ""):
        assert children.watch([child(halts)], ()) == code
    assert lives.read_text() == "x\n"
    assert capsys.readouterr().err == ""


WAITS = "import os, signal, sys, time\n"
"""Of children that go on until they are told."""
# how a child takes the signal, and what its parent's exit code is
ENDINGS = {
    "in order": (
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0)); print(flush=True); time.sleep(60)",
        0,
    ),
    "not in order": (
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(75)); print(flush=True); time.sleep(60)",
        75,
    ),
    "before it had begun": ("print(flush=True); time.sleep(60)", 0),
    "is killed": (
        "signal.signal(15, lambda *_: os.kill(os.getpid(), 9)); print(flush=True); time.sleep(60)",
        75,
    ),
}


class Roles:
    """A topology with roles that are any code, kept by a process of its own."""

    MAIN = """if True:
        import subprocess, sys
        from types import SimpleNamespace
        from ldp_kafka.runtime.worker import children, logs
        from ldp_kafka.runtime.worker.signals import leaving

        began = subprocess.Popen
        def begin(words, **how):
            code = dict(zip(sys.argv[2::2], sys.argv[3::2]))[words[words.index("--role") + 1]]
            return began([sys.executable, "-c", code], stdout=subprocess.DEVNULL, **how)
        children.subprocess.Popen = begin
        topology = SimpleNamespace(name="t", file="t.yaml")
        roles = [SimpleNamespace(name=name) for name in sys.argv[2::2]]
        with leaving(), logs.writing("json", "t", ""):
            sys.exit(children.keep(topology, roles, int(sys.argv[1]), "127.0.0.1", None, "json"))
    """

    def __init__(self, codes: dict[str, str], port: int = 0) -> None:
        words = [word for role, code in codes.items() for word in (role, code)]
        self.process = subprocess.Popen(
            [sys.executable, "-c", self.MAIN, str(port), *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.said = [self.process.stdout.readline() for _ in codes]
        self.ports = {
            line.split()[1].rstrip(":"): int(line.rsplit(":", 1)[1].split("/")[0])
            for line in self.said
        }

    def end(self, number: int = signal.SIGTERM) -> tuple[int, list[dict[str, object]]]:
        """Tell it to end; its exit code, and its log."""
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=30)
        assert out == "", "the addresses are said once"
        return self.process.returncode, [json.loads(line) for line in err.splitlines()]


@pytest.fixture
def keeping():
    """Makes `Roles`, none of which outlives the test."""
    made = []

    def make(*given) -> Roles:
        made.append(Roles(*given))
        return made[-1]

    yield make
    for roles in made:
        with roles.process:
            roles.process.kill()


def until(condition, seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS.keys())
def test_the_exit_code_is_the_childs(keeping, tmp_path, ending, number):
    """Where the parent is told to end, and passes that on."""
    code, expected = ending
    begun = tmp_path / "begun"
    code = WAITS + code.replace("print(flush=True)", f"open({str(begun)!r}, 'w')")
    roles = keeping({"perturb": code})
    until(begun.exists)
    ended, lines = roles.end(number)
    assert ended == expected
    [line] = lines
    assert (line["event"], line["code"], line["reason"]) == ("end", expected, "told to end")


def test_a_signal_at_any_moment_ends_it():
    """Also while its own thread holds a lock: a handler that took the same one would wait for ever.
    The signal comes at the first function's call or return after the child's start, at the second
    and so on.
    """
    code = """if True:
        import signal, sys, time
        from types import SimpleNamespace
        from ldp_kafka.runtime.worker import children

        def begin(*_, **__):
            sys.setprofile(profile)
            return SimpleNamespace(
                poll=lambda: None, terminate=print, wait=lambda _: None, returncode=0, stdin=None
            )
        def profile(*_):
            global left
            left -= 1
            if not left:
                sys.setprofile(None)
                signal.raise_signal(signal.SIGTERM)
        children.subprocess.Popen = begin
        children.time = SimpleNamespace(sleep=lambda _: None, monotonic=time.monotonic)
        topology, roles = SimpleNamespace(name="t", file=""), [SimpleNamespace(name="perturb")]
        for moment in range(1, 61):
            left = moment
            assert children.keep(topology, roles, 0, "127.0.0.1", None, "json") == 0
            assert left == 0
    """
    subprocess.run([sys.executable, "-c", code], timeout=60, check=True, capture_output=True)


def test_what_waits_to_be_started_again_has_not_ended_in_order(keeping):
    """Told to end in the middle of a loop of crashes."""
    roles = keeping({"perturb": "raise SystemExit(75)"})
    time.sleep(2)
    code, lines = roles.end()
    assert code == 75
    assert [line["event"] for line in lines][-1] == "end"
    assert "restart" in [line["event"] for line in lines]


def test_ports_are_the_same_after_a_restart(keeping):
    """And nobody else can take one while there is no child: neither a free one nor one that was
    named. What a child answers at is what the parent has said.
    """
    answers = f"""if True:
        import os, pathlib, signal, socket
        here = socket.socket(fileno=int(os.environ["{children.METRICS_SOCKET}"]))
        there, _ = here.accept()
        there.sendall(str(os.getpid()).encode())
        there.close()
        os.kill(os.getpid(), signal.SIGKILL)
    """
    roles = keeping({"perturb": answers, "collect": answers})
    assert len(set(roles.ports.values())) == 2
    for port in roles.ports.values():
        pids = set()
        for _ in range(2):
            with socket.create_connection(("127.0.0.1", port), timeout=30) as asked:
                pids.add(int(asked.makefile().read()))
            with pytest.raises(ConfigurationError, match="in use"):
                listening(port)
        assert len(pids) == 2
    roles.end()
    for port in roles.ports.values():
        listening(port).close()


def test_roles_have_ports_one_after_the_other(keeping):
    for _ in range(20):  # the next one may be another's
        with listening(0) as found:
            port = found.getsockname()[1]
        try:
            listening(port + 1).close()
        except (ConfigurationError, OverflowError):
            continue
        break
    sleeps = "import time; time.sleep(60)"
    roles = keeping({"perturb": sleeps, "collect": sleeps}, port)
    assert roles.ports == {"perturb": port, "collect": port + 1}
    assert roles.end()[0] == 0


def test_a_port_that_is_taken_is_said_before_anything_starts(monkeypatch):
    """Each start of a child would come to the same."""
    started = []
    monkeypatch.setattr(children.subprocess, "Popen", lambda *_, **__: started.append(1))
    topology, roles = SimpleNamespace(name="t", file="t.yaml"), [SimpleNamespace(name="perturb")]
    with listening(0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigurationError, match=f"metrics port {port} .* in use"):
            children.keep(topology, roles, port, "127.0.0.1", None, "text")
    assert not started


def words(monkeypatch, *, verbose: bool) -> tuple[list[str], dict[str, object]]:
    started = []
    monkeypatch.setattr(
        children.subprocess, "Popen", lambda words, **how: started.append((words, how))
    )
    topology = SimpleNamespace(file="t.yaml")
    with logs.writing("json", "t", "", verbose=verbose), listening(0) as bound:
        children.starter(topology, "perturb", bound, None, "json")()
    [found] = started
    return found


def test_children_write_as_their_parent_does(monkeypatch):
    plain, _ = words(monkeypatch, verbose=False)
    loud, _ = words(monkeypatch, verbose=True)
    assert plain[plain.index("--log-format") + 1] == "json"
    assert "-v" in loud and "-v" not in plain


def test_a_child_has_no_children(monkeypatch):
    """It is a role's own process, and knows that somebody starts it again."""
    plain, how = words(monkeypatch, verbose=False)
    assert "--restart" not in plain
    assert how["env"][children.SUPERVISED] == "1"
    assert how["pass_fds"] == [int(how["env"][children.METRICS_SOCKET])]


@pytest.mark.parametrize(
    ("role", "restart", "kept"),
    [
        (None, False, ["perturb", "collect"]),
        (None, True, ["perturb", "collect"]),
        ("collect", True, ["collect"]),
        ("collect", False, None),
    ],
)
def test_who_is_kept(monkeypatch, role, restart, kept):
    """Without a role all; a role where it is asked for, which else works in this process."""
    calls = []
    roles = {name: SimpleNamespace(name=name, needs_key=False) for name in ("perturb", "collect")}
    topology = SimpleNamespace(name="t", roles=tuple(roles.values()), role=roles.get)

    def keep(_, roles, *__):
        calls.append([each.name for each in roles])
        return 7

    monkeypatch.setattr(supervisor, "keep", keep)
    monkeypatch.setattr(supervisor, "_host", lambda *_: None)
    monkeypatch.setattr(supervisor, "_ready", lambda *_: None)
    monkeypatch.setattr(supervisor, "_work", lambda *_: 8)
    assert supervisor.run(topology, role=role, restart=restart) == (7 if kept else 8)
    assert calls == ([] if kept is None else [kept])


def test_a_role_alone_hosts_no_broker(monkeypatch):
    """As without --restart: whoever runs all roles does, and others find it."""
    hosted = []
    role = SimpleNamespace(name="collect", needs_key=False)
    topology = SimpleNamespace(name="t", roles=(role,), role=lambda _: role)
    monkeypatch.setattr(supervisor, "keep", lambda *_: 0)
    monkeypatch.setattr(supervisor, "_host", lambda *_: hosted.append(1))
    monkeypatch.setattr(supervisor, "_ready", lambda *given: hosted.append(given[1:]))
    supervisor.run(topology, role="collect", restart=True)
    assert hosted == [(role, None)]


def test_a_process_that_is_told_to_end_as_it_starts_ends_in_order():
    """It has begun nothing: no death by the signal, as one without a handler has."""
    code = """if True:
        import time
        from ldp_kafka.runtime.worker.signals import leaving
        with leaving():
            print(flush=True)
            time.sleep(60)
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        with subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            process.stdout.read(1)
            os.kill(process.pid, number)
            _, said = process.communicate(timeout=30)
        assert process.returncode == 0
        assert said == b"ldp-kafka: told to end before it had begun\n"


def test_afterwards_signals_mean_what_they_meant():
    from ldp_kafka.runtime.worker.signals import TOLD, leaving

    before = [signal.getsignal(number) for number in TOLD]
    with leaving():
        assert [signal.getsignal(number) for number in TOLD] != before
    assert [signal.getsignal(number) for number in TOLD] == before
