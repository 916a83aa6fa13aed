"""Devices of a topology whose coordinator asks, the collector and the coordinator behind them, all
in one process: what a device sends is folded at once, and what is asked is shown to every device.
"""

from __future__ import annotations

from collections import defaultdict

from ldp_kafka.records import Tick
from ldp_kafka.runtime import roles
from ldp_kafka.runtime.device.client import Client
from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.wire.codec import encode
from ldp_kafka.runtime.wire.parsing import parse_json
from ldp_kafka.runtime.wire.records import decode_json
from tests.runtime.device.lives import SLOT

FAR = 10**14  # milliseconds: whatever is reported and asked is long past

__all__ = ["Fleet", "Sender"]


class Sender:
    """A producer that hands on what it is given, and acknowledges it."""

    def __init__(self, put):
        self.put, self.calls = put, []

    def produce(self, topic, *, value, partition, on_delivery):
        del topic
        self.put(partition, value)
        self.calls.append(on_delivery)

    def poll(self, timeout):
        del timeout
        calls, self.calls = self.calls, []
        for call in calls:
            call(None, None)


class Fleet:
    """Devices, and what becomes of their reports.

    Attributes
    ----------
    clients : by number
    requests : all that were asked, as in their topic
    left : (partition, message) of all that left a device, in order
    releases : of the crowd, in order
    counts : of the collect stages
    """

    def __init__(self, topology, folder, devices, kind=Client):
        self.topology, self.folder, self.kind = topology, folder, kind
        self.requests, self.left, self.releases = [], [], []
        self.counts = defaultdict(int)
        self._offsets = defaultdict(int)
        self._stages = {
            (agent.topic, number): self._made(agent, number)
            for role in topology.roles
            for agent in role.agents
            for number in range(agent.partitions)
        }
        self.clients = {}
        for number in range(devices):
            Client.provision(topology, deployment="here", **self.files(number))
            self.open(number)

    def _made(self, agent, number):
        stage = roles.make(self.topology, agent, number)
        return stage, stage.fresh()

    def files(self, number):
        return {"database": self.folder / f"{number}.db"}

    def open(self, number):
        """A client over a device's files, in place of the one before."""
        if number in self.clients:
            self.clients.pop(number).close()
        self.clients[number] = self.kind(
            self.topology,
            producer=Sender(self._reported),
            clock=lambda: FAR,
            **self.files(number),
        )

    def close(self):
        for client in self.clients.values():
            client.close()

    def tick(self, slot):
        """Slots before this one end, as far as lateness allows; devices are told nothing."""
        for number in range(self.topology.input.partitions):
            self._take(self.topology.reports_topic, number, encode(Tick(slot * SLOT)))

    def _reported(self, partition, value):
        self.left.append((partition, value))
        self._take(self.topology.reports_topic, partition, value)

    def _take(self, topic, number, value):
        """Fold a message, and what comes of it."""
        at = (topic, number)
        if at in self._stages:
            stage, state = self._stages[at]
            folded = stage.fold(state, [Message(self._offsets[at], -1, value)])
            self._offsets[at] += 1
            for name, count in folded.counts.items():
                self.counts[name] += count
            for record in folded.records:
                self._take(record.topic, record.partition, record.value)
        elif topic == self.topology.releases_topic:
            self.releases.append(decode_json(parse_json(value)))
        else:
            assert topic == self.topology.requests_topic
            self.requests.append(value)
