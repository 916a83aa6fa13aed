"""What the parent of a topology's roles does with children that end; see also
`tests/broker/test_supervisor.py`.
"""

from __future__ import annotations

import subprocess
import sys
import threading

from ldp_kafka.runtime.worker import supervisor
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
