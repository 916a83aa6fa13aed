"""Every kind of stage and shape of a topology as a row of a table: what is written in its sections,
and the raw logs that its stages fold.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any
from unittest import mock

import yaml

from ldp_kafka.methods import METHODS, DelayMethod
from ldp_kafka.methods.protocols import PROTOCOLS
from ldp_kafka.records import Tick
from ldp_kafka.runtime import local, roles
from ldp_kafka.runtime.keys import edge_randomness
from ldp_kafka.runtime.log import Message, Stage
from ldp_kafka.runtime.replay.messages import as_log, messages
from ldp_kafka.runtime.replay.source import from_arrays
from ldp_kafka.runtime.stages.per_slot import PER_SLOT
from ldp_kafka.runtime.stages.relaying import Mark, relaying_of
from ldp_kafka.runtime.wire.codec import encode
from ldp_kafka.topology import Topology, loads
from tests import rounds
from tests.fold import cases, phases
from tests.runtime.stages.devices import TEXTS, script
from tests.runtime.stages.pane_cases import ROOT, numbered, wild_streams, with_ticks
from tests.runtime.test_methods import OWN, STREAMS, shape_of, streams_of
from tests.runtime.written import START, hashed, of_devices, untidy, written

KEY = bytes(range(32))
USERS, SECONDS = 8, 12
NUMBERS, CODES = "domain: [10, 30]", "categories: 3"
MEAN, SHARES, PLAIN = "[mean]", "[frequencies]", "shrinkage: false"
EACH = f"[mean, per_user], {PLAIN}"
AVERAGED = "smooth: {moving_average: 3}"
BINS = "[distribution], bins: 4"
ASKED = ("lbd", "lba", "lpd", "lpa")
UNIFORM = ("lbu", "lsp", "lpu")
WINDOWS = [name for name, kind in METHODS.items() if issubclass(kind, DelayMethod)]
ORACLES = ("adaptive", "grr", "hadamard", "olh", "oue", "subset_selection", "sue")
VALUES = ("duchi", "hybrid", "laplace", "piecewise", "square_wave")
KINDS = {"numbers": (f"{NUMBERS}, mechanism: duchi", MEAN), "codes": (CODES, SHARES)}
BINNED = {"bins": (f"{NUMBERS}, mechanism: square_wave", BINS)}
BATCH, SLIDING = "delay: 3, setting: batch", "delay: 3, setting: sliding"
SEEN = "trust: curator, level: event, method"
STREAM, KNOWN = "[per_stream]", "streams: [u000000, u000001, u000002, u000099]"
BEGIN = 'start: "2023-11-14T22:13:16Z", '
SLOW = "slot: 2s, lateness: 1"  # several values of a slot
ROUNDS, OWNED = "lateness: 1, hold: 3", "source: devices, "
THEIRS = "topic: theirs, gaps: allow"

Row = tuple[str, str, str]
SHAPES: dict[str, Row] = {
    "perturb/bounds": ("lateness: 1", f"method: capp, {NUMBERS}", MEAN),
    "perturb/series": ("lateness: 2", f"method: app, {NUMBERS}", "[mean, per_user]"),
    "perturb/coerced": ("coerce: numbers, time_unit: us", f"method: sw_direct, {NUMBERS}", MEAN),
    "perturb/arrays": ("events: $.all, user: ^.who", f"method: ipp, {NUMBERS}", MEAN),
    "perturb/names": ("lateness: 1", "method: lpu, categories: [a, b, c]", SHARES),
    "perturb/theirs": (f"{THEIRS}, create: false", f"method: capp, {NUMBERS}", MEAN),
    "perturb/relayed": (f"{THEIRS}, relay: true", f"method: capp, {NUMBERS}", MEAN),
    "perturb/above": (
        "lateness: 1",
        f"method: sw_direct, {NUMBERS}",
        f"{MEAN}, events: {{above: 20}}",
    ),
    **{
        f"method/{name}": (
            "format: arrow",
            f"method: {name}, {shape_of(name)}, {OWN.get(name, 'window: 4')}",
            f"[{METHODS[name].statistics[0]}], {PLAIN}",
        )
        for name in STREAMS
    },
    **{
        f"oracle/{name}": ("lateness: 1", f"method: lpu, mechanism: {name}, {CODES}", SHARES)
        for name in ORACLES
    },
    **{
        f"value/{name}": ("lateness: 1", f"method: lpu, mechanism: {name}, {NUMBERS}", MEAN)
        for name in VALUES
    },
    **{
        f"settle/{how}": (f"{SLOW}, per_slot: {how}", f"method: capp, {NUMBERS}", MEAN)
        for how in PER_SLOT
    },
    **{
        f"cover/{name}": (f"{SLOW}, per_slot: {how}", f"method: {privacy}, cover: true", statistic)
        for name, how, privacy, statistic in (
            ("sw_direct", "first", f"sw_direct, {NUMBERS}", MEAN),
            ("sampling", "mean", f"sampling, segment: 2, {NUMBERS}", MEAN),
            ("lpu", "last", f"lpu, {CODES}", SHARES),
            ("lpu bits", "first", f"lpu, mechanism: oue, {CODES}", SHARES),
        )
    },
    "settle/codes": (f"{SLOW}, per_slot: last", f"method: lpu, {CODES}", SHARES),
    "settle/lists": (
        f"{SLOW}, per_slot: mean",
        f"method: budget_split, {NUMBERS}, dimension: 2",
        EACH,
    ),
    **{
        f"delay/{name}": (
            "lateness: 1",
            f"level: event, method: {name}, {NUMBERS}, {BATCH}",
            "[per_user]",
        )
        for name in WINDOWS
    },
    **{
        f"delay/{name} sliding": (
            f"{SLOW}, per_slot: mean",
            f"level: event, method: {name}, {NUMBERS}, {SLIDING}",
            "[per_user]",
        )
        for name in ("segment_mean", "buc_order", "adapub")
    },
    "delay/smooth": (
        "lateness: 0",
        f"method: naive, {NUMBERS}, {SLIDING}, smooth: true",
        "[per_user]",
    ),
    **{
        f"curate/{name}": ("lateness: 1", f"{SEEN}: {name}, {NUMBERS}, {BATCH}", STREAM)
        for name in WINDOWS
    },
    "averaged/capp": ("lateness: 1", f"method: capp, {NUMBERS}", f"{EACH}, {AVERAGED}"),
    "averaged/sample_split": (
        "lateness: 1",
        f"method: sample_split, {NUMBERS}, dimension: 2",
        f"{MEAN}, {AVERAGED}",
    ),
    "averaged/devices": (
        f"{OWNED}lateness: 1",
        f"method: sw_direct, {NUMBERS}",
        f"[mean, per_user], {AVERAGED}",
    ),
    "user_means/capp_s": ("lateness: 1", f"method: capp_s, {NUMBERS}", "[user_means], bins: 4"),
    "curate/matrix": ("lateness: 1", f"{SEEN}: matrix, {NUMBERS}, {ROOT}", STREAM),
    "curate/matrix means": (
        f"{SLOW}, per_slot: sum, {KNOWN}, {BEGIN}closing: events",
        f"trust: curator, method: matrix, domain: [0, 90], {ROOT}, moving_mean: 3",
        STREAM,
    ),
    "curate/many": ("partitions: 3, closing: events", f"{SEEN}: dpi, {NUMBERS}, {SLIDING}", STREAM),
    **{
        f"curate/known {how} {closing}": (
            f"{SLOW}, per_slot: {how}, {KNOWN}, {start}closing: {closing}",
            f"{SEEN}: segment_mean, domain: [0, 90], contribution: 20, {SLIDING}",
            STREAM,
        )
        for how, start in (("sum", BEGIN), ("count", BEGIN), ("last", ""))
        for closing in ("events", "ticks")
    },
    "curate/w-event": (
        "closing: events",
        f"trust: curator, method: naive, {NUMBERS}, {BATCH}",
        STREAM,
    ),
    "curate/relayed": (f"{THEIRS}, relay: true", f"{SEEN}: naive, {NUMBERS}, {BATCH}", STREAM),
    **{
        f"answer/{name} {kind}": (ROUNDS, f"method: {name}, {privacy}", statistic)
        for name in ASKED
        for kind, (privacy, statistic) in (KINDS | BINNED).items()
        if kind != "bins" or PROTOCOLS[name].distributions
    },
    **{
        f"uniform/{name} {kind}": ("lateness: 1", f"method: {name}, {privacy}", statistic)
        for name in UNIFORM
        for kind, (privacy, statistic) in (KINDS | BINNED).items()
    },
    **{
        f"answer_at_close/{name} {how}": (
            f"{SLOW}, per_slot: {how}",
            f"method: {name}, {kind}",
            statistic,
        )
        for name in ASKED
        for how, kind, statistic in (("last", CODES, SHARES), ("mean", *KINDS["numbers"]))
    },
    "answer/relayed": (f"{THEIRS}, relay: true", f"method: lpa, {CODES}", SHARES),
    "answer/held": ("hold: 3, lateness: 0", f"method: lba, mechanism: oue, {CODES}", SHARES),
    "answer/above": ("", f"method: lpa, {CODES}", f"{SHARES}, events: {{above: 0.4}}"),
    **{
        f"postprocess/{name} {what.partition(':')[0]} {at}": (
            "lateness: 0",
            f"method: {name}, {kind}",
            f"{statistic}, postprocess: {{{what}}}",
        )
        for at, (name, kind, statistic, what) in enumerate(
            [
                ("lbd", CODES, SHARES, "smooth: kalman, merge: true"),
                ("lba", CODES, SHARES, "norm_sub: true, merge: true, smooth: exponential"),
                ("lpd", *KINDS["numbers"], "smooth: kalman"),
                ("lpa", *KINDS["numbers"], "merge: true"),
                ("lbu", CODES, SHARES, "norm_sub: true"),
                ("lsp", *KINDS["numbers"], "smooth: kalman"),
                ("lpu", CODES, SHARES, "smooth: exponential"),
            ]
        )
    },
    **{
        f"devices/{name}": (f"{OWNED}lateness: 1", f"method: {name}, {kind}", statistic)
        for name, kind, statistic in [
            ("capp", NUMBERS, EACH),
            ("app_s", NUMBERS, MEAN),
            ("budget_split", f"{NUMBERS}, dimension: 2", EACH),
            ("lpu", f"{CODES}, mechanism: oue", SHARES),
            ("lbu", CODES, SHARES),
            ("lsp", *KINDS["numbers"]),
        ]
    },
    **{
        f"asked devices/{name} {kind}": (
            f"{OWNED}{ROUNDS}",
            f"method: {name}, {privacy}",
            statistic,
        )
        for name in ASKED
        for kind, (privacy, statistic) in (KINDS | BINNED).items()
        if kind != "bins" or PROTOCOLS[name].distributions
    },
}


@cache
def topology_of(shape: Row, **changed: object) -> Topology:
    """Of a row of the table, with other values of some keys of its input."""
    raw, privacy, output = (
        yaml.safe_load(f"{{{text}}}") for text in (shape[0], shape[1], f"statistics: {shape[2]}")
    )
    if not {"level", "window"} & privacy.keys():
        privacy["window"] = 4
    whole = {
        "topology": "shape",
        "kafka": {"bootstrap_servers": "127.0.0.1:1"},
        "input": {"slot": "1s", "partitions": 2} | raw | changed,
        "privacy": {"epsilon": 8.0} | privacy,
        "output": output,
        "runtime": {"shards": 3, "report_rows": 8},
    }
    return loads(json.dumps(whole), "shape.yaml")


def end_of(topology: Topology) -> int:
    """A time at which all slots are closed, and nobody can be asked for one."""
    return START + 1000 * SECONDS + 8 * topology.input.slot_ms


def raw_of(topology: Topology, shape: Row) -> list[list[Message]]:
    """Raw logs with a value of each user and second, and ticks; untidy."""
    parts = topology_of(shape, slot="1s")
    streams = streams_of(topology, USERS)[:, :SECONDS]
    if topology.privacy.domain == (0, 90):  # of sums
        streams = streams - 10
    asked = topology.flow.requests is not None  # one message is folded at a time: fewer of them
    size = 5 if asked or topology.input.format == "arrow" else 1
    logs = as_log(parts, messages(parts, from_arrays(parts, streams, START), size), 1)
    end = encode(Tick(end_of(topology)))
    first = 1 if topology.input.create or topology.input.relay else 0
    return [[*log, Message(log[-1].offset + 1, -1, end)] for log in untidy(logs, first)]


@cache
def run_of(shape: Row) -> local.Run:
    """The topology over a topic of raw values, by lists."""
    topology = topology_of(shape)
    return local.run(
        topology, edge_randomness(topology, KEY, "here"), raw_of(topology, shape), together=3
    )


def shaped(name: str) -> dict[str, str]:
    """All that the stages of a row write."""
    shape = SHAPES[name]
    topology = topology_of(shape)
    asked_for = (shape[0].removeprefix(OWNED), *shape[1:])
    if topology.flow.raw is None:
        logs: Sequence[Sequence[Message]] = of_devices(run_of(asked_for).reports, end_of(topology))
    elif topology.flow.requests is not None:
        logs = run_of(asked_for).raw
    else:
        logs = raw_of(topology, shape)
    noise = None if topology.flow.raw is None else edge_randomness(topology, KEY, "here")
    return written(topology, noise, logs)


def relayed(name: str) -> dict[str, str]:
    """Of each message of a row's raw logs: the times that it tells, whether a relay may copy it,
    the tick that is due where it may not, and the mark behind it.
    """
    topology = topology_of(SHAPES[name])
    found: list[tuple[object, ...]] = []
    held = 0
    for partition, log in enumerate(raw_of(topology, SHAPES[name])):
        at = relaying_of(topology, partition, Mark.read(""))
        for message in log:
            extent = at.extent(message)
            passes = at.passes(extent)
            due = None if passes else at.due(extent)
            at.written(extent.time if passes else due or -1)
            held += not passes
            if held % 3 == 2:
                at.hear(extent.time // topology.input.slot_ms - 2)
            mark = Mark(message.offset, at.time, at.decided).text
            found.append((extent.time, extent.slots.tolist(), passes, due, mark))
    return {"messages": f"{len(found)}, {held} held back", "digest": hashed(found)}


def sealed(name: str) -> list[str]:
    """Records that the edge of a row seals, with a nonce of zeros."""
    topology = topology_of(SHAPES[name])
    seal = edge_randomness(topology, KEY, "here").seal
    with mock.patch("os.urandom", bytes):
        return [seal.pack(f"1/{at}/e", at - 1, b"payload" * at, b"clear").hex() for at in range(3)]


MINUTES = "slot: 1m, lateness: 1, partitions: 1, max_ahead: 1d"
SMALL = "epsilon: 2.0, window: 3, domain: [0, 10]"
LISTS = "window: 3, domain: [0, 10], dimension: 2"
WINDOW = "epsilon: 2.0, delay: 4, domain: [0, 10]"
SIX = f"streams: [{', '.join(f's{at}' for at in range(6))}]"
SUMMED = f'{SIX}, start: "2025-10-09T08:54:00Z"'
TICKED = WINDOW.replace("10]", "1000], contribution: 1")
SETTINGS = ("batch", "sliding")
PLACES = [{"lateness": late, "hold": hold} for late, hold in ((0, 2), (1, 2), (2, 3), (0, 4))]
Folded = Callable[[int], tuple[Stage[Any], list[Message]]]


def first(shape: Row, log: Callable[[Topology, int], list[Message]], *places: Any) -> Folded:
    """The first stage of a row, and a log for it by a seed; ``places``: what else its input says,
    in turn.
    """

    def made(seed: int) -> tuple[Stage[Any], list[Message]]:
        topology = topology_of(shape, **(places[seed % len(places)] if places else {}))
        _, agent = next(iter(topology.flow.readers()))
        noise = edge_randomness(topology, KEY, "here") if agent.raw else None
        return roles.make(topology, agent, 0, noise), numbered(log(topology, seed))

    return made


def behind(shape: Row, agent: str) -> Folded:
    """A collector or a merger, and what the stage before it wrote, once more from half of it on."""

    def made(seed: int) -> tuple[Stage[Any], list[Message]]:
        topology = topology_of(shape)
        noise = edge_randomness(topology, KEY, "here")
        run = local.run(topology, noise, [plain(topology, seed)])
        sent = run.reports[0] if agent == "collect" else run.partials
        again = sent[: len(sent) // 2] + sent[len(sent) // 4 :]
        return roles.make(topology, agent, 0), local.log(again, 0)

    return made


def asked(name: str, agent: str, how: str) -> Folded:
    """A stage of a topology whose coordinator asks, and its log."""

    def made(seed: int) -> tuple[Stage[Any], list[Message]]:
        given = phases.case(name, 2, 5, twice=agent != "perturb", per_slot=how)
        logs = given.logs(agent)
        at = seed % len(logs)
        return given.make(agent, at), numbered(logs[at])

    return made


def plain(topology: Topology, seed: int) -> list[Message]:
    """A log of numbers, of lists, or of categories."""
    return shown(topology, cases.wild(seed % 7, 1, 14)[0])


def shown(topology: Topology, log: list[Message]) -> list[Message]:
    """A log of numbers as one of what the topology's method takes."""
    method = topology.method
    if method.dimension:
        return cases.singly(log, lambda value: [value, 7 * value % 10])
    return log if method.kind == "numeric" else cases.singly(log, int)


