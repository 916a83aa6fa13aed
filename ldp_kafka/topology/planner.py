"""What a topology will do before it runs: its topics, its traffic, its state, what it promises and
how good its releases can be.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import ceil, inf
from time import time
from typing import Any, NamedTuple

import numpy as np

from ldp_kafka.accounting import Guarantee
from ldp_kafka.accounting.words import at_most
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.methods import DelayMethod
from ldp_kafka.methods.delay.choice import DelayChoice, choose_delay
from ldp_kafka.methods.protocols.processing import Processing
from ldp_kafka.methods.unstated import NO_REPORTS
from ldp_kafka.statistics import (
    DRIFT,
    CrowdStatistic,
    EvenPrediction,
    Prediction,
    ProtocolPrediction,
    reporting,
)
from ldp_kafka.topology import asking, cautions
from ldp_kafka.topology.admission import Admission, admission
from ldp_kafka.topology.cautions import size
from ldp_kafka.topology.comparison import Comparison, compare
from ldp_kafka.topology.document import Unset
from ldp_kafka.topology.model import Topology
from ldp_kafka.topology.rights import Access, access, lines
from ldp_kafka.topology.roles import Topic

__all__ = ["Plan", "Traffic", "plan"]

# Bytes on the wire, as estimates; the codec is the authority.
BATCH_BYTES = 850  # schema and metadata of one Arrow stream
SINGLE_BYTES = 200  # names and braces of one JSON report
INDEX_BYTES = 8
SIMULATED = 128  # longest delay at which methods of windows are compared unasked: about a second
RELEASE_BYTES = 600  # of a stream, in JSON
REPORT_BYTES = 16 + 8 + INDEX_BYTES  # id, slot, value
SERIES_BYTES = 16  # the pseudonym beside them, for releases per user
DIGEST_BYTES = 16  # of a user in the state, beside the method's fields
LAST_BYTES = 8  # of its last slot at the snapshot before, which the edge has too
PANE_BYTES = 32  # of a value that waits for its slot to close, with its user's digest; a number
NUMBER_BYTES = 8  # of each one more, where it is a list, or made of two sums

MOST_USERS = 10**10


class Traffic(NamedTuple):
    """What crosses the trust line in one slot."""

    messages: int
    """At most."""
    bytes: int
    """About."""


REQUEST = Traffic(1, asking.REQUEST_BYTES)
"""What the coordinator asks in a slot, whatever it asks for."""


@dataclass(frozen=True)
class Plan:
    """What a topology will do; ``lines`` for people, ``as_json`` for programs."""

    topology: str
    fingerprint: str
    layout: str
    users: int
    guarantee: Guarantee
    linkable: bool
    """Whether the reports of a user carry one pseudonym."""
    linked: str
    """By what whoever reads the reports links those of a user."""
    epsilon_per_report: float
    """Of the first report; others of ``ba_sw``, and of a Gaussian budget, have other prices."""
    topics: tuple[Topic, ...]
    access: tuple[Access, ...]
    """What each role needs of each cluster, and must not read there."""
    batched: Traffic
    """Where a gateway sends one message a partition and slot."""
    single: Traffic
    """Where every event is a message."""
    predictions: tuple[Prediction, ...]
    state_bytes_per_user: int
    warnings: tuple[str, ...]
    edge_budget: Admission | None = None
    """What all topologies on the raw topic lose together, where the topology names a budget
    file.
    """
    devices: bool = False
    """Whether devices report by themselves."""
    comparison: Comparison | None = None
    """Of the protocols, where the topology releases a crowd's statistic that they could."""
    spending: str | None = None
    """What reports cost in words, where they do not all cost alike."""
    rounds: asking.Rounds | None = None
    """Of a slot, where the method is a protocol."""
    requests: tuple[str, ...] = ()
    """What is asked of the edge, in words."""
    postprocess: Processing = field(default_factory=Processing)
    """What is made of a coordinator's publications; ``predictions`` are of releases without it."""
    moving_average: int = 1
    """Over how many releases moving averages are; 1: there are none, as ``predictions`` have it."""
    relay: tuple[str, ...] = ()
    """What is copied out of someone else's topic, in words."""
    delays: DelayChoice | None = None
    """Of methods that release windows: all of them, simulated."""
    cover: tuple[str, ...] = ()
    """What it costs to hide presence, in words; nothing where it shows."""
    segments: str = ""
    """How long those of the method are, in words, and what else could be chosen."""
    curator: str | None = None
    """Who is trusted with values, in words; None where nobody but the edge sees any."""

    @property
    def guarantee_line(self) -> str:
        """The guarantee in words."""
        return self.guarantee.describe(linked=self.linked)

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "topology": self.topology,
            "fingerprint": self.fingerprint,
            "layout": self.layout,
            "users": self.users,
            "guarantee": {
                **self.guarantee.as_json(),
                "linkable": self.linkable,
                "linked": self.linked,
                "line": self.guarantee_line,
            },
            "epsilon_per_report": self.epsilon_per_report,
            "topics": [topic.as_json() for topic in self.topics],
            "access": [each.as_json() for each in self.access],
            "per_slot": {
                "batched": self.batched._asdict(),
                "single": self.single._asdict(),
                **({"requests": REQUEST._asdict()} if self.requests else {}),
            },
            "rounds": None if self.rounds is None else self.rounds._asdict(),
            "predictions": [prediction.as_json() for prediction in self.predictions],
            "postprocess": {**self.postprocess.on, **self._averaged},
            "comparison": None if self.comparison is None else self.comparison.as_json(),
            "state_bytes_per_user": self.state_bytes_per_user,
            "warnings": list(self.warnings),
            "edge_budget": None if self.edge_budget is None else self.edge_budget.as_json(),
            "delays": None if self.delays is None else self.delays.as_json(),
            "curator": self.curator,
        }

    def _crossing(self) -> str:
        if self.curator is not None:
            return f"{_traffic(self.single)}, one a stream"
        if self.devices:
            return f"{_traffic(self.single)} from devices, one report each"
        if self.single == self.batched:
            return f"{_traffic(self.batched)}, those of a partition and slot together"
        return (
            f"{_traffic(self.batched)} from gateways (one batch a partition),"
            f" {_traffic(self.single)} from single events"
        )

    @property
    def _averaged(self) -> dict[str, int]:
        return {"moving_average": self.moving_average} if self.moving_average > 1 else {}

    def _processed(self) -> list[str]:
        if self._averaged:
            return [
                (
                    f"postprocess  moving average of {self.moving_average} releases, the slot's own"
                    " and those before it: costs no privacy; the errors above are of a slot's own,"
                    " and intervals are no narrower: the truth may have moved in the slot"
                )
            ]
        switches = [
            name if value is True else f"{name} {value}"
            for name, value in self.postprocess.on.items()
        ]
        if not switches:
            return []
        told = f"{Processing.__module__}.{Processing.__name__}"
        return [
            (
                f"postprocess  {', '.join(switches)}: costs no privacy; the errors above are of"
                f" releases without it, {told} tells what it gained where it was measured"
            )
        ]

    def lines(self) -> list[str]:
        """Text, a line at a time."""
        wide = max(len(topic.name) for topic in self.topics)
        unbounded = self.guarantee.influence == inf
        # budgets are whole millionths
        alike = (
            unbounded
            or 0
            <= self.guarantee.epsilon / self.guarantee.influence - self.epsilon_per_report
            <= 1e-6
        )
        state = (
            "in the database of the device"
            if self.devices
            else f"{size(self.state_bytes_per_user * self.users)} in all"
        )
        what, whom = "reports      ", "user"
        if self.curator is not None:
            what, whom = "releases     ", "stream"
        price = self.spending or (
            f"epsilon {at_most(self.epsilon_per_report)} {'a' if alike else 'the first'} report"
        )
        return [
            f"topology     {self.topology}  (fingerprint {self.fingerprint}, layout {self.layout})",
            f"guarantee    {self.guarantee_line}",
            *([] if self.curator is None else [f"trust        {self.curator}"]),
            f"spending     {price}",
            *([f"segments     {self.segments}"] if self.segments else []),
            *([] if self.edge_budget is None else self.edge_budget.lines()),
            "topics",
            *(
                f"  {topic.name:<{wide}}  {topic.partitions:>4} x  {topic.side:<9}  {topic.purpose}"
                for topic in self.topics
            ),
            "access",
            *lines(self.access),
            f"{what}for {self.users:,} {whom}s a slot: {self._crossing()}",
            *self.requests,
            *self.relay,
            *self.cover,
            f"state        {self.state_bytes_per_user} bytes a {whom}, {state}",
            *(
                f"error        {line}"
                for prediction in self.predictions
                for line in (prediction.sentence(), prediction.unstated())
                if line is not None
            ),
            *self._processed(),
            *([] if self.comparison is None else self.comparison.lines()),
            *([] if self.delays is None else self.delays.lines()),
            *(f"warning      {warning}" for warning in self.warnings),
        ]


