"""What a topology file may say, and what is said of one that is wrong: file, line and key of
everything at once.
"""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldp_kafka.errors import ConfigurationError, TopologyError
from ldp_kafka.methods.runnable import names
from ldp_kafka.runtime.wire.events import event_reader
from ldp_kafka.topology import Topology, load, loads
from tests.cases import cases, table

GOOD = """\
topology: meters
kafka:
  bootstrap_servers: localhost:9092
  client: {}
input:
  slot: 1h
privacy:
  method: capp
  epsilon: 1.0
  window: 10
  domain: [0.0, 10.0]
output:
  statistics: [mean, per_user]
"""


def refused(text):
    """The lines of the error that a text raises."""
    with pytest.raises(TopologyError) as caught:
        loads(text, "t.yaml")
    assert str(caught.value).splitlines() == [str(problem) for problem in caught.value.problems]
    return str(caught.value).splitlines()


def changed(*pairs, text=GOOD):
    """The good topology with pieces replaced."""
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    return text


def test_defaults():
    topology = loads(GOOD)
    source = topology.input
    assert isinstance(topology, Topology)
    assert (source.topic, source.partitions, source.create) == ("meters.raw", 2, True)
    assert (source.format, source.lateness, source.per_slot) == ("json", 1, "first")
    assert (source.user, source.value, source.time) == (("user",), ("value",), ("time",))
    assert (source.slot_ms, source.idle_ms, source.max_ahead_ms) == (3_600_000, None, 86_400_000)
    assert (source.partitioning, source.gaps) == ("trusted", "strict")
    privacy = topology.privacy
    assert (privacy.mechanism, privacy.calibration) == ("square_wave", "sound")
    assert topology.edge.key_file is None
    assert topology.edge_kafka is topology.collector_kafka
    assert loads(GOOD.replace("  bootstrap_servers: localhost:9092\n", "")).edge_kafka.embedded


