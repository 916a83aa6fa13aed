"""What a worker's client says of its group to who asks."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from aiokafka.errors import GroupAuthorizationFailedError, UnknownError

from ldp_kafka.runtime.worker.driver import membership


def client_of(*, done=False, fetched=False, told=False, unheard=None):
    """An app whose client's tasks have ended, or whose group waits to be heard."""

    def error():
        return KeyError("poison 31337")

    task, fetches, sync = (
        SimpleNamespace(done=lambda is_=is_: is_, cancelled=lambda: False, exception=error)
        for is_ in (done, fetched, told)
    )
    calls = []
    coordinator = SimpleNamespace(
        _coordination_task=task,
        _pending_exception=unheard,
        _error_consumed_fut=None if unheard is None else Waits(),
        request_rejoin=lambda: calls.append("rejoin"),
    )
    client = SimpleNamespace(
        _coordinator=coordinator,
        _fetcher=SimpleNamespace(_fetch_task=fetches),
        _client=SimpleNamespace(
            _sync_task=sync, force_metadata_update=lambda: calls.append("metadata")
        ),
        _loop=SimpleNamespace(call_soon_threadsafe=lambda work: work()),
    )
    consumer = SimpleNamespace(_thread=SimpleNamespace(_consumer=client))
    return SimpleNamespace(_consumer=consumer, should_stop=False, calls=calls), coordinator


class Waits:
    """A future."""

    over = False

    def done(self):
        return self.over

    def set_result(self, _):
        self.over = True


@pytest.mark.parametrize("ended", ["done", "fetched", "told"])
def test_a_client_that_has_given_up_its_group_is_seen(ended):
    """Its partitions are still assigned, as far as it knows, and nothing comes."""
    made, _ = client_of(**{ended: True})
    found = str(membership.dropped(made))
    assert "does nothing more for" in found and "after KeyError: a new worker" in found
    made.should_stop = True
    assert membership.dropped(made) is None
    made._consumer = None  # not made yet
    assert membership.dropped(made) is None
    assert not membership.heard(made)
    assert membership.dropped(client_of()[0]) is None


def test_an_error_of_the_group_is_heard_and_its_client_tries_again():
    """A broker that is just back says such things: it is asked what it knows by now."""
    made, group = client_of(unheard=UnknownError())
    waits = group._error_consumed_fut
    assert membership.heard(made)
    assert waits.over and group._pending_exception is None
    assert sorted(made.calls) == ["metadata", "rejoin"]
    assert not membership.heard(made)


def test_a_right_that_is_missing_ends_it(monkeypatch):
    ended = []

    def end(error):
        ended.append(str(error))
        raise SystemExit

    monkeypatch.setattr(membership, "end", end)
    made, group = client_of(unheard=GroupAuthorizationFailedError("g"))
    with pytest.raises(SystemExit):
        membership.heard(made)
    assert "may not READ group g" in ended[0]
    assert group._pending_exception is not None
