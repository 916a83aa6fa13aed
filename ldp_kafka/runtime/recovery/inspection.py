"""What one partition of a changelog holds, in sums: never a user's value, a digest or an id. And
which rules it breaks.

A state is inspected as it lies in the changelog, without folding anything; `RULES` are what
`fold.Partition` and the agent rely on when they load it, and what they cannot afford to look at
each time: that every user lies in its own shard, once, and that every ledger adds up and is within
the budget.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from ldp_kafka.runtime import roles
from ldp_kafka.runtime.kafka.group_offsets import Position
from ldp_kafka.runtime.log import Stage
from ldp_kafka.runtime.recovery.partition import META, choose, tenures
from ldp_kafka.runtime.roles import AgentSpec
from ldp_kafka.runtime.stages.users import UNREADABLE
from ldp_kafka.topology import Topology

__all__ = ["RULES", "Held", "Tenure", "Violation", "acknowledged", "inspect"]

RULES = {
    "complete": (
        "offsets that were acknowledged have a complete state, and no state lacks a shard that it"
        " lists"
    ),
    "covered": "the state covers what was acknowledged",
    "fingerprint": "the state was written under this topology's privacy parameters",
    "layout": (
        "the state was written under this topology's raw topic, fields, partitions and shards"
    ),
    "key": "the state was written under this edge's key",
    "readable": "every record of the state can be read",
    "shards": "the shards are those of the topology, and every user lies in its own, once",
    "ledger": "what each user's ledger says was spent is what its entries add up to",
    "budget": "no user has spent more than the budget",
    "log": "the log still holds what comes after the state, and has not been made anew",
}
"""What `inspect` looks at, by name."""

_NO_KEY = bytes(32)


class Violation(NamedTuple):
    """One rule that does not hold."""

    rule: str
    text: str


@dataclass(frozen=True)
class Tenure:
    """One ownership of the partition, as far as its records are still there."""

    name: str
    """The first digits of its random token."""
    cover: int | None
    """Last offset that is in the state; None where the ``meta`` is not there."""
    shards: int
    lost: int
    """Shards that its ``meta`` lists and that are not there, or older than it says."""
    bytes: int
    complete: bool
    chosen: bool


@dataclass
class Held:
    """What a changelog holds of one partition of a log, and where the log's group stands."""

    table: str
    topic: str
    """The log that is folded."""
    partition: int
    position: Position
    tenures: list[Tenure] = field(default_factory=list)
    cover: int = -1
    watermark: int | None = None
    """Greatest event time, milliseconds; perturb only."""
    closed: int | None = None
    """Last closed slot; of the merger the last one released."""
    users: int | None = None
    """Perturb only."""
    slots: int | None = None
    """Slots that are held; collect and merge only."""
    shards: int = 0
    bytes: int = 0
    spent: int | None = None
    """The most micro-epsilon that any user has spent in its run; perturb only."""
    budget: int | None = None
    violations: list[Violation] = field(default_factory=list)

    @property
    def chosen(self) -> Tenure | None:
        """The tenure that a worker would load."""
        return next((each for each in self.tenures if each.chosen), None)

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


def acknowledged(spec: AgentSpec, position: Position) -> int | None:
    """The last offset that the group has acknowledged, None if none: where it was only put by
    `setup.prepare` it has acknowledged nothing. As `agent.Agent.load` sees it.
    """
    committed = position.committed
    passed = committed is not None and not position.begun and committed > (1 if spec.header else 0)
    return committed - 1 if committed is not None and passed else None


