"""What follows from a topology: two digests, names, topics and slots."""

import dataclasses
import re

import numpy as np
import pytest

from ldp_kafka.errors import ConfigurationError, TopologyError
from ldp_kafka.methods import METHODS, DelayMethod
from ldp_kafka.runtime.stages.per_slot import PER_SLOT
from ldp_kafka.topology import Input, KafkaSide, Output, loads, schema
from ldp_kafka.topology.sections import frozen
from tests.cases import cases, table

GOOD = """\
topology: meters
kafka: {bootstrap_servers: "a:1", client: {}}
input: {topic: raw, partitions: 2, create: true, format: json, user: $.user, value: $.value,
  time: $.time, coerce: none, slot: 1h, lateness: 1, partitioning: trusted, gaps: strict, idle: off,
  max_ahead: 1d, per_slot: first}
privacy: {method: capp, mechanism: square_wave, epsilon: 1.0, window: 10, domain: [0.0, 10.0],
  calibration: sound, block: 5}
output: {statistics: [mean, per_user]}
edge: {key_file: a.key}
runtime: {snapshot_messages: 10, snapshot_bytes: 100000, snapshot_seconds: 1, shards: 4,
  session_timeout: 10s, report_rows: 100}
"""
LPU = (
    GOOD.replace("method: capp", "method: lpu")
    .replace("mechanism: square_wave", "mechanism: grr")
    .replace(", block: 5", "")
    .replace("[mean, per_user]", "[frequencies]")
    .replace("domain: [0.0, 10.0]", "categories: [a, b]")
)

# every key of the schema, another value for it, and which digest it moves
KEYS = [
    ("topology: meters", "topology: others", "fingerprint"),
    ('bootstrap_servers: "a:1"', "bootstrap_servers: 'b:1'", ""),
    ("client: {}", "client: {linger.ms: 5}", ""),
    (
        "client: {}",
        "edge: {bootstrap_servers: 'c:1'}, collector: {bootstrap_servers: 'd:1'}",
        "",
    ),
    ("topic: raw", "topic: other", "layout"),
    ("partitions: 2", "partitions: 3", "layout"),
    ("create: true", "create: false", ""),
    ("create: true", "relay: true", "layout"),
    ("format: json", "format: arrow", ""),
    ("user: $.user", "user: $.u", "layout"),
    ("value: $.value", "value: $.v", "layout"),
    ("time: $.time", "time: $.t", "layout"),
    ("time: $.time", "time: $.time, time_unit: ms", "layout"),
    ("time: $.time", "time: $.time, events: $", "layout"),
    ("time: $.time", "time: $.time, events: $.readings", "layout"),
    ("user: $.user", "user: [$.a, $.b]", "layout"),
    ("coerce: none", "coerce: numbers", "layout"),
    ("slot: 1h", "slot: 2h", "fingerprint"),
    ("lateness: 1", "lateness: 2", "layout"),
    ("partitioning: trusted", "partitioning: murmur2", "layout"),
    ("gaps: strict", "gaps: allow", ""),
    ("idle: off", "idle: 30s", ""),
    ("max_ahead: 1d", "max_ahead: 2d", "layout"),
    ("method: capp", "method: sw_direct", "fingerprint"),
    ("epsilon: 1.0", "epsilon: 2.0", "fingerprint"),
    ("epsilon: 1.0", "epsilon: 1.000001", "fingerprint"),
    ("window: 10", "window: 11", "fingerprint"),
    ("domain: [0.0, 10.0]", "domain: [0.0, 10.5]", "fingerprint"),
    ("calibration: sound", "calibration: published", "fingerprint"),
    ("block: 5", "block: 6", "fingerprint"),
    ("block: 5", "block: 5, clip: 0.1", "fingerprint"),
    ("statistics: [mean, per_user]", "statistics: [mean]", "layout"),
    ("statistics: [mean, per_user]", "statistics: [mean, per_user], shrinkage: false", ""),
    (
        "statistics: [mean, per_user]",
        "statistics: [mean, per_user], smooth: {moving_average: 3}",
        "",
    ),
    ("statistics: [mean, per_user]", "statistics: [mean, per_user], events: {above: 5}", ""),
    ("key_file: a.key", "key_file: b.key", ""),
    ("key_file: a.key", "key_file: a.key, budget_file: edge.yaml", ""),
    ("key_file: a.key", "key_file: a.key, deployment: eu", ""),
    ("snapshot_messages: 10", "snapshot_messages: 11", ""),
    ("snapshot_bytes: 100000", "snapshot_bytes: 100001", ""),
    ("snapshot_seconds: 1", "snapshot_seconds: 2", ""),
    ("shards: 4", "shards: 5", "layout"),
    ("session_timeout: 10s", "session_timeout: 11s", ""),
    ("report_rows: 100", "report_rows: 101", ""),  # no effect where releases are per user
]


