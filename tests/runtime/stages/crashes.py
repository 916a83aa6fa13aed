"""A log folded by owners that end, one after the other: what comes out of each message."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

from ldp_kafka.runtime.log import Message, Record, Stage
from ldp_kafka.runtime.recovery.checkpoints import META
from tests.fold.epochs import Shelf, folded, opened, saved


def of_kind(kind: type[Stage[Any]], stage: Any) -> Stage[Any]:
    """A stage like this one, of another class."""
    return kind(**{each.name: getattr(stage, each.name) for each in fields(stage)})


def over_crashes(
    stage: Stage[Any],
    log: Sequence[Message],
    cuts: Sequence[int],
    ahead: Sequence[int],
    written: Callable[[str], bool] = lambda _: True,
) -> dict[int, list[Record]]:
    """The records of each message, by offset, over owners that end after the given offsets: after a
    whole snapshot at the first, and the parts of one more, without its ``meta``, at ``ahead``;
    those parts that were ``written`` before the end. What a message gives, it must give again.
    """
    table: dict[str, bytes] = {}
    out: dict[int, list[Record]] = {}
    want = 0
    for cut, more in [*zip(cuts, ahead, strict=True), (len(log), 0)]:
        epoch = opened(stage, 1, want=want, committed=want > 0, shelf=Shelf(table))
        for message in log[epoch.next_offset : cut]:
            _same(out, message.offset, folded(epoch, [message]))
        table = saved(epoch)
        want = max(want, cut)
        for message in log[cut : cut + more]:
            _same(out, message.offset, folded(epoch, [message]))
        shards = epoch.snapshot().shards  # and then the end: no meta
        table = table | {key: shards[key] for key in sorted(shards) if written(key)}
        assert any(key.split("/")[1] == META for key in table)
    return out


def _same(out: dict[int, list[Record]], offset: int, records: list[Record]) -> None:
    assert out.setdefault(offset, records) == records, (
        f"message {offset}: other records after a crash"
    )
