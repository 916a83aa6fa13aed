"""Reports that wait for bounds: the bounds by a slow twin, and no crash that loses one of them or
sends it in another batch.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import fields, replace
from functools import cached_property
from itertools import product
from random import Random

import numpy as np
import pytest

from ldp_kafka.runtime.stages import perturb
from ldp_kafka.runtime.stages.bounds import Bound, assign, cut, find_bounds
from ldp_kafka.runtime.stages.perturb import Perturb
from tests.depth import depth
from tests.fold import cases
from tests.fold.bound_mutants import MUTANTS, NUMBERS, like
from tests.fold.driver import Recipe
from tests.fold.scripts import SCRIPTS, crash_between_shards_and_meta, edge_world, finish, play
from tests.fold.test_equivalence import METHODS, edge_of, folded, splits, wild
from tests.fold.test_recovery import CHUNKS

LOGS = depth(200, 5000)
SLIPS = depth(6, 40)
AHEAD = crash_between_shards_and_meta


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_wait_is_found(name, monkeypatch):
    """In a script that `test_named_fault` plays with the recipe as it is."""
    mutant = MUTANTS[name]
    assert mutant.script in SCRIPTS.values() and mutant.recipe.chunk in CHUNKS
    mutant.patch(monkeypatch)
    assert mutant.complaint in play(mutant.script, mutant.recipe, statistics=cases.CROWDS)


@pytest.mark.parametrize("name", NUMBERS)
def test_bounds_that_slip_are_found(name, monkeypatch):
    """Of batches between bounds, or of a batch a message, in logs with repeats."""
    kind = NUMBERS[name]
    broken = like(kind) if issubclass(kind, Perturb) else Recipe()
    if not issubclass(kind, Perturb):
        monkeypatch.setattr(perturb, "Accepted", kind)
    assert any(
        "different batch" in finish(edge_world(log, broken, statistics=statistics), AHEAD)
        for log, statistics in repeats()
    )


def repeats():
    """Logs with repeats in them, and both ways of making batches."""
    return product(map(cases.wild, range(SLIPS)), cases.BOTH)


def test_bounds_do_not_slip():
    """The same crashes, with the stage as it is."""
    for log, statistics in repeats():
        assert finish(edge_world(log, statistics=statistics), AHEAD) == set(), statistics


def slowly(log, most, counts):
    """(place, rows that go) of each bound of a log, and what waits: row by row. A message is
    ([(slot, name)], the last slot that it closes, or None).
    """
    waiting = [(slot, -1 - at) for slot, n in counts.items() for at in range(n)]
    found = []
    for at, (rows, closed) in enumerate(log):
        waiting += rows
        going = [] if closed is None else [row for row in waiting if row[0] <= closed]
        waiting = [row for row in waiting if row not in going]
        while len(waiting) >= most:
            sizes = Counter(slot for slot, _ in waiting)
            fullest = min(sizes, key=lambda slot: (-sizes[slot], slot))
            going += [row for row in waiting if row[0] == fullest]
            waiting = [row for row in waiting if row[0] != fullest]
        if going or closed is not None:
            found.append((at, sorted(going)))
    return found, waiting


def random_log(random, slots, names):
    """Messages of some rows; what is closed gets no more."""
    log, closed = [], 0
    for _ in range(random.randrange(12)):
        size = random.choice((0, 1, 1, 2, 5, 60))
        rows = [(random.randrange(closed + 1, closed + slots), next(names)) for _ in range(size)]
        moves = random.random() < 0.3
        closed += random.randrange(1, 3) * moves
        log.append((rows, closed if moves else None))
    return log


def test_bounds_are_those_of_a_slow_twin():
    """However the log is cut into runs."""
    random = Random(4)
    for number in range(LOGS):
        most, names = random.choice((1, 2, 3, 10, 70)), iter(range(10**6))
        log = random_log(random, random.choice((2, 4)), names)
        expected, waits = slowly(log, most, {})
        counts, held, found, at = {}, [], [], 0
        while at < len(log):
            run = log[at : at + random.randint(1, 5)]
            rows = [(*row, at + nth) for nth, (some, _) in enumerate(run) for row in some]
            slots = np.array([row[0] for row in rows], np.int64)
            message = np.array([row[2] - at for row in rows], np.intp)
            closes = [(nth, closed) for nth, (_, closed) in enumerate(run) if closed is not None]
            bounds = find_bounds(counts, slots, message, closes, len(run), most)
            held += rows
            places = [at + bound.at for bound in bounds]
            slots, came = (np.array([row[k] for row in held], np.int64) for k in (0, 2))
            goes, of = assign(bounds, np.array(places, np.int64), slots, came)
            for nth, place in enumerate(places):
                found.append((place, sorted(held[row][:2] for row in goes[of == nth].tolist())))
            held = [row for nth, row in enumerate(held) if nth not in goes]
            at += len(run)
        assert (found, sorted(row[:2] for row in held)) == (expected, sorted(waits)), number
        assert counts == Counter(slot for slot, _ in waits)
        assert sum(counts.values()) < most


class Looking(Perturb):
    """Looks for bounds, and has reports wait for them, though each message is one."""

    _waits = True


class Together(Perturb):
    """Sends reports of several slots in one message."""

    @cached_property
    def _messages(self):
        return replace(super()._messages, by_slot=False)


@pytest.mark.parametrize("method", METHODS)
def test_where_none_wait_each_message_is_a_bound(method):
    """Nobody looks for it: records, counts and state are those that would be found. A broken twin
    is told from it.
    """
    random, told = Random(2), 0
    for seed in range(4):
        stage = replace(edge_of(method), report_rows=1)
        log, given = (
            wild(method, seed),
            {each.name: getattr(stage, each.name) for each in fields(stage)},
        )
        expected = folded(Looking(**given), log, [1] * len(log))
        assert expected[1]["reports"] > 5
        assert json.loads(expected[2][0])["waiting"] == []
        for sizes in (
            [1] * len(log),
            [len(log)],
            *(list(splits(len(log), random)) for _ in range(3)),
        ):
            assert folded(Looking(**given), log, sizes) == expected
            assert folded(stage, log, sizes) == expected
        told += folded(Together(**given), log, [len(log)]) != expected
    # categories come one event a message
    assert told or method == "lpu"


def test_a_bound_is_where_enough_wait_and_not_before():
    """Of two slots with as many rows the earlier one goes; what is closed goes all."""
    counts = {}
    slots, message = np.array([5, 6, 6, 5, 7]), np.array([0, 0, 1, 2, 3])
    assert find_bounds(counts, slots, message, [], 4, 4) == [Bound(2, None, (5,))]
    assert counts == {6: 2, 7: 1}
    assert find_bounds(counts, slots[:0], message[:0], [(0, 6)], 1, 4) == [Bound(0, 6)]
    assert counts == {7: 1}


def test_messages_are_cut_as_a_slow_twin_cuts_them():
    """By bound, then key by key, each part sorted by id and cut: numbered over the whole bound."""
    rng = np.random.default_rng(3)
    for number in range(depth(100, 2000)):
        n, most = int(rng.integers(0, 40)), int(rng.integers(1, 6))
        ids = rng.permutation(n).astype(np.uint64)
        bounds = 50 if number % 5 == 0 else 3
        bound = np.sort(rng.integers(0, bounds, n))
        if number % 10 == 0:  # at most one row goes to each
            bound = np.sort(rng.choice(bounds, n, replace=False))
        # of some keys one number is not enough to hold all of them together
        keys = [rng.integers(0, 3, n) * int(rng.choice((1, 10**12))), rng.integers(0, 2, n)]
        if number % 2:
            bound = rng.permutation(bound)
        made = cut(ids, bound, keys, most)
        expected = []
        for of in range(bounds):
            parts = []
            for a, b in sorted({(x, y) for x, y in zip(*keys, strict=True)}):
                rows = np.flatnonzero((bound == of) & (keys[0] == a) & (keys[1] == b))
                rows = rows[np.argsort(ids[rows])].tolist()
                parts += [rows[start : start + most] for start in range(0, len(rows), most)]
            expected += [(part, chunk, part is parts[-1]) for chunk, part in enumerate(parts)]
        ends = made.ends.tolist()
        found = [
            (made.order[ends[at] : ends[at + 1]].tolist(), chunk, last)
            for at, (chunk, last) in enumerate(
                zip(made.chunk.tolist(), made.last.tolist(), strict=True)
            )
        ]
        assert found == expected