# (what to replace, with what, the one line of the error)
WRONG = table(r"""
topology: meters | topology: 12 | 1: topology: must be text of 1 to 200 letters
topology: meters | topologie: meters\ntopology: meters |
    1: topologie: unknown key (did you mean topology?)
bootstrap_servers: | bootstrap_server: |
    3: kafka.bootstrap_server: unknown key (did you mean bootstrap_servers?)
localhost:9092 | ',' | 3: kafka.bootstrap_servers: must be host:port
localhost:9092 | embedded,localhost:1 | 3: kafka.bootstrap_servers: embedded stands alone
client: {} | client: {group.id: mine} | 4: kafka.client.group.id: is ours to set
client: {} | client: {sasl.password: } | 4: kafka.client.sasl.password: must be text
client: {} | client: {sasl.password: [hidden]} | 4: kafka.client.sasl.password: must be text
client: {} | edge: {} | 2: kafka.collector: must be given where kafka.edge is
client: {} | edge: {client: {sasl.username: a}}\n  collector: {client: {sasl.username: a,
    sasl.password: b}} | 5: kafka.collector: must not be able to read the raw topic
client: {} | edge: {}\n  collector: {bootstrap_servers: ' '} |
    5: kafka.collector.bootstrap_servers: must be host:port
slot: 1h | slot: 0h |
    6: input.slot: must be a duration such as 250ms, 30s, 15m, 1h or 1d; got "0h": must be longer
    than nothing
  slot: 1h |   lateness: 1 | 5: input.slot: must be given
slot: 1h | slot: 1h\n  lateness: -1 | 7: input.lateness: must be at least 0; got -1
slot: 1h | slot: 1h\n  lateness: 1001 | 7: input.lateness: must be at most 1000; got 1001
slot: 1h | slot: 1h\n  partitions: 2.0 | 7: input.partitions: must be a whole number; got 2.0
slot: 1h | slot: 1h\n  partitions: true | 7: input.partitions: must be a whole number; got true
slot: 1h | slot: 1h\n  topic: a/b | 7: input.topic: must be a topic's name
slot: 1h | slot: 1h\n  topic: .. | 7: input.topic: must be a topic's name
slot: 1h | slot: 1h\n  topic: meters.reports |
    7: input.topic: must not be a topic of ours: meters.reports
slot: 1h | slot: 1h\n  topic: meters.reports\n  create: false |
    7: input.topic: must not be a topic of ours: meters.reports
slot: 1h | slot: 1h\n  format: jsn |
    7: input.format: must be one of json, arrow; got "jsn" (did you mean json?)
slot: 1h | slot: 1h\n  format: arrow\n  user: $.a.b |
    8: input.user: must be one column such as $.user where format is arrow
slot: 1h | slot: 1h\n  user: user | 7: input.user: must be a field path such as
slot: 1h | slot: 1h\n  user: $.a..b | 7: input.user: a field path goes on with
slot: 1h | slot: 1h\n  user: $.value | 5: input: user, value and time must be three different fields
slot: 1h | slot: 1h\n  idle: on | 7: input.idle: must be off, or a duration such as 30s
slot: 1h | slot: 1h\n  idle: 0s |
    7: input.idle: must be off, or a duration such as 30s; got "0s": must be longer than
slot: 1h | slot: 1h\n  create: false\n  idle: 30s | 8: input.idle: must be off where create is false
slot: 1h | slot: 1h\n  per_slot: latest |
    7: input.per_slot: must be one of first, last, mean, sum, min, max, count; got "latest"
slot: 1h | slot: 1h\n  relay: true |
    5: input.topic: must be given where relay is true: someone else's, which is copied
slot: 1h | slot: 1h\n  topic: theirs\n  relay: true\n  create: true |
    9: input.create: must be false where relay is true
slot: 1h | slot: 1h\n  source: devices\n  relay: true |
    8: input.relay: must not be given where source is devices
slot: 1h | slot: 1h\n  topic: meters.edge\n  relay: true |
    7: input.topic: must not be a topic of ours: meters.edge
slot: 1h | slot: 1h\n  slot: 2h | 7: input.slot: given twice, first on line 6
slot: 1h | slot: 1h\n  coerce: number |
    7: input.coerce: must be one of none, numbers; got "number" (did you mean numbers?)
slot: 1h | slot: 1h\n  time_unit: nss |
    7: input.time_unit: must be one of s, ms, us, ns; got "nss" (did you mean ns?)
slot: 1h | slot: 1h\n  xyzzy: 2 | 7: input.xyzzy: unknown key; known here: topic, partitions
method: capp | method: cap |
    8: privacy.method: must be one of METHODS; got "cap" (did you mean capp?)
method: capp | method: capp\n  mechanism: laplas |
    9: privacy.mechanism: must be one of adaptive, duchi, gaussian, gaussian_vector, grr, hadamard,
    hybrid, laplace, olh, oue, piecewise, square_wave, subset_selection, sue
method: capp | method: sw_direct\n  mechanism: grr |
    9: privacy.mechanism: must be one of duchi, hybrid, laplace, piecewise, square_wave for
    sw_direct: grr is a mechanism for categories, and sw_direct needs one for numbers
method: capp | method: sw_direct\n  mechanism: gaussian |
    9: privacy.mechanism: must be one of duchi, hybrid, laplace, piecewise, square_wave for
    sw_direct
method: capp | method: capp\n  block: 0 | 9: privacy.block: must be at least 1; got 0
epsilon: 1.0 | epsilon: true | 9: privacy.epsilon: must be a number; got true
epsilon: 1.0 | epsilon: "1" | 9: privacy.epsilon: must be a number; got "1"
epsilon: 1.0 | epsilon: .nan | 9: privacy.epsilon: must be a finite number
epsilon: 1.0 | epsilon: .inf | 9: privacy.epsilon: must be a finite number
epsilon: 1.0 | epsilon: 0 | 9: privacy.epsilon: must be greater than 0; got 0
epsilon: 1.0 | epsilon: 1e9 | 9: privacy.epsilon: must be at most 2147
epsilon: 1.0 | epsilon: 0.000001 | 7: privacy: capp over square_wave: epsilon must be large enough
  epsilon: 1.0\n |  | 7: privacy.epsilon: must be given
window: 10 | window: 0 | 10: privacy.window: must be at least 1; got 0
window: 10 | window: 10.0 | 10: privacy.window: must be a whole number; got 10.0
  domain: [0.0, 10.0]\n |  | 7: privacy.domain: must be given: capp is for numbers
[0.0, 10.0] | [10, 0] | 11: privacy.domain: must be [low, high] with low < high; got [10, 0]
[0.0, 10.0] | [0] | 11: privacy.domain: must have 2 items
[0.0, 10.0] | \n    - 0\n    - ten | 13: privacy.domain[1]: must be a number; got "ten"
[0.0, 10.0] | [-1.7e308, 1.7e308] | 7: privacy: capp over square_wave: domain must not be so wide
domain: [0.0, 10.0] | domain: [0.0, 10.0]\n  categories: 3 |
    12: privacy.categories: must not be given: capp is for numbers
window: 10 | window: 10\n  calibration: loose |
    11: privacy.calibration: must be one of sound, published
[mean, per_user] | [] | 13: output.statistics: must have at least 1 items
[mean, per_user] | [mean, mean] | 13: output.statistics: must name each item once
[mean, per_user] | \n    - mean\n    - distribution |
    15: output.statistics[1]: distribution cannot be made of what capp reports; it has mean,
    per_user; of methods without a coordinator it comes later, it is not built yet; lbu, lpa, lpd,
    lpu, lsp have it
[mean, per_user] | \n    - mean\n    - frequencies |
    15: output.statistics[1]: frequencies must come from a method for categories; capp is for
    numbers
output:\n  statistics: [mean, per_user]\n |  | 1: output: must be given
output: | runtime:\noutput: | 12: runtime: must be a mapping; got nothing
output: | runtime: {shards: 0}\noutput: | 12: runtime.shards: must be at least 1; got 0
output: | runtime: {snapshot_seconds: 0}\noutput: |
    12: runtime.snapshot_seconds: must be greater than 0
output: | edge: {keyfile: x}\noutput: | 12: edge.keyfile: unknown key (did you mean key_file?)
epsilon: 1.0 | epsilon: [&a [*a]] | 9: privacy.epsilon: must not be nested so deep
slot: 1h | slot: 1h\n  ? [a]\n  : 1 | 7: input.?: a key must be text
""")


