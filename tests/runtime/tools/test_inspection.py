"""A sound state breaks no rule; whatever is done to it breaks the one that is meant, and none of it
shows what is of a user.
"""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.recovery.checkpoints import META
from ldp_kafka.runtime.recovery.inspection import RULES, inspect
from ldp_kafka.runtime.recovery.packing import pack, unpack
from ldp_kafka.runtime.recovery.rules import Facts, PartitionOffsets
from ldp_kafka.runtime.stages.parts import PARTS, Part
from ldp_kafka.runtime.stages.perturb import make_perturb
from ldp_kafka.runtime.tools import state
from tests.fold import cases
from tests.runtime.device.lives import SLOT
from tests.runtime.stages.devices import MEAN, Fed
from tests.runtime.tools.changelogs import (
    EPOCH,
    collector_tables,
    edge_table,
    in_meta,
    overspent,
    rewritten,
    ring,
    table,
)
from tests.sealed import all_plain, all_sealed

TOPOLOGY = cases.topology()
LOGS = cases.wild(3)
SEAL = cases.randomness(TOPOLOGY).seal
HELD = all_plain(edge_table(TOPOLOGY, LOGS), SEAL)
CHECK = SEAL.check
(PERTURB,) = TOPOLOGY.role("perturb").agents
COLLECT, MERGE = TOPOLOGY.role("collect").agents
END = len(LOGS[0]) + 1
SOUND = PartitionOffsets(END, 0, END, begun=False)
BEFORE = PartitionOffsets(1, 0, 10**6, begun=False)


def at_end(count):
    """A group that has acknowledged so many messages, and a log that has no more."""
    return PartitionOffsets(count + 1, 0, count + 1, begun=False)


def look(
    held=HELD,
    position=SOUND,
    *,
    spec=PERTURB,
    number=0,
    key=CHECK,
    topology=TOPOLOGY,
    folded_before=False,
):
    """What an inspection says of a state that is given as `tests.sealed.plain` shows it."""
    seal = cases.randomness(topology).seal if spec.raw else None
    bindings = {"fingerprint": topology.fingerprint, "layout": topology.layout}
    bindings["deployment"] = cases.HERE if spec.raw else ""
    if key is not None:
        bindings["key"] = key if spec.raw else ""
    facts = Facts(
        spec.topic,
        number,
        position,
        spec.header,
        folded_before=folded_before,
        bindings=bindings,
        seal=None if key is None else seal,
    )
    return inspect(topology, spec, held if seal is None else all_sealed(held, seal), facts)


def broken(found):
    return {violation.rule for violation in found.violations}


def test_a_sound_state_breaks_no_rule():
    """And its sums are those of a worker that loads it."""
    found = look()
    assert not found.violations
    edge = make_perturb(TOPOLOGY, 0, cases.randomness(TOPOLOGY))
    state = edge.fresh()
    edge.fold(state, LOGS[0])
    ledger = TOPOLOGY.method.ledger
    assert (found.offset, found.watermark, found.closed) == (END - 1, state.watermark, state.closed)
    assert (found.users, found.spent, found.budget) == (
        state.users.state.count,
        ledger.largest(state.users.state),
        ledger.budget,
    )
    assert found.shards == len(edge.shards_of(state)) == found.chosen.shards
    assert 0 < found.spent <= found.budget
    shards = {key: value for key, value in HELD.items() if key.startswith("0/")}
    [meta] = [shards.pop(key) for key in list(shards) if f"/{META}/" in key]
    payloads = sum(len(unpack(value)[1]) for value in shards.values())
    assert payloads < found.bytes < payloads + 2 * len(meta)


def test_the_collectors_state_breaks_no_rule():
    """Slots that wait, by partition and for the merger."""
    collect, merge, run = collector_tables(TOPOLOGY, LOGS)
    for spec, held, log in ((COLLECT, collect, run.reports[1]), (MERGE, merge, run.partials)):
        number = 1 if spec is COLLECT else 0
        found = look(
            held,
            PartitionOffsets(len(log) + 1, 0, len(log) + 1, begun=False),
            spec=spec,
            number=number,
        )
        assert not found.violations
        assert found.offset == len(log)
        assert found.slots > 0 < found.shards
        assert found.closed is not None and found.users is None
        other = in_meta(
            held,
            number,
            lambda meta: meta["state"].__setitem__("slots", meta["state"]["slots"] + 1),
        )
        assert broken(look(other, spec=spec, number=number, position=BEFORE)) == {"shards"}
        key = next(key for key in held if f"/{META}/" not in key and key.startswith(f"{number}/"))
        assert "readable" in broken(
            look(
                {**held, key: held[key][:12]},
                spec=spec,
                number=number,
                position=BEFORE,
            )
        )


