"""No value in a repr: every tuple and dataclass of the package, filled with what must not be seen;
and every object that holds a value, a password or a key while the package is at work.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import pkgutil
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

import confluent_kafka as kafka
import numpy as np
import pytest
from faust.types import TP

import ldp_kafka
import ldp_kafka as lk
from ldp_kafka.accounting import Field, State
from ldp_kafka.errors import BadRecord
from ldp_kafka.methods.delay import Closed
from ldp_kafka.methods.delay.rows import Rows
from ldp_kafka.methods.streams import Streams
from ldp_kafka.randomness import Ids, Seeded, System
from ldp_kafka.runtime.kafka.reader import Kept
from ldp_kafka.runtime.kafka.tokens import Token, Tokens
from ldp_kafka.runtime.log import Message, Output, PlainRecords, Record
from ldp_kafka.runtime.stages.latest import Latest
from ldp_kafka.runtime.stages.relaying import Mark, relaying_of
from ldp_kafka.runtime.stages.sources import Sources
from ldp_kafka.runtime.stages.windows import Released
from ldp_kafka.runtime.status.facts import Side
from ldp_kafka.runtime.status.reading import _Asked
from ldp_kafka.runtime.status.sample import Tails
from ldp_kafka.runtime.wire.copies import CopyReader
from ldp_kafka.runtime.worker.foreign import shown as argument
from ldp_kafka.runtime.worker.transport.messages import batches
from tests.cases import cases
from tests.poison import LOUD, TEXT, WHOLE, reached, said_by, shown
from tests.runtime.device import lives
from tests.runtime.releases.made import read, release
from tests.runtime.stages import rekeys
from tests.test_no_value_shown import KEY, NOW, STAGES, asynchronous, edge_of, loads

RELEASED = "releases, and sums of reports, which are on the collector's side of the trust line"
# why -> what is shown whole: the names of a room behind its own
PUBLIC = {
    "a setting": """
        accounting: admission.Claim admission.Limit admission.Loss admission.Spender
            guarantee.Guarantee state.Field
        methods: grid.Grid runnable.Runnable
        methods.delay: windows.Setting
        methods.protocols: history.Asked processing.Processing request.Request rules.Offer
            terms.Terms
        metrics: families.Family
        plugins: Plugin
        runtime.brokers: local_kafka.Status
        runtime.demo: streams.Default
        runtime.device: provisioning.Files
        runtime.kafka: admin.topics.TopicSpec headers.Log oauth.Method
        runtime.recovery: epoch.Limits rules.Rule
        runtime.releases: choosing.Choosing deliver.Wanted rows.Column since.Since
        runtime.stages: collect.Collect collect_devices.CollectDevices counting.CountingSecond
            coordinate.Coordinate counting.Counting destinations.Releases
            destinations.SumsOfPhases merge.Merge panes.PaneOf per_slot.Taking
            raw.RawPartition releases.Publisher
            report_messages.ReportMessages stream_releases.StreamReleases
        runtime.status: closing.Closing
        runtime.wire: dead_letters.DeadLetters events.EventFormat times.Unit
        runtime.worker: health_rules.Rule
        statistics: selection.Selection
        topology: admission.Admission asking.Rounds budget_file.Admitted budget_file.EdgeFile
            comparison.Comparison comparison.Moving contribution.Contribution flow.Flow
            formats.InputFormat model.Topology planner.Plan planner.Traffic rights.Access rights.Acl
            rights.Right roles.Agent roles.Forward roles.Relay roles.Role roles.Topic sections.Edge
            sections.Input sections.Output sections.Privacy sections.Runtime sources._Edge
            stamps.Stamps
    """,
    "mathematics of the parameters, or of a value that an analyst chose": """
        mechanisms: base.Certificate base.Law frequencies.AffineSupport window.Moments
        methods: deviation.Deviations deviation._Off priors.Scale response_curve.Affine
            response_curve.ResponseCurve response_curve._Shape
        methods.delay: choice.DelayChoice choice.Simulated
        methods.protocols: prediction.Crowd prediction.Expected
        statistics: prediction.AggregatePrediction prediction.EvenPrediction prediction.Prediction
            prediction.ProtocolPrediction prediction.ShrunkPrediction prediction.SinglePrediction
            prediction.StreamPrediction
    """,
    RELEASED: """
        mechanisms: base.Estimate intervals.NoiseMoments reconstruction.Distribution
            supporters.OfPopulation supporters.OfReports
        methods: crowd.Crowd estimates.Slot priors.Prior priors.Shrunk
        methods.protocols: coordinator.Released coordinator.Verdict oracle.Told
        records: Partial Release Request Sums Tick
        runtime.demo: play.Played
        runtime.releases: plot._Series view.Line
        runtime.stages: collect.CollectState complete.Complete
            collect_devices.DevicesState coordinate.CoordinateState
            counting.SourceState merge.MergeState parts.PartOf
            requests.Forwarding rounds.Round rounds.Rounds rounds.Spent slot_sums.At
            slot_sums.SecondReports slot_sums.SlotSums slot_sums.Summed
        statistics: base.Singles events.Above
    """,
    "places in logs, and counts over all users, which the operator's tools print": """
        records: DeadLetter
        runtime: log.Look
        runtime.kafka: broker_health.Question
        runtime.recovery: inspection.EpochRecords inspection.Held inspection.Violation rules.Facts
            rules.PartitionOffsets start.Refusal
        runtime.releases: choosing.Counts
        runtime.replay: send.Position send.Sent
        runtime.stages: bounds.Bound panes.SeenPanes places.Passed
        runtime.status: facts.Facts facts.Group facts.InputPartition facts.Lag facts.Letters
            facts.OpenTransaction facts.Releases facts.Side facts.TopicState view.Part waits.Verdict
        runtime.tools: prove_once.Due prove_once.Proof prove_once.Recomputed report_index.Compared
            rotate_key.Rotation state.Move state.Plan
        runtime.wire: copies.Place single_reports.Stamps
        runtime.worker: health_rules.Answer health_rules.Facts health_rules.Still
    """,
    "lines of the operator's log, whose fields `runtime.worker.events` lists": """
        runtime.worker: events.Kind logs.Entry rates.Counted
    """,
    "a checkpoint, which hides itself, and places in logs": """
        runtime.recovery: rules.Case start.Start
        runtime.tools: rotate_key._Part
    """,
}
OF_PARTS = """
    runtime.stages: asked.Asked asked.Requested curate.Curate curate.CurateState gates.AtClose
        gates.AtOnce gates.Covered gates.WindowCloses panes._Pane perturb.Perturb
        perturb.PerturbState windows.Released windows.Windows
    runtime.status: reading._Asked sample.Tails
