"""Provisioning a device: its key, its database and its counter are made once, together. A start
finds all three or fails: what was spent is in them, and a device that began anew would draw again
for slots that it has reported.
"""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from ldp_kafka.errors import ConfigurationError, StateError
from ldp_kafka.runtime.device.counter import Counter
from ldp_kafka.runtime.device.folder import sync_folder
from ldp_kafka.runtime.device.state import bound_to
from ldp_kafka.runtime.device.store import DeviceStore
from ldp_kafka.runtime.keys import edge_randomness, new_key, read_key
from ldp_kafka.topology import Topology
from ldp_kafka.topology.document import Unset

__all__ = ["Files", "files_of", "found", "provision"]


class Files(NamedTuple):
    """Where a device keeps what must not be lost."""

    database: Path
    key: Path | None
    """None: the key is in the environment."""

    @property
    def counter(self) -> Path:
        """Beside the key, so that one copy of the database does not bring it back too."""
        return Path(f"{self.database if self.key is None else self.key}.count")


def files_of(
    topology: Topology, database: str | os.PathLike[str], key_file: str | os.PathLike[str] | None
) -> Files:
    """Those of a client; ``key_file`` defaults to the topology's. ConfigurationError where that
    name is left to a variable that is not set, and the key is not in the environment.
    """
    own = topology.edge.key_file if key_file is None else Path(key_file)
    if isinstance(own, Unset):
        read_key(own)  # says which variable is not set, unless the key is in the environment
        own = None
    return Files(Path(database), own)


def provision(topology: Topology, files: Files, deployment: str) -> None:
    """Make the key, the counter and the database of a new device.

    Parameters
    ----------
    deployment : what noise is bound to beside topology and key; kept in the database

    Raises
    ------
    ConfigurationError : one of them is there, or cannot be made; a key in the environment is none
    """
    there = [path for path in (files.key, files.counter, files.database) if path and path.exists()]
    if there:
        raise ConfigurationError(
            f"{', '.join(map(str, there))}: this device was provisioned: that is done once. What"
            " was left by a provisioning that was cut short may be removed, if the device has never"
            " reported"
        )
    if files.key is not None:
        new_key(files.key)
        sync_folder(files.key)
    noise = edge_randomness(topology, read_key(files.key), deployment)
    with closing(Counter.make(files.counter)):  # no start finds the database half made
        DeviceStore.make(files.database, bound_to(topology, noise))


def found(files: Files) -> None:
    """Nothing, where all are there.

    Raises
    ------
    ConfigurationError : the device was never provisioned
    StateError : one of them is missing
    """
    key, database, counter = (
        path is None or path.exists() for path in (files.key, files.database, files.counter)
    )
    if files.key is not None and not (key or database or counter):
        raise ConfigurationError(
            f"{files.key} and {files.database} are missing: `ldp-kafka device init` or"
            " Client.provision makes them, once in a device's life"
        )
    if not key:
        raise StateError(
            f"{files.key}: the key is missing, and this device was provisioned: bring it back;"
            " under a new key every budget would look unspent"
        )
    if not database:
        raise StateError(
            f"{files.database}: the database is missing, and this device was provisioned: bring it"
            " back; what its users have spent is in it. If it is lost, the topology needs a new"
            " name, and the device a new key and database"
        )
