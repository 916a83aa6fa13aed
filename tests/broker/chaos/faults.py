"""The faults: each row says what it is called, what it does, how often it comes in a round on one
node, on three, and in the long run beside that, what is waited for, and how long all may take.
"""

from __future__ import annotations

import signal
from functools import partial

from tests.broker.chaos.fault import Fault, Then
from tests.broker.chaos.kinds import brokers, rounds, state, topics, workers
from tests.broker.chaos.world import SESSION
from tests.broker.cluster import FROZEN

__all__ = ["FAULTS", "JOIN", "LEAVE", "LONG", "ONE_NODE", "THREE_NODES", "WINDOWS"]

NOTHING, NO_EXIT = Then.NOTHING, Then.NO_EXIT

LEAVE = Fault("leave", workers.leave, one=1, long=2, then=NOTHING)
JOIN = Fault("join", workers.join, one=1, long=2)
"""Whoever left joins next."""
FAULTS = [
    # workers
    Fault("sigkill", workers.some_die, one=3, three=2, long=8),
    Fault("machine_dies", partial(workers.machines_die, count=1), one=1, three=1),
    Fault("kill_both", partial(workers.machines_die, count=2), one=1),
    Fault("zombie", workers.zombie, one=1, three=1),
    Fault("other_cpu", workers.other_cpu, one=1, three=1),
    Fault("clock_step", workers.clock_step, one=3, three=1, then=NOTHING),
    Fault("scratch_full", workers.scratch_full, one=1),
    LEAVE,
    JOIN,
    # their input
    Fault("producers_clock", workers.producers_clock, one=2, then=NOTHING),
    # messages come up to three times, and in another order
    Fault("duplicated", partial(workers.disturbed, slots=1, twice=1), 2, 1, then=NOTHING),
    # half of the messages of a slot come after those of the next one
    Fault("reordered", partial(workers.disturbed, slots=2, shuffled=2), 2, 1, then=NOTHING),
    # one partition has no values, but the ticks of somebody's clock
    Fault("quiet_partition", partial(workers.disturbed, slots=6, quiet=6), 1, then=NOTHING),
    # brokers
    Fault("outage", partial(brokers.away, seconds=brokers.short), one=1, long=1, then=NO_EXIT),
    # what costs no exit is up to 300 s
    Fault("long_outage", partial(brokers.away, seconds=290), long=1, then=NO_EXIT, within=900),
    # longer than a session: requests time out, members are thrown out
    Fault(
        "frozen_broker",
        partial(brokers.away, seconds=SESSION + 2, hows=(FROZEN,)),
        one=1,
        then=NO_EXIT,
    ),
    # longer than a worker waits for any one thing that it asks a broker for
    Fault("time_out", partial(brokers.away, seconds=26, hows=(FROZEN,)), long=1, then=NO_EXIT),
    Fault("broker_restart", partial(brokers.one_away, number=signal.SIGTERM), 1, 1, then=NO_EXIT),
    Fault("broker_kill", partial(brokers.one_away, number=signal.SIGKILL), 1, 1, then=NO_EXIT),
    Fault("leader_change", brokers.leader_away, three=3, then=NO_EXIT),
    Fault("rolling_restart", brokers.rolling, three=1, then=NO_EXIT),
    Fault("broker_disk_full", brokers.disk_full, one=1),
    # topics
    # another reason than its size: it takes none that is older than its clock
    Fault(
        "produce_error",
        partial(topics.refused, by=topics.TOO_OLD, kinds=("reports", "releases", "requests")),
        one=1,
        three=1,
        then=NOTHING,
    ),
    Fault(
        "oversize_record",
        partial(
            topics.refused,
            by=topics.SOME_TOO_LARGE,
            kinds=("reports", "releases", "partials", "sums"),
        ),
        one=1,
        then=NOTHING,
    ),
    Fault("oversize_state", partial(topics.refused, by=topics.TOO_LARGE), one=1, then=NOTHING),
    Fault("oversize_event", topics.oversize_event, one=1, then=NOTHING),
    # states and offsets
    Fault("old_state", state.old_state, one=1),
    Fault("lost_state", state.lost_state, one=1),
    Fault("altered_state", state.altered_state, one=1),
    Fault("wrong_key", state.wrong_key, one=1),
    Fault("rotated", state.rotated, one=1),
    Fault("offsets_reset_with_state", partial(state.begun_again, state=True), one=1),
    Fault("offsets_reset_without_state", partial(state.begun_again, state=False), one=1),
    # between a request and its answers
    Fault("coordinator_away", rounds.coordinator_away, one=1, asks=True),
    Fault("backlog", rounds.backlog, one=1),
    Fault("forwarder_killed", rounds.forwarder_killed, one=2, three=1, asks=True),
    Fault("asked_again", rounds.asked_again, one=1, asks=True),
    Fault("hostile_server", rounds.hostile_server, one=2, then=NOTHING, asks=True),
]
ONE_NODE = [fault for fault in FAULTS for _ in range(fault.one)]
"""One round on one node; the order is drawn, but a join follows a leave."""
THREE_NODES = [fault for fault in FAULTS for _ in range(fault.three)]
WINDOWS = [fault for fault in ONE_NODE if not fault.asks]
"""One round over curators alone."""
LONG = [fault for fault in FAULTS for _ in range(fault.long)]
"""What each round of the long run has beside: they take long, or come often there."""
