"""Single reports written many at a time, each as a message of its own."""

from __future__ import annotations

import json

import numpy as np
import pytest

from ldp_kafka.records import Reports, hexadecimal
from ldp_kafka.runtime.wire.reports import read_reports, write_reports
from ldp_kafka.runtime.wire.single_reports import Stamps, write_singles

N = 5
DIGESTS = np.random.default_rng(5).integers(0, 2**64, (2, N, 2), np.uint64)
VALUES = {
    "index": np.array([0, -1, 7, 2**53 + 1, -(2**61)]),
    "vector": np.arange(3 * N).reshape(N, 3) - 7,
    "bits": np.arange(2 * N, dtype=np.uint8).reshape(N, 2) * 25,
}


def _batch(values, *, scale=1.0, series=False, cost=0):
    return Reports(
        DIGESTS[0], np.arange(N) * 10**9, values, scale, "f" * 32, 3, None,
        series=DIGESTS[1] if series else None, cost=cost,
    )  # fmt: skip


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("scale", [1, 1.0, 2.0**-20, 0.5, 2.0**40])
@pytest.mark.parametrize("series", [False, True])
@pytest.mark.parametrize("cost", [0, 250_000])
def test_each_is_the_message_that_it_would_be_alone(kind, scale, series, cost):
    """Down to the byte, whatever the batch; and what is read from it is the report."""
    batch = _batch(VALUES[kind], scale=scale, series=series, cost=cost)
    offsets, phases = [2**40 + at for at in range(N)], [0, 1, 2, 0, 1]
    said, which = [(4, None), (10**12, None), (None, None), (4, 3), (-1, -2)], [2, 0, 3, 4, 1]
    passed = [said[each] for each in which]
    chunks = [0, 0, 1, 2**14, 0]
    written = write_singles(batch, Stamps(*map(np.array, (offsets, chunks, phases, which)), said))
    assert len(written) == N
    for at in range(N):
        alone = batch.take(slice(at, at + 1)).stamp(
            offsets[at], chunks[at], phases[at], *passed[at]
        )
        assert written[at] == write_reports(alone)
        told = passed[at][1] is not None
        emitted = (
            {"bits": VALUES[kind][at].tobytes().hex()}
            if kind == "bits"
            else {"index": VALUES[kind][at].tolist()}
        )
        body = {
            "ldp_kafka": 1,
            "type": "report",
            "fingerprint": "f" * 32,
            "id": hexadecimal(DIGESTS[0])[at],
            "slot": at * 10**9,
            "phase": phases[at],
            **emitted,
            **({"scale": scale} if scale != 1 else {}),
            **({"series": hexadecimal(DIGESTS[1])[at]} if series else {}),
            "bound": offsets[at],
            "chunk": chunks[at],
            "closed": passed[at][0],
            **({"cost": cost} if cost else {}),
            **({"settled": passed[at][1]} if told else {}),
        }
        assert written[at] == json.dumps(body, separators=(",", ":")).encode()
        back = read_reports(written[at])
        assert (back.bound, back.chunk, back.phase, back.cost) == (
            offsets[at],
            chunks[at],
            phases[at],
            cost,
        )
        assert (back.closed, back.settled, back.scale) == (*passed[at], scale)
        assert np.array_equal(back.values[0], VALUES[kind][at])
        assert np.array_equal(back.ids[0], DIGESTS[0][at])


def test_none_are_no_message():
    none = _batch(VALUES["index"]).take(slice(0, 0))
    assert write_singles(none, Stamps.of(none)) == []
