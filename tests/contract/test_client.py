"""The contract of a device's client holds for ours, and finds what it is there for."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest

import ldp_kafka as lk
from ldp_kafka.checks import CLIENT_CHECKS, CheckFailure, check_client
from ldp_kafka.runtime.device import client as ours
from ldp_kafka.runtime.device.counter import Counter


def test_our_client_passes():
    check_client(lk.Client)


class Creates(lk.Client):
    """A start makes what is missing, as `create=True` did."""

    def __init__(self, topology, **settings):
        if not Path(settings["database"]).exists():
            for path in Path(settings["database"]).parent.iterdir():
                path.unlink()
            files = {name: settings[name] for name in ("database", "key_file") if name in settings}
            type(self).provision(topology, deployment="here", **files)
        super().__init__(topology, **settings)


class ProvisionsAgain(lk.Client):
    """What is there goes first."""

    @staticmethod
    def provision(topology, **settings):
        for path in Path(settings["database"]).parent.iterdir():
            path.unlink()
        lk.Client.provision(topology, **settings)


class Uncounted(Counter):
    """The least number of commits is always none."""

    def _read(self):
        return 0


class ForgetsCopies(lk.Client):
    """An older copy of the database is as good as any."""

    def __init__(self, *given, **settings):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("ldp_kafka.runtime.device.store.Counter", Uncounted)
            super().__init__(*given, **settings)


class Anywhere(lk.Client):
    """Every deployment is the same."""

    @staticmethod
    def provision(topology, *, deployment, **settings):
        lk.Client.provision(topology, deployment="anywhere", **settings)


class AnyTopology(lk.Client):
    """Noise and ids are of the key alone."""

    def __init__(self, *given, **settings):
        super().__init__(*given, **settings)
        key = hashlib.sha256(ours.os.environ.get("LDP_KAFKA_EDGE_KEY", "own").encode()).digest()
        self._randomness = lk.randomness.keyed(key)


class Twice(lk.Client):
    """Each life begins with an empty memory."""

    def __init__(self, topology, **settings):
        kept = Path(settings["database"]).with_suffix(".first")
        folder = Path(settings["database"]).parent
        if kept.exists():
            for path in kept.iterdir():
                shutil.copy(path, folder / path.name)
        elif Path(settings["database"]).exists():
            files = [path for path in folder.iterdir() if path.is_file()]
            kept.mkdir()
            for path in files:
                shutil.copy(path, kept / path.name)
        super().__init__(topology, **settings)


MUTANTS = {
    Creates: "nothing_may_be_lost",
    ProvisionsAgain: "provisioned_once",
    ForgetsCopies: "an_older_copy_is_refused",
    Anywhere: "noise_is_its_own",
    AnyTopology: "noise_is_its_own",
    Twice: "one_draw",
}


@pytest.mark.parametrize(("mutant", "check"), MUTANTS.items(), ids=str)
def test_what_is_broken_is_found(mutant, check):
    with pytest.raises(CheckFailure) as found:
        check_client(mutant)
    assert check in found.value.checks


def test_every_check_finds_something():
    """`a_start_makes_nothing` is what `Creates` breaks too."""
    with pytest.raises(CheckFailure) as found:
        check_client(Creates)
    assert "a_start_makes_nothing" in found.value.checks
    assert CLIENT_CHECKS.keys() == {*MUTANTS.values(), "a_start_makes_nothing"}
