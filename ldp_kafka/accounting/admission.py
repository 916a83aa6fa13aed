"""What several topologies over one raw topic lose together, and whether one more may run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, inf
from typing import Any, NamedTuple

from ldp_kafka.accounting.guarantee import MICRO, Guarantee
from ldp_kafka.accounting.words import exactly, moment, nats, span
from ldp_kafka.errors import ConfigurationError

__all__ = [
    "Claim",
    "Limit",
    "Loss",
    "Spender",
    "contributions",
    "frees",
    "judge",
    "loss",
    "micro_up",
    "slots_touched",
    "windows_touched",
]


def micro_up(epsilon: float) -> int:
    """Whole micro-epsilon in a finite epsilon as it was written, rounded up: of what is spent.

    Examples
    --------
    >>> micro_up(0.3), micro_up(1 / 3)
    (300000, 333334)
    """
    return ceil(Fraction(repr(float(epsilon))) * MICRO)


def contributions(domain: tuple[float, float], contribution: float | None) -> int:
    """The fewest steps of at most one contribution each in which any value of a slot becomes any
    other: what hides one contribution loses so many times its epsilon of a whole value (group
    privacy). 1 where any change of a value is one step.

    Numbers count as they are written.

    Parameters
    ----------
    domain : (lo, hi), of a slot's whole value
    contribution : how far one step moves a value, which is what the noise is made for; in
        (0, hi - lo]; None: any change is one step

    Examples
    --------
    >>> [contributions((0.0, 4.0), each) for each in (None, 4.0, 3.0, 0.5)]
    [1, 1, 2, 8]
    >>> contributions((0.0, 1.1), 0.1)
    11
    """
    if contribution is None:
        return 1
    lo, hi, one = (Fraction(repr(float(each))) for each in (*domain, contribution))
    return ceil((hi - lo) / one)


def slots_touched(run_ms: int, slot_ms: int) -> int:
    """The most slots that values whose times are at most ``run_ms`` apart can lie in.

    They lie in the slots t // s .. (t + W) // s of some time t, and (t + W) // s <= t // s + ceil(W
    / s). At t = s - 1 that is reached: one slot more than the run is long, since nothing lines a
    run up with the slots.

    Examples
    --------
    >>> slots_touched(24, 1), slots_touched(23, 24), slots_touched(25, 24)
    (25, 2, 3)
    """
    return -(-run_ms // slot_ms) + 1


def windows_touched(run_ms: int, slot_ms: int, window: int) -> int:
    """How many windows of ``window`` slots, one after the other, cover all slots that a run of
    ``run_ms`` touches.

    Examples
    --------
    >>> windows_touched(23, 1, 24), windows_touched(24, 1, 24)
    (1, 2)
    """
    return -(-slots_touched(run_ms, slot_ms) // window)


class Loss(NamedTuple):
    """What is or may be lost: the likelihood of no set of outputs grows by more than e^epsilon,
    plus delta.
    """

    epsilon: int
    """Micro-epsilon."""
    delta: Fraction

    def plus(self, other: Loss) -> Loss:
        """Of two topologies: the sums (Dwork and Roth 2014, theorem 3.16), as each draws noise of
        its own: its fingerprint, with its name in it, is in the context of every draw.
        """
        return Loss(self.epsilon + other.epsilon, self.delta + other.delta)

    def within(self, limit: Loss) -> bool:
        """Whether it is no more than that."""
        return self.epsilon <= limit.epsilon and self.delta <= limit.delta

    def __str__(self) -> str:
        return f"epsilon {nats(self.epsilon)}" + (
            f" and delta {exactly(self.delta)}" if self.delta else ""
        )


@dataclass(frozen=True)
class Limit:
    """What all topologies on one raw topic may lose together.

    Parameters
    ----------
    most : of any user
    run_ms : however its values are changed whose times are at most so far apart; None: all of them,
        for life, as far as topologies of level ``user`` see them
    kept_ms : how old, by its own time, a value is at most when a topology reads it: what the raw
        topic keeps, and what devices delay; None: not known
    """

    most: Loss
    run_ms: int | None
    kept_ms: int | None = None

    @property
    def over(self) -> str:
        """Of what."""
        return (
            "a user's life (topologies of level user)"
            if self.run_ms is None
            else f"any run of {span(self.run_ms)}"
        )


@dataclass(frozen=True)
class Spender:
    """One topology as far as sums go.

    Parameters
    ----------
    name : the topology's
    guarantee : what truly holds of it
    slot_ms : length of its slots
    last_ms : the latest time of any value that it has read when it was retired; None: it was not,
        and goes on; inf: nobody knows
    contributions : in how many steps of its guarantee any value of a slot becomes any other
    """

    name: str
    guarantee: Guarantee
    slot_ms: int
    last_ms: float | None = None
    contributions: int = 1

    def __post_init__(self) -> None:
        promised = self.guarantee
        if promised.protects == "time":
            raise ConfigurationError(
                f"{self.name} protects time only and reports values as they are: no limit on what"
                " values lose holds beside it"
            )
        if not promised.epsilon < inf:
            raise ConfigurationError(
                f"{self.name} guarantees nothing that could be counted (calibration"
                f" {promised.calibration}): no limit holds beside it"
            )
        if promised.level != "user" and promised.delta:
            raise ConfigurationError(
                f"{self.name} has a delta in each window: only topologies of level user are summed"
                " with one"
            )


def loss(spender: Spender, limit: Limit) -> Loss:
    """What one topology loses of what the limit speaks of.

    A run of W ms touches n = ceil(W / slot) + 1 slots, which k = ceil(n / window) windows cover
    (`windows_touched`). Change the values in the first window, then in the second, and so on: k
    steps, each between streams that differ inside one window, so of at most epsilon each; together
    at most k epsilon, since ratios multiply. ``lpu`` loses exactly that: it reports once a window,
    with all of epsilon. Where a step moves each value by one contribution at most, a whole value
    takes `contributions` of them. Level user: any change of a user's values is one step, so
    (epsilon, delta) it is, for a run as for a life. Rounded up.

    A limit for life does not count topologies of other levels: every window loses anew, and no life
    has a bound.

    Examples
    --------
    >>> hourly = Spender("a", Guarantee("w-event", 1.0, 0.0, 10, 10, "values", "sound"), 1)
    >>> print(loss(hourly, Limit(Loss(3_000_000, Fraction(0)), run_ms=24)))
    epsilon 3
    """
    promised = spender.guarantee
    once = Loss(
        micro_up(promised.epsilon) * spender.contributions, Fraction(repr(float(promised.delta)))
    )
    if promised.level == "user":
        return once
    return Loss(
        (
            0
            if limit.run_ms is None
            else once.epsilon * windows_touched(limit.run_ms, spender.slot_ms, promised.window)
        ),
        Fraction(0),
    )


def frees(spender: Spender, limit: Limit) -> int | None:
    """The moment, in epoch milliseconds, up to which a retired topology counts against a limit;
    None: it counts for ever.

    It is the last moment at which a topology that begins may still read values that lie in one run
    with values that the retired one read. An example: hours, a limit over 9h, a raw topic that
    keeps 15d, retired on 2027-01-01, and values of times up to 2027-01-03 read by then: it counts
    up to 2027-01-18T09:00Z.

    One that begins at T reads the raw topic from its first record: values of times from T - kept
    on. The retired one read none after ``last``. Where T - kept - last > W no run of W ms holds
    values of both, and what each run loses is lost to one of them alone. What was lost for life
    stays lost.

    Examples
    --------
    >>> guarantee = Guarantee("w-event", 1.0, 0.0, 10, 10, "values", "sound")
    >>> retired = Spender("a", guarantee, 1, last_ms=1000)
    >>> frees(retired, Limit(Loss(1, Fraction(0)), run_ms=24, kept_ms=100))
    1124
    """
    last = spender.last_ms
    if limit.run_ms is None or limit.kept_ms is None or last is None or last == inf:
        return None
    return int(last) + limit.kept_ms + limit.run_ms


@dataclass(frozen=True)
class Claim:
    """One topology's request for a part of a limit, with those that were admitted before it.

    Parameters
    ----------
    limit : that it is held against
    spender, asked : who asks, and for how much
    before : (topology, its loss, up to when it counts) of each that still counts
    """

    limit: Limit
    spender: Spender
    asked: Loss
    before: tuple[tuple[Spender, Loss, int | None], ...]

    @property
    def spent(self) -> Loss:
        """By those before."""
        return _sum([each for _, each, _ in self.before])

    @property
    def allowed(self) -> bool:
        """Whether all of it is within the limit."""
        return self.spent.plus(self.asked).within(self.limit.most)

    @property
    def left(self) -> Loss | None:
        """Of the limit when it has what it asks for; None where it cannot."""
        total, most = self.spent.plus(self.asked), self.limit.most
        return (
            Loss(most.epsilon - total.epsilon, most.delta - total.delta) if self.allowed else None
        )

    @property
    def frees_ms(self) -> int | None:
        """The moment after which enough of those before no longer count; None where nothing that is
        retired brings it about.
        """
        moments = sorted({when for _, _, when in self.before if when is not None})
        for now in moments:
            rest = _sum([each for _, each, when in self.before if when is None or when > now])
            if rest.plus(self.asked).within(self.limit.most):
                return now
        return None

    @property
    def how(self) -> str:
        """Where the number that is asked for comes from."""
        promised, run = self.spender.guarantee, self.limit.run_ms
        if promised.level == "user" or run is None:
            return f"{self.asked} for life"
        slots, windows = (
            slots_touched(run, self.spender.slot_ms),
            windows_touched(run, self.spender.slot_ms, promised.window),
        )
        steps = self.spender.contributions
        whole = f" x {steps:,} contributions in a slot's whole value" if steps > 1 else ""
        return (
            f"{nats(micro_up(promised.epsilon))}{whole} x {windows} window{'s' * (windows != 1)} of"
            f" {promised.window} slots, over the {slots} slots of {span(self.spender.slot_ms)} that"
            " a run can touch"
        )

    @property
    def arithmetic(self) -> str:
        r"""The sum, in words.

        Examples
        --------
        >>> def daily(name, epsilon):
        ...     guarantee = Guarantee("w-event", epsilon, 0.0, 2, 2, "values", "sound")
        ...     return Spender(name, guarantee, 86_400_000)
        >>> limit = Limit(Loss(3_000_000, Fraction(0)), run_ms=86_400_000)
        >>> sum_of = judge(limit, [daily("a", 1.5)], daily("b", 1.0), 0).arithmetic
        >>> print(*sum_of.split(", "), sep="\n")
        any run of 1d: spent epsilon 1.5 (a 1.5)
        requested by b epsilon 1
        together epsilon 2.5
        limit epsilon 3: 0.5 is left
        >>> judge(limit, [daily("a", 1.5)], daily("b", 2.0), 0).arithmetic.partition("limit ")[2]
        'epsilon 3: 0.5 too much; room for it: never, as long as nothing more is retired'
        """
        spent, most = self.spent, self.limit.most
        total = spent.plus(self.asked)
        by = (
            f" ({', '.join(f'{each.name} {_bare(lost)}' for each, lost, _ in self.before)})"
            if self.before
            else ""
        )
        words = (
            f"{self.limit.over}: spent {spent}{by}, requested by {self.spender.name} {self.asked},"
            f" together {total}, limit {most}: "
        )
        if self.left is not None:
            return f"{words}{_bare(self.left)} is left"
        over = Loss(
            max(total.epsilon - most.epsilon, 0), max(total.delta - most.delta, Fraction(0))
        )
        return f"{words}{_bare(over)} too much; room for it: {self._when}{self._cures}"

    @property
    def _when(self) -> str:
        if not self.asked.within(self.limit.most):
            return "never, since the request alone is more than the limit"
        if self.frees_ms is not None:
            return f"after {moment(self.frees_ms)}"
        if self.limit.run_ms is None:
            return "never, since what is lost for life does not come back"
        if self.limit.kept_ms is None and any(
            each.last_ms is not None for each, _, _ in self.before
        ):
            return (
                "never, since nobody says how long the raw topic keeps values (kept): a topology"
                " that begins reads them all"
            )
        if any(each.last_ms == inf for each, _, _ in self.before):
            return (
                "never, since nobody knows how late the values are that the retired ones have read"
            )
        return "never, as long as nothing more is retired"

    @property
    def _cures(self) -> str:
        """What would need no more windows than there is room for, as the end of a message; empty
        where there is room for none.
        """
        promised, run, slot = self.spender.guarantee, self.limit.run_ms, self.spender.slot_ms
        if promised.level == "user" or run is None:
            return ""
        needed = windows_touched(run, slot, promised.window)
        room = self.limit.most.epsilon - self.spent.epsilon
        windows = room // (self.asked.epsilon // needed)
        if not 1 <= windows < needed:
            return ""
        slots, many = slots_touched(run, slot), f"{windows} window{'s' * (windows != 1)}"
        longest = (windows * promised.window - 1) * slot
        shorter = f"set limit.window to {span(longest)}, or " if longest else "set "
        return (
            f". A run of {span(run)} touches {slots} slots of {span(slot)}, nothing lines it up"
            f" with them, and there is room for {many} of {promised.window} slots: {shorter}"
            f"privacy.window of {self.spender.name} to {-(-slots // windows)} (with a new name, if"
            " it has run)"
        )

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "run_ms": self.limit.run_ms,
            "limit": _json(self.limit.most),
            "spent": _json(self.spent),
            "by": {each.name: _json(lost) for each, lost, _ in self.before},
            "requested": _json(self.asked),
            "left": None if self.left is None else _json(self.left),
            "allowed": self.allowed,
            "frees": None if self.allowed or self.frees_ms is None else moment(self.frees_ms),
        }


def judge(limit: Limit, before: Sequence[Spender], spender: Spender, now_ms: int) -> Claim:
    """The claim of ``spender``, which may begin at ``now_ms``, after those that were admitted
    ``before`` it, in their order, running or not.

    Every topology is held against those before it alone, so what comes later never takes away what
    was granted. Then no run of W ms ever loses more than the limit: among the topologies that read
    a value in the run take the last of the order, m, which began at T. Every other one is before m,
    and has a value within W of one of m's, so that it had not been freed at T (`frees`): it was in
    the sum in which m was allowed, and m itself too.

    Raises
    ------
    ConfigurationError : the limit is for life, and ``spender`` of another level
    """
    if limit.run_ms is None and spender.guarantee.level != "user":
        raise ConfigurationError(
            f"{spender.name} loses anew in every window: no limit for life holds of it"
        )
    counted = []
    for each in before:
        lost, when = loss(each, limit), frees(each, limit)
        if any(lost) and (when is None or now_ms <= when):
            counted.append((each, lost, when))
    return Claim(limit, spender, loss(spender, limit), tuple(counted))


def _sum(losses: Sequence[Loss]) -> Loss:
    total = Loss(0, Fraction(0))
    for each in losses:
        total = total.plus(each)
    return total


def _bare(lost: Loss) -> str:
    return str(lost).removeprefix("epsilon ")


def _json(lost: Loss) -> dict[str, Any]:
    return {"epsilon": lost.epsilon / MICRO, "delta": float(lost.delta)}