def plan(
    topology: Topology,
    users: int = 1000,
    now_ms: int | None = None,
    *,
    drift: float | None = None,
) -> Plan:
    """What ``topology`` will do with so many users, and at ``now_ms`` (epoch milliseconds; default:
    now) within the budget of its edge.

    Parameters
    ----------
    drift : how far the crowd's statistic moves in a slot, a standard deviation as a share of the
        domain, or an absolute frequency; default: several. Of windows how far a stream moves;
        default: 0.01

    Raises
    ------
    ConfigurationError : users is no whole number between 1 and 10,000,000,000; drift does not lie
        between 0 and 1; the budget file that it names cannot be read or is wrong

    """
    if isinstance(users, bool) or not isinstance(users, int) or not 1 <= users <= MOST_USERS:
        raise ConfigurationError(f"users must be a whole number between 1 and {MOST_USERS:,}")
    method = topology.method
    comparison, rounds = compare(topology, users, drift), asking.rounds(topology, users)
    predictions = _predictions(topology, users, comparison, rounds)
    batched, single = _crossing(topology, users, rounds)
    state = DIGEST_BYTES + sum(
        np.dtype(field.dtype).itemsize * max(field.length, 1) for field in method.fields.values()
    )
    state += 0 if topology.curated or topology.flow.raw is None else LAST_BYTES
    state += 0 if rounds is None else rounds.held
    numbers = method.dimension or 1
    waits = PANE_BYTES + NUMBER_BYTES * (numbers * (2 if topology.grid is not None else 1) - 1)
    return Plan(
        topology=topology.name,
        fingerprint=topology.fingerprint,
        layout=topology.layout,
        users=users,
        guarantee=topology.guarantee,
        linkable=topology.per_user,
        linked=topology.linked,
        epsilon_per_report=method.price,
        topics=tuple(topology.topics()),
        access=access(topology),
        batched=batched,
        single=single,
        predictions=predictions,
        state_bytes_per_user=state + waits * topology.open_slots,
        warnings=(
            *topology.warnings,
            *cautions.warnings(topology, predictions, users, state),
            *cautions.since_start(topology, int(time() * 1000) if now_ms is None else now_ms),
            *(() if rounds is None else asking.warnings(topology, rounds)),
        ),
        edge_budget=(
            None if isinstance(topology.edge.budget_file, Unset) else admission(topology, now_ms)
        ),
        devices=topology.flow.raw is None,
        comparison=comparison,
        spending=_spending(topology),
        rounds=rounds,
        requests=tuple(asking.lines(topology)),
        postprocess=topology.output.postprocess,
        moving_average=topology.output.moving_average,
        relay=tuple(_relayed(topology)),
        delays=_delays(topology, drift),
        cover=tuple(_covered(topology, users, predictions)),
        segments=topology.method.segmenting,
        curator=_curator(topology),
    )