SINGLE = {
    *("source", "hold", "per_slot", "mechanism", "categories", "level", "postprocess", "bins"),
    *("trust", "time_unit", "events", "streams", "start", "closing", "sources"),
} | {name for method in METHODS.values() for name in method.parameters} - {"block"}
"""Keys that cannot vary beside the others: one value only, one that fits only, or tested by
themselves.
"""


def edited(old, new):
    """The full topology with one key changed (and what cannot stand beside it taken out)."""
    assert GOOD.count(old) == 1, old
    text = GOOD.replace(old, new)
    return text.replace(", block: 5", "") if "sw_direct" in new else text


@cases(("old", "new", "moves"), KEYS)
def test_each_key_moves_the_digest_it_belongs_to_and_no_other(old, new, moves):
    before, after = loads(GOOD), loads(edited(old, new))
    assert (before.fingerprint != after.fingerprint) == (moves == "fingerprint")
    assert (before.layout != after.layout) == (moves == "layout")
    assert before != after, "the loader does not read this key"


def test_how_many_reports_wait():
    """It is of the state where they do: not where a message has a batch of its own."""
    assert loads(LPU).report_rows == 100
    assert loads(LPU).layout != loads(LPU.replace("rows: 100", "rows: 101")).layout
    assert loads(GOOD).report_rows == 0
    assert loads(GOOD.replace("gaps: strict", "gaps: allow")).report_rows == 0
    wide = LPU.replace("mechanism: grr", "mechanism: oue").replace("[a, b]", "8192")
    assert loads(wide.replace("rows: 100", "rows: 1000000")).report_rows == 2**20 // (32 + 1024)


def test_every_key_is_read():
    """KEYS changes every key of the schema, so a key that the loader forgets is found out above."""
    changed = {key for _, new, _ in KEYS for key in re.findall(r"(?:^|, )(\w+): ", new)}
    whole = schema()
    sections = [
        *(place for place in whole["properties"].values() if "properties" in place),
        *(whole["$defs"][name] for name in ("kafka", "input", "privacy")),
    ]
    assert {key for section in sections for key in section["properties"]} | {
        "topology"
    } == changed | SINGLE


