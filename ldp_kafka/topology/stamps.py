"""How far a broker lets the timestamps of a raw topic's records be ahead of its own clock."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ldp_kafka.accounting.words import span

__all__ = ["APPENDED", "BY_THE_BROKER", "UNBOUNDED", "Stamps", "assumed", "stamps"]

_TYPE, _AFTER = "message.timestamp.type", "message.timestamp.after.max.ms"
_BEFORE_3_6 = "message.timestamp.difference.max.ms"
"""Kafka's before 3.6, gone in 4.0; between them it holds where the other is not set (KIP-937)."""
_NO_BOUND = 2**63 - 1
_APPENDED = "LogAppendTime"


class Stamps(NamedTuple):
    """What a raw topic's broker says of its records' timestamps."""

    type: str
    """``LogAppendTime``: its own clock; ``CreateTime``: the producer's. Empty: it does not say."""
    ahead_ms: int | None = None
    """How far one of a producer may be ahead of its clock; None: however far."""

    def bounded(self, max_ahead_ms: int) -> bool:
        """Whether no record's timestamp is ahead of the broker's clock by more than so much."""
        return self.type == _APPENDED or (
            self.ahead_ms is not None and self.ahead_ms <= max_ahead_ms
        )

    def unbounded(self, topic: str, max_ahead_ms: int) -> str:
        """Why a topology of this ``input.max_ahead`` that is retired counts for ever, and what to
        set; empty where the timestamps are bounded.
        """
        if self.bounded(max_ahead_ms):
            return ""
        if not self.type:
            return (
                f"the broker of {topic} says nothing of its timestamps, so a topology that is"
                " retired counts for ever"
            )
        found = "not set" if self.ahead_ms is None else f"{self.ahead_ms}"
        return (
            f"topic {topic} has {_TYPE}={self.type} and {_AFTER} {found}: a producer's clock says"
            " how late a value may be, so a topology that is retired counts for ever; set"
            f" {_needed(max_ahead_ms)} before a topology that is to be retired begins:"
            f" kafka-configs.sh --alter --entity-type topics --entity-name {topic} --add-config"
            f" {_TYPE}={_APPENDED}"
        )


UNBOUNDED = Stamps("")
"""Of a broker that was not asked, or does not say."""
APPENDED = Stamps(_APPENDED)
BY_THE_BROKER = {_TYPE: _APPENDED}
"""Of a topic that is made for it."""


def stamps(settings: Mapping[str, str]) -> Stamps:
    """Read a topic's settings, as its broker gives them, with its defaults.

    Examples
    --------
    >>> stamps({"message.timestamp.type": "LogAppendTime"}).bounded(1)
    True
    >>> own = {"message.timestamp.type": "CreateTime"}
    >>> stamps({**own, "message.timestamp.after.max.ms": "3600000"}).ahead_ms
    3600000
    >>> newer = {**own, "message.timestamp.after.max.ms": "9223372036854775807"}
    >>> stamps({**newer, "message.timestamp.difference.max.ms": "60000"}).ahead_ms
    60000
    >>> stamps(newer).ahead_ms
    """
    bounds = (int(settings.get(name, _NO_BOUND)) for name in (_AFTER, _BEFORE_3_6))
    return Stamps(
        settings.get(_TYPE, ""), next((bound for bound in bounds if bound != _NO_BOUND), None)
    )


def assumed(topic: str, longest_ms: int) -> str:
    """What a plan, which asks no broker, takes for granted of one that frees something."""
    return (
        f"a topology that is retired counts for ever unless topic {topic} has"
        f" {_needed(longest_ms)}: run asks its broker, a plan does not"
    )


def _needed(max_ahead_ms: int) -> str:
    return f"{_TYPE}={_APPENDED}, or {_AFTER} of at most {max_ahead_ms} ({span(max_ahead_ms)})"
