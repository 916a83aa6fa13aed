"""What is said seldom: by a clock of the tests'."""

from __future__ import annotations

from ldp_kafka.runtime.worker.rates import RateLimiter, Tally, shape


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def test_lines_that_differ_in_numbers_are_alike():
    """In counts, addresses, ids and pointers; not in words."""
    alike = [
        "producer buffer full size 7",
        "producer buffer full size 1024",
    ]
    assert len({shape(line) for line in alike}) == 1
    members = ["member 0f8fad5b-d9cb-469f-a165-70867728950e left", "member 12 left"]
    assert len({shape(line) for line in members}) == 1
    assert shape("node 1 is away") != shape("node 1 is back")
    assert "9092" not in shape("127.0.0.1:9092 refused")


def test_the_first_of_a_shape_pass_and_the_rest_are_counted():
    clock = Clock()
    limiter = RateLimiter(most=3, seconds=60, clock=clock)
    assert [limiter.admit("full") for _ in range(5)] == [True] * 3 + [False] * 2
    assert limiter.admit("away")
    assert limiter.over() == []
    clock.now += 59.9
    assert not limiter.admit("full")
    assert limiter.over() == []
    clock.now += 0.1
    assert limiter.over() == [("full", 3)]
    assert limiter.over() == []


def test_a_minute_later_they_pass_again():
    """What was left out of the minute before is not lost by that."""
    clock = Clock()
    limiter = RateLimiter(most=1, seconds=60, clock=clock)
    assert [limiter.admit("full") for _ in range(3)] == [True, False, False]
    clock.now += 60
    assert [limiter.admit("full") for _ in range(2)] == [True, False]
    assert limiter.over() == [("full", 2)]
    assert limiter.over(everything=True) == [("full", 1)]


def test_many_shapes_take_no_more_room():
    """What nobody can tell apart is one, and a minute later there is room again."""
    clock = Clock()
    limiter = RateLimiter(most=1, seconds=60, clock=clock, shapes=10)
    assert [limiter.admit(n) for n in range(1000)].count(True) == 11
    assert limiter.over(everything=True) == [(None, 989)]
    clock.now += 60
    assert limiter.admit(5000)


def test_counts_are_said_once_a_minute():
    clock = Clock()
    tally = Tally(60, clock)
    clock.now += 500
    assert tally.due() is None
    tally.add({"wrong_type": 2, "no_user": 0})
    clock.now += 30
    tally.add({"wrong_type": 1, "no_time": 4})
    assert tally.due() is None
    clock.now += 30
    assert tally.due() == ({"wrong_type": 3, "no_time": 4}, 60)
    clock.now += 60
    assert tally.due() is None


def test_what_came_just_now_is_said_at_the_end():
    clock = Clock()
    tally = Tally(60, clock)
    tally.add({"events": 7})
    clock.now += 5
    assert tally.due(everything=True) == ({"events": 7}, 5)
    assert tally.due(everything=True) is None


def test_nothing_is_no_count():
    """A fold without late events begins no minute."""
    clock = Clock()
    tally = Tally(60, clock)
    tally.add({"events": 0})
    assert tally.due(everything=True) is None
