"""Changelogs of the edge as they would be without a seal, and sealed again: what tests look into,
and what they change in it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from ldp_kafka.errors import StateError
from ldp_kafka.runtime.recovery.keys import Key, is_meta, place_of
from ldp_kafka.runtime.recovery.packing import pack, unpack
from ldp_kafka.runtime.sealing import Seal, Sealed


def plain(key: Key, value: bytes, seal: Seal) -> bytes:
    """One record as a stage without a seal would write it; one that is not sealed as it is."""
    found = Sealed.read(value)
    if found is None:
        return value
    payload = seal.open(place_of(key), value)
    if is_meta(key):
        payload = json.dumps({**json.loads(found.clear), "state": json.loads(payload)}).encode()
    return pack(found.offset, payload)


def sealed(key: Key, value: bytes, seal: Seal) -> bytes:
    """What `plain` was given; what no edge could have written stays as it is."""
    try:
        offset, payload = unpack(value)
        if not is_meta(key):
            return seal.pack(place_of(key), offset, payload)
        meta = json.loads(payload)
    except (StateError, ValueError):
        return value
    secret = json.dumps(meta.pop("state")).encode()
    return seal.pack(place_of(key), offset, secret, json.dumps(meta).encode())


def all_plain(table: Mapping[Key, bytes], seal: Seal) -> dict[Key, bytes]:
    """`plain` of every record."""
    return {key: plain(key, value, seal) for key, value in table.items()}


def all_sealed(table: Mapping[Key, bytes], seal: Seal) -> dict[Key, bytes]:
    """`sealed` of every record."""
    return {key: sealed(key, value, seal) for key, value in table.items()}
