"""Means of vectors in all that `ldp-kafka releases` writes: an interval, or a reason, each."""

from __future__ import annotations

import csv
import io
import json

from ldp_kafka.runtime.releases.files import LINES
from ldp_kafka.runtime.releases.rows import rows_of
from ldp_kafka.runtime.releases.view import lines_of
from ldp_kafka.runtime.wire.records import encode_json
from tests.runtime.releases.made import HOUR, release

STATED = release(
    7,
    [1.5, -2.0],
    standard_error=[0.1, 0.2],
    confidence_interval=[[1.3, -2.4], [1.7, -1.6]],
    strategy="cgm_vector",
)
CLIPPED = release(
    8,
    [1.5, -2.0],
    standard_error=None,
    confidence_interval=None,
    error_reason="clipped",
    strategy="cgm_vector",
)
SOME = release(
    9,
    [None, 3.0],
    standard_error=[None, 0.5],
    confidence_interval=[[None, 2.0], [None, 4.0]],
    strategy="sample_split",
)
ALL = (STATED, CLIPPED, SOME)
NUMBERS = [
    (7, 0, 1.5, 0.1, 1.3, 1.7, None),
    (7, 1, -2.0, 0.2, -2.4, -1.6, None),
    (8, 0, 1.5, None, None, None, "clipped"),
    (8, 1, -2.0, None, None, None, "clipped"),
    (9, 0, None, None, None, None, None),
    (9, 1, 3.0, 0.5, 2.0, 4.0, None),
]
NAMES = ("slot", "position", "value", "standard_error", "low", "high", "error_reason")


def written(form):
    file = io.StringIO()
    write = LINES[form](file, HOUR)
    for each in ALL:
        write(each)
    return file.getvalue()


def test_rows_have_a_number_each():
    rows = [row for each in ALL for row in rows_of(each)]
    assert [tuple(row[name] for name in NAMES) for row in rows] == NUMBERS


def test_csv_has_a_row_each():
    rows = csv.DictReader(io.StringIO(written("csv")))
    assert [tuple(row[name] for name in NAMES) for row in rows] == [
        tuple("" if each is None else str(each) for each in row) for row in NUMBERS
    ]


def test_json_has_the_lists():
    """As they lie in the topic."""
    lines = written("json").splitlines()
    assert lines == [encode_json(each).decode() for each in ALL]
    stated, clipped, some = map(json.loads, lines)
    assert stated["value"] == [1.5, -2.0]
    assert stated["confidence_interval"] == [[1.3, -2.4], [1.7, -1.6]]
    assert (clipped["standard_error"], clipped["error_reason"]) == (None, "clipped")
    assert some["standard_error"] == [None, 0.5]


def test_a_terminal_has_a_line_each_with_its_interval_or_the_reason():
    lines = [line for each in ALL for line in lines_of(each, HOUR)]
    assert [line.of for line in lines] == ["0", "1"] * 3
    assert [line.error for line in lines] == [
        "1.30 to 1.70", "-2.40 to -1.60", "clipped", "clipped", "", "2.0 to 4.0",
    ]  # fmt: skip
    assert [line.interval is None for line in lines] == [False, False, True, True, True, False]
