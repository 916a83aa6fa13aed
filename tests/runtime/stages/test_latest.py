"""What users released last: averages are those of a slow twin, however releases come; nothing is
kept or sent twice where a shard is ahead.
"""

from __future__ import annotations

import numpy as np
import pytest

from ldp_kafka.runtime.log import Look
from ldp_kafka.runtime.stages.latest import Latest, without
from tests.cases import cases

SHARDS = 5


class Slow:
    """One release after the other, from all that a user has released."""

    def __init__(self, length, stride):
        self.length, self.stride, self.kept = length, stride, {}

    def one(self, user, slot, value):
        had = self.kept.setdefault(user, {})
        if had and slot <= max(had):
            return value
        had[slot] = value
        near = (slot - step * self.stride for step in range(self.length))
        return np.mean([had[each] for each in near if each in had])


def names(users):
    """A pseudonym each, spread over shards."""
    words = np.random.default_rng(9).integers(0, 2**63, (users.max() + 1, 2)).astype(np.uint64)
    return words[users]


def log(seed, stride=1, users=12, rows=400):
    """Releases in the order in which they come: some users skip slots, some are late."""
    rng = np.random.default_rng(seed)
    slots = stride * (np.sort(rng.integers(0, 40, rows)) + rng.choice([0, 0, 0, -3], rows)) + 1
    who = rng.integers(0, users, rows)
    _, first = np.unique(np.column_stack([who, slots]), axis=0, return_index=True)
    keep = np.sort(first)
    return who[keep], slots[keep], rng.normal(size=len(keep)), np.arange(len(keep))


def taken(latest, part, who, slots, values, offsets):
    return latest.averaged(names(who)[part], slots[part], values[part], offsets[part])


@cases("length, stride", [(2, 1), (3, 1), (5, 1), (3, 4)])
def test_averages_are_those_of_a_slow_twin(length, stride):
    """Also where a user comes twice in what is taken together."""
    who, slots, values, offsets = log(length, stride)
    slow = Slow(length, stride)
    expected = [slow.one(*each) for each in zip(who, slots, values, strict=True)]
    for size in (1, 7, len(who)):
        latest = Latest(length, stride, SHARDS)
        found = [
            taken(latest, slice(at, at + size), who, slots, values, offsets)
            for at in range(0, len(who), size)
        ]
        assert np.concatenate([each for each, _ in found]) == pytest.approx(expected, rel=1e-12)
        assert all(sent.all() for _, sent in found)


def test_a_shard_that_is_ahead_sends_and_keeps_nothing_again():
    """Those of the others go on from where they were."""
    given = log(4)
    whole, half, end = Latest(3, 1, SHARDS), 150, 250
    expected, _ = taken(whole, slice(None), *given)
    before, after = Latest(3, 1, SHARDS), Latest(3, 1, SHARDS)
    taken(before, slice(half), *given)
    taken(after, slice(end), *given)
    old, new = (
        {n: (at - 1, p) for n, p in one.dump(one.names()).items()}
        for one, at in ((before, half), (after, end))
    )
    ahead = set(sorted(new)[:2])
    torn = {name: new[name] if name in ahead else old[name] for name in new}
    latest = Latest(3, 1, SHARDS)
    latest.load(torn)
    assert latest.ahead == end - 1
    found, sent = taken(latest, slice(half, None), *given)
    shard = names(given[0])[half:, 1] % np.uint64(SHARDS)
    mine = np.isin(shard, [int(name.partition(".")[2]) for name in ahead])
    assert sent.tolist() == (~mine | (given[3][half:] >= end)).tolist()
    assert found[sent] == pytest.approx(expected[half:][sent], rel=1e-15)
    for one, other in zip(
        *(each.dump(each.names()).values() for each in (latest, whole)), strict=True
    ):
        assert len(one) == len(other)


def test_another_length_begins_anew():
    """Nothing of the other one is read as its own."""
    latest, other = Latest(3, 1, SHARDS), Latest(4, 1, SHARDS)
    taken(latest, slice(None), *log(1))
    held = latest.dump(latest.names())
    other.load({name: (9, payload) for name, payload in held.items()})
    assert (other.names(), other.ahead, without(held)) == (set(), -1, {})
    assert other.dump(held) == {}


def test_what_lies_in_its_shards_is_looked_at():
    """What is damaged, and what lies in another shard, by how many; other shards are not its."""
    latest = Latest(3, 1, SHARDS)
    taken(latest, slice(None), *log(1))
    held = latest.dump(latest.names())
    assert latest.look(Look(), held | {"7": b"sums"}).problems == []
    assert without(held | {"7": b"sums"}) == {"7": b"sums"}
    first, second = sorted(held)[:2]
    found = latest.look(Look(), {first: held[second], second: b"?", **without(held)}).problems
    assert [rule for rule, _ in found] == ["readable", "shards"]
    assert "1 shards of releases per user" in found[0][1]


def test_it_shows_no_pseudonym():
    latest = Latest(3, 1, SHARDS)
    taken(latest, slice(None), *log(1))
    assert repr(latest) == "Latest(Users(12))"
