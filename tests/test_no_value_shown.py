"""No value in an error: every public entry, given values of every type, in every place where it
takes any.
"""

from __future__ import annotations

import asyncio
import json
from functools import cache

import numpy as np
import pyarrow as pa
import pytest

import ldp_kafka as lk
from ldp_kafka.errors import BadRecord
from ldp_kafka.methods.segments import choose_segments
from ldp_kafka.records import Event, Events, Ids, Report
from ldp_kafka.runtime.device.async_client import AsyncClient
from ldp_kafka.runtime.keys import edge_randomness
from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.replay.files import read_file, read_slices
from ldp_kafka.runtime.replay.source import from_arrays, from_table
from ldp_kafka.runtime.stages.perturb import make_perturb
from ldp_kafka.runtime.wire.events import EventReader
from ldp_kafka.topology import loader
from tests.cases import cases
from tests.keys import KEY
from tests.poison import ARRAYS, LOUD, POISONS, TEXT, WHEN, leak_of, shown, silent, walk, watched
from tests.runtime.device import lives
from tests.test_key_uses import MECHANISMS, SPECIMENS

loads = cache(loader.loads)
VECTORS = """
topology: d
input: {source: devices, slot: 60s, lateness: 1000, partitions: 2}
privacy: {method: budget_split, domain: [0, 100], dimension: 2, epsilon: 3.0, window: 3}
output: {statistics: [mean]}
"""
RAW = """
topology: meters
input: {slot: 1h, lateness: 1, partitions: 1}
privacy: {%s, epsilon: 2.0, window: 4}
output: {statistics: [%s]}
"""
RAWS = {
    "numbers": RAW % ("method: sw_direct, domain: [0, 100]", "mean"),
    "vectors": RAW % ("method: budget_split, dimension: 2, domain: [0, 100]", "mean"),
    "categories": RAW % ("method: lpu, categories: 5", "frequencies"),
    "named": RAW % ("method: lpu, categories: [a, b, c]", "frequencies"),
}
NOW = 987_654_321_000  # as loud as the values

# the parameters by which users' values come in; all others are public
DATA = {"streams", "users", "value", "values"}
# what was made of reports, and public numbers
MADE = ("answers", "points", "released", "report", "reports", "scores", "step", "support")
NUMBERS = (
    "bins",
    "cost",
    "frequencies",
    "frequency",
    "iterations",
    "levels",
    "n",
    "phase",
    "population",
    "slots",
    "turn",
)
PUBLIC = dict.fromkeys((*MADE, *NUMBERS, "smooth", "start", "tolerance"))


def public(made):
    """The names of what an object can be asked to do."""
    kind = type(made)
    return [
        name
        for name in dir(kind)
        if not name.startswith("_")
        and callable(getattr(kind, name))
        and not isinstance(getattr(kind, name), type)
    ]


def good_for(made):
    """What the parameters of a mechanism's and of a method's calls can be."""
    dimension = getattr(made, "dimension", 0)
    values = np.zeros(
        (2, dimension) if dimension else 2, np.int64 if hasattr(made, "categories") else np.float64
    )
    return PUBLIC | {"values": values, "randomness": lk.randomness.seeded(1)}


def good_for_method(method):
    """The same, and a state whose rows can step."""
    good = good_for(method)
    digests = good["randomness"].digests(["a", "b"])
    bound = method.bound(good["values"])
    if isinstance(method, lk.DelayMethod):  # a window of two streams
        bound = np.tile(bound, (method.windows.hop, 1))
    return good | {
        "streams": good["values"][None],
        "values": bound,
        "present": None,
        "state": lambda: method.state(digests),
        "rows": np.arange(2),
        "slot": 3,
        "users": ["a"],
        "first_slot": 0,
    }


def leaks_of(made, good):
    """Of all that an object can be asked to do with a value."""
    return [leak for name in public(made) for leak in walk(getattr(made, name), good, DATA)]


@cases("name", lk.MECHANISMS)
def test_mechanisms(name):
    with silent() as leaks:
        made = lk.mechanism(name, epsilon=1.0, **MECHANISMS[name])
        leaks.extend(leaks_of(made, good_for(made)))


@cases("name", lk.METHODS)
def test_methods(name):
    with silent() as leaks:
        made = lk.method(name, epsilon=1.0, **SPECIMENS[name])
        leaks.extend(leaks_of(made, good_for_method(made)))


def test_multiplicative_changes():
    """The one method that reads values in another way where it is told to."""
    with silent() as leaks:
        made = lk.method(
            "cgm", epsilon=1.0, delta=1e-5, horizon=9, domain=(1.0, 9.0), change="multiplicative"
        )
        leaks.extend(leaks_of(made, good_for_method(made)))


def test_public_streams():
    """What is chosen by a public stream shows none of it either."""
    with silent() as leaks:
        leaks.extend(walk(choose_segments, {"epsilon": 1.0}, {"values"}))


