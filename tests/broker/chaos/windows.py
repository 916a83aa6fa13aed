"""What a curator must have released, as its raw log lies in the end: each slot of a stream once."""

from __future__ import annotations

from collections import defaultdict

from ldp_kafka.runtime import local
from tests.broker.flow import Flow, header, moved

__all__ = ["check"]


def check(flow: Flow, expected: local.Run, verdict) -> None:
    """Compare all that was ever released; what is wrong is added to ``verdict.wrong``. Another
    value under a key is a second draw of the same slot.
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
