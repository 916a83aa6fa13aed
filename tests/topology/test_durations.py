"""Durations, and what is said of what is nearly one."""

from __future__ import annotations

import pytest

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.topology.durations import UNITS, not_a_duration, parse_duration
from ldp_kafka.topology.schema import schema
from tests.cases import cases

LONGER = ": must be longer than nothing"
UNIT = ": the units are ms, s, m, h, d"


@cases(
    ("text", "said"),
    [
        ("0h", LONGER),
        ("-1h", LONGER),
        ("0", LONGER),
        (0, LONGER),
        (60, ": write its unit too, such as 60s"),
        (1.5, ""),
        ("1w", ": write 7d"),
        ("2 weeks", ": write 14d"),
        ("1.5h", ": write 90m"),
        (".5s", ": write 500ms"),
        ("1 h", ": write 1h"),
        ("1H", ": write 1h"),
        ("+1h", ": write 1h"),
        ("01h", ": write 1h"),
        ("15min", ": write 15m"),
        ("90 seconds", ": write 90s"),
        ("0.3ms", ": must be whole milliseconds"),
        ("1M", UNIT),
        ("1y", UNIT),
        ("soon", ""),
        ("PT1H", ""),
        ("999999999w", ""),
        (True, ""),
        ([1], ""),
    ],
)
def test_what_is_nearly_a_duration_is_told_what_to_write(text, said):
    """What is to be written is one."""
    assert not_a_duration(text) == said
    if ": write " in said:
        assert parse_duration(said.rpartition(" ")[2]) > 0
    with pytest.raises(ConfigurationError) as caught:
        parse_duration(str(text))
    assert str(caught.value).endswith(not_a_duration(str(text)))


def patterns(place):
    """Of every place of a schema that is a duration."""
    if isinstance(place, list | dict):
        for value in place.values() if isinstance(place, dict) else place:
            yield from patterns(value)
    if isinstance(place, dict):
        said = place.get("patternErrorMessage", "")
        if "a duration such" in said or "ms, s, m, h or d" in said:
            yield place["pattern"]


def test_every_duration_of_the_schemas_is_known_by_its_units():
    """So that it is told, wherever it stands."""
    found = [*patterns(schema()), *patterns(schema("edge"))]
    assert len(found) == 4
    assert all(UNITS in pattern for pattern in found)