@cases("source", ["system", "seeded", "keyed"])
def test_randomness(source):
    """User ids, keys, seeds, and the values that noise is bound to."""
    made = {
        "system": lk.randomness.system,
        "seeded": lambda: lk.randomness.seeded(1),
        "keyed": lambda: lk.randomness.keyed(KEY),
    }[source]()
    bound = {"slot": 1, "phase": 0, "bound": np.zeros((2, 1), np.int64)}
    digests = made.digests(["a", "b"])

    def draw(users, slot, phase, bound):
        return made.at(users, slot, phase, bound).words(2, 1)

    with silent() as leaks:
        leaks.extend(walk(made.digests, {}, {"users"}))
        leaks.extend(walk(draw, bound | {"users": digests}, {"bound"}))
        leaks.extend(walk(lk.randomness.keyed, {}, {"key"}))
        leaks.extend(walk(lk.randomness.seeded, {}, {"seed"}))
        leaks.extend(walk(Ids.of, {}, {"users"}))


@pytest.mark.parametrize("text", [*lives.TOPOLOGIES.values(), VECTORS])
def test_client(text, tmp_path, monkeypatch):
    """A device's values, times and users."""
    with silent() as leaks, lives.opened(tmp_path, text) as client:
        good = {"value": 1, "time": (lives.FIRST + 99) * lives.SLOT, "user": None}
        for name in good:
            leaks.extend(walk(client.report, good, {name}))
        leaks.extend([f"{client!r}"] if shown(f"{client!r} {client.problem}") else [])


def test_client_of_an_event_loop(tmp_path):
    """The same behind ``await``."""
    lives.provisioned(loads(lives.TOPOLOGIES["sw_direct"]), tmp_path)

    async def run():
        made = AsyncClient(
            loads(lives.TOPOLOGIES["sw_direct"]),
            user="m",
            database=tmp_path / "m.db",
            key_file=tmp_path / "m.key",
            producer=lives.Broker(),
            clock=lambda: (lives.FIRST + 99) * lives.SLOT,
        )
        async with made as client:
            for kind, value in ARRAYS:
                try:
                    await client.report(value)
                except Exception as error:
                    caught = error

                    def again(caught=caught):
                        raise caught

                    if leak := leak_of(again):
                        yield f"<{kind}> {leak}"

    async def every():
        return [leak async for leak in run()]

    with silent() as leaks:
        leaks.extend(asyncio.run(every()))


def as_json(value):
    """A poison as a producer could write it: as far as JSON can say it, else its text."""
    try:
        return json.dumps(value)
    except (TypeError, ValueError):
        return json.dumps(repr(value))


@cache
def messages():
    """Messages with each poison in each place, whole and cut; and batches of columns of each
    type.
    """
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
    }