@cases(("old", "new", "expected"), WRONG)
def test_each_mistake_has_its_line_and_key(old, new, expected):
    lines = refused(changed((old, new)))
    assert len(lines) == 1, lines
    assert lines[0].startswith(f"t.yaml:{expected.replace('METHODS', ', '.join(names()))}"), lines[
        0
    ]


LPU = changed(
    ("method: capp", "method: lpu"),
    ("domain: [0.0, 10.0]", "categories: [a, b, c]"),
    ("[mean, per_user]", "[frequencies]"),
)
OF_CATEGORIES = table(r"""
[a, b, c] | [a, b, a] | 11: privacy.categories: must name each item once; got ["a", "b", "a"]
[a, b, c] | [1, b] | 11: privacy.categories[0]: must be text; got 1 (put it in quotes)
[a, b, c] | [true, b] | 11: privacy.categories[0]: must be text; got true (put it in quotes)
[a, b, c] | ["e\u0301", b, "\u00e9"] |
    11: privacy.categories: must name each category once (in Unicode's NFC)
[a, b, c] | 8193 | 13: output.statistics[0]: frequencies must be of at most 8,192 categories: a
    release of more would be larger than a broker takes
[a, b, c] | 1 | 11: privacy.categories: must be at least 2; got 1
categories: [a, b, c] | domain: [0, 1] |
    13: output.statistics[0]: frequencies must come from a method for categories; lpu is for numbers
  categories: [a, b, c]\n |  | NEITHER
[a, b, c] | [a, b, c]\n  domain: [0, 1] | NEITHER
[frequencies] | [per_user] |
    13: output.statistics[0]: per_user must come from a method for numbers; lpu is for categories
[frequencies] | [mean] |
    13: output.statistics[0]: mean must come from a method for numbers; lpu is for categories
""")
NEITHER = "7: privacy: lpu needs either categories or the domain of numbers: give one of them"


