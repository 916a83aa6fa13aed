"""What a topology publishes of made-up streams, beside the truth: by `ldp_kafka.runtime.local`, the
workers' own stages, from events to the bytes of releases.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.evaluation.coverage import streams
from ldp_kafka.evaluation.coverage.cells import Name, Row, Seen, row_of
from ldp_kafka.methods.absorption import BudgetAbsorption
from ldp_kafka.methods.protocols.coordinator import APPROXIMATE
from ldp_kafka.records import Events, Ids, Tick
from ldp_kafka.runtime import local
from ldp_kafka.runtime.coverage.subjects import (
    BINS,
    DELAY,
    DIMENSION,
    DOMAIN,
    SLOTS,
    WINDOW,
    Subject,
)
from ldp_kafka.runtime.coverage.told import reported, told
from ldp_kafka.runtime.keys import EdgeNoise, edge_randomness
from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.wire.codec import encode
from ldp_kafka.runtime.wire.parsing import parse_json
from ldp_kafka.topology import Topology

__all__ = ["DEPLOYMENT", "START", "cells", "digest_of", "published", "values_of"]

DEPLOYMENT = "coverage"

START = 1_700_000_000  # slots of a second since 1970
MANY = 2**20  # values of a log, about: runs of one log are as many as that
BATCH = 150  # runs after which it is seen whether more are needed
PATIENCE = 4  # times the runs that are asked for, where a cell is not in all of them
TOGETHER, ROWS = 64, 2**17  # messages, and events, that are folded at a time
PUBLISHED, HELD, JUMPED = "published", "held", "after the jump"
KINDS = ("low", "middle", "high")  # users and streams, by the third of the domain they are in

Release = dict[str, Any]
Number = tuple[Any, ...]
"""A row of `Seen`."""


def cells(subject: Subject, stream: str, users: int, runs: int, seed: int) -> list[Row]:
    """The cells of one subject, stream and number of users.

    Parameters
    ----------
    runs : of other streams and other noise; a curator's streams are one each. From `BATCH` on, no
        more are made once the bounds of all cells say enough, and up to `PATIENCE` times as many
        where a cell is not in all of them
    """
    topology = subject.topology
    digest = digest_of(subject, stream, users, seed)
    randomness = edge_randomness(topology, digest, DEPLOYMENT)
    rng = np.random.default_rng(np.frombuffer(digest, np.uint32))
    found: dict[tuple[str, str], list[Number]] = {}
    rows: list[Row] = []
    first, through = 0, min(BATCH, runs)
    most = runs * (PATIENCE if runs > BATCH else 1)
    while first < through:
        made = [values_of(subject, stream, users, rng) for _ in range(first, through)]
        if subject.curated:  # all streams in one log
            made = [np.concatenate(made)]
        for part in _logs(topology, subject, made, first):
            for cell, number in _numbers(subject, stream, part, randomness, topology):
                found.setdefault(cell, []).append(number)
        rows = [
            row_of(
                Name(subject.method, subject.statistic, stream, users, slots, of),
                _seen(numbers),
                lenient=slots == HELD
                or (slots == JUMPED and topology.method.phases > 0)
                or stream in ("all in one", "skewed"),
                averaged=topology.output.moving_average,
            )
            for (slots, of), numbers in sorted(found.items())
        ]
        first = through
        if not all(row.decided or row.runs >= runs for row in rows):
            through = min(2 * through, most)
    return rows


def digest_of(subject: Subject, stream: str, users: int, seed: int) -> bytes:
    """32 bytes, of which streams and noise are made."""
    name = f"{seed}/{subject.method}/{subject.statistic}/{stream}/{users}"
    return sha256(name.encode()).digest()


def published(
    topology: Topology, runs: Sequence[NDArray[Any]], randomness: EdgeNoise, first: int = 0
) -> list[Release]:
    """The releases of runs, each of users of its own, one run after the other in one log.

    Parameters
    ----------
    runs : of each the values (users, slots) or (users, slots, dimension), NaN or -1 where a user
        has none
    first : number of the first run, which names the users
    """
    log = list[bytes]()
    gap = _gap(topology)
    for at, values in enumerate(runs):
        start = START + at * (values.shape[1] + gap)
        there = _there(values)
        ids = _ids(first + at, len(values))
        for slot in range(values.shape[1]):
            who = np.flatnonzero(there[:, slot])
            if len(who):
                times = np.full(len(who), 1000 * (start + slot))
                log.append(
                    encode(Events(ids.take(who), times, np.ascontiguousarray(values[who, slot])))
                )
            else:
                log.append(encode(Tick(1000 * (start + slot + 1) - 1)))
        end = start + values.shape[1]
        # the last slot is closed before those in which nobody could answer a request
        after = gap if at < len(runs) - 1 else topology.method.delay
        log += [encode(Tick(1000 * end)), encode(Tick(1000 * (end + after)))]
    raw = [Message(offset, -1, value) for offset, value in enumerate(log)]
    together = min(TOGETHER, 1 + ROWS // len(runs[0]))
    made = local.run(topology, randomness, [raw], together=together)
    return [parse_json(record.value) for record in made.releases]


def _ids(run: int, users: int) -> Ids:
    """Of a run's users, written at once: texts one by one are a tenth of what all of it takes."""
    names, prefix = [str(user) for user in range(users)], f"u{run}-"
    ends = np.cumsum([0, *map(len, names)]) + len(prefix) * np.arange(users + 1)
    return Ids(np.frombuffer((prefix + prefix.join(names)).encode(), np.uint8), ends)


