"""What a judge says of a topology: reports and releases as they lie at the broker, against those of
a run that nothing happened to.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ldp_kafka.runtime import local
from ldp_kafka.runtime.wire.reports import read_reports
from tests.broker.asking import header

if TYPE_CHECKING:
    from tests.broker.flow import Flow

__all__ = ["Verdict", "compared", "told"]


@dataclass
class Verdict:
    """What the judge found of one topology."""

    events: int = 0
    reports: int = 0
    releases: int = 0
    published: int = 0
    """Releases of a coordinator that are no approximations."""
    late: int = 0
    """Slots that were asked for something when nobody could answer any more."""
    windows: int = 0
    """Windows that a curator has closed, of each stream by itself."""
    states: int = 0
    """Records of changelogs that were recomputed."""
    wrong: Counter[str] = field(default_factory=Counter)
    """How often what went wrong; empty is the promise."""
    details: list[str] = field(default_factory=list)
    """The first few records that are missing or different, as they are: the data are the tests'
    own.
    """
    exits: list[tuple[str, int]] = field(default_factory=list)
    """Workers that ended by themselves: role and exit code."""

    @property
    def clean(self) -> bool:
        """Nothing is wrong, and no worker had to halt: 75 says "start me again"."""
        return not +self.wrong and all(code in (0, 75) for _, code in self.exits)


def told(values: Iterable[bytes]) -> dict[str, set]:
    """Of each report id all that was ever said under it."""
    said: dict[str, set] = defaultdict(set)
    for value in values:
        batch = read_reports(value)
        for one in () if batch is None else batch.singles():
            said[one.id].add((one.slot, one.phase, str(one.value), one.series, batch.cost))
    return said


def compared(flow: Flow, expected: local.Run, verdict: Verdict) -> dict[str, set]:
    """Compare every report and every release, id by id and byte by byte; what was seen under each
    report id.
    """
    wrong = verdict.wrong
    verdict.events, verdict.releases = int(expected.counts["events"]), len(expected.releases)
    _releases(flow, expected, verdict)
    if flow.topology.curated:
        verdict.windows = int(expected.counts["windows"])
        return {}
    truth = told(record.value for partition in expected.reports for record in partition)
    seen = told(message.value() for message in flow.read(flow.topology.reports_topic))
    verdict.reports = len(truth)
    wrong["second reports"] = sum(len(found) > 1 for found in seen.values())
    wrong["missing reports"] = len(truth.keys() - seen.keys())
    wrong["different reports"] = sum(found != truth.get(name) for name, found in seen.items())
    wrong["two truths"] = sum(len(found) > 1 for found in truth.values())
    return seen


def _releases(flow: Flow, expected: local.Run, verdict: Verdict) -> None:
    """Of a curator another value under a key is a second draw of the same slot, and releases have
    the order of the log.
    """
    wrong = verdict.wrong
    came = [
        (m.partition(), m.key(), m.value())
        for m in flow.read(flow.topology.releases_topic)
        if not header(m.value())
    ]
    wanted = {(record.key, record.value) for record in expected.releases}
    released = {(key, value) for _, key, value in came}
    wrong["missing releases"] = len(wanted - released)
    wrong["different releases"] = len(released - wanted)
    if flow.topology.curated:
        wrong["two truths"] = len(expected.releases) - len({key for key, _ in wanted})
        wrong["second releases"] = len(released) - len({key for key, _ in released})
        wrong["releases out of order"] = _moved(expected, came)
    verdict.details += [
        f"{name}: {found!r}"
        for name, few in (("missing", wanted - released), ("different", released - wanted))
        for found in sorted(few)[:5]
    ]


def _moved(expected: local.Run, came: list[tuple[int, bytes, bytes]]) -> int:
    """In how many partitions the first copies of releases, given as (partition, key, value), lie in
    another order than they must. What is replayed is written again behind them.
    """
    wanted: dict[int, dict[bytes, None]] = defaultdict(dict)
    firsts: dict[int, dict[bytes, None]] = defaultdict(dict)
    for record in expected.releases:
        wanted[record.partition][record.key] = None
    for partition, key, _ in came:
        firsts[partition][key] = None
    return sum(list(wanted[number]) != list(firsts[number]) for number in wanted | firsts)
