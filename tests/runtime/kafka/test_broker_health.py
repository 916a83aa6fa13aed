"""Whether brokers are there, by what they answered; the clock of all that waits for them."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from ldp_kafka.errors import BrokerError, ConfigurationError
from ldp_kafka.runtime.kafka import broker_health as room
from ldp_kafka.runtime.kafka.broker_health import BrokerHealth, Question, UnansweredError
from ldp_kafka.runtime.worker.exits import RETRY
from ldp_kafka.runtime.worker.health import Health
from ldp_kafka.runtime.worker.health_rules import LONGEST, ending

TIMEOUT = KafkaException(KafkaError(KafkaError._TIMED_OUT))
FORBIDDEN = KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))


class Broker:
    """Answers questions as it is told, and a clock."""

    def __init__(self, routine=("one", "two")):
        self.now, self.wrong, self.asked, self.told = 1000.0, {}, [], []
        self.took, self.renewed, self.shown = 0.0, [], []
        self.brokers = BrokerHealth(
            [Question(name, lambda name=name: self.answer(name)) for name in routine],
            clock=lambda: self.now,
            gone=lambda reason: self.told.append(("gone", reason)),
            back=lambda: self.told.append("back"),
            renew=lambda: self.renewed.append(self.now),
            shown=self.shown.append,
        )

    def answer(self, name):
        self.asked.append(name)
        self.now += self.took
        if name in self.wrong:
            raise self.wrong[name]
        return name.upper()

    def ask(self, name):
        return self.brokers.ask(name, lambda: self.answer(name))

    def seconds(self, count):
        for _ in range(count):
            self.now += 1
            self.brokers.look()


@pytest.mark.parametrize("error", [TIMEOUT, BrokerError("none leads it")])
def test_the_clock_stands_still_from_the_first_moment_of_an_outage(error):
    """Which is noticed later: no answer came in it."""
    broker = Broker()
    broker.seconds(10)
    assert (broker.brokers.clock(), broker.brokers.here) == (10.0, True)
    broker.now += 7  # nobody has noticed yet
    broker.wrong = {"one": error, "two": error}
    broker.seconds(300)
    assert set(broker.shown[:10]) == {0.0} and broker.shown[-1] == 299.0
    assert (broker.brokers.clock(), broker.brokers.here) == (10.0, False)
    broker.wrong = {}
    broker.seconds(1)
    assert (broker.brokers.clock(), broker.brokers.here) == (10.0, True)
    broker.seconds(5)
    assert broker.brokers.clock() == 15.0
    (gone, reason), back = broker.told
    assert (gone, back) == ("gone", "back")
    assert "did not say" in reason or "none leads it" in reason


def test_an_answer_that_took_long_counts_little():
    """A broker that stood still, and answered in the end, was away."""
    broker = Broker()
    broker.seconds(3)
    broker.took = 100.0
    broker.seconds(1)
    assert broker.brokers.clock() == 3.0 + room.STEP


def test_what_was_left_without_an_answer_is_asked_again_before_all_else():
    """Brokers are there when all of it is answered: others of them may have answered meanwhile."""
    broker = Broker()
    broker.wrong = {"lag": TIMEOUT}
    with pytest.raises(UnansweredError) as found:
        broker.ask("lag")
    assert isinstance(found.value.__cause__, BrokerError)
    assert broker.ask("more") == "MORE"
    assert not broker.brokers.here
    broker.asked.clear()
    broker.seconds(2)
    assert broker.asked == ["lag", "lag"]
    broker.wrong = {}
    assert broker.ask("lag") == "LAG"
    assert broker.brokers.here and broker.told[-1] == "back"
    broker.asked.clear()
    broker.seconds(3)
    assert broker.asked == ["one", "two", "one"]


def test_what_nobody_wants_to_know_any_more_is_forgotten():
    broker = Broker()
    broker.wrong = {"lag": TIMEOUT}
    with pytest.raises(UnansweredError):
        broker.ask("lag")
    broker.brokers.forget("other")
    assert not broker.brokers.here
    broker.brokers.forget("lag")
    assert broker.brokers.here and len(broker.told) == 2


def test_what_is_forbidden_is_no_outage():
    """Whoever needs it asks for it, and ends."""
    broker = Broker()
    broker.wrong = dict.fromkeys(("one", "two", "lag"), FORBIDDEN)
    broker.seconds(4)
    assert broker.brokers.here and broker.brokers.clock() == 4.0
    with pytest.raises(ConfigurationError):
        broker.ask("lag")
    broker.wrong = {"lag": TIMEOUT}  # asked again, it is forbidden: no outage any more
    with pytest.raises(UnansweredError):
        broker.ask("lag")
    broker.wrong = {"lag": FORBIDDEN}
    broker.seconds(1)
    assert broker.brokers.here


def test_an_outage_without_end_is_left_to_a_new_process():
    broker = Broker()
    broker.wrong = dict.fromkeys(("one", "two"), TIMEOUT)
    health = Health(lambda: broker.now)
    health.brokers = broker.brokers
    broker.seconds(int(LONGEST))
    assert len(broker.told) == 1
    broker.now += 3600  # the process slept: whether brokers are there is asked before it gives up
    assert ending(health.facts()) is None
    broker.now -= 3600
    broker.seconds(3)
    rule = ending(health.facts())
    assert rule.code == RETRY
    assert "has been away for 15 minutes" in rule.text(health.facts())
    assert "the broker did not say" in rule.text(health.facts())
    broker.wrong = {}
    broker.seconds(2)
    assert ending(health.facts()) is None


def test_a_client_that_finds_nobody_is_replaced():
    """After some tries, and again after as many."""
    broker = Broker()
    broker.wrong = dict.fromkeys(("one", "two"), TIMEOUT)
    broker.seconds(2 * room.ANEW)
    assert broker.renewed == [1000.0 + room.ANEW, 1000.0 + 2 * room.ANEW]
    broker.wrong = {}
    broker.seconds(1)
    broker.wrong = dict.fromkeys(("one", "two"), TIMEOUT)
    broker.seconds(room.ANEW - 1)
    assert len(broker.renewed) == 2


def test_whoever_is_asked_nothing_is_there():
    """Where there is no routine, the clock goes on."""
    broker = Broker(routine=())
    broker.seconds(5)
    assert broker.brokers.clock() == 5.0
