"""No value in a repr: every tuple and dataclass of the package, filled with what must not be seen,
and every other class that says what it is in words of its own.
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
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

import ldp_kafka
import ldp_kafka as lk
from ldp_kafka.accounting import Field, State
from ldp_kafka.errors import BadRecord
from ldp_kafka.methods.delay import Closed
from ldp_kafka.methods.delay.rows import Rows
from ldp_kafka.runtime.device.async_client import AsyncClient
from ldp_kafka.runtime.kafka.reader import Kept
from ldp_kafka.runtime.kafka.security import Security
from ldp_kafka.runtime.kafka.tokens import Token, Tokens
from ldp_kafka.runtime.keys import edge_randomness
from ldp_kafka.runtime.log import Message, Output, PlainRecords, Record
from ldp_kafka.runtime.roles import make
from ldp_kafka.runtime.stages.per_slot import PER_SLOT
from ldp_kafka.runtime.stages.windows import Released
from ldp_kafka.runtime.status.facts import Side
from ldp_kafka.runtime.status.reading import _Asked
from ldp_kafka.runtime.status.sample import Tails
from ldp_kafka.runtime.wire.codec import encode
from ldp_kafka.runtime.worker.driver.chunks import chunks
from ldp_kafka.runtime.worker.driver.fetches import Lot
from ldp_kafka.runtime.worker.foreign import shown as argument
from ldp_kafka.topology import loads
from tests.cases import cases
from tests.poison import LOUD, TEXT, WHOLE, shown
from tests.runtime.device import lives
from tests.runtime.releases.made import read, release

NOW = 987_654_321_000  # as loud as the values
KEY = TEXT.encode() * 4 + b"!"
TOPOLOGY = """
topology: meters
input: {slot: 1h, partitions: 1}
privacy: {method: sw_direct, domain: [0, 100], epsilon: 2.0, window: 4}
output: {statistics: [mean]}
kafka: {bootstrap_servers: "b:9092", client: {sasl.password: s3cret-77}}
"""

# why -> what is shown whole, each by module and name
PUBLIC = {
    "a setting": """
        accounting.admission.Claim accounting.admission.Limit accounting.admission.Loss
        accounting.admission.Spender accounting.guarantee.Guarantee accounting.state.Field
        methods.delay.windows.Setting methods.grid.Grid topology.contribution.Contribution
        metrics.families.Family runtime.brokers.local_kafka.Status runtime.demo.streams.Default
        runtime.device.provisioning.Files runtime.kafka.admin.topics.TopicSpec
        runtime.kafka.oauth.Method
        methods.protocols.history.Asked methods.protocols.processing.Processing
        methods.protocols.request.Request methods.protocols.rules.Offer
        methods.protocols.terms.Terms runtime.recovery.epoch.Limits
        runtime.recovery.rules.Rule runtime.stages.raw.RawPartition
        runtime.stages.counting.Counting runtime.stages.collect.Collect
        runtime.stages.collect_devices.CollectDevices runtime.stages.merge.Merge
        runtime.stages.collect_device_phases.CollectDevicePhases
        runtime.stages.collect_phases.CollectPhases runtime.stages.merge_phases.MergePhases
        runtime.stages.merge_phases.MergeFirst runtime.stages.merge_phases.MergeSecond
        runtime.stages.collect_phases.CountingSecond
        runtime.stages.coordinate.Coordinate runtime.stages.stream_releases.StreamReleases
        runtime.stages.per_slot.Taking runtime.stages.panes.PaneOf topology.sources._Edge
        runtime.stages.releases.Publisher runtime.stages.processed.Processed
        runtime.stages.report_messages.ReportMessages
        runtime.wire.dead_letters.DeadLetters
        runtime.wire.events.EventFormat runtime.wire.times.Unit
        runtime.worker.driver.private_api.Private
        runtime.worker.probes.Rule
        topology.budget_file.Admitted
        topology.admission.Admission topology.budget_file.EdgeFile topology.stamps.Stamps
        topology.flow.Flow
        topology.acls.Acl topology.formats.InputFormat topology.model.Topology
        runtime.kafka.headers.Log topology.planner.Plan topology.rights.Access topology.rights.Right
        topology.planner.Traffic topology.asking.Rounds topology.comparison.Comparison
        topology.comparison.Moving topology.roles.Agent topology.roles.Forward topology.roles.Relay
        topology.roles.Role topology.roles.Topic
        topology.sections.Edge topology.sections.Input topology.sections.Output
        topology.sections.Privacy topology.sections.Runtime statistics.selection.Selection
        runtime.releases.choosing.Choosing runtime.releases.deliver.Wanted
        runtime.releases.rows.Column runtime.releases.since.Since
        runtime.status.closing.Closing
    """,
    "mathematics of the parameters, or of a value that an analyst chose": """
        mechanisms.base.Certificate mechanisms.base.Law mechanisms.frequencies.AffineSupport
        mechanisms.window.Moments methods.response_curve.Affine
        methods.priors.Scale methods.response_curve.ResponseCurve methods.response_curve._Shape
        statistics.prediction.Prediction statistics.prediction.ShrunkPrediction
        statistics.prediction.SinglePrediction statistics.prediction.ProtocolPrediction
        statistics.prediction.EvenPrediction statistics.prediction.StreamPrediction
        methods.protocols.prediction.Crowd methods.protocols.prediction.Expected
        methods.delay.choice.DelayChoice methods.delay.choice.Simulated
        methods.deviation.Deviations methods.deviation._Off
    """,
    "releases, and sums of reports, which are on the collector's side of the trust line": """
        mechanisms.intervals.NoiseMoments mechanisms.supporters.OfPopulation
        mechanisms.supporters.OfReports methods.estimates.Slot
        mechanisms.base.Estimate mechanisms.reconstruction.Distribution methods.crowd.Crowd
        methods.protocols.coordinator.Released methods.protocols.oracle.Told
        methods.protocols.coordinator.Verdict
        methods.priors.Prior methods.priors.Shrunk records.Partial records.Release
        records.Request records.Tick runtime.demo.play.Played runtime.stages.collect.CollectState
        runtime.stages.collect_device_phases.DevicePhasesState
        runtime.stages.collect_devices.DevicesState runtime.stages.counting.SourceState
        runtime.stages.collect_phases.PhasesState runtime.stages.merge_phases.PhasesState
        runtime.stages.coordinate.CoordinateState runtime.stages.rounds.Round
        runtime.stages.rounds.Rounds runtime.stages.rounds.Spent records.Sums
        runtime.stages.merge.MergeState runtime.stages.parts.PartOf
        runtime.stages.requests.Forwarding runtime.stages.slot_sums.At
        runtime.stages.slot_sums.SecondReports runtime.stages.slot_sums.SlotSums
        runtime.stages.slot_sums.Summed statistics.base.Singles
        statistics.events.Above runtime.releases.plot._Series runtime.releases.view.Line
    """,
    "places in logs, and counts over all users, which the operator's tools print": """
        runtime.kafka.presence.Question runtime.log.Look runtime.stages.panes.SeenPanes
        runtime.recovery.inspection.EpochRecords runtime.recovery.inspection.Held
        runtime.recovery.inspection.Violation runtime.recovery.rules.Facts
        runtime.worker.probes.Answer runtime.worker.probes.Facts
        runtime.recovery.rules.PartitionOffsets runtime.recovery.start.Refusal
        runtime.replay.send.Sent runtime.tools.prove_once.Due runtime.tools.prove_once.Proof
        runtime.tools.prove_once.Recomputed
        runtime.tools.report_index.Compared runtime.tools.rotate_key.Rotation
        runtime.replay.send.Position runtime.stages.bounds.Bound
        runtime.stages.places.Passed runtime.wire.single_reports.Stamps
        runtime.tools.state.Move runtime.tools.state.Plan records.DeadLetter
        runtime.releases.choosing.Counts
        runtime.status.facts.Facts runtime.status.facts.Group
        runtime.status.facts.InputPartition runtime.status.facts.Lag
        runtime.status.facts.Letters runtime.status.facts.Releases
        runtime.status.facts.Side runtime.status.facts.TopicState runtime.status.view.Part
        runtime.status.waits.Verdict
    """,
    "lines of the operator's log, whose fields `runtime.worker.events` lists": """
        runtime.worker.events.Kind runtime.worker.logs.Entry runtime.worker.rates.Counted
    """,
    "a checkpoint, which hides itself, and places in logs": """
        runtime.recovery.rules.Case runtime.recovery.start.Start runtime.tools.rotate_key._Part
    """,
    "the inputs and data of whoever tests, audits or evaluates": """
        audits.bits.Bit audits.bits.BitsResult audits.events.Event audits.events._Best
        audits.events._Sorted audits.preimage.Part audits.result.AuditResult audits.result.Bin
        audits.result.Hits audits.result.Power audits.rows._Table audits.views.View
        checks.client_trial.ClientTrial checks.deal.Draw checks.enumeration.Outcomes
        checks.delay.draws.Asked checks.delay.outcomes.WindowOutcomes checks.delay.trial.DelayTrial
        checks.method.trial.MethodTrial checks.trial.MechanismTrial evaluation.capp.Block
        evaluation.capp.Row
        evaluation.capp.Shrinking evaluation.cgm.Row
        evaluation.coverage.cells.Name evaluation.coverage.cells.Row evaluation.data.Series
        evaluation.guide.Entry
        evaluation.guide.Noise evaluation.metrics.Curve evaluation.sppa.Error
        evaluation.sppa.Monitoring evaluation.table.Table evaluation.tables.Result
        evaluation.claims.Claim evaluation.plots.Line evaluation.plots.Panel
        evaluation.delay.all_methods.Row evaluation.delay.clipping.Row
        evaluation.delay.compared.Cell evaluation.delay.compared.Errors
        evaluation.delay.parameters.Row
        evaluation.delay.streams.Stream
        evaluation.ldp_ids.comparison.Run evaluation.ldp_ids.crowds.Stream
        evaluation.ldp_ids.events.Events evaluation.ldp_ids.events.Row
        evaluation.ldp_ids.laws.Bits evaluation.ldp_ids.laws.Outputs
        evaluation.ldp_ids.means.Numbers evaluation.ldp_ids.means.Row
        evaluation.ldp_ids.meters.Row evaluation.ldp_ids.scale.Row
        evaluation.ldp_ids.sweeps.Row evaluation.ldp_ids.table_two.Row
        runtime.coverage.released._Log runtime.coverage.subjects.Subject
        runtime.coverage.table.Evaluated runtime.coverage.table.Extent
    """,
}
OPEN = {name: why for why, names in PUBLIC.items() for name in names.split()}

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
                found[f"{module.name.removeprefix('ldp_kafka.')}.{kind.__qualname__}"] = kind
    return found


def holds(kind):
    """Whether it is a tuple with names, or a dataclass: its repr shows all of it by default."""
    return hasattr(kind, "_fields") or (is_dataclass(kind) and "__dataclass_fields__" in vars(kind))


def speaks(kind):
    """Whether it is another class with a repr of its own."""
    own = "__repr__" in vars(kind) or "__str__" in vars(kind)
    return own and not holds(kind) and not issubclass(kind, Enum)


def names_of(kind):
    return kind._fields if hasattr(kind, "_fields") else [each.name for each in fields(kind)]


def filled(kind, filler, shows):
    """One with the same in every field, whatever the field is for, but for what it shows."""
    values = {name: shows.get(name, filler) for name in names_of(kind)}
    if hasattr(kind, "_fields"):
        return tuple.__new__(kind, values.values())
    made = object.__new__(kind)
    for name, value in values.items():
        object.__setattr__(made, name, value)
    return made


def fetched_tokens():
    """Some that have one."""
    made = Tokens(lambda: Token(TEXT, 60.0))
    assert made.get() == TEXT
    return made


def said_by(made):
    return f"{made!r} {made!s} {made} {[made]}"


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
    return found or ([] if fits else [f"{kind.__qualname__}: no filler fits, list an instance"])


CURATED = """
topology: streams
input: {slot: 1h, partitions: 1}
privacy:
  {trust: curator, level: event, method: naive, domain: [0, 100], epsilon: 2.0, delay: 4}
