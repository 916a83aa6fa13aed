"""What a coordinator asks, on its way into the edge's log: what passes, and in what form."""

from __future__ import annotations

import json

import pytest

from ldp_kafka.errors import BadRecord, Dropped, Reason
from ldp_kafka.records import Event, Request, Tick
from ldp_kafka.runtime.stages.requests import LONGEST_ID, Forwarding, is_request, read_request
from ldp_kafka.runtime.wire.arrow import MAX_BYTES
from ldp_kafka.runtime.wire.codec import encode
from ldp_kafka.runtime.wire.records import encode_json, header
from tests.cases import cases

SLOT_MS, AHEAD_MS = 60_000, 90_000
GOOD = Request("any", 7, 1, 500_000, 9, share=2, of=5)
BEGINS = b'{"ldp_kafka":1,"type":"request"'


def said(**more) -> bytes:
    """A request as it lies in the topic, with other fields."""
    body = {"id": "any", "slot": 7, "phase": 1, "epsilon": 500_000, "deadline": 9}
    return json.dumps({"ldp_kafka": 1, "type": "request", **body, **more}).encode()


def forwarding(last: int = -1) -> Forwarding:
    return Forwarding(SLOT_MS, AHEAD_MS, last)


def at(slot: int) -> int:
    """The first moment of a slot."""
    return slot * SLOT_MS


def test_a_control_record_is_known_by_its_first_bytes():
    """Those that `encode_json` writes, and no others: values may be any other text."""
    assert encode_json(GOOD).startswith(BEGINS)
    assert is_request(encode_json(GOOD)) and is_request(encode_json(Request("", 0, 0, 0, 0)))
    others = [None, b"", BEGINS[:-1], b" " + BEGINS, said(), encode_json(Tick(5))]
    others += [encode(Event("m", 0, 1.0)), header("t", "f", "l"), encode([GOOD, GOOD])]
    assert not any(map(is_request, others))


def test_what_is_read_is_what_was_written():
    assert read_request(encode_json(GOOD)) == GOOD == read_request(said(share=2, of=5))
    assert read_request(said(epsilon=0)).epsilon == 0
    assert read_request(said(id="x" * LONGEST_ID)).share == 1


NONE = {
    "nothing": (None, Reason.EMPTY),
    "empty": (b"", Reason.EMPTY),
    "large": (said(id="x" * MAX_BYTES), Reason.TOO_LARGE),
    "text": (b"request", Reason.NOT_JSON),
    "a number": (b"7", Reason.NOT_A_RECORD),
    "an event": (encode(Event("m", 0, 1.0)), Reason.NOT_A_RECORD),
    "a header": (header("t", "f", "l"), Reason.NOT_A_RECORD),
    "a batch": (encode([GOOD, GOOD]), Reason.NOT_JSON),
    "of another version": (said(ldp_kafka=2), Reason.VERSION),
    "a field more": (said(budget=1), Reason.WRONG_FIELDS),
    "no phase": (json.dumps({**json.loads(said()), "phase": None}).encode(), Reason.WRONG_FIELDS),
    "half a slot": (said(slot=7.5), Reason.WRONG_FIELDS),
    "a slot that is a truth": (said(slot=True), Reason.WRONG_FIELDS),
    "a slot before 1970": (said(slot=-1), Reason.WRONG_FIELDS),
    "a slot of no time": (said(slot=2**47), Reason.WRONG_FIELDS),
    "a phase below 0": (said(phase=-1), Reason.WRONG_FIELDS),
    "a negative epsilon": (said(epsilon=-1), Reason.WRONG_FIELDS),
    "an epsilon in floats": (said(epsilon=0.5), Reason.WRONG_FIELDS),
    "a share of nothing": (said(share=0, of=5), Reason.WRONG_FIELDS),
    "more than all": (said(share=6, of=5), Reason.WRONG_FIELDS),
    "of none": (said(share=0, of=0), Reason.WRONG_FIELDS),
    "both below 0": (said(share=-2, of=-1), Reason.WRONG_FIELDS),
    "a long id": (said(id="x" * (LONGEST_ID + 1)), Reason.WRONG_FIELDS),
    "an id that is no text": (said(id=7), Reason.WRONG_FIELDS),
}


