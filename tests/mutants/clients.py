"""Faults of a device's client."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.methods.protocols import Responder
from ldp_kafka.runtime.device import client as ours
from ldp_kafka.runtime.device.counter import Counter
from ldp_kafka.runtime.device.queue import ReportQueue
from tests.mutants import breaks


@breaks("a_start_makes_nothing", of=lk.Client)
@breaks("nothing_may_be_lost", of=lk.Client)
class Creates(lk.Client):
    """A start makes what is missing, as `create=True` did."""

    def __init__(self, topology, **settings):
        if not Path(settings["database"]).exists():
            for path in Path(settings["database"]).parent.iterdir():
                path.unlink()
            files = {name: settings[name] for name in ("database", "key_file") if name in settings}
            type(self).provision(topology, deployment="here", **files)
        super().__init__(topology, **settings)


@breaks("provisioned_once", of=lk.Client)
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

    def require(self):
        pass


@breaks("an_older_copy_is_refused", of=lk.Client)
class ForgetsCopies(lk.Client):
    """An older copy of the database is as good as any."""

    def __init__(self, *given, **settings):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("ldp_kafka.runtime.device.store.Counter", Uncounted)
            super().__init__(*given, **settings)


@breaks("noise_is_its_own", of=lk.Client)
class Anywhere(lk.Client):
    """Every deployment is the same."""

    @staticmethod
    def provision(topology, *, deployment, **settings):
        lk.Client.provision(topology, deployment="anywhere", **settings)


@breaks("noise_is_its_own", of=lk.Client)
class AnyTopology(lk.Client):
    """Noise and ids are of the key alone."""

    def __init__(self, *given, **settings):
        super().__init__(*given, **settings)
        key = hashlib.sha256(ours.os.environ.get("LDP_KAFKA_EDGE_KEY", "own").encode()).digest()
        self._randomness = lk.randomness.keyed(key)


@breaks("one_draw", of=lk.Client)
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


@breaks("one_answer", of=lk.Client)
class AnswersTwice(lk.Client):
    """Values stay, and which slots were asked for is nobody's business."""

    def answer(self, *requests):
        made = 0
        for request in requests:
            self._answers.last = -1
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(Responder, "fresh", lambda _, __, rows, ___: np.full(len(rows), True))
                patch.setattr(self._queue, "answer", self._holds)
                made += super().answer(request)
        return made

    def _holds(self, states, reports, **more):
        ReportQueue.answer(self._queue, states, reports, **{**more, "through": -1})


@breaks("no_window_costs_more", of=lk.Client)
class ChargesNothing(lk.Client):
    """What is asked for costs nothing."""

    def answer(self, *requests):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Responder, "charge", lambda _, __, rows, *___: np.full(len(rows), True))
            return super().answer(*requests)


@breaks("a_turn_is_nobodys_value", of=lk.Client)
class AsksThoseWhoAreThere(lk.Client):
    """Who has no value in a slot keeps the turn."""

    def answer(self, *requests):
        users, held = self._store.users, self._store.held

        def there():
            return [row for row in users() if row[0] in self._there]

        def noted(slot):
            self._there = held(slot)
            return self._there

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(self._store, "held", noted)
            patch.setattr(self._store, "users", there)
            return super().answer(*requests)