@cases(("old", "new", "said"), OF_CATEGORIES)
def test_categories_that_are_wrong(old, new, said):
    assert refused(changed((old, new), text=LPU)) == [f"t.yaml:{said.replace('NEITHER', NEITHER)}"]


def test_categories():
    privacy = loads(LPU).privacy
    assert (privacy.categories, privacy.category_names) == (3, ("a", "b", "c"))
    assert privacy.domain is None
    for number in (16, 8192):
        assert loads(LPU.replace("[a, b, c]", str(number))).privacy.categories == number
    quoted = LPU.replace("[a, b, c]", '["200", "404", "true"]')  # that is no dead end: the reader
    made = event_reader(loads(quoted))
    assert [
        made.fields({"user": "u", "time": 1_700_000_000, "value": value})[2]
        for value in (404, "404", True, 200.0)
    ] == [1, 1, 2, 0]
    # releases say the name as the file has it
    accented = loads(LPU.replace("[a, b, c]", '["e\u0301", b]')).privacy.category_names
    assert accented == ("e\u0301", "b")
    asking = LPU.replace("lpu", "lpa")
    assert loads(asking.replace("[a, b, c]", "1024"))
    [said] = refused(asking.replace("[a, b, c]", "1025"))
    assert said == (
        "t.yaml:13: output.statistics[0]: frequencies must be of at most 1,024 categories for lpa:"
        " what its coordinator remembers of more would be larger than a broker takes"
    )


def test_everything_wrong_is_said_at_once_in_the_order_of_lines():
    lines = refused(
        changed(
            ("localhost:9092", "','"),
            ("slot: 1h", "slot: 1"),
            ("epsilon: 1.0", "epsilon: -1"),
            ("[0.0", "[20"),
            ("mean, per_user", "meen"),
        )
    )
    assert [line.split(": ")[:2] for line in lines] == [
        ["t.yaml:3", "kafka.bootstrap_servers"],
        ["t.yaml:6", "input.slot"],
        ["t.yaml:9", "privacy.epsilon"],
        ["t.yaml:13", "output.statistics[0]"],
    ]


@cases(
    ("text", "line"),
    [
        ("a: [1", 1),
        ("a: 1\nb: c: d\n", 2),
        ("a: 1\n\tb: 1\n", 2),
        ("a: 1\n---\na: 2\n", 2),
        ("a: *b", 1),
        ("a: 'x", 1),
    ],
)
def test_what_is_no_yaml_names_the_line(text, line):
    (only,) = refused(text)
    assert only.startswith(f"t.yaml:{line}: this is no valid YAML: ")


@cases("text", ["", "# nothing\n", "[1]", "text", "1", "null"])
def test_a_file_must_be_a_mapping(text):
    assert refused(text) == [
        "t.yaml:1: a topology must be a mapping of keys such as topology, input, privacy and output"
    ]


def test_a_control_character_is_no_yaml():
    assert refused("a: \x00") == [
        "t.yaml: this is no valid YAML: it holds a control character: write it anew, as UTF-8 text"
    ]


def test_a_well_without_a_bottom():
    assert refused("a: " + "[" * 5000) == ["t.yaml: must not be nested so deep"]


