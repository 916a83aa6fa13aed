"""Beginning an epoch: the decision, and the state that it names; and whether it is the worker's
table that is at fault where none may begin.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ldp_kafka.errors import BrokerError, StateError
from ldp_kafka.runtime.log import Stage
from ldp_kafka.runtime.recovery.checkpoints import checkpoints
from ldp_kafka.runtime.recovery.epoch import Epoch
from ldp_kafka.runtime.recovery.rules import Facts
from ldp_kafka.runtime.recovery.start import Refusal, decide, refusals

__all__ = ["begin", "behind"]

OF_THE_LOG = ("partitions", "unread")  # rules that no other table would mend


def begin(
    stage: Stage[Any],
    facts: Facts,
    held: Mapping[str, bytes],
    kind: type[Epoch[Any]] = Epoch,
    **injected: Any,
) -> Epoch[Any]:
    """An epoch over a worker's table.

    Parameters
    ----------
    held : what the worker's table has of the changelog
    kind, injected : of the epoch, see `Epoch`

    Raises
    ------
    StateError : a rule is broken, or a shard is not what the stage writes: see `behind`
    """
    for refusal in refusals(facts, [], OF_THE_LOG):
        raise refusal.exception()
    found = decide(facts, checkpoints(held, facts.partition, facts.seal))
    if isinstance(found, Refusal):
        raise found.exception()
    return kind(stage, found, where=facts.topic, **injected)


def behind(stage: Stage[Any], facts: Facts, changelog: Mapping[str, bytes]) -> BrokerError | None:
    """Why an epoch that may not begin over a worker's table could over all that the changelog holds
    at the broker: the table alone is behind it, and a new worker reads all of it. A worker that
    slept may wake into an assignment before its table has caught up. None where it could not.
    """
    try:
        found = begin(
            stage,
            facts,
            changelog,
            table=None,
            output=None,
            acknowledge=lambda _: None,
            clock=lambda: 0.0,
        )
    except StateError:
        return None
    found.end()
    return BrokerError(
        f"{facts.where}: this worker's table is behind its changelog, as after a long pause: a new"
        " worker reads all of it"
    )
