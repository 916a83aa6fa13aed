"""What the parent of a topology's roles does with children that end; see also
`tests/broker/test_supervisor.py`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from types import SimpleNamespace

from ldp_kafka.runtime.worker import logs, supervisor
from ldp_kafka.runtime.worker.logs import Log


def child(code: str) -> supervisor._Child:
    return supervisor._Child(
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
    assert supervisor._watch([edge, collector], threading.Event()) == 0
    assert said.read_text().split() == ["collector", "edge", "collector"]


def test_each_ends_once_where_they_end_in_order(tmp_path):
    said = tmp_path / "said"
    log = f"print(name, flush=True, file=open({str(said)!r}, 'a'))"
    edge = child(f"name = 'edge'; {log}")
    collector = child(f"import time; time.sleep(1.5); name = 'collector'; {log}")
    assert supervisor._watch([edge, collector], threading.Event()) == 0
    assert said.read_text().split() == ["edge", "collector"]


def test_a_role_that_is_started_again_is_a_line(tmp_path, capsys):
    """With the exit code, or the signal: who was killed has not said why."""
    flag = tmp_path / "flag"
    dies = f"import os, pathlib; p = pathlib.Path({str(flag)!r})"
    dies += "; p.exists() or (p.touch(), os.kill(os.getpid(), 9))"
    with logs.writing("json", "t", ""):
        assert supervisor._watch([child(dies)], threading.Event()) == 0
    (line,) = [json.loads(each) for each in capsys.readouterr().err.splitlines()]
    assert (line["event"], line["role"], line["code"]) == ("restart", "perturb", -9)
    assert 0 < line["seconds"] <= supervisor.LONGEST_PAUSE


def test_children_write_as_their_parent_does(monkeypatch, tmp_path):
    started = []
    monkeypatch.setattr(supervisor.subprocess, "Popen", lambda words, **_: started.append(words))
    topology = SimpleNamespace(file="t.yaml")
    for verbose in (False, True):
        with logs.writing("json", "t", "", verbose=verbose):
            supervisor._starter(topology, "perturb", 0, "127.0.0.1", None, "json")()
    plain, loud = started
    assert plain[plain.index("--log-format") + 1] == "json"
    assert "-v" in loud and "-v" not in plain