def _delays(topology: Topology, drift: float | None) -> DelayChoice | None:
    """Which method of windows to take, where there is one; at a long delay only where it is asked
    for, since it takes long.
    """
    made = topology.method
    if not isinstance(made, DelayMethod):
        return None
    if drift is None and made.delay > SIMULATED:
        return None
    return choose_delay(
        epsilon=made.epsilon / made.window,
        delay=made.delay,
        domain=made.domain,
        setting=made.setting,
        contribution=made.contribution,
        drift=DRIFT if drift is None else drift,
    )


def _spending(topology: Topology) -> str | None:
    """What is spent on what, in words, where reports do not all cost alike, or there are none."""
    said = topology.guarantee
    if said.subject == "stream" and said.delta:
        slots = f"all values of any {said.window} consecutive slots"
        return (
            f"epsilon {at_most(said.epsilon)} and delta {at_most(said.delta)} for"
            f" {slots if said.window > 1 else 'the value of each slot'} of a stream"
        )
    if said.subject == "stream":
        return f"epsilon {at_most(topology.method.price)} for the value of each slot of a stream"
    return asking.spending(topology)


def _curator(topology: Topology) -> str | None:
    """Who is trusted with values."""
    if not topology.curated:
        return None
    role, _ = topology.reader(topology.raw_topic)
    return (
        f"the curator ({role.group}) sees the values of all streams, as does whoever"
        f" reads {topology.raw_topic}; from everybody else, if they have no key of its noise, what"
        " is released hides what the guarantee says"
    )


