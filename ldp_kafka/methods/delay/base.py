"""The contract of a delay method: streams of values, released window by window."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import MICRO, Field, Guarantee, micro
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms.base import Z, check_epsilon
from ldp_kafka.mechanisms.sum_noise import SumNoise
from ldp_kafka.methods.contract import check_slots
from ldp_kafka.methods.delay.closed import Closed
from ldp_kafka.methods.delay.rows import ALL, Rows, Some
from ldp_kafka.methods.delay.season import Season, season_of
from ldp_kafka.methods.delay.smoother import Piece, Smoother
from ldp_kafka.methods.delay.stream import OWN, SMOOTH, StreamMethod
from ldp_kafka.methods.delay.truncation import SHARE, Truncation, truncation_of
from ldp_kafka.methods.delay.windows import MOST_DELAY, SETTINGS, setting_of
from ldp_kafka.methods.unstated import UNKNOWN_THRESHOLD
from ldp_kafka.methods.values import FIXED

__all__ = ["COMPARE", "ONCE", "OWN", "VALUE", "DelayMethod"]

# phases of a slot's draws: the noise of its value or of the sum that is named after it, what else
# is drawn once a slot, and comparisons
VALUE, ONCE, COMPARE = 0, 1, 2
MEDIAN = "median"
"""A value of ``smooth``: the paper's MedianSmoother."""


