"""Whether a worker is ready, through a rolling restart of three of them under load."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Container

import pytest

from tests.broker.flow import Flow, load
from tests.broker.forks import Life
from tests.runtime.worker.test_health import Watched, port_of, probe

RECOVERED = (200, "its partitions are recovered (1)")


@pytest.fixture(params=[3])
def flow(kafka, tmp_path, prefix, request):
    # longer than a worker takes to start on a busy machine: see `revoked`
    session = "25s"
    made = Flow(
        kafka, tmp_path, prefix, session=session, statistics="mean", partitions=request.param
    )
    yield made
    made.close()


def settled(
    ports: list[int], limit: float = 40.0, among: Container[tuple[int, str]] = (RECOVERED,)
) -> None:
    """Until each has its partitions, and says so."""
    until = time.monotonic() + limit
    while not all(probe(port, "/ready") in among for port in ports):
        assert time.monotonic() < until, [probe(port, "/ready") for port in ports]
        time.sleep(0.05)


def revoked(ready: Watched, other: Life, rebalance: Callable[[], None]) -> list[tuple[int, str]]:
    """What a worker answers while its partitions are revoked. The group waits for the other one,
    which is stopped meanwhile (for less than a session: else the group goes on without it): a
    rebalance can be over between two questions.
    """
    before = len(ready.seen)
    other.send_signal(signal.SIGSTOP)
    rebalance()
    ready.until(lambda found: "are revoked" in found[1], since=before)
    other.send_signal(signal.SIGCONT)
    return [each for each in ready.seen[before:] if "are revoked" in each[1]]


def test_ready_is_true_between_recovery_and_revocation(flow):
    """False before, and in each rebalance that the others' restarts bring; what they fold meanwhile
    is folded once. /live is true all the while.
    """
    ports, ready, live = [], [], []

    def start() -> None:
        """One by one: the log does not say whose a port is."""
        flow.start("perturb")
        ports.append(port_of(flow, len(ports)))
        ready.append(Watched(ports[-1], "/ready"))
        live.append(Watched(ports[-1], "/live", 0.2))  # who asks often is in its own way

    for _ in range(3):
        start()
    settled(ports)
    with load(flow) as slots:
        time.sleep(1)
        for number in range(3):
            _, oldest = flow.workers.pop(0)
            (_, one), (_, other) = flow.workers
            seen = revoked(ready[number + 1], other, oldest.terminate)
            assert oldest.wait(30) == 0
            settled(
                ports[-2:], among={(200, f"its partitions are recovered ({n})") for n in (1, 2)}
            )
            seen += revoked(ready[number + 2], one, start)
            settled(ports[-3:])
            assert {code for code, _ in seen} == {503}, seen
    flow.finish(len(slots))
    flow.start("collect")
    expected = flow.expected()
    flow.wait(expected)
    for answered in (each.close() for each in ready):
        assert answered[0][0] == 503
        assert RECOVERED in answered
        for code, why in answered:
            assert code == (200 if "are recovered" in why else 503), (code, why)
    for ended in ready[:3]:
        assert [each for each in ended.seen if each[0]][-1] == (503, "it ends")
    assert {code for each in live for code, _ in each.close()} == {200}
    verdict = flow.judge(expected)
    assert verdict.clean and not verdict.exits and verdict.reports > 300, verdict
    flow.stop()


@pytest.mark.parametrize("flow", [1], indirect=True)
def test_a_worker_that_stands_by_is_ready(flow):
    """There is nothing that it could wait for: an update that waits for it would wait for ever."""
    ports = []
    for number in range(2):
        flow.start("perturb")
        ports.append(port_of(flow, number))
    wanted = {(200, "it stands by: its consumer group has more workers than partitions"), RECOVERED}
    end = time.monotonic() + 40
    while (found := {probe(port, "/ready") for port in ports}) != wanted:
        assert time.monotonic() < end, found
        time.sleep(0.05)
    assert {probe(port, "/live")[0] for port in ports} == {200}
    flow.stop()
