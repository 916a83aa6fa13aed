"""Files are there when they are whole; lines are what the topic holds."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.runtime.releases.files import LINES, STDOUT, text_file, whole_file
from ldp_kafka.runtime.releases.rows import COLUMNS
from ldp_kafka.runtime.wire.records import encode_json
from tests.runtime.releases.made import HOUR, release, shares
from tests.runtime.releases.test_rows import ALL


def test_a_file_is_whole_or_as_it_was(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("before")
    with pytest.raises(ZeroDivisionError), whole_file(path) as part:
        part.write_text("half")
        assert path.read_text() == "before"
        1 / 0  # noqa: B018
    assert path.read_text() == "before"
    with whole_file(path) as part:
        part.write_text("after")
    assert path.read_text() == "after"
    assert list(tmp_path.iterdir()) == [path]


def test_what_grows_can_be_read_meanwhile(tmp_path):
    path = tmp_path / "x.csv"
    with text_file(path, grows=True) as file:
        file.write("one\n")
        file.flush()
        assert path.read_text() == "one\n"


@pytest.mark.parametrize("grows", [True, False])
def test_a_file_that_cannot_be_written(tmp_path, grows):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "no" / "x.csv", tmp_path / "file" / "x.csv"):
        with (
            pytest.raises(ConfigurationError, match=r"x\.csv: cannot be written: "),
            text_file(path, grows=grows) as file,
        ):
            file.write("x")


@pytest.mark.parametrize("grows", [True, False])
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full disk to write to")
def test_a_full_disk(tmp_path, grows):
    """Is said in a line, with the file; a file that would be whole is not there."""
    path = tmp_path / "x.csv"
    (tmp_path / ("x.csv" if grows else ".x.part.csv")).symlink_to("/dev/full")
    with (
        pytest.raises(ConfigurationError, match=r"x\.csv: cannot be written: No space left"),
        text_file(path, grows=grows) as file,
    ):
        file.write("x" * 10**6)
    assert grows or not list(tmp_path.iterdir())


def test_standard_output_stays_open(capsys):
    with text_file(STDOUT, grows=False) as file:
        file.write("one\n")
    print("two")
    assert capsys.readouterr().out == "one\ntwo\n"


def lines(name, releases):
    file = io.StringIO()
    write = LINES[name](file, HOUR)
    for each in releases:
        write(each)
    return file.getvalue().splitlines(keepends=True)


@pytest.mark.parametrize("name", ALL)
def test_json_is_the_record(name):
    """Byte for byte, a line each."""
    record = encode_json(ALL[name]).decode()
    assert lines("json", [ALL[name]] * 2) == [record + "\n"] * 2


def test_csv_is_read_back():
    """Names, commas, quotes and line breaks in a category; a head even where nothing follows."""
    names = ['a, "b"', "c\nd", "é"]
    made = shares(3, [0.25, 0.5, 0.1], categories=names)
    [head, *_] = lines("csv", [])
    assert head == ",".join(COLUMNS) + "\n"
    text = io.StringIO("".join(lines("csv", [made, release(4)])), newline="")
    rows = list(csv.DictReader(text))
    assert [row["category"] for row in rows] == [*names, ""]
    assert [float(row["value"]) for row in rows] == [0.25, 0.5, 0.1, 10.0]
    assert json.loads(rows[0]["guarantee"])["epsilon"] == 2.0


def test_connect_is_a_line_each_row():
    made = [json.loads(line) for line in lines("connect", [shares(3, [0.25, 0.75]), release(4)])]
    assert [each["payload"]["value"] for each in made] == [0.25, 0.75, 10.0]