def inspect(
    topology: Topology,
    spec: AgentSpec,
    number: int,
    records: Mapping[str, bytes],
    position: Position,
    *,
    key: str | None = None,
    answered: bool = False,
) -> Held:
    """Look at one partition of a table.

    Parameters
    ----------
    spec : whose table it is
    records : what the changelog holds, compacted: the last value of each key, of all partitions or
        of this one
    position : where the group and the log stand
    key : what tells the edge's key from another (`Keyed.check`); None: it is not compared
    answered : whether the partition has been folded before, as far as one can tell without state
    """
    made = Held(spec.name, spec.topic, number, position)
    try:
        found = tenures(records, number)
        best = choose(found)
        made.tenures = [
            _tenure(name, shards, chosen=name == best) for name, shards in found.items()
        ]
    except UNREADABLE:
        _complain(made, "readable", ["there is a record that is not ours"])
        return made
    made.tenures.sort(
        key=lambda each: (each.chosen, each.cover is not None and each.cover), reverse=True
    )
    _complain(
        made,
        "complete",
        [
            f"tenure {each.name} lacks {each.lost} of the shards that it lists"
            for each in made.tenures
            if each.lost
        ],
    )
    done = acknowledged(spec, position)
    if best is None:
        if done is not None:
            _complain(
                made,
                "complete",
                [f"offset {done} was acknowledged, but there is no complete state"],
            )
    else:
        _look(made, topology, found[best], key)
        if done is not None and made.cover < done:
            _complain(
                made,
                "covered",
                [f"the state covers offset {made.cover}, but {done} was acknowledged"],
            )
    _log(made, answered=answered)
    return made


def _tenure(name: str, shards: Mapping[str, tuple[int, bytes]], *, chosen: bool) -> Tenure:
    held = {shard: cover for shard, (cover, _) in shards.items() if shard != META}
    size = sum(len(payload) for _, payload in shards.values())
    if META not in shards:
        return Tenure(name[:8], None, len(held), 0, size, complete=False, chosen=chosen)
    cover, payload = shards[META]
    manifest = json.loads(payload)["manifest"]
    lost = sum(shard not in held or held[shard] < at for shard, at in manifest.items())
    return Tenure(name[:8], cover, len(manifest), lost, size, complete=not lost, chosen=chosen)


def _look(
    made: Held, topology: Topology, tenure: Mapping[str, tuple[int, bytes]], key: str | None
) -> None:
    """Into the tenure that a worker would load."""
    made.cover, payload = tenure[META]
    meta = json.loads(payload)
    shards = {name: held for name, (_, held) in tenure.items() if name in meta["manifest"]}
    made.shards, made.bytes = len(shards), len(payload) + sum(map(len, shards.values()))
    expected = {
        "fingerprint": topology.fingerprint,
        "layout": topology.layout,
        "key": key if made.table == "perturb" else "",
    }
    for rule, wanted in expected.items():
        if wanted is not None and meta.get(rule) != wanted:
            _complain(made, rule, [f"the state was written under another {rule}"])
    if any(broken.rule in ("fingerprint", "layout") for broken in made.violations):
        return  # its fields are another method's
    try:
        found = _stage(topology, made).look(meta["state"], shards)
    except UNREADABLE as error:
        _complain(
            made, "readable", [f"the state's own record cannot be read ({type(error).__name__})"]
        )
        return
    made.watermark, made.closed, made.users = found.watermark, found.closed, found.users
    made.slots, made.spent, made.budget = found.slots, found.spent, found.budget
    made.violations += [Violation(*problem) for problem in found.problems]


def _stage(topology: Topology, made: Held) -> Stage[Any]:
    """Whose state it is. It folds nothing here: what it looks at depends on no key."""
    if made.table == "perturb":
        return roles.edge(topology, roles.edge_randomness(topology, _NO_KEY), made.partition)
    if made.table == "collect":
        return roles.collect(topology, made.partition)
    return roles.merge(topology)


def _log(made: Held, *, answered: bool) -> None:
    """Whether the log goes on where the state ends; the rules of `agent.Agent.load`."""
    committed, start, end, begun = made.position
    if made.cover >= end:
        _complain(
            made,
            "log",
            [
                (
                    f"the state covers offset {made.cover}, but the log ends before {end}: it was made"
                    " anew"
                )
            ],
        )
    elif committed is not None and committed > end:
        _complain(
            made,
            "log",
            [
                (
                    f"offset {committed - 1} was acknowledged, but the log ends before {end}: it was"
                    " made anew"
                )
            ],
        )
    elif start > made.cover + 1 and (made.cover >= 0 or (committed != start and answered)):
        _complain(
            made,
            "log",
            [
                (
                    f"the log begins at offset {start}, but the state needs what comes after"
                    f" {made.cover}"
                )
            ],
        )
    elif committed is not None and start > committed and not begun:
        _complain(
            made, "log", [f"the log begins at offset {start}, after the acknowledged {committed}"]
        )


def _complain(made: Held, rule: str, texts: list[str]) -> None:
    made.violations += [Violation(rule, text) for text in texts]
