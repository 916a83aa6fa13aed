"""The checks that every client of a device must pass: its key, its database and what it counts by
are made once, and whatever is lost, copied or made twice afterwards, no slot is drawn again.

They treat the client as a black box: a folder, a producer that keeps what it is given, and starts
over folders from which something is missing.
"""

from __future__ import annotations

import base64
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from ldp_kafka.checks.failure import require, run_all

__all__ = ["CLIENT_CHECKS", "ClientTrial", "check_client"]

_TEXT = """
topology: {name}
input: {{source: devices, slot: 1h, lateness: 1000}}
privacy: {{method: sw_direct, epsilon: 1.0, window: 10, domain: [0, 100]}}
output: {{statistics: [mean]}}
"""
_VARIABLE = "LDP_KAFKA_EDGE_KEY"
_HOUR = 3_600_000
_SLOTS = 64
# Square Wave at epsilon 1 gives no report more often than once in 500
_CHANCE = 6


class ClientClass(Protocol):
    """What is checked: a class that is used as `ldp_kafka.Client` is."""

    def __call__(self, topology: str, /, **settings: Any) -> Any:
        """A client over the files of a device."""

    def provision(self, topology: str, /, **settings: Any) -> None:
        """Make the files of a device."""


class _Kept:
    """A producer that keeps what it is given and acknowledges it."""

    def __init__(self) -> None:
        self.left: list[bytes] = []
        self._calls: list[Callable[[Any, Any], None]] = []

    def produce(
        self, topic: str, *, value: bytes, partition: int, on_delivery: Callable[[Any, Any], None]
    ) -> None:
        del topic, partition
        self.left.append(value)
        self._calls.append(on_delivery)

    def poll(self, timeout: float) -> int:
        del timeout
        calls, self._calls = self._calls, []
        for call in calls:
            call(None, None)
        return len(calls)


@dataclass(frozen=True)
class ClientTrial:
    """A client class and a folder of one device.

    Parameters
    ----------
    client : the class
    folder : of the device's files
    name : of its topology
    own_key : whether the device has a key of its own; else the environment has it
    """

    client: ClientClass
    folder: Path
    name: str = "devices"
    own_key: bool = True

    @property
    def topology(self) -> str:
        """The path of its topology."""
        path = self.folder.with_name(f"{self.name}.yaml")
        path.write_text(_TEXT.format(name=self.name))
        return str(path)

    @property
    def files(self) -> dict[str, Any]:
        """Of the device."""
        self.folder.mkdir(exist_ok=True)
        key = {"key_file": self.folder / "device.key"} if self.own_key else {}
        return {"database": self.folder / "device.db", **key}

    def provision(self, deployment: str = "here") -> None:
        """Make the device's files."""
        self.client.provision(self.topology, deployment=deployment, **self.files)

    def reports(self, slots: range, value: float = 37.5) -> dict[int, set[tuple[str, int]]]:
        """Start the device, report in each slot, and stop: (id, index) of what left it, by slot."""
        kept = _Kept()
        found: dict[int, set[tuple[str, int]]] = {}
        with closing(
            self.client(self.topology, user="somebody", producer=kept, **self.files)
        ) as client:
            for slot in slots:
                client.report(value, time=(480_000 + slot) * _HOUR)
        for message in kept.left:
            report = json.loads(message)
            found.setdefault(int(report["slot"]), set()).add((report["id"], report["index"]))
        return found


@contextmanager
def _device(trial: ClientTrial) -> Iterator[ClientTrial]:
    """A device of its own for one check."""
    with tempfile.TemporaryDirectory() as folder:
        yield replace(trial, folder=Path(folder) / "device")


def _fails(call: Callable[[], object]) -> bool:
    """Whether it ends with an error; which one, is the client's."""
    try:
        call()
    except Exception:  # noqa: BLE001
        return True
    return False


def _no_start(device: ClientTrial, what: str) -> None:
    """CheckFailure where a start goes on and something leaves the device."""
    before = sorted(path.name for path in device.folder.iterdir())
    require(_fails(lambda: device.reports(range(1))), f"{what}: a start must fail")
    after = sorted(path.name for path in device.folder.iterdir())
    require(after == before, f"{what}: a start made files")


def a_start_makes_nothing(trial: ClientTrial) -> None:
    """Of a device that was never provisioned."""
    with _device(trial) as device:
        device.files["database"].parent.mkdir(exist_ok=True)
        _no_start(device, "a device that was never provisioned")


