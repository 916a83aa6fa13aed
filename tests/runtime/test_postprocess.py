"""What a coordinator makes of its publications over the stages that run on Kafka: slot by slot what
`ldp_kafka.protocol` releases with the same switches, whenever it is stopped and started again.
"""

from __future__ import annotations

import json
from functools import cache

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.errors import TopologyError
from ldp_kafka.methods.protocols import PROTOCOLS
from ldp_kafka.methods.protocols.processing import Processing
from ldp_kafka.runtime import local, roles
from ldp_kafka.topology import loads, plan
from tests.cases import cases
from tests.fold import cases as fold
from tests.fold.judge import by_topic, downstream
from tests.rounds import are_of
from tests.runtime.test_protocols_local import IDS, START, TEXT, WINDOW, raw, streams

SWITCHES = {
    "norm_sub": {"norm_sub": True},
    "merge": {"merge": True},
    "kalman": {"smooth": "kalman"},
    "exponential": {"smooth": "exponential"},
    "all": {"norm_sub": True, "merge": True, "smooth": "exponential"},
    "merged": {"merge": True, "smooth": "kalman"},
}
ADAPTIVE = ("lbd", "lba", "lpd", "lpa")
SOUND = [
    (name, numeric, switches)
    for name in PROTOCOLS
    for numeric in (False, True)
    for switches, given in SWITCHES.items()
    if not (numeric and "norm_sub" in given) and not ("merge" in given and name not in ADAPTIVE)
]


def text_of(name, numeric, given, statistic=None):
    kind = "domain: [0, 10], mechanism: hybrid" if numeric else "categories: 3, mechanism: grr"
    whole = TEXT.format(
        name=name,
        kind=kind,
        statistic=statistic or ("mean" if numeric else "frequencies"),
        lateness=0,
        hold=2,
        per_slot="first",
    )
    return whole.replace("]}\nruntime", f"], postprocess: {json.dumps(given)}}}\nruntime")


@cache
def topology(name, numeric, switches=None):
    return loads(text_of(name, numeric, SWITCHES[switches] if switches else None))


@cache
def run_of(name, numeric, switches=None):
    """Of streams with slots in which nobody is there: not so many that no request is in time."""
    of = topology(name, numeric, switches)
    table = streams(numeric, 2).copy()
    table[:, 9] = np.nan if numeric else -1
    return table, local.run(of, fold.randomness(of), raw(table, lateness=0))


def released(records):
    return [json.loads(record.value) for record in records]


@cases(("name", "numeric", "switches"), SOUND)
def test_releases_are_those_of_the_protocol(name, numeric, switches):
    """And requests, so reports too, and what they are bound to, are those without any switch."""
    of, plain = topology(name, numeric, switches), topology(name, numeric)
    assert (of.fingerprint, of.layout) == (plain.fingerprint, plain.layout)
    table, without = run_of(name, numeric)
    made = by_topic(processed(of, name, numeric))
    asked = made.get(of.flow.requests.name, []) if of.flow.requests else []
    assert [each.value for each in asked] == [each.value for each in without.requests]
    shape = {"domain": (0, 10), "oracle": "hybrid"} if numeric else {"categories": 3}
    protocol = lk.protocol(
        name,
        epsilon=6.0,
        window=WINDOW,
        **{"oracle": "grr", **shape},
        **SWITCHES[switches],
    )
    trace = protocol.run(table, fold.randomness(of), users=IDS, first_slot=START)
    first = int(np.flatnonzero(trace.reports[:, 0])[0])
    found = released(made[of.releases_topic])[: len(trace.values) - first]
    are_of(found, trace, first, START)
    assert [each["strategy"] for each in found] == trace.strategy[first:].tolist()
    assert all(each["round"]["postprocess"] == SWITCHES[switches] for each in found)
    silent = released(without.releases)
    if "round" not in silent[0]:
        return  # a method of that name stands for its protocol: it has no rounds
    assert [each["value"] for each in found] != [each["value"] for each in silent[: len(found)]]
    for mine, theirs in zip(found, silent, strict=False):
        told = {name: each for name, each in mine["round"].items() if name != "postprocess"}
        assert told == theirs["round"]


def processed(of, name, numeric):
    """What the last stage makes of the sums that there are without a switch."""
    if "coordinate" in {agent.name for _, agent in of.flow.readers()}:
        stage, log = roles.make(of, "coordinate", 0), sums_of(name, numeric)
    else:
        stage, log = roles.make(of, "merge", 0), partials_of(name, numeric)
    return stage.fold(stage.fresh(), log).records


