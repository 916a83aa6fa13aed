"""No value in an error, a log, a warning, a dead letter or a count: every public entry and every
stage that folds raw messages, given values of every type, in every place where it takes any.
"""

from __future__ import annotations

import asyncio
import json
import logging
import warnings
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from inspect import signature
from io import StringIO

import numpy as np
import pyarrow as pa
import pytest

import ldp_kafka as lk
from ldp_kafka.cli import main
from ldp_kafka.errors import BadRecord
from ldp_kafka.methods import StreamMethod
from ldp_kafka.methods.batch import Batch
from ldp_kafka.methods.segment_length import choose_segments
from ldp_kafka.records import Event, Events, Ids, Report, Tick
from ldp_kafka.runtime import local, roles
from ldp_kafka.runtime.device.async_client import AsyncClient
from ldp_kafka.runtime.keys import edge_randomness
from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.replay.files import read_file, read_slices
from ldp_kafka.runtime.replay.source import from_arrays, from_table
from ldp_kafka.runtime.stages.gates import gate_of
from ldp_kafka.runtime.wire.events import event_reader
from ldp_kafka.topology import loader
from tests.cases import cases
from tests.poison import ARRAYS, LOUD, POISONS, TEXT, column, leak_of, said_by, shown, silent, walk
from tests.runtime.device import lives
from tests.test_key_uses import MECHANISMS, SPECIMENS

loads = cache(loader.loads)
NOW = 987_654_321_000  # as loud as the values
KEY = TEXT.encode() * 4 + b"!"
TOPOLOGY = """
topology: meters
input: {slot: 1h, lateness: 1, partitions: 1%s}
privacy: {method: %s, epsilon: 2.0}
output: {statistics: [%s]}
"""
NUMBERS = "domain: [0, 1.0e+9]"  # the loud number is one of them
WINDOWS = f"naive, level: event, delay: 4, {NUMBERS}"
VECTORS = f"budget_split, dimension: 2, window: 4, {NUMBERS}"
STAGES = {
    "numbers": TOPOLOGY % ("", f"sw_direct, window: 4, {NUMBERS}", "mean"),
    "vectors": TOPOLOGY % ("", VECTORS, "mean"),
    "categories": TOPOLOGY % ("", "lpu, window: 4, categories: 5", "frequencies"),
    "named": TOPOLOGY % ("", "lpu, window: 4, categories: [a, b, c]", "frequencies"),
    "settle": TOPOLOGY % (", per_slot: sum", f"sw_direct, window: 4, {NUMBERS}", "mean"),
    "cover": TOPOLOGY % ("", f"sw_direct, cover: true, window: 4, {NUMBERS}", "mean"),
    "delay": TOPOLOGY % ("", WINDOWS, "per_user"),
    "curate": TOPOLOGY % ("", f"{WINDOWS}, trust: curator", "per_stream"),
    "answer": TOPOLOGY % ("", f"lba, window: 4, {NUMBERS}", "mean"),
    "answer_at_close": TOPOLOGY % (", per_slot: sum", f"lba, window: 4, {NUMBERS}", "mean"),
}
"""Topologies by what is special about them: between them every stage that folds raw messages."""

# the parameters by which users' values come in; all others are public
DATA = {"streams", "users", "value", "values"}
# what was made of reports, and public numbers
MADE = "answers points released report reports scores step support"
NUMBER = "bins cost count frequencies frequency iterations levels n phase population slots turn"
PUBLIC = dict.fromkeys([*MADE.split(), *NUMBER.split(), "smooth", "start", "tolerance"])


HOOKS = {"answer", "draw", "end", "keep", "kept", "perturb_part", "prepare", "report", "take"}
"""What `step` and `perturb` call with values that they have looked at: a subclass gives it."""