LIFE = "level: user, delta: 1.0e-5, "
# a method, what else it is given, and each of its own parameters at another value
OTHERWISE = table(r"""
app | window: 8 | block: 2
app_s | window: 8 | block: 2, segment: 4, position: 1
budget_split | window: 8, dimension: 2, inner: app_s | dimension: 3, inner: capp_s, block: 4,
    segment: 4
capp | window: 8 | block: 2, clip: 0.1
capp_s | window: 8 | block: 2, clip: 0.1, segment: 4, position: 1
cgm | LIFE | horizon: 51, delta: 0.000001, refresh: 10, differential_bound: 0.06, lag: 2, change:
    multiplicative
cgm_pure | level: user, horizon: 50 | horizon: 51, refresh: 10, differential_bound: 0.06, lag: 2,
    change: multiplicative
cgm_vector | LIFE, dimension: 2 | horizon: 51, delta: 0.000001, refresh: 10,
    differential_bound: 0.06, lag: 2, dimension: 3, diameter: 2.0
etm | window: 8 | delay: 5
fast | level: user, horizon: 50 | horizon: 60, samples: 4, drift: 0.02, interval: 3, filtered: false
fast_cgm | LIFE, interval: 2 | horizon: 60, samples: 4, drift: 0.02, interval: 3, delta: 0.000001,
    differential_bound: 0.06, filtered: false
gaussian_differential | LIFE | horizon: 51, delta: 0.000001, refresh: 10, differential_bound: 0.06
gaussian_differential_vector | LIFE, dimension: 2 | horizon: 51, delta: 0.000001, refresh: 10,
    differential_bound: 0.06, dimension: 3, diameter: 2.0
gaussian_direct | LIFE | horizon: 51, delta: 0.000001, refresh: 10
gaussian_direct_vector | LIFE, dimension: 2 | horizon: 51, delta: 0.000001, refresh: 10,
    dimension: 3, diameter: 2.0
ipp_s | window: 8 | segment: 4, position: 1
pegasus_local | window: 8 | block: 2, theta: 3.0
sample_split | window: 8, dimension: 2, inner: app_s | dimension: 3, inner: capp_s, block: 4,
    segment: 4
sampling | window: 8 | segment: 4, position: 1
sppa | window: 8 | tau: 0.5, dimension: 2
swp | window: 8 | tau: 0.5, dimension: 2
topl | window: 8 | first: 5
""")
ELSEWHERE = {
    ("etm", "threshold"): "published only",
    **{
        (name, "sigma"): "in place of a horizon"
        for name, kind in METHODS.items()
        if "sigma" in kind.parameters
    },
    **{
        (name, "cover"): "of a crowd's statistics only: test_cover.py"
        for name in ("lpu", "pm_direct", "sampling", "sw_direct")
    },
}


WINDOWS = {
    "delay": 5,
    "setting": "sliding",
    "noise": "point",
    "contribution": 1.0,
    "smooth": "true",
    "truncation": "true",
    "theta": 2.5,
    "segment": 3,
    "buckets": 3,
    "thresholds": 8,
    "synopses": 8,
    "interval": 2,
}
"""Parameters of those that release windows, each at another value than it has."""


@cases(
    ("method", "name"),
    [
        (method, name)
        for method, kind in METHODS.items()
        if issubclass(kind, DelayMethod)
        for name in kind.parameters
        if not (name == "noise" and len(kind.noises) == 1)
    ],
)
def test_the_parameters_of_windows_move_the_fingerprint(method, name):
    def made(**more):
        given = {"delay": 4, **more}
        return loads(
            "topology: t\ninput: {slot: 1h}\nprivacy: {trust: curator, level: event, method: "
            f"{method}, epsilon: 4.0, domain: [1, 10], "
            + ", ".join(f"{key}: {value}" for key, value in given.items())
            + "}\noutput: {statistics: [per_stream]}\n"
        )

    value = WINDOWS[name]
    if name == "smooth" and made().windowed.smooth:
        value = "false"
    if name == "noise" and made().windowed.noise == "point":
        value = "sum"
    assert made(**{name: value}).fingerprint != made().fingerprint


