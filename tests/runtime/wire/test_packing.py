"""What a value of the changelog looks like: compressed where that pays, and whole or refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ldp_kafka as lk
from ldp_kafka.errors import StateError
from ldp_kafka.methods.batch import Batch
from ldp_kafka.records import Ids
from ldp_kafka.runtime.recovery.packing import LARGEST, LEAST, pack, unpack
from ldp_kafka.runtime.stages.shards import unpacked
from ldp_kafka.runtime.stages.users import Users
from tests.keys import KEY

BLOCKS = st.tuples(st.binary(min_size=1, max_size=40), st.integers(1, 3000)).map(
    lambda pair: pair[0] * pair[1]
)


MARKS = (b"lz4\0", b"gcm\0")  # how what is compressed, and what is sealed, begins


@given(
    st.integers(-1, 2**62),
    BLOCKS | st.tuples(st.sampled_from(MARKS), st.binary()).map(b"".join),
)
def test_what_was_packed_comes_back(cover, payload):
    """Cover and payload, whatever it begins with; seldom in more bytes than without."""
    value = pack(cover, payload)
    assert unpack(value) == (cover, payload)
    assert len(value) <= 8 + len(payload) or payload.startswith(MARKS)


def test_noise_stays_as_it_is():
    """What does not get smaller is not compressed."""
    noise = np.random.default_rng(1).bytes(10 * LEAST)
    assert pack(3, noise)[8:] == noise


@pytest.mark.parametrize("window", [10, 48])
def test_the_ledgers_of_users_get_smaller(window):
    """To less than a half for users who report every slot; what a method keeps of its own stays as
    it is, in front.
    """
    method, randomness = (
        lk.method("capp", epsilon=1.0, window=window, domain=(0.0, 1.0)),
        lk.randomness.keyed(KEY),
    )
    ledger = ("last", *method.ledger.fields)
    users = Users(method.fields, ledger, randomness, 1)
    rows, rng = users.rows(Ids.of([f"u{at}" for at in range(5000)])), np.random.default_rng(2)
    for slot in range(100, 100 + 2 * window):
        method.step(users.state, Batch(rows, slot, method.bound(rng.random(len(rows))), randomness))
    payload = users.dump(["0"])["0"]
    stream = unpacked(payload)
    assert 2 * len(payload) < len(stream)
    columns = users.state.columns
    for name in ["user", *(name for name in method.fields if name not in ledger)]:
        held = users.state.users if name == "user" else columns[name]
        cells = (held[: len(rows)] if name == "user" else held[..., : len(rows)].T).tobytes()
        assert cells in stream and cells in payload, name
    for name in ledger:
        cells = np.ascontiguousarray(columns[name][..., : len(rows)].T).tobytes()
        assert cells in stream and cells not in payload, name


@pytest.mark.parametrize(
    "damage",
    [
        lambda value: value[:-20],
        lambda value: value[:20] + bytes(20) + value[40:],
        lambda value: value[:12] + (LARGEST + 1).to_bytes(4, "big") + value[16:],
        lambda value: value[:12] + (77).to_bytes(4, "big") + value[16:],
    ],
    ids=["cut", "overwritten", "a size that cannot be", "another size"],
)
def test_damage_is_told(damage):
    """In words, and as an error of the state."""
    with pytest.raises(StateError, match="damaged"):
        unpack(damage(pack(1, bytes(range(256)) * 100)))
