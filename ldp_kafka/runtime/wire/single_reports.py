"""Single reports: their fields in JSON, and several of them as a batch."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.errors import BadRecord, Reason
from ldp_kafka.records import Report, Reports, hexadecimal
from ldp_kafka.runtime.wire.arrow import MARK, VERSION, WIDEST
from ldp_kafka.runtime.wire.parsing import HEX, LATEST, digest, whole

__all__ = [
    "ROW",
    "SHARED",
    "UNSAID",
    "of_phases",
    "report_of",
    "reports_of",
    "shared",
    "write_singles",
]

SHARED = {"fingerprint", "scale", "offset", "chunk", "phase", "closed", "cost", "settled"}
ROW = SHARED | {"id", "slot", "series"}
UNSAID = {"cost": 0, "settled": None}
_BITS = re.compile(r"(?:[0-9a-f]{2}){1,131072}")


def write_singles(
    batch: Reports,
    offsets: Sequence[int],
    chunks: Sequence[int],
    phases: Sequence[int],
    passed: Sequence[tuple[int | None, int | None]],
) -> list[bytes]:
    """Each report of a batch as a message of its own, in JSON.

    Parameters
    ----------
    batch : its own offset, chunk, phase, closed and settled do not count
    offsets, chunks, phases : (n,) of each report
    passed : (n,) what the edge has closed, and what has settled, when each report is sent
    """
    head = f'{{"{MARK}":{VERSION},"type":"report","fingerprint":{_json(batch.fingerprint)},"id":"'
    scale = f',"scale":{_json(batch.scale)}' if batch.scale != 1 else ""
    links = (
        [scale] * len(batch)
        if batch.series is None
        else [f'{scale},"series":"{link}"' for link in hexadecimal(batch.series)]
    )
    ends = {}
    lasts = list(zip(chunks, passed, strict=True))
    for chunk, (closed, settled) in set(lasts):
        last = {"chunk": chunk, "closed": closed, **of_phases(batch.cost, settled)}
        ends[chunk, (closed, settled)] = f",{_json(last)[1:]}"
    rows = zip(
        hexadecimal(batch.ids), batch.slots.tolist(), phases, _emitted(batch), links, offsets,
        lasts, strict=True,
    )  # fmt: skip
    return [
        (
            f'{head}{name}","slot":{slot},"phase":{phase},{value}{link}'
            f',"offset":{offset}{ends[last]}'
        ).encode()
        for name, slot, phase, value, link, offset, last in rows
    ]


def _emitted(batch: Reports) -> list[str]:
    """What the mechanism emitted for each report."""
    if batch.values.dtype == np.uint8:
        return [f'"bits":"{bits.tobytes().hex()}"' for bits in batch.values]
    return [f'"index":{_json(index)}' for index in batch.values.tolist()]


def _json(found: Any) -> str:
    return str(found) if type(found) is int else json.dumps(found, separators=(",", ":"))


def of_phases(cost: int, settled: int | None) -> dict[str, int]:
    """What only batches have whose slots have several phases."""
    said = {"cost": cost} if cost else {}
    return said if settled is None else {**said, "settled": settled}


def report_of(body: dict[str, Any]) -> Reports:
    """The batch of one row that these fields say. BadRecord otherwise."""
    body = {"scale": 1, "series": None, **UNSAID, **body}
    if body.keys() - ROW not in ({"index"}, {"bits"}) or not body.keys() >= ROW:
        raise BadRecord(Reason.WRONG_FIELDS)
    slot, series = body["slot"], body["series"]
    if not whole(slot, 0, LATEST):
        raise BadRecord(Reason.WRONG_FIELDS)
    values: NDArray[Any]
    if "index" in body:
        index = body["index"]
        if not (
            whole(index)
            or (type(index) is list and 1 <= len(index) <= WIDEST and all(map(whole, index)))
        ):
            raise BadRecord(Reason.WRONG_FIELDS)
        values = np.array([index])
    else:
        if type(body["bits"]) is not str or not _BITS.fullmatch(body["bits"]):
            raise BadRecord(Reason.WRONG_FIELDS)
        values = np.frombuffer(bytes.fromhex(body["bits"]), np.uint8).reshape(1, -1)
    common = shared({name: body[name] for name in SHARED})
    return Reports(
        digest(body["id"]),
        np.array([slot]),
        values,
        series=None if series is None else digest(series),
        **common,
    )


def shared(found: Any) -> dict[str, Any]:
    """What all rows of a report batch have in common, checked."""
    if not isinstance(found, dict):
        raise BadRecord(Reason.WRONG_FIELDS)
    found = {**UNSAID, **found}
    if found.keys() != SHARED:
        raise BadRecord(Reason.WRONG_FIELDS)
    fingerprint, scale, closed = found["fingerprint"], found["scale"], found["closed"]
    if not (
        type(fingerprint) is str
        and HEX.fullmatch(fingerprint)
        and type(scale) in (int, float)
        and 2**-64 <= scale <= 2**64
    ):
        raise BadRecord(Reason.WRONG_FIELDS)
    if not (
        whole(found["offset"], -1)
        and whole(found["chunk"], 0)
        and whole(found["phase"], 0, 2**16)
        and whole(found["cost"], 0, 2**31)
        and all(each is None or whole(each) for each in (closed, found["settled"]))
    ):
        raise BadRecord(Reason.WRONG_FIELDS)
    return dict(found)


def reports_of(records: list[Report]) -> Reports:
    """Single reports of one fingerprint and phase as a batch without a source."""
    first = records[0]
    if any(
        (r.fingerprint, r.phase, r.series is None)
        != (first.fingerprint, first.phase, first.series is None)
        for r in records
    ):
        raise ValueError(
            "the reports of a batch must share fingerprint, phase and whether they have a series"
        )
    found = [r.value for r in records]
    ids = np.concatenate([digest(r.id) for r in records])
    series = None if first.series is None else np.concatenate([digest(r.series) for r in records])
    slots = np.array([r.slot for r in records])
    if any(isinstance(value, bytes) for value in found):
        packed = [value for value in found if isinstance(value, bytes)]
        if (
            len(packed) != len(found)
            or len({len(value) for value in packed}) != 1
            or not 1 <= len(packed[0]) <= WIDEST
        ):
            raise ValueError("packed reports must all have the same number of bytes")
        bits = np.frombuffer(b"".join(packed), np.uint8).reshape(len(packed), -1)
        return Reports(
            ids, slots, bits, 1, first.fingerprint, -1, None, phase=first.phase, series=series
        )
    vectors = [value for value in found if isinstance(value, tuple)]
    if vectors and (
        len(vectors) < len(found)
        or len({len(vector) for vector in vectors}) != 1
        or not 1 <= len(vectors[0]) <= WIDEST
    ):
        raise ValueError("reports of vectors must all have the same number of coordinates")
    values = [number for vector in vectors for number in vector] or [
        value for value in found if not isinstance(value, bytes | tuple)
    ]
    if not all(-inf < value < inf for value in values):
        raise ValueError("a report's value must be finite")
    power = next(
        (
            k
            for k in range(53)
            if all(float(value) * 2**k == int(float(value) * 2**k) for value in values)
        ),
        None,
    )
    if power is None:
        raise ValueError("a report's value must be a whole multiple of a power of two")
    index = [int(float(value) * 2**power) for value in values]
    if not all(-(2**62) <= each < 2**62 for each in index):
        raise ValueError("a report's value must be a 62-bit number of steps of its scale")
    scale = 2.0**-power if power else 1
    indices = np.array(index).reshape((len(found), -1)) if vectors else np.array(index)
    return Reports(
        ids, slots, indices, scale, first.fingerprint, -1, None, phase=first.phase, series=series
    )
