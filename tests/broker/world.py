"""What faults and outages happen to: a cluster, topologies over it, and their input. Who runs the
topologies is for each kind of world to say.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self

from confluent_kafka import KafkaException

from ldp_kafka.errors import BrokerError
from tests.broker.asking import Log, Questions
from tests.broker.cluster import Cluster
from tests.broker.feed import Feed
from tests.broker.flow import Flow
from tests.broker.judge.logs import judge_all
from tests.broker.judge.verdict import Verdict

__all__ = ["World"]

UNKNOWN = "UNKNOWN_TOPIC_OR_PART"


class World:
    """Brokers and topologies.

    Parameters
    ----------
    nodes : of the cluster, 1 or 3
    mib : room on the disk of each node; 0: all that there is
    """

    def __init__(self, tmp: Path, nodes: int, *, mib: int = 0) -> None:
        tmp.mkdir(parents=True, exist_ok=True)
        self.tmp, self.nodes, self.begun = tmp, nodes, time.time()
        self.flows: list[Flow] = []
        self.feed: Feed | None = None
        self.cluster = Cluster(tmp / "kafka", nodes, mib=mib, pause=self.pause)
        self.boot = self.cluster.boot
        self.ask = Questions(self.boot)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def made(self, makers: Sequence[Callable[[], Flow]]) -> list[Flow]:
        """Topologies and their topics, at the same time: it is mostly waiting."""
        with ThreadPoolExecutor(12) as pool:
            self.flows += pool.map(_made, makers)
        return self.flows

    def say(self, text: str) -> None:
        """What happens, for whoever reads the test's output."""
        print(f"{time.time() - self.begun:6.1f} s: {text}", flush=True)

    def supervise(self) -> None:
        """See to the workers, while time passes."""

    def pause(self, seconds: float) -> None:
        """Let time pass."""
        until = time.time() + seconds
        while (left := until - time.time()) > 0:
            time.sleep(min(0.1, left))
            self.supervise()

    def until(self, true: Callable[[], object], limit: float, look: float = 0.3) -> bool:
        """Wait for something, for so long at most; a broker that gives no answer is asked again."""
        end = time.time() + limit
        while not (found := self.answered(true)):
            if time.time() > end:
                return False
            self.pause(look)
        return bool(found)

    @staticmethod
    def answered(ask):
        """What a broker says; None where it does not answer."""
        try:
            return ask()
        except KafkaException:
            return None

    @property
    def logs(self) -> list[Log]:
        """All that is folded, and that is forwarded."""
        return [log for flow in self.flows for log in flow.logs]

    # -- the end
    # ------------------------------------------------------------

    def folded(self, limit: float) -> bool:
        """Close every slot, and wait until everything is folded and acknowledged. What is left of
        one log becomes the next one's, and there are so many in a row.
        """
        assert self.feed is not None
        self.feed.close()
        row = max(
            len([*flow.topology.flow.readers()]) + 2 * (flow.topology.flow.requests is not None)
            for flow in self.flows
        )
        nothing = lambda: self.ask.left(self.logs) == 0 and not time.sleep(0.5)  # noqa: E731
        return self.until(lambda: all(nothing() for _ in range(row)), limit)

    def verdicts(self) -> list[Verdict]:
        """Of every topology; a raw record that a broker has acknowledged must be there."""
        assert self.feed is not None
        found = judge_all(self.flows)
        for flow, verdict in zip(self.flows, found, strict=True):
            if lost := self.feed.not_there(flow):
                verdict.wrong["lost events"] = lost
        return found

    def close(self) -> None:
        """End everything that was started."""
        if self.feed is not None:
            self.feed.stop()
        for flow in self.flows:
            flow.close()
        self.ask.close()
        self.cluster.close()


def _made(make: Callable[[], Flow]) -> Flow:
    """A topology and its topics. Of three nodes one may not know a topic yet that another has just
    made: `prepare` says so, and is asked again as an operator would.
    """
    for _ in range(10):
        try:
            return make()
        except BrokerError as error:
            if UNKNOWN not in str(error):
                raise
            time.sleep(1)
    raise BrokerError("the nodes never agreed on what topics there are")
