"""The edge's fold where a coordinator asks and a slot's values are taken together: they wait twice.

Until their slot is closed values wait in panes, as of any `Settle`. The message that closes it
gives, from the slot's one value a user, the reports of the first phase; and that value then waits
for the slot's request, as of any `Answer`, while ``hold`` slots more are closed. So a request finds
what it would find had each user's one value come with the message that closes its slot.

Where a message closes more than ``hold`` slots, the first of them are settled by it: their reports
of the first phase go out with it, and their values are let go with it.

Each user and slot is drawn for once a phase, whoever folds. A slot is closed by one message, and a
user's slots in their order, so the first phase is what `Responder` proves its bound for. A request
counts only behind that message: of a slot that is closed, and not yet settled. And what a crash
leaves of a snapshot moves neither. A record of users that was written at some offset has taken up
the slots that were closed by there, and answered the requests, so its users are left alone up to
there; a pane of such a slot that is still in the changelog is taken for closed again, with nothing
to report. A record of a pane has all values up to its own offset, and takes those behind it alone,
so that what a slot comes to is the same sum of the same values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ldp_kafka.runtime.keys import EdgeNoise
from ldp_kafka.runtime.stages.answer import Answer, AnswerState
from ldp_kafka.runtime.stages.panes import Panes
from ldp_kafka.runtime.stages.perturb import parameters_of
from ldp_kafka.runtime.stages.settle import Settle, SettleState, make_settle
from ldp_kafka.topology import Topology

__all__ = ["AnswerAtClose", "AnswerAtCloseState", "make_answer_at_close"]


@dataclass(repr=False)
class AnswerAtCloseState(AnswerState, SettleState):
    """What the edge knows of one partition."""


@dataclass(frozen=True, repr=False)
class AnswerAtClose(Settle, Answer):
    """The perturb stage of a topology that takes a slot's values together, and whose coordinator
    asks for a second phase.
    """

    def __repr__(self) -> str:
        return f"AnswerAtClose({self.topic}, {self.method.name})"  # never what its key draws

    @property
    def _places(self) -> int:
        """Of the ring of held values: those of open slots are in panes."""
        return self.hold

    def fresh(self) -> AnswerAtCloseState:
        users, shard_offsets = self._nobody()
        return AnswerAtCloseState(
            users,
            shard_offsets,
            held=Panes(users, self.taking),
            history=self._asked.history(),
        )

    def load(
        self, meta: Mapping[str, Any], shards: Mapping[str, tuple[int, bytes]]
    ) -> AnswerAtCloseState:
        state = super().load(meta, shards)
        assert isinstance(state, AnswerAtCloseState)
        return state


def make_answer_at_close(
    topology: Topology, partition: int, randomness: EdgeNoise | None
) -> AnswerAtClose:
    """The stage of one raw partition whose slots are taken together, and whose log holds requests.

    Raises
    ------
    ConfigurationError : there is no keyed randomness to perturb with
    """
    plain = make_settle(topology, partition, randomness)
    return AnswerAtClose(**parameters_of(plain), hold=topology.input.hold)
