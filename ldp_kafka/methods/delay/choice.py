"""Which delay method to take, and with which parameters, before anything runs: all of them are
simulated on made-up streams.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting.words import at_most
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms.base import check_number
from ldp_kafka.methods.contract import check_slots
from ldp_kafka.methods.delay.adapub import AdaPub
from ldp_kafka.methods.delay.base import DelayMethod
from ldp_kafka.methods.delay.buc_order import BucOrder
from ldp_kafka.methods.delay.comp_order import CompOrder
from ldp_kafka.methods.delay.contin import ContinGroup
from ldp_kafka.methods.delay.deviation import Deviating
from ldp_kafka.methods.delay.discontin import DiscontinGroup
from ldp_kafka.methods.delay.dpi import Dpi
from ldp_kafka.methods.delay.naive import Naive
from ldp_kafka.methods.delay.names import DelayName
from ldp_kafka.methods.delay.pegasus import Pegasus, PegasusDelay
from ldp_kafka.methods.delay.segments import SegmentMean
from ldp_kafka.methods.delay.truncate import Truncate
from ldp_kafka.methods.delay.walks import walks
from ldp_kafka.randomness import seeded

__all__ = ["DelayChoice", "Simulated", "choose_delay"]

STREAMS = 64
SEED = 12
SLOTS = 200  # of a stream, at least
WINDOWS = 4  # as many of them, at least
WORTH = 0.95  # an error this many times the midpoint's, or less, is worth a method
FEW = 32  # longest delay at which what works with each two slots of a window is simulated
MOST_SLOTS = 100_000


@dataclass(frozen=True)
class Simulated:
    """What one delay method did on the made-up streams."""

    method: DelayName
    parameters: dict[str, Any]
    """Its own, where it has some: ``segment``, ``theta``, ``buckets``."""
    error: float
    """Mean absolute error of a release, in units of the domain."""

    def __str__(self) -> str:
        own = [f"{name} {value:.4g}" for name, value in self.parameters.items()]
        return f"{self.method} ({', '.join(own)})" if own else self.method


@dataclass(frozen=True)
class DelayChoice:
    """The delay methods on made-up streams, and which of them to take."""

    epsilon: float
    delay: int
    domain: tuple[float, float]
    setting: str
    contribution: float | None
    drift: float
    """As it was given, a share of the domain."""
    simulated: tuple[Simulated, ...]
    """Each method with each of its parameters that were tried."""
    midpoint: float
    """The error of releasing the domain's midpoint in each slot."""

    @property
    def methods(self) -> tuple[Simulated, ...]:
        """Each method with its best parameters, the one with the least error first."""
        best: dict[str, Simulated] = {}
        for one in sorted(self.simulated, key=lambda each: each.error):
            best.setdefault(one.method, one)
        return tuple(best.values())

    @property
    def best(self) -> Simulated:
        """That with the least error, whether it is worth it or not."""
        return min(self.simulated, key=lambda each: each.error)

    @property
    def naive(self) -> Simulated:
        """Noise on each value, clipped to the domain."""
        return next(each for each in self.simulated if each.method == Naive.name)

    @property
    def take(self) -> Simulated | None:
        """The best; None where nothing beats the midpoint by a twentieth: then release that, or
        ask for a larger epsilon, a longer delay or a narrower domain.
        """
        return self.best if self.best.error <= WORTH * self.midpoint else None

    @property
    def parameters(self) -> dict[str, Any]:
        """What `ldp_kafka.method` makes `best` with, beside its name."""
        return {
            "epsilon": self.epsilon,
            "delay": self.delay,
            "domain": self.domain,
            "setting": self.setting,
            "contribution": self.contribution,
            **self.best.parameters,
        }

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "epsilon": self.epsilon,
            "delay": self.delay,
            "domain": list(self.domain),
            "setting": self.setting,
            "contribution": self.contribution,
            "drift": self.drift,
            "take": None if self.take is None else self.take.method,
            "parameters": {} if self.take is None else self.take.parameters,
            "midpoint": self.midpoint,
            "methods": [
                {"method": each.method, "parameters": each.parameters, "error": each.error}
                for each in self.methods
            ],
        }

    def lines(self) -> Iterator[str]:
        """A table for people."""
        yield (
            f"delay        mean absolute error of a release, {self.setting}, delay {self.delay},"
            f" epsilon {at_most(self.epsilon)}, of streams that move by {self.drift:.3g} of the"
            " domain in a slot"
        )
        for each in self.methods:
            yield f"  {each.error:>10.4g}  {each}"
        yield f"  {self.midpoint:>10.4g}  the domain's midpoint"
        if self.take is None:
            yield (
                "take         nothing: no method beats the domain's midpoint by a twentieth, which"
                " costs no privacy; it takes a larger epsilon, a longer delay, a narrower domain or"
                " a contribution"
            )
        else:
            share = self.take.error / self.midpoint
            yield f"take         {self.take}: {share:.2f} times the error of the midpoint"


