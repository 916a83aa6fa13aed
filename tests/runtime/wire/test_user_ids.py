"""Whose an event is: ids of one field or of several, in every format, and who has which budget."""

from __future__ import annotations

import json
import sys
import time
from itertools import product
from unicodedata import normalize

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldp_kafka import normal_form
from ldp_kafka.errors import BadRecord, Reason, TopologyError
from ldp_kafka.methods.contexts import distinct_ids
from ldp_kafka.runtime.keys import edge_randomness
from ldp_kafka.runtime.local import run
from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.partitioning import partitions_of
from ldp_kafka.runtime.replay import from_arrays, messages
from ldp_kafka.runtime.replay.messages import as_log
from ldp_kafka.runtime.wire.category_names import CategoryCodes
from ldp_kafka.runtime.wire.events import EventReader, event_reader
from ldp_kafka.runtime.wire.user_ids import MOST_CHARACTERS, joined_id, nfc, one_id, split_id
from ldp_kafka.topology import loads
from tests.runtime.wire.test_events import NOON, arrow, outcome

TEXT = """
topology: meters
input: {{slot: 1h, partitions: {partitions}, {more}}}
privacy: {{method: sw_direct, epsilon: 2.0, window: 4, domain: [0, 100]}}
output: {{statistics: [mean]}}
"""
PARTED = "user: [$.site, $.meter]"
PARTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=9) | st.integers(
    -(2**63), 2**63
)


def topology(more=PARTED, partitions=1):
    return loads(TEXT.format(more=more, partitions=partitions))


def users_of(made, *records):
    """The users of JSON events, or their reasons: one by one, in a run, and as columns of Arrow
    where each field is of one type.
    """
    reader = event_reader(made)
    texts = [json.dumps({"time": NOON, "value": 1, **record}).encode() for record in records]
    found = [outcome(reader.read(text), 1)[0] for text in texts]
    found = [each if isinstance(each, str) else each[0] for each in found]
    run_of = reader.read_run(texts * 3)
    read = [] if run_of.events is None else run_of.events.users.texts()
    assert read == [each for each in found if not isinstance(each, Reason)] * 3
    names = {name for record in records for name in record}
    columns = {name: [record.get(name) for record in records] for name in names}
    kinds = [{type(each) for each in column} for column in columns.values()]
    if all(kind <= {str, type(None)} or kind == {int} for kind in kinds):
        n = len(records)
        batch = arrow({**columns, "time": [NOON] * n, "value": [1.0] * n})
        rows = outcome(reader.read(batch), n)
        assert [each if isinstance(each, str) else each[0] for each in rows] == found
    return found


@given(st.lists(st.tuples(PARTS, PARTS), min_size=2, max_size=2))
def test_other_parts_are_another_user(pairs):
    """And the same parts the same one, whether a number is text or not."""
    texts = [[normalize("NFC", str(part)) for part in pair] for pair in pairs]
    ids = [joined_id(pair) for pair in pairs]
    assert ids == [json.dumps(pair, ensure_ascii=False, separators=(",", ":")) for pair in texts]
    assert (ids[0] == ids[1]) == (texts[0] == texts[1])
    assert split_id(ids[0], 2) == texts[0]


def test_ids_of_several_fields():
    """Injective, whatever the parts hold; each must be there."""
    made = topology()
    assert users_of(made, {"site": "a", "meter": 17}) == ['["a","17"]']
    assert users_of(made, {"site": "a", "meter": "17"}, {"site": 'a","17', "meter": "x"}) == [
        '["a","17"]',
        '["a\\",\\"17","x"]',
    ]
    assert users_of(made, {"site": "a\n\x7f\x1f", "meter": "é"}) == ['["a\\n\x7f\\u001f","é"]']
    assert users_of(
        made, {"site": "a", "meter": "1"}, {"site": "", "meter": "1"}, {"site": "a"},
        {"site": "a", "meter": None},
    ) == ['["a","1"]', Reason.USER, Reason.USER, Reason.USER]  # fmt: skip
    bad = (1.5, True, [], 2**64, "\ud800")
    assert users_of(made, *({"site": "a", "meter": each} for each in bad)) == [Reason.USER] * 5


