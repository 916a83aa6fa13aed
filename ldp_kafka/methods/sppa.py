"""SWP and SPPA: perturb the sampling period of a stream, not its values."""

from __future__ import annotations

from copy import copy
from functools import cached_property
from math import inf
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import NEVER, Field, Guarantee, State
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms.base import check_number, check_whole
from ldp_kafka.methods.base import REFUSED, SENT, SILENT, Step
from ldp_kafka.methods.batch import Batch
from ldp_kafka.methods.contract import Method
from ldp_kafka.methods.kernel import SLOT, WEIGHT, kernel
from ldp_kafka.methods.timed import Timed, on_grid

__all__ = ["SamplingPeriod", "SingleWindow"]

MOST = 1024  # coordinates: a report of all of them must fit into a message
WIDEST = 254  # slots: a segment has two more, and the interpolant's table 2**10 integers for each


class SingleWindow(Timed):
    """Resample each segment of window + 2 slots, by Fourier interpolation, at a perturbed sampling
    period; publish all of it but the two ends.

    Parameters
    ----------
    epsilon, domain, calibration, mechanism : see `SlotMethod`; the mechanism perturbs the period
    window : slots in the privacy window and reports of a segment, 1..254
    tau : length of the range of sampling periods that are not told apart, in slots, [1/1024, 2]; a
        multiple of 1/1024 is taken
    dimension : coordinates of a value, 1..1024, each in the domain; default: values are numbers

    Notes
    -----
    SWP of SPPA (anonymous, WWW 2025), Algorithm 1: f is the trigonometric interpolant of
    d_0..d_{n-1}, n = window + 2, T' = T + Lap(tau / epsilon), and d'_i = f(i T') is published for i
    = 1..n - 2, under the times i T. All coordinates of a vector are resampled at one T'. Here
    segments are n slots, one after the other, so 2 of each n slots are never published. A segment
    that a user did not report all of is not published.

    What is hidden is the sampling period, and nothing else. The values are not: given them T' can
    be read off the reports, and the closer T' comes to T the more the reports are the values. A
    narrower range of T' would be no less private in this sense and publish them outright. Do not
    use it where a value is a secret.

    Guarantee (``sound``). Neighbours have the same values in the same order; the device's true
    periods, secret numbers in [1 - tau/2, 1 + tau/2] slots, differ between them for values inside
    one run of ``window`` slots. (1) A segment's reports, in all coordinates, are a function of its
    values and of T': frequencies are those of one slot, 2 pi k / n, which is public, and T' is kept
    within [0, 2] slots, also public. So by post-processing a segment loses what T' does: at most
    epsilon', the mechanism's exact loss over that range. (2) A run of w slots meets at most
    floor((w + n - 2) / stride) + 1 segments (their first slots are multiples of the stride in w + n
    - 1 consecutive slots): with stride n that is 2, or 1 for w = 1. (3) Draws of other segments do
    not depend on the change. So epsilon' = epsilon / segments. How often T' had to be kept within
    its range is counted in the state, for the edge only.

    ``published`` spends epsilon a segment, divides by the true period, T' / T, as the paper's
    frequencies 2 pi k / (n T) do, does not limit T', and takes the real part of the sum as printed
    (k = 0..n - 1). Its reports then depend on T beyond T', so that they are no post-processing of
    it: the log ratio of the densities of z = T' / T between T and T + tau is |z - 1| epsilon - ln(1
    + tau / T), without bound. Theorem 4 of the paper fails, and there is no guarantee.

    Everything is computed in integers, by a table of the interpolant at 2**-10 slot and weights of
    2**-24: no sine or transform of a library is called, so that every CPU reports the same.

    Examples
    --------
    >>> import ldp_kafka as lk
    >>> m = lk.method("swp", epsilon=20.0, window=4, domain=(0.0, 10.0))
    >>> stream = np.array([1.0, 2.0, 4.0, 5.0, 4.0, 2.0])
    >>> m.release(stream, lk.randomness.seeded(7)).round(1).tolist()
    [nan, 1.8, 3.6, 4.9, 4.6, nan]
    >>> m.guarantee.protects, m.guarantee.influence
    ('time', 2)
    """

    name = "swp"
    default_mechanism = "laplace"
    parameters: ClassVar[dict[str, str]] = {
        "tau": "slots: sampling periods within tau of each other are not told apart; default: 1",
        "dimension": f"coordinates of a value, 1..{MOST}; default: values are numbers",
    }
    dimension: int = 0

    def __init__(
        self, *, tau: float = 1.0, dimension: int | None = None, **parameters: Any
    ) -> None:
        if dimension is not None:
            self.dimension = check_whole(dimension, "dimension", 1, MOST)
        slots = check_number(tau, "tau")
        if not 1 / SLOT <= slots <= 2:
            raise ConfigurationError(
                "tau must lie between 2**-10 and 2 slots: a period is positive"
            )
        self._tau = round(slots * SLOT)
        self.tau = self._tau / SLOT
        super().__init__(**parameters)

    def _shape(
        self, domain: tuple[float, float] | None, categories: int | None, calibration: str
    ) -> None:
        if not self.window <= WIDEST:
            raise ConfigurationError(f"{self.name} takes a window of at most {WIDEST} slots")
        super()._shape(domain, categories, calibration)
        self.length, self.delay = self.window + 2, self.window

    @property
    def resolved(self) -> dict[str, Any]:
        """Without a dimension where values are numbers: noise is bound to what it was before there
        was such a parameter.
        """
        found = super().resolved
        if not self.dimension:
            del found["dimension"]
        return found

    @property
    def coordinate(self) -> Method:
        """The same of numbers: every coordinate is resampled as they are."""
        twin = copy(self)
        twin.dimension = 0
        return twin

    @property
    def advance(self) -> int:
        """Slots from the beginning of one segment to that of the next."""
        return self.length

    @property
    def memory(self) -> float:
        return self.length - 1

    @property
    def influence(self) -> float:
        """Segments that one run of ``window`` slots meets, each with one draw."""
        return (self.window + self.length - 2) // self.advance + 1

    @property
    def run(self) -> int:
        """Slots in which the segments that one window meets can end; of ``published``, those in
        which one segment ends.
        """
        return self.window + self.length - 1 if self.calibration == "sound" else self.window

    def _shares(self) -> int:
        return int(self.influence) if self.calibration == "sound" else 1

    @property
    def guarantee(self) -> Guarantee:
        promised = super().guarantee
        return promised if self.calibration == "sound" else promised._replace(epsilon=inf)

    @property
    def within(self) -> str:
        """The sampling period is what is hidden, in the range that the mechanism perturbs it in."""
        return (
            f"as far as the sampling period goes, between {1 - self.tau / 2:g} and"
            f" {1 + self.tau / 2:g} slots, and not the order of values"
        )

    @property
    def fields(self) -> dict[str, Field]:
        return {
            **super().fields,
            "values": Field("i8", self.length * max(self.dimension, 1)),
            "since": Field("i8", initial=NEVER),
            "limited": Field("i8"),
        }

    def blank(self, n: int) -> NDArray[Any]:
        return np.zeros((n, *self._one), np.int64)

    @property
    def _one(self) -> tuple[int, ...]:
        """The shape of a value."""
        return (self.dimension,) if self.dimension else ()

    @cached_property
    def _weights(self) -> NDArray[np.int64]:
        return kernel(self.length, symmetric=self.calibration == "sound")

    # the device samples once a slot; checks put other periods here
    def _period(self, begin: int) -> int:  # noqa: ARG002
        """The true sampling period of the segment that begins at this slot, in steps of 2**-10
        slot.
        """
        return SLOT

    def report(self, state: State, batch: Batch) -> Step:
        rows, slot, values = batch[:3]
        columns, begin = state.columns, slot - self.length + 1
        since = np.where(columns["last"][rows] == slot - 1, columns["since"][rows], slot)
        ends = begin >= 0 and begin % self.advance == 0
        whole = (since <= begin) & ends
        allowed = self.ledger.charge(state, rows, slot, whole * np.int32(self.spend))
        columns["since"][rows] = since
        self._samples(state)[slot % self.length][..., rows] = values.T
        status = np.where(allowed, np.where(whole, SENT, SILENT), REFUSED).astype(np.uint8)
        if not ends:
            return Step(self.blank(len(rows)), status)
        answers = np.zeros((len(rows), self.window, *self._one))
        slots = np.full((len(rows), self.window), NEVER, np.int64)
        sent = np.flatnonzero(status == SENT)
        answers[sent] = self._resampled(state, batch.part(sent), begin)
        slots[sent] = begin + 1 + np.arange(self.window)
        return Step(answers, status, slots)

    def _samples(self, state: State) -> NDArray[np.int64]:
        """The values (length, ..., users) of the last slots: that of slot s at s % length."""
        columns: NDArray[np.int64] = state.columns["values"]
        return columns.reshape(self.length, *self._one, -1)

    def _resampled(self, state: State, batch: Batch, begin: int) -> NDArray[np.float64]:
        """Reports (n, window, ...) of the segment that began at ``begin`` and ends now."""
        rows, drawn = batch.rows, self._perturbed(state, batch, begin)
        order = (begin + np.arange(self.length)) % self.length
        samples = self._samples(state)[..., rows][order].T  # (n, ..., length)
        place, steps = np.arange(self.length) * SLOT, self.length * SLOT
        out = np.empty((len(rows), self.window, *self._one))
        for i in range(1, self.window + 1):
            weights = self._weights[(i * drawn[:, None] - place) % steps]
            weights = weights.reshape(len(rows), *[1] * (samples.ndim - 2), self.length)
            # below 2**32 * 2**24 * 8: the weights of one point sum to 5 at most in size
            out[:, i - 1] = on_grid(((samples * weights).sum(-1) + WEIGHT // 2) // WEIGHT)
        return out

    def _perturbed(self, state: State, batch: Batch, begin: int) -> NDArray[np.int64]:
        """T' (n,), or for ``published`` T' / T, in steps of 2**-10 slot."""
        true, low = self._period(begin), SLOT - self._tau // 2
        count = len(batch.rows)
        share = np.full(count, min(max((true - low) / self._tau, 0.0), 1.0))
        answers = self.draw(state, batch, share, (np.full(count, true),))
        drawn: NDArray[np.int64] = low + np.floor(answers * self._tau).astype(np.int64)
        if self.calibration == "published":
            return drawn * SLOT // true
        kept: NDArray[np.int64] = np.clip(drawn, 0, 2 * SLOT)
        state.columns["limited"][batch.rows] += kept != drawn
        return kept

    def tables(self) -> list[int]:
        return [*super().tables(), self._tau, self.advance, *self._one]


class SamplingPeriod(SingleWindow):
    """`SingleWindow` on segments that overlap by two slots, so that every slot but the first is
    published.

    Parameters
    ----------
    epsilon, domain, calibration, mechanism, window, tau : see `SingleWindow`

    Notes
    -----
    SPPA (anonymous, WWW 2025), Algorithm 2: segments of window + 2 slots at a stride of ``window``.
    Guarantee: that of `SingleWindow`, with stride w: a run of w slots meets up to floor(2 w / w) +
    1 = 3 segments, each with a T' of its own (w = 3: slots 4-6 meet 0-4, 3-7 and 6-10; the ends
    that are not published are still samples of the interpolant). So epsilon' = epsilon / 3.
    ``published`` spends epsilon on each: up to 3 epsilon even where each T' would be private, which
    the paper overlooks, and without a guarantee as it is.

    Examples
    --------
    >>> import ldp_kafka as lk
    >>> m = lk.method("sppa", epsilon=30.0, window=4, domain=(0.0, 10.0))
    >>> stream = np.array([1.0, 2.0, 4.0, 5.0, 4.0, 2.0, 1.0, 2.0, 4.0, 5.0])
    >>> m.release(stream, lk.randomness.seeded(7)).round(1).tolist()
    [nan, 1.8, 3.6, 4.9, 4.6, 2.1, 1.0, 1.7, 3.6, nan]
    >>> m.guarantee.influence
    3
    >>> settings = {"epsilon": 1.0, "window": 4, "domain": (0.0, 1.0)}
    >>> lk.method("sppa", calibration="published", **settings).guarantee.epsilon
    inf
    """

    name = "sppa"

    @property
    def advance(self) -> int:
        return self.window