def _there(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Whether a user has a value in a slot (users, slots)."""
    if values.dtype.kind == "i":
        return np.asarray(values >= 0)
    return np.asarray(~np.isnan(values.reshape(*values.shape[:2], -1)).any(axis=2))


def _gap(topology: Topology) -> int:
    """Slots between two runs of one log, in which all windows close, and enough that no release
    looks back at another run's.
    """
    closing = topology.method.delay + 2 * DELAY + WINDOW
    return max(closing, topology.statistics.looks_back)


class _Log(NamedTuple):
    """Runs that share a log."""

    first: int
    """Number of the first."""
    runs: Sequence[NDArray[Any]]


def _logs(
    topology: Topology, subject: Subject, made: Sequence[NDArray[Any]], first: int
) -> Iterator[_Log]:
    """Each has its own where releases depend on those of other runs."""
    flow = topology.flow
    remembers = flow.sums is not None or flow.requests is not None or topology.method.cover
    together = 1 if remembers or subject.single else max(1, MANY // made[0].size)
    for at in range(0, len(made), together):
        yield _Log(first + at, made[at : at + together])


def values_of(subject: Subject, stream: str, users: int, rng: np.random.Generator) -> NDArray[Any]:
    """The values of one run."""
    if subject.categorical:
        return streams.categories(stream, users, SLOTS, rng)
    lo, hi = DOMAIN
    if not subject.vector:
        return lo + (hi - lo) * streams.numbers(stream, users, SLOTS, rng)
    one = streams.numbers(stream, users, SLOTS, rng)
    values = np.stack([one, *(rng.permutation(one) for _ in range(DIMENSION - 1))], axis=2)
    values = np.where(np.isnan(values).any(axis=2, keepdims=True), np.nan, values)
    if subject.ball:
        return np.asarray((values - 0.5) * hi / DIMENSION**0.5)
    return np.asarray(lo + (hi - lo) * values)


def _owners(subject: Subject, randomness: EdgeNoise, log: _Log) -> dict[str, int]:
    """By the name in a release the row of its user or stream, where a release is of one."""
    if not subject.single:
        return {}
    ids = [f"u{log.first}-{user}" for user in range(len(log.runs[0]))]
    if not subject.curated:
        series = np.ascontiguousarray(randomness.series(randomness.digests(ids)))
        ids = [bytes(row).hex() for row in series]
    return {name: at for at, name in enumerate(ids)}


def _numbers(
    subject: Subject, stream: str, log: _Log, randomness: EdgeNoise, topology: Topology
) -> Iterator[tuple[tuple[str, str], Number]]:
    """The slots and the kind of each number that is published, and what `Seen` has of it."""
    releases = published(topology, log.runs, randomness, log.first)
    owners = _owners(subject, randomness, log)
    length = log.runs[0].shape[1]
    pace = length + _gap(topology)
    scale = 1.0 if subject.shares else DOMAIN[1] - DOMAIN[0]
    truths = []
    for at, values in enumerate(log.runs):
        meant = told(topology.method, values, START + at * pace)
        if isinstance(topology.method, BudgetAbsorption) and not owners:
            users = _ids(log.first + at, len(values))
            meant = reported(topology.method, meant, START + at * pace, users, randomness)
        truths.append(_truths(subject, meant))
    kinds = [[_kind(subject, truth) for truth in truths[0]]] if owners else []
    jump = streams.JUMP * length
    jumped = range(int(jump), int(jump) + WINDOW) if stream in streams.JUMPS else range(0)
    standing: dict[int, int] = {}
    for release in releases:
        at, slot = divmod(release["slot"] - START, pace)
        if release["value"] is None or slot >= length:
            continue
        slots = PUBLISHED if release["strategy"] != APPROXIMATE else HELD
        slots = JUMPED if slot in jumped else slots
        run, truth = log.first + at, truths[at][..., slot]
        of = subject.numbers
        if owners:
            row = owners[release["user"]]
            run, truth = log.first + row if subject.curated else run, truths[at][row, ..., slot]
            of = [kinds[at][row]] * len(truth)
        interval = release["confidence_interval"] or (None, None)
        columns = (release["value"], release["standard_error"], *interval)
        lists = [each if isinstance(each, list) else [each] * len(truth) for each in columns]
        reports, reason = release["reports"], release.get("error_reason") or ""
        if release["strategy"] == APPROXIMATE:  # as many as what stands is made of
            reports = standing.get(at, reports)
        standing[at] = reports
        for which, true, value, error, low, high in zip(of, truth.tolist(), *lists, strict=True):
            if value is not None and not math.isnan(true):
                numbers = (
                    math.nan if each is None else (each - less) / scale
                    for each, less in ((value, true), (error, 0.0), (low, true), (high, true))
                )
                yield (slots, which), (run, slot, *numbers, reports, reason)


def _truths(subject: Subject, values: NDArray[Any]) -> NDArray[np.float64]:
    """What is released of values (users, slots, ...): (numbers, slots), or of each user (users,
    numbers, slots); NaN where nobody has a value.
    """
    if subject.single:
        return values[:, None] if values.ndim == 2 else values.swapaxes(1, 2)
    lo, hi = DOMAIN
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of slots in which nobody has a value
        if not subject.shares:
            means = np.asarray(np.nanmean(values, axis=0))
            return means[None] if values.ndim == 2 else means.T
        if subject.categorical:
            codes = values
        else:
            codes = np.minimum(np.floor((values - lo) / (hi - lo) * BINS), BINS - 1)
        many = _there(values).sum(axis=0)
        return np.stack([(codes == at).sum(axis=0) / many for at in subject.places])


def _kind(subject: Subject, truth: NDArray[np.float64]) -> str:
    """By the third of the domain in which a user's mean lies."""
    lo, hi = (-DOMAIN[1] / 2, DOMAIN[1] / 2) if subject.ball else DOMAIN
    there = truth[~np.isnan(truth)]
    mean = there.mean() if len(there) else lo
    return KINDS[min(2, max(0, int(3 * (mean - lo) / (hi - lo))))]


def _seen(numbers: Sequence[Number]) -> Seen:
    run, slot, off, error, low, high, reports, reason = zip(*numbers, strict=True)
    return Seen(
        np.array(run, np.int64),
        np.array(slot, np.int64),
        np.array(off, np.float64),
        np.array(error, np.float64),
        np.array(low, np.float64),
        np.array(high, np.float64),
        np.array(reports, np.int64),
        np.array(reason, np.str_),
    )