def test_a_joined_id_has_a_limit():
    """Of 256 bytes in all."""
    made = topology()
    room = 256 - len('["a",""]')
    found = users_of(
        made,
        {"site": "a", "meter": "x" * room}, {"site": "a", "meter": "x" * (room + 1)},
        {"site": "a", "meter": "é" * (room // 2)}, {"site": "a", "meter": "é" * (room // 2 + 1)},
    )  # fmt: skip
    assert [isinstance(each, Reason) for each in found] == [False, True, False, True]
    assert len(found[0]) == 256


@given(st.text(max_size=12), st.integers(2, 4))
def test_any_text_can_be_replayed(text, count):
    """As one user, of its own."""
    parts = split_id(text, count)
    assert len(parts) == count
    try:
        joined = joined_id(parts)
    except BadRecord:
        return
    assert split_id(joined, count) == [normalize("NFC", part) for part in parts]


@pytest.mark.parametrize("batch", [1, 7])
@pytest.mark.parametrize("more", [PARTED, "user: [$.site, $.meter, $.part], partitioning: murmur2"])
def test_a_replay_is_read_back(batch, more):
    """Keyed by the id, in its partition; ids as they are given, or texts that are none."""
    made = topology(more, 3)
    users = ['["a","17"]', "m1", '["a"]', "17"]
    count = len(made.input.parts)
    expected = [joined_id(split_id(user, count)) for user in users]
    stream = list(messages(made, from_arrays(made, [[50.0] * 2] * 4, NOON, users=users), batch))
    read = []
    for raw in stream:
        found = event_reader(made).read(raw.value)
        assert not found.bad
        if found.events is not None:
            here = found.events.users.texts()
            read += here
            assert {*partitions_of(here, 3).tolist()} == {raw.partition}
            assert raw.key is None or raw.key.decode() in here
    assert sorted(read) == sorted(expected * 2)
    result = run(made, edge_randomness(made, bytes(32), "here"), as_log(made, stream))
    assert not result.dead_letters
    assert result.counts["events"] == 8


def test_one_user_has_one_budget():
    """17 and "17" of a site are one, and spend once a slot; another site's 17 is another."""
    made = topology()
    rows = [("a", 17), ("a", "17"), ("b", 17), ("a", "17")]
    log = [
        Message(at, -1, json.dumps(
            {"site": site, "meter": meter, "time": NOON, "value": 5}).encode())
        for at, (site, meter) in enumerate(rows, 1)
    ]  # fmt: skip
    result = run(made, edge_randomness(made, bytes(32), "here"), [log])
    assert result.counts["reports"] == 2


def test_columns_of_a_batch_make_an_id():
    """Of any types that a single one may have; a bad row is bad by itself."""
    made = topology(f"{PARTED}, format: arrow")
    batch = arrow(
        {
            "site": pa.array(["a", "b", None, "x" * 250]).dictionary_encode(),
            "meter": pa.array([1, None, 3, 1234], pa.uint16()),
            "time": [NOON] * 4,
            "value": [1.0] * 4,
        }
    )
    [first, *others] = outcome(event_reader(made).read(batch), 4)
    assert first[0] == '["a","1"]'
    assert others == [Reason.USER] * 3
    assert EventReader((), ("value",), ("time",), parts=(("a",), ("b",))).read(batch).bad == [
        (0, Reason.USER)
    ]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("user: [$.a]", r"3: input\.user: must have at least 2 items"),
        ("user: [$.a, $.a]", r"3: input\.user: must name each item once"),
        ("user: [$.a, b]", r"3: input\.user\[1\]: must be a field path such as"),
        ("user: [$.a, $.b..c]", r"3: input\.user\[1\]: a field path goes on with"),
        ("user: [$.a, $.value]", r"3: input: user, value and time must be three different"),
        ("user: [$.a, ^.b]", r"3: input\.user\[1\]: must begin with \$"),
        ("user: [$.a, $.b.c], format: arrow", r"3: input\.user\[1\]: must be one column such"),
        ("user: {a: b}", r"3: input\.user: must be a field path such as .*, or a list of them"),
        ("user: 17", r"3: input\.user: must be a field path such as"),
    ],
)
def test_what_is_wrong_is_said(more, said):
    with pytest.raises(TopologyError, match=said):
        topology(more)


# Two spellings

SPELLINGS = [
    ("\u00e9", "e\u0301"),  # one character, or a letter and an accent
    ("\u00c5ngstr\u00f6m", "\u212bngstro\u0308m"),  # the sign of the unit, too
    ("\u1ed9", "o\u0323\u0302", "o\u0302\u0323", "\u00f4\u0323"),  # two accents, in any order
    ("\ud55c\uae00", normalize("NFD", "\ud55c\uae00")),
    ("x" * 250 + "\u00e9" * 3, "x" * 250 + "e\u0301" * 3),  # 256 bytes, and 259
    ("\u1f80" * 85, normalize("NFD", "\u1f80" * 85)),  # three bytes, and nine
]


@pytest.mark.parametrize("spellings", SPELLINGS, ids=range(len(SPELLINGS)))
def test_two_spellings_are_one_user(spellings):
    """In every format, alone and beside others."""
    single = topology("user: $.user")
    assert len({*spellings}) == len(spellings)
    ids = [spellings[0]] * len(spellings)
    assert users_of(single, *({"user": each} for each in spellings)) == ids
    n = len(spellings)
    for kind in (pa.string(), pa.large_string(), None):
        column = pa.array(spellings, kind)
        column = column.dictionary_encode() if kind is None else column
        batch = arrow({"user": column, "time": [NOON] * n, "value": [1.0] * n})
        plain = arrow({"user": pa.array(["a"] * n, kind), "time": [NOON] * n, "value": [1.0] * n})
        assert event_reader(single).read(batch).events.users.texts() == ids
        found = event_reader(single).read_run([batch, plain, batch])
        assert found.events.users.texts() == [*ids, *["a"] * n, *ids]
    if len(spellings[0]) < 80:
        parted = users_of(topology(), *({"site": "a", "meter": each} for each in spellings))
        assert parted == [f'["a","{spellings[0]}"]'] * n


