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
from ldp_kafka.methods import Method
from ldp_kafka.statistics import STATISTICS, Selection
from ldp_kafka.topology.sections import (
    TOPIC,
    Checked,
    Edge,
    Input,
    KafkaSide,
    Output,
    Privacy,
    Runtime,
)
from ldp_kafka.topology.topics import TABLES, Topic, topics

__all__ = ["Edge", "Input", "KafkaSide", "Output", "Privacy", "Runtime", "Topology"]

_VERSION = 2  # of the two digests: what they cover, and how it is written


@dataclass(frozen=True)
class Topology(Checked):
    """One topology, checked.

    Parameters
    ----------
    name : prefix of topics, groups and metrics
    file : where it was read from
    edge_kafka, collector_kafka : the two sides; one object where one block serves both
    input, privacy, output, edge, runtime : the sections of the file

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

    def _problems(self) -> Iterator[tuple[str, str]]:
        if not TOPIC.fullmatch(self.changelog("perturb", "perturb")):
            yield "topology", "must be 1 to 200 letters, digits, dots, dashes and underscores"
        if self.devices:
            if self.edge.budget_file is not None:
                yield (
                    "edge.budget_file",
                    (
                        "must not be given where input.source is devices: it sums what topologies"
                        " on one raw topic lose, and there is none"
                    ),
                )
        elif self.raw_topic in {topic.name for topic in self.topics()[self.input.create :]}:
            yield "input.topic", f"must not be a topic of ours: {self.raw_topic}"
        elif self.edge_kafka is not self.collector_kafka and self.edge_kafka.same_rights(
            self.collector_kafka
        ):
            yield (
                "kafka.collector",
                (
                    "must not be able to read the raw topic: give it a cluster or credentials other"
                    " than kafka.edge's"
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
        yield from self._unfit()

    def _unfit(self) -> Iterator[tuple[str, str]]:
        for i, name in enumerate(self.output.statistics):
            wrong = (
                STATISTICS[name].unfit(self.method)
                if name in STATISTICS
                else f"must be one of {', '.join(STATISTICS)}; got {name!r}"
            )
            if wrong is not None:
                yield f"output.statistics[{i}]", wrong

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is allowed and should not be, in words."""
        if self.edge_kafka is not self.collector_kafka:
            return ()
        if self.devices:
            return (
                (
                    "one kafka block serves devices and collector: give kafka.edge, which devices"
                    f" have, credentials that can only write {self.device_reports_topic}"
                ),
            )
        return (
            (
                "one kafka block serves both sides: the collector can read the raw topic; give"
                " kafka.edge and kafka.collector their own credentials outside a laptop"
            ),
        )

    @property
    def devices(self) -> bool:
        """Whether devices report by themselves (`ldp_kafka.Client`): there is neither a raw topic
        nor a perturb role.
        """
        return self.input.source == "devices"

    @property
    def method(self) -> Method:
        """The streaming method, made once."""
        return self.privacy.build

    @property
    def guarantee(self) -> Guarantee:
        """What truly holds for every user."""
        return self.method.guarantee

    @property
    def per_user(self) -> bool:
        """Whether reports carry a pseudonym that links those of a user."""
        return any(STATISTICS[name].linkable for name in self.output.statistics)

    @cached_property
    def statistics(self) -> Selection:
        """What is released of the method's reports, made once."""
        shrinkage = self.output.shrinkage
        return Selection(
            tuple(
                STATISTICS[name](self.method, shrinkage=shrinkage)
                for name in self.output.statistics
            )
        )

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
        )

    @cached_property
    def layout(self) -> str:
        """32 hexadecimal digits over where the state lies and which records made it: guards the
        state only.
        """
        source = self.input
        return _digest(
            version=_VERSION,
            topic=source.topic,
            fields=[
                list(source.user),
                list(source.value),
                list(source.time),
            ],  # another user field would be another ledger for the same person
            partitions=source.partitions,
            partitioning=source.partitioning,
            lateness=source.lateness,
            max_ahead_ms=source.max_ahead_ms,
            shards=self.runtime.shards,
            # else a replay would add pseudonyms to reports that went out without
            per_user=self.per_user,
            **({"source": source.source} if self.devices else {}),
        )

    @property
    def raw_topic(self) -> str:
        """Values; edge only."""
        return self.input.topic

    @property
    def reports_topic(self) -> str:
        """Perturbed values; partition i answers raw partition i."""
        return f"{self.name}.reports"

    @property
    def device_reports_topic(self) -> str:
        """Perturbed values of devices that have no raw topic; a report's id says in which of its
        ``input.partitions`` partitions it is.
        """
        return f"{self.name}.device-reports"

    @property
    def partials_topic(self) -> str:
        """What each source has to say of a slot; one partition, so that slots are released in
        order.
        """
        return f"{self.name}.partials"

    @property
    def releases_topic(self) -> str:
        """Published statistics."""
        return f"{self.name}.releases"

    @property
    def dead_letters_topic(self) -> str:
        """Where the edge's bad records are; edge only, since it depends on values."""
        return f"{self.name}.dead-letters"

    @property
    def collector_dead_letters_topic(self) -> str:
        """Where reports are that could not be counted."""
        return f"{self.name}.collector.dead-letters"

    def group(self, role: str) -> str:
        """The consumer group of a role: ``perturb`` or ``collect`` (merging is part of it)."""
        if role not in {kept for kept, _ in TABLES}:
            raise ValueError("a role is perturb or collect")
        return f"{self.name}-{role}"

    def changelog(self, role: str, table: str) -> str:
        """The topic in which Faust keeps a table of a role."""
        if (role, table) not in TABLES:
            raise ValueError(
                "a table of a role is one of"
                f" {', '.join(f'{kept}/{name}' for kept, name in TABLES)}"
            )
        return f"{self.group(role)}-{table}-changelog"

    def topics(self) -> list[Topic]:
        """All topics that are ours to create, someone else's raw topic not among them."""
        return topics(self)

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
