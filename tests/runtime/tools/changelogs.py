"""Changelogs as workers write them, and what others could do to them."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa

from ldp_kafka.runtime import local, roles
from ldp_kafka.runtime.keys import edge_randomness
from ldp_kafka.runtime.recovery.checkpoints import META
from ldp_kafka.runtime.recovery.packing import pack, unpack
from ldp_kafka.runtime.stages.perturb import make_perturb
from ldp_kafka.runtime.stages.shards import packed, unpacked
from ldp_kafka.runtime.wire.arrow import read_batch, write_batch
from tests.fold import cases
from tests.fold.epochs import folded, opened, saved

EPOCH = "a" * 16


def table(stage, log, *, token=EPOCH):
    """What a worker keeps that began with nothing, folded a log and took one snapshot."""
    epoch = opened(stage, stage.partition, want=log[0].offset, token=token)
    folded(epoch, log)
    return saved(epoch)


def edge_table(topology, logs, *, until=None, key=cases.KEY, token=EPOCH):
    """Of all raw partitions; ``until``: only so many messages of each."""
    randomness = edge_randomness(topology, key, cases.HERE)
    made = {}
    for number, log in enumerate(logs):
        made |= table(make_perturb(topology, number, randomness), log[:until], token=token)
    return made


def collector_tables(topology, logs):
    """Of the collect stage and of the merger: of what the edge makes of raw logs but for the
    closing ticks, so that slots wait.
    """
    run = local.run(topology, cases.randomness(topology), [log[:-1] for log in logs])
    collect = {}
    for number, reports in enumerate(run.reports):
        collect |= table(roles.make(topology, "collect", number), local.log(reports, 1))
    return collect, table(roles.make(topology, "merge", 0), local.log(run.partials, 1)), run


def rows_of(held):
    """Of the perturb stage: (key, cover, columns by name) of each shard."""
    for key, value in held.items():
        if f"/{META}/" not in key:
            cover, payload = unpack(value)
            rows = read_batch(unpacked(payload))[0]
            yield key, cover, {name: rows.column(at) for at, name in enumerate(rows.schema.names)}


def rewritten(held, change, *, least=1):
    """With one column of one shard, of at least so many users, changed by ``change(name, array) ->
    array``.
    """
    for key, cover, columns in rows_of(held):
        if len(columns["user"]) >= least:
            changed = {name: change(name, column) for name, column in columns.items()}
            return {
                **held,
                key: pack(
                    cover, packed(write_batch("state", list(changed), list(changed.values())), 0)
                ),
            }
    raise AssertionError("no shard has so many users")


def ring(column, change):
    """A ring column with its cells (users, length) changed in place."""
    cells = column.flatten().to_numpy().reshape(-1, column.type.list_size).copy()
    change(cells)
    return pa.FixedSizeListArray.from_arrays(pa.array(cells.ravel()), column.type.list_size)


def in_meta(held, number, change):
    """With the JSON of a partition's meta changed in place."""
    key = next(key for key in held if key.startswith(f"{number}/{META}/"))
    cover, payload = unpack(held[key])
    meta = json.loads(payload)
    cover = change(meta) or cover
    return {**held, key: pack(cover, json.dumps(meta).encode())}


def overspent(held, budget):
    """A ledger with more than the budget, that adds up."""

    def change(name, column):
        if name == "ring":
            return ring(
                column,
                lambda cells: cells[0].__setitem__(
                    slice(None), [budget, 1, *[0] * (len(cells[0]) - 2)]
                ),
            )
        if name == "spent":
            cells = np.array(column)
            cells[0] = budget + 1
            return pa.array(cells)
        return column

    return rewritten(held, change)
