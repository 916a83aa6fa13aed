"""Single reports: their fields in JSON, and several of them as a batch."""

from __future__ import annotations

import re
from binascii import hexlify
from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import inf
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import orjson
from numpy.typing import NDArray

from ldp_kafka.errors import BadRecord, Reason
from ldp_kafka.records import Report, Reports
from ldp_kafka.runtime.wire.arrow import MARK, VERSION, WIDEST
from ldp_kafka.runtime.wire.parsing import HEX, LATEST, digest, dump_json, whole

__all__ = [
    "ROW",
    "SHARED",
    "UNSAID",
    "Stamps",
    "current",
    "of_phases",
    "report_of",
    "reports_of",
    "shared",
    "write_singles",
]

SHARED = {"fingerprint", "scale", "bound", "chunk", "phase", "closed", "cost", "settled"}
ROW = SHARED | {"id", "slot", "series"}
UNSAID = {"cost": 0, "settled": None}
_BITS = re.compile(r"(?:[0-9a-f]{2}){1,131072}")

Part: TypeAlias = bytes | list[bytes]
"""Of messages: what all of them say, or what each does."""


class Stamps(NamedTuple):
    """What messages (n,) say beside their rows, as columns."""

    bounds: NDArray[np.int64]
    chunks: NDArray[np.int64]
    phases: NDArray[np.int64]
    passed: NDArray[np.intp]
    """Which of `said` each says."""
    said: Sequence[tuple[int | None, int | None]]
    """What the edge has closed, and what has settled, when a message is sent."""

    @classmethod
    def of(cls, batch: Reports) -> Stamps:
        """What a batch says of itself, for each of its rows."""
        own = np.array([[batch.bound], [batch.chunk], [batch.phase], [0]], np.int64)
        bounds, chunks, phases, passed = np.broadcast_to(own, (4, len(batch)))
        return cls(bounds, chunks, phases, passed, [(batch.closed, batch.settled)])

    def take(self, rows: NDArray[np.intp]) -> Stamps:
        """Of some of them."""
        bounds, chunks, phases, passed = (column[rows] for column in self[:4])
        return Stamps(bounds, chunks, phases, passed, self.said)

    def each(self) -> Iterator[tuple[int, int, int, tuple[int | None, int | None]]]:
        """Bound, chunk, phase, and what is said to have passed."""
        passed = [self.said[each] for each in self.passed.tolist()]
        numbers = (column.tolist() for column in self[:3])
        return zip(*numbers, passed, strict=True)


def write_singles(batch: Reports, stamps: Stamps) -> list[bytes]:
    """Each report of a batch as a message of its own, in JSON.

    Parameters
    ----------
    batch : its own bound, chunk, phase, closed and settled do not count
    stamps : (n,) of each report
    """
    if not len(batch):
        return []
    links = () if batch.series is None else (b',"series":"', _digits(batch.series), b'"')
    ends = [_end(closed, batch.cost, settled) for closed, settled in stamps.said]
    return _joined(
        _beginning(batch.fingerprint),
        _digits(batch.ids),
        b'","slot":',
        _numbers(batch.slots),
        b',"phase":',
        _numbers(stamps.phases),
        *_emitted(batch.values),
        _scale(batch.scale),
        *links,
        b',"bound":',
        _numbers(stamps.bounds),
        b',"chunk":',
        _numbers(stamps.chunks),
        _chosen(ends, stamps.passed),
    )


def _joined(*parts: Part) -> list[bytes]:
    """What the parts say one after the other, row by row; at least one differs by row. What does
    not is put together once.
    """
    form = b"".join(
        part.replace(b"%", b"%%") if isinstance(part, bytes) else b"%b" for part in parts
    )
    rows = zip(*(part for part in parts if not isinstance(part, bytes)), strict=True)
    return list(map(form.__mod__, rows))


def _emitted(values: NDArray[Any]) -> tuple[Part, ...]:
    """What the mechanism emitted for each report."""
    if values.dtype == np.uint8:
        return b',"bits":"', _digits(values), b'"'
    if values.ndim == 1:
        return b',"index":', _numbers(values)
    return b',"index":[', _texts(values)[1:-1].split(b"],["), b"]"


def _numbers(column: NDArray[np.int64]) -> Part:
    """Whole numbers (n,), n > 0: one text where all are equal."""
    if _varies(column):
        return _texts(column).split(b",")
    return b"%d" % column.item(0)


def _varies(column: NDArray[np.int64]) -> bool:
    """Whether not all of these (n,) are equal."""
    return len(column) > 1 and bool((column != column[0]).any())


def _texts(numbers: NDArray[np.int64]) -> bytes:
    """Whole numbers as JSON, without the outer brackets."""
    return orjson.dumps(np.ascontiguousarray(numbers), option=orjson.OPT_SERIALIZE_NUMPY)[1:-1]


def _digits(rows: NDArray[Any]) -> list[bytes]:
    """The bytes of each row as hexadecimal digits."""
    found = np.ascontiguousarray(rows)
    return hexlify(found.data, b",", found.nbytes // len(found)).split(b",")


def _chosen(texts: Sequence[bytes], which: NDArray[np.intp]) -> Part:
    """Of these texts the one of each row (n,), n > 0: one where all have the same."""
    if _varies(which):
        return [texts[each] for each in which.tolist()]
    return texts[which.item(0)]


@lru_cache
def _beginning(fingerprint: str) -> bytes:
    """What comes before a report's id."""
    begun = dump_json({MARK: VERSION, "type": "report", "fingerprint": fingerprint})
    return begun[:-1] + b',"id":"'


@lru_cache(typed=True)  # 2 and 2.0 are equal, and each is written as it is
def _scale(scale: float) -> bytes:
    return b"" if scale == 1 else b"," + dump_json({"scale": scale})[1:-1]


@lru_cache
def _end(closed: int | None, cost: int, settled: int | None) -> bytes:
    """What comes after a report's chunk."""
    return b"," + dump_json({"closed": closed, **of_phases(cost, settled)})[1:]


def of_phases(cost: int, settled: int | None) -> dict[str, int]:
    """What only batches have whose slots have several phases."""
    said = {"cost": cost} if cost else {}
    return said if settled is None else {**said, "settled": settled}


def current(found: Any) -> Any:
    """What a report says beside its rows, under the names of today: batches were numbered by the
    offsets of raw messages once, and what such a version has sent goes on to count.
    """
    if isinstance(found, dict) and "offset" in found and "bound" not in found:
        return {"bound" if name == "offset" else name: each for name, each in found.items()}
    return found


def report_of(body: dict[str, Any]) -> Reports:
    """The batch of one row that these fields say. BadRecord otherwise."""
    body = current({"scale": 1, "series": None, **UNSAID, **body})
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
        whole(found["bound"], -1)
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
