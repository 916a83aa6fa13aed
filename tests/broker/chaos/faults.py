"""The kinds of faults. Each is a function of a `World`: it does it, undoes what was done to the
surroundings, and says what became of it; a fault that must halt a worker waits for that.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from ldp_kafka.records import Request
from ldp_kafka.runtime.kafka import admin
from ldp_kafka.runtime.kafka.admin import TopicSpec
from ldp_kafka.runtime.keys import read_key
from ldp_kafka.runtime.tools.rotate_key import rotate
from ldp_kafka.runtime.tools.state import rewind
from ldp_kafka.runtime.wire.records import encode_json
from tests.broker.chaos.feed import START
from tests.broker.chaos.place import alive
from tests.broker.chaos.world import SESSION, Crew, World
from tests.broker.flow import Flow, Reader, header
from tests.broker.flow import configure as set_topic

Fault = Callable[[World], str]
HALT = 1  # what a worker ends with that must not go on


class NotHeld(Exception):
    """A fault ended as it must not."""


def must(held: bool, what: str) -> None:
    if not held:
        raise NotHeld(what)


# -- workers
# ------------------------------------------------------------


def sigkill(world: World) -> str:
    """Some workers of a machine are gone at once, and started again."""
    crew = world.random.choice(world.crews)
    world.until(lambda: len(crew.pids) == len(world.flows), 15)
    pids = crew.pids
    must(bool(pids), "there was no worker to kill")
    killed = world.random.sample(pids, -(-len(pids) // 3))
    for pid in killed:
        with suppress(ProcessLookupError):  # it had just ended by itself
            os.kill(pid, signal.SIGKILL)
    return f"crew {crew.number}, {len(killed)} of {len(pids)} workers"


def machine_dies(world: World) -> str:
    """All workers of a machine are gone at once, and started again."""
    crew = world.random.choice(world.crews)
    world.end(crew)
    world.pause(world.random.uniform(0, 1))
    world.start(crew)
    return f"crew {crew.number}"


def kill_both(world: World) -> str:
    """All workers are gone at once."""
    for crew in world.crews:
        world.end(crew)
    for crew in world.crews:
        world.start(crew)
    return "both"


def zombie(world: World) -> str:
    """A worker sleeps until its partitions are another's, and wakes; the new owner is killed just
    after.
    """
    sleeper, heir = world.random.sample(world.crews, 2)
    sleeper.held = True
    begin = time.time()
    sleeper.signal(signal.SIGSTOP)
    inherited = world.until(lambda: world.stable(members=1), 12 * SESSION)
    sleeper.signal(signal.SIGCONT)
    sleeper.held = False
    must(inherited, "nobody took over what the sleeper had")
    world.pause(0.3)
    world.end(heir)
    world.start(heir)
    return f"crew {sleeper.number} slept {time.time() - begin:.0f} s"


def leave(world: World) -> str:
    """A worker leaves its groups; the other one has it all."""
    crew = world.random.choice(world.crews)
    world.leave(crew)
    world.pause(world.random.uniform(1, 3))
    return f"crew {crew.number}"


def join(world: World) -> str:
    """Whoever is missing comes, and gets its share."""
    missing = [crew for crew in world.crews if not crew.running] or [
        world.random.choice(world.crews)
    ]
    for crew in missing:
        if crew.running:
            world.leave(crew)
        world.start(crew)
    return f"crew {missing[0].number}"


def other_cpu(world: World) -> str:
    """The second worker dies and comes back on a machine with other CPU features."""
    crew, features = world.crews[1], world.features
    crew.disabled = world.random.choice(
        [features[at:] for at in range(len(features) + 1) if features[at:] != crew.disabled] or [[]]
    )
    world.end(crew)
    world.start(crew)
    return f"without {' '.join(crew.disabled) or 'nothing: numpy chooses nothing at run time here'}"


def clock_step(world: World) -> str:
    """The wall clock of a worker jumps."""
    crew = world.random.choice(world.crews)
    seconds = world.random.choice((-86_400, -3600, -61, -3, 3, 61, 3600, 86_400, 40 * 86_400))
    crew.clock.write_text(str(seconds))
    world.pause(1)
    return f"crew {crew.number} by {seconds} s"


def producers_clock(world: World) -> str:
    """The wall clock of those who write the raw log jumps, back to before the events at times: they
    are dead letters then, as they come from the future.
    """
    # what is an hour ahead is refused by the broker
    seconds = world.random.choice((-86_400, -3600, -61, 61, 3000, -20 * 365 * 86_400))
    world.feed.clock = seconds * 1000
    world.pause(1.6)
    world.feed.clock = 0
    return f"by {seconds} s"


# -- input
# ------------------------------------------------------------


def duplicated(world: World) -> str:
    """Messages come up to three times, and in another order."""
    world.feed.disturb(twice=1)
    world.pause(1.5)
    return "a slot"


def reordered(world: World) -> str:
    """Half of the messages of a slot come after those of the next one."""
    world.feed.disturb(shuffled=2)
    world.pause(2)
    return "2 slots"


def oversize_event(world: World) -> str:
    """A raw message that is larger than any worker reads: a dead letter."""
    flow = world.random.choice(world.flows)
    configure(world, flow.topology.raw_topic, "max.message.bytes", "4000000")
    producer = Producer(
        {"bootstrap.servers": world.boot, "message.max.bytes": 4_000_000, "log_level": 0}
    )
    failed: list = []
    for _ in range(20):  # the broker hears of its new limit in its own time
        failed.clear()
        producer.produce(
            flow.topology.raw_topic,
            b"x" * 2_200_000,
            partition=0,
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
        if producer.flush(20) == 0 and not failed:
            return flow.topology.privacy.method
        world.pause(0.2)
    raise NotHeld(f"the broker did not take it: {failed}")


# -- what workers write
# ------------------------------------------------------------


def configure(world: World, topic: str, name: str, value: str | None) -> None:
    """Change a topic's setting, or take the change back, asking again where a broker is not there
    just then.
    """
    for attempt in range(10):
        try:
            set_topic(world.admin, topic, name, value)
        except KafkaException:
            if attempt == 9:
                raise
            world.pause(1)
        else:
            return


def refused(
    world: World,
    topic: str,
    setting: str,
    value: str,
    words: tuple[str, ...],
    then: tuple[str, ...] = (),
) -> None:
    """Change a topic so that it refuses what workers write, until one of them minds; ``then`` so
    that it refuses some of it, for some seconds each; and put it right again.
    """
    marks = world.marks()
    configure(world, topic, setting, value)
    minded = world.until(lambda: world.heard(marks, topic, words), 30)
    for other in then:
        configure(world, topic, setting, other)
        world.pause(world.random.uniform(1, 3))
    configure(world, topic, setting, None)
    must(minded, f"nobody minded that {topic} took nothing")


def produce_error(world: World) -> str:
    """The broker refuses a record for another reason than its size: it takes none that is older
    than its clock. Whoever wrote it ends, and is started again until the topic is put right.
    """
    flow = world.random.choice(world.flows)
    asks = [flow.topology.flow.requests] if flow in world.asked else []
    topic = world.random.choice(
        [
            flow.topology.reports_topic,
            flow.topology.releases_topic,
            *(topic.name for topic in asks),
        ]
    )
    refused(world, topic, "message.timestamp.before.max.ms", "0", ("nvalid timestamp", "imestamp"))
    return topic.partition(".")[2]


def oversize_record(world: World) -> str:
    """A record that the broker takes for too large; at first they all are, then a large one is, and
    what comes behind it is not.
    """
    flow = world.random.choice(world.flows)
    sums = [] if flow.topology.flow.sums is None else [flow.topology.sums_topic]
    topic = world.random.choice(
        [
            flow.topology.reports_topic,
            flow.topology.releases_topic,
            flow.topology.partials_topic,
            *sums,
        ]
    )
    refused(
        world, topic, "max.message.bytes", "64", ("Message size too large",), then=("400", "1500")
    )
    return topic.partition(".")[2]


def oversize_state(world: World) -> str:
    """The same in a changelog, which Faust's producer writes."""
    flow = world.random.choice(world.flows)
    refused(
        world,
        flow.topology.changelog("perturb", "perturb"),
        "max.message.bytes",
        "64",
        ("MessageSizeTooLarge",),
    )
    return flow.topology.privacy.method


