"""Many single reports read as columns: the same reports as one by one."""

from __future__ import annotations

import json
import random
import secrets
from collections import Counter

import numpy as np
import pytest

from ldp_kafka import Tick, encode
from ldp_kafka.errors import BadRecord, Reason
from ldp_kafka.records import Reports
from ldp_kafka.runtime.wire import report_columns
from ldp_kafka.runtime.wire.arrow import MAX_BYTES, WIDEST
from ldp_kafka.runtime.wire.parsing import DEEPEST
from ldp_kafka.runtime.wire.report_columns import read_plain_reports
from ldp_kafka.runtime.wire.reports import read_reports, write_reports
from tests.runtime.wire.test_event_columns import NUMBERS, OTHERS, TEXTS, mutated

HEX = [f'"{at:032x}"' for at in (0, 7, 16**32 - 1)] + [f'"{"0123456789abcdef" * 2}"']
DIGESTS = [
    '"0000"', f'"{"f" * 31}"', f'"{"f" * 33}"', f'"{"F" * 32}"', f'"{"g" * 32}"', '""', "null",
    f'"{"f" * 30} f"', f'"{"f" * 31}\\u0066"', f'"{"f" * 31}\\n"', '"\\ud800"', f'"{"f" * 64}"',
    f'"{"f" * 31}\\u0660"', f'" {"f" * 32}"', '"é"',
]  # fmt: skip
WHOLE = [
    "-1", "-2", "65535", "65536", "2147483647", "2147483648", "140737488355327", "140737488355328",
    "4611686018427387903", "4611686018427387904", "-4611686018427387904", "-4611686018427387905",
    "36893488147419103232", "5.0", "1e2", "true", "null", '"5"', "[5]", "[]", "{}",
]  # fmt: skip
BAD = [*DIGESTS, *WHOLE, *NUMBERS, *TEXTS, *OTHERS]
USUAL = {
    "ldp_kafka": ["1"],
    "type": ['"report"'],
    "fingerprint": [HEX[0]] * 9 + [HEX[1]],
    "id": HEX,
    "slot": ["0", "5", "29000000"],
    "phase": ["0"] * 9 + ["1"],
    "scale": ["0.5"] * 9 + ["1", "1.0"],
    "series": HEX,
    "chunk": ["0"] * 9 + ["1", "2"],
    "closed": ["null"] * 4 + ["3"] * 20 + ["4", "-7"],
    "cost": ["250000"] * 9 + ["0"],
    "settled": ["2"] * 9 + ["null"],
}
SHAPES = {
    "index": ("index", ["0", "1", "-3", "9007199254740993", "4611686018427387903"]),
    "vector": ("index", ["[1,2]", "[0,-4611686018427387904]", "[3,3]"]),
    "bits": ("bits", ['"00ff"', '"0a1b"', '"ffff"']),
}
EMITTED = [
    "[]", "[1]", "[1,2,3]", "[1.0,2]", "[true,2]", "[[1],2]", "[4611686018427387904,1]", "[null]",
    '"0"', '"00"', '"0g"', '"00FF"', '"00 f"', '"\\u0030a1b"', '"00ff\\n"', "[1e400]",
]  # fmt: skip
OPTIONAL = ("scale", "series", "cost", "settled")


def _message(dice, shape, names, offset, *, calm):
    """One message, most of them plain, and alike where it is calm."""
    emitted, usual = SHAPES[shape]
    fields = {name: USUAL[name][0] if calm else dice.choice(USUAL[name]) for name in names}
    fields["bound"] = str(offset)
    fields[emitted] = dice.choice(usual)
    for name in fields:
        if dice.random() < 0.005:
            fields[name] = dice.choice(BAD + (EMITTED * 4 if name == emitted else []))
    pairs = [f'"{name}":{value}' for name, value in fields.items()]
    if dice.random() < 0.02:  # a name that stands twice, or that is not known
        name = dice.choice([*fields, "more", "bits", "index", "series", "é", "\\u0069d"])
        pairs.insert(dice.randrange(len(pairs) + 1), f'"{name}":{dice.choice(BAD + HEX)}')
    if dice.random() < 0.01:
        pairs.pop(dice.randrange(len(pairs)))
    if dice.random() < 0.05:
        dice.shuffle(pairs)
    space = "" if calm else dice.choice([""] * 9 + [" ", "\n"])
    return f"{space}{{{f',{space}'.join(pairs)}}}{space}".encode("utf-8", "surrogatepass")