def streams(_: Topology, seed: int) -> list[Message]:
    """A log of streams."""
    return wild_streams(seed % 7)


EDGES = {
    "capp users": (f"method: capp, block: 2, {SMALL}", f"[mean, per_user], {PLAIN}"),
    "capp": (f"method: capp, block: 2, {SMALL}", MEAN),
    "sw_direct": (f"method: sw_direct, {SMALL}", MEAN),
    "sampling": (f"method: sampling, segment: 2, {SMALL}", MEAN),
    "averaged users": (f"method: sw_direct, {SMALL}", f"[mean, per_user], {AVERAGED}"),
    "lpu": ("method: lpu, epsilon: 2.0, window: 3, categories: 12", SHARES),
    "budget_split users": (f"method: budget_split, {LISTS}, inner: capp, block: 2", EACH),
    "budget_split": (f"method: budget_split, {LISTS}, inner: capp, block: 2", MEAN),
    "sample_split": (f"method: sample_split, {LISTS}", MEAN),
    "sample_split users": (f"method: sample_split, {LISTS}", EACH),
}
CURATORS = {
    "curate": (
        "",
        {
            "segment_mean": "first mean count",
            "contin_group": "first mean",
            "discontin_group": "first",
            "naive": "mean",
        },
    ),
    "known": (
        f", partitioning: murmur2, {SUMMED}",
        {
            "segment_mean": "sum count",
            "contin_group": "sum count",
            "discontin_group": "sum",
            "naive": "count",
        },
    ),
}
"""Where streams are not known, and where they are: of each method, which ways of taking a slot's
values together.
"""
ROUNDS_OF = {
    "codes": ("categories: 3, mechanism: grr", SHARES),
    "numbers": ("domain: [0, 10], mechanism: hybrid", MEAN),
}
KINDS: dict[str, Folded] = {
    **{
        f"perturb/{name}": first((MINUTES, *EDGES[name]), plain)
        for name in ("capp users", "capp", "sw_direct", "lpu")
    },
    **{
        f"{agent}/{name}": behind((MINUTES, *EDGES[name]), agent)
        for agent in ("collect", "merge")
        for name in ("capp users", "averaged users", "sw_direct", "lpu")
    },
    **{
        f"settle/{how} {name}": first((f"{MINUTES}, per_slot: {how}", *EDGES[name]), plain)
        for name, every in (
            ("capp", ("last", "mean", "sum", "count")),
            ("capp users", ("last", "mean", "sum")),
            ("budget_split", ("last", "mean", "sum")),
            ("budget_split users", ("mean",)),
            ("sample_split", ("last",)),
            ("sample_split users", ("last",)),
        )
        for how in every
    },
    **{
        f"cover/{how} {name}": first(
            (f"{MINUTES}, per_slot: {how}", f"{EDGES[of][0]}{more}, cover: true", EDGES[of][1]),
            lambda topology, seed: shown(topology, with_ticks(seed)),
        )
        for name, of, more, every in (
            ("sw_direct", "sw_direct", "", ("first", "sum")),
            ("sampling", "sampling", "", ("mean",)),
            ("lpu", "lpu", "", ("last",)),
            ("lpu bits", "lpu", ", mechanism: oue", ("first",)),
        )
        for how in every
    },
    **{
        f"delay/{method} {setting} {how}": first(
            (
                f"{MINUTES}, per_slot: {how}",
                f"level: event, method: {method}, {WINDOW}, setting: {setting}",
                "[per_user]",
            ),
            streams,
        )
        for setting in SETTINGS
        for method, how in (
            ("segment_mean", "first"),
            ("segment_mean", "mean"),
            ("discontin_group", "first"),
        )
    },
    **{
        f"{kind}/{method} {setting} {how}": first(
            (
                f"{MINUTES}, closing: events, per_slot: {how}{more}",
                f"{SEEN}: {method}, {WINDOW}, setting: {setting}",
                STREAM,
            ),
            streams,
        )
        for setting in SETTINGS
        for kind, (more, methods) in CURATORS.items()
        for method, every in methods.items()
        for how in every.split()
    },
    **{
        f"curate/matrix {own}": first(
            (
                f"{MINUTES}, closing: events, per_slot: mean",
                f"{SEEN}: matrix, epsilon: 2.0, domain: [0, 10], {ROOT}{own}",
                STREAM,
            ),
            streams,
        )
        for own in ("", ", moving_mean: 3")
    },
    **{
        f"ticked/{setting} {which}": first(
            (
                f"{MINUTES}, per_slot: sum{more}",
                f"{SEEN}: segment_mean, {TICKED}, setting: {setting}",
                STREAM,
            ),
            lambda _, seed: with_ticks(seed),
        )
        for setting in SETTINGS
        for which, more in (("any", ""), ("known", f", {SUMMED}"))
    },
    **{
        f"{stage}/{name} {how} {kind}": first(
            (
                f"slot: 1m, partitions: 1, max_ahead: 1h, per_slot: {how}",
                f"method: {name}, epsilon: 3.0, window: 3, {ROUNDS_OF[kind][0]}",
                ROUNDS_OF[kind][1],
            ),
            rounds.wild,
            *PLACES,
        )
        for name in ASKED
        for stage, how, kind in (
            ("answer", "first", "codes"),
            ("answer", "first", "numbers"),
            ("answer_at_close", "last", "codes"),
            ("answer_at_close", "mean", "numbers"),
            *([("answer_at_close", "count", "numbers")] if name == "lba" else []),
        )
    },
    **{
        f"phases/{name} {agent} {how}": asked(name, agent, how)
        for name in ("lpa", "lbd")
        for agent, how in (*((agent, "first") for agent in phases.AGENTS), ("perturb", "last"))
    },
    **{
        f"devices/{name}": lambda seed, text=text: script(seed, text)
        for name, text in TEXTS.items()
    },
}
"""Every kind of stage: by a seed, the stage and a log with everything in it, from offset 0."""
