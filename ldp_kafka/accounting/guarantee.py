"""What a topology promises, as data."""

from __future__ import annotations

from decimal import Decimal
from math import inf
from typing import Any, NamedTuple

from ldp_kafka.accounting.words import at_most

__all__ = ["MICRO", "PRESENCE", "Guarantee", "micro"]

MICRO = 1_000_000  # budgets are counted in whole micro-epsilon
PRESENCE = "values and presence"
"""`Guarantee.protects` where neighbours may differ in which slots have a value, too."""


def micro(epsilon: float) -> int:
    """Whole micro-epsilon in epsilon as it was written, rounded down.

    Examples
    --------
    >>> micro(0.1), micro(0.3)  # 0.1 * 3 is not 0.3 in floating point; as written it is
    (100000, 300000)
    """
    return int(Decimal(repr(float(epsilon))) * MICRO)


class Guarantee(NamedTuple):
    """Whatever is changed about one user inside one run of ``window`` slots, no set of outputs
    becomes more than e^epsilon times likelier (plus delta).

    At level ``user`` all of a user's values may change, and ``window`` is the most reports that it
    ever makes. At level ``event`` the value of one slot of one stream may change. Where ``subject``
    is ``stream``, the values of a run are those of one stream, whoever they come from.
    """

    level: str
    """``w-event``, ``event`` or ``user``: which streams are neighbours."""
    epsilon: float
    """What truly holds, in nats; ``inf`` where nothing does over an endless stream."""
    delta: float
    window: int
    """Slots in the privacy window; at level ``user`` reports in a user's life."""
    influence: float
    """Reports that one run of changed values can reach; ``inf`` without bound."""
    protects: str
    """``values``, `PRESENCE` or ``time``."""
    calibration: str
    """``sound`` or ``published``."""
    within: str = ""
    """What else is asked of neighbours, in words; empty: nothing."""
    subject: str = "user"
    """Whose values change: ``user``, or ``stream``: everything released of the stream counts, and
    not reports.
    """

    def describe(self, *, linked: str = "") -> str:
        r"""The line that is printed wherever a topology is, its numbers rounded up; ``linked``: by
        what whoever reads the reports links those of a user, which the guarantee does not prevent.

        Examples
        --------
        >>> line = Guarantee("w-event", 1.0, 0.0, 10, 10, "values", "sound").describe()
        >>> print(*line.split("; "), sep="\n")
        w-event, epsilon 1 over any 10 consecutive slots of a user
        protects values
        calibration sound
        reports that one changed window can alter: 10
        holds against anyone without the edge key
        >>> line = Guarantee("user", 1.0, 1e-5, 100, 100, "values", "sound").describe()
        >>> line.split("; ")[0].split(", ")[1]
        'epsilon 1 and delta 1e-05 over the first 100 reports of a user'
        >>> whose = "a slot's whole value"
        >>> line = Guarantee("event", 1.0, 0.0, 1, 12, "values", "sound", whose).describe()
        >>> print(*line.split("; "), sep="\n")
        event, epsilon 1 over all that is released of a stream, for the value of any one slot of it
        protects values, a slot's whole value
        calibration sound
        draws that one changed value can alter: 12
        holds against anyone without the key of the noise
        >>> whose = "each slot's whole value"
        >>> line = Guarantee("w-event", 1.0, 0.0, 7, 84, "values", "sound", whose, "stream")
        >>> print(*line.describe().split("; ")[:2], sep="\n")
        w-event, epsilon 1 over all that is released of a stream, for any 7 consecutive slots of it
        protects values, each slot's whole value
        >>> line.describe().split("; ")[3]
        'draws that one changed window can alter: 84'
        >>> line = Guarantee("w-event", 1.0, 0.0, 10, 10, "values", "sound").describe(linked="time")
        >>> line.split("; ")[-1]
        'not anonymous: reports of a user can be linked by time'
        """
        known = f"; not anonymous: reports of a user can be linked by {linked}" if linked else ""
        protects = (
            "time only: when a value was taken, not what it is"
            if self.protects == "time"
            else self.protects
        )
        protects += f", {self.within}" * bool(self.within)
        if self.epsilon == inf:
            return f"{self._none(protects)}{known}"
        failure = f" and delta {at_most(self.delta)}" if self.delta else ""
        if self.level == "user":
            over = (
                f"over the first {self.window} report{'s' * (self.window != 1)} of a user, after"
                " which it is silent"
            )
        else:
            over = f"over any {self.window} consecutive slots of a user"
        if self.level == "event" or self.subject == "stream":
            run = self.window > 1
            whose = f"any {self.window} consecutive slots" if run else "the value of any one slot"
            return (
                f"{self.level}, epsilon {at_most(self.epsilon)}{failure} over all that is released"
                f" of a stream, for {whose} of it; protects {protects}; calibration"
                f" {self.calibration}; draws that one changed {'window' if run else 'value'} can"
                f" alter: {at_most(self.influence)}; holds against anyone without the key of the"
                f" noise{known}"
            )
        changed = "stream" if self.level == "user" else "window"
        return (
            f"{self.level}, epsilon {at_most(self.epsilon)}{failure} {over}; protects {protects};"
            f" calibration {self.calibration}; reports that one changed {changed} can alter:"
            f" {at_most(self.influence)}; holds against anyone without the edge key{known}"
        )

    def brief(self) -> str:
        """The beginning of `describe`: the level, epsilon, and over what it holds.

        Examples
        --------
        >>> Guarantee("w-event", 1.0, 0.0, 10, 10, "values", "sound").brief()
        'w-event, epsilon 1 over any 10 consecutive slots of a user'
        """
        return self.describe().partition("; ")[0]

    def _none(self, protects: str) -> str:
        """That nothing is guaranteed, and why."""
        if self.level == "user":
            return (
                f"NONE for a user's whole stream (calibration {self.calibration}: what its reports"
                f" lose together has no bound that can be proved); protects {protects} in no way"
                " that can be stated"
            )
        if self.protects == "time":
            return (
                f"NONE (calibration {self.calibration}: the loss of one report has no bound); meant"
                f" to protect {protects}"
            )
        return (
            f"NONE over an endless stream (calibration {self.calibration}: one window reaches every"
            f" later report); protects {protects} for a finite horizon only"
        )

    def as_json(self) -> dict[str, Any]:
        """The same for machines: infinities are null, since JSON has none; without what is asked of
        neighbours where that is nothing, and without whose values change where that is a user.
        """
        usual = {"within": "", "subject": "user"}
        return {
            name: None if value == inf else value
            for name, value in self._asdict().items()
            if usual.get(name) != value
        }