# -- disks
# ------------------------------------------------------------


def scratch_full(world: World) -> str:
    """No byte more where a worker has its temporary files: its state is in memory and at the
    broker, so it has to work, to die and to start there. (A device's ledger: `test_client.py`.)
    """
    crew = world.random.choice(world.crews)
    crew.scratch.fill(crew.pids)
    world.pause(1)
    world.end(crew)
    world.start(crew)
    world.pause(4)
    crew.scratch.free()
    return f"crew {crew.number}, {crew.scratch.how}"


def broker_disk_full(world: World) -> str:
    """No byte more where the brokers have their logs: they end, or take nothing, until there is
    room and they are started again.
    """
    ran = world.pids()
    world.disk.fill(ran)
    end = time.time() + 8
    while time.time() < end and all(map(alive, ran)):
        world.pause(0.3)
    ended = sum(not alive(pid) for pid in ran)
    world.disk.free()
    start_brokers(world, again=True)
    must(ended > 0, f"{world.disk.how}, and the brokers minded nothing")
    return f"{world.disk.how}; {ended} of {len(ran)} brokers ended by themselves"


# -- brokers
# ------------------------------------------------------------


def start_brokers(world: World, *, again: bool = False) -> None:
    """Start what is down; ``again``: everything, as a log directory that failed once is not looked
    at any more.
    """
    if again:
        world.server.stop(10)
    for attempt in range(3):
        try:
            world.server.start()
        except Exception:
            if attempt == 2:
                raise
            time.sleep(2)
        else:
            return