def test_what_a_curator_needs():
    text = (
        "topology: t\ninput: {slot: 1h%s}\nprivacy: {%s, domain: [1, 10], epsilon: 1.0}\n"
        "output: {statistics: [%s]}\n"
    )
    naive = "trust: curator, level: event, method: naive, delay: 4"
    good = loads(text % ("", naive, "per_stream"))
    assert good.curated and [role.name for role in good.roles] == ["curate"]
    assert good.linked == "" and good.report_rows == 0
    sliding = loads(text % ("", naive + ", setting: sliding", "per_stream"))
    lone = loads(text % ("", "method: capp, window: 4", "mean"))
    assert [made.setting for made in (good, sliding, lone)] == ["batch", "sliding", ""]
    for per_slot in PER_SLOT:
        held = loads(text % (f", per_slot: {per_slot}", naive, "per_stream"))
        assert (held.fingerprint == good.fingerprint) == (per_slot == "first")
    for part, privacy, statistic, said in (
        ("", naive, "mean", "mean cannot be made of what naive reports"),
        ("", naive + ", window: 5", "per_stream", "each slot's value has the budget to itself"),
        (", source: devices", naive, "per_stream", "must be topic for naive"),
        ("", naive.replace("curator", "edge"), "per_stream", "whose privacy.trust is curator"),
        ("", naive, "per_user", "whose privacy.trust is edge"),
        (", partitioning: trusted", naive, "per_stream", "must be murmur2, the default where"),
        ("", "trust: curator, method: naive, delay: 4", "per_stream", "given; level: event is"),
        ("", naive.replace("event", "user"), "per_stream", "must be event or w-event for naive"),
        ("", "trust: curator, method: capp, window: 4", "mean", "privacy.trust: must be edge"),
        ("", "method: capp, window: 4", "per_stream", "per_stream cannot be made of what capp"),
        ("", naive.replace(", delay: 4", ""), "per_stream", "delay"),
    ):
        with pytest.raises(TopologyError) as wrong:
            loads(text % (part, privacy, statistic))
        assert said in str(wrong.value)
    one = loads(text % (", partitions: 1, partitioning: trusted", naive, "per_stream"))
    assert (one.input.partitioning, good.input.partitioning) == ("trusted", "murmur2")
    assert (lone.input.partitioning, lone.input.partitions) == ("trusted", 2)
    week = loads(text % ("", naive.replace("event", "w-event, window: 7"), "per_stream"))
    assert week.guarantee.window == 7 and week.windowed.spend == 142_857
    for name in ("reports_topic", "partials_topic", "collector_dead_letters_topic"):
        with pytest.raises(ConfigurationError, match="its curator sees values"):
            getattr(good, name)
    with pytest.raises(ConfigurationError, match="has no windows"):
        _ = loads(text % ("", "method: capp, window: 4", "mean")).windowed


NUMBERS = "domain: [0, 1]"
LISTS = "budget_split, dimension: 2, " + NUMBERS
TAKEN = {  # method and shape, and whose values they are -> how a slot's values are taken together
    (f"capp, {NUMBERS}", "topic"): tuple(PER_SLOT),
    (f"lba, {NUMBERS}", "topic"): tuple(PER_SLOT),
    (f"lpd, {NUMBERS}", "topic"): tuple(PER_SLOT),
    (f"lbu, {NUMBERS}", "topic"): tuple(PER_SLOT),
    ("lpa, categories: 3", "topic"): ("first", "last"),
    ("lpu, categories: 3", "topic"): ("first", "last"),
    (LISTS, "topic"): tuple(each for each in PER_SLOT if each != "count"),
    (f"capp, {NUMBERS}", "devices"): ("first",),
    (f"lba, {NUMBERS}", "devices"): ("first",),
    (LISTS, "devices"): ("first",),
}


@cases(("method", "source"), list(TAKEN))
def test_how_a_slots_values_are_taken_together(method, source):
    """Every way that has a meaning moves the fingerprint; the others are refused, in words."""
    text = (
        "topology: t\ninput: {slot: 1h, source: %s, per_slot: %s}\nprivacy: {epsilon: 4.0,"
        " window: 4, method: %s}\noutput: {statistics: [%s]}\n"
    )
    statistic = "frequencies" if "categories" in method else "mean"
    made = set()
    for per_slot in TAKEN[method, source]:
        made.add(loads(text % (source, per_slot, method, statistic)).fingerprint)
    assert len(made) == len(TAKEN[method, source])
    why = (
        "hand its device one value a slot"
        if source == "devices"
        else "how many of them came is one number"
        if method == LISTS
        else "categories, which are no numbers"
    )
    for per_slot in PER_SLOT.keys() - set(TAKEN[method, source]):
        with pytest.raises(TopologyError, match=rf"2: input\.per_slot: must (not )?be .*{why}$"):
            loads(text % (source, per_slot, method, statistic))


def parts(text):
    """By their keys."""
    return {part.partition(":")[0]: part for part in text.split(", ")}


def test_a_methods_own_parameters_move_the_fingerprint():
    """Each of each that is built."""
    text = (
        "topology: t\ninput: {slot: 1h}\nprivacy: {method: %s, epsilon: 4.0, %s}\noutput:"
        " {statistics: [per_user]}\n"
    )
    tried = set()
    for method, common, own in OTHERWISE:
        plain = parts(common.replace("LIFE", f"{LIFE}horizon: 50"))
        if not METHODS[method].ball:
            plain["domain"] = "domain: [1, 10]"
        found = [plain, *(plain | {name: part} for name, part in parts(own).items())]
        prints = {loads(text % (method, ", ".join(each.values()))).fingerprint for each in found}
        assert len(prints) == len(found), method
        tried |= {(method, name) for name in parts(own)}
    streams = {method: kind for method, kind in METHODS.items() if not kind.own_noise}
    assert tried | ELSEWHERE.keys() == {
        (method, name) for method, kind in streams.items() for name in kind.parameters
    }