def leaks_of(made, good):
    """Of all that an object can be asked to do with a value."""
    kind = type(made)
    for name in dir(kind):
        what = getattr(kind, name)
        if (
            name not in HOOKS
            and not name.startswith("_")
            and callable(what)
            and not isinstance(what, type)
        ):
            call = getattr(made, name)
            step = "batch" in signature(call).parameters
            yield from walk(of_a_batch(call) if step else call, good, DATA)


def of_a_batch(step):
    """A step whose batch is made of values of every type."""

    def stepped(state, rows, slot, values, randomness, present):
        return step(state, Batch(rows, slot, values, randomness, present))

    return stepped


def good_for(made):
    """What the parameters of a mechanism's and of a method's calls can be."""
    dimension = getattr(made, "dimension", 0)
    kind = np.int64 if hasattr(made, "categories") else np.float64
    values = np.zeros((2, dimension) if dimension else 2, kind)
    return PUBLIC | {"values": values, "randomness": lk.randomness.seeded(1)}


def mechanisms(_):
    for name, given in MECHANISMS.items():
        made = lk.mechanism(name, epsilon=1.0, **given)
        yield from leaks_of(made, good_for(made))


def methods(_):
    """All of them, and the one that reads values in another way where it is told to."""
    changes = {"delta": 1e-5, "horizon": 9, "domain": (1.0, 9.0), "change": "multiplicative"}
    for name, given in [*SPECIMENS.items(), ("cgm", changes)]:
        method = lk.method(name, epsilon=1.0, **given)
        good = good_for(method)
        digests = good["randomness"].digests(["a", "b"])
        bound = method.bound(good["values"])
        if isinstance(method, StreamMethod):  # a window of two streams
            bound = np.tile(bound, (method.windows.hop, 1))
        rows = {"streams": good["values"][None], "values": bound, "rows": np.arange(2)}
        place = {"slot": 3, "users": ["a"], "first_slot": 0, "present": None}
        state = {"state": lambda method=method, digests=digests: method.state(digests)}
        yield from leaks_of(method, good | rows | place | state)


def randomness(_):
    """User ids, keys, seeds, and the values that noise is bound to; and a public stream."""
    for made in (lk.randomness.system(), lk.randomness.seeded(1), lk.randomness.keyed(KEY)):

        def draw(users, slot, phase, bound, made=made):
            return made.at(users, slot, phase, bound).words(2, 1)

        place = {"users": made.digests(["a", "b"]), "slot": 1, "phase": 0}
        yield from walk(made.digests, {}, {"users"})
        yield from walk(draw, place, {"bound"})
    yield from walk(lk.randomness.keyed, {}, {"key"})
    yield from walk(lk.randomness.seeded, {}, {"seed"})
    yield from walk(Ids.of, {}, {"users"})
    yield from walk(choose_segments, {"epsilon": 1.0}, {"values"})


def devices(folder):
    """A device's values, times and users; the last time behind ``await``."""
    vectors = lives.TOPOLOGIES["sw_direct"].replace("sw_direct", "budget_split, dimension: 2")
    good = {"value": 1, "time": (lives.FIRST + 99) * lives.SLOT, "user": None}
    for at, text in enumerate([*lives.TOPOLOGIES.values(), vectors]):
        (own := folder / str(at)).mkdir()
        with lives.opened(own, text) as client:
            for name in good:
                yield from walk(client.report, good, {name})
            yield from [repr(client)] if shown(f"{client!r} {client.problem}") else []
    with asyncio.Runner() as loop:
        client = asynchronous(folder, clock=lambda: good["time"])
        loop.run(client.__aenter__())
        yield from walk(lambda value: loop.run(client.report(value)), {}, {"value"})
        loop.run(client.__aexit__(None, None, None))


def asynchronous(folder, **more):
    """A device that is awaited."""
    topology = loads(lives.TOPOLOGIES["sw_direct"])
    lives.provisioned(topology, folder)
    files = {"database": folder / "m.db", "key_file": folder / "m.key"}
    return AsyncClient(topology, user=TEXT, producer=lives.Broker(), **files, **more)


