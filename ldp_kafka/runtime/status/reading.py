"""The facts of a topology, asked of its brokers. It joins no group, commits nothing, and reads the
ends of logs only.

They are asked in the order in which a value passes: what has been read of one log when its group is
asked then lies in the next one. So where no group is behind, all that the input held at the
beginning has been folded.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, ParamSpec, TypeVar

from confluent_kafka.admin import AdminClient

from ldp_kafka.errors import BrokerError, ConfigurationError
from ldp_kafka.runtime.brokers.embedded import is_embedded
from ldp_kafka.runtime.kafka import admin
from ldp_kafka.runtime.kafka.admin.asking import cluster_of, explained
from ldp_kafka.runtime.kafka.changelog import newest_metas
from ldp_kafka.runtime.kafka.group_offsets import GroupOffsets
from ldp_kafka.runtime.kafka.setup import client_config
from ldp_kafka.runtime.recovery.checkpoints import checkpoints
from ldp_kafka.runtime.sample.looks import in_several
from ldp_kafka.runtime.stages.slot_sums import SecondReports
from ldp_kafka.runtime.status.closing import closing_of
from ldp_kafka.runtime.status.facts import (
    Facts,
    Group,
    InputPartition,
    Lag,
    Letters,
    Releases,
    Side,
    TopicState,
)
from ldp_kafka.runtime.status.foreign import look_at
from ldp_kafka.runtime.status.sample import (
    closed_by_reports,
    latest_release,
    of_devices,
    of_raw,
    read_heads,
    reasons_of,
    tails,
)
from ldp_kafka.topology import Topology
from ldp_kafka.topology.roles import COLLECTOR, EDGE, Role, Topic

__all__ = ["read_facts"]

TIMEOUT = 5.0  # seconds for each question

_Found = TypeVar("_Found")
_P = ParamSpec("_P")


class _Asked(NamedTuple):
    """One side, and what its brokers say they have."""

    side: Side
    config: dict[str, Any]
    partitions: Mapping[str, int]
    """By topic."""

    def __repr__(self) -> str:
        return f"_Asked({self.side.name})"  # never a password


def read_facts(
    topology: Topology, login: Mapping[str, str] | None = None, *, timeout: float = TIMEOUT
) -> Facts:
    """Ask the brokers of both sides, each as its own login. What one side may not know, or cannot
    be asked for from here, is said and left out.

    Parameters
    ----------
    login : client options of whoever looks, in place of those of both sides
    timeout : seconds, for each question

    Raises
    ------
    ConfigurationError : no side can be asked from here
    """
    flow = topology.flow
    used = [side for side in (EDGE, COLLECTOR) if any(each.side == side for each in flow.topics)]
    asked = {side: _ask(topology, side, login, timeout) for side in used}
    sides = tuple(each.side for each in asked.values())
    if all(each.not_asked is not None for each in sides):
        raise ConfigurationError("; ".join(dict.fromkeys(str(each.not_asked) for each in sides)))
    facts = Facts(
        topology.name,
        closing_of(topology),
        sides,
        tuple(
            TopicState(
                each.name,
                each.side,
                each.partitions,
                asked[each.side].partitions.get(each.name),
                each.ours,
            )
            for each in flow.topics
            if asked[each.side].side.answers
        ),
        given=topology.input.topic if flow.raw is not None else topology.reports_topic,
        given_by=topology.input.given_by,
        log=topology.raw_topic if flow.raw is not None else topology.reports_topic,
        devices=flow.raw is None,
        idle_ms=topology.input.idle_ms,
        clock=topology.input.clock,
        written=flow.raw is None or topology.input.written,
        present=None if flow.raw is None else topology.slot_of(int(time.time() * 1000)),
        max_ahead_ms=topology.input.max_ahead_ms,
    )
    look = _Look(topology, asked, timeout)
    facts = look.given(look.input(facts))
    facts = replace(facts, groups=tuple(look.groups()))
    facts = replace(facts, second=look.second_reports())
    return replace(facts, releases=look.releases(), letters=tuple(look.letters()))


def _ask(topology: Topology, name: str, login: Mapping[str, str] | None, timeout: float) -> _Asked:
    """What one side's brokers say of themselves."""
    try:
        config = client_config(topology, name, login=login)
    except ConfigurationError as error:
        return _Asked(Side(name, not_asked=str(error)), {}, {})
    except BrokerError as error:
        return _Asked(Side(name, away=str(error)), {}, {})
    config = admin.quiet(config)
    client = AdminClient(config)
    try:
        cluster = cluster_of(config, client, timeout)
        with explained(config, "the list of topics", client):
            found = client.list_topics(timeout=timeout)
    except ConfigurationError as error:
        return _Asked(Side(name, not_asked=str(error)), config, {})
    except BrokerError as error:
        return _Asked(Side(name, away=str(error)), config, {})
    partitions = {
        topic: len(each.partitions) for topic, each in found.topics.items() if each.error is None
    }
    return _Asked(Side(name, len(found.brokers), cluster, is_embedded(cluster)), config, partitions)