def _log(dice, shape, n):
    names = [name for name in USUAL if name not in OPTIONAL or dice.random() < 0.5]
    calm, offset, messages = dice.random() < 0.5, dice.randrange(9), []
    for _ in range(n):
        offset += 1 if calm else dice.choice([1] * 9 + [0, -1])
        message = _message(dice, shape, names, offset, calm=calm)
        messages.append(dice.choice(OURS) if dice.random() < 0.01 else message)
        if dice.random() < 0.05:
            messages[-1] = mutated(dice, messages[-1])
    return messages


def _said(one):
    """All that a batch says, down to types and bits."""
    said = [
        (type(each), each)
        for each in (
            one.scale, one.fingerprint, one.bound, one.closed, one.chunk, one.phase, one.cost,
            one.settled,
        )
    ]  # fmt: skip
    columns = [
        None if each is None else (each.dtype, each.shape, each.tobytes())
        for each in (one.ids, one.slots, one.values, one.series)
    ]
    return said, columns


def _strictly(message):
    try:
        return read_reports(message)
    except BadRecord as bad:
        return bad.reason


def _batch(n):
    rng = np.random.default_rng(n)
    ids = rng.integers(0, 2**64, (n, 2), np.uint64)
    return Reports(ids, np.arange(n), np.arange(n), 0.5, "f" * 32, 3, None)


OURS = [
    b"", b" ", b"{}", b"[]", b"1", b"null", b"{}{}", b"\xff\xff\xff\xff", b"{",
    encode(Tick(1_700_000_000_000)), write_reports(_batch(3)), write_reports(_batch(1)),
    b'{"ldp_kafka":2,"type":"report"}',
    b'{"ldp_kafka":1,"type":"header","topology":"t","fingerprint":"f","layout":"l"}',
]  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_read_as_columns_is_what_is_read_one_by_one(shape):
    """35,000 messages each, 105,000 in all: generated, mutated, in runs of any length."""
    seed = secrets.randbits(32)
    dice, left, reasons, reports, columns, longest = random.Random(seed), 35_000, Counter(), 0, 0, 0
    while left > 0:
        n = min(left, dice.choice([1, 2, 3, 7, 64, 500]))
        left -= n
        messages = _log(dice, shape, n)
        expected = [_strictly(message) for message in messages]
        reasons.update(each for each in expected if isinstance(each, Reason))
        reports += sum(isinstance(each, Reports) for each in expected)
        at = 0
        for run in read_plain_reports(messages):
            assert at <= run.place, (seed, messages)
            at = run.place + len(run)
            assert at <= n, (seed, messages)
            columns, longest = columns + len(run), max(longest, len(run))
            for row in range(len(run)):
                one = expected[run.place + row]
                assert isinstance(one, Reports), (seed, messages[run.place + row])
                assert _said(run.part(row, row + 1).reports) == _said(one), (seed, messages)
                assert run.source(row) == (one.bound, one.chunk)
                if row:
                    assert run.source(row) > run.source(row - 1)
            last = run.reports
            assert (last.bound, last.chunk) == run.source(len(run) - 1)
    # both paths were taken, and what is bad is bad for every reason there is
    assert reports > 25_000
    assert 18_000 < columns < reports - 2_000
    assert longest > 16, longest
    assert reasons.keys() >= {
        Reason.EMPTY, Reason.NOT_JSON, Reason.NOT_A_RECORD, Reason.NOT_A_REPORT, Reason.VERSION,
        Reason.WRONG_FIELDS, Reason.NOT_FINITE, Reason.NOT_ARROW,
    }  # fmt: skip


PLAIN = {
    "ldp_kafka": 1, "type": "report", "fingerprint": "f" * 32, "id": "0" * 32, "slot": 5,
    "phase": 0, "index": 3, "bound": 2, "chunk": 0, "closed": None,
}  # fmt: skip


def _plain(**changed):
    return json.dumps({**PLAIN, **changed}).encode()


