"""Beginning an epoch: the decision, and the state that it names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ldp_kafka.errors import BrokerError, StateError
from ldp_kafka.runtime.log import Stage
from ldp_kafka.runtime.recovery.checkpoints import checkpoints
from ldp_kafka.runtime.recovery.epoch import Epoch
from ldp_kafka.runtime.recovery.keys import Key
from ldp_kafka.runtime.recovery.rules import Facts
from ldp_kafka.runtime.recovery.start import Refusal, decide, refusals

__all__ = ["begin"]

OF_THE_LOG = ("partitions", "unread")  # rules that no other table would mend


def begin(
    stage: Stage[Any],
    facts: Facts,
    held: Mapping[Key, bytes],
    changelog: Callable[[], Mapping[Key, bytes]],
    kind: type[Epoch[Any]] = Epoch,
    **injected: Any,
) -> Epoch[Any]:
    """An epoch over a worker's table.

    Parameters
    ----------
    held : what the worker's table has of the changelog
    changelog : asks the broker for all that the changelog holds, where the worker's table does not
        do: a worker that slept may wake into an assignment before its table has caught up
    kind, injected : of the epoch, see `Epoch`

    Raises
    ------
    StateError : a rule is broken, or a shard is not what the stage writes
    BrokerError : the worker's table alone is behind: a new worker reads all of it
    """

    def attempt(records: Mapping[Key, bytes]) -> Epoch[Any]:
        found = decide(facts, checkpoints(records, facts.partition, facts.seal))
        if isinstance(found, Refusal):
            raise found.exception()
        return kind(stage, found, where=facts.topic, **injected)

    for refusal in refusals(facts, [], OF_THE_LOG):
        raise refusal.exception()
    try:
        return attempt(held)
    except StateError:
        try:
            attempt(changelog())
        except StateError:
            pass
        else:
            raise BrokerError(
                f"{facts.where}: this worker's table is behind its changelog, as after a long"
                " pause: a new worker reads all of it"
            ) from None
        raise