class DelayMethod(StreamMethod):
    """A method that releases every slot of a stream once, when the slot's window closes.

    Parameters
    ----------
    epsilon : float in (0, inf), nats: what a change of the values of ``window`` consecutive slots
        loses, over everything that is ever released of the stream
    delay : slots that a release may come after its slot, 1..1024
    domain : (lo, hi), public range of a value: values outside are clamped to it, and so are
        releases
    setting : ``batch``: all slots of ``slot // delay`` are released together, when the last of them
        has come; ``sliding``: each slot is released ``delay`` slots after it
    noise : ``sum``: one draw for the sum of values that are released together; ``point``: one for
        each value
    smooth : whether releases are smoothed (`Smoother`), by what was released before and what the
        window has: post-processing, it changes no noise; ``{"season": n}``: and a season of n slots
        is learnt (`Season`), 2..1024, such as 7 of days that differ by the day of the week;
        ``median``: the median of a group's noisy values in place of their mean, of groups with
        ``noise: point``
    truncation : in batches, whether values above a threshold are clamped to it, which is chosen by
        the values of an earlier batch (`Truncation`); ``{"interval": n, "thresholds": k, "sample":
        p}``: every n batches, 1..65536, among k, 2..1024, by p per cent of the values of groups,
        1..99, which then are in no release; default: 5, 32, and by all values
    contribution : public: how far one person moves a slot's value at most, in units of the domain,
        which is the source's promise: a value does not say who made it; default: the length
    window : consecutive slots whose values are hidden together, 1..65536
    calibration : ``sound``, or ``published`` for the noise and the parameters of the paper

    Notes
    -----
    Event level: two streams are neighbours if they have values in the same slots, and the value of
    one slot differs; with ``contribution`` by no more than that. The guarantee is about that one
    value. Without ``contribution`` that is a slot's whole value; with it, what one person has added
    to the value of one slot, as long as the promise is kept. A topology that adds the values of a
    slot keeps it for each event.

    With a ``window`` of w slots, w-event level: the values of any w consecutive slots may differ,
    each as above. From one stream to the other lead at most w steps, each of which changes the
    value of one slot; the proof of a method bounds what one step loses, by ``spend``, epsilon / w.
    So the run loses at most epsilon (group composition). A slot's value is paid for once, whatever
    is drawn, and any w slots hold at most w values: there is nothing that a ledger could refuse.

    A class has `prepare`, `take`, `end` and `kept`; it draws with what `prepare` has made, by
    `Rows.at_random`, and gives what is to be released to `keep`. `reached` and `loss` state what it
    has proved of one changed value, `reason` why it states no error where it does not.

    Everything that a method draws is a `SumNoise` (``adder``, ``alone``; published,
    ``threshold``), a `NoisyComparison` (``test``), a `SparseVector` (``vector``), a randomised
    response (``flip``) or an `ExponentialMechanism` (``choice``); what is released follows from the
    draws, which slots have values, and public parameters.

    `step` takes ``windows.hop`` slots and releases as many, ``windows.behind`` slots behind; so a
    stream has to be stepped until all its values are released: `waiting` says which have some, and
    a step that would leave one out is refused. `close` is the same step, and says how far off each
    release is, too: it is for a curator, who releases what a step at the edge reports.
    """

    statistics = ("per_stream", "per_user")
    noises: ClassVar[tuple[str, ...]] = ("sum", "point")
    """Where it can draw, its default first."""
    smooths: ClassVar[bool] = False
    """Whether its releases are smoothed by default."""
    medians: ClassVar[bool] = False
    """Whether it can release the median of a group's noisy values in place of their mean."""
    fills: ClassVar[bool] = False
    """Whether a slot without a value is released where slots beside it have one."""
    limit: Truncation | None
    """What clamps them, and draws too."""
    reduced: DelayMethod | None
    """Its twin for the batches whose values all choose a threshold: with what is left of the budget
    in them.
    """
    share: ClassVar[int] = 0
    """One part in so many of the budget is for what shapes the releases: groups, orders, buckets;
    0: all is for values.
    """
    parameters: ClassVar[dict[str, str]] = {
        "delay": "slots that a release may come after its slot",
        "setting": "batch or sliding",
        "noise": "sum: one draw for each sum of values; point: one for each value",
        "contribution": "how far one person moves a slot's value, at most; default: any change",
        SMOOTH: "whether releases are smoothed by what was released; it changes no noise",
        "truncation": (
            "in batches: clamp values to a threshold that the values of an earlier batch chose"
        ),
    }

    def __init__(
        self,
        *,
        epsilon: float,
        delay: int,
        domain: tuple[float, float],
        setting: str = "batch",
        noise: str | None = None,
        smooth: bool | str | Mapping[str, int] | None = None,
        truncation: bool | Mapping[str, int] | None = None,
        contribution: float | None = None,
        window: int = 1,
        calibration: str = "sound",
    ) -> None:
        self.epsilon, self.delay = check_epsilon(epsilon), check_slots(delay, "delay")
        if not self.delay <= MOST_DELAY:
            raise ConfigurationError(f"delay must be at most {MOST_DELAY} slots")
        if setting not in SETTINGS:
            raise ConfigurationError(f"setting must be one of {', '.join(SETTINGS)}")
        if noise is not None and noise not in self.noises:
            raise ConfigurationError(
                f"noise must be {' or '.join(self.noises)}: {self.name} has no other"
            )
        season = 0
        self.median = isinstance(smooth, str)
        if isinstance(smooth, str):
            self._check_median(smooth, noise)
            smooth = False
        if isinstance(smooth, Mapping):
            season, smooth = season_of(smooth), True
        if smooth is not None and not isinstance(smooth, bool | np.bool):
            raise TypeError("smooth must be true or false, median, or {season: slots}")
        self.setting = setting
        self.noise = self.noises[0] if noise is None else noise
        smooths = self.smooths and not truncation
        self.smooth: bool | dict[str, int] = smooths if smooth is None else bool(smooth)
        self.season = None
        if season:
            self.smooth, self.season = {"season": season}, Season(season)
        super().__init__(
            epsilon=self.epsilon,
            domain=domain,
            windows=setting_of(setting, self.delay),
            contribution=contribution,
            window=window,
            calibration=calibration,
        )
        self._charge(micro(self.epsilon) // self.window)
        self.smoother = Smoother()
        self.parts: tuple[float, float] = (0.0, self.epsilon)
        """What shapes the releases and what values get, nats: the parts of a window."""
        self._values = self.spend
        self.prepare()
        self.truncation = truncation_of(truncation)
        self.limit = self.reduced = None
        if self.truncation is not None:
            self._truncate(**self.truncation)

    def _check_median(self, smooth: Any, noise: str | None) -> None:
        """ConfigurationError unless it is ``median``, of a method that can release one."""
        if smooth != MEDIAN:
            raise ConfigurationError("smooth must be true or false, median, or {season: slots}")
        if not self.medians or (noise or self.noises[0]) != "point":
            raise ConfigurationError("smooth: median is for groups with noise: point")

    def _truncate(self, interval: int, thresholds: int, sample: int = 0) -> None:
        """Make ``limit``, and where all values choose ``reduced``."""
        if "truncation" not in self.parameters or self.setting != "batch":
            raise ConfigurationError(
                "truncation is for batches, and for methods that look at no earlier batch: not for"
                " truncate, adapub and dpi"
            )
        if self.smooth or self.contribution is not None:
            raise ConfigurationError(
                "truncation must not be given with smooth, which looks at earlier batches, nor with"
                " contribution, which bounds what values move by and not what is left of them"
            )
        if sample and self.longest == 1:
            raise ConfigurationError(
                f"the sample of truncation is of groups: {self.name} releases each value by itself"
            )
        part = self._values if sample else self.spend // SHARE
        found = Truncation(
            *(self.spend, part, self.delay, interval, thresholds, self.averaged, sample),
            published=self.calibration == "published",
        )
        if not sample:
            twin = copy(self)
            twin.spend = self.spend - part
            twin.prepare()
            self.reduced = twin
        self.limit = found
        self.parts = self.parts[0] + self.window * part / MICRO, self.parts[1]

    @property
    def longest(self) -> int:
        """How many values are released as one, at most."""
        return 1

    @property
    def averaged(self) -> int:
        """How many values share the noise of one sum, at most."""
        return self.longest if self.noise == "sum" else 1

    def _unsampled(self, window: Rows, joins: NDArray[np.bool_], some: Some) -> tuple[Some, Some]:
        """See `Truncation.unsampled`; without one all."""
        return (ALL, some) if self.limit is None else self.limit.unsampled(window, joins, some)

    @property
    def unstated(self) -> str | None:
        return self.reason if self.truncation is None else UNKNOWN_THRESHOLD

    def prepare(self) -> None:
        """Make what it draws with."""
        raise NotImplementedError

    def _split(self, *, shaped: bool = True) -> tuple[int, int]:
        """Micro-epsilon for what shapes the releases, and for values; ``shaped``: whether anything
        does.
        """
        part = self.spend // self.share if self.share and shaped else 0
        if self.share and shaped and not part > 0:
            raise ConfigurationError("epsilon must be large enough for one micro-epsilon a part")
        self._values = self.spend - part
        self.parts = part * self.window / MICRO, self._values * self.window / MICRO
        return part, self._values

    @staticmethod
    def _part_of(budget: int, parts: int) -> float:
        """One of so many equal shares of a budget of micro-epsilon, in nats; 0 where there is
        none. ConfigurationError where a share is nothing.
        """
        if not budget or not parts:
            return 0.0
        if not budget // parts > 0:
            raise ConfigurationError(
                "epsilon must be large enough for one micro-epsilon a test in this delay"
            )
        return budget // parts / MICRO

    @property
    def reached(self) -> float:
        """Draws that one changed value can reach."""
        return 1

    @property
    def influence(self) -> float:
        """Draws that a window of changed values can reach."""
        chosen = self.limit is not None and not self.limit.sample  # else in place of noise
        return self.window * (self.reached + chosen)

    @property
    def loss(self) -> float:
        """What a changed value truly loses, nats, by the proof of its class."""
        return self.spend / MICRO

    @property
    def guarantee(self) -> Guarantee:
        """The proven guarantee."""
        lost = self.loss
        if self.limit is not None and self.reduced is not None:
            lost = max(lost, self.reduced.loss + self.limit.part / MICRO)
        true = self.epsilon if self.calibration == "sound" else self.window * lost
        return Guarantee(
            self.level if self.window == 1 else "w-event",
            true,
            0.0,
            self.window,
            self.influence,
            "values",
            self.calibration,
            self._within,
            "stream",
        )

    @cached_property
    def fields(self) -> dict[str, Field]:
        return {
            **super().fields,
            **(self.smoother.fields if self.smooth else {}),
            **({} if self.season is None else self.season.fields),
            **({} if self.limit is None else self.limit.fields),
        }

    @property
    def resolved(self) -> dict[str, Any]:
        """Without a truncation where there is none: noise is bound to what it was before there was
        such a parameter.
        """
        found = super().resolved
        if self.truncation is None:
            found.pop("truncation", None)
        return found | ({SMOOTH: MEDIAN} if self.median else {})

    def kept(self) -> dict[str, Field]:
        """What it keeps of the slots of a window: the release, before it is clipped, in lengths of
        the domain; whether there is one; where it is smoothed, the variance of its noise.
        """
        span = self.windows.span
        kept = {"release": Field("f8", span), "known": Field("?", span)}
        return {**kept, "variance": Field("f8", span)} if self.smooth else kept

    def opens(self, slot: int) -> int:
        """The first slot that a call may begin with to have this one: `drawn_from`, or its batch's
        first where a batch chooses a threshold.
        """
        batch = slot - slot % self.delay if self.limit is not None else slot
        return min(batch, self.drawn_from(slot))

    def _stepped(
        self, window: Rows, values: NDArray[np.int64], present: NDArray[np.bool_] | None
    ) -> Closed:
        slot = window.slot
        if self.limit is None:
            released = self._folded(window, slot, values, present)
        else:
            released = self._truncated(self.limit, window, slot, values, present)
        return self._on_domain(slot - self.windows.behind, *released)

    def _folded(
        self,
        window: Rows,
        slot: int,
        values: NDArray[np.int64],
        present: NDArray[np.bool_] | None,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Take the slots from ``slot`` on, and release: see `_released`."""
        for at in range(self.hop):
            window.slot = slot + at
            some = ALL if present is None else np.flatnonzero(present[at])
            if window.size(some):
                self.take(window, values[at][some], some)
            self.end(window)
        return self._released(window)

    def _truncated(
        self,
        truncation: Truncation,
        window: Rows,
        slot: int,
        values: NDArray[np.int64],
        present: NDArray[np.bool_] | None,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The same of a batch whose values are clamped to a threshold, which may choose the next
        one.
        """
        levels, chooses = truncation.levels(window), truncation.chooses(slot // self.delay)
        twin = self.reduced if chooses and self.reduced is not None else self
        stretched = truncation.stretched(values, levels)
        released, looks = twin._folded(window, slot, stretched, present)  # noqa: SLF001 - its own
        if chooses:
            there = np.ones(values.shape, np.bool_) if present is None else present
            truncation.choose(window, slot, values, there)
        if self.calibration == "sound":
            released = np.clip(released, 0.0, 1.0)
        share = levels / FIXED
        return released * share, looks * share

    def take(self, window: Rows, values: NDArray[np.int64], some: Some) -> None:
        """The values (m,) of the slot come, of some of the streams, at least one."""
        raise NotImplementedError

    def end(self, window: Rows) -> None:
        """The slot is over: what is due with it has to be drawn."""

    def keep(
        self,
        window: Rows,
        place: int,
        released: NDArray[np.float64],
        variance: NDArray[np.float64] | float,
        some: Some,
    ) -> None:
        """What is to be released of one place of the window, in lengths of the domain."""
        window.put("release", place, released, some)
        window.put("known", place, True, some)
        if self.smooth:
            window.put("variance", place, variance, some)

    def _released(self, window: Rows) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Releases (hop, n) in lengths of the domain, NaN where there is none, and what they were
        before they were smoothed, of the window that ends with the slot; what is released is let
        go.
        """
        if self.smooth:
            return self._smoothed(window)
        if self.setting == "batch":
            known = window.ring("known")
            out = np.where(known, window.ring("release"), np.nan)
            known[:] = False
            return out, out
        place = (window.slot - self.delay) % self.windows.span
        out = np.where(window.at("known", place), window.at("release", place), np.nan)[None]
        window.put("known", place, False)
        return out, out

    @cached_property
    def half_width(self) -> float:
        """See `SumNoise.half_width`."""
        adder: SumNoise = getattr(self, "adder")  # noqa: B009 - of those whose values have noise
        return float(adder.half_width / FIXED)

    def _smoothed(self, window: Rows) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """`_released`, smoothed slot by slot: each release counts as a look at its slot by
        itself, with the noise that it has.
        """
        span, first = self.windows.span, window.slot - self.windows.span + 1
        release, known, variance = (window.ring(name) for name in ("release", "known", "variance"))
        pieces = []
        for at in range(span):
            place = (first + at) % span
            pieces.append(
                self._seasonless(
                    window, Piece(first + at, 1, release[place], variance[place], known[place])
                )
            )
        shapes = self.smoother.smooth(window, pieces, commit=self.windows.hop)
        out, looks = np.empty((2, self.windows.hop, window.count))
        for at in range(self.windows.hop):
            place = (first + at) % span
            there = known[place]
            out[at] = np.where(there, self._seasonal(window, pieces[at], shapes[at].mean), np.nan)
            looks[at] = np.where(there, release[place], np.nan)
        for at in range(self.windows.hop):
            place = (first + at) % span
            self._learn(window, Piece(first + at, 1, release[place], variance[place], known[place]))
            known[place] = False
        return out, looks

    def _seasonless(self, window: Rows, piece: Piece) -> Piece:
        """A slot's piece without its season."""
        if self.season is None:
            return piece
        return piece._replace(released=piece.released - self.season.level(window, piece.first))

    def _seasonal(self, window: Rows, piece: Piece, mean: NDArray[np.float64]) -> Any:
        """What is expected of a slot, with its season."""
        return mean if self.season is None else mean + self.season.level(window, piece.first)

    def _learn(self, window: Rows, piece: Piece) -> None:
        """Learn the season from what was released of one slot."""
        if self.season is not None:
            self.season.learn(window, piece)

    def _on_domain(
        self, first: int, released: NDArray[np.float64], looks: NDArray[np.float64]
    ) -> Closed:
        """In units of the domain, clipped to it, with the intervals that hold.

        Notes
        -----
        A slot's noisy value is off by `half_width` or less in 95 of 100 slots, whatever the stream
        does; clipped to the domain it is nearer to the truth, which lies there. What a smoother
        makes of it is nearer still where the stream moves as slowly as it did: but two streams that
        differ in this slot alone have the same law of all else that is released, so no interval
        from the neighbours' values holds for both, and the slot's own is the narrowest that does.
        """
        values = self._inside(released)
        if self.unstated is not None:
            none = np.full(values.shape, np.nan)
            return Closed(first, values, none, none, none, self.unstated)
        lo, hi = self.domain
        inside, half = self._inside(looks), self.half_width * (hi - lo)
        low = np.minimum(np.maximum(inside - half, lo), values)
        high = np.maximum(np.minimum(inside + half, hi), values)
        errors = np.where(np.isnan(values), np.nan, half / Z)
        return Closed(first, values, errors, low, high)

    def _inside(self, released: NDArray[np.float64]) -> NDArray[np.float64]:
        """Lengths of the domain as values inside it."""
        lo, hi = self.domain
        values = np.maximum(released, 0.0)  # null stays null
        np.minimum(values, 1.0, out=values)
        values *= hi - lo
        values += lo
        return np.minimum(values, hi, out=values)  # the sum can round beyond the end

    def tables(self) -> list[int]:
        """The integers that fix its noise: part of a topology's fingerprint."""
        return [
            self.spend,
            self.reach,
            *self.windows,
            *(int(number) for part in self._own() for number in part.tables()),
            *([] if self.limit is None else self.limit.tables()),
            *([] if self.reduced is None else self.reduced.tables()),
        ]
