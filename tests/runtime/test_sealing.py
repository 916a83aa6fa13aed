"""A sealed record is opened where it was written, by the edge that wrote it, and nowhere else."""

from __future__ import annotations

import json
import zlib

import numpy as np
import pytest

from ldp_kafka.errors import StateError
from ldp_kafka.runtime.keys import Keyring, edge_randomness
from ldp_kafka.runtime.recovery.checkpoints import checkpoints
from ldp_kafka.runtime.recovery.keys import META, key_of
from ldp_kafka.runtime.recovery.rules import PartitionOffsets
from ldp_kafka.runtime.recovery.start import Refusal, decide
from ldp_kafka.runtime.sealing import Seal, Sealed
from ldp_kafka.runtime.stages.perturb import make_perturb
from tests.cases import cases as loop
from tests.fold import cases
from tests.fold.epochs import facts_of, folded, opened, saved
from tests.runtime.tools.changelogs import edge_table

OTHER = bytes(range(1, 33))
TOPOLOGY = cases.topology()
SEAL = cases.randomness(TOPOLOGY).seal
PLACE = key_of(1, "3", "0123456789abcdef")
PAYLOAD = b"spent 17, and 23.25 last"
VALUE = SEAL.pack(PLACE, 41, PAYLOAD, b"anybody may read this")
LOGS = cases.wild(3)
HELD = edge_table(TOPOLOGY, LOGS)
LATER = edge_table(TOPOLOGY, LOGS, token="b" * 16)


def seal_of(key=cases.KEY, *, topology=TOPOLOGY, deployment=cases.HERE):
    return edge_randomness(topology, key, deployment).seal


def test_what_was_sealed_is_opened():
    assert SEAL.open(PLACE, VALUE) == PAYLOAD
    found = Sealed.read(VALUE)
    assert (found.offset, found.clear, found.place) == (41, b"anybody may read this", PLACE)
    assert PAYLOAD not in VALUE
    assert SEAL.open(PLACE, SEAL.pack(PLACE, -1, b"")) == b""


