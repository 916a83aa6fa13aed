"""The checks that every client of a device must pass: its key, its database and what it counts by
are made once, and whatever is lost, copied or made twice afterwards, no slot is drawn again. What
a coordinator asks of it is checked in `ldp_kafka.checks.asked_client`.

They treat the client as a black box: a folder, a producer that keeps what it is given, and starts
over folders from which something is missing.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ldp_kafka.checks.asked_client import ASKED_CHECKS
from ldp_kafka.checks.client_trial import ClientClass, ClientTrial, key_in_environment, new_device
from ldp_kafka.checks.failure import require, run_all

__all__ = ["CLIENT_CHECKS", "ClientTrial", "check_client"]

_SLOTS = 64
# Square Wave at epsilon 1 gives no report more often than once in 500
_CHANCE = 6


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
    with new_device(trial) as device:
        device.files["database"].parent.mkdir(exist_ok=True)
        _no_start(device, "a device that was never provisioned")


def provisioned_once(trial: ClientTrial) -> None:
    """Whatever of it is left."""
    with new_device(trial) as device:
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
    with new_device(trial) as device:
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
    with new_device(trial) as device:
        device.provision()
        device.reports(range(2))
        database = device.files["database"]
        old = database.read_bytes()
        device.reports(range(2, 5))
        database.write_bytes(old)
        _no_start(device, "over an older copy of its database")


def one_draw(trial: ClientTrial) -> None:
    """Over starts, and values: a slot has one report."""
    with new_device(trial) as device:
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
        with new_device(trial) as device, new_device(trial) as other, key_in_environment():
            one = replace(device, own_key=False)
            two = replace(other, own_key=False, name=name)
            one.provision()
            two.provision(deployment)
            _equal(one, two, what)


CLIENT_CHECKS: dict[str, Callable[[ClientTrial], None]] = {
    **ASKED_CHECKS,
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