@cache
def sums_of(name, numeric):
    """The log that the coordinator folds: no switch changes it."""
    plain = topology(name, numeric)
    return local.log(downstream(plain, run_of(name, numeric)[1].reports)[1])


def restarted(log, stages, payload=()):
    """What stages release that go on from each other's saved states, one a message, and the last
    state.
    """
    made, payload = [], dict(payload)
    for at, (stage, message) in enumerate(zip(stages, log, strict=True)):
        state = stage.load({}, payload)
        output = stage.fold(state, [message])
        made += [each for each in output.records if each.topic.endswith(".releases")]
        shards = stage.dump(state, stage.shards_of(state))
        payload = {shard: (-1, body) for shard, body in shards.items()}
        look = stage.look({}, shards)
        assert not look.problems, at
    return made, payload


def coordinator(name, numeric, switches):
    return roles.make(topology(name, numeric, switches), "coordinate", 0)


RESTARTED = [("lpa", False), ("lbd", True), ("lsp", False)]


@cases("switches", list(SWITCHES))
@cases(("name", "numeric"), RESTARTED)
def test_a_coordinator_that_is_stopped_after_every_record_goes_on(name, numeric, switches):
    if (name, numeric, switches) not in SOUND:
        return
    log, stage = sums_of(name, numeric), coordinator(name, numeric, switches)
    made, _ = restarted(log, [stage] * len(log))
    run, without = run_of(name, numeric, switches)[1], run_of(name, numeric)[1]
    assert run.reports == without.reports
    assert [(each.key, each.value) for each in made] == [
        (each.key, each.value) for each in run.releases
    ]
    assert len(made) >= 10


@cases("switches", ["norm_sub", "kalman"])
@cases(("name", "numeric"), RESTARTED)
def test_a_switch_without_a_memory_can_be_turned_at_any_time(name, numeric, switches):
    """On or off: what follows is as if it had always been so."""
    if (name, numeric, switches) not in SOUND:
        return
    log = sums_of(name, numeric)
    stages = [coordinator(name, numeric, each) for each in (None, switches)]
    plain, processed = (
        [x.value for x in run_of(name, numeric, s)[1].releases] for s in (None, switches)
    )
    for first, then, expected in ((0, 1, processed), (1, 0, plain)):
        released, payload = 0, {}
        for at, message in enumerate(log[:-1]):
            made, payload = restarted([message], [stages[first]], payload)
            released += len(made)
            if at % 3 == 0:
                rest = log[at + 1 :]
                made, _ = restarted(rest, [stages[then]] * len(rest), payload)
                assert [each.value for each in made] == expected[released:]


def test_smoothing_that_is_turned_on_again_begins_anew():
    """What was smoothed before it was off is not what a later release is drawn to."""
    log = sums_of("lpa", False)
    plain, smooth = (coordinator("lpa", False, each) for each in (None, "exponential"))
    at = len(log) // 3
    once = restarted(log, [plain] * (2 * at) + [smooth] * (len(log) - 2 * at))
    again = restarted(log, [smooth] * at + [plain] * at + [smooth] * (len(log) - 2 * at))
    after = [slot_of(each) for each in restarted(log[: 2 * at], [plain] * (2 * at))[0]][-1]
    tails = [[x.value for x in made if slot_of(x) > after] for made, _ in (once, again)]
    assert tails[0] == tails[1]
    assert len(tails[0]) > 3
    always = [x.value for x in run_of("lpa", False, "exponential")[1].releases]
    assert tails[0] != always[-len(tails[0]) :]
    state = json.loads(restarted(log[: 2 * at], [smooth] * at + [plain] * at)[1]["0"][1])
    assert state["coordinator"]["smoothed"] is None


def slot_of(record):
    return json.loads(record.value)["slot"]


def partials_of(name="lpu", numeric=False):
    """Of both sources in turn."""
    return local.log(sorted(run_of(name, numeric)[1].partials, key=slot_of), 1)


def merged(name, switches, payload, messages):
    """What a merger makes of partials, and its state afterwards."""
    stage = roles.make(topology(name, False, switches), "merge", 0)
    state = stage.fresh() if payload is None else stage.load(*payload)
    made = stage.fold(state, messages).records
    shards = stage.dump(state, stage.shards_of(state))
    meta = json.loads(json.dumps(stage.meta(state), allow_nan=False))
    assert not stage.look(meta, shards).problems
    loaded = {shard: (messages[-1].offset, body) for shard, body in shards.items()}
    return made, (meta, loaded)