def test_files(tmp_path):
    path = tmp_path / "good.yaml"
    path.write_text(GOOD + "edge: {key_file: keys/edge.key}\n")
    assert load(path).edge.key_file == tmp_path / "keys" / "edge.key"
    assert load(str(path)).file == str(path)
    with pytest.raises(ConfigurationError, match="cannot read the topology"):
        load(tmp_path / "none.yaml")
    with pytest.raises(ConfigurationError, match="cannot read the topology"):
        load(tmp_path)
    path.write_bytes(b"topology: \xff")
    with pytest.raises(TopologyError, match="UTF-8"):
        load(path)


def test_an_absolute_key_file_stays():
    assert (
        str(loads(GOOD + "edge: {key_file: /etc/edge.key}\n", "some/where.yaml").edge.key_file)
        == "/etc/edge.key"
    )


def test_two_sides():
    both = changed(
        (
            "client: {}",
            (
                "client: {security.protocol: SASL_SSL}\n  edge: {client: {sasl.username: edge,"
                " sasl.password: 0123}}\n  collector: {bootstrap_servers: far:9092}"
            ),
        )
    )
    topology = loads(both)
    common, login = {"security.protocol": "SASL_SSL"}, {"sasl.username": "edge"}
    assert topology.edge_kafka.bootstrap_servers == "localhost:9092"
    assert topology.edge_kafka.client == {**common, **login, "sasl.password": "0123"}
    assert topology.collector_kafka.client == common
    assert topology.warnings == ()
    assert "0123" not in repr(topology)
    assert "one kafka block" in loads(GOOD).warnings[0]


@cases(
    ("text", "expected"),
    [("250ms", 250), ("30s", 30_000), ("15m", 900_000), ("1h", 3_600_000), ("1d", 86_400_000)],
)
def test_durations(text, expected):
    topology = loads(changed(("slot: 1h", f"slot: {text}\n  idle: {text}\n  max_ahead: {text}")))
    assert (topology.input.slot_ms, topology.input.idle_ms, topology.input.max_ahead_ms) == (
        expected,
    ) * 3


@cases("text", ["1", "1.0", "1e0", "+1", "0x1"])
def test_epsilon_as_people_write_it(text):
    assert math.isclose(loads(changed(("epsilon: 1.0", f"epsilon: {text}"))).privacy.epsilon, 1.0)


LINES = [number for number, line in enumerate(GOOD.splitlines()) if not line.endswith(":")]
JUNK = [
    *("", "~", "[]", "{}", "{a: 1}", "[[1], {}]", "-1", "0", "1", "1e400", "9" * 400, ".nan"),
    *("-.inf", "true", "x", "'\u2028'", "!!str 1", "!x 1", "2020-01-01", "&a b", "|\n   x", "$"),
    *("${X", "1h"),
]


@given(st.lists(st.tuples(st.sampled_from(LINES), st.sampled_from(JUNK)), min_size=1, max_size=3))
def test_junk_is_refused_in_words_or_right(junk):
    """Whatever stands at a key: a topology, or an error that names a line; nothing
    else is raised.
    """
    lines = GOOD.splitlines()
    for number, value in junk:
        lines[number] = lines[number].partition(":")[0] + ": " + value
    problems = ()
    try:
        loads("\n".join(lines), "t.yaml")
    except TopologyError as error:
        problems = error.problems
    assert all(problem.line is not None for problem in problems)


def test_windows_take_no_mechanism():
    windows = changed(
        ("method: capp", "method: segment_mean\n  level: event\n  delay: 4\n  setting: batch"),
        ("  window: 10\n", ""),
        ("mean, per_user", "per_user"),
    )
    assert loads(windows).setting == "batch"
    said = "t.yaml:10: privacy.mechanism: must be left out for segment_mean, which adds noise to"
    assert refused(windows.replace("  delay", "  mechanism: duchi\n  delay")) == [
        f"{said} sums of values"
    ]
