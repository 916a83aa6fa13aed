"""The result of an audit."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import ROUND_FLOOR, Context, Decimal
from math import inf, isinf
from typing import Any, NamedTuple

from ldp_kafka.accounting.words import at_least, at_most

__all__ = ["AuditResult", "Bin", "Hits", "Power"]


class Hits(NamedTuple):
    """How often an event was seen among the reports of one input, or among all reports guesses were
    right or wrong, and what follows for the probability.
    """

    hits: int
    trials: int
    bound: float
    """Lower for the likelier input, upper for the other."""


class Bin(NamedTuple):
    """A set of reports, for the plot: counts for the input that is guessed from it, else for the
    likelier, and for the other.
    """

    likelier: int
    other: int
    chosen: bool
    """Part of the event."""


class Power(NamedTuple):
    """What an audit would have found."""

    share: float
    """Of the reports of both inputs, those that are guessed by."""
    loss: float
    """Of epsilon; inf: none."""


@dataclass(frozen=True)
class AuditResult:
    """A lower bound on epsilon, with how it was found. It holds counts, no reports and no inputs.

    A bound below the claim does not prove it: an audit finds faults, it cannot show that there are
    none. Its power says which it would have found.
    """

    epsilon_lower: float
    alpha: float
    """Probability, whatever the mechanism, that the bound is above the true loss; 0 where the
    finding is exact.
    """
    claimed: float | None
    delta: float
    method: str
    event: str
    """The set of reports that tells the inputs apart, in words."""
    likelier: Hits
    """For the input that makes the event likelier ..."""
    other: Hits
    """... and for the other one."""
    direction: str = "first"
    """Which input makes it likelier. ``both``: the event is two sets, one likelier for each input;
    ``likelier`` counts right guesses by them and ``other`` wrong ones.
    """
    bins: tuple[Bin, ...] = field(default=(), repr=False)
    power: tuple[Power, ...] = ()
    """Losses that the audit would have found above the claim (above 0, without one) with
    probability 95 %: on as many reports as the event's, and on rarer ones. Empty where the finding
    is exact.
    """

    @property
    def confidence(self) -> float:
        """1 - alpha."""
        return 1 - self.alpha

    @property
    def violated(self) -> bool:
        """Whether the bound is above the claim."""
        return self.claimed is not None and self.epsilon_lower > self.claimed

    @property
    def verdict(self) -> str:
        """One line for people.

        Examples
        --------
        >>> AuditResult(1.2737, 1e-5, 1.0, 0.0, "", "", Hits(9, 10, 0.5), Hits(1, 10, 0.1)).verdict
        'epsilon is at least 1.273 with confidence 99.999 % (claimed 1): VIOLATED'
        """
        bound = (
            "infinite" if isinf(self.epsilon_lower) else f"at least {_floor(self.epsilon_lower)}"
        )
        at = f" at delta {at_least(self.delta)}" if self.delta else ""
        sure = f" with confidence {_percent(self.alpha)} %" if self.alpha else ", for certain"
        if self.claimed is None:
            return f"epsilon is {bound}{at}{sure}"
        return (
            f"epsilon is {bound}{at}{sure} (claimed {at_most(self.claimed)}):"
            f" {'VIOLATED' if self.violated else 'not violated'}"
        )

    def lines(self) -> list[str]:
        """The verdict, and how it was reached."""
        a, b = self.likelier, self.other
        lines = [self.verdict, f"  method: {self.method}", f"  event:  {self.event}"]
        if self.direction == "both":
            lines.append(
                f"  counts: {a.hits:,} right guesses of the input and {b.hits:,} wrong ones, from"
                f" {a.trials:,} reports"
            )
        elif a.trials and b.trials:
            first, second = (
                ("first", "second") if self.direction == "first" else ("second", "first")
            )
            lines.append(
                f"  counts: {a.hits:,} of {a.trials:,} reports of the {first} input, {b.hits:,} of"
                f" {b.trials:,} of the {second}"
            )
        if self.power:
            losses = [
                f"{'none' if loss == inf else at_most(loss)} on {100 * share:.3g} %"
                for share, loss in self.power
            ]
            lines.append(
                f"  power:  finds with probability 95 % a loss of {', '.join(losses)} of reports"
            )
        return lines

    def to_dict(self) -> dict[str, Any]:
        """For JSON; an infinite bound is the text ``"inf"``."""
        return {
            "epsilon_lower": _finite(self.epsilon_lower),
            "claimed": self.claimed,
            "violated": self.violated,
            "delta": self.delta,
            "alpha": self.alpha,
            "confidence": self.confidence,
            "verdict": self.verdict,
            "method": self.method,
            "event": self.event,
            "direction": self.direction,
            "likelier": self.likelier._asdict(),
            "other": self.other._asdict(),
            "bins": [each._asdict() for each in self.bins],
            "power": [{"share": share, "loss": _finite(loss)} for share, loss in self.power],
        }


def _finite(epsilon: float) -> float | str:
    return "inf" if epsilon == inf else epsilon


def _floor(bound: float) -> str:
    """To four digits, down: the text may not say more than was found."""
    return f"{Context(prec=4, rounding=ROUND_FLOOR).create_decimal_from_float(bound).normalize():f}"


def _percent(alpha: float) -> str:
    return f"{(100 - 100 * Decimal(repr(alpha))).normalize():f}"
