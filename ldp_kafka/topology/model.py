"""A topology as frozen data: what a file says, with its defaults filled in, and what follows from
it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import Guarantee
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.methods import Method
from ldp_kafka.methods.delay import DelayMethod, StreamMethod
from ldp_kafka.methods.grid import Grid, grid_of
from ldp_kafka.methods.protocols import PROTOCOLS, Responder
from ldp_kafka.methods.runnable import protocol_of
from ldp_kafka.methods.split import KEPT
from ldp_kafka.plugins import Plugin, plugin_of
from ldp_kafka.statistics import (
    DECIDED,
    LARGEST,
    NUMBERS,
    STATISTICS,
    CrowdStatistic,
    Selection,
    Statistic,
)
from ldp_kafka.topology.contribution import Contribution
from ldp_kafka.topology.flow import Flow
from ldp_kafka.topology.neighbours import at_a_curator, at_the_edge
from ldp_kafka.topology.roles import Agent, Role, Topic
from ldp_kafka.topology.sections import (
    ADDED,
    AT_ONCE,
    COUNT,
    EVENTS,
    OF_CODES,
    TICKS,
    TOPIC,
    Checked,
    Edge,
    Input,
    KafkaSide,
    Output,
    Privacy,
    Runtime,
)
from ldp_kafka.topology.sources import SOURCES

__all__ = ["Edge", "Input", "KafkaSide", "Output", "Privacy", "Runtime", "Topology"]

WAITING_BYTES = 32  # of a report that waits, beside what it says
_VERSION = 3  # of the two digests: what they cover, and how it is written


@dataclass(frozen=True)
class Topology(Checked):
    """One topology, checked.

    Parameters
    ----------
    name : prefix of topics, groups and metrics
    file : where it was read from
    edge_kafka, collector_kafka : the two sides; one object where one block serves both
    input, privacy, output, edge, runtime : the sections of the file
    plugins : modules that the file lists

    Raises
    ------
    TopologyError : at construction; file and line are the loader's business

    """

    name: str
    file: str
    edge_kafka: KafkaSide
    collector_kafka: KafkaSide
    input: Input
    privacy: Privacy
    output: Output
    edge: Edge
    runtime: Runtime
    plugins: tuple[str, ...] = ()

    def _problems(self) -> Iterator[tuple[str, str]]:
        wrong = list(self._no_bins())
        yield from wrong
        if wrong:  # there is no method to ask
            return
        flow = self.flow
        if not all(TOPIC.fullmatch(topic.name) for topic in flow.topics if topic != flow.given):
            yield "topology", "must be 1 to 200 letters, digits, dots, dashes and underscores"
        if flow.raw is None:
            if self.edge.budget_file is not None:
                yield (
                    "edge.budget_file",
                    (
                        "must not be given where input.source is devices: it sums what topologies"
                        " on one raw topic lose, and there is none"
                    ),
                )
        elif any(topic.name == self.input.topic for topic in flow.topics if topic != flow.given):
            yield "input.topic", f"must not be a topic of ours: {self.input.topic}"
        elif self.edge_kafka is not self.collector_kafka and (
            one := self.edge_kafka.same_as(self.collector_kafka)
        ):
            yield (
                "kafka.collector",
                (
                    f"must not be able to read the raw topic, and {one}: give it a cluster or"
                    " credentials other than kafka.edge's"
                ),
            )
        if self.runtime.session_timeout_ms < 6000 and not (
            self.edge_kafka.embedded and self.collector_kafka.embedded
        ):
            yield (
                "runtime.session_timeout",
                (
                    "must be at least 6s: a broker that is not embedded refuses less, and the"
                    " worker would wait for ever"
                ),
            )
        if self.input.relay and (self.edge_kafka.embedded or self.collector_kafka.embedded):
            yield (
                "kafka.bootstrap_servers",
                (
                    "must be real brokers where input.relay is true: the embedded one drops what is"
                    " older than its last 5 MiB, and a relay does not wait for who reads"
                ),
            )
        if self.method.phases > 1 and flow.raw is not None and not self.input.written:
            yield (
                "input.create",
                (
                    f"must be true for {self.method.name}: the coordinator's requests are written"
                    " into the raw topic, beside the values (or relay: true, which copies it)"
                ),
            )
        if self.input.coerce == "numbers" and self.privacy.category_names is not None:
            yield (
                "input.coerce",
                (
                    'must be none where privacy.categories are names: 404 and "404" are one'
                    " name without it"
                ),
            )
        if isinstance(self.method, StreamMethod) and self.input.source != "topic":
            yield "input.source", f"must be topic for {self.method.name}, which releases windows"
        if self.curated and self.input.partitions > 1 and self.input.partitioning != "murmur2":
            yield (
                "input.partitioning",
                (
                    "must be murmur2, the default where privacy.trust is curator, or"
                    " input.partitions 1: a stream that lies in several partitions would be"
                    " released by each of them, a part of its value each time"
                ),
            )
        yield from self._not_known()
        yield from self._not_covered()
        yield from self._not_together()
        if self.contribution is not None:
            yield from self.contribution.problems()
        yield from self._unfit()

    def _not_known(self) -> Iterator[tuple[str, str]]:
        """Why its streams cannot be those that it names, or ticks alone cannot close slots."""
        if self.input.by_ticks and not (self.curated or self.method.cover):
            yield (
                "input.closing",
                (
                    f"must be {EVENTS} where privacy.trust is edge: there is nobody else's value"
                    " in what a user reports"
                ),
            )
        if self.input.streams and not self.curated:
            yield (
                "input.streams",
                (
                    "must be given only where privacy.trust is curator: elsewhere streams are of"
                    " users, whose ids are secret"
                ),
            )
        elif self.input.zeros and not (
            self.privacy.domain and self.privacy.domain[0] <= 0 <= self.privacy.domain[1]
        ):
            yield (
                "privacy.domain",
                (
                    f"must contain 0 where input.streams are given and per_slot is"
                    f" {self.input.per_slot}: a slot of a stream without an event is 0"
                ),
            )

    def _not_covered(self) -> Iterator[tuple[str, str]]:
        """Why presence shows although the method hides it."""
        if not self.method.cover:
            return
        if self.flow.raw is None:
            yield (
                "input.source",
                (
                    "must be topic where privacy.cover is true: a device reports when it is given a"
                    " value, which shows that there is one"
                ),
            )
        elif not self.input.create:
            yield (
                "input.create",
                (
                    "must be true, and relay false, where privacy.cover is true: its slots close by"
                    " ticks, which workers write by their clock into a topic of ours"
                ),
            )
        elif not self.input.by_ticks:
            yield (
                "input.closing",
                (
                    f"must be {TICKS}, or left out, where privacy.cover is true: where an event"
                    " closes a slot, the slot's reports show when there was one"
                ),
            )

    def _not_together(self) -> Iterator[tuple[str, str]]:
        """Why several values of a slot cannot be taken together as it says."""
        per_slot = self.input.per_slot
        if per_slot == AT_ONCE:
            return
        if self.flow.raw is None:
            yield (
                "input.per_slot",
                (
                    f"must be {AT_ONCE} where input.source is devices: a device reports the first"
                    " value that it is given in a slot, at once; have the application take a"
                    " slot's values together, and hand its device one value a slot"
                ),
            )
        elif self.method.dimension and per_slot == COUNT:
            yield (
                "input.per_slot",
                (
                    f"must not be {COUNT} for {self.method.name}: its values are lists, and how"
                    " many of them came is one number"
                ),
            )
        elif self.method.kind != "numeric" and per_slot not in OF_CODES:
            yield (
                "input.per_slot",
                f"must be one of {', '.join(OF_CODES)} for categories, which are no numbers",
            )

    def _no_bins(self) -> Iterator[tuple[str, str]]:
        """Why there is no method whose collector reads reports by these bins."""
        if self.output.bins is None:
            return
        over = [name for name, each in STATISTICS.items() if each.binned]
        if not set(over) & set(self.output.statistics):
            yield "output.bins", f"must be given with {' or '.join(over)} only"
        elif isinstance(self.privacy.build, Responder):
            try:
                _ = self.method
            except (ConfigurationError, TypeError) as error:
                yield "output.bins", f"{self.privacy.method} over {self.privacy.mechanism}: {error}"

    def _unfit(self) -> Iterator[tuple[str, str]]:
        fits = True
        decides = self.method.phases or self.output.postprocess.on
        if decides and len(self.output.statistics) > 1 and protocol_of(self.method) is not None:
            yield (
                "output.statistics",
                f"must name one: the coordinator of {self.method.name} decides by what it releases",
            )
            return
        for i, name in enumerate(self.output.statistics):
            wrong = (
                STATISTICS[name].unfit(self.method)
                or self._not_of_trust(STATISTICS[name])
                or self._without_bins(STATISTICS[name])
                if name in STATISTICS
                else f"must be one of {', '.join(STATISTICS)}; got {name!r}"
            )
            if wrong is not None:
                fits = False
                yield f"output.statistics[{i}]", wrong
        if fits and self.output.above is not None:
            yield from self._no_event(self.output.above)
        if fits:
            yield from self._long_names()
            yield from self._not_averaged()
        yield from self._not_processed()

    def _not_averaged(self) -> Iterator[tuple[str, str]]:
        """Why there is no moving average of its releases."""
        if self.output.moving_average == 1:
            return
        made = self.statistics
        if not any(one.averaged for one in made.statistics):
            over = [name for name, each in STATISTICS.items() if each.averaged]
            yield "output.smooth", f"must be given with {' or '.join(over)} only"
        elif protocol_of(self.method) is not None:
            yield (
                "output.smooth",
                (
                    f"must not be given: {self.method.name} is a protocol, whose publications"
                    " output.postprocess smooths"
                ),
            )
        elif made.moving_average > 1 and self.method.dimension:
            yield (
                "output.smooth",
                (
                    f"must not be given with {' or '.join(made.linkers)} of {self.method.name}:"
                    " lists are averaged of a crowd alone"
                ),
            )
        elif (kept := made.looks_back * made.width) > KEPT:
            yield (
                "output.smooth.moving_average",
                (
                    f"must be less: the sums of {made.looks_back:,} slots, {kept:,} integers,"
                    f" would be kept for it, and {KEPT:,} can be"
                ),
            )

    def _long_names(self) -> Iterator[tuple[str, str]]:
        """Why releases cannot say the names of all categories."""
        names = self.privacy.category_names
        if names is None or not any(one.by_category for one in self.statistics.statistics):
            return
        found = len(json.dumps(names))
        most = LARGEST - NUMBERS * len(names)
        if found > most:
            yield (
                "privacy.categories",
                (
                    f"must have shorter names, of {most:,} bytes of JSON together: each release"
                    f" says all of them, and with {found:,} it would be larger than a broker takes"
                ),
            )

    def _not_of_trust(self, statistic: type[Statistic]) -> str | None:
        """Why who is trusted has no such statistic."""
        if statistic.curated == self.curated:
            return None
        other = "edge" if self.curated else "curator"
        return f"{statistic.name} is of topologies whose privacy.trust is {other}"

    def _without_bins(self, statistic: type[Statistic]) -> str | None:
        """Why it has no bins."""
        if self.output.bins is not None or not statistic.binned:
            return None
        return f"{statistic.name} needs output.bins: how many equal bins the domain has"

    def _not_processed(self) -> Iterator[tuple[str, str]]:
        """What cannot be made of its releases, and why."""
        wanted, protocol = self.output.postprocess, protocol_of(self.method)
        if not wanted.on:
            return
        if protocol is None:
            yield (
                "output.postprocess",
                (
                    f"must not be given: {self.method.name} has no coordinator, whose publications"
                    f" it is made of; {', '.join(PROTOCOLS)} have one"
                ),
            )
            return
        for switch, why in protocol.unfit(wanted):
            yield f"output.postprocess.{switch}", why
        if len(protocol.terms.oracle.prior) > DECIDED:
            yield (
                "output.postprocess",
                (
                    f"must be of at most {DECIDED:,} categories: what is remembered of more would"
                    " be larger than a broker takes"
                ),
            )

    def _no_event(self, above: float) -> Iterator[tuple[str, str]]:
        """Why nothing can be above the threshold, or all is."""
        crowd = [one for one in self.statistics.statistics if isinstance(one, CrowdStatistic)]
        if len(crowd) != 1:
            yield "output.events", "must be given with one statistic of the crowd"
            return
        if not crowd[0].normal:
            yield "output.events", f"must not be given: errors of a {crowd[0].name} are not normal"
            return
        low, high = crowd[0].bounds
        if not low < above < high:
            yield (
                "output.events.above",
                f"must lie between {low:g} and {high:g}, as the {crowd[0].name} does",
            )

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is allowed and should not be, in words."""
        if self.edge_kafka is not self.collector_kafka:
            return ()
        if self.flow.raw is None:
            return (
                (
                    "one kafka block serves devices and collector: give kafka.edge, which devices"
                    f" have, credentials that can only write {self.reports_topic}{self._read}"
                ),
            )
        return (
            (
                "one kafka block serves both sides: the collector can read the raw topic; give"
                " kafka.edge and kafka.collector their own credentials outside a laptop"
            ),
        )

    @property
    def _read(self) -> str:
        """What devices read, in words that follow what they write."""
        return "" if self.flow.requests is None else f" and read {self.flow.requests.name}"

    @cached_property
    def flow(self) -> Flow:
        """Its topics, agents and roles, by ``input.source``."""
        source = "curator" if self.curated else self.input.source
        return SOURCES[source](self.name, self.input, self.method.phases)

    @property
    def curated(self) -> bool:
        """Whether a curator sees values, and releases what it makes of them."""
        return self.privacy.trust == "curator"

    @property
    def holds_slots(self) -> bool:
        """Whether values are held until their slot closes, and are taken together then."""
        at_once = self.input.per_slot == AT_ONCE and not self.method.cover
        return isinstance(self.method, StreamMethod) or not at_once

    @property
    def windowed(self) -> StreamMethod:
        """What releases windows.

        Raises
        ------
        ConfigurationError : the topology's method does not
        """
        if not isinstance(self.method, StreamMethod):
            raise ConfigurationError(f"{self.name} has no windows: {self.method.name} has none")
        return self.method

    @property
    def open_slots(self) -> int:
        """How many slots have values that wait, at most, where no event is ahead of the others:
        those of a window, and those that may be late; 0 where no value waits.
        """
        if not self.holds_slots:
            return 0
        return self.hop + self.input.lateness

    @property
    def hop(self) -> int:
        """Slots from one window's end to the next one's; 1 where every slot is by itself."""
        return self.method.hop

    @property
    def setting(self) -> str:
        """How windows lie: ``batch`` or ``sliding``; empty where the method has none."""
        return self.method.setting if isinstance(self.method, DelayMethod) else ""

    @cached_property
    def method(self) -> Method:
        """The streaming method, made once."""
        privacy, bins, bound = self.privacy, self.output.bins, self.contribution
        if bound is not None and bound.moves != bound.most:
            return privacy.made(contribution=bound.moves)
        if bins is None or not isinstance(privacy.build, Responder):
            return privacy.build
        return privacy.made(bins=bins)

    @property
    def contribution(self) -> Contribution | None:
        """The most that one event is worth, where it is given."""
        most = self.privacy.parameters.get("contribution")
        if most is None:
            return None
        return Contribution(most, self.input.per_slot, self.privacy.build.domain)

    @cached_property
    def grid(self) -> Grid | None:
        """Where the values of a slot are added; None: they are not."""
        method, most = self.method, self.privacy.parameters.get("contribution")
        if self.input.per_slot not in ADDED:
            return None
        return grid_of(method.domain, contribution=most, dimension=method.dimension or 0)

    @property
    def guarantee(self) -> Guarantee:
        """What truly holds for every user, or of a curator for every stream."""
        said, bound = self.method.guarantee, self.contribution
        slot = "a slot" if said.window == 1 else "each slot"
        within = "" if bound is None else bound.within(slot)
        said = said._replace(within=within) if within else said
        return (at_a_curator if self.curated else at_the_edge)(said, self.input)

    @property
    def per_user(self) -> bool:
        """Whether reports carry a pseudonym that links those of a user."""
        return any(STATISTICS[name].linkable for name in self.output.statistics)

    @property
    def linked(self) -> str:
        """By what whoever reads the reports links those of a user, in words; of a curator there
        are none.
        """
        if self.curated:
            return ""
        if self.per_user:
            return "a pseudonym"
        if self.flow.raw is None:
            return "connection or time of arrival"
        if self.method.cover:  # all of a partition report together
            return "partition"
        if self.report_rows:
            return (
                f"partition; also by order or time where {self.report_rows:,} events or more lie in"
                " a partition's open slots"
            )
        return "raw message, order or time"

    @cached_property
    def statistics(self) -> Selection:
        """What is released of the method's reports, made once."""
        wanted = self.output
        return Selection(
            tuple(
                STATISTICS[name](
                    self.method,
                    shrinkage=wanted.shrinkage,
                    moving_average=wanted.moving_average,
                    bins=wanted.bins,
                )
                for name in wanted.statistics
            )
        )

    @cached_property
    def plugged(self) -> tuple[Plugin, ...]:
        """The plug-ins that shape its reports: of its method and of its mechanism."""
        found = map(plugin_of, (self.privacy.method, self.privacy.mechanism))
        return tuple(sorted({each for each in found if each is not None}))

    @cached_property
    def fingerprint(self) -> str:
        """32 hexadecimal digits over all that shapes reports: what keyed noise, state and reports
        are bound to.

        The name is in it: two topologies with the same parameters under one key would otherwise
        give equal reports for equal values, and so tell which are not.
        """
        privacy = self.privacy
        return _digest(
            version=_VERSION,
            topology=self.name,
            method=privacy.method,
            parameters=privacy.resolved,
            mechanism=privacy.mechanism,
            epsilon=privacy.epsilon,
            window=privacy.window,
            domain=privacy.domain,
            categories=privacy.categories,
            category_names=privacy.category_names,
            calibration=privacy.calibration,
            slot_ms=self.input.slot_ms,
            tables=[int(number) for number in self.method.tables()],
            per_slot=self.input.per_slot,
            **({} if self.grid is None else {"grid": list(self.grid)}),
            **({"trust": self.privacy.trust} if self.curated else {}),
            **(
                {"plugins": [[one.distribution, one.noise_version] for one in self.plugged]}
                if self.plugged
                else {}
            ),
        )

    @cached_property
    def layout(self) -> str:
        """32 hexadecimal digits over where the state lies and which records made it: guards the
        state only.
        """
        source = self.input
        # another user field would be another ledger for the same person
        return _digest(
            version=_VERSION,
            topic=source.topic,
            fields=[list(source.user), list(source.value), list(source.time)],
            partitions=source.partitions,
            partitioning=source.partitioning,
            lateness=source.lateness,
            max_ahead_ms=source.max_ahead_ms,
            shards=self.runtime.shards,
            # else a replay would add pseudonyms to reports that went out without
            per_user=self.per_user,
            **({"source": source.source} if self.flow.raw is None else {}),
            **({"relay": True} if source.relay else {}),
            # another number of sources would be other sources that a slot waits for
            **({"sources": source.sources} if source.rekey else {}),
            **({"parts": [list(part) for part in source.parts]} if source.parts else {}),
            # else a slot that was released would be another after a crash
            **({"streams": sorted(source.streams)} if source.streams else {}),
            **({} if source.start_ms is None else {"start_ms": source.start_ms}),
            **({"closing": source.closing} if source.by_ticks else {}),
            **({} if source.events is None else {"events": list(source.events)}),
            **({} if source.time_unit is None else {"time_unit": source.time_unit}),
            **({} if source.coerce == "none" else {"coerce": source.coerce}),
            **({"hold": source.hold} if self.method.phases > 1 else {}),
            **({} if self.output.bins is None else {"bins": self.output.bins}),
            # else a replay would send what has been sent in other batches
            **({"report_rows": self.report_rows} if self.report_rows else {}),
            # else a replay could draw as another release of a package does
            **(
                {"plugins": [[one.distribution, one.digest] for one in self.plugged]}
                if self.plugged
                else {}
            ),
        )

    @property
    def report_rows(self) -> int:
        """Events of a partition behind which the edge sends the reports that wait, of a mebibyte at
        most, and less where the state has few records; 0: each message has a batch of its own.
        Where offsets may be missing, one that is compacted away would move a bound; what is
        released per user is shrunk towards the batches that come.
        """
        if (
            self.per_user
            or self.curated
            or self.flow.raw is None
            or self.reader(self.raw_topic)[1].gaps
        ):
            return 0
        row = WAITING_BYTES + self.method.blank(1).nbytes
        room = 2**18 * min(4, self.runtime.shards)
        return min(self.runtime.report_rows, max(1, room // row))

    @property
    def raw_topic(self) -> str:
        """Values, as they are folded; edge only. Where they come in is ``input.topic``: the same
        topic, unless it is relayed.
        """
        return self.input.topic if self.flow.raw is None else self.flow.raw.name

    @property
    def reports_topic(self) -> str:
        """Perturbed values: partition i answers raw partition i, or a report's id says in which it
        is.

        Raises
        ------
        ConfigurationError : the topology has a curator, and no reports
        """
        return self._of_collector(self.flow.reports).name

    @property
    def answers_topic(self) -> str:
        """What comes of each raw partition, in its own: reports, or the releases of a curator."""
        return (self.flow.reports or self.flow.releases).name

    @property
    def answers_begin(self) -> int:
        """The offset of the first of them: behind a header record, in a topic that is read."""
        return 0 if self.flow.reports is None else 1

    @property
    def partials_topic(self) -> str:
        """What each source has to say of a slot; one partition, so that slots are released in
        order.

        Raises
        ------
        ConfigurationError : the topology has a curator, and no reports
        """
        return self._of_collector(self.flow.partials).name

    def _of_collector(self, topic: Topic | None) -> Topic:
        if topic is None:
            raise ConfigurationError(
                f"{self.name} has no reports: its curator sees values, and releases them"
            )
        return topic

    @property
    def releases_topic(self) -> str:
        """Published statistics."""
        return self.flow.releases.name

    @property
    def sums_topic(self) -> str:
        """Merged sums of each slot and phase, where a coordinator decides by them.

        Raises
        ------
        ConfigurationError : the topology's method has no coordinator
        """
        if self.flow.sums is None:
            raise ConfigurationError(f"{self.name} has no coordinator: {self.method.name} has none")
        return self.flow.sums.name

    @property
    def requests_topic(self) -> str:
        """What the coordinator asks of each slot's users.

        Raises
        ------
        ConfigurationError : the topology's method asks for nothing
        """
        if self.flow.requests is None:
            raise ConfigurationError(f"{self.name} has no requests: {self.method.name} asks none")
        return self.flow.requests.name

    @property
    def dead_letters_topic(self) -> str:
        """Where the edge's bad records are; edge only, since it depends on values.

        Raises
        ------
        ConfigurationError : the topology has no raw topic
        """
        if self.flow.dead_letters is None:
            raise ConfigurationError(f"{self.name} has no raw topic, and so no bad records of one")
        return self.flow.dead_letters.name

    @property
    def collector_dead_letters_topic(self) -> str:
        """Where reports are that could not be counted.

        Raises
        ------
        ConfigurationError : the topology has a curator, and no reports
        """
        return self._of_collector(self.flow.rejected).name

    @property
    def roles(self) -> tuple[Role, ...]:
        """In the order of a value's way."""
        return self.flow.roles

    def role(self, name: str) -> Role:
        """The role of this name; ConfigurationError where the topology has none."""
        return self.flow.role(name)

    def agent(self, name: str) -> Agent:
        """The agent of this name; ConfigurationError where the topology has none."""
        return self.flow.agent(name)

    def reader(self, topic: str) -> tuple[Role, Agent]:
        """The role and the agent that fold a topic; ConfigurationError where nobody does."""
        return self.flow.reader(topic)

    def group(self, role: str) -> str:
        """The consumer group of a role."""
        return self.role(role).group

    def changelog(self, role: str, table: str) -> str:
        """The topic in which Faust keeps a table of a role."""
        return self.role(role).changelog(table)

    def topics(self) -> list[Topic]:
        """All topics that are ours to create, someone else's raw topic not among them."""
        return [topic for topic in self.flow.topics if topic.ours]

    @overload
    def slot_of(self, time: int) -> int: ...
    @overload
    def slot_of(self, time: NDArray[np.int64]) -> NDArray[np.int64]: ...
    def slot_of(self, time: int | NDArray[np.int64]) -> int | NDArray[np.int64]:
        """The slot of a time, or of many, in milliseconds since 1970-01-01 UTC."""
        return time // self.input.slot_ms

    def slot_start(self, slot: int) -> int:
        """The first millisecond of a slot."""
        return slot * self.input.slot_ms


def _digest(**parts: Any) -> str:
    """The first 16 bytes of the SHA-256 of canonical JSON, as hexadecimal digits."""
    text = json.dumps(
        parts, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    )
    return sha256(text.encode()).hexdigest()[:32]
