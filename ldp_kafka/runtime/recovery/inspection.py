"""What one partition of a changelog holds, in sums: never a user's value, a digest or an id. And
which rules it breaks.

A state is inspected as it lies in the changelog, without folding anything. `RULES` are those of a
start (`rules.RULES`), and what a start cannot afford to look at each time: that every user lies in
its own shard, once, and that every ledger adds up and is within the budget.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from ldp_kafka.randomness import KEY_BYTES
from ldp_kafka.runtime import roles
from ldp_kafka.runtime.keys import edge_randomness
from ldp_kafka.runtime.log import Stage
from ldp_kafka.runtime.recovery import rules
from ldp_kafka.runtime.recovery.checkpoints import Checkpoint, checkpoints, latest
from ldp_kafka.runtime.recovery.keys import Key
from ldp_kafka.runtime.recovery.rules import Facts, PartitionOffsets
from ldp_kafka.runtime.recovery.start import refusals, skips
from ldp_kafka.runtime.stages.users import UNREADABLE
from ldp_kafka.topology import Topology
from ldp_kafka.topology.roles import Agent

__all__ = ["DAMAGE", "OF_A_KEY", "RULES", "EpochRecords", "Held", "Violation", "inspect"]

RULES = {
    **{name: rule.holds for name, rule in rules.RULES.items()},
    "shards": "the shards are those of the topology, and every user lies in its own, once",
    "ledger": "what each user's ledger says was spent is what its entries add up to",
    "budget": "no user has spent more than the budget",
}
"""What `inspect` looks at, by name."""

DAMAGE = {
    "readable",
    "sealed",
    "shards",
    "ledger",
    "budget",
}  # rules: where one is broken, a state is wrong
# rules: where one is broken, nothing is looked at further: fields are another's, or cannot be read
FOREIGN = {"version", "fingerprint", "layout", "sealed"}
OF_A_KEY = {"key", "sealed"}  # rules that are looked at only where the edge's key is at hand


class Violation(NamedTuple):
    """One rule that does not hold."""

    rule: str
    text: str


@dataclass(frozen=True)
class EpochRecords:
    """What is there of one epoch."""

    name: str
    """The first digits of its random token."""
    offset: int | None
    """The last offset that its state has folded; None where the ``meta`` is not there."""
    shards: int
    lost: int
    """Shards that its ``meta`` lists and that are not there, or older than it says."""
    bytes: int
    complete: bool
    chosen: bool
    """Whether it is the one that a worker would load."""


@dataclass
class Held:
    """What a changelog holds of one partition of a log, and where the log's group stands."""

    table: str
    topic: str
    """The log that is folded."""
    partition: int
    position: PartitionOffsets
    epochs: list[EpochRecords] = field(default_factory=list)
    offset: int = -1
    """The last offset that the chosen state has folded."""
    watermark: int | None = None
    """Greatest event time, milliseconds; perturb and curate only."""
    closed: int | None = None
    """Last closed slot; of the merger the last one released."""
    users: int | None = None
    """Or streams; perturb and curate only. This and what follows from users is None where the state
    is still sealed.
    """
    slots: int | None = None
    """Slots that are held; collect, merge and curate only."""
    shards: int = 0
    bytes: int = 0
    spent: int | None = None
    """The most micro-epsilon that any user has spent in its run; perturb only."""
    budget: int | None = None
    skipped: list[list[int]] | None = None
    """The first and the last offset of each gap that was left out, see ``ldp-kafka state skip``;
    None where none was.
    """
    violations: list[Violation] = field(default_factory=list)

    @property
    def chosen(self) -> EpochRecords | None:
        """The epoch whose state a worker would load."""
        return next((each for each in self.epochs if each.chosen), None)

    def as_json(self) -> dict[str, Any]:
        """The same for machines."""
        stands = {
            "committed": self.position.committed,
            "log_start": self.position.start,
            "log_end": self.position.end,
        }
        found = {
            **asdict(self),
            "position": stands,
            "violations": [each._asdict() for each in self.violations],
        }
        return {name: value for name, value in found.items() if value is not None}


def inspect(topology: Topology, spec: Agent, records: Mapping[Key, bytes], facts: Facts) -> Held:
    """Look at one partition of a table.

    Parameters
    ----------
    spec : whose table it is
    records : what the changelog holds, compacted: the last value of each key, of all partitions or
        of this one
    facts : of the partition; a binding that is not in them is not compared
    """
    made = Held(spec.name, spec.topic, facts.partition, facts.position)
    found = checkpoints(records, facts.partition, facts.seal)
    chosen = latest(found)
    for each in sorted(found, key=lambda each: (each is chosen, each.offset), reverse=True):
        made.epochs.append(_records(each, chosen=each is chosen))
        if each.lost:
            _complain(made, "complete", [f"epoch {each.epoch[:8]} lacks {each.lost} of its shards"])
    made.violations += [Violation(refusal.rule, refusal.text) for refusal in refusals(facts, found)]
    made.skipped = skips(facts, chosen) or None
    if chosen is not None:
        # What a stage looks at depends on no key and no deployment
        no_key = edge_randomness(topology, bytes(KEY_BYTES), "")
        _look(made, roles.make(topology, spec, facts.partition, no_key), chosen)
    return made


def _records(checkpoint: Checkpoint, *, chosen: bool) -> EpochRecords:
    meta = bool(checkpoint.meta)
    held = checkpoint.listed if meta else checkpoint.shards
    size = sum(len(payload) for _, payload in checkpoint.shards.values())
    return EpochRecords(
        checkpoint.epoch[:8],
        checkpoint.offset if meta else None,
        len(held),
        checkpoint.lost,
        size + checkpoint.meta_bytes,
        checkpoint.complete,
        chosen,
    )


def _look(made: Held, stage: Stage[Any], chosen: Checkpoint) -> None:
    """Into the state that a worker would load."""
    made.offset = chosen.offset
    shards = {name: payload for name, (_, payload) in chosen.state.items()}
    made.shards, made.bytes = len(shards), chosen.meta_bytes + sum(map(len, shards.values()))
    if chosen.sealed or any(broken.rule in FOREIGN for broken in made.violations):
        return
    try:
        found = stage.look(chosen.meta["state"], shards)
    except UNREADABLE as error:
        _complain(
            made, "readable", [f"the state's own record cannot be read ({type(error).__name__})"]
        )
        return
    made.watermark, made.closed, made.users = found.watermark, found.closed, found.users
    made.slots, made.spent, made.budget = found.slots, found.spent, found.budget
    made.violations += [Violation(*problem) for problem in found.problems]


def _complain(made: Held, rule: str, texts: list[str]) -> None:
    made.violations += [Violation(rule, text) for text in texts]
