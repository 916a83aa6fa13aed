"""Whole releases: whose noise is whose, and what two calls spend together."""

from __future__ import annotations

import enum

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.checks.sources import Listener
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.methods import StreamMethod
from tests.cases import cases
from tests.keys import KEY, OTHER
from tests.specimens import METHODS as SPECIMENS

NUMBERS = {"window": 2, "domain": (0.0, 1.0)}

ALIKE = [[7, "7"], ["7", np.int64(7)], ["\u00e9", "e\u0301"], ["a", "a"], [1, np.uint8(1)]]
NONE = [[True, 1], ["a", np.True_], [1.0, 2.0], [b"a", "b"], [None, "b"], [("a",), "b"]]
MAKERS = {
    "method": lambda: lk.method("sw_direct", epsilon=1.0, **NUMBERS).release,
    "delay": lambda: lk.method("naive", epsilon=1.0, delay=2, domain=(0.0, 1.0)).release,
    "protocol": lambda: lk.protocol("lpu", epsilon=1.0, window=2, domain=(0.0, 1.0)).run,
}


@cases(("users", "error"), [(u, ValueError) for u in ALIKE] + [(u, TypeError) for u in NONE])
@cases("maker", list(MAKERS))
def test_one_person_has_one_row(maker, users, error):
    """However its id is written, and what is no id is none."""
    release, streams = MAKERS[maker](), np.full((2, 4), 0.5)
    for source in (lk.randomness.keyed(KEY), lk.randomness.system()):
        with pytest.raises(error, match="users") as caught:
            release(streams, source, users=users, first_slot=0)
        assert "\u00e9" not in str(caught.value)


@cases("maker", list(MAKERS))
def test_an_id_is_its_text(maker):
    release, streams = MAKERS[maker](), np.random.default_rng(1).random((2, 4))

    def of(users):
        found = release(streams, lk.randomness.keyed(KEY), users=users, first_slot=0)
        return getattr(found, "values", found)

    one, other = of([7, "e\u0301"]), of(["7", "\u00e9"])
    assert np.array_equal(one, other, equal_nan=True)


class Shown(str):
    """Text that shows itself as another."""

    __slots__ = ()

    def __str__(self):
        return "same"


class Named(str, enum.Enum):  # noqa: UP042 - StrEnum shows its text
    """Whose members show themselves as ``Named.ONE``."""

    ONE = "one"


@cases(("theirs", "text"), [(Shown("p"), "p"), (Named.ONE, "one"), (np.str_("n"), "n")])
@cases("maker", list(MAKERS))
def test_an_id_of_a_class_of_text_is_its_text(maker, theirs, text):
    """Not that which it shows itself as, which may be another one's."""
    release, streams = MAKERS[maker](), np.random.default_rng(1).random((2, 4))
    source = lk.randomness.keyed(KEY)
    for other in ("same", "Named.ONE", Shown("q")):
        one, two = (
            getattr(found, "values", found)
            for found in (
                release(streams, source, users=[id_, other], first_slot=0) for id_ in (theirs, text)
            )
        )
        assert np.array_equal(one, two, equal_nan=True)
        if maker != "protocol":  # which releases one stream
            flat = np.full((2, 40), 0.5)
            assert not np.array_equal(*release(flat, source, users=[theirs, other], first_slot=0))
    with pytest.raises(ConfigurationError, match="users must be distinct"):
        release(streams, source, users=[theirs, text], first_slot=0)


@cases(
    ("slot", "error"),
    [(s, TypeError) for s in (True, np.True_, 1.5, 2.0, np.float64(2), "3", np.nan)]
    + [(s, ConfigurationError) for s in (-1, -5, np.int64(-4))],
)
@cases("maker", list(MAKERS))
def test_a_first_slot_is_a_whole_number(maker, slot, error):
    release, streams = MAKERS[maker](), np.full((2, 4), 0.5)
    for source in (lk.randomness.keyed(KEY), lk.randomness.system()):
        with pytest.raises(error, match="first_slot must be"):
            release(streams, source, users=["a", "b"], first_slot=slot)


@cases("maker", list(MAKERS))
def test_a_second_quantity_has_words_of_its_own(maker):
    """The key alone says nothing of which quantity it is for: a context does, and is documented."""
    release, heard = MAKERS[maker](), []
    for context in (b"kwh", b"temperature"):
        ear = Listener(lk.randomness.keyed(KEY, context=context))
        release(np.full((40, 8), 0.5), ear, users=range(40), first_slot=0)
        heard.append(ear.heard)
    assert heard[0] and heard[0].isdisjoint(heard[1])
    made = release.__self__
    told = made.trace.__doc__ if maker == "delay" else release.__doc__
    assert "``lk.randomness.keyed(key, context=...)``" in told


CARRIED = [
    name
    for name, kind in lk.METHODS.items()
    if not issubclass(kind, StreamMethod) and name not in ("etm", "sppa", "swp")
]


