"""Which faults come, and how often: on one node, on three, and in the long run. What each of
them does is in `kinds`, by what they hit.
"""

from __future__ import annotations

from tests.broker.chaos.kinds.brokers import (
    broker_disk_full,
    oversize_event,
    oversize_record,
    oversize_state,
    produce_error,
)
from tests.broker.chaos.kinds.fault import Fault
from tests.broker.chaos.kinds.outages import (
    broker_kill,
    broker_restart,
    frozen_broker,
    leader_change,
    long_outage,
    outage,
    rolling_restart,
    time_out,
)
from tests.broker.chaos.kinds.rounds import (
    asked_again,
    backlog,
    coordinator_away,
    forwarder_killed,
    hostile_server,
    quiet_partition,
)
from tests.broker.chaos.kinds.state import (
    altered_state,
    lost_state,
    offsets_reset_with_state,
    offsets_reset_without_state,
    old_state,
    rotated,
    wrong_key,
)
from tests.broker.chaos.kinds.workers import (
    clock_step,
    duplicated,
    join,
    kill_both,
    leave,
    machine_dies,
    other_cpu,
    producers_clock,
    reordered,
    scratch_full,
    sigkill,
    zombie,
)

DISTURBS = {
    *(sigkill, machine_dies, kill_both, zombie, leave, join, other_cpu, scratch_full),
    *(broker_restart, broker_kill, leader_change, frozen_broker, time_out, broker_disk_full),
    *(outage, long_outage, rolling_restart),
    *(old_state, lost_state, offsets_reset_with_state, offsets_reset_without_state),
    *(altered_state, wrong_key, rotated),
    *(coordinator_away, backlog, forwarder_killed, asked_again),
}
"""After these groups need some seconds to be stable."""
ROUNDS: list[Fault] = [
    coordinator_away,
    backlog,
    quiet_partition,
    *(forwarder_killed,) * 2,
    asked_again,
    *(hostile_server,) * 2,
]
"""What can come between a request and its answers, beside all else."""
ONE_NODE: list[Fault] = [
    *ROUNDS,
    *(sigkill,) * 3,
    machine_dies,
    zombie,
    *(clock_step,) * 3,
    *(producers_clock,) * 2,
    *(duplicated,) * 2,
    *(reordered,) * 2,
    other_cpu,
    kill_both,
    broker_restart,
    broker_kill,
    outage,
    broker_disk_full,
    scratch_full,
    frozen_broker,
    produce_error,
    oversize_record,
    oversize_state,
    oversize_event,
    old_state,
    lost_state,
    altered_state,
    wrong_key,
    rotated,
    offsets_reset_with_state,
    offsets_reset_without_state,
    leave,
    join,
]
"""One round on one node; the order is drawn, but a join follows a leave."""
ASKING = {coordinator_away, forwarder_killed, asked_again, hostile_server}
"""What needs somebody who asks."""
WINDOWS: list[Fault] = [fault for fault in ONE_NODE if fault not in ASKING]
"""One round over curators alone."""
THREE_NODES: list[Fault] = [
    forwarder_killed,
    *(sigkill,) * 2,
    *(leader_change,) * 3,
    machine_dies,
    broker_restart,
    broker_kill,
    rolling_restart,
    zombie,
    other_cpu,
    clock_step,
    duplicated,
    reordered,
    produce_error,
]
LONG: list[Fault] = [time_out, outage, long_outage, *(sigkill,) * 8, *(leave, join) * 2]
"""What the long run has beside: they take long, or come often there."""