output: {statistics: [per_stream]}
"""
DELAYED = CURATED.replace("curator", "edge").replace("per_stream", "per_user")
SETTLED = TOPOLOGY.replace("slot: 1h", "slot: 1h, per_slot: sum")
ASKING = TOPOLOGY.replace("sw_direct", "lba")
ASKING_AT_CLOSE = SETTLED.replace("sw_direct", "lba")


def edge(text=TOPOLOGY, agent="perturb"):
    """The stage at the edge, and its state after one message, under a loud key."""
    topology = loads(text)
    stage = make(topology, agent, 0, edge_randomness(topology, KEY, "here"))
    state = stage.fresh()
    output = stage.fold(state, [Message(0, NOW, encode(lk.Event(TEXT, NOW, LOUD)))])
    assert state.users.state.count == 1
    return stage, state, output


def curated():
    return edge(CURATED, "curate")


def pane():
    [made] = curated()[1].panes._open.values()
    before = said_by(made) + said_by(curated()[1].panes)
    assert shown(str(made.values))
    made.together(PER_SLOT["first"])
    assert shown(str(made.folded.values))
    return before + said_by(made)


def waiting():
    made = edge()[1].users.waiting
    assert len(made) == 1
    return made


def state():
    made = State({"last": Field("i8", initial=WHOLE)}, np.full((3, 2), WHOLE, np.uint64))
    assert str(WHOLE) in str(made.columns) and str(WHOLE) in str(made.users)
    return made


def output():
    made = Output(lambda *_: Record("t", 0, None, b""))
    made.send(Record("t", 0, TEXT.encode(), TEXT.encode()))
    made.send(PlainRecords("t", 0, [TEXT.encode()]))
    made.count("clamped", WHOLE)
    made.gauge("value", LOUD)
    return made


async def asynchronous(folder):
    lives.provisioned(loads(lives.TOPOLOGIES["sw_direct"]), folder)
    made = AsyncClient(
        loads(lives.TOPOLOGIES["sw_direct"]),
        user=TEXT,
        database=folder / "m.db",
        key_file=folder / "m.key",
        producer=lives.Broker(),
    )
    before = said_by(made)
    async with made as client:
        return before + said_by(client)


def device(folder):
    with lives.opened(folder, user=TEXT) as client:
        client.report(LOUD, lives.FIRST * lives.SLOT)
        return said_by(client) + said_by(client._store)


def releases():
    """What is read of a topic, after its first release."""
    made = read([release(1, LOUD, user=TEXT), release(2)])
    assert next(made).value == LOUD
    return made


def fetched():
    """Records as the client gives them, which show all that they hold."""
    return [SimpleNamespace(offset=3, timestamp=7, key=TEXT, value=TEXT)] * 2


# of what the fillers do not fit: what an instance that holds poisons says
def refused():
    """What is said of a message that holds a value and is no record."""
    with pytest.raises(BadRecord) as caught:
        lk.decode(json.dumps({"type": "event", "user": TEXT, "value": TEXT}).encode())
    return caught.value


INSTANCES = {
    "errors.BadRecord": lambda _: said_by(refused()),
    "accounting.state.State": lambda _: said_by(state()),
    "methods.delay.rows.Rows": lambda _: said_by(Rows(state(), np.arange(3))),
    "randomness.fresh.System": lambda _: said_by(lk.randomness.system()),
    "randomness.repeatable.Keyed": lambda _: said_by(lk.randomness.keyed(KEY)),
    "runtime.device.async_client.AsyncClient": lambda folder: asyncio.run(asynchronous(folder)),
    "runtime.device.client.Client": device,
    "runtime.device.store.DeviceStore": device,
    "runtime.releases.stream.Releases": lambda _: said_by(releases()),
    "runtime.status.reading._Asked": lambda _: said_by(
        _Asked(Side("edge"), {"sasl.password": TEXT}, {})
    ),
    "runtime.status.sample.Tails": lambda _: said_by(
        Tails({0: [Kept(0, 1, NOW, TEXT.encode(), TEXT.encode())]})
    ),
    "runtime.runs.Run": lambda _: said_by(*chunks(fetched())),
    "runtime.worker.driver.fetches.Lot": lambda _: said_by(Lot(fetched())),
    "runtime.worker.foreign._Shown": lambda _: said_by(
        argument([TEXT.encode(), ValueError(TEXT), lk.Event(TEXT, 0, LOUD), {0: TEXT.encode()}])
    ),
    "runtime.kafka.tokens.Tokens": lambda _: said_by(fetched_tokens()),
    "runtime.kafka.security.Security": lambda _: said_by(
        Security(
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "PLAIN",
                "sasl.username": TEXT,
                "sasl.password": TEXT,
            }
        )
    ),
    "runtime.log.Output": lambda _: said_by(output()) + said_by(edge()[2]),
    "runtime.sealing.Seal": lambda _: said_by(edge()[0].seal),
    "runtime.stages.perturb.Perturb": lambda _: said_by(edge()[0]),
    "runtime.stages.perturb.PerturbState": lambda _: said_by(edge()[1]),
    "runtime.stages.answer.Answer": lambda _: said_by(edge(ASKING)[0]),
    "runtime.stages.answer.AnswerState": lambda _: said_by(edge(ASKING)[1]),
    "runtime.stages.answer_at_close.AnswerAtClose": lambda _: said_by(edge(ASKING_AT_CLOSE)[0]),
    "runtime.stages.answer_at_close.AnswerAtCloseState": lambda _: said_by(
        edge(ASKING_AT_CLOSE)[1]
    ),
    "runtime.stages.curate.Curate": lambda _: said_by(curated()[0]),
    "runtime.stages.curate.CurateState": lambda _: said_by(curated()[1]) + said_by(curated()[2]),
    "runtime.stages.settle.Settle": lambda _: said_by(edge(SETTLED)[0]),
    "runtime.stages.settle.SettleState": lambda _: said_by(edge(SETTLED)[1]),
    "runtime.stages.delay.Delay": lambda _: said_by(edge(DELAYED)[0]),
    "runtime.stages.windows.Released": lambda _: said_by(
        Released(np.arange(3), Closed(0, *[np.full((1, 3), LOUD)] * 4))
    ),
    "runtime.stages.windows.Windows": lambda _: said_by(curated()[0]._windows),
    "runtime.stages.names.Names": lambda _: said_by(curated()[1].names),
    "runtime.stages.panes._Pane": lambda _: pane(),
    "runtime.stages.panes.Panes": lambda _: pane(),
    "runtime.stages.users.Users": lambda _: said_by(edge()[1].users),
    "runtime.stages.waiting.Waiting": lambda _: said_by(waiting()),
}


def test_no_repr_shows_a_value():
    """Whatever is new is filled too: where that shows something it hides it, or says above why all
    of it is public.
    """
    found = [
        fault
        for name, kind in classes().items()
        if holds(kind) and name not in OPEN and name not in INSTANCES
        for fault in faults_of(kind, SHOWS.get(name, {}))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", INSTANCES)
def test_no_instance_shows_a_value(name, tmp_path):
    text = INSTANCES[name](tmp_path)
    assert not shown(text), text
    # digests of users, and the key itself
    assert KEY.hex() not in text and KEY[:8].hex() not in text


def test_whatever_speaks_is_listed():
    """A class with words of its own has an instance above; and no name above is of nothing."""
    kinds = classes()
    assert {name for name, kind in kinds.items() if speaks(kind)} <= INSTANCES.keys()
    assert (OPEN.keys() | SHOWS.keys() | INSTANCES.keys()) <= kinds.keys()
    assert not OPEN.keys() & (SHOWS.keys() | INSTANCES.keys())
    assert len(OPEN) == sum(len(names.split()) for names in PUBLIC.values())


def test_a_topology_hides_its_passwords():
    """It is public, but for what reaches the broker."""
    topology = loads(TOPOLOGY)
    assert topology.edge_kafka.client["sasl.password"] == TEXT
    assert not shown(said_by(topology) + said_by(topology.flow))


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
    assert faults_of(Deep) == ["Deep: no filler fits, list an instance"]


def test_what_a_repr_may_show_is_no_way_around():
    """Only the fields named."""
    assert faults_of(Default, {"values": 1})
    assert not faults_of(Default, {"slot": 1, "values": 1})