def test_two_spellings_have_one_budget():
    made = topology("user: $.user")
    log = [
        Message(at, -1, json.dumps({"user": user, "time": NOON, "value": 5}).encode())
        for at, user in enumerate(SPELLINGS[2], 1)
    ]
    result = run(made, edge_randomness(made, bytes(32), "here"), [log])
    assert (result.counts["events"], result.counts["reports"]) == (4, 1)


def test_parts_are_normalized_by_themselves():
    """An accent at the beginning of a part belongs to no character of the text around it."""
    made = topology()
    accent = "\u0300"
    assert users_of(made, {"site": f"\n{accent}", "meter": accent}) == [
        f'["\\n{accent}","{accent}"]'
    ]
    assert json.loads(joined_id([f"\n{accent}", accent])) == [f"\n{accent}", accent]


def test_other_texts_are_other_users():
    """What looks alike and is another text to Unicode stays so, and ASCII is as it was."""
    made = topology("user: $.user")
    alike = ["K", "\uff2b", "k", "\ufb01", "fi", "\u0430", "a", "017", "17", " 17", "\u0664"]
    assert users_of(made, *({"user": each} for each in alike)) == alike


@given(st.text(max_size=40))
def test_ids_are_in_nfc(text):
    try:
        found = one_id(text)
    except BadRecord:
        return
    assert found == normal_form.nfc(text)
    if sys.version_info < (3, 12):  # whose Unicode is 14.0
        assert found == normalize("NFC", text) == one_id(normalize("NFD", text))


def test_ids_and_names_stay_with_a_later_python(monkeypatch):
    """Unicode 15 sorts and composes around an accent that 14 does not know; a log that is folded
    again by a later Python holds the same users.
    """
    accent, like = "\U0001e4ef", "\u0315"  # of one class in Unicode 15

    def later(form, text):
        return normalize(form, text.replace(accent, like)).replace(like, accent)

    text = f"a{accent}\u0323"
    assert normalize("NFC", text) == text != later("NFC", text) or sys.version_info >= (3, 12)
    for module in list(sys.modules.values()):
        if module.__name__.startswith("ldp_kafka."):
            for name, made in (
                ("normalize", later),
                ("is_normalized", lambda form, text: later(form, text) == text),
            ):
                if hasattr(module, name):
                    monkeypatch.setattr(module, name, made)
    assert users_of(topology("user: $.user"), {"user": text}) == [text]
    assert users_of(topology(), {"site": text, "meter": 1}) == [f'["{text}","1"]']
    assert list(CategoryCodes([text])) == distinct_ids([text], 1) == [text]


def test_no_id_is_too_long_to_be_normalized():
    """Of all characters the most that two bytes in NFC may be written as."""
    most = 0.0
    for code in range(sys.maxunicode + 1):
        if not 0xD800 <= code < 0xE000:
            short = normalize("NFC", chr(code))
            most = max(most, len(normalize("NFD", short)) / len(short.encode()))
    assert most * 256 <= MOST_CHARACTERS


def test_a_run_of_accents_takes_no_time():
    """To sort so many takes the square of their number."""
    accents = ("\u0301\u0323" * 500_000)[: 2**18]
    made = topology("user: $.user")
    start = time.perf_counter()
    assert users_of(made, {"user": "e" + accents}) == [Reason.USER]
    assert users_of(topology(), {"site": "a", "meter": accents}) == [Reason.USER]
    assert time.perf_counter() - start < 5
    with pytest.raises(BadRecord):
        nfc("\u0301" * (MOST_CHARACTERS + 1))


def test_the_key_of_another_spelling_is_another_partition():
    """What was keyed by it is a dead letter, whose cure says how to key."""
    made = topology("user: $.user, partitioning: murmur2", 7)
    right, wrong = "\u00e9", "e\u0301"
    homes = partitions_of([right, wrong], 7).tolist()
    assert homes[0] != homes[1]
    for home in homes:
        logs = [[] for _ in range(7)]
        text = json.dumps({"user": wrong, "time": NOON, "value": 5}).encode()
        logs[home] = [Message(1, -1, text)]
        result = run(made, edge_randomness(made, bytes(32), "here"), logs)
        reasons = [json.loads(one.value)["reason"] for one in result.dead_letters]
        assert reasons == ([] if home == homes[0] else ["partition"])
    assert "NFC" in Reason.PARTITION.cure


def test_a_replay_keys_by_the_id():
    """So that two spellings are in one partition."""
    made = topology("user: $.user, partitioning: murmur2", 7)
    users, found = ["\u00e9", "e\u0301"], set()
    for batch, user in product((1, 9), users):
        stream = list(messages(made, from_arrays(made, [[5.0]], NOON, users=[user]), batch))
        found |= {raw.partition for raw in stream if raw.events}
        assert {raw.key for raw in stream if raw.events} <= {None, users[0].encode()}
        result = run(made, edge_randomness(made, bytes(32), "here"), as_log(made, stream))
        assert not result.dead_letters
        assert result.counts["reports"] == 1
    assert len(found) == 1
