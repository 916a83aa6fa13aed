"""What a plan warns of: what is allowed, and what it costs."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, inf

from ldp_kafka.accounting import micro
from ldp_kafka.accounting.admission import contributions
from ldp_kafka.accounting.words import at_most
from ldp_kafka.methods.delay import DelayMethod
from ldp_kafka.statistics import Prediction
from ldp_kafka.topology.formats import INPUT_FORMATS
from ldp_kafka.topology.model import Topology
from ldp_kafka.topology.sections import EMPTY_IS_ZERO, Input

__all__ = ["since_start", "size", "warnings"]

RECORD_BYTES = 256 * 2**10  # a record of the changelog should not be larger
LISTED_BYTES = 28  # of a pane's record in the list of a state's records
LIST_BYTES = 2**19  # a list should not be larger; it is one record, and twice that is no record
AT_ONCE = 1_000_000  # releases of one tick: a worker needs seconds for them, and a gigabyte
EMBEDDED_USERS = 10_000  # about what the embedded broker has room for


def warnings(
    topology: Topology, predictions: tuple[Prediction, ...], users: int, state: int
) -> Iterator[str]:
    """Of a topology with so many users, each with so many bytes of state."""
    yield from _privacy_warnings(topology)
    yield from _input_warnings(topology)
    yield from _use_warnings(topology, predictions, users, state)


def since_start(topology: Topology, now_ms: int) -> Iterator[str]:
    """Of what the first tick releases, at ``now_ms``, epoch milliseconds."""
    source = topology.input
    slots = topology.slot_of(now_ms) - source.before_start - 1 if source.zeros else 0
    if slots * len(source.streams) > AT_ONCE:
        yield (
            f"input.start is {slots:,} slots ago: a first tick releases"
            f" {slots * len(source.streams):,} values at once; give a later start"
        )


def _privacy_warnings(topology: Topology) -> Iterator[str]:
    promised, said = topology.privacy.epsilon, topology.guarantee
    why = "calibration published" if said.calibration == "published" else "refresh"
    if said.epsilon == inf and said.level == "user":
        yield (
            f"{why}: what all reports of a user lose together has no bound that can be proved:"
            " nothing is guaranteed of its stream"
        )
    elif said.epsilon == inf and said.protects == "time":
        yield (
            f"{why}: nothing is guaranteed, not even of the first slots of a stream, since the loss"
            " of one report has no bound"
        )
    elif said.epsilon == inf:
        horizon = micro(promised) // topology.method.cost
        yield (
            f"{why}: epsilon {at_most(promised)} is true of the first {horizon:,} slots of a stream"
            " and of none beyond them; calibration sound holds for ever"
        )
    elif said.epsilon > promised:
        yield (
            f"{why}: what truly holds is epsilon {at_most(said.epsilon)}, not {at_most(promised)}"
        )
    if topology.curated:
        yield (
            "trust curator: nothing is hidden from the curator; where streams are of single users"
            " who trust nobody, trust: edge and a method that perturbs there are for them"
        )
        if topology.windowed.contribution is None:
            yield (
                "contribution is not given: noise hides any change of a slot's whole value, which"
                " for an aggregate of many people is more than one of them can make; give the"
                " most that one can change, and the noise shrinks to that"
            )
        yield from _curator_warnings(topology.input)
        return
    if isinstance(topology.method, DelayMethod):
        yield from _contribution_warnings(topology.method)
    if topology.method.cover:
        yield (
            f"cover: any topology on {topology.raw_topic} without it shows which slots have events;"
            " a user who leaves goes on reporting; the slots that an outage has passed over are"
            " reported one after the other behind it"
        )
    for name in topology.statistics.linkers:
        yield f"{name} makes the reports of a user linkable to each other (under a pseudonym)"
    if topology.flow.raw is None:
        yield (
            "a device's report shows who is connected, and to the second when its value was there;"
            " report at fixed times where that is a secret"
        )
        yield (
            "a device can be linked across slots by its connection, and by the times at which it"
            " reports where they are its own; what is guaranteed holds all the same"
        )
        yield (
            "who reports from two devices has two budgets, which add up; any device can send any"
            " report, as often as its credentials allow"
        )
    elif topology.method.cover:
        yield (
            "a user's reports can be linked by their partition, which stays the same; what is"
            " guaranteed holds all the same"
        )
    elif rows := topology.report_rows:
        yield (
            "a user's reports can be linked by their partition, which stays the same. Reports of a"
            f" slot are sent in groups, all together or some {rows:,} at a time (divided by the"
            " slots that are open): in a partition with more events, who reports in a fixed order"
            " or at fixed times is in the same group each time; what is guaranteed holds all the"
            " same; runtime.report_rows sets how many"
        )
    elif topology.input.batches:
        yield (
            "the reports of one raw message can be linked to each other: they share a batch; what"
            " is guaranteed holds all the same; send all users of a slot in one message where"
            " reports should not be linked"
        )
    else:
        batches = " or ".join(name for name, one in INPUT_FORMATS.items() if one.batches)
        yield (
            "one event a message shows the collector the order in which users report: who reports"
            " in a fixed order or at fixed times can be linked across slots; what is guaranteed"
            " holds all the same; gateways that send all users of a slot in one batch (format"
            f" {batches}) hide the order"
        )


def _contribution_warnings(made: DelayMethod) -> Iterator[str]:
    """Where a stream is one user's, who may change all of a value."""
    steps = contributions(made.domain, made.contribution)
    if made.contribution is not None and steps > 1:
        lo, hi = made.domain
        yield (
            "contribution is less than the domain's length: noise hides a change of a slot's value"
            f" by {made.contribution:g}, and none by as much as {hi - lo:g}, which loses up to"
            f" {steps:,} times as much, epsilon {at_most(steps * made.guarantee.epsilon)};"
            " with trust: edge a value is all of one user's: leave contribution out where that is"
            " to be hidden"
        )


