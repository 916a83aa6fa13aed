"""Certificates that are renewed on a real broker while workers run: librdkafka never reads them
again, so a new process has to.
"""

from __future__ import annotations

import random

import pytest

from ldp_kafka.runtime.worker.exits import RETRY
from tests.broker.flow import Flow
from tests.broker.secured import certificate, secured_broker

USERS = 40


@pytest.fixture
def flow(can_start, tmp_path):
    """A topology on a broker with TLS, and the broker."""
    with secured_broker(tmp_path) as secured:
        ready = lambda topology, _: secured.ready(topology.file)  # noqa: E731
        made = Flow(secured.plain[0], tmp_path, "renewed", text=secured.text(), ready=ready)
        with made:
            yield made, secured


def test_a_new_process_reads_renewed_certificates(flow):
    """The broker has another authority's by now: workers ask to be started again, and say why.
    Those that come next fold on, and every report is there once.
    """
    made, secured = flow
    rnd = random.Random(3)
    workers = [made.start("collect"), made.start("perturb")]
    for t in range(4):
        made.slot(rnd, t, USERS)
    made.until_acknowledged()
    secured.server.stop()
    certificate(secured.folder)
    secured.server.start()
    for worker in workers:
        assert worker.wait(90) == RETRY, made.log_path.read_text()
    said = made.log_path.read_text()
    assert said.count("ca.pem was renewed since this process has read it") == 2, said
    made.workers.clear()
    made.start("collect"), made.start("perturb")
    for t in range(4, 8):
        made.slot(rnd, t, USERS)
    made.finish(8)
    verdict = made.settled()
    assert verdict.clean and verdict.reports > 4 * USERS, verdict


def test_a_broker_that_comes_back_with_the_same_ends_nobody(flow):
    """Nothing is renewed: that is an outage as any other."""
    made, secured = flow
    workers = [made.start("collect"), made.start("perturb")]
    made.slot(random.Random(4), 0, USERS)
    made.until_acknowledged()
    secured.server.stop()
    secured.server.start()
    made.slot(random.Random(5), 1, USERS)
    made.finish(2)
    verdict = made.settled()
    assert verdict.clean and not verdict.exits, verdict
    assert all(worker.poll() is None for worker in workers)
