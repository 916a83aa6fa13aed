"""What a curator keeps: its size grows as its streams do, and what has closed is deleted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.recovery import epoch
from ldp_kafka.runtime.recovery.keys import place_of
from ldp_kafka.runtime.stages.curate import Curate
from ldp_kafka.runtime.stages.panes import PaneOf
from tests.fold.cases import SLOT, batch
from tests.fold.epochs import folded, opened, saved
from tests.runtime.stages.crashes import of_kind
from tests.runtime.stages.test_curate import FIRST, SETTINGS, stage_of

DELAY = 20
EARLY = -(-FIRST // DELAY) * DELAY  # the first slot of a batch


def slot_of(streams, slot):
    """A value of each stream."""
    return batch([(f"stream-{at:04d}", slot * SLOT, at % 10 + 0.5) for at in range(streams)])


def kept(stage, streams, slots=DELAY, more=()):
    """What the changelog holds by name, once it is compacted, after so many slots, a snapshot, and
    more messages with one each.
    """
    owned = opened(stage, want=0, token="t")
    for value in (slot_of(streams, EARLY + at) for at in range(slots)):
        folded(owned, [Message(owned.next_offset, -1, value)])
    table = saved(owned)
    for value in more:
        folded(owned, [Message(owned.next_offset, -1, value)])
        table = saved(owned)
    return {place_of(key).split("/")[1]: value for key, value in table.items()}


def grows(stage):
    """How many bytes a hundred streams add where there are 100, and where there are 200."""
    few, some, many = (sum(map(len, kept(stage, streams).values())) for streams in (100, 200, 300))
    return some - few, many - some


class KeepsPairs(Curate):
    """Writes as many bytes more as there are pairs of streams in a shard."""

    def dump(self, state, shards):
        found = super().dump(state, shards)
        return {name: held + bytes(len(held) ** 2 // 2**15) for name, held in found.items()}


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("method", ["segment_mean", "discontin_group"])
def test_a_state_grows_as_its_streams_do(method, setting):
    """The second hundred costs what the third does, but for what columns are padded to."""
    stage = stage_of(method, setting, delay=DELAY, lateness=0)
    first, second = grows(stage)
    assert 0.99 * first < second < 1.01 * first
    # at least an id, a digest, and where values wait as values, 32 bytes of each
    least = 100 * (32 * DELAY if setting == "batch" else 8 * DELAY * (method != "segment_mean"))
    assert first > least
    first, second = grows(of_kind(KeepsPairs, stage))
    assert not second < 1.01 * first


def open_slots(table):
    """Those that panes of the changelog are of."""
    return {PaneOf.named(name).slot for name in table if "." in name}


class KeepsEnded(Curate):
    """Does not say that a pane has ended."""

    def dirty(self, state):
        slots = state.panes.slots()
        found = {name: PaneOf.named(name) for name in super().dirty(state)}
        return {name for name, at in found.items() if at is None or at.slot in slots}


@pytest.mark.parametrize("setting", SETTINGS)
def test_what_a_window_held_is_deleted_when_it_closes(setting):
    """From the changelog, with the next snapshot: what is left is the open slot."""
    stage, last = stage_of("segment_mean", setting, delay=DELAY, lateness=0), EARLY + DELAY - 1
    full = kept(stage, 50)
    waits = range(EARLY if setting == "batch" else last, last + 1)
    assert open_slots(full) == set(waits)
    closing = [slot_of(1, last + 1)]
    left = kept(stage, 50, more=closing)
    assert open_slots(left) == {last + 1}
    assert {name for name in full if "." not in name} == {name for name in left if "." not in name}
    assert last in open_slots(kept(of_kind(KeepsEnded, stage), 50, more=closing))


def test_a_record_that_is_too_large_says_what_to_change(monkeypatch):
    """Of streams there are too many in a shard; of the list there are too many shards."""
    stage = stage_of("segment_mean", "batch", delay=DELAY, lateness=0)
    monkeypatch.setattr(epoch, "MANY", 300)
    monkeypatch.setattr(epoch, "LARGEST", 12_000)
    for shards, streams, said in (
        (1, 300, "record 0 would have .*: runtime.shards is too small for so many streams"),
        (50, 50, r"record meta would have .*: it lists [1-9]\d\d records; runtime.shards is too l"),
    ):
        with pytest.raises(ConfigurationError, match=said):
            kept(replace(stage, shards=shards), streams)