def _curator_warnings(source: Input) -> Iterator[str]:
    """Of what a curator's releases show beside values."""
    if not source.streams:
        yield (
            "input.streams is not given: one event makes a stream of any name, a mistyped one too,"
            " and it is released; list the streams"
        )
    if not source.by_ticks:
        cure = "closing: ticks" if source.create else "a topic of ours, with closing: ticks"
        yield (
            "events close slots: one that is ahead of the others makes theirs late, and changes"
            f" what is released of them; {cure} makes each late by itself alone"
        )
    elif not source.written:
        yield (
            f"closing ticks: nothing is released until the producers of {source.topic} write ticks"
            " into each of its partitions (ldp_kafka.encode of a Tick)"
        )
    if not source.zeros:
        cure = "; per_slot sum or count, with input.streams, hides it: such a slot is 0"
        if source.per_slot in EMPTY_IS_ZERO:
            cure = "; with input.streams and input.start such a slot is 0"
        yield (
            "a slot of a stream without an event is not released, which shows that nobody was there"
            f"{cure}"
        )


def _input_warnings(topology: Topology) -> Iterator[str]:
    source = topology.input
    if topology.flow.raw is None:
        return
    if source.relay:
        yield from _relay_warnings(topology)
    elif not source.create:
        yield (
            f"{source.topic} is someone else's topic: it gets no ticks, so a partition without"
            " events holds every release back; relay: true copies it into one of ours"
        )
    if topology.edge.budget_file is None:
        yield (
            "edge.budget_file is not set: what other topologies on"
            f" {source.topic} spend on the same users comes on top, and nobody adds it up"
        )
    if source.partitioning == "trusted":
        yield (
            "partitioning trusted: whoever writes the raw topic must keep a user in one partition;"
            " a user in two of them spends the budget twice"
        )
    if source.gaps == "allow":
        yield (
            "gaps allow: records that are lost cannot be told from offsets that"
            f" {'compaction and ' if source.relay else ''}transactions leave out"
        )


def _relay_warnings(topology: Topology) -> Iterator[str]:
    source, raw = topology.input, topology.raw_topic
    yield (
        f"{raw} holds all values of {source.topic} a second time, under the timestamps that they"
        " had: give it at least the retention and the max.message.bytes of the other, and let"
        " nobody else read it"
    )
    if source.idle_ms is None:
        yield (
            f"idle off: a partition of {source.topic} without events holds every release back"
            + (", and the relay of all others" if topology.method.phases > 1 else "")
        )


def _use_warnings(
    topology: Topology, predictions: tuple[Prediction, ...], users: int, state: int
) -> Iterator[str]:
    for prediction in predictions:
        if not prediction.useful:
            yield prediction.advice()
    yield from topology.statistics.warnings()
    fullest = ceil(users / topology.input.partitions / topology.runtime.shards) * state
    if fullest > RECORD_BYTES and topology.flow.raw is not None:
        yield (
            f"a shard of the state takes about {size(fullest)}: more than {size(RECORD_BYTES)}"
            " slows recovery down; raise runtime.shards"
        )
    users_of_one = ceil(users / topology.input.partitions)
    panes = topology.open_slots * min(topology.runtime.shards, users_of_one)
    if panes * LISTED_BYTES > LIST_BYTES:
        yield (
            f"the state of a partition has up to {panes:,} records of {topology.open_slots:,} open"
            f" slots, and their list about {size(panes * LISTED_BYTES)}: one of more than 990 kB"
            " cannot be written; lower runtime.shards"
        )
    if (
        topology.edge_kafka.embedded or topology.collector_kafka.embedded
    ) and users > EMBEDDED_USERS:
        yield (
            f"the embedded broker has room for about {EMBEDDED_USERS:,} users; {users:,} need a"
            " real one"
        )


def size(count: int) -> str:
    """So many bytes in words."""
    size = float(count)
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            break
        size /= 1000
    return f"{size:.3g} {unit}"