@pytest.mark.parametrize(
    "message",
    [
        # an integer of 65 bits, which is a float in columns
        _plain(scale=2**64),
        _plain().replace(b'"index": 3', b'"index": ' + str(2**64).encode()),
        # equal to what it must be, and not of its type
        _plain(ldp_kafka=True), _plain(ldp_kafka=1.0), _plain(phase=False), _plain(phase=0.0),
        _plain(cost=False), _plain(slot=True), _plain(closed=1.0), _plain(settled=True),
        _plain(scale=True), _plain(chunk=False), _plain(bound=True), _plain(index=True),
        _plain(index=[True]), _plain(index=[1.0]), _plain(ldp_kafka=2), _plain(type="tick"),
        # what the conversion to bytes would take
        _plain(id="F" * 32), _plain(id=" " + "0" * 32), _plain(id="0" * 30 + " 0"),
        _plain(series="0" * 31), _plain(fingerprint="F" * 32), _plain(id=""),
        # out of range
        _plain(slot=-1), _plain(slot=2**47), _plain(bound=-2), _plain(bound=2**62),
        _plain(chunk=-1), _plain(chunk=2**62), _plain(index=2**62), _plain(index=-(2**62) - 1),
        _plain(index=[]), _plain(index=[1] * (WIDEST + 1)), _plain(phase=2**16), _plain(cost=2**31),
        _plain(closed=2**62), _plain(settled=2**62), _plain(scale=2.0**-65), _plain(more=1),
        _plain(bits="00"), _plain(slot="5"), b"\xef\xbb\xbf" + _plain(),
        _plain()[:-1] + b" " * MAX_BYTES + b"}",
        json.dumps({**PLAIN, "index": "00"}).replace("index", "bits").encode()[:-1] + b',"more":1}',
        # too deep, in what a name said first
        b'{"index":' + b"[" * DEEPEST + b"]" * DEEPEST + b"," + _plain()[1:],
    ],
)  # fmt: skip
def test_what_is_not_plain_is_read_by_itself(message, monkeypatch):
    """And so is what stands before and after it read as it is."""
    monkeypatch.setattr(report_columns, "FEWEST", 1)
    assert list(read_plain_reports([message])) == []
    around = [_plain(bound=1), _plain(bound=2), message, _plain(bound=3)]
    found = list(read_plain_reports(around))
    assert [(run.place, len(run)) for run in found] == [(0, 2), (3, 1)]


@pytest.mark.parametrize(
    "bits", ["", "0", "0g", "00FF", "0 ", "00" * (WIDEST + 1)], ids=lambda bits: bits[:4]
)
def test_bits_that_are_not_plain(bits):
    def message(said):
        return json.dumps(
            {**{name: value for name, value in PLAIN.items() if name != "index"}, "bits": said}
        ).encode()

    assert list(read_plain_reports([message(bits)])) == []
    assert isinstance(_strictly(message(bits)), Reason)
    [run] = read_plain_reports([message("00ff")])
    assert run.reports.values.tolist() == [[0, 255]]


@pytest.mark.parametrize(
    "changed",
    [
        {"fingerprint": "e" * 32}, {"phase": 1}, {"scale": 0.5}, {"closed": 4}, {"cost": 1},
        {"settled": 4}, {"index": [3]}, {"series": "0" * 32}, {"bound": 2}, {"bound": 1},
        {"chunk": 0},
    ],
)  # fmt: skip
def test_a_run_ends_where_a_report_differs_or_does_not_come_later(changed, monkeypatch):
    monkeypatch.setattr(report_columns, "FEWEST", 1)
    shared = {"scale": 0.25, "cost": 7, "settled": 1, "series": None}
    messages = [
        _plain(bound=1, chunk=1, **shared),
        _plain(bound=2, chunk=0, **shared),
        _plain(bound=2, chunk=1, **shared),
        _plain(**{"bound": 3, "chunk": 0, **shared, **changed}),
    ]
    if changed == {"chunk": 0}:  # alike, and later
        assert [len(run) for run in read_plain_reports(messages)] == [4]
        return
    found = list(read_plain_reports(messages))
    assert sum(map(len, found)) == 4
    assert (found[-1].place, len(found[-1])) == (3, 1)


def test_a_run_shows_no_value():
    [run] = read_plain_reports([_plain(index=4321, bound=at) for at in range(2)])
    assert repr(run) == "ReportRun(2 reports)"