def _relayed(topology: Topology) -> Iterator[str]:
    source = topology.input
    if not source.relay:
        return
    pace = "as it comes"
    if topology.method.phases > 1:
        pace = f"at most {source.ahead} slots past the last one that is decided"
    ticks = "no ticks"
    if source.idle_ms is not None:
        ticks = f"ticks where nothing is left of it for {source.idle_ms / 1000:g} s"
    how = f"each copied into its own of {topology.raw_topic}"
    if source.rekey:
        how = (
            f"each event copied into the one of {source.partitions} of {topology.raw_topic} that"
            " its user has"
        )
    yield (
        f"relay        {source.topic}, {source.given_partitions} partitions, {how}, {pace}; {ticks}"
    )


def _covered(topology: Topology, users: int, predictions: tuple[Prediction, ...]) -> Iterator[str]:
    """Of each statistic what it says of those who have a value, where half of all users do. It says
    a half of it then: twice its error is the error of theirs, where the share is known.
    """
    if not topology.method.cover:
        return
    plain = topology.privacy.made(cover=False)
    for one, found in zip(topology.statistics.statistics, predictions, strict=True):
        without = type(one)(plain).predict(max(1, users // 2))
        yield (
            f"cover        each of {users:,} users reports from its first event on, also in slots"
            " without a value; if half of them have one, and that share is known, of these the"
            f" {one.name}: standard error {2 * found.error:.4g} (without cover {without.error:.4g})"
        )


def row_bytes(topology: Topology) -> int:
    """About what one report takes in a batch."""
    blank = topology.method.blank(1)
    packed = max(0, blank.nbytes - INDEX_BYTES)
    return REPORT_BYTES + packed + SERIES_BYTES * topology.per_user


def _predictions(
    topology: Topology, users: int, comparison: Comparison | None, rounds: asking.Rounds | None
) -> tuple[Prediction, ...]:
    """Of each statistic; of a protocol as the comparison has it, none where that does not tell.
    What is not compared is predicted of a publication, where it is known what that is made of.
    """
    if rounds is None:
        return topology.statistics.predict(users)
    others = [
        one
        for one in topology.statistics.statistics
        if isinstance(one, CrowdStatistic) and not one.of_protocols
    ]
    if others:
        return tuple(
            EvenPrediction(
                one.name, one.error(rounds.first), one.constant, rounds.first, guess=one.guess
            )
            for one in others
            if not rounds.second
        )
    found = [] if comparison is None else [comparison.of(topology.method.name)]
    return tuple(
        ProtocolPrediction(
            one.name,
            max(each.error for _, each in told),
            one.constant if isinstance(one, CrowdStatistic) else None,
            round(users * told[0][1].reports),
            guess=one.guess if isinstance(one, CrowdStatistic) else "",
            moves=tuple((moves, each.error) for moves, each in told),
            publications=told[0][1].publications,
            error_reason=(
                NO_REPORTS if told[0][1].publications < 1 and topology.method.phases == 1 else None
            ),
        )
        for one, told in zip(topology.statistics.statistics, found, strict=False)
        if told
    )


def _crossing(
    topology: Topology, users: int, rounds: asking.Rounds | None
) -> tuple[Traffic, Traffic]:
    sources = topology.input.partitions
    if topology.curated:
        released = Traffic(users, users * RELEASE_BYTES)
        return released, released
    usual = users * topology.method.frequency
    reports = reporting(topology.method, usual) if rounds is None else rounds.first
    if topology.flow.raw is None:  # one report a message, and nothing else
        answers, packed = (0, 0) if rounds is None else (rounds.second, rounds.packed)
        alone = Traffic(
            reports + answers,
            reports * (SINGLE_BYTES + row_bytes(topology))
            + answers * (SINGLE_BYTES + REPORT_BYTES + max(0, packed - INDEX_BYTES)),
        )
        return alone, alone
    rows = reports * row_bytes(topology)
    answers = 0  # a message a partition, which answers the coordinator's request
    if rounds is not None and rounds.second:
        answers = sources
        rows += rounds.second * (REPORT_BYTES + max(0, rounds.packed - INDEX_BYTES))
    if topology.report_rows:  # whatever messages events come in
        together = sources * ceil(users / sources / topology.report_rows) + answers
        made = Traffic(together, together * BATCH_BYTES + rows)
        return made, made
    batched = sources + answers
    # one a report, and an empty one a partition where the slot closes
    single = reports + sources + answers
    return Traffic(batched, batched * BATCH_BYTES + rows), Traffic(
        single, single * BATCH_BYTES + rows
    )


def _traffic(traffic: Traffic) -> str:
    return f"{traffic.messages:,} messages, {size(traffic.bytes)}"
