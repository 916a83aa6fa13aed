"""ETM: values are reported as they are, in slots that are drawn at random."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import MICRO, NEVER, Field, Guarantee, State
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.methods.base import REFUSED, SENT, SILENT, Step, part_of
from ldp_kafka.methods.batch import Batch
from ldp_kafka.methods.contract import check_slots
from ldp_kafka.methods.timed import Timed, on_grid

__all__ = ["Threshold"]


class Threshold(Timed):
    """Release each value as it is, in one of k = delay + 1 slots drawn by randomised response. No
    value is lost, and no slot stays empty.

    Parameters
    ----------
    epsilon, window, domain, calibration, mechanism : see `SlotMethod`; the mechanism perturbs the
        place of a value among k (one for categories: ``grr``)
    delay : slots that a release may come after its own, 1..255 (``published``: from 2); default:
        window - 1, within 2..255
    threshold : empty slots, 2..delay, at which ``published`` fills the present slot first; default:
        k / 2, at least 2

    Notes
    -----
    Threshold Mechanism of Ye et al., INFOCOM 2021 (local differential privacy in the temporal
    setting); ETM in the SPPA paper. Values are reported as they are: only their time is hidden.

    Guarantee (``sound``). Blocks are the slots b k .. b k + k - 1. Each value's place in its block
    is perturbed by the mechanism over the k places; at the block's last slot the values are put in
    the order of their perturbed places, equal places in the order of the values, and published in
    the slots in which the user reported. Neighbours hold the same values in each block, in another
    order that differs in one run of ``window`` slots only. What is published is a function of the
    set of (value, perturbed place); in that set at most ``window`` values have another law, each by
    a factor of at most e^epsilon' whatever the two places, so epsilon' = epsilon / window (two
    values exchanged lose 2 epsilon'). Nothing is promised about moving a value into another block:
    no mechanism that publishes values as they are within a bounded delay can, since no value is
    published before its time.

    ``published`` works on the sliding slots t .. t + k - 1 and spends epsilon / 2 a value: it goes
    to the present slot if that is empty and no more than ``threshold`` of the k are; else to the
    first empty slot, cyclically, from the one that randomised response says. (The paper draws
    evenly among the empty slots and takes the threshold from epsilon; randomised response is its
    Forward mechanism. A slot left empty is one fewer empty ahead, for good: the threshold is what
    stops that.) A slot that nothing was sent to is empty. What goes out at t cannot be a later
    value, so two streams with values exchanged are told apart with certainty whenever the earlier
    is published before the later one comes: there is no guarantee.

    Examples
    --------
    >>> import ldp_kafka as lk
    >>> m = lk.method("etm", epsilon=8.0, window=4, domain=(0.0, 10.0))
    >>> m.release(np.arange(1.0, 9.0), lk.randomness.seeded(7)).round(2).tolist()
    [1.0, 2.0, 3.0, 4.0, 5.0, 7.0, 6.0, 8.0]
    >>> m.guarantee.protects, m.guarantee.epsilon
    ('time', 8.0)
    """

    name = "etm"
    default_mechanism = "grr"
    parameters: ClassVar[dict[str, str]] = {
        "delay": "slots that a release may come after its own; default: window - 1, within 2..255",
        "threshold": (
            "empty slots at which the present one is filled first (published calibration); default:"
            " half of them"
        ),
    }

    def __init__(
        self, *, delay: int | None = None, threshold: int | None = None, **parameters: Any
    ) -> None:
        if delay is None:
            delay = min(max(check_slots(parameters.get("window"), "window") - 1, 2), 255)
        self.delay = check_slots(delay, "delay")
        if not self.delay <= 255:
            raise ConfigurationError("delay must be at most 255 slots")
        self.length = self.delay + 1
        self.threshold = check_slots(
            max(self.length // 2, 2) if threshold is None else threshold, "threshold"
        )
        super().__init__(**parameters)
        if (
            self.calibration == "published" or threshold is not None
        ) and not 2 <= self.threshold <= self.delay:
            raise ConfigurationError(
                "threshold must lie between 2 and the delay, which must be 2 slots at least: with"
                " one empty slot left every value would go there"
            )

    def _prepare(self, mechanism: Callable[..., Any], budget: int) -> None:
        self.spend = part_of(budget, self._shares())
        self.mechanism = mechanism(self.spend / MICRO, self.length)

    def _shares(self) -> int:
        return self.window if self.calibration == "sound" else 2

    @property
    def run(self) -> int:
        """Slots of the ledger; ``published`` keeps no budget over a window."""
        return self.window if self.calibration == "sound" else 1

    @property
    def influence(self) -> float:
        """Places that are drawn of the values of one window; ``published`` draws with an eye to the
        places taken, so that one reaches all later ones.
        """
        return self.window if self.calibration == "sound" else inf

    @property
    def guarantee(self) -> Guarantee:
        promised = super().guarantee
        return promised if self.calibration == "sound" else promised._replace(epsilon=inf)

    @property
    def within(self) -> str:
        """``sound``: in its block; a value in another block is published there, by whatever slot it
        is told apart.
        """
        return (
            f"among the {self.length} slots of its block (slot // {self.length}), not across blocks"
            if self.calibration == "sound"
            else ""
        )

    @property
    def fields(self) -> dict[str, Field]:
        rings = {
            "values": Field("i8", self.length),
            "places": Field("i8", self.length),
            "held": Field("i8", self.length, NEVER),
        }
        return {**super().fields, **rings}

    def report(self, state: State, batch: Batch) -> Step:
        rows, slot = batch.rows, batch.slot
        allowed = self.ledger.charge(state, rows, slot, self.spend)
        if self.calibration == "published":
            return self._slide(state, batch, allowed)
        columns, place = state.columns, slot % self.length
        paid = batch.part(allowed)
        some, places = paid.rows, np.full(len(paid.rows), place)
        columns["places"][place][some] = self.draw(state, paid, places, (places,))
        columns["values"][place][some] = paid.values
        columns["held"][place][some] = slot
        if place == self.length - 1:
            return self._permuted(state, rows, slot - place + np.arange(self.length), allowed)
        return Step(self.blank(len(rows)), np.where(allowed, SILENT, REFUSED).astype(np.uint8))

    def _permuted(
        self,
        state: State,
        rows: NDArray[np.intp],
        block: NDArray[np.int64],
        allowed: NDArray[np.bool_],
    ) -> Step:
        """The block's values in the order of their perturbed places."""
        columns = state.columns
        here = columns["held"][:, rows] == block[:, None]
        places, values = (
            np.where(here, columns["places"][:, rows], self.length),
            columns["values"][:, rows],
        )
        order = np.lexsort((values, places), axis=0)
        slots = np.where(here, block[:, None], NEVER)
        slots = np.take_along_axis(slots, np.argsort(~here, axis=0, kind="stable"), 0)
        answers = on_grid(np.take_along_axis(values, order, 0)) * (slots != NEVER)
        status = np.where(here.any(0), SENT, np.where(allowed, SILENT, REFUSED))
        return Step(answers.T, status.astype(np.uint8), slots.T)

    def _slide(self, state: State, batch: Batch, allowed: NDArray[np.bool_]) -> Step:
        """One value sent ahead, and what had been sent to this slot."""
        columns, (rows, slot, values) = state.columns, batch[:3]
        ahead = slot + np.arange(self.length)
        empty = (columns["held"][:, rows][ahead % self.length] != ahead[:, None]).T
        target = np.zeros(len(rows), np.int64)
        free = np.flatnonzero(allowed & ~(empty[:, 0] & (empty.sum(1) <= self.threshold)))
        nothing = np.zeros(len(free), np.int64)
        drawn = self.draw(state, batch.part(free), nothing, (nothing,))
        turned = (drawn[:, None] + np.arange(self.length)) % self.length
        first = np.argmax(np.take_along_axis(empty[free], turned, 1), axis=1)
        target[free] = turned[np.arange(len(free)), first]
        to = slot + target[allowed]
        columns["values"][to % self.length, rows[allowed]] = values[allowed]
        columns["held"][to % self.length, rows[allowed]] = to
        there = columns["held"][slot % self.length][rows] == slot
        answers = on_grid(columns["values"][slot % self.length][rows]) * there
        return Step(
            answers, np.where(there, SENT, np.where(allowed, SILENT, REFUSED)).astype(np.uint8)
        )

    def tables(self) -> list[int]:
        return [
            *super().tables(),
            self.delay,
            self.threshold if self.calibration == "published" else 0,
        ]