def as_json(value):
    """A poison as a producer could write it: as far as JSON can say it, else its text."""
    try:
        return json.dumps(value)
    except (TypeError, ValueError):
        return json.dumps(repr(value))


def batch(place, value):
    """A batch of two rows of which one place holds a poison, or its text."""
    columns = {"user": ["a", "b"], "time": [NOW, NOW], "value": [1.0, 2.0], place: column(value)}
    rows = pa.RecordBatch.from_pydict({name: pa.array(each) for name, each in columns.items()})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_batch(rows)
    return sink.getvalue().to_pybytes()


@cache
def messages():
    """With each poison in each place, whole and cut; and batches of columns of each type."""
    good, found = {"user": "a", "time": NOW, "value": 1.0}, {}
    for place in good:
        for kind, value in POISONS.items():
            body = {name: json.dumps(one) for name, one in good.items()} | {place: as_json(value)}
            text = "{" + ",".join(f'"{name}":{one}' for name, one in body.items()) + "}"
            ours = '{"ldp_kafka":1,"type":"event",' + text[1:]
            found |= {
                f"{place} {kind}": text.encode(),
                f"{place} {kind}, of ours": ours.encode(),
                f"{place} {kind}, cut": text[:-1].encode(),
                f"{place} {kind}, as Arrow": batch(place, value),
            }
    return found | {
        "text": TEXT.encode(),
        "no text": TEXT.encode() + b"\xff",
        "number": str(LOUD).encode(),
        "damaged Arrow": b"\xff\xff\xff\xff" + TEXT.encode(),
        "the end": lk.encode(Tick(NOW + 5 * 3_600_000)),
    }


def edge_of(kind):
    """The topology, its key's noise, and the stage that folds its raw messages."""
    topology = loads(STAGES[kind])
    noise = edge_randomness(topology, KEY, "here")
    return topology, noise, roles.make(topology, topology.reader(topology.raw_topic)[1], 0, noise)


def said_of(output, letters):
    """All that a fold gives beside what its messages are answered with; how far it is in time is of
    one user, and stays at the edge.
    """
    gauges = {name: value for name, value in output.gauges.items() if name != "watermark"}
    yield f"{output} {output.counts} {gauges} {output.records}"
    yield from (str(tuple(record)) for record in output.records if record.topic == letters)


def folded(kind, _):
    """All texts about each message on its way through all stages."""
    topology, noise, stage = edge_of(kind)
    reader, letters = event_reader(topology), topology.dead_letters_topic
    state, made = stage.fresh(), []
    if topology.method.kind == "numeric":  # what is made of the value before it is perturbed
        made = [str(each) for each in topology.method.bound(np.full((1, 2), LOUD)).flat]
    for at, (name, message) in enumerate(messages().items()):
        texts: list[str] = []

        def fold(texts=texts, at=at, message=message):
            texts.append(f"{reader.read(message)}")
            texts.extend(said_of(stage.fold(state, [Message(at, NOW, message)]), letters))
            texts.append(said_by(state))

        leak = leak_of(fold)
        yield from [f"{name}: {leak}"] if leak else []
        yield from (f"{name}: {text}" for text in texts if shown(text, *made))
    log = [Message(at, NOW, message) for at, message in enumerate(messages().values())]
    run = local.run(topology, noise, [log], together=50)
    assert len(run.dead_letters) > 100
    texts = [str(tuple(record)) for record in (*run.dead_letters, *run.requests)]
    # whose stream a release is of is public
    texts += [f"{json.loads(record.value) | {'user': None}}" for record in run.releases]
    yield from filter(shown, texts)