def batch(place, value):
    """A batch of two rows of which one place holds a poison, or its text."""
    columns = {"user": ["a", "b"], "time": [NOW, NOW], "value": [1.0, 2.0]}
    try:
        poisoned = pa.array([value, value])
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        poisoned = pa.array([ascii(value)] * 2)
    rows = pa.RecordBatch.from_pydict(
        {name: pa.array(each) for name, each in columns.items()} | {place: poisoned}
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_batch(rows)
    return sink.getvalue().to_pybytes()


@cases("kind", RAWS)
def test_raw_topics(kind):
    """What is read of users' messages, and the dead letters of what is none: of the reader, and of
    the edge's fold.
    """
    topology = loads(RAWS[kind])
    edge = make_perturb(topology, 0, edge_randomness(topology, bytes(range(32)), "here"))
    state = edge.fresh()

    def said(at, message):
        """All that is said of a message, by whoever sees it, but for what it is answered with."""
        output = edge.fold(state, [Message(at, NOW, message)])
        yield f"{edge.reader.read(message)} {state} {output} {output.counts}"
        for record in output.records:
            yield repr(record)
            if record.topic == edge.dead_letters_topic:
                yield f"{record.key} {record.value} {record.headers}"

    with silent() as leaks:
        for at, (name, message) in enumerate(messages().items()):
            texts: list[str] = []
            leak = leak_of(
                lambda at=at, message=message, texts=texts: texts.extend(said(at, message))
            )
            leaks.extend([f"{name}: {leak}"] if leak else [])
            leaks.extend(f"{name}: {text}" for text in texts if shown(text))


@cases("kind", RAWS)
def test_fields_of_events(kind):
    """Of an object that was parsed by somebody else."""
    topology = loads(RAWS[kind])
    reader = EventReader(
        ("user",),
        ("value",),
        ("time",),
        topology.privacy.category_names or topology.privacy.categories,
        topology.method.dimension,
    )

    def fields(user, value, time):
        return reader.fields({"user": user, "value": value, "time": time})

    good = {"user": "a", "value": 1, "time": NOW}
    with silent() as leaks:
        leaks.extend(walk(fields, good, good))
        leaks.extend(walk(reader.fields, {}, {"record"}))
        leaks.extend(walk(reader.read, {}, {"message"}, [("bytes", TEXT.encode())]))


RECORDS = {
    "event": Event("s3cret-77", NOW, LOUD),
    "events": Events(Ids.of([TEXT, TEXT]), np.array([NOW, NOW]), np.array([LOUD, LOUD])),
    "category": Event(TEXT, NOW, TEXT),
    "vector": Event(TEXT, NOW, (LOUD, LOUD)),
    "report": Report("0" * 32, 3, 0, 987654321, "f" * 32),
    "reports": [Report(f"{i}" * 32, 3, 0, 987654321, "f" * 32) for i in range(3)],
}


def mutants(message):
    """Every fifth byte changed in two ways, and every thirteenth cut."""
    for at in range(0, len(message), 5):
        for mask in (0x01, 0xFF):
            yield message[:at] + bytes([message[at] ^ mask]) + message[at + 1 :]
    yield from (message[:at] for at in range(0, len(message), 13))


@cases("name", RECORDS)
def test_decode(name):
    """Of messages that were damaged on their way."""
    whole, refused = lk.encode(RECORDS[name]), 0
    with silent() as leaks:
        for message in mutants(whole):
            leak = leak_of(lambda message=message: lk.decode(message))
            leaks.extend([leak] if leak else [])
            try:
                found = lk.decode(message)
            except BadRecord:
                refused += 1
            else:
                leaks.extend([repr(found)] if shown(repr(found)) else [])
    assert refused > 10


def test_encode():
    """Records that cannot be written."""

    def one(user, time, value):
        return lk.encode(Event(user, time, value))

    def two(user, time, value):
        return lk.encode([Event("b", 1, 1.0), Event(user, time, value)])

    def columns(users, times, values):
        return lk.encode(Events(Ids.of(users), times, values))

    def report(value):
        return lk.encode(Report("0" * 32, 3, 0, value, "f" * 32))

    def reports(value):
        return lk.encode([Report("0" * 32, 3, 0, each, "f" * 32) for each in (1, value)])

    good = {"user": "a", "time": 1, "value": 1.0}
    batch = {"users": ["a", "b"], "times": np.array([1, 2]), "values": np.array([1.0, 2.0])}
    with silent() as leaks:
        for write in (one, two):
            leaks.extend(walk(write, good, good))
        leaks.extend(walk(columns, batch, batch))
        for write in (report, reports):
            leaks.extend(walk(write, {}, {"value"}))
        leaks.extend(walk(lk.encode, {}, {"records"}))


@pytest.mark.parametrize("kind", RAWS)
def test_replay(kind, tmp_path):
    """Tables and files that are sent to the raw topic: they are the users' own values."""
    topology = loads(RAWS[kind])

    def arrays_of(values):
        return list(from_arrays(topology, values, NOW).slots)

    def named(users):
        return from_arrays(
            topology, np.zeros((2, 2, 2) if kind == "vectors" else (2, 2)), NOW, users
        )

    def table(user, value, time):
        rows = pa.table({"user": user, "value": value, "time": time})
        return from_table(topology, rows, "user", "value", "time")

    def columns():
        for name, value in POISONS.items():
            try:
                yield name, pa.array([value, value])
            except (pa.ArrowException, TypeError, ValueError, OverflowError):
                yield name, pa.array([ascii(value)] * 2)

    good = {"user": ["a", "b"], "value": [1.0, 2.0], "time": [NOW, NOW]}
    path = tmp_path / "readings.csv"
    with silent() as leaks:
        leaks.extend(walk(arrays_of, {}, {"values"}))
        leaks.extend(walk(arrays_of, {}, {"values"}, [(name, [[one]]) for name, one in ARRAYS]))
        leaks.extend(walk(named, {}, {"users"}))
        leaks.extend(walk(table, good, good, columns()))
        for line in (TEXT, f"{TEXT},{LOUD},{WHEN}", f'"{TEXT}', f"{LOUD},,\n{TEXT}"):
            for head in ("user,value,time", TEXT):
                path.write_text(f"{head}\n{line}\n", encoding="utf-8")
                for read in (
                    lambda: read_file(topology, path),
                    lambda: read_slices(topology, path, 1),
                ):
                    leak = leak_of(read)
                    leaks.extend([f"{line!r}: {leak}"] if leak else [])


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
    good = {"values": np.zeros(2), "value": 0.5, "randomness": None}
    found = leaks_of(kind(), good)
    assert any("perturb" in leak and "s3cret" in leak for leak in found)
    assert any("law" in leak and "98765432" in leak for leak in found)


def test_a_warning_and_a_log_are_heard():
    """Neither is an error."""
    import logging
    import warnings

    with watched() as leaks:
        warnings.warn(f"clamped {LOUD}", stacklevel=1)
        logging.getLogger("ldp_kafka.some").debug("value %s", TEXT)
    assert len(leaks) >= 2


def test_what_is_shown_is_told():
    """Each poison that says something is found in its repr; and an unknown parameter is not left
    out in silence.
    """
    for name, value in POISONS.items():
        silent = name in ("nan", "inf", "none", "bool", "longdouble", "uint64")
        assert silent or shown(repr(value)), name
    with pytest.raises(LookupError, match="new"):
        walk(lambda values, new: None, {"values": 1}, DATA)
