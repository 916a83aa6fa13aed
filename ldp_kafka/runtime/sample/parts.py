"""Messages that are judged, and where each of them lies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.runtime.log import Message
from ldp_kafka.topology import Topology

__all__ = ["Part", "require_raw"]


@dataclass(frozen=True, repr=False)
class Part:
    """Messages that come one after the other: those of a file, or of one partition.

    Parameters
    ----------
    messages : in their order, their offsets rising
    place : of the message at an offset, in words, such as ``line 17``
    partition : None: not known, as in a file
    table : whether a table was written as these messages: how it spells times is not theirs
    left_out : rows of a table that lack a user, a value or a time, and are no messages
    wrong : why a worker could not fold the partition, whatever its messages are
    """

    messages: Sequence[Message]
    place: Callable[[int], str]
    partition: int | None = None
    table: bool = False
    left_out: int = 0
    wrong: str | None = None


def require_raw(topology: Topology) -> None:
    """ConfigurationError where a topology has no raw topic, whose messages could be tried."""
    if topology.flow.raw is None:
        raise ConfigurationError(
            f"{topology.name} has no raw topic, whose messages could be tried: its devices report"
            " by themselves (ldp_kafka.Client)"
        )
