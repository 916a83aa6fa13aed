"""CSV files as people have them: other delimiters, marks and newlines in cells; errors that name
file, line and column, and never a cell.
"""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyarrow import parquet

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.runtime.replay import from_table, messages, read_file
from ldp_kafka.runtime.replay.csv_text import delimiter_of, named_delimiter, rows
from ldp_kafka.runtime.replay.files import read_slices
from ldp_kafka.runtime.replay.rows import read_rows
from ldp_kafka.topology import loads
from tests.cases import cases

SECRET = "31337secret"
TEXT = """
topology: meters
input: {slot: 1h, partitions: 1}
privacy: {%s, epsilon: 4.0, window: 3}
output: {statistics: [%s]}
"""
NUMBERS = loads(TEXT % ("method: sw_direct, domain: [0, 10]", "mean"))
CODES = loads(TEXT % ("method: lpu, categories: 3", "frequencies"))
NAMED = loads(TEXT % ("method: lpu, categories: [still, walk, 'NA']", "frequencies"))
TIME = "2023-11-14T22:00:00Z"


def events(source):
    """(user, time, value) of all, in the order of time."""
    return [
        (source.users[who], time, value)
        for slot in source.slots
        for who, time, value in zip(
            slot.who.tolist(), slot.times.tolist(), slot.values.tolist(), strict=True
        )
    ]


def read(path, text, of=NUMBERS, **more):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_file(of, path, **more)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "x.csv"


@cases("delimiter", [",", ";", "\t", "|"])
@cases("mark", ["", "\ufeff"])
@cases("end", ["\n", "\r\n", "\r"])
def test_any_usual_delimiter_is_found(delimiter, mark, end, tmp_path):
    """And said, unless it is a comma; a mark at the beginning and ends of lines make no difference,
    nor do other delimiters in cells and names.
    """
    said = []
    lines = [
        ["user", "time", "value", "a,b;c"],
        ["007", TIME, "1.5", '"1;2,3|4"'],
        ["a b", TIME, "2", ""],
    ]
    text = mark + end.join(
        map(delimiter.join, [[f'"{x}"' if "a,b" in x else x for x in line] for line in lines])
    )
    source = read(tmp_path / "x.csv", text, tell=said.append)
    assert [(user, value) for user, _, value in events(source)] == [("007", 1.5), ("a b", 2.0)]
    names = {",": [], ";": ["semicolon"], "\t": ["tab"], "|": ["|"]}[delimiter]
    assert said == [
        f"{tmp_path / 'x.csv'}: cells are parted by {name} (--delimiter)" for name in names
    ]


def test_a_delimiter_that_is_given_is_taken(path):
    """And nothing is said."""
    said = []
    source = read(path, "user:value:time\na:1:1700000000\n", delimiter=":", tell=said.append)
    assert len(events(source)) == 1 and not said
    assert [named_delimiter(text) for text in ("tab", "\\t", "comma", "semicolon", "|")] == [
        *"\t\t,;|"
    ]
    for wrong in ("", "ab", '"', "\n", "é"):
        with pytest.raises(ConfigurationError, match="--delimiter must be one character"):
            named_delimiter(wrong)


def test_what_no_delimiter_fits_is_named_by_its_columns(path):
    """Those that the likeliest one gives."""
    path.write_text("m;kwh;ts\na;1;1700000000\n")
    assert delimiter_of(path, ("user",)) == ";"
    with pytest.raises(ConfigurationError, match="no column user, value, time among m, kwh, ts: "):
        read_file(NUMBERS, path)
    path.write_text(",kwh,ts\n0,1,1700000000\n")
    with pytest.raises(ConfigurationError, match=r"among \(one without a name\), kwh, ts: "):
        read_file(NUMBERS, path)


def test_cells_go_on_over_lines(path):
    """In quotes; the line of a later row counts them."""
    text = 'user,note,value,time\na,"1\n2\n\n3",1,1700000000\n\nb,x,oops,1700000000\n'
    with pytest.raises(ConfigurationError, match=r"x\.csv:7: column value"):
        read(path, text)
    assert [line for line, _ in rows(path, ",")] == [1, 2, 7]
    source = read(path, text.replace("oops", "2"))
    assert [user for user, *_ in events(source)] == ["a", "b"]


