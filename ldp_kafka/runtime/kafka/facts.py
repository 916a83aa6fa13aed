"""The facts of a start, read from the brokers: see `ldp_kafka.runtime.recovery.start`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ldp_kafka.runtime.kafka.group_offsets import GroupOffsets
from ldp_kafka.runtime.log import Stage
from ldp_kafka.runtime.recovery.rules import Facts, bindings_of
from ldp_kafka.topology.roles import Agent

__all__ = ["read_facts"]


def read_facts(
    offsets: GroupOffsets, spec: Agent, partition: int, stage: Stage[Any] | None = None
) -> Facts:
    """Read the `Facts` of one partition of an agent's log from the brokers.

    Parameters
    ----------
    stage : whose bindings a state must have

    Raises
    ------
    BrokerError : a broker did not answer
    """
    position = offsets.position(spec.topic, partition)
    facts = Facts(
        topic=spec.topic,
        partition=partition,
        position=position,
        header=spec.header,
        gaps=spec.gaps,
        # Who has folded what expired is asked only where something did
        folded_before=position.start > 0 and (not spec.raw or offsets.reported(spec, partition)),
        bindings={} if stage is None else bindings_of(stage),
        seal=None if stage is None else stage.seal,
        partitions=spec.partitions,
        partitions_found=offsets.partitions(spec.topic),
    )
    if not spec.gaps:
        return facts
    return replace(facts, first=offsets.first(spec.topic, partition, facts.next_offset))