def choose_delay(
    *,
    epsilon: float,
    delay: int,
    domain: tuple[float, float],
    drift: float,
    setting: str = "batch",
    contribution: float | None = None,
    length: int | None = None,
) -> DelayChoice:
    """Which delay method to take, by the mean absolute errors of all of them on made-up streams.

    Parameters
    ----------
    epsilon, delay, domain, setting, contribution : see `DelayMethod`
    drift : a public guess of how far a stream moves in a slot, a standard deviation as a share of
        the domain, 0..1; never computed from the streams that are to be protected
    length : a public guess of how many slots a stream has, 1..100,000; default: four windows, at
        least 200

    Raises
    ------
    ConfigurationError : a parameter is none of these; what a delay method refuses

    Notes
    -----
    64 streams are made: random walks that turn round at the ends of the domain, which begin evenly
    spread over it, so that the midpoint errs by a quarter of the domain. All have a value in each
    slot. Each method releases them with noise that is seeded and the same in every call: the
    answer follows from the arguments alone, and errs by a few per cent. Nothing here reads data, so
    a choice costs no privacy.

    Tried are `SegmentMean` with its default, ``delay``, a half, a quarter and a tenth of it, and
    single slots; groups with the default ``theta`` and, but for PeGaSus, a tenth of it; `BucOrder`
    with its default and 2, 4 and 8 buckets; each smoothed or not as is its default. `CompOrder`,
    and sliding segments of single slots, take longer with the square of the delay and are tried up
    to 32 slots. What refuses its epsilon, as too small for a table, is left out. With the default
    length it takes about a second of one core up to a delay of 100, and 10 to 20 at 1,024.

    Examples
    --------
    >>> still = choose_delay(epsilon=1.0, delay=20, domain=(0.0, 100.0), drift=0.0)
    >>> still.take.method, still.midpoint
    ('segment_mean', 25.0)
    >>> import ldp_kafka as lk
    >>> lk.method(still.take.method, **still.parameters).segment
    20
    """
    if not 0 <= check_number(drift, "drift") <= 1:
        raise ConfigurationError("drift must lie between 0 and 1, a share of the domain")
    usual: dict[str, Any] = {
        "epsilon": epsilon,
        "delay": delay,
        "domain": domain,
        "setting": setting,
        "contribution": contribution,
    }
    naive = Naive(**usual)
    slots = max(WINDOWS * naive.delay, SLOTS) if length is None else check_slots(length, "length")
    if not slots <= MOST_SLOTS:
        raise ConfigurationError(f"length must be at most {MOST_SLOTS} slots")
    lo, hi = naive.domain
    moves = np.random.default_rng(SEED).normal(0.0, float(drift), (STREAMS, slots))
    moves[:, 0] = 0.0
    streams = lo + (hi - lo) * walks(moves)
    found = [Simulated(cast("DelayName", naive.name), {}, _error(naive, streams))]
    for kind, own in _candidates(naive.delay, usual):
        try:
            made = kind(**usual, **own)
        except ConfigurationError:  # epsilon is too small for its table
            continue
        found.append(Simulated(cast("DelayName", made.name), own, _error(made, streams)))
    midpoint = float(np.abs(streams - (lo + hi) / 2).mean())
    return DelayChoice(
        naive.epsilon,
        naive.delay,
        naive.domain,
        setting,
        naive.contribution,
        float(drift),
        tuple(found),
        midpoint,
    )


def _error(method: DelayMethod, streams: NDArray[np.float64]) -> float:
    """Mean absolute error of its releases of these streams."""
    return float(np.abs(method.release(streams, seeded(SEED)) - streams).mean())


def _candidates(
    delay: int, usual: dict[str, Any]
) -> Iterator[tuple[type[DelayMethod], dict[str, Any]]]:
    """All others, with what is tried of their own parameters."""
    default = SegmentMean(**usual).segment
    lengths = {default, *(ceil(delay / parts) for parts in (1, 2, 4, 10))}
    if delay <= FEW or usual["setting"] == "batch":
        lengths.add(1)
    for segment in sorted(lengths, reverse=True):
        yield SegmentMean, {"segment": segment}
    kinds: tuple[type[Deviating], ...] = (DiscontinGroup, ContinGroup, PegasusDelay, Pegasus)
    for kind in kinds:
        try:
            theta = kind(**usual).theta
        except ConfigurationError:
            continue
        yield kind, {"theta": theta}
        if not issubclass(kind, PegasusDelay):
            yield kind, {"theta": theta / 10}
    for buckets in sorted({BucOrder(**usual).buckets, 2, 4, 8}):
        yield BucOrder, {"buckets": buckets}
    for other in (Truncate, Dpi, AdaPub):
        yield other, {}
    if delay <= FEW:
        yield CompOrder, {}