class _Look:
    """The questions to both sides.

    Parameters
    ----------
    asked : by side
    timeout : seconds, for each question
    """

    def __init__(self, topology: Topology, asked: Mapping[str, _Asked], timeout: float) -> None:
        self._topology, self._asked, self._timeout = topology, asked, timeout

    def _config(self, topic: Topic) -> dict[str, Any]:
        """Of a client of the topic's cluster. ConfigurationError where there is nothing to ask."""
        asked = self._asked[topic.side]
        if asked.side.not_asked is not None:
            raise ConfigurationError(f"the {topic.side} was not asked: {asked.side.not_asked}")
        if asked.side.away is not None:
            raise BrokerError(f"the {topic.side} does not answer")
        if topic.name not in asked.partitions:
            raise ConfigurationError(f"there is no topic {topic.name}")
        return asked.config

    def _extents(self, topic: Topic) -> dict[int, tuple[int, int]]:
        config = self._config(topic)
        partitions = range(self._asked[topic.side].partitions[topic.name])
        return admin.extents(config, topic.name, partitions, stable=True, timeout=self._timeout)

    def input(self, facts: Facts) -> Facts:
        """With how far each partition of the input is."""
        flow = self._topology.flow
        log = flow.raw or flow.reports
        assert log is not None
        users: dict[int, set[str]] = {}
        found, why = _try(self._input, log, users)
        if found is None:
            found = {number: InputPartition(number) for number in range(log.partitions)}
        for number, closed in (_try(self._closed)[0] or {}).items():
            if number in found:
                found[number] = replace(found[number], closed=closed)
        given = None if why else sum(each.messages or 0 for each in found.values())
        if flow.given is not None and flow.given != log:
            copied = flow.given
            ends = _try(self._extents, copied)[0]
            given = None if ends is None else _held(ends)
        every = tuple(found[number] for number in sorted(found))
        split = in_several(users.values())
        return replace(facts, input=every, input_why=why, given_messages=given, split=split)

    def given(self, facts: Facts) -> Facts:
        """With what is to be said of a topic that others write."""
        given = self._topology.flow.given
        if given is None:
            return facts
        ends, _ = _try(self._extents, given)
        if ends is None:
            return facts
        found, _ = _try(look_at, facts, self._topology, self._config(given), ends)
        return facts if found is None else found

    def _input(self, log: Topic, users: dict[int, set[str]]) -> dict[int, InputPartition]:
        """What the ends of the log say; ``users`` takes in the ids of each partition's events."""
        ends, config = self._extents(log), self._config(log)
        held, most = tails(config, log.name, ends)
        # where the last messages are not all: the first slot is that of the first ones, about
        begin = read_heads(config, log.name, ends, held)
        found = {}
        for number, (start, end) in ends.items():
            mine = users.setdefault(number, set())
            read = of_devices if self._topology.flow.raw is None else partial(of_raw, users=mine)
            made = read(self._topology, number, held.get(number, []))
            first = read(self._topology, number, begin.get(number, [])).oldest
            oldest = [each for each in (made.oldest, first) if each is not None]
            # of offsets that nobody is given, as transactions leave them, only reading tells
            whole = end - start <= most
            messages = made.sampled if whole else end - max(start, int(log.ours))
            found[number] = replace(made, oldest=min(oldest, default=None), messages=messages)
        return found

    def _closed(self) -> dict[int, int | None]:
        """What each partition's reader has told the collector."""
        flow, topology = self._topology.flow, self._topology
        if flow.reports is None:
            return {}
        asked = topology.method.phases > 1
        if flow.raw is None:
            metas = self._metas(flow.reports.name)
            told = {at: (meta.get("second") or {}) if asked else meta for at, meta in metas.items()}
            return {at: each.get("closed") for at, each in told.items()}
        held = tails(self._config(flow.reports), flow.reports.name, self._extents(flow.reports))
        return {
            number: closed_by_reports(each, asked=asked) for number, each in held.records.items()
        }

    def _metas(self, topic: str) -> dict[int, Mapping[str, Any]]:
        """What the last snapshots of who folds a topic at the collector say of its partitions."""
        role, spec = self._topology.reader(topic)
        state = role.state(spec)
        metas = newest_metas(self._config(state), state.name, self._extents(state))
        return {
            number: checkpoints(held, number)[0].meta.get("state") or {}
            for number, held in metas.items()
        }

    def second_reports(self) -> SecondReports:
        """What the collector's last snapshots have counted, each of its stages by itself."""
        found = SecondReports()
        for topic in (self._topology.flow.reports, self._topology.flow.partials):
            metas = {} if topic is None else _try(self._metas, topic.name)[0] or {}
            for number, slot in (each for meta in metas.values() for each in _told(meta)):
                found = found.and_of(number, slot)
        return found

    def groups(self) -> Iterator[Group]:
        """All of them: before a role's own, what it relays; after it, what it forwards."""
        for role in self._topology.roles:
            logs = [(agent.reads, agent.gaps) for agent in role.agents]
            if role.relay is not None:
                relayed = [(role.relay.reads, role.relay.gaps)]
                yield from self._group(role, role.relay.group, relayed, copies=True)
            yield from self._group(role, role.group, logs)
            if role.forward is not None:
                forwarded = [(role.forward.reads, False)]
                yield from self._group(role, role.forward.group, forwarded, copies=True)

    def _group(
        self, role: Role, name: str, logs: list[tuple[Topic, bool]], *, copies: bool = False
    ) -> Iterator[Group]:
        side = logs[0][0].side
        if not self._asked[side].side.answers:
            return
        config = self._asked[side].config
        told, why = _try(admin.group_state, config, name, timeout=self._timeout)
        lags = []
        there = [each for each in logs if each[0].name in self._asked[side].partitions]
        for topic, gaps in there:
            lag, wrong = _try(self._lag, role, name, topic, gaps=gaps)
            why = why or wrong
            if lag is not None:
                lags.append(lag)
        state, members = (None, None) if told is None else told
        yield Group(name, role.name, side, copies, state, members, tuple(lags), why)

    def _lag(self, role: Role, group: str, topic: Topic, *, gaps: bool) -> Lag:
        config = self._config(topic)
        partitions = range(self._asked[topic.side].partitions[topic.name])
        found = admin.lag(config, group, topic.name, partitions, timeout=self._timeout)
        if gaps and any(found.values()):
            found = self._without_markers(role, group, topic, found)
        return Lag(topic.name, found)

    def _without_markers(
        self, role: Role, group: str, topic: Topic, lags: Mapping[int, int]
    ) -> dict[int, int]:
        """The lags, where what transactions leave in a log is not counted: no reader is given it,
        and nobody acknowledges it.
        """
        config = self._config(topic)
        own = GroupOffsets(self._topology, role.name, role.agents, config, config)
        committed = admin.committed(config, group, topic.name, lags, timeout=self._timeout)
        found = dict(lags)
        for number in (number for number, lag in lags.items() if lag):
            start, _ = admin.watermarks(config, topic.name, number, timeout=self._timeout)
            if own.first(topic.name, number, max(start, committed[number] or 0)) is None:
                found[number] = 0
        return found

    def releases(self) -> Releases:
        """What has been released."""
        flow = self._topology.flow
        made = Releases(flow.releases.name)
        ends, why = _try(self._extents, flow.releases)
        if ends is not None:
            made = replace(made, total=_held(ends))
            found, why = _try(self._last, made, ends)
            made = made if found is None else found
        # a coordinator releases what is merged when it has decided
        if flow.partials is not None and flow.sums is None:
            meta = (_try(self._metas, flow.partials.name)[0] or {}).get(0, {})
            made = replace(made, passed=meta.get("released"), first=meta.get("first"))
        return replace(made, why=why)

    def _last(self, made: Releases, ends: Mapping[int, tuple[int, int]]) -> Releases:
        """With the latest of the last releases."""
        topic = self._topology.flow.releases
        held = tails(self._config(topic), topic.name, ends)
        made = replace(made, sampled=len(held))
        latest = latest_release(held)
        if latest is None:
            return made
        slot, written, statistic = latest
        return replace(made, slot=slot, statistic=statistic, written=written)

    def letters(self) -> Iterator[Letters]:
        """Of the edge's bad records, and of reports that could not be counted."""
        flow = self._topology.flow
        for topic in (flow.dead_letters, flow.rejected):
            if topic is None or topic.name not in self._asked[topic.side].partitions:
                continue
            made = Letters(topic.name, topic.side)
            ends, why = _try(self._extents, topic)
            if ends is not None:
                made = replace(made, total=_held(ends))
                held, why = _try(tails, self._asked[topic.side].config, topic.name, ends)
                if held is not None:
                    made = replace(made, sampled=len(held), reasons=reasons_of(held))
            yield replace(made, why=why)


def _told(meta: Mapping[str, Any]) -> Iterator[tuple[int, int]]:
    """The second reports that a collector's state tells of, and the latest slot with any: of each
    phase, where there are several.
    """
    if "second_reports" in meta:
        number, slot = meta["second_reports"]
        yield number, slot
    for lane in (meta.get("second"), *meta.get("lanes", ())):
        if lane is not None:
            yield from _told(lane)


def _held(ends: Mapping[int, tuple[int, int]]) -> int:
    """How many records lie in these partitions."""
    return sum(end - start for start, end in ends.values())


def _try(
    ask: Callable[_P, _Found], *what: _P.args, **more: _P.kwargs
) -> tuple[_Found | None, str | None]:
    """What is found, or why it is not: what a login may not know leaves the rest as it is."""
    try:
        return ask(*what, **more), None
    except (BrokerError, ConfigurationError) as error:
        return None, str(error)