def end_node(world: World, node: int, number: int) -> str:
    """End one node and wait until it is gone; whether it took force."""
    pid, forced = world.server.pids()[node], ""
    os.kill(pid, number)
    end = time.time() + 40
    while alive(pid):
        if time.time() > end:
            os.kill(pid, signal.SIGKILL)
            forced = ", by force"
        world.pause(0.1)
    return forced


def bounced(world: World, number: int) -> str:
    """One node ends and comes back."""
    node = world.random.randrange(world.nodes)
    forced = end_node(world, node, number)
    world.pause(1)
    start_brokers(world)
    return f"node {node + 1} of {world.nodes}{forced}"


def broker_restart(world: World) -> str:
    """A broker goes in order and comes back."""
    return bounced(world, signal.SIGTERM)


def broker_kill(world: World) -> str:
    """A broker is gone at once and comes back."""
    return bounced(world, signal.SIGKILL)


def leader(world: World, flow: Flow) -> int:
    """The id of the node that leads partition 0 of a raw topic, as the brokers say; -1 for none, or
    where they do not know the topic yet.
    """
    found = (
        world.admin.list_topics(flow.topology.raw_topic, timeout=10)
        .topics[flow.topology.raw_topic]
        .partitions
    )
    return found[0].leader if 0 in found else -1


def leader_change(world: World) -> str:
    """Who leads a raw log's partition is gone: another replica takes over."""
    flow = world.random.choice(world.flows)
    must(world.until(lambda: leader(world, flow) > 0, 30), "there was no leader to begin with")
    was = leader(world, flow)
    end_node(world, was - 1, signal.SIGKILL)
    changed = world.until(lambda: leader(world, flow) not in (was, -1), 30)
    start_brokers(world)
    must(changed, "no other replica took over")
    return f"from node {was}"


def frozen_broker(world: World, seconds: float = SESSION + 2) -> str:
    """Brokers stand still for longer than a session: requests time out, members are thrown out."""
    pids = world.pids()
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    world.pause(seconds)
    for pid in pids:
        os.kill(pid, signal.SIGCONT)
    return f"{seconds:g} s"


def time_out(world: World) -> str:
    """The same for longer than a worker waits for what it has produced: it ends and is started
    again. Where nothing was under way as they froze, once more.
    """
    marks = world.marks()
    for times in (1, 2, 3):
        frozen_broker(world, 26)
        if world.until(
            lambda: world.heard(
                marks, "ldp-kafka: ", ("did not confirm within", "took nothing for", "Timed out")
            ),
            10,
        ):
            return f"26 s, {times} times"
        world.steady(20)
    raise NotHeld("no worker minded")


# -- state and offsets
# ------------------------------------------------------------


