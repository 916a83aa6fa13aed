"""What a protocol of LDP-IDS released and counted on a broker, beside the trace that
`ldp_kafka.protocol(...).run` makes of the same streams.
"""

from __future__ import annotations

import json
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ldp_kafka as lk
from ldp_kafka.methods.protocols import Trace
from ldp_kafka.runtime.replay.source import Source
from ldp_kafka.runtime.wire.reports import read_reports
from tests.broker.flow import Flow

__all__ = ["compared", "jumping", "releases"]


def jumping(rng: np.random.Generator, users: int, slots: int, categories: int) -> NDArray[np.int64]:
    """(users, slots) categories whose shares jump every three slots."""
    shares = np.repeat(rng.dirichlet([1] * categories, slots // 3 + 1), 3, axis=0)[:slots]
    return np.stack([rng.choice(categories, users, p=share) for share in shares], axis=1)


def releases(flow: Flow) -> list[dict[str, Any]]:
    """Of each slot, each seen once or more, and always alike."""
    found: dict[int, dict[str, Any]] = {}
    for message in flow.read(flow.topology.releases_topic):
        record = json.loads(message.value())
        if record["type"] == "release":
            assert found.setdefault(record["slot"], record) == record
    return [found[slot] for slot in sorted(found)]


def compared(
    flow: Flow,
    found: list[dict[str, Any]],
    source: Source,
    values: NDArray[Any],
    first: int,
    before: float = inf,
) -> tuple[Trace, dict[tuple[str, int], Any]]:
    """Releases of streams (users, slots) from slot ``first`` on are what the protocol makes of
    them, and no report of a slot ``before`` this one came twice: the trace, and the reports by id
    and phase.
    """
    made, privacy = flow.topology, flow.topology.privacy
    protocol = lk.protocol(
        privacy.method,
        epsilon=privacy.epsilon,
        window=privacy.window,
        categories=privacy.categories,
        domain=privacy.domain,
        bins=made.output.bins,
        oracle=privacy.mechanism,
        **made.output.postprocess.on,
    )
    trace = protocol.run(values, flow.noise(), users=source.users, first_slot=first)
    assert [release["slot"] for release in found] == list(range(first, first + values.shape[1]))
    said = np.array([release["value"] for release in found], float)
    np.testing.assert_allclose(said, trace.values, rtol=1e-13)
    if made.flow.sums is not None:
        assert [release["strategy"] for release in found] == trace.strategy.tolist()
    counted: dict[tuple[str, int], Any] = {}
    for message in flow.read(made.reports_topic):
        batch = read_reports(message.value())
        for one in () if batch is None else batch.singles():
            if one.slot < before:
                assert counted.setdefault((one.id, one.phase), one) == one
    assert len(counted) == trace.reports.sum()
    return trace, counted