def test_a_lasting_sigma_and_a_threshold_move_it_too():
    text = (
        "topology: t\ninput: {slot: 1h}\nprivacy: {method: %s, epsilon: 4.0, domain: [1, 10],"
        " %s}\noutput: {statistics: [per_user]}\n"
    )
    etm = "window: 8, calibration: published, delay: 6, threshold: "
    for method, given, two in (
        ("cgm", LIFE + "sigma: ", (9.0, 9.5)),
        ("cgm_pure", "level: user, sigma: ", (9.0, 9.5)),
        ("gaussian_differential", LIFE + "sigma: ", (9.0, 9.5)),
        ("gaussian_direct", LIFE + "sigma: ", (9.0, 9.5)),
        ("etm", etm, (2, 3)),
    ):
        prints = {loads(text % (method, f"{given}{value}")).fingerprint for value in two}
        assert len(prints) == 2


def test_categories_move_the_fingerprint():
    prints = [
        loads(LPU.replace("[a, b]", shape)).fingerprint
        for shape in ("[a, b]", "[b, a]", "[a, c]", "[a, b, c]", "2", "3")
    ]
    assert len(set(prints)) == len(prints)


def test_the_same_said_otherwise_is_the_same():
    whole = GOOD.replace("epsilon: 1.0", "epsilon: 1").replace("[0.0, 10.0]", "[-0.0, 10]")
    for other in (whole, GOOD.replace(", block: 5", "")):  # 5 is what is chosen
        assert loads(other).fingerprint == loads(GOOD).fingerprint
    assert loads(GOOD, "elsewhere.yaml").fingerprint == loads(GOOD).fingerprint
    assert loads(GOOD) == loads(GOOD)


def test_digests_are_pinned():
    """A change of these numbers makes every running topology refuse its state: it needs a new
    version and a line in the changelog.
    """
    topology = loads(GOOD)
    assert re.fullmatch("[0-9a-f]{32}", topology.fingerprint)
    assert (topology.fingerprint, topology.layout) == (
        "5563acac89524c8d98870d4ec2278885",
        "b7ed0d9fc3a273f50941cd365c957b16",
    )


def test_names():
    topology = loads(GOOD)
    assert topology.raw_topic == "raw"
    for kind in ("reports", "partials", "releases", "dead_letters", "collector_dead_letters"):
        name = f"meters.{kind}".replace("collector_", "collector.").replace("_", "-")
        assert getattr(topology, f"{kind}_topic") == name
    assert topology.group("perturb") == "meters-perturb"
    assert topology.group("collect") == "meters-collect"
    assert topology.changelog("collect", "merge") == "meters-collect-merge-changelog"
    with pytest.raises(ConfigurationError, match="no merge role; its roles: perturb, collect"):
        topology.group("merge")
    said = "role perturb of meters has no table merge; it has perturb"
    with pytest.raises(ConfigurationError, match=said):
        topology.changelog("perturb", "merge")


def test_the_longest_name_makes_legal_topics():
    longest = "t" * 200
    assert max(len(topic.name) for topic in loads(GOOD.replace("meters", longest)).topics()) <= 249
    with pytest.raises(TopologyError, match="topology: must be text of 1 to 200"):
        loads(GOOD.replace("meters", longest + "t"))


