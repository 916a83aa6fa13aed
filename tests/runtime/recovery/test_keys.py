"""The keys of panes are those of a tumbling table of Faust, and read as nothing else."""

from __future__ import annotations

import json

import pytest
from faust import App, TumblingWindow
from faust.types.windows import WindowRange_from_start

from ldp_kafka.runtime.kafka.changelog import key_bytes, read_key
from ldp_kafka.runtime.recovery.keys import is_meta, key_of, pane_range, place_of

LAST = 140_679_158_400_000  # a millisecond of the year 6428, the last that an event may have


def table_of():
    """A table of one-slot panes, and the registry that writes its keys."""
    app = App("keys", store="memory://", env={}, web_enabled=False)
    table = app.Table("panes", key_type=str, value_type=bytes, partitions=1)
    table.tumbling(1)
    return table, app.serializers


@pytest.mark.parametrize("slot", [0, 1, 12, 29_333_340, 1_700_000_000, 2**31 - 1])
def test_the_range_of_a_pane_is_that_of_the_table(slot):
    """Up to the last slot for which Faust counts windows."""
    assert [pane_range(slot)] == table_of()[0].window.ranges(slot) == TumblingWindow(1).ranges(slot)


@pytest.mark.parametrize("slot", [0, 2**31 - 1, 2**31, 1_700_000_000_123, LAST])
def test_a_key_is_what_faust_reads_and_writes(slot):
    """Also of slots of a millisecond, which differ in their keys."""
    table, registry = table_of()
    key = key_of(3, f"{slot}.7", "e" * 16, windowed=True)
    assert key == (f"3/7/{'e' * 16}", WindowRange_from_start(float(slot), 1.0))
    read = registry.loads_key(table.key_type, key_bytes(key), serializer=table.key_serializer)
    assert table._to_key(read) == key == read_key(key_bytes(key))
    written = registry.dumps_key(table.key_type, key, serializer=table.key_serializer)
    assert json.loads(written) == json.loads(key_bytes(key))
    assert place_of(key) == f"3/{slot}.7/{'e' * 16}" and not is_meta(key)
    assert key != key_of(3, f"{slot + 1}.7", "e" * 16, windowed=True)


@pytest.mark.parametrize("shard", ["7", "names-7", "meta"])
def test_what_is_no_pane_has_no_window(shard):
    """Nor has a shard of a stage without panes that has a dot in its name."""
    assert key_of(3, shard, "e", windowed=True) == f"3/{shard}/e"
    assert key_of(3, "1.7", "e") == "3/1.7/e"
    assert is_meta(f"3/{shard}/e") == (shard == "meta")


@pytest.mark.parametrize(
    "written",
    [
        "[1, 2]",
        '["0/3/e"]',
        '["0/3/e", [12, 12.9]]',
        '["0/3/e", [12.0, 13.9]]',
        '["0/3/e", [12.5, 13.4]]',
        '["0/3/e", [NaN, NaN]]',
        '["0/3/e", [Infinity, Infinity]]',
        "{}",
        "junk",
    ],
)
def test_what_is_no_window_of_ours_is_left_as_text(written):
    assert read_key(written.encode()) == written