def fields_of_events(_):
    """Of an object that was parsed by somebody else."""
    good = {"user": "a", "value": 1, "time": NOW}
    for kind in ("numbers", "vectors", "categories", "named"):
        reader = event_reader(loads(STAGES[kind]))

        def fields(user, value, time, reader=reader):
            return reader.fields({"user": user, "value": value, "time": time})

        yield from walk(fields, good, good)
        yield from walk(reader.fields, {}, {"record"})
        yield from walk(reader.read, {}, {"message"}, [("bytes", TEXT.encode())])


def report(value):
    return Report("0" * 32, 3, 0, value, "f" * 32)


RECORDS = {
    "event": Event(TEXT, NOW, LOUD),
    "events": Events(Ids.of([TEXT, TEXT]), np.array([NOW, NOW]), np.array([LOUD, LOUD])),
    "category": Event(TEXT, NOW, TEXT),
    "vector": Event(TEXT, NOW, (LOUD, LOUD)),
    "report": report(987654321),
    "reports": [Report(f"{i}" * 32, 3, 0, 987654321, "f" * 32) for i in range(3)],
}


def decoded(_):
    """Messages that were damaged on their way: every fifth byte changed in two ways, and every
    thirteenth cut.
    """
    for record in RECORDS.values():
        whole, refused = lk.encode(record), 0
        damaged = [whole[:at] for at in range(0, len(whole), 13)]
        for at in range(0, len(whole), 5):
            damaged += [
                whole[:at] + bytes([whole[at] ^ mask]) + whole[at + 1 :] for mask in (0x01, 0xFF)
            ]
        for message in damaged:
            leak = leak_of(lambda message=message: lk.decode(message))
            yield from [leak] if leak else []
            try:
                found = said_by(lk.decode(message))
            except BadRecord:
                refused += 1
            else:
                yield from [found] if shown(found) else []
        assert refused > 10


def encoded(_):
    """Records that cannot be written."""

    def columns(users, times, values):
        return lk.encode(Events(Ids.of(users), times, values))

    good = {"user": "a", "time": 1, "value": 1.0}
    batch = {"users": ["a", "b"], "times": np.array([1, 2]), "values": np.array([1.0, 2.0])}
    first = Event("b", 1, 1.0)
    for write in (
        lambda user, time, value: lk.encode(Event(user, time, value)),
        lambda user, time, value: lk.encode([first, Event(user, time, value)]),
    ):
        yield from walk(write, good, good)
    yield from walk(columns, batch, batch)
    yield from walk(lambda value: lk.encode(report(value)), {}, {"value"})
    yield from walk(lambda value: lk.encode([report(1), report(value)]), {}, {"value"})
    yield from walk(lk.encode, {}, {"records"})


def replayed(kind, folder):
    """Tables and files that are sent to the raw topic: they are the users' own values."""
    topology = loads(STAGES[kind])
    some = np.zeros((2, 2, 2) if kind == "vectors" else (2, 2))
    listed = [(name, [[one]]) for name, one in ARRAYS]

    def arrays_of(values):
        return list(from_arrays(topology, values, NOW).slots)

    def table(user, value, time):
        rows = pa.table({"user": user, "value": value, "time": time})
        return from_table(topology, rows, "user", "value", "time")

    good = {"user": ["a", "b"], "value": [1.0, 2.0], "time": [NOW, NOW]}
    yield from walk(arrays_of, {}, {"values"}, [*ARRAYS, *listed])
    yield from walk(lambda users: from_arrays(topology, some, NOW, users), {}, {"users"})
    yield from walk(table, good, good, [(name, column(value)) for name, value in POISONS.items()])
    (file := folder / "meters.yaml").write_text(STAGES[kind])
    path = folder / "readings.csv"
    for line in (TEXT, f"{TEXT},{LOUD},{POISONS['datetime']}", f'"{TEXT}', f"{LOUD},,\n{TEXT}"):
        for head in ("user,value,time", TEXT):
            path.write_text(f"{head}\n{line}\n", encoding="utf-8")
            for read in (lambda: read_file(topology, path), lambda: read_slices(topology, path, 1)):
                leak = leak_of(read)
                yield from [f"{line!r}: {leak}"] if leak else []
            yield from printed("replay", path, "--topology", file)


