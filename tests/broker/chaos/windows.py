"""What windows must have released, as their raw log lies in the end: each slot of a stream once."""

from __future__ import annotations

from collections import Counter, defaultdict

from ldp_kafka.accounting import micro
from ldp_kafka.methods.windowed import Windowed
from ldp_kafka.runtime import local
from tests.broker.chaos import rounds
from tests.broker.flow import Flow, header, moved

__all__ = ["check", "overspent"]


def check(flow: Flow, expected: local.Run, verdict) -> None:
    """Compare all that a curator ever released; what is wrong is added to ``verdict.wrong``.
    Another value under a key is a second draw of the same slot.
    """
    wrong = verdict.wrong
    came = [
        (m.partition(), m.key(), m.value())
        for m in flow.read(flow.topology.releases_topic)
        if not header(m.value())
    ]
    wanted = {record.key: record.value for record in expected.releases}
    wrong["two truths"] = len(expected.releases) - len(wanted)
    seen: dict[bytes, set[bytes]] = defaultdict(set)
    for _, key, value in came:
        seen[key].add(value)
    wrong["second releases"] = sum(len(values) > 1 for values in seen.values())
    missing = sorted(wanted.keys() - seen.keys())
    other = sorted(key for key, values in seen.items() if values != {wanted.get(key)})
    wrong["missing releases"], wrong["different releases"] = len(missing), len(other)
    wrong["releases out of order"] = moved(expected, came)
    verdict.details += [f"missing: {wanted[key]!r}" for key in missing[:5]]
    verdict.details += [f"{seen[key]!r} came, not {wanted.get(key)!r}" for key in other[:5]]


def overspent(flow: Flow, owners: dict[str, tuple[bytes, int]], seen: dict[str, set]) -> int:
    """Users who, in some run of ``window`` slots, spent more than the budget where each user's edge
    releases windows: every report that was ever seen is charged, and two under one id are two.
    """
    method = flow.topology.method
    assert isinstance(method, Windowed)
    spent: dict[bytes, Counter[int]] = defaultdict(Counter)
    for name, said in seen.items():
        if name in owners:
            user, slot = owners[name]
            spent[user][slot] += method.spend * len(said)
    return rounds.over(spent.values(), method.window, micro(method.epsilon))