@cases("name", CARRIED)
def test_two_calls_with_one_state_release_as_one(name):
    """Every method whose reports are of the slot that was stepped; the others publish some later,
    in slots that the second call no longer has.
    """
    shape = SPECIMENS[name]
    tail = (2,) if "dimension" in shape else ()
    values = np.random.default_rng(1).random((3, 12, *tail)) / 4
    if "categories" in shape:
        values = np.random.default_rng(1).integers(0, 3, (3, 12))
    made = lk.method(name, epsilon=2.0 if "delta" in shape else 40.0, **shape)
    source, ids = lk.randomness.keyed(KEY), ["a", "b", "c"]
    whole = made.release(values, source, users=ids, first_slot=5)
    state = made.state(source.digests(ids))
    parts = [
        made.release(
            values[:, a:b], lk.randomness.keyed(KEY), users=ids, first_slot=5 + a, state=state
        )
        for a, b in ((0, 5), (5, 5), (5, 12))
    ]
    assert np.array_equal(whole, np.concatenate(parts, axis=1), equal_nan=True)


@cases("name", list(lk.PROTOCOLS))
def test_two_runs_with_one_state_release_as_one(name):
    values = np.random.default_rng(1).integers(0, 3, (400, 12))
    made = lk.protocol(name, epsilon=4.0, window=4, categories=3)
    ids = range(400)
    whole = made.run(values, lk.randomness.keyed(KEY), users=ids, first_slot=5)
    source = lk.randomness.keyed(KEY)
    state = made.state(source.digests([str(i) for i in ids]))
    a, b = (
        made.run(values[:, part], source, users=ids, first_slot=5 + part.start, state=state)
        for part in (slice(0, 5), slice(5, 12))
    )
    assert np.array_equal(whole.values, np.concatenate([a.values, b.values]))
    assert np.array_equal(whole.spent, np.concatenate([a.spent, b.spent], axis=1))


def test_a_horizon_is_over_all_calls():
    """Of a horizon of 4 reports a user makes 4, not 8."""
    made, source = (
        lk.method("cgm", epsilon=1.0, delta=1e-5, horizon=4, domain=(0.0, 1.0)),
        lk.randomness.keyed(KEY),
    )
    state, stream = made.state(source.digests(["a"])), np.full((1, 4), 0.5)
    parts = [
        made.release(stream, source, users=["a"], first_slot=first, state=state) for first in (0, 4)
    ]
    assert [int(np.isfinite(part).sum()) for part in parts] == [4, 0]


def test_a_window_is_over_all_calls():
    """Of epsilon 1 in a window of 3, whatever is absorbed: 1.33 where each call began anew."""
    made = lk.method("ba_sw", epsilon=60.0, window=3, domain=(0.0, 1.0))
    source = lk.randomness.keyed(KEY)
    stream = np.tile([0.0, 0.0, 1.0], 4)[None].repeat(50, 0)
    ids = [f"u{i}" for i in range(50)]
    state, spent = made.state(source.digests(ids)), []
    real = made.ledger

    class Noted:
        budget, fields = real.budget, real.fields

        def charge(self, state, rows, slot, cost):
            allowed = real.charge(state, rows, slot, cost)
            each = np.zeros(50, np.int64)
            np.add.at(each, rows, np.where(allowed, cost, 0))
            spent.append((slot, each))
            return allowed

    made.ledger = Noted()
    for first in (0, 4, 8):
        made.release(stream[:, first : first + 4], source, users=ids, first_slot=first, state=state)
    slots = np.zeros((12, 50), np.int64)
    for slot, each in spent:
        slots[slot] += each
    windows = [int(slots[t : t + 3].sum(axis=0).max()) for t in range(10)]
    assert max(windows) <= 60_000_000
    assert any(windows[t] > 30_000_000 for t in (2, 3, 6, 7))  # of two calls each


def test_a_state_is_of_these_users_and_of_earlier_slots():
    made, source = lk.method("sw_direct", epsilon=1.0, **NUMBERS), lk.randomness.keyed(KEY)
    state, stream = made.state(source.digests(["a", "b"])), np.full((2, 3), 0.5)
    made.release(stream, source, users=["a", "b"], first_slot=4, state=state)
    for users, first, other in (
        (["b", "a"], 7, source),
        (["a", "c"], 7, source),
        (["a", "b"], 7, lk.randomness.keyed(OTHER)),
        (["a", "b"], 6, source),
        (["a", "b"], 0, source),
    ):
        with pytest.raises(ValueError, match=r"state must be|slots must increase"):
            made.release(stream, other, users=users, first_slot=first, state=state)
    for users in (["a"], ["a", "b", "c"]):
        with pytest.raises(ValueError, match="state must be"):
            made.release(
                np.full((len(users), 3), 0.5), source, users=users, first_slot=7, state=state
            )