def printed(*words):
    """What a command shows."""
    out = StringIO()
    with redirect_stdout(out), redirect_stderr(out):
        main([str(word) for word in words])
    assert out.getvalue()
    yield from [f"{words}: {out.getvalue()}"] if shown(out.getvalue()) else []


def sampled(kind, folder):
    """What `validate` says of messages that somebody sends."""
    (file := folder / "meters.yaml").write_text(STAGES[kind])
    for place in ("user", "value", "text"):
        lines = [one for name, one in messages().items() if name.startswith(place)]
        (path := folder / f"{place}.jsonl").write_bytes(b"\n".join(lines))
        for more in ((), ("--json",)):
            yield from printed("validate", file, "--sample", path, *more)


ENTRIES = {
    each.__name__: each
    for each in (mechanisms, methods, randomness, devices, fields_of_events, decoded, encoded)
} | {
    f"{how.__name__} {kind}": lambda folder, how=how, kind=kind: how(kind, folder)
    for how, kinds in (
        (folded, STAGES),
        (replayed, ("numbers", "vectors", "categories", "named")),
        (sampled, ("numbers", "named")),
    )
    for kind in kinds
}


@pytest.mark.parametrize("name", ENTRIES)
def test_no_value_is_shown(name, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))  # no broker of the user's is touched
    with silent() as leaks:
        leaks.extend(ENTRIES[name](tmp_path))


def test_every_way_to_fold_raw_messages_is_poisoned():
    found = {
        "curate" if made.curated else (type(gate_of(made, None)).__name__, made.method.phases > 1)
        for made in map(loads, STAGES.values())
    }
    alone = {(name, False) for name in ("AtOnce", "AtClose", "Covered", "WindowCloses")}
    assert found == {"curate", *alone, ("AtOnce", True), ("AtClose", True)}


class Naive:
    """A mechanism as somebody writes it at first."""

    def perturb(self, values, randomness):
        return np.asarray(values, np.float64)

    def law(self, value):
        if not 0 <= value <= 1:
            raise ValueError(f"{value} lies outside the domain")


class Wrapped(Naive):
    """One that says the same in other words, and what happened behind them."""

    def perturb(self, values, randomness):
        try:
            return np.asarray(values, np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError("values must be numbers") from error


class Noted(Naive):
    """One whose note says it."""

    def perturb(self, values, randomness):
        try:
            return np.asarray(values, np.float64)
        except (TypeError, ValueError):
            error = ValueError("values must be numbers")
            error.add_note(f"among {values}")
            raise error from None


@cases("kind", [Naive, Wrapped, Noted])
def test_a_leak_is_found(kind):
    """The walk has teeth: in the error, behind it, and in its notes."""
    found = [*leaks_of(kind(), {"values": np.zeros(2), "value": 0.5, "randomness": None})]
    assert any("perturb" in leak and "s3cret" in leak for leak in found)
    assert any("law" in leak and "98765432" in leak for leak in found)


def test_a_warning_and_a_log_are_heard():
    """Neither is an error."""
    both = r"(?s)log .* shows s3cret.*warning shows 98765432"
    with pytest.raises(AssertionError, match=both), silent():
        warnings.warn(f"clamped {LOUD}", stacklevel=1)
        logging.getLogger("ldp_kafka.some").debug("value %s", TEXT)


def test_what_is_shown_is_told():
    """Each poison that says something is found in its repr; and an unknown parameter is not left
    out in silence.
    """
    for name, value in POISONS.items():
        silent = name in ("nan", "inf", "none", "bool", "longdouble", "uint64")
        assert silent or shown(repr(value)), name
    with pytest.raises(LookupError, match="new"):
        walk(lambda values, new: None, {"values": 1}, DATA)
