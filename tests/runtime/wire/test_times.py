"""``input.time_unit``: numbers are of the unit that is declared, exactly, in every format."""

from __future__ import annotations

import json
from fractions import Fraction
from math import floor

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldp_kafka.errors import Reason
from ldp_kafka.runtime.keys import edge_randomness
from ldp_kafka.runtime.local import run
from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.replay import from_arrays, messages
from ldp_kafka.runtime.wire.events import EventReader, event_reader
from ldp_kafka.runtime.wire.parsing import LATEST
from ldp_kafka.runtime.wire.times import SECONDS, UNITS, in_unit, milliseconds
from ldp_kafka.topology import loads, schema
from tests.runtime.wire.test_events import arrow, outcome

NOON = 1_772_366_400_123
FIRST = SECONDS  # 1973-03-03T09:46:40Z


def reader(unit):
    return EventReader(("user",), ("value",), ("time",), time_unit=unit)


def time_of(unit, text):
    """Milliseconds of one JSON event, or the reason: by itself, and in a run."""
    message = f'{{"user":"m1","value":1,"time":{text}}}'.encode()
    decoded = reader(unit).read(message)
    [found] = outcome(decoded, 1)
    run = reader(unit).read_run([message] * 3)
    assert [reason for _, _, reason in run.bad] == [reason for _, reason in decoded.bad] * 3
    assert decoded.events is None or run.events.times.tolist() == [found[1]] * 3
    return found if isinstance(found, str) else found[1]


def exactly(text, unit):
    """What the number in a text is in milliseconds, by arithmetic of fractions."""
    one = UNITS[unit]
    return floor(Fraction(text) * one.times / one.over)


def allowed(time):
    return time if FIRST <= time < LATEST else Reason.TIME


