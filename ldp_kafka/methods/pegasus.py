"""PeGaSus on one user's stream: perturb each value, and release the mean of a group of slots over
which little changes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import MICRO, Field, Guarantee, State
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms.base import check_epsilon, check_number
from ldp_kafka.methods.base import FIXED, part_of
from ldp_kafka.methods.batch import Batch
from ldp_kafka.methods.contract import check_slots
from ldp_kafka.methods.feedback import default_block
from ldp_kafka.methods.perslot import PerSlot
from ldp_kafka.methods.timed import GRID, on_grid
from ldp_kafka.methods.unstated import MIXED_SLOTS

__all__ = ["PegasusLocal"]

_PART = 5  # one part in five of a slot's budget goes to the groups, as PeGaSus is usually run
_OPEN, _CLOSED = 1, 0


class PegasusLocal(PerSlot):
    """Perturb each value, and publish the mean of the perturbed values of its group: the slots up
    to this one over which the stream, as far as a noisy test can tell, did not move.

    Parameters
    ----------
    epsilon, window, domain, calibration, mechanism : see `SlotMethod`
    block : slots after which a group has to end, at absolute multiples of ``block``, 1..256;
        default: `default_block`
    theta : deviation sum |x - mean| at which a group ends, in lengths of the domain, above 0;
        default: 5 / epsilon of one perturbed value, at most block / 4

    Notes
    -----
    PeGaSus (Chen et al., CCS 2017) with the averaging smoother; run by each user on its own stream
    as in SPPA, section 5.1.2, which does not say how. A group whose test fails is closed, and the
    slot that failed it is a closed group of its own. Releases are kept within the domain.

    Guarantee (``sound``). Two mechanisms see values: the perturber its own slot's, the test those
    of its open group, which lies in one block. A change in one run of w slots reaches the perturber
    in those w, and the test in them and in what is left of the last block, but in the first slot of
    no block (nothing is open there): w perturbed values and, at the worst place of the window among
    the blocks, m tests. All that is published follows from these draws. Four fifths of epsilon go
    to the values, epsilon' = 4 epsilon / (5 w) each, one to the tests, epsilon / (5 m) each: w 4
    epsilon / (5 w) + m epsilon / (5 m) = epsilon (without tests, at a block of one slot, the values
    get it all). A test sees min(deviation, 2 theta) / (2 theta) in [0, 1], so that whatever the
    change does to the deviation it loses its epsilon and no more. Sharing one noisy threshold in a
    group (the sparse vector technique) buys nothing here, since a window reaches up to w groups:
    the threshold is free of noise. The ledger bills a slot epsilon / w, which covers what its value
    costs later too, and so runs over ``window`` slots.

    ``published`` has the constants of PeGaSus: of epsilon / window a slot a fifth, g, goes to the
    groups; their deviation has sensitivity 2 (a value moved by a domain's length), the threshold
    gets Lap(4 / g), once a group, and each comparison Lap(8 / g). Only ``block`` is ours, since a
    group's values have to be kept. The sparse vector technique proves epsilon for this with noise
    of unbounded range; what is stated is what follows for the finite mechanism whatever it is: w
    perturbed values and m comparisons at the epsilon that they are drawn with.

    Examples
    --------
    >>> import ldp_kafka as lk
    >>> m = lk.method("pegasus_local", epsilon=100.0, window=2, block=4, domain=(0.0, 10.0))
    >>> stream = np.array([1.0, 1.0, 1.0, 9.0, 9.0, 9.0])
    >>> m.release(stream, lk.randomness.seeded(7)).round(1).tolist()
    [0.9, 1.2, 1.1, 8.9, 9.0, 8.8]
    >>> m.guarantee.epsilon, m.guarantee.influence
    (100.0, 6)
    """

    name = "pegasus_local"
    default_mechanism = "laplace"
    statistics = ("per_user",)
    parameters: ClassVar[dict[str, str]] = {
        "block": "slots after which a group has to end; default: a closed-form choice",
        "theta": (
            "deviation at which a group ends, in lengths of the domain; default: 5 / epsilon of one"
            " perturbed value, at most block / 4"
        ),
    }

    def __init__(
        self, *, block: int | None = None, theta: float | None = None, **parameters: Any
    ) -> None:
        if block is None:
            block = min(
                default_block(
                    check_epsilon(parameters.get("epsilon")),
                    check_slots(parameters.get("window"), "window"),
                ),
                256,
            )
        self.block = check_slots(block, "block")
        if not self.block <= 256:
            raise ConfigurationError("block must be at most 256 slots")
        self.theta = None if theta is None else check_number(theta, "theta")
        if self.theta is not None and not 2**-16 <= self.theta <= 256:
            raise ConfigurationError("theta must lie between 2**-16 and 256 lengths of the domain")
        super().__init__(**parameters)

    def _prepare(self, mechanism: Callable[..., Any], budget: int) -> None:
        self.spend = part_of(budget, self._shares())
        tests, sound = self._tests, self.calibration == "sound"
        groups = part_of(self.spend, _PART) if tests or not sound else 0
        perturb = (self.spend - groups) / MICRO
        wanted = min(5 / perturb, self.block / 4) if self.theta is None else float(self.theta)
        self._theta = max(round(wanted * 2**16), 1) << 16  # in units of 2**-32, like values
        self.theta = self._theta / FIXED
        compare, threshold = (groups / MICRO * self.theta / 4, groups / MICRO * self.theta / 2)
        if sound:
            compare, threshold = (
                (part_of(groups * self.window, tests) / MICRO if tests else 0.0),
                0.0,
            )
        self._perturb_epsilon, self._compare_epsilon = perturb, compare
        self.mechanism = mechanism(perturb, (0.0, 1.0))
        self.test = mechanism(compare, (0.0, 1.0)) if compare else None
        self.threshold = mechanism(threshold, (0.0, 1.0)) if threshold else None

    @property
    def single_reason(self) -> str | None:
        return MIXED_SLOTS

    @property
    def lasting(self) -> float:
        return self.block - 1

    @property
    def influence(self) -> float:
        """Draws that one run of ``window`` changed values can reach: of values perturbed, and of
        tests.
        """
        return self.window + self._tests

    @cached_property
    def _tests(self) -> int:
        """Tests that one run of ``window`` changed values can reach: from its first slot to the end
        of its last block, but for the first slots of blocks.
        """
        most = 0
        for first in range(self.block):
            last = (first + self.window - 1) // self.block * self.block + self.block - 1
            most = max(most, last - first + 1 - (last // self.block - (first - 1) // self.block))
        return most

    @property
    def run(self) -> int:
        return self.window

    def _shares(self) -> int:
        return self.window

    @property
    def guarantee(self) -> Guarantee:
        true = self.epsilon
        if self.calibration == "published":
            true = self.window * self._perturb_epsilon + self._tests * self._compare_epsilon
        return Guarantee(
            "w-event", true, 0.0, self.window, self.influence, "values", self.calibration
        )

    @property
    def scale(self) -> float:
        return 1 / GRID

    @property
    def index_range(self) -> tuple[int, int]:
        return 0, GRID

    @property
    def fields(self) -> dict[str, Field]:
        own = {
            "values": Field("i8", self.block),
            "began": Field("i8", initial=-1),
            "count": Field("i8"),
            "open": Field("i8"),
            "total": Field("i8"),
            "level": Field("i8"),
        }
        return {**super().fields, **own}

    def answer(self, state: State, batch: Batch, turn: int, phase: int = 0) -> NDArray[Any]:
        rows, values = batch.rows, batch.values
        answers = self.draw(state, batch, values / FIXED, (values,), phase)
        noisy = np.floor(answers * FIXED).astype(np.int64)
        columns, block = state.columns, turn // self.block
        count = columns["count"][rows] * (columns["began"][rows] == block)
        columns["began"][rows] = block
        asked = np.flatnonzero((count > 0) & (columns["open"][rows] == _OPEN))
        stays = np.zeros(len(rows), bool)
        if len(asked):
            stays[asked] = self._stays(state, batch.part(asked), count[asked])
        alone = np.ones(len(rows), bool)
        alone[asked] = stays[asked]  # a slot that failed its group's test stays alone
        self._begin(state, batch.part(~stays & alone))
        count = np.where(stays, count, 0)
        columns["values"][count, rows] = values
        columns["open"][rows] = np.where(alone, _OPEN, _CLOSED)
        columns["count"][rows] = count = count + 1
        columns["total"][rows] = total = np.where(stays, columns["total"][rows], 0) + noisy
        return on_grid(total // count)

    def _stays(self, state: State, batch: Batch, count: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether a value may join its open group of so many."""
        rows, values = batch.rows, batch.values
        kept = state.columns["values"][:, rows]
        inside = np.arange(self.block)[:, None] < count
        total, size = (kept * inside).sum(0) + values, count + 1
        # times its size: below 2**48
        deviation = (np.abs(kept * size - total) * inside).sum(0) + np.abs(values * size - total)
        share = np.minimum(deviation / (size * (2 * self._theta)), 1.0)
        answers = self.draw(state, batch, share, (deviation, size), 1, mechanism=self.test)
        level = state.columns["level"][rows] / FIXED if self.threshold is not None else 0.5
        return np.asarray(answers < level)

    def _begin(self, state: State, batch: Batch) -> None:
        """A new open group: where its threshold is noisy, draw it."""
        if self.threshold is None:
            return
        count = len(batch.rows)
        middle, nothing = np.full(count, 0.5), np.zeros(count, np.int64)
        level = self.draw(state, batch, middle, (nothing,), 2, mechanism=self.threshold)
        state.columns["level"][batch.rows] = np.floor(level * FIXED).astype(np.int64)

    def tables(self) -> list[int]:
        return [
            *super().tables(),
            self.block,
            self._theta,
            *(
                number
                for part in (self.test, self.threshold)
                if part is not None
                for number in part.tables()
            ),
        ]