def stop_all(world: World) -> None:
    world.steady(20)
    for crew in world.crews:
        world.leave(crew)


def start_all(world: World) -> None:
    for crew in world.crews:
        world.start(crew)


def changelog(flow: Flow, role: str, name: str) -> TopicSpec:
    topic = next(
        topic
        for topic in flow.topology.topics()
        if topic.name == flow.topology.changelog(role, name)
    )
    return TopicSpec(topic.name, topic.partitions, topic.config)


def read_all(world: World, topic: str) -> list:
    reader = Reader(world.boot, topic, None)
    try:
        return reader.read(30)
    finally:
        reader.consumer.close()


def remake(world: World, spec: TopicSpec, records: list) -> None:
    """Delete a topic and make it anew with these records; the judge gets to see what was in it."""
    flow = next(flow for flow in world.flows if spec.name.startswith(f"{flow.topology.name}-"))
    flow.gone.setdefault(spec.name, []).extend(read_all(world, spec.name))
    for answer in world.admin.delete_topics([spec.name]).values():
        answer.result(30)
    must(
        world.until(lambda: spec.name not in world.admin.list_topics(timeout=10).topics, 30),
        f"{spec.name} did not go",
    )
    for attempt in range(20):
        try:
            admin.ensure({"bootstrap.servers": world.boot}, [spec])
            break
        except Exception:
            if attempt == 19:
                raise
            time.sleep(0.5)
    producer = Producer({"bootstrap.servers": world.boot, "log_level": 0})
    failed: list = []
    for message in records:
        producer.produce(
            spec.name,
            message.value(),
            message.key(),
            message.partition(),
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
    must(producer.flush(30) == 0 and not failed, f"{spec.name} was not written: {failed[:1]}")


def reset(world: World, group: str, offsets: dict[tuple[str, int], int]) -> None:
    """Set a group's offsets; nobody may be in it."""
    consumer = Consumer(
        {"bootstrap.servers": world.boot, "group.id": group, "enable.auto.commit": False}
    )
    try:
        places = [
            TopicPartition(topic, number, offset) for (topic, number), offset in offsets.items()
        ]
        done = world.until(
            lambda: consumer.commit(offsets=places, asynchronous=False) is not None, 40
        )
        must(done, f"the offsets of {group} were not taken")
    finally:
        consumer.close()


def halted(world: World, crew: Crew, words: str) -> None:
    """Start a worker that must refuse."""
    begin = crew.log.stat().st_size
    world.start(crew)
    crew.held = True
    end = time.time() + 60
    while crew.running and time.time() < end:
        time.sleep(0.1)
    said = crew.log.read_bytes()[begin:].decode(errors="replace")
    ended = None if crew.running else crew.process.returncode
    if crew.running:
        world.end(crew)
    must(
        ended == HALT and words in said,
        f"it must halt with {HALT} and say {words!r}: {ended}, {said[-800:]}",
    )


def old_state(world: World) -> str:
    """The changelog of the edge is one of some time ago: the worker must halt. The way out is
    `state rewind`.
    """
    flow = world.random.choice(world.flows)
    topology, spec = flow.topology, changelog(flow, "perturb", "perturb")
    must(world.acknowledged(flow, world.raw_ends(flow)), "the log was not folded")
    old = read_all(world, spec.name)
    marks = world.raw_ends(flow)
    world.pause(3.5)
    must(
        world.acknowledged(flow, {at: offset + 1 for at, offset in marks.items()}),
        "the log was not folded further",
    )
    stop_all(world)
    remake(world, spec, old)
    halted(world, world.crews[0], "was acknowledged: it is an old one")
    plan = rewind(topology, "perturb", do=True, key=read_key(topology.edge.key_file))
    must(bool(plan.moves) and not plan.refusals, f"`state rewind` must find a way back: {plan}")
    start_all(world)
    return topology.privacy.method


def lost_state(world: World) -> str:
    """The changelog of the edge is gone, the group's offsets are not: the worker must halt. The way
    out is to begin at the log's start, which gives the same reports.
    """
    flow = world.random.choice(world.flows)
    topology, spec = flow.topology, changelog(flow, "perturb", "perturb")
    must(world.acknowledged(flow, world.raw_ends(flow)), "the log was not folded")
    stop_all(world)
    remake(world, spec, [])
    halted(world, world.crews[0], "the changelog holds no complete state")
    reset(
        world,
        topology.group("perturb"),
        {(topology.raw_topic, number): 0 for number in range(topology.input.partitions)},
    )
    start_all(world)
    return topology.privacy.method


def altered_state(world: World) -> str:
    """Somebody changes a bit of a sealed record of the edge, or lays one where another was: the
    worker must halt. The way out is the changelog as it was.
    """
    flow = world.random.choice(world.flows)
    spec = changelog(flow, "perturb", "perturb")
    must(world.acknowledged(flow, world.raw_ends(flow)), "the log was not folded")
    stop_all(world)
    held = {m.key(): m for m in read_all(world, spec.name)}
    sealed = [m for m in held.values() if m.value() and b"/meta/" not in m.key()]
    one, other = world.random.sample(sealed, 2)
    value = bytearray(one.value())
    value[-world.random.randrange(1, 40)] ^= 1 << world.random.randrange(8)
    name, written, says = world.random.choice(
        [("altered", bytes(value), "was altered"), ("moved", other.value(), "was moved")]
    )
    flow.forged.add((one.key(), written))
    world.write(spec.name, one.partition(), one.key(), written)
    halted(world, world.crews[0], says)
    world.write(spec.name, one.partition(), one.key(), one.value())
    start_all(world)
    return f"{flow.topology.privacy.method}: {name}"


def wrong_key(world: World) -> str:
    """A machine comes back with another key, over a state and, at times, with nothing to read: its
    workers must halt. The way out is the old file.
    """
    flow = world.random.choice(world.flows)
    file = flow.path.with_suffix(".key")
    must(world.acknowledged(flow, world.raw_ends(flow)), "the log was not folded")
    stop_all(world)
    before = file.read_bytes()
    file.write_bytes(world.random.randbytes(32))
    halted(world, world.crews[0], "written under another key")
    file.write_bytes(before)
    start_all(world)
    return flow.topology.privacy.method


def rotated(world: World) -> str:
    """All workers are stopped, the key of a topology is rotated, all are started again."""
    flow = world.random.choice(world.flows)
    must(world.acknowledged(flow, world.raw_ends(flow)), "the log was not folded")
    stop_all(world)
    done = rotate([flow.topology], do=True)
    start_all(world)
    return f"{flow.topology.privacy.method}, {len(read_key(done.file).later)}"


def offsets_reset(world: World, state: bool) -> str:
    """A group is told to begin again at 0, with its state or without."""
    flow = world.random.choice(world.flows)
    role = world.random.choice(flow.topology.roles)
    stop_all(world)
    if not state:
        for agent in role.agents:
            remake(world, changelog(flow, role.name, agent.name), [])
    reset(
        world,
        role.group,
        {(place.topic, place.partition): 0 for of, place in world.logs(flow) if of == role.group},
    )
    start_all(world)
    return f"{flow.topology.privacy.method} {role.name}"


def offsets_reset_with_state(world: World) -> str:
    """The state covers what comes again: nothing is said twice."""
    return offsets_reset(world, True)


def offsets_reset_without_state(world: World) -> str:
    """Everything is folded again, byte for byte."""
    return offsets_reset(world, False)


# -- rounds
# ------------------------------------------------------------


def slots_pass(world: World, count: int) -> None:
    """Wait until the input has so many more, and it has arrived."""
    slot = world.feed.slot + count
    must(world.until(lambda: world.feed.slot >= slot, 60 + 2 * count), "there was no input")
    for flow in world.flows:
        must(flow.producer.flush(30) == 0, "the broker did not take the input")


def goes_on(world: World) -> None:
    """Wait until slots are released that came after now."""
    slot = START + world.feed.slot

    for flow in world.asked:
        reader = Reader(world.boot, flow.topology.releases_topic, None)

        def on(reader: Reader = reader) -> bool:
            found = [m.value() for m in reader.read(30) if not header(m.value())]
            return any(json.loads(value)["slot"] >= slot for value in found)

        try:
            must(world.until(on, 90), f"{flow.topology.privacy.method} did not go on")
        finally:
            reader.consumer.close()


def coordinator_away(world: World) -> str:
    """Nobody coordinates for ten slots; what has passed its hold by then cannot be asked for."""
    stop_all(world)
    for crew in world.crews:
        world.start(crew, away="coordinate")
    slots_pass(world, 10)
    stop_all(world)
    start_all(world)
    goes_on(world)
    return ", ".join(flow.topology.privacy.method for flow in world.asked)


def backlog(world: World) -> str:
    """Nobody works while fifty slots come; then they lie there, all at once."""
    stop_all(world)
    world.feed.disturb(ahead=50)
    slots_pass(world, 50)
    start_all(world)
    goes_on(world)
    return "50 slots"


def quiet_partition(world: World) -> str:
    """One partition has no values for a while, but the ticks of somebody's clock."""
    world.feed.disturb(quiet=6)
    slots_pass(world, 6)
    return "6 slots"


def forwarder_killed(world: World) -> str:
    """A worker is killed when a request is in one partition, and in no other."""
    flow = world.random.choice(world.asked)
    between = Path(f"{world.between}-{flow.topology.name}")
    between.touch()
    killed = world.until(lambda: not between.exists(), 45)
    between.unlink(missing_ok=True)
    must(killed, "nobody forwarded anything")
    return flow.topology.privacy.method


def asked_again(world: World) -> str:
    """All requests are forwarded once more: the group begins at the topic's start, and knows
    nothing of what it had forwarded.
    """
    flow = world.random.choice(world.asked)
    forward = flow.topology.role("perturb").forward
    stop_all(world)
    reset(world, forward.group, {(forward.reads.name, 0): 0})
    start_all(world)
    return flow.topology.privacy.method


def hostile_server(world: World) -> str:
    """Whoever has the server writes where it may, into the topics of requests and of sums: requests
    again and in another order, of other users, budgets and phases, of slots that it has no sums of,
    and what is no request; sums again that it has used.
    """
    flow, rnd = world.random.choice(world.asked), world.random
    terms, topology = flow.topology.method.protocol.terms, flow.topology
    wait = world.until(lambda: len(read_all(world, topology.requests_topic)) > 6, 60)
    must(wait, "nothing was asked")
    old = [m.value() for m in read_all(world, topology.requests_topic) if not header(m.value())]
    now = START + world.feed.slot
    costs = (terms.second, terms.second // 2, terms.budget, terms.budget + 1, 1, -1, 2**40)
    made = [
        *rnd.sample(old, min(5, len(old))),
        *(
            encode_json(Request(rnd.choice(("x" * 150, "9/1")), slot, phase, cost, slot, *fraction))
            for slot in (now - 4, now - 3, now - 2, now - 1, now, now + 1)
            for phase, cost, fraction in [
                (rnd.choice((1, 1, 1, 1, 0, 2)), rnd.choice(costs), rnd.choice(((1, 1), (1, 2))))
            ]
        ),
        b"{}",
        b"\xff" * 40,
        rnd.choice(old)[:-1],
    ]
    rnd.shuffle(made)
    for value in made:
        flow.forged.add((b"forged", value))
        world.write(topology.requests_topic, 0, b"forged", value)
    sums = [m.value() for m in read_all(world, topology.sums_topic) if not header(m.value())]
    for value in [*rnd.sample(sums[:-20], min(5, len(sums[:-20]))), b"{}"]:
        flow.forged.add((b"forged", value))
        world.write(topology.sums_topic, 0, b"forged", value)
    return flow.topology.privacy.method


DISTURBS = {
    *(sigkill, machine_dies, kill_both, zombie, leave, join, other_cpu, scratch_full),
    *(broker_restart, broker_kill, leader_change, frozen_broker, time_out, broker_disk_full),
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
THREE_NODES: list[Fault] = [
    forwarder_killed,
    *(sigkill,) * 2,
    *(leader_change,) * 3,
    machine_dies,
    broker_restart,
    broker_kill,
    zombie,
    other_cpu,
    clock_step,
    duplicated,
    reordered,
    produce_error,
]
LONG: list[Fault] = [time_out, *(sigkill,) * 8, *(leave, join) * 2]
"""What the long run has beside: they take long, or come often there."""