@pytest.mark.parametrize("unit", UNITS)
@given(data=st.data())
def test_whole_numbers_and_text_are_exact(unit, data):
    """At the bounds, too, and of any size."""
    one = UNITS[unit]
    bounds = [FIRST * one.over // one.times, LATEST * one.over // one.times, NOON * one.over]
    number = data.draw(
        st.sampled_from(bounds).flatmap(lambda at: st.integers(at - 1500, at + 1500))
        | st.integers(-(2**70), 2**70)
    )
    expected = allowed(exactly(str(number), unit))
    assert time_of(unit, str(number)) == time_of(unit, f'"{number}"') == expected
    if abs(number) < 2**62:
        kinds = pa.array([number], pa.int64()), pa.array([str(number)])
        for column in kinds:
            batch = arrow({"user": ["m1"], "time": column, "value": [1.0]})
            [found] = outcome(reader(unit).read(batch), 1)
            assert (found if isinstance(found, str) else found[1]) == expected


@pytest.mark.parametrize("unit", UNITS)
@given(
    whole=st.integers(0, 2**62), digits=st.text("0123456789", min_size=1, max_size=40),
    exponent=st.sampled_from(["", "e0", "e-3", "E+2", "e6"]),
)  # fmt: skip
def test_text_with_a_fraction_is_exact(unit, whole, digits, exponent):
    text = f"{whole}.{digits}{exponent}"
    assert time_of(unit, f'"{text}"') == allowed(exactly(text, unit))


@pytest.mark.parametrize("unit", UNITS)
@given(time=st.integers(FIRST, 2**43))  # the year 2248
def test_no_float_loses_a_millisecond(unit, time):
    """Not in any of the units; and a replay writes what is read as the same."""
    one = UNITS[unit]
    assert milliseconds(float(time) * one.over / one.times, one) == time
    assert milliseconds(in_unit(time, one), one) == time
    batch = arrow(
        {
            "user": ["m1"],
            "time": pa.array([float(time) * one.over / one.times]),
            "value": [1.0],
        }
    )
    assert reader(unit).read(batch).events.times.tolist() == [time]


@pytest.mark.parametrize(
    "text",
    ['"1e99999999999999999999"', '"1e-99999999999999999999"', "1e400", "1e-400", '""', '" 5"',
     '"1700000000123 "', '"1_7"', '"NaN"', "true", "null", "[]", '"' + "1" * 257 + '"',
     '"1.' + "0" * 255 + '"', "-1", '"-1700000000"'],
)  # fmt: skip
@pytest.mark.parametrize("unit", UNITS)
def test_what_is_no_time_is_a_dead_letter(unit, text):
    assert time_of(unit, text) is Reason.TIME


@pytest.mark.parametrize("declared", UNITS)
@pytest.mark.parametrize("written", UNITS)
def test_a_wrong_unit_is_seen(declared, written):
    """Whichever is declared for whichever is written: none is read as another time."""
    found = time_of(declared, str(in_unit(NOON, UNITS[written])))
    assert found == (NOON if declared == written else Reason.TIME)


@pytest.mark.parametrize("unit", UNITS)
def test_what_says_its_own_unit_keeps_it(unit):
    """ISO 8601, and columns of timestamps; both may be of 1970."""
    assert time_of(unit, '"2026-03-01T12:00:00.123Z"') == NOON
    assert time_of(unit, '"1970-01-01T00:00:05Z"') == 5000
    for own, over in (("ms", 1), ("us", 1000), ("ns", 1_000_000)):
        column = pa.array([NOON * over, 5000 * over], pa.timestamp(own))
        batch = arrow({"user": ["a", "b"], "time": column, "value": [1.0, 1.0]})
        assert reader(unit).read(batch).events.times.tolist() == [NOON, 5000]


def test_without_a_unit_text_is_no_number():
    """As ever."""
    assert time_of(None, '"1700000000"') is Reason.TIME
    assert time_of(None, "1700000000") == 1_700_000_000_000
    assert time_of(None, "1700000000123456") is Reason.TIME


@pytest.mark.parametrize("unset", [0, 0.0, 120, 86_399, 20_240_331, 10**8 - 1])
def test_a_clock_that_was_never_set_makes_no_slots(unset):
    """One such event is a dead letter. It was a slot of 1970, and a release of each one up to now,
    of which at most a thousand and one are written.
    """
    made = loads(
        """
topology: meters
input: {slot: 1d, partitions: 1, create: false, lateness: 0}
privacy: {method: sw_direct, epsilon: 2.0, window: 4, domain: [0, 10]}
output: {statistics: [mean]}
"""
    )
    sent = [
        json.dumps({"user": user, "value": 2.5, "time": time}).encode()
        for user, time in (("a", unset), ("a", NOON), ("b", NOON + 1), ("b", NOON + 86_400_000))
    ]
    log = [Message(at, -1, text) for at, text in enumerate(sent)]
    found = run(made, edge_randomness(made, bytes(range(32)), "here"), [log])
    [slot] = [json.loads(record.value) for record in found.releases]
    assert (slot["start"], slot["reports"]) == ("2026-03-01T00:00:00Z", 2)
    [letter] = [json.loads(record.value) for record in found.dead_letters]
    assert (letter["offset"], letter["reason"]) == (0, "time")


def test_units_are_those_of_the_schema():
    assert schema()["$defs"]["input"]["properties"]["time_unit"]["enum"] == [*UNITS]


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("batch", [1, 7])
def test_a_replay_writes_the_unit(unit, batch):
    """What is sent is read as the source has it."""
    made = loads(
        f"""
topology: meters
input: {{slot: 1h, partitions: 1, time_unit: {unit}}}
privacy: {{method: sw_direct, epsilon: 2.0, window: 4, domain: [0, 100]}}
output: {{statistics: [mean]}}
"""
    )
    sent = list(messages(made, from_arrays(made, [[1.0, 2.0]] * 3, NOON), batch))
    read = [event_reader(made).read(raw.value) for raw in sent if raw.events]
    times = [time for one in read for time in one.events.times.tolist()]
    assert times == [made.slot_start(made.slot_of(NOON) + slot) for slot in (0, 1) for _ in "abc"]
    if batch == 1:
        assert json.loads(sent[0].value)["time"] == in_unit(times[0], UNITS[unit])
