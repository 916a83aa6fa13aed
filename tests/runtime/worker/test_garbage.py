"""Looking for garbage seldom: what is there stays, what comes is looked at in larger lots."""

from __future__ import annotations

import gc
import weakref

import pytest

from ldp_kafka.runtime.worker.process import YOUNG, look_seldom


@pytest.fixture
def _as_before():
    """Other tests have Python's own ways."""
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


class Ring:
    def __init__(self):
        self.me = self


@pytest.mark.usefixtures("_as_before")
def test_garbage_is_still_found():
    """Of what comes later, once there are so many new objects; at once where somebody asks."""
    before = gc.get_threshold()
    look_seldom()
    assert gc.get_freeze_count() > 1000
    assert gc.get_threshold() == (YOUNG, *before[1:])
    lost = weakref.ref(Ring())
    kept = [[] for _ in range(YOUNG // 2)]
    assert lost() is not None, "not yet"
    kept += [[] for _ in range(YOUNG)]
    assert lost() is None
    other = weakref.ref(Ring())
    gc.collect()
    assert other() is None and kept