def provisioned_once(trial: ClientTrial) -> None:
    """Whatever of it is left."""
    with _device(trial) as device:
        device.provision()
        device.reports(range(1))
        for path in [None, *device.folder.iterdir()]:
            kept = None if path is None else path.read_bytes()
            if path is not None:
                path.unlink()
            require(_fails(device.provision), "a device that has reported was provisioned again")
            if path is not None and kept is not None:
                path.write_bytes(kept)
                path.chmod(0o600)


def nothing_may_be_lost(trial: ClientTrial) -> None:
    """Key, database or anything else that it made: a start without it, or with an empty file in its
    place, fails and makes nothing.
    """
    with _device(trial) as device:
        device.provision()
        device.reports(range(2))
        for path in list(device.folder.iterdir()):
            kept = path.read_bytes()
            path.unlink()
            _no_start(device, f"without {path.name}")
            path.touch(0o600)
            _no_start(device, f"with an empty {path.name}")
            path.write_bytes(kept)
        require(device.reports(range(2, 3)), "what was brought back must be enough")


def an_older_copy_is_refused(trial: ClientTrial) -> None:
    """Of the database: it has forgotten what was spent, and which slots were drawn."""
    with _device(trial) as device:
        device.provision()
        device.reports(range(2))
        database = device.files["database"]
        old = database.read_bytes()
        device.reports(range(2, 5))
        database.write_bytes(old)
        _no_start(device, "over an older copy of its database")


def one_draw(trial: ClientTrial) -> None:
    """Over starts, and values: a slot has one report."""
    with _device(trial) as device:
        device.provision()
        lives = [device.reports(range(3), value) for value in (10.0, 90.0)]
        for slot in lives[0]:
            seen = lives[0][slot] | lives[1].get(slot, set())
            require(len(seen) == 1, "a slot had two reports")


def _equal(a: ClientTrial, b: ClientTrial, what: str) -> None:
    """CheckFailure where two devices of one key say the same of equal values."""
    first, second = a.reports(range(_SLOTS)), b.reports(range(_SLOTS))
    both = [(*first[slot], *second[slot]) for slot in first.keys() & second.keys()]
    require(len(both) >= _SLOTS // 2, f"{what}: the devices must report")
    require(not any(x[0] == y[0] for x, y in both), f"{what}: ids must differ")
    same = sum(x[1] == y[1] for x, y in both)
    require(same <= _CHANCE, f"{what}: {same} of {len(both)} reports are equal: a test of equality")


def noise_is_its_own(trial: ClientTrial) -> None:
    """Two deployments of one topology, or two topologies, under one key: neither ids nor reports
    agree more often than by chance, for equal values of one user.
    """
    for what, name, deployment in (
        ("two deployments under one key", trial.name, "there"),
        ("two topologies under one key", "others", "here"),
    ):
        with _device(trial) as device, _device(trial) as other, _key_in_environment():
            one = replace(device, own_key=False)
            two = replace(other, own_key=False, name=name)
            one.provision()
            two.provision(deployment)
            _equal(one, two, what)


@contextmanager
def _key_in_environment() -> Iterator[None]:
    """One key for all devices that have none of their own."""
    before = os.environ.get(_VARIABLE)
    os.environ[_VARIABLE] = base64.b64encode(os.urandom(32)).decode()
    try:
        yield
    finally:
        if before is None:
            del os.environ[_VARIABLE]
        else:
            os.environ[_VARIABLE] = before


CLIENT_CHECKS: dict[str, Callable[[ClientTrial], None]] = {
    "a_start_makes_nothing": a_start_makes_nothing,
    "an_older_copy_is_refused": an_older_copy_is_refused,
    "noise_is_its_own": noise_is_its_own,
    "nothing_may_be_lost": nothing_may_be_lost,
    "one_draw": one_draw,
    "provisioned_once": provisioned_once,
}
"""By name."""


def check_client(client: ClientClass) -> None:
    """Run every check of `CLIENT_CHECKS`.

    Parameters
    ----------
    client : a class that is used as `ldp_kafka.Client` is

    Raises
    ------
    CheckFailure : with the names of all the checks that failed in ``checks``
    """
    with tempfile.TemporaryDirectory() as folder:
        run_all(CLIENT_CHECKS, ClientTrial(client, Path(folder) / "device"))
