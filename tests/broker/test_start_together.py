"""Two workers of one role that start at once, where there is nothing yet: no group, no offsets, no
messages.

The second joins while the first still reads its tables, so its assignment comes in the middle of
the first one's recovery; and with nothing to fetch every answer of the broker waits for a fetch.
"""

from __future__ import annotations

import random
import time
from concurrent.futures import ThreadPoolExecutor

from confluent_kafka.admin import AdminClient

from ldp_kafka.runtime.kafka import admin
from tests.broker.flow import TEXT, Flow
from tests.depth import depth

ROUNDS = depth(3, 10)
AT_ONCE = 3
APART = 0.3  # seconds between the two starts
RECOVERY = 8.0  # seconds after an assignment in which both are through their recovery, or dead
USERS = 40


def shared(client: AdminClient, group: str) -> bool:
    """Whether two members have an assignment each."""
    found = client.describe_consumer_groups([group], request_timeout=10)[group].result(20)
    return [bool(m.assignment.topic_partitions) for m in found.members] == [True, True]


def started(boot: str, tmp_path, name: str) -> str:
    """One round; what went wrong, or nothing."""
    topic = f"{name}.theirs"
    admin.ensure(
        {"bootstrap.servers": boot}, [admin.TopicSpec(topic, 2, {"cleanup.policy": "delete"})]
    )
    text = TEXT.replace(
        "  partitions: {partitions}",
        "  partitions: {partitions}\n  topic: " + topic + "\n  create: false",
    ).replace("runtime:", "runtime:\n  report_rows: 1")  # no slot is closed here
    flow = Flow(boot, tmp_path, name, statistics="mean", text=text)
    client = AdminClient({"bootstrap.servers": boot})
    group = flow.topology.group("perturb")

    def ended() -> list[int]:
        return [process.returncode for _, process in flow.workers if process.poll() is not None]

    def until(condition, limit: float) -> bool:
        end = time.monotonic() + limit
        while not (done := condition()) and not ended() and time.monotonic() < end:
            time.sleep(0.1)
        return done and not ended()

    def folded() -> bool:
        config = {"bootstrap.servers": boot}
        return not sum(admin.lag(config, group, topic, range(2)).values())

    with flow:
        flow.start("perturb")
        time.sleep(APART)
        flow.start("perturb")
        if not until(lambda: shared(client, group), 60):
            return f"not assigned: {ended()}"
        until(lambda: False, RECOVERY)
        flow.slot(random.Random(name), 0, USERS, late=0, tick=False)
        if not until(folded, 30):
            return f"not folded: {ended()}"
        verdict = flow.judge(flow.expected())
        wrong = any(name.endswith("reports") for name in verdict.wrong)
        if wrong or verdict.reports != USERS:
            return str(verdict)
        flow.stop()
        return ""


def test_workers_that_start_together_live(kafka, tmp_path, prefix):
    """Every round with a group of its own: both workers live, and fold what comes."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = list(pool.map(lambda at: started(kafka, tmp_path, f"{prefix}-{at}"), range(ROUNDS)))
    said = "".join(path.read_text()[-3000:] for path in sorted(tmp_path.glob("*.log")))
    assert found == [""] * ROUNDS, f"{found}\n{said}"
