"""A file's messages have the bytes that they have in it, and each says where it lies."""

from __future__ import annotations

import io
import json
from types import SimpleNamespace

import pytest

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.runtime.sample.files import STDIN, read_part, split
from tests.cases import cases
from tests.runtime.sample.made import event

A, B = b'{"meter": "a"}', b'{"meter": "\xc3\xa9", "kwh": NaN}'


@cases(
    ("data", "messages", "places"),
    [
        (A + b"\n" + B, [A, B], ["line 1", "line 2"]),
        (A + b"\r\n\r\n" + B + b"\r\n", [A, B], ["line 1", "line 3"]),
        (b"\xef\xbb\xbf" + A, [A], ["line 1"]),
        (b"[" + A + b",\n" + B + b"]\n", [A, B], ["element 1", "element 2"]),
        (b"\n [ ] ", [], []),
        (b"[1]\n[2]\n", [b"[1]", b"[2]"], ["line 1", "line 2"]),
        (b"[1\n", [b"[1"], ["line 1"]),
        (b'{"a":\n1}\n[\n2] 3', [b'{"a":\n1}', b"[\n2]", b"3"], ["line 1", "line 3", "line 4"]),
        (b'{"\xc3\xa9":\n1}\n\n2', [b'{"\xc3\xa9":\n1}', b"2"], ["line 1", "line 4"]),
        (b'{"a":\n1}\nx', [b'{"a":', b"1}", b"x"], ["line 1", "line 2", "line 3"]),
        (b'\xff{"a":\n1}', [b'\xff{"a":', b"1}"], ["line 1", "line 2"]),
        (b"m1\t" + A, [b"m1\t" + A], ["line 1"]),
        (b"\xff\xff\xff\xff\n\n", [b"\xff\xff\xff\xff\n\n"], ["the file"]),
        (b"[" * 100_000, [b"[" * 100_000], ["line 1"]),
    ],
)  # fmt: skip
def test_messages_are_as_they_lie_in_the_file(data, messages, places):
    """Lines, elements of an array, values over several lines, or one batch."""
    found = split(data, "x")
    assert [message.value for message in found.messages] == messages
    assert [found.place(message.offset) for message in found.messages] == places
    assert all(message.timestamp == -1 for message in found.messages)


def test_files_and_standard_input(tmp_path, monkeypatch):
    """The same; and what cannot be read."""
    path = tmp_path / "x.jsonl"
    path.write_bytes(event() + b"\n" + event("b"))
    assert [json.loads(one.value)["meter"] for one in read_part(path).messages] == ["m1", "b"]
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(event())))
    assert [one.value for one in read_part(STDIN).messages] == [event()]
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b" \n")))
    for wrong, text in (
        (STDIN, "standard input is empty: there is no message"),
        (tmp_path / "y", "there is no file .*y"),
        (tmp_path, "cannot read .*: Is a directory"),
    ):
        with pytest.raises(ConfigurationError, match=text):
            read_part(wrong)