# what a file holds, and what the user sees
BAD = {
    "a decimal comma": (
        f"user;value;time\na;1.5;{TIME}\na;31337,5;{TIME}\n",
        (
            "x.csv:3: column value must be readable as a number; this row has a decimal comma:"
            " write a point"
        ),
    ),
    "a decimal comma between commas": (
        f"user,time,value\na,{TIME},1.5\na,{TIME},31337,5\n",
        (
            "x.csv:3: has 4 cells, and the header 3: a cell that holds a decimal or other comma"
            " must be in quotes"
        ),
    ),
    "a unit": (
        f"user,value,time\na,1.5,{TIME}\na,{SECRET} kWh,{TIME}\n",
        "x.csv:3: column value must be readable as a number; this row is not",
    ),
    "a time of another kind": (
        f"user,value,time\na,1,{TIME}\na,1,{TIME}\na,1,31337.1.2023\n",
        (
            "x.csv:4: column time must be readable as a time: epoch seconds or milliseconds, or ISO"
            " 8601, all rows alike; this row is not"
        ),
    ),
    "epoch seconds, then text": (
        f"user,value,time\na,1,1700000000\na,1,1700000001\na,1,{SECRET}\n",
        "x.csv:4: column time must be readable as a time: ",
    ),
    "a time without an end": (
        "user,value,time\na,1,1700000000\na,1,inf\n",
        "x.csv:3: column time must be readable as a time: ",
    ),
    "files that were joined": (
        f"user,value,time\na,1,{TIME}\nuser,value,time\na,2,{TIME}\n",
        (
            "x.csv:3: column time must be readable as a time: epoch seconds or milliseconds, or ISO"
            " 8601, all rows alike; this row is the header again: were files joined?"
        ),
    ),
    "a row that is cut off": (
        f"user,value,time\na,1,{TIME}\n{SECRET},1\n",
        "x.csv:3: has 2 cells, and the header 3: each row must have as many",
    ),
    "a name twice": (
        f"user,value,time,value\na,1,{TIME},{SECRET}\n",
        "x.csv:1: the header names column value 2 times: give the others another name",
    ),
    "nothing": ("", "x.csv is empty: its first line must name the columns"),
    "blank lines": ("\n\n", "x.csv is empty: its first line must name the columns"),
    "a header alone": ("user,value,time\n", "no row of the file has a user, a value and a time"),
    "UTF-16": (
        f"user,value,time\n{SECRET},1,{TIME}\n".encode("utf-16"),
        "x.csv: must be UTF-8 text, and has zero bytes, as UTF-16 has: convert the file",
    ),
    "Latin-1": (
        f"user,value,time\na,1,{TIME}\n\u00e4{SECRET},1,{TIME}\n".encode("latin-1"),
        "x.csv:3: must be UTF-8 text; convert the file (iconv -t UTF-8)",
    ),
    "a wrong delimiter": (
        f"user,value,time\n{SECRET},1,{TIME}\n".replace(",", "#"),
        (
            "no column user, value, time among the 1 that the file's first line names: it must be a"
            " header with the columns' names"
        ),
    ),
}


@pytest.mark.parametrize("kind", BAD)
def test_what_is_seen_of_bad_files(kind, path):
    """The place, the column, what must hold; and no cell."""
    text, wanted = BAD[kind]
    with pytest.raises(ConfigurationError) as caught:
        read(path, text)
    assert wanted in str(caught.value)
    assert str(path) in str(caught.value) or kind in ("a header alone", "a wrong delimiter")
    assert "31337" not in str(caught.value)


def test_late_rows_are_found_among_many(path):
    """Also behind the first block, by which types are guessed."""
    lines = [f"u{at % 100},{at}.5,{1_700_000_000 + at}" for at in range(100_000)]
    for column, cell in (("value", "u,oops,1700000000"), ("time", "u,1,oops")):
        bad = [*lines[:90_000], cell, *lines[90_000:]]
        with pytest.raises(ConfigurationError, match=rf"x\.csv:90002: column {column} must be"):
            read(path, "\n".join(["user,value,time", *bad]))
    assert read(path, "\n".join(["user,value,time", *lines])).events == 100_000
    assert path.stat().st_size > 2**20


def test_other_columns_may_hold_anything(path):
    """Numbers first, then text; names twice; none."""
    lines = [f"u,1,1700000000,{at},," for at in range(200_000)]
    text = "\n".join(["user,value,time,note,note,", *lines, "u,1,1700000000,text,,"])
    assert len(text) > 2**20
    assert read(path, text).events == 200_001


