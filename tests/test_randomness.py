"""Words: right by an independent implementation, different wherever something differs, the same
wherever nothing does.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import struct
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ldp_kafka.checks.chisquare import limit
from ldp_kafka.randomness import KEY_BYTES, Ids, Keyed, keyed, seeded, system
from tests.cases import cases
from tests.keys import KEY

INT64 = st.integers(-(2**63), 2**63 - 1)
UINT64 = st.integers(0, 2**64 - 1)


def derived(key, purpose, context):
    """RFC 5869 with SHA-256 and no salt, by hand; one block is all that 32 bytes need."""
    extracted = hmac.new(bytes(32), key, hashlib.sha256).digest()
    return hmac.new(
        extracted, b"ldp_kafka 1 " + purpose + b"\0" + context + b"\x01", hashlib.sha256
    ).digest()


def chained(key, users, slot, phase, bound, counter):
    """CBC-MAC of one row, block by block, from the format's description."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    blocks = [
        struct.pack("<QQ", *users),
        struct.pack("<qQ", slot, phase << 48 | len(bound) << 40 | counter),
    ]
    padded = [*bound, *[0] * (len(bound) % 2)]
    blocks += [struct.pack("<qq", *padded[i : i + 2]) for i in range(0, len(padded), 2)]
    mac = bytes(16)
    for block in blocks:
        cipher = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
        mac = (
            cipher.update(bytes(a ^ b for a, b in zip(mac, block, strict=True))) + cipher.finalize()
        )
    return mac