def test_topics():
    topics = {topic.name: topic for topic in loads(GOOD).topics()}
    counts = {name: topic.partitions for name, topic in topics.items()}
    assert counts == {
        "raw": 2,
        "meters.reports": 2,
        "meters.partials": 1,
        "meters.releases": 2,
        "meters.dead-letters": 1,
        "meters.collector.dead-letters": 1,
        "meters-perturb-perturb-changelog": 2,
        "meters-collect-collect-changelog": 2,
        "meters-collect-merge-changelog": 1,
    }
    state = {
        "cleanup.policy": "compact",
        "segment.bytes": "67108864",
        "min.cleanable.dirty.ratio": "0.1",
    }
    assert all(
        topic.config == (state if name.endswith("-changelog") else {"cleanup.policy": "delete"})
        for name, topic in topics.items()
    )
    assert {name for name, topic in topics.items() if topic.side == "edge"} == {
        "raw",
        "meters.dead-letters",
        "meters-perturb-perturb-changelog",
    }
    assert "raw" not in {
        topic.name for topic in loads(GOOD.replace("create: true", "create: false")).topics()
    }


def test_what_is_relayed():
    """Someone else's topic is where values come in, and not ours to make; what is folded is. A
    budget file sums over the first.
    """
    made = loads(GOOD.replace("create: true", "relay: true").replace("gaps: strict", "gaps: allow"))
    assert (made.input.topic, made.raw_topic) == ("raw", "meters.edge")
    found = {topic.name: topic for topic in made.topics()}
    assert "raw" not in found and found["meters.edge"].partitions == 2
    assert found["meters.edge"].config["message.timestamp.type"] == "CreateTime"
    (role, agent) = made.reader("meters.edge")
    assert agent.header and not agent.gaps and not agent.ticks
    assert role.relay.reads.name == "raw" and not role.relay.reads.ours and role.relay.gaps
    assert role.relay.writes == agent.reads and role.relay in role.copied


@cases(("idle", "milliseconds"), [("", 30_000), ("idle: 5s,", 5000), ("idle: off,", None)])
def test_idle_partitions_of_what_is_relayed(idle, milliseconds):
    """They get ticks unless that is switched off: in the copy, nothing is lost by it."""
    text = GOOD.replace("create: true", "relay: true").replace("idle: off,", idle)
    assert loads(text).input.idle_ms == milliseconds


def test_a_relay_needs_brokers_that_keep_what_was_written():
    text = GOOD.replace("create: true", "relay: true").replace("a:1", "embedded")
    with pytest.raises(TopologyError, match="must be real brokers where input"):
        loads(text)


def test_slots():
    topology = loads(GOOD)
    assert topology.slot_of(3_599_999) == 0
    assert topology.slot_of(3_600_000) == 1
    assert topology.slot_of(np.array([0, 3_599_999, 3_600_000, 7_200_001])).tolist() == [0, 0, 1, 2]
    assert topology.slot_start(2) == 7_200_000


def test_the_method_and_what_it_promises():
    topology = loads(GOOD)
    assert topology.method is topology.method
    assert (topology.method.name, topology.guarantee.influence) == ("capp", 14)
    assert topology.per_user
    assert not loads(LPU).per_user


def test_frozen():
    topology = loads(GOOD)
    with pytest.raises(dataclasses.FrozenInstanceError):
        topology.name = "x"
    with pytest.raises(TypeError):
        topology.privacy.parameters["block"] = 1
    assert isinstance(hash(topology), int)


def test_data_made_by_hand_is_checked_too():
    good = loads(GOOD)
    given = {each.name: getattr(good.input, each.name) for each in dataclasses.fields(good.input)}
    both = r"input.slot: must be a whole number.*\n.*input.lateness"
    with pytest.raises(TopologyError, match=both):
        Input(**{**given, "slot_ms": 0, "lateness": True})
    with pytest.raises(TopologyError, match=r"output.statistics"):
        Output(())
    for what, change, said in (
        (good.input, {"topic": "a b"}, r"input.topic"),
        (good.input, {"lateness": 1001}, r"input.lateness"),
        (good.runtime, {"shards": 0}, r"runtime.shards"),
        (good.runtime, {"snapshot_seconds": float("nan")}, r"runtime.snapshot_seconds"),
        (good.privacy, {"method": "none"}, "privacy: method must be one of"),
        (good, {"output": Output(("median",))}, r"output.statistics\[0\]: must be one of"),
        (good, {"name": "a b"}, "topology: must be"),
    ):
        with pytest.raises(TopologyError, match=said):
            dataclasses.replace(what, **change)
    assert KafkaSide("a:1", frozen({"sasl.password": "secret"})).client["sasl.password"] == "secret"