def test_users_are_as_they_are_written(path):
    """Zeros in front count, and NA is a name; an empty one is missing."""
    lines = [f"{user},1,1700000000" for user in ("007", "7", "7.0", "NA", "null", "")]
    source = read(path, "\n".join(["user,value,time", *lines]))
    assert [user for user, *_ in events(source)] == ["007", "7", "7.0", "NA", "null"]
    assert source.left_out == 1


def test_values_are_read_as_the_topology_has_them(path):
    """What spells no number is missing; categories by number or name."""
    cells = ["1", " 2.5 ", "1e1", "NaN", "NA", "", "-3"]
    lines = [f"u{at},{cell},1700000000" for at, cell in enumerate(cells)]
    source = read(path, "\n".join(["user,value,time", *lines]))
    assert [value for _, _, value in events(source)] == [1.0, 2.5, 10.0, -3.0]
    assert source.left_out == 3
    for of, cells, found in (
        (NUMBERS, ("true", "false"), [1.0, 0.0]),
        (CODES, ("2", "0"), [2, 0]),
        (CODES, ("2.0", "0.0"), [2, 0]),
        (CODES, ("true", "false"), [1, 0]),
        (NAMED, ("walk", "NA"), ["walk", "NA"]),
    ):
        lines = [f"u{at},{cell},1700000000" for at, cell in enumerate(cells)]
        source = read(path, "\n".join(["user,value,time", *lines]), of)
        assert [value for _, _, value in events(source)] == found
    with pytest.raises(ConfigurationError, match=r"x\.csv:2: column value .* a whole number; this"):
        read(path, "user,value,time\na,1.5,1700000000\n", CODES)


@cases(
    ("cells", "seconds"),
    [
        (("1700000000", "1700000000000"), (1700000000, 1700000000)),
        (("1700000000.5", "1700000001"), (1700000000.5, 1700000001)),
        ((TIME, "2023-11-14T23:00:00+01:00"), (1699999200, 1699999200)),
        (("2023-11-14 22:00:00", "2023-11-14 22:00:00.250"), (1699999200, 1699999200.25)),
        (("2023-11-14", "2023-11-15"), (1699920000, 1700006400)),
    ],
)
def test_times_as_they_come(cells, seconds, tmp_path):
    lines = [f"u{at},1,{cell}" for at, cell in enumerate(cells)]
    source = read(tmp_path / "x.csv", "\n".join(["user,value,time", *lines]))
    assert sorted(time for _, time, _ in events(source)) == sorted(1000 * at for at in seconds)


def test_a_series_is_cut_from_any_file(path):
    """With the same care."""
    path.write_text("t;value\n0;1\n1;\n2;2\n3;3\n4;4\n")
    assert read_slices(NUMBERS, path, 2).events == 4
    path.write_text("t;value\n0;1\n1;\n2;2,5\n")
    with pytest.raises(ConfigurationError, match=r"x\.csv:4: column value .* a decimal comma"):
        read_slices(NUMBERS, path, 1)


def test_rows_of_other_tables_have_numbers(tmp_path):
    """From 1, in Parquet and in memory, also behind rows that are left out."""
    table = pa.table({"user": ["a", None, "b"], "value": ["1", "2", "x"], "time": [TIME] * 3})
    parquet.write_table(table, tmp_path / "x.parquet")
    with pytest.raises(ConfigurationError, match=r"x\.parquet: row 3: column value"):
        read_file(NUMBERS, tmp_path / "x.parquet")
    with pytest.raises(ConfigurationError, match=r"^row 3: column value must be"):
        from_table(NUMBERS, table, "user", "value", "time")


def test_rows_as_the_messages_of_a_replay(tmp_path):
    """In the order of time, each with the line or row that it comes from."""
    text = f'user,note,value,time\nb,,2,{TIME}\nc,,,{TIME}\na,"x\ny",1,2023-11-14T21:00:00Z\n'
    (tmp_path / "x.csv").write_text(text)
    found = read_rows(NUMBERS, tmp_path / "x.csv")
    sent = [
        raw.value for raw in messages(NUMBERS, read_file(NUMBERS, tmp_path / "x.csv")) if raw.events
    ]
    assert [message.value for message in found.messages] == sent
    assert [found.place(message.offset) for message in found.messages] == ["line 4", "line 2"]
    assert found.left_out == 1
    table = pa.table({"user": ["b", "a"], "value": [2.0, 1.0], "time": [1700003600, 1700000000]})
    parquet.write_table(table, tmp_path / "x.pq")
    found = read_rows(NUMBERS, tmp_path / "x.pq")
    assert [found.place(message.offset) for message in found.messages] == ["row 2", "row 1"]