def test_every_altered_bit_is_found():
    """Of the offset, of what is in clear, of the place, of the nonce, of the payload, of the tag;
    and every byte that is missing.
    """
    for at in range(8 * len(VALUE)):
        altered = bytearray(VALUE)
        altered[at // 8] ^= 1 << at % 8
        with pytest.raises(StateError):
            SEAL.open(PLACE, bytes(altered))
    for length in range(len(VALUE)):
        with pytest.raises(StateError):
            SEAL.open(PLACE, VALUE[:length])


@loop(
    ("place", "says"),
    [
        (key_of(1, "4", "0123456789abcdef"), "record 4 of partition 1, epoch 01234567 was moved"),
        (key_of(0, "3", "0123456789abcdef"), "record 3 of partition 0, epoch 01234567 was moved"),
        (key_of(1, "3", "fedcba9876543210"), "record 3 of partition 1, epoch fedcba98 was moved"),
        (key_of(1, META, "0123456789abcdef"), "record meta of partition 1"),
    ],
)
def test_a_record_that_was_moved_is_refused(place, says):
    """It says where it lies and where it belongs; one that claims to belong there is refused as
    altered.
    """
    with pytest.raises(StateError, match=says) as found:
        SEAL.open(place, VALUE)
    assert "sealed it as record 3 of partition 1, epoch 01234567" in str(found.value)
    length = len(place.encode()).to_bytes(4, "big")
    head = len(PLACE.encode()).to_bytes(4, "big") + PLACE.encode()
    forged = VALUE.replace(head, length + place.encode())
    with pytest.raises(StateError, match="was altered after it was sealed"):
        SEAL.open(place, forged)


def test_a_record_that_is_not_sealed_is_refused():
    with pytest.raises(StateError, match="was not sealed by this edge"):
        SEAL.open(PLACE, bytes(8) + PAYLOAD)


ELSEWHERE = {
    "another key": seal_of(OTHER),
    "another deployment": seal_of(deployment="there/"),
    "another topology": seal_of(
        topology=cases.topology(privacy=cases.CAPP.replace("epsilon: 2.0", "epsilon: 1.5"))
    ),
}


@loop("whose", ELSEWHERE)
def test_another_edge_cannot_open_it(whose):
    """Nor make one that this edge takes for its own."""
    other = ELSEWHERE[whose]
    with pytest.raises(StateError, match="altered after it was sealed, or sealed by another edge"):
        other.open(PLACE, VALUE)
    with pytest.raises(StateError):
        SEAL.open(PLACE, other.pack(PLACE, 41, PAYLOAD))


def test_the_newest_key_of_a_ring_seals():
    """The whole ring opens; who has only the old file reads nothing that is written after a
    rotation.
    """
    ring = Keyring(cases.KEY).rotated(10**12, OTHER)
    rotated = seal_of(ring)
    assert rotated.open(PLACE, VALUE) == PAYLOAD
    newer = rotated.pack(PLACE, 42, PAYLOAD)
    assert Sealed.read(newer).key_index == 1
    assert rotated.open(PLACE, newer) == PAYLOAD
    with pytest.raises(StateError):
        SEAL.open(PLACE, newer)


def test_equal_payloads_look_different():
    assert SEAL.pack(PLACE, 1, PAYLOAD) != SEAL.pack(PLACE, 1, PAYLOAD)
    assert len({SEAL.pack(PLACE, 1, b"")[14:26] for _ in range(1000)}) == 1000, "nonces"


def test_nothing_shows_a_key_or_a_payload():
    for shown in (repr(SEAL), repr(Sealed.read(VALUE)), str(Sealed.read(VALUE))):
        assert "spent" not in shown and cases.KEY.hex() not in shown
    assert repr(SEAL) == "Seal(1 keys)"


# the state of an edge


def started(table, number=0):
    """What a worker decides over a changelog."""
    stage = make_perturb(TOPOLOGY, number, cases.randomness(TOPOLOGY))
    end = len(LOGS[number]) + 1
    facts = facts_of(stage, PartitionOffsets(end, 0, end, begun=False), number)
    return decide(facts, checkpoints(table, number, facts.seal))


def refused(table, number=0):
    found = started(table, number)
    assert isinstance(found, Refusal), "a worker would begin"
    return found


def of(table, number, *, meta):
    return [k for k in table if k.startswith(f"{number}/") and (f"/{META}/" in k) == meta]


def test_a_sound_state_begins():
    assert not isinstance(started(HELD), Refusal)
    assert not isinstance(started(HELD, 1), Refusal)


def test_no_bit_of_a_meta_can_be_changed():
    """Nor of what anybody may read in it."""
    [key] = of(HELD, 0, meta=True)
    said = set()
    for at in range(8 * len(HELD[key])):
        altered = bytearray(HELD[key])
        altered[at // 8] ^= 1 << at % 8
        said.add(refused({**HELD, key: bytes(altered)}).rule)
    assert said == {"sealed", "key", "version", "readable"}


def test_no_byte_of_a_shard_can_be_changed():
    key = of(HELD, 0, meta=False)[0]
    for at in range(len(HELD[key])):
        altered = bytearray(HELD[key])
        altered[at] ^= 0x10
        assert refused({**HELD, key: bytes(altered)}).rule in {"sealed", "readable", "complete"}


def test_records_that_change_places_are_refused():
    """Two shards, two partitions, two epochs: each with its message."""
    first, second = of(HELD, 0, meta=False)[:2]
    swapped = {**HELD, first: HELD[second], second: HELD[first]}
    shard = second.split("/")[1]
    assert f"the edge sealed it as record {shard} of partition 0" in str(refused(swapped))
    across = {**HELD, first: HELD[first.replace("0/", "1/", 1)]}
    assert "the edge sealed it as record" in str(refused(across))
    assert "of partition 1, epoch aaaaaaaa" in str(refused(across))
    mixed = {**HELD, first: LATER[first.replace("a" * 16, "b" * 16)]}
    assert "of partition 0, epoch bbbbbbbb" in str(refused(mixed))
    moved = {key.replace("a" * 16, "b" * 16): value for key, value in HELD.items()}
    assert "of partition 0, epoch aaaaaaaa" in str(refused(moved))
    for table in (swapped, across, mixed, moved):
        assert refused(table).rule == "sealed"
        assert "bring it back as the edge wrote it" in str(refused(table))


def test_another_key_is_told_as_such():
    """Before anything is opened."""
    other = edge_table(TOPOLOGY, LOGS, key=OTHER)
    assert refused(other).rule == "key"
    assert all(each.sealed and not each.altered for each in checkpoints(other, 0, SEAL))


def test_anybody_reads_what_a_start_needs():
    """Offset, version, bindings and the list of shards; not the watermark or what is closed."""
    for number in range(2):
        [found] = checkpoints(HELD, number)
        assert found.sealed and found.complete
        assert found.offset == len(LOGS[number])
        assert found.meta.keys() == {"version", *("fingerprint", "layout", "deployment", "key"),
                                     "manifest"}  # fmt: skip
        [whole] = checkpoints(HELD, number, SEAL)
        assert {**found.meta, "state": whole.meta["state"]} == whole.meta
        assert whole.meta["state"].keys() - {"come"} == {"watermark", "closed", "bound"}


HOLDERS = ("{method: cgm, level: user, epsilon: 2.0, delta: 1.0e-6, horizon: 8, domain: [0, 1000]}",
           "{method: sampling, epsilon: 2.0, window: 4, domain: [0, 1000], mechanism: square_wave}",
           cases.CAPP)  # fmt: skip


def state_of(privacy, values):
    """What an edge keeps of users who had these values, in slots of a minute."""
    topology = cases.topology(1, privacy, "[mean]")
    stage = make_perturb(topology, 0, cases.randomness(topology))
    epoch = opened(stage)
    slots = [
        [(f"u{user}", cases.START + slot * cases.SLOT, value) for user, value in enumerate(of_slot)]
        for slot, of_slot in enumerate(values)
    ]
    folded(epoch, cases.log([cases.batch(rows) for rows in slots]))
    return saved(epoch)


@pytest.mark.parametrize("privacy", HOLDERS)
def test_sizes_tell_nothing_and_nothing_can_be_compressed(privacy):
    """Of users with equal values and of users with all kinds of values."""
    random = np.random.default_rng(5)
    kinds = [np.zeros((3, 500)), np.round(random.uniform(0, 1000, (3, 500)), 6)]
    tables = [state_of(privacy, values.tolist()) for values in kinds]
    sizes = [sorted((key.split("/")[1], len(v)) for key, v in held.items()) for held in tables]
    assert sizes[0] == sizes[1]
    for held in tables:
        bodies = b"".join(Sealed.read(value).body for value in held.values())
        assert len(zlib.compress(bodies, 9)) >= len(bodies)


def test_a_meta_is_as_long_as_any_other():
    """Whatever the watermark is."""

    def meta(state):
        stage = make_perturb(TOPOLOGY, 0, cases.randomness(TOPOLOGY))
        epoch = opened(stage)
        epoch.state.watermark, epoch.state.closed = state
        return len(epoch.snapshot().meta[1])

    assert meta((-1, -1)) == meta((1_760_000_000_000, 10**9))
    assert json.loads(SEAL.open(of(HELD, 0, meta=True)[0], HELD[of(HELD, 0, meta=True)[0]]))


def test_a_seal_is_of_its_context():
    """Two seals of one key, and other bytes around them."""
    a, b = (Seal([cases.KEY], context, "same") for context in (b"a", b"b"))
    with pytest.raises(StateError):
        b.open(PLACE, a.pack(PLACE, 1, PAYLOAD))
