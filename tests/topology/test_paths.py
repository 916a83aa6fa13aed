"""Field paths: every path has a text, and every text that is none is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.topology import format_path, parse_path
from ldp_kafka.topology.paths import OUTER
from tests.cases import cases

PARTS = st.one_of(st.text(), st.integers(0, 999_999_999))


@given(st.lists(PARTS, min_size=1, max_size=6).map(tuple))
def test_every_path_survives_its_text(path):
    assert parse_path(format_path(path)) == path
    assert parse_path(format_path((OUTER, *path))) == (OUTER, *path)


@given(st.text(alphabet="$^.[]'\"\\ab0 ", max_size=12))
def test_any_text_is_a_path_or_refused(text):
    try:
        path = parse_path(text)
    except ConfigurationError:
        return
    assert path
    assert parse_path(format_path(path)) == path


@cases(
    ("text", "expected"),
    [
        ("$.a", ("a",)),
        ("$.a.b", ("a", "b")),
        ("$['a b']", ("a b",)),
        ('$["a\'b"].c', ("a'b", "c")),
        (r"$['a\'b']", ("a'b",)),
        ("$.a[0][12].b", ("a", 0, 12, "b")),
        ("$.größe", ("größe",)),
        ("$['']", ("",)),
        ("^.a[0]", (OUTER, "a", 0)),
        ("$['^'].a", ("^", "a")),
    ],
)
def test_paths(text, expected):
    assert parse_path(text) == expected


NONE = "|$|^|^a|^^.a|a|$a|$.|$..a|$.a.|$[|$[]|$[01]|$[-1]|$['a|$.a b|$['a'b]|$.a[*]|$.*[?(1)]"


@cases("text", NONE.split("|"))
def test_no_paths(text):
    with pytest.raises(ConfigurationError, match="a field path"):
        parse_path(text)
