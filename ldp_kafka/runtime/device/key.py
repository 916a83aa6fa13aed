"""The key of a device, which is not made anew beside a database that has reported under another."""

from __future__ import annotations

import os
from pathlib import Path

from ldp_kafka.errors import StateError
from ldp_kafka.randomness import Keyed
from ldp_kafka.runtime.device.store import sync_folder
from ldp_kafka.runtime.keys import edge_randomness, new_key, read_key
from ldp_kafka.topology import Topology

__all__ = ["device_randomness"]


def device_randomness(
    topology: Topology, key_file: str | os.PathLike[str] | None, database: Path, *, create: bool
) -> Keyed:
    """The randomness under the device's key, which lies in a file or in the environment.

    Parameters
    ----------
    key_file : default: the topology's
    database : of the device, which the key belongs to
    create : make the key's file where it is missing, and its database too

    Raises
    ------
    ConfigurationError : there is no key, or others can read it
    StateError : the key's file is missing, and the database is there
    """
    path = topology.edge.key_file if key_file is None else Path(key_file)
    if path is not None and not path.exists():
        if database.exists() and database.stat().st_size:
            raise StateError(
                f"{path}: the key is missing, and its database is there: bring it back; under a new"
                " key every budget would look unspent"
            )
        if create:
            new_key(path)
            sync_folder(path)
    return edge_randomness(topology, read_key(path))