@cases("switches", ["norm_sub", "kalman", "exponential"])
def test_a_merger_that_is_stopped_after_every_record_goes_on(switches):
    """`lpu` over categories has no coordinator of its own."""
    run = run_of("lpu", False, switches)[1]
    log, made, payload = partials_of(), [], None
    for message in log:
        more, payload = merged("lpu", switches, payload, [message])
        made += more
    assert [(each.key, each.value) for each in made] == [
        (each.key, each.value) for each in run.releases
    ]
    assert len(made) > 10


def test_a_merger_goes_on_where_switches_are_turned():
    """Its state is the same but for what is known of releases: off, they are what they were."""
    log = partials_of()
    plain = {slot_of(each): each.value for each in run_of("lpu", False)[1].releases}
    cut = len(log) // 2
    for first, then in ((None, "kalman"), ("kalman", None), ("exponential", "norm_sub")):
        before, payload = merged("lpu", first, None, log[:cut])
        after, (meta, _) = merged("lpu", then, payload, log[cut:])
        slots = [slot_of(each) for each in (*before, *after)]
        assert slots == sorted(plain)
        assert len(before) > 3
        assert len(after) > 3
        assert ("coordinator" in meta) == (then is not None)
        if then is None:
            assert [each.value for each in after] == [plain[slot_of(each)] for each in after]
        else:
            assert all(
                json.loads(each.value)["round"]["postprocess"] == SWITCHES[then] for each in after
            )
    damaged = {**meta, "coordinator": {"slot": 1}}
    stage = roles.make(topology("lpu", False, "norm_sub"), "merge", 0)
    assert [rule for rule, _ in stage.look(damaged, {}).problems] == ["readable"]


def test_without_switches_nothing_is_said_of_them():
    assert all(
        "postprocess" not in each["round"] for each in released(run_of("lpa", False)[1].releases)
    )
    bare, empty = (loads(text_of("lpa", False, given)) for given in (None, {"merge": False}))
    assert bare.output == empty.output
    assert bare.output.postprocess == Processing()
    assert loads(text_of("sw_direct", True, {"norm_sub": False}).replace("hybrid", "laplace"))


@cases(
    ("name", "numeric", "given", "said"),
    [
        ("lpa", True, {"norm_sub": True}, "postprocess.norm_sub: is for the frequencies of cat"),
        ("lbu", False, {"merge": True}, "postprocess.merge: is for two phases: lbu has one"),
        ("lpu", True, {"merge": True}, "postprocess.merge: is for two phases: lpu has one"),
        ("lpu", False, {"merge": True}, "postprocess.merge: is for two phases: lpu has one"),
        ("sw_direct", True, {"smooth": "kalman"}, "must not be given: sw_direct has no coordin"),
        ("lpa", False, {"smooth": "often"}, "postprocess.smooth: must be one of exponential, kal"),
        ("lpa", False, {"smooth": None}, "postprocess.smooth: must be one of exponential, kal"),
        ("lpa", False, {"merge": 1}, "postprocess.merge: must be true or false; got 1"),
        ("lpa", False, {"smoth": "kalman"}, "unknown key (did you mean smooth?)"),
        ("lpa", False, "kalman", "output.postprocess: must be a mapping"),
    ],
)
def test_what_cannot_be_switched_on_is_said_by_its_key(name, numeric, given, said):
    with pytest.raises(TopologyError) as caught:
        loads(text_of(name, numeric, given))
    assert said in str(caught.value)


def test_both_of_two_wrong_switches_are_named():
    many = text_of("lpu", False, {"smooth": "kalman"}).replace("categories: 3", "categories: 1025")
    with pytest.raises(TopologyError, match="postprocess: must be of at most 1,024 categories"):
        loads(many)
    with pytest.raises(TopologyError, match=r"norm_sub: is for[^$]*\n.*merge: is for two phases"):
        loads(text_of("lbu", True, {"norm_sub": True, "merge": True}))


def test_a_plan_says_that_its_errors_are_without():
    made, plain = (plan(topology("lpa", False, each), 3000) for each in ("all", None))
    [line] = [each for each in made.lines() if each.startswith("postprocess")]
    assert line.startswith("postprocess  norm_sub, merge, smooth exponential: costs no privacy")
    assert not any(each.startswith("postprocess") for each in plain.lines())
    assert made.predictions == plain.predictions
    assert made.as_json()["postprocess"] == SWITCHES["all"]
    assert plain.as_json()["postprocess"] == {}
