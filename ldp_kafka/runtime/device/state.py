"""One user's state as the bytes of its row in a device's database, and what the database is bound
to.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from ldp_kafka.accounting import Field, State
from ldp_kafka.randomness import Digests
from ldp_kafka.runtime.keys import EdgeNoise
from ldp_kafka.topology import Topology

__all__ = ["bound_to", "packed", "unpacked"]


def packed(state: State) -> bytes:
    """The arrays of the one user of a state, one after the other."""
    return b"".join(
        state.columns[name][..., 0].astype(dtype).tobytes() for name, dtype, _ in _layout(state)
    )


def unpacked(fields: Mapping[str, Field], digests: Digests, held: bytes | None) -> State:
    """The state of one user whose arrays were packed, or a fresh one where there are none."""
    state = State(fields, digests)
    if held is not None:
        at = 0
        for name, dtype, length in _layout(state):
            cells = np.frombuffer(held, dtype, length or 1, at)
            state.columns[name][..., 0] = cells if length else cells[0]
            at += cells.nbytes
    return state


def bound_to(topology: Topology, noise: EdgeNoise) -> dict[str, str]:
    """The topology, deployment and key that a database belongs to."""
    fields = [
        [name, dtype.str, length] for name, dtype, length in _layout(State(topology.method.fields))
    ]
    layout = {"partitions": topology.input.partitions, "per_user": topology.per_user}
    return {
        "topology": topology.name,
        "fingerprint": topology.fingerprint,
        "deployment": noise.deployment,
        "key": noise.check,
        "layout": json.dumps(layout, sort_keys=True),
        "fields": json.dumps(fields),
    }


def _layout(state: State) -> list[tuple[str, np.dtype[Any], int]]:
    """Name, little-endian type and length of each array, in the order in which they are written."""
    return [
        (name, np.dtype(field.dtype).newbyteorder("<"), field.length)
        for name, field in sorted(state.fields.items())
    ]