@cases("name", NONE)
def test_what_is_no_request(name):
    """It is refused where it is read, and dropped where it would be forwarded; nothing of it moves
    what is forwarded next. A header record is no mistake of anybody's.
    """
    value, reason = NONE[name]
    with pytest.raises(BadRecord) as caught:
        read_request(value)
    assert caught.value.reason is reason
    made = forwarding(3)
    assert made.take(value, at(7)) is None
    dropped = {} if name == "a header" else {f"requests_dropped:{Dropped.NOT_A_REQUEST}": 1}
    assert made.counted() == dropped
    assert made.last == 3
    assert made.take(said(slot=4), at(7)) is not None


def test_nothing_of_the_sender_passes_but_the_fields():
    """An id can carry anything; spelling and order can too."""
    text = json.dumps(json.loads(said(id="s3cret", share=2, of=5)), indent=3, sort_keys=True)
    (plain, strange) = (
        forwarding().take(value, at(7))
        for value in (encode_json(Request("7/1", 7, 1, 500_000, 9, 2, 5)), text.encode())
    )
    assert plain == strange == encode_json(Request("7/1", 7, 1, 500_000, 9, 2, 5))
    assert is_request(plain)
    assert read_request(plain).id == "7/1"


def test_requests_pass_in_the_order_of_slots():
    """One a slot; what is behind the last one is a repeat, whatever it says. Slots may be missing:
    who folds the log sees to theirs.
    """
    made = forwarding()
    passed = [
        slot
        for slot, epsilon in [(3, 1), (4, 1), (4, 2), (3, 1), (6, 0), (5, 9), (6, 7), (7, 1)]
        if made.take(said(slot=slot, epsilon=epsilon), at(9)) is not None
    ]
    assert passed == [3, 4, 6, 7]
    assert made.counted() == {
        "requests_forwarded": 4,
        f"requests_dropped:{Dropped.REPEATED}": 4,
    }
    assert made.counted() == {}


def test_one_that_was_saved_goes_on():
    """From the last slot alone."""
    made = forwarding(last=6)
    assert made.take(said(slot=6), at(9)) is None
    assert made.take(said(slot=7), at(9)) is not None


@cases("phase", [0, 2, 3, 2**16 - 1])
def test_only_the_phase_that_needs_a_request_is_asked_for(phase):
    """In the other one users report unasked; a request for it would be a second report."""
    made = forwarding()
    assert made.take(said(phase=phase), at(9)) is None
    assert made.counted() == {f"requests_dropped:{Dropped.PHASE}": 1}
    assert made.last == -1


def test_the_future_is_not_asked_for():
    """To the millisecond: a slot that begins as far ahead as is allowed passes. One that does not
    is no reason to drop those that come after it, however far ahead it was.
    """
    for slot in (7, 2**46):
        made, begins = forwarding(), at(slot)
        assert made.take(said(slot=slot), begins - AHEAD_MS - 1) is None
        assert made.take(said(slot=slot), 0) is None
        assert made.take(said(slot=slot), -1) is None
        assert made.counted() == {f"requests_dropped:{Dropped.AHEAD}": 3}
        assert made.take(said(slot=3), at(3)) is not None
        assert made.take(said(slot=slot), begins - AHEAD_MS) is not None


def test_the_most_that_a_coordinator_can_append():
    """Whatever it sends: a record a slot, of bytes that do not depend on its own."""
    made = forwarding()
    found = [
        made.take(said(slot=slot, id="x" * LONGEST_ID, epsilon=epsilon), at(10))
        for slot in range(100)
        for epsilon in (2**62 - 1, 1)
    ]
    passed = [value for value in found if value is not None]
    assert [read_request(value).slot for value in passed] == list(range(12))
    assert max(map(len, passed)) < 160