def devices():
    """What a collector of devices keeps of partition 1: (topology, spec, table)."""
    fed = Fed(MEAN, 1)
    log = [Message(at, 10**12, fed.report(at, 50 + at // 30)) for at in range(1, 60)]
    return fed.topology, fed.topology.role("collect").agents[0], table(fed.stage, log)


def part_of(held):
    """The key, cover and payload of one part with several reports."""
    return next(
        (key, *unpack(value))
        for key, value in held.items()
        if f"/{META}/" not in key and len(Part.read(unpack(value)[1]).ids) > 1
    )


def changed_part(change):
    """With one part changed."""

    def doctor(held):
        key, cover, payload = part_of(held)
        part = Part.read(payload)
        change(part)
        return {**held, key: pack(cover, part.written())}

    return doctor


def moved_part(held):
    """A report's part under the name of another."""
    key, cover, payload = part_of(held)
    number, shard, tenure = key.split("/")
    slot, phase, part = shard.split(".")
    other = f"{slot}.{phase}.{(int(part) + 1) % PARTS}"
    moved = {name: value for name, value in held.items() if name != key}
    moved[f"{number}/{other}/{tenure}"] = pack(cover, payload)

    def change(meta):
        meta["manifest"][other] = meta["manifest"].pop(shard)

    return in_meta(moved, 1, change)


def a_stranger(part):
    name = next(iter(part.ids))
    part.ids[name[:7] + bytes([name[7] ^ 1]) + name[8:]] = part.ids.pop(name)


def cut_part(held):
    key, cover, payload = part_of(held)
    return {**held, key: pack(cover, payload[:-3])}


PARTS_DOCTORED = {
    "as it was written": (lambda held: held, set()),
    "a part is cut off": (cut_part, {"readable"}),
    "a part has another's name": (moved_part, {"shards"}),
    "a report of another partition": (changed_part(a_stranger), {"shards"}),
    "a report that is not summed": (
        changed_part(lambda part: part.sums.__setitem__(0, part.sums[0] - 1)),
        {"shards"},
    ),
    "a report that was forgotten": (changed_part(lambda part: part.ids.popitem()), {"shards"}),
    "a part of a closed slot": (
        lambda held: in_meta(held, 1, lambda meta: meta["state"].__setitem__("closed", 51)),
        {"shards"},
    ),
    "a state of another version": (
        lambda held: in_meta(held, 1, lambda meta: meta["state"].__setitem__("form", 1) and None),
        {"shards"},
    ),
}


@pytest.mark.parametrize("what", PARTS_DOCTORED)
def test_the_state_of_devices_is_looked_at(what):
    """Slots, watermark and what is closed; every report in its part and in its partition, and
    summed.
    """
    topology, spec, held = devices()
    doctor, rules = PARTS_DOCTORED[what]
    found = look(
        doctor(held),
        BEFORE,
        spec=spec,
        number=1,
        key=None,
        topology=topology,
    )
    assert broken(found) == rules
    if not rules:
        assert (found.offset, found.slots, found.closed, found.watermark) == (59, 2, 49, 51 * SLOT)
        assert found.users is None
        assert 16 < found.shards <= 32


def torn(name, column):
    """One micro-epsilon of the largest entry is forgotten: within the budget, and not what the sum
    says.
    """
    return (
        ring(
            column,
            lambda cells: cells.__setitem__(
                np.unravel_index(cells.argmax(), cells.shape), cells.max() - 1
            ),
        )
        if name == "ring"
        else column
    )


def hidden(name, column):
    """What was spent is taken out of the sum, and a negative entry makes up for it."""

    def change(cells):
        cells[0, 0] -= 10**9
        cells[0, 1] += 10**9

    return ring(column, change) if name == "ring" else column


def forgotten(name, column):
    return pa.array(np.zeros_like(np.array(column))) if name == "spent" else column


def elsewhere(name, column):
    if name != "user":
        return column
    digests = np.frombuffer(b"".join(column.to_pylist()), np.uint64).reshape(-1, 2).copy()
    digests[0, 1] += 1
    return pa.array([row.tobytes() for row in digests], pa.binary(16))


def twice(_, column):
    return pa.concat_arrays([column, column[:1]])


def without_a_shard(held):
    key = next(key for key in held if key.startswith("0/") and f"/{META}/" not in key)
    return {name: value for name, value in held.items() if name != key}


def with_an_old_shard(held):
    key = next(key for key in held if key.startswith("0/") and f"/{META}/" not in key)
    cover, payload = unpack(held[key])
    return {**held, key: pack(cover - 1, payload)}


def cut(held):
    key = next(key for key in held if key.startswith("0/") and f"/{META}/" not in key)
    return {**held, key: held[key][:-9]}


def renamed(held):
    """A shard that the topology does not have."""

    def change(meta):
        meta["manifest"]["7"] = meta["manifest"].pop("0")

    moved = {
        key.replace("0/0/", "0/7/") if key.startswith("0/0/") else key: value
        for key, value in held.items()
    }
    return in_meta(moved, 0, change)


def another(name):
    return lambda held: in_meta(held, 0, lambda meta: meta.__setitem__(name, "00" * 16))


BUDGET = TOPOLOGY.method.ledger.budget
DOCTORED = {
    "a shard is gone": (without_a_shard, {"complete"}),
    "a shard is older than its manifest says": (with_an_old_shard, {"complete"}),
    "a shard is cut off": (cut, {"readable"}),
    "a shard of another number of shards": (renamed, {"shards"}),
    "a key that is not ours": (lambda held: {**held, "0/1/2/3": b"x"}, {"readable"}),
    "a meta that is no JSON": (
        lambda held: {**held, f"0/{META}/{EPOCH}": pack(END - 1, b"{")},
        {"readable", "complete"},
    ),
    "another fingerprint": (another("fingerprint"), {"fingerprint"}),
    "another layout": (another("layout"), {"layout"}),
    "another deployment": (another("deployment"), {"deployment"}),
    "another key": (another("key"), {"key"}),
    "a ledger beyond its budget": (lambda held: overspent(held, BUDGET), {"budget"}),
    "a ledger that does not add up": (lambda held: rewritten(held, torn), {"ledger"}),
    "a ledger with a negative entry": (lambda held: rewritten(held, hidden), {"ledger"}),
    "a ledger that forgot its sum": (lambda held: rewritten(held, forgotten), {"ledger"}),
    "a user in another's shard": (lambda held: rewritten(held, elsewhere), {"shards"}),
    "a user who is there twice": (lambda held: rewritten(held, twice), {"shards"}),
}


@pytest.mark.parametrize("what", DOCTORED)
def test_each_doctored_state_is_found(what):
    """By its own rule."""
    doctor, rules = DOCTORED[what]
    found = look(doctor(HELD))
    extra = {"complete"} if rules == {"complete"} else set()
    assert broken(found) == rules | extra
    assert all(violation.rule in RULES for violation in found.violations)


@pytest.mark.parametrize(
    ("looks", "rules"),
    [([without_a_shard, dict], set()), ([without_a_shard] * 2, {"complete"}), ([dict], set())],
)
def test_what_is_wrong_at_first_is_looked_at_twice(monkeypatch, looks, rules):
    """Compaction moves on while a changelog is read, and what is gone then never was."""
    shown = iter(looks)

    def read(_, role, spec, *, key):
        assert (role.name, spec, key) == ("perturb", PERTURB, None)
        bindings = {"fingerprint": TOPOLOGY.fingerprint, "layout": TOPOLOGY.layout}
        facts = Facts(spec.topic, 0, SOUND, spec.header, bindings=bindings, seal=SEAL)
        yield facts, all_sealed(next(shown)(HELD), SEAL)

    monkeypatch.setattr(state, "read_partitions", read)
    (held,) = state.read_state(TOPOLOGY, ["perturb"])
    assert broken(held) == rules and list(shown) == []


STANDING = [
    (PartitionOffsets(END + 1, 0, END + 1, begun=False), {"current"}),
    (PartitionOffsets(END, END, END, begun=False), set()),
    (PartitionOffsets(END, END + 1, END + 4, begun=False), {"unread", "log_start"}),
    (PartitionOffsets(END - 3, END + 1, END + 4, begun=False), {"unread", "log_start"}),
    (PartitionOffsets(END - 3, 0, END - 2, begun=False), {"log_end"}),
    (PartitionOffsets(END - 3, 0, END, begun=False), set()),
    (PartitionOffsets(None, 0, END, begun=False), set()),
    (PartitionOffsets(END - 3, END - 2, END, begun=False), {"unread"}),
]


@pytest.mark.parametrize(("position", "rules"), STANDING)
def test_where_the_group_and_the_log_stand(position, rules):
    """As a worker would see it."""
    assert broken(look(position=position)) == rules


NOTHING = [
    (PartitionOffsets(None, 0, 9, begun=False), False, set()),
    (PartitionOffsets(1, 0, 9, begun=False), True, set()),
    (PartitionOffsets(5, 5, 9, begun=True), True, set()),
    (PartitionOffsets(5, 7, 9, begun=True), True, {"log_start"}),
    (PartitionOffsets(5, 0, 9, begun=False), True, {"complete"}),
    (PartitionOffsets(5, 5, 9, begun=False), True, {"complete"}),
    (PartitionOffsets(None, 5, 9, begun=False), True, {"log_start"}),
    (PartitionOffsets(None, 5, 9, begun=False), False, set()),
    (PartitionOffsets(7, 0, 5, begun=False), True, {"complete", "log_end"}),
]


@pytest.mark.parametrize(("position", "folded_before", "rules"), NOTHING)
def test_without_any_state(position, folded_before, rules):
    """Nothing is wrong before anything was acknowledged."""
    assert broken(look({}, position, folded_before=folded_before)) == rules


def test_the_chosen_epoch_is_the_one_that_a_worker_would_load():
    """An older one, and one whose snapshot broke off before its meta, are shown and do
    not count.
    """
    edge = make_perturb(TOPOLOGY, 0, cases.randomness(TOPOLOGY))
    older = all_plain(table(edge, LOGS[0][:5], token="b" * 16), SEAL)
    halfway = {
        key.replace(EPOCH, "c" * 16): value
        for key, value in HELD.items()
        if key.startswith("0/") and f"/{META}/" not in key
    }
    found = look({**older, **HELD, **halfway})
    assert not found.violations
    assert [(each.name, each.chosen, each.complete, each.offset) for each in found.epochs] == [
        ("a" * 8, True, True, END - 1),
        ("b" * 8, False, True, 5),
        ("c" * 8, False, False, None),
    ]
    lost = {
        key: value
        for key, value in {**older, **HELD}.items()
        if not (key.startswith("0/") and f"/{META}/" not in key and key.endswith(EPOCH))
    }
    found = look(lost)
    assert broken(found) == {"complete", "current"}
    assert found.chosen.name == "b" * 8


def test_a_key_that_is_not_known_is_not_compared():
    """Without it the state stays sealed: what can be said are offsets and sizes."""
    whole, found = look(), look(key=None)
    assert not found.violations
    assert (found.offset, found.shards) == (whole.offset, whole.shards)
    assert whole.bytes < found.bytes < whole.bytes + 32 * (whole.shards + 4), "and what seals it"
    assert (found.watermark, found.users, found.spent, found.closed) == (None, None, None, None)
    assert broken(look(key="ff" * 8)) == {"key"}


def test_a_lifetime_ledger_is_audited_too():
    """Where a user has so many reports in its life."""
    topology = cases.topology(
        1,
        "{level: user, method: gaussian_direct, epsilon: 2.0, delta: 1.0e-6, horizon: 4, domain:"
        " [0, 10]}",
        "[per_user]",
    )
    seal = cases.randomness(topology).seal
    held, position, check = (
        all_plain(edge_table(topology, cases.orderly()), seal),
        BEFORE,
        seal.check,
    )
    found = look(held, position, topology=topology, key=check)
    assert not found.violations
    assert found.spent == topology.method.ledger.lost(4) <= found.budget
    for value, rule in ((5, "budget"), (-1, "ledger")):

        def change(name, column, value=value):
            return pa.array(np.full(len(column), value, np.int32)) if name == "spent" else column

        assert broken(look(rewritten(held, change), position, topology=topology, key=check)) == {
            rule
        }


def test_nothing_of_a_user_is_shown():
    """Neither digests nor ids nor the keys of shards; only sums."""
    found = look(overspent(HELD, BUDGET))
    text = json.dumps(found.as_json())
    assert json.loads(text)["violations"]
    for key, value in HELD.items():
        if f"/{META}/" not in key:
            assert unpack(value)[1].hex() not in text
    digests = cases.randomness(TOPOLOGY).digests([f"u0.{user}" for user in range(cases.USERS)])
    assert not any(row.tobytes().hex() in text or str(int(row[0])) in text for row in digests)
    assert EPOCH not in text


@pytest.mark.parametrize(
    ("spec", "position", "last"),
    [
        (PERTURB, SOUND, END - 1),
        (PERTURB, PartitionOffsets(1, 0, 9, begun=False), None),
        (PERTURB, PartitionOffsets(5, 0, 9, begun=True), None),
    ],
)
def test_what_counts_as_acknowledged(spec, position, last):
    """Not where the group was told to begin."""
    assert Facts(spec.topic, 0, position, spec.header).acknowledged == last
    nothing = PartitionOffsets(None, 0, 9, begun=False)
    assert Facts(spec.topic, 0, nothing, spec.header).acknowledged is None