@settings(max_examples=100)
@given(
    st.binary(min_size=32, max_size=64),
    st.binary(max_size=40),
    st.lists(st.tuples(UINT64, UINT64), min_size=1, max_size=5),
    INT64,
    st.integers(0, 2**16 - 1),
    st.integers(0, 5),
    st.integers(1, 9),
    st.data(),
)
def test_keyed_words_are_the_mac_of_their_context(
    key, context, users, slot, phase, columns, k, data
):
    """Against an implementation that shares nothing with the library's but the description."""
    bound = [data.draw(st.lists(INT64, min_size=columns, max_size=columns)) for _ in users]
    source = Keyed(key, context=context)
    digests, bounds = np.array(users, np.uint64), np.array(bound, np.int64)
    bounds = bounds.reshape(len(users), columns)
    words = source.at(digests, slot, phase, bounds).words(len(users), k)
    noise = derived(key, b"noise", context)
    for row, user in enumerate(users):
        stream = b"".join(
            chained(noise, user, slot, phase, bound[row], counter) for counter in range(-(-k // 4))
        )
        assert words[row].tolist() == list(struct.unpack(f"<{k}I", stream[: 4 * k]))
    ids, series = source.report_ids(digests, slot, phase), source.series(digests)
    for row, user in enumerate(users):
        own = derived(key, b"report id", context)
        assert ids[row].tobytes() == chained(own, user, slot, phase, [], 0)
        assert series[row].tobytes() == chained(derived(key, b"series", context), user, 0, 0, [], 0)


def digested(key, user):
    """CBC-MAC of one id: its length, then its bytes with zeros to a whole block."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    encoded = user.encode()
    message = struct.pack("<QQ", len(encoded), 0) + encoded + bytes(-len(encoded) % 16)
    cipher = Cipher(algorithms.AES(key), modes.CBC(bytes(16))).encryptor()
    return (cipher.update(message) + cipher.finalize())[-16:]


TEXTS = st.lists(st.text(st.characters(codec="utf-8"), max_size=40), max_size=12)


@settings(max_examples=200)
@given(TEXTS, st.binary(max_size=10))
def test_digests_are_the_mac_of_the_id(users, context):
    """Of ids of any lengths in one batch, by themselves or among others, as texts or as columns."""
    source = keyed(KEY, context=context)
    expected = b"".join(digested(derived(KEY, b"user", context), user) for user in users)
    assert source.digests(users).tobytes() == expected
    assert source.digests(iter(users)).tobytes() == expected
    assert source.digests(Ids.of(users)).tobytes() == expected
    for row, user in enumerate(users):
        assert source.digests([user]).tobytes() == expected[16 * row : 16 * row + 16]


@settings(max_examples=100)
@given(TEXTS, st.data())
def test_ids_hold_what_they_were_given(users, data):
    """Taken in any order, joined, and cut out of a longer run."""
    ids = Ids.of(users)
    rows = data.draw(st.lists(st.integers(0, len(users) - 1), max_size=8)) if users else []
    taken = ids.take(np.array(rows, np.intp))
    assert (len(ids), ids.texts()) == (len(users), users)
    assert taken.texts() == [users[row] for row in rows]
    assert Ids.join([ids, taken, ids]).texts() == users + taken.texts() + users
    cut = Ids(ids.data, ids.offsets[len(users) // 2 :])
    assert cut.texts() == users[len(users) // 2 :]
    assert np.array_equal(keyed(KEY).digests(cut), keyed(KEY).digests(cut.texts()))
    assert Ids.join([cut, ids]).texts() == cut.texts() + users
    assert cut.take(np.arange(len(cut))).texts() == cut.texts()


def test_ids_that_differ_in_zeros_or_order_differ():
    """Padding is told apart from content by the length, which comes first."""
    users = ["", "\0", "\0\0", "a", "a\0", "\0a", "ab", "ba"]
    users += ["a" * 16, "a" * 16 + "\0", "a" * 17, "a" * 32]
    digests = keyed(KEY).digests(users)
    assert len(np.unique(digests, axis=0)) == len(users)
    assert len(np.unique(digests)) == 2 * len(users)


@cases("source", [keyed(KEY, context=b"other"), keyed(KEY[::-1]), system(), seeded(1)])
def test_digests_belong_to_their_key(source):
    """And to its context; system randomness has a key of its own, the same as long as the process
    lives.
    """
    users = ["alice", "bob"]
    assert not (keyed(KEY).digests(users) == source.digests(users)).any()
    assert np.array_equal(source.digests(users), source.digests(users))


def test_keyed_words_are_known():
    """Nothing may ever change these: reports of a running topology would change with them."""
    source = Keyed(bytes(range(32)), context=b"topology")  # no key that `keyed` takes
    users = source.digests(["alice", "böb"])
    assert source.at(users, 42, 1, np.array([[1, -2, 3], [4, 5, -6]])).words(2, 5).tolist() == KNOWN


KNOWN = [
    [2241564982, 3508142150, 1611036843, 494862463, 2339927135],
    [3617870338, 1071824857, 3495413545, 265299363, 934891636],
]

USERS = np.array([[1, 2], [3, 4], [5, 6]], np.uint64)
BOUND = np.array([[7, 8], [9, 10], [11, 12]], np.int64)


def draw(key=KEY, context=b"", users=USERS, slot=5, phase=0, bound=BOUND, k=4):
    """Words of three rows."""
    return keyed(key, context=context).at(users, slot, phase, bound).words(len(users), k)


@cases(
    "other",
    [
        {"key": KEY[::-1]},
        {"key": KEY + b"\0"},
        {"context": b"other"},
        {"context": b"\0"},
        {"users": np.roll(USERS, 1, axis=0)},
        {"users": USERS[:, ::-1].copy()},
        {"users": USERS ^ np.uint64(1 << 63)},
        {"slot": 6},
        {"slot": -5},
        {"slot": np.array([6, 7, 8])},
        {"phase": 1},
        {"phase": 2**16 - 1},
        {"bound": BOUND + 1},
        {"bound": -BOUND},
        {"bound": BOUND[:, ::-1].copy()},
        {"bound": BOUND[:, :1].copy()},
        {"bound": np.column_stack([BOUND, np.zeros(3, np.int64)])},
        {"bound": np.column_stack([BOUND[:, :1], np.zeros(3, np.int64)])},
    ],
)
def test_whatever_differs_gives_other_words(other):
    """Every word of every row: a part of the context that is left out would leave some equal (by
    chance: 12 in 2**32).
    """
    assert not (draw() == draw(**other)).any()


def test_rows_and_words_of_one_draw_differ():
    """Users that share slot, phase and input get words of their own, and so does every word of a
    row.
    """
    users = np.column_stack([np.zeros(1000), np.arange(1000)]).astype(np.uint64)
    words = draw(users=users, bound=np.zeros((1000, 1), np.int64), k=8)
    assert len(np.unique(words)) > 7990  # 8,000 words collide about 0.007 times


def test_a_zero_column_is_not_no_column():
    """The number of bound integers is part of what is authenticated."""
    nothing, zero, zeros = (draw(bound=np.zeros((3, n), np.int64)) for n in (0, 1, 2))
    assert not (nothing == zero).any()
    assert not (zero == zeros).any()


def test_purposes_have_keys_of_their_own():
    """A report's id says nothing of its noise."""
    source, nothing = keyed(KEY), np.empty((3, 0), np.int64)
    noise = source.at(USERS, 0, 0, nothing).words(3, 4).view(np.uint64)
    assert not (noise == source.report_ids(USERS, 0, 0)).any()
    assert not (noise == source.series(USERS)).any()
    assert not (source.report_ids(USERS, 0, 0) == source.series(USERS)).any()


@settings(max_examples=50)
@given(st.lists(st.integers(1, 30), min_size=1, max_size=6), st.integers(1, 9), st.booleans())
def test_pieces_are_the_whole(pieces, k, one_slot):
    """Whatever is drawn in pieces is what the whole would have been."""
    n = sum(pieces)
    rows = np.arange(n)
    users, bound = np.column_stack([rows, rows * 7]).astype(np.uint64), rows.reshape(-1, 1) * -3
    source = keyed(KEY).at(users, 9 if one_slot else rows, 2, bound)
    ends = np.cumsum([0, *pieces])
    places = zip(ends, pieces, strict=False)
    parts = [source.words(size, k, first=int(first)) for first, size in places]
    assert np.array_equal(np.vstack(parts), source.words(n, k))
    with pytest.raises(ValueError, match="row"):
        source.words(2, k, first=n - 1)


def test_fewer_words_are_the_first_of_more():
    """The counter lies inside the message, so a mechanism that asks for more does not change what
    it had.
    """
    assert np.array_equal(draw(k=9)[:, :3], draw(k=3))


def test_keyed_is_useless_without_a_context():
    """An unbound draw would repeat for every user and slot."""
    with pytest.raises(TypeError, match="context"):
        keyed(KEY).words(1)
    with pytest.raises(TypeError, match="bound"):
        keyed(KEY).at(USERS, 0, 0, BOUND).digests(["a"])


@cases("wrong", [b"", b"short", bytes(KEY_BYTES - 1), "a" * 32, None, 7, list(KEY)])
def test_a_key_is_at_least_32_bytes(wrong):
    """And the error does not show it."""
    with pytest.raises((ValueError, TypeError)) as caught:
        keyed(wrong)
    assert "short" not in str(caught.value)


@pytest.mark.parametrize(("phase", "columns"), [(-1, 1), (2**16, 1), (0, 256)])
def test_contexts_have_a_range(phase, columns):
    """What does not fit its field of the second block is refused, not folded."""
    with pytest.raises(ValueError, match="range"):
        draw(phase=phase, bound=np.zeros((3, columns), np.int64))


def test_seeded_says_that_it_is_not_private():
    """And so does what is bound from it; the others are."""
    assert not seeded(7).private
    assert not seeded(7).at(USERS, 0, 0, BOUND).private
    assert keyed(KEY).private
    assert keyed(KEY).at(USERS, 0, 0, BOUND).private
    assert system().private


def test_seeded_repeats():
    """A stream for a seed; the stream goes on; a context gives what is bound to it."""
    first, again, other = seeded(7), seeded(7), seeded(8)
    a, b = first.words(5, 3), first.words(5, 3)
    assert np.array_equal(a, again.words(5, 3))
    assert np.array_equal(b, again.words(5, 3))
    assert not (a == b).any()
    assert not (a == other.words(5, 3)).any()
    bound = (each.at(USERS, 1, 0, BOUND).words(3, 4) for each in (first, again))
    assert np.array_equal(*bound)


@cases("wrong", [True, 1.0, "7", None])
def test_a_seed_is_a_whole_number(wrong):
    """bool is refused although it is an int."""
    with pytest.raises(TypeError):
        seeded(wrong)


def test_system_does_not_repeat():
    """Not within a source, not between two."""
    one, two = system(), system()
    words = [source.words(100, 2) for source in (one, one, two)]
    # by chance: 600 in 2**32
    assert not any((words[i] == words[j]).any() for i, j in [(0, 1), (0, 2), (1, 2)])
    assert one.words(0, 3).shape == (0, 3)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_a_forked_child_has_a_stream_of_its_own():
    """Two workers of one parent that drew the same noise would cancel it out."""
    code = """
import os, sys
from ldp_kafka.randomness import system
source = system()
source.words(1)
read, write = os.pipe()
if os.fork() == 0:
    os.write(write, source.words(64).tobytes())
    os._exit(0)
os.wait()
child = os.read(read, 256)
assert len(child) == 256
assert child != source.words(64).tobytes(), "the child repeats its parent"
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize("kind", ["system", "seeded", "keyed"])
def test_words_are_uniform(kind):
    """A smoke test: every byte of the words, and the pairs of neighbouring rows' low bytes; 1e-6
    for each of five.
    """
    n = 2**17
    rows = np.arange(n)
    users = np.column_stack([rows, rows]).astype(np.uint64)
    source = {
        "system": system(),
        "seeded": seeded(int.from_bytes(os.urandom(8), "big")),
        "keyed": keyed(os.urandom(32)).at(users, 1, 0, rows.reshape(-1, 1)),
    }[kind]
    words = source.words(n, 2)
    columns = [*words.view(np.uint8).reshape(n, 8)[:, :4].T.astype(np.int64)]
    columns.append((words[:-1, 1] & 15).astype(np.int64) * 16 + (words[1:, 0] & 15))
    for column in columns:
        seen, due = np.bincount(column, minlength=256), len(column) / 256
        assert ((seen - due) ** 2 / due).sum() <= limit(255)


def test_subclasses_hide_nothing():
    """`Seeded` is `Keyed` under a public key: everything that is bound takes the same path."""
    public = hashlib.sha256(b"not private: 7").digest()
    bound = (each.at(USERS, 1, 0, BOUND).words(3, 4) for each in (seeded(7), Keyed(public)))
    assert np.array_equal(*bound)
