"""How far the release of a topology's crowd would be off under each protocol, and which to take."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms import MECHANISMS
from ldp_kafka.methods.protocols import PROTOCOLS, Protocol
from ldp_kafka.methods.protocols.oracle import ORACLES
from ldp_kafka.methods.protocols.prediction import LONGEST, Crowd, Expected, Variances, predict
from ldp_kafka.statistics import CrowdStatistic
from ldp_kafka.topology.model import Topology
from ldp_kafka.topology.sections import pure

__all__ = ["MOVES", "Comparison", "Moving", "compare"]

MOVES: dict[str, float] = {"not at all": 0.0, "slowly": 0.002, "fast": 0.02, "very fast": 0.1}
"""Standard deviations of a statistic's move in a slot, as shares of the domain; of a frequency, as
shares of twice its mean."""


class Moving(NamedTuple):
    """What is expected where the statistic moves so far in a slot."""

    name: str
    drift: float
    """Standard deviation, on the scale of what is released."""
    expected: tuple[Expected, ...]
    """Of each protocol, in the order of their names."""

    @property
    def best(self) -> Expected:
        """That with the least error."""
        return min(self.expected, key=lambda each: each.error)

    def of(self, protocol: str) -> Expected | None:
        """What is expected of one protocol; None where the topology cannot run it."""
        return next((each for each in self.expected if each.protocol == protocol), None)


@dataclass(frozen=True)
class Comparison:
    """The protocols in a topology's place, its crowd's statistic moving little or much."""

    statistic: str
    moving: tuple[Moving, ...]

    @property
    def take(self) -> str:
        """The protocol whose error is never many times the least one: the smallest largest ratio
        over all moves.
        """
        names = [each.protocol for each in self.moving[0].expected]
        return min(names, key=self.ratio)

    def of(self, protocol: str) -> list[tuple[str, Expected]]:
        """What is expected of one protocol, by how the statistic moves."""
        found = [(each.name, each.of(protocol)) for each in self.moving]
        return [(name, each) for name, each in found if each is not None]

    def ratio(self, protocol: str) -> float:
        """The error of a protocol as a multiple of the best one's, where that is largest."""
        return max(
            found.error / moving.best.error
            for moving in self.moving
            if (found := moving.of(protocol)) is not None
        )

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "statistic": self.statistic,
            "take": self.take,
            "moves": [
                {
                    "moves": each.name,
                    "drift": each.drift,
                    "take": each.best.protocol,
                    "errors": {one.protocol: one.error for one in each.expected},
                    "publications": {one.protocol: one.publications for one in each.expected},
                }
                for each in self.moving
            ],
        }

    def lines(self) -> Iterator[str]:
        """A table for people."""
        names = [each.protocol for each in self.moving[0].expected]
        moves = [f"{each.name} ({each.drift:.3g})" for each in self.moving]
        wide = max(len(each) for each in ("moves a slot", *moves))
        yield (
            f"protocols    {self.statistic}: root mean square error of each, where values are"
            " spread evenly"
        )
        yield f"  {'moves a slot':<{wide}}" + "".join(f"  {name:>8}" for name in names) + "  best"
        for said, each in zip(moves, self.moving, strict=True):
            errors = "".join(f"  {one.error:>8.3g}" for one in each.expected)
            yield f"  {said:<{wide}}{errors}  {each.best.protocol}"
        if len(self.moving) == 1:
            yield f"take         {self.take}: it has the least error"
        else:
            yield (
                f"take         {self.take}: at most {self.ratio(self.take):.3g} times the least"
                " error in each row; where it is known how far it moves, the best of that row"
            )


def compare(topology: Topology, users: int, drift: float | None = None) -> Comparison | None:
    """The protocols at the topology's epsilon, window and mechanism, with so many users; None where
    it releases nothing of a crowd that they could release.

    Parameters
    ----------
    drift : standard deviation of the statistic's move in a slot, a share of the domain, or an
        absolute frequency; default: `MOVES`

    Raises
    ------
    ConfigurationError : drift is no such number
    """
    if drift is not None and not 0 <= drift <= 1:
        raise ConfigurationError("drift must lie between 0 and 1")
    crowd = [
        each
        for each in topology.statistics.statistics
        if isinstance(each, CrowdStatistic) and each.of_protocols
    ]
    privacy = topology.privacy
    method = topology.method
    # no protocol takes vectors, or hides presence
    if not crowd or privacy.level != "w-event" or method.dimension or method.cover:
        return None
    protocols = _protocols(topology)
    if not protocols:
        return None
    first = protocols[0]
    budget = first.terms.budget
    variances = Variances(first.terms.oracle, budget // (2 * first.window), budget)
    length, usual = 1.0, 2 / variances.cells
    if privacy.domain is not None:
        length, usual = privacy.domain[1] - privacy.domain[0], 1.0
    wanted = (
        {name: share * usual for name, share in MOVES.items()}
        if drift is None
        else {"as given": drift}
    )
    moving = []
    for name, share in wanted.items():
        users_moving = Crowd(users, share * length)
        found = tuple(predict(each, users_moving, variances) for each in protocols)
        moving.append(Moving(name, users_moving.drift, found))
    return Comparison(crowd[0].name, tuple(moving))


def _protocols(topology: Topology) -> list[Protocol]:
    """Those that the topology could run in place of its method."""
    privacy, method = topology.privacy, topology.method
    fits = topology.flow.raw is None or topology.input.written
    mechanism = privacy.mechanism if privacy.mechanism in pure() else ORACLES[method.kind]
    shape: dict[str, Any] = (
        {"domain": privacy.domain}
        if privacy.categories is None
        else {"categories": privacy.categories}
    )
    found = []
    for name in sorted(PROTOCOLS):
        kind = PROTOCOLS[name]
        if kind.adaptive and not (fits and method.window <= LONGEST):
            continue
        try:
            found.append(
                kind(
                    epsilon=privacy.epsilon,
                    window=method.window,
                    oracle=MECHANISMS[mechanism],
                    **shape,
                )
            )
        except ConfigurationError:  # epsilon is too small for a report of so long a window
            continue
    return found