"""
"""Made of parts that say what they are: these are met at work."""
OF_TESTS = ("audits.", "checks.", "evaluation.", "runtime.coverage.")
"""Rooms with the inputs and data of tests, audits and evaluations, and of nobody else."""


def named(*texts):
    """The names in such tables, each once."""
    found, room = [], ""
    for word in " ".join(texts).split():
        room = word[:-1] if word.endswith(":") else room
        found += [] if word.endswith(":") else [f"{room}.{word}"]
    assert len(set(found)) == len(found)
    return set(found)


# what a repr shows on purpose: where a record lies, and how much it holds
SHOWS: dict[str, dict[str, Any]] = {
    "records.Report": {"id": "0" * 32, "slot": 3, "phase": 0},
    "records.Reports": {"bound": 3, "closed": 2},
    "runtime.kafka.reader.Kept": {"partition": 0, "offset": 3},
    "runtime.device.store.Held": {"slot": 3},
    "runtime.log.Message": {"offset": 3},
    "runtime.log.PlainRecords": {"topic": "t", "partition": 0},
    "runtime.log.Record": {"topic": "t", "partition": 0},
    "runtime.log.TableRecord": {"topic": "t", "partition": 0},
    "runtime.recovery.checkpoints.Checkpoint": {"epoch": "e", "offset": 3},
    "runtime.recovery.checkpoints._Record": {"offset": 3},
    "runtime.sealing.Sealed": {"offset": 3, "place": "0/meta/e"},
    "runtime.replay.messages.Raw": {"partition": 0, "events": 3},
    "runtime.replay.source.SlotEvents": {"slot": 3},
    "runtime.replay.source.Source": {"events": 3, "first": 1, "last": 2},
    "runtime.stages.parts.Counted": {"offset": 3},
    "methods.delay.closed.Closed": {"first": 3},
    "methods.delay.smoother.Piece": {"first": 3, "slots": 2},
    "methods.step.Step": {"phase": 0},
    "topology.document.Document": {"file": "meters.yaml"},
    "topology.sections.KafkaSide": {"bootstrap_servers": "b:9092"},
}
FILLERS = (
    np.full((2, 2), WHOLE, np.uint64),
    np.array([LOUD, -LOUD]),
    [TEXT, LOUD],
    (TEXT.encode(), LOUD),
    {TEXT: LOUD},
    TEXT,
    TEXT.encode(),
    LOUD,
)


@cache
def classes():
    """Every class of the package that is defined in it, by module and name."""
    found = {}
    for module in pkgutil.walk_packages(ldp_kafka.__path__, "ldp_kafka."):
        for kind in vars(import_module(module.name)).values():
            if inspect.isclass(kind) and kind.__module__ == module.name:
                found[name_of(kind)] = kind
    return found


def name_of(kind):
    return f"{kind.__module__}.{kind.__qualname__}".removeprefix("ldp_kafka.")


def holds(kind):
    """Whether it is a tuple with names, or a dataclass: its repr shows all of it by default."""
    return hasattr(kind, "_fields") or (is_dataclass(kind) and "__dataclass_fields__" in vars(kind))


def hides(kind):
    """Whether it is a dataclass that asks for no repr which shows all of it."""
    return is_dataclass(kind) and not kind.__dataclass_params__.repr


def speaks(kind):
    """Whether it is another class with a repr of its own."""
    own = "__repr__" in vars(kind) or "__str__" in vars(kind)
    return own and not holds(kind) and not issubclass(kind, Enum)


def filled(kind, filler, shows):
    """One with the same in every field, whatever the field is for, but for what it shows."""
    named = hasattr(kind, "_fields")
    names = kind._fields if named else [each.name for each in fields(kind)]
    values = {name: shows.get(name, filler) for name in names}
    if named:
        return tuple.__new__(kind, values.values())
    made = object.__new__(kind)
    for name, value in values.items():
        object.__setattr__(made, name, value)
    return made


def faults_of(kind, shows=()):
    """What its repr shows of fillers; and that no filler fits, where that is so."""
    found, fits = [], 0
    for filler in FILLERS:
        try:
            text = said_by(filled(kind, filler, dict(shows)))
        except (TypeError, AttributeError, LookupError):
            continue  # it asks the field for what this filler has not
        fits += 1
        found += [f"{kind.__qualname__} shows {text[:200]}"] if shown(text) else []
    return found or ([] if fits else [f"{kind.__qualname__}: no filler fits, meet one at work"])


def folding(kind):
    """The stage at the edge, its state and what it gave, under a loud key: where a slot is open,
    and where what came in it was taken together.
    """
    topology, _, stage = edge_of(kind)
    value = {"vectors": (LOUD, LOUD), "categories": 1, "named": "a"}.get(kind, LOUD)
    state = stage.fresh()
    output = stage.fold(state, [Message(0, NOW, lk.encode(lk.Event(TEXT, NOW, value)))])
    assert stage.users(state) == 1
    yield topology, stage, state, output
    yield stage, state, stage.dump(state, stage.shards_of(state)), stage.seal


def device(folder):
    """One that has reported, and one that is awaited."""
    with lives.opened(folder, user=TEXT) as client:
        client.report(LOUD, lives.FIRST * lives.SLOT)
        yield client, TEXT
    (own := folder / "awaited").mkdir()
    client = asynchronous(own)
    yield (client,)
    with asyncio.Runner() as loop:
        loop.run(client.__aenter__())
        yield (client,)
        loop.run(client.__aexit__(None, None, None))


def output():
    made = Output(lambda *_: Record("t", 0, None, b""))
    made.send(Record("t", 0, TEXT.encode(), TEXT.encode()))
    made.send(PlainRecords("t", 0, [TEXT.encode()]))
    made.count("clamped", WHOLE)
    made.gauge("value", LOUD)
    return made


def averaged():
    """What a user released last."""
    latest = Latest(3, 1, 1)
    place, value = np.array([3]), np.array([LOUD])
    latest.averaged(np.full((1, 2), WHOLE, np.uint64), place, value, place)
    return latest, TEXT


def windows():
    """Rows of a state, streams that they are stepped with, and a window that was released."""
    state = State({"last": Field("i8", initial=WHOLE)}, np.full((3, 2), WHOLE, np.uint64))
    closed = Closed(0, *[np.full((1, 3), LOUD)] * 4)
    source = lk.randomness.seeded(1)
    naive = lk.method("naive", epsilon=1.0, delay=2, domain=(0.0, LOUD))
    streams = Streams(naive, naive.bound, np.full((3, 2), LOUD), source, None, None)
    rows = Rows(state, np.arange(3), source, 0, 1)
    return streams, rows, Released(np.arange(3), closed)


def read_back():
    """What is read of a topic, after its first release; and a message that is no record."""
    made = read([release(1, LOUD, user=TEXT), release(2)])
    assert next(made).value == LOUD
    with pytest.raises(BadRecord) as caught:
        lk.decode(json.dumps({"type": "event", "user": TEXT, "value": TEXT}).encode())
    return made, TEXT, caught.value


def secrets():
    """What logs in."""
    tokens = Tokens(lambda: Token(TEXT, 60.0))
    assert tokens.get() == TEXT
    client = "kafka: {bootstrap_servers: 'b:9092', client: {sasl.password: s3cret-77}}"
    topology = loads(f"{STAGES['numbers']}{client}\n")
    assert topology.edge_kafka.client["sasl.password"] == TEXT
    asked = _Asked(Side("edge"), {"sasl.password": TEXT}, {})
    return tokens, topology, asked


def sources():
    """Of noise, one of them bound to a draw; and ids."""
    keyed, nothing = lk.randomness.keyed(KEY), np.zeros((1, 0), np.int64)
    bound = keyed.at(keyed.digests([TEXT]), 3, 0, nothing)
    return keyed, bound, lk.randomness.system(), System(KEY), Ids.of([TEXT]), Seeded(WHOLE), KEY


def fetched():
    """Records as clients give them, which show all that they hold, and arguments of their logs."""
    records = [kafka.Message(topic="t", partition=0, offset=3, value=TEXT.encode())] * 2
    found, _ = batches(TP("t", 0), records, 1, lambda: None)
    data = [TEXT.encode(), ValueError(TEXT), lk.Event(TEXT, 0, LOUD), {0: TEXT.encode()}]
    tails = Tails({0: [Kept(0, 1, NOW, TEXT.encode(), TEXT.encode())]})
    return *found, tails, argument(data), TEXT


def rekeyed():
    """A relay, what it writes of a record, and what is read of that."""
    relay = relaying_of(rekeys.topology(), 0, Mark(0, WHOLE, None))
    row = {"user": TEXT, "time": NOW, "value": LOUD}
    message = Message(3, NOW, json.dumps([row]).encode())
    written = relay.copied(message, relay.extent(message), None, ())
    kept = Sources(rekeys.SOURCES)
    kept.come(np.array([0]), np.array([WHOLE]))
    return relay, written, kept, CopyReader(np.dtype(float)).read_run([written[0].value]), TEXT


AT_WORK = {
    **{kind: lambda _, kind=kind: folding(kind) for kind in STAGES},
    "device": device,
    "output": lambda _: [(output(),)],
    "windows": lambda _: [windows()],
    "averaged": lambda _: [averaged()],
    "read back": lambda _: [read_back()],
    "secrets": lambda _: [secrets()],
    "fetched": lambda _: [fetched()],
    "randomness": lambda _: [sources()],
    "rekeyed": lambda _: [rekeyed()],
}
"""Objects while they hold something, and all that these lead to."""


def at_work(name, folder):
    """The names of the classes of ours that were met there, and what any of them shows."""
    met, found, loud = set(), [], False
    for roots in AT_WORK[name](folder):
        for each in reached(*roots):
            if type(each).__module__.partition(".")[0] == "ldp_kafka":
                met.add(name_of(type(each)))
                text = said_by(each)
                if name_of(type(each)) in named(PUBLIC[RELEASED]):
                    continue
                if shown(text) or KEY.hex() in text or KEY[:8].hex() in text:
                    found.append(f"{name_of(type(each))} shows {text[:200]}")
            elif isinstance(each, str | bytes | int | float | np.ndarray):
                loud = loud or bool(shown(repr(each)))
    assert loud, "nothing is held that could be shown"
    return met, found


def test_no_repr_shows_a_value(tmp_path):
    """Whatever is new is filled too: where that shows something it hides it, or says above why all
    of it is public. What no filler fits, and a class with words of its own, is met at work.
    """
    met, found = set(), []
    for name in AT_WORK:
        (folder := tmp_path / name).mkdir()
        there, shows = at_work(name, folder)
        met |= there
        found += shows
    kinds, is_open, of_parts = classes(), named(*PUBLIC.values()), named(OF_PARTS)
    for name, kind in kinds.items():
        of_tests = name.startswith(OF_TESTS) and not hides(kind)
        if holds(kind) and name not in is_open | of_parts and not of_tests:
            found += faults_of(kind, SHOWS.get(name, {}))
    assert not found, "\n".join(found)
    assert of_parts | {name for name, kind in kinds.items() if speaks(kind)} <= met
    assert is_open | of_parts | SHOWS.keys() <= kinds.keys()
    assert is_open.isdisjoint(of_parts | SHOWS.keys())


class Default(NamedTuple):
    """A tuple as somebody writes it at first."""

    slot: int
    values: Any


@dataclass
class Plain:
    """A dataclass as somebody writes it at first."""

    users: Any


class Half(NamedTuple):
    """A tuple whose repr shows its first value only."""

    values: Any

    def __repr__(self):
        return f"Half({self.values[0]}, ...)"


class Deep(NamedTuple):
    """A tuple that asks its field for what nothing has."""

    values: Any

    def __repr__(self):
        return f"Deep({self.values.state.count})"


@cases("kind", [Default, Plain, Half])
def test_a_default_repr_is_found(kind):
    assert any("shows" in fault for fault in faults_of(kind, {"slot": 3}))


def test_what_cannot_be_filled_is_found():
    assert faults_of(Deep) == ["Deep: no filler fits, meet one at work"]


def test_what_a_repr_may_show_is_no_way_around():
    """Only the fields named."""
    assert faults_of(Default, {"values": 1})
    assert not faults_of(Default, {"slot": 1, "values": 1})
