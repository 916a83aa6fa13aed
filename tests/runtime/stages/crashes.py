"""A log folded by owners that end, one after the other: what comes out of each message, and what
each of them holds, is what one owner gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from random import Random
from typing import Any

from ldp_kafka.runtime.log import Message, Record, Stage
from ldp_kafka.runtime.wire.reports import read_reports
from tests.fold.epochs import Shelf, folded, opened, saved
from tests.fold.judge import Pure, batch

OWNERS = 12  # of a log, at most
AHEAD = 5  # runs that shards are ahead of ``meta`` at most
WRITTEN = (0.0, 0.5, 0.5, 1.0)  # shares of a snapshot's shards that are written before an end


def of_kind(kind: type[Any], stage: Any) -> Stage[Any]:
    """A stage like this one, of another class, or of a class that stands before its own, or before
    that of one of its parts (``PART``).
    """
    if (part := getattr(kind, "PART", "")) and hasattr(stage, part):
        return replace(stage, **{part: of_kind(kind, getattr(stage, part))})
    if not issubclass(kind, type(stage)):
        kind = type(kind.__name__, (kind, type(stage)), {})
    return kind(**{each.name: getattr(stage, each.name) for each in fields(stage)})


def told(stage: Any, records: Sequence[Record]) -> set[Any]:
    """What records say: of a batch each report and what it closes; of others all of it."""
    found: set[Any] = set()
    for record in records:
        if record.topic != getattr(stage, "reports_topic", None):
            found.add(record)
        elif (made := read_reports(record.value)) is not None:
            found |= {(made.closed, made.settled), *batch(record.value)[1]}
    return found


def names_of(stage: Any, records: Sequence[Record]) -> list[Any]:
    """The ids of reports, and the keys of releases."""
    found: list[Any] = []
    for record in records:
        if record.topic == getattr(stage, "reports_topic", None):
            found += [name for name, _ in batch(record.value)[1]]
        elif record.topic.endswith(".releases"):
            found.append(record.key)
    return found


def over_crashes(
    stage: Stage[Any], runs: Sequence[Sequence[Message]], seed: int, pure: Pure
) -> None:
    """Fold a log, cut into runs, by owners that end after any of them: after a whole snapshot, and
    some shards, all or none of one more, without its ``meta``. What a shard that is ahead has
    reported was sent before it was written, and need not come again; nothing else may differ.

    Raises
    ------
    AssertionError : something is lost, or is not what ``pure`` gives or holds
    """
    random, table, out, start = Random(seed), {}, set(), 0
    given = {at: told(stage, records) for at, records in pure.given.items()}
    ends = random.sample(range(1, len(runs)), min(OWNERS, len(runs) // 2))
    for cut in [*sorted(ends), len(runs)]:
        want = runs[start][0].offset
        epoch = opened(stage, want=want, committed=start > 0, shelf=Shelf(table))
        assert epoch.next_offset == want
        assert pure.holds(stage, epoch.state, epoch.offset, epoch.shard_offsets), "another state"
        mine: set[Any] = set()
        for number, run in enumerate(runs[start : cut + random.randint(0, AHEAD)], start + 1):
            found, at = told(stage, folded(epoch, run)), run[-1].offset
            assert found <= given[at], f"offset {at}: other records after a crash"
            mine |= {(at, each) for each in found}
            if number == cut:
                table, out = saved(epoch), out | mine
        assert pure.holds(stage, epoch.state, epoch.offset, epoch.shard_offsets), "another state"
        shards, share = epoch.snapshot().shards, random.choice(WRITTEN)
        written = {key: shards[key] for key in sorted(shards, key=str) if random.random() < share}
        table |= written  # and then the end: no meta
        out |= mine if written else set()
        start = cut
    assert out == {(at, each) for at, found in given.items() for each in found}, "lost records"


def differs(broken: Stage[Any], *given: Any) -> bool:
    """Whether crashes tell a broken twin from the stage whose fold this is."""
    try:
        over_crashes(broken, *given)
    except (AssertionError, ValueError):
        return True
    return False
