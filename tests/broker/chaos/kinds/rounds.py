"""Faults of rounds: what can come between a request and its answers."""

from __future__ import annotations

import json
from pathlib import Path

from ldp_kafka.records import Request
from ldp_kafka.runtime.wire.records import encode_json
from tests.broker.asking import append, everything, header
from tests.broker.chaos.fault import must
from tests.broker.chaos.kinds.state import reset, start_all, stop_all
from tests.broker.chaos.kinds.workers import disturbed, slots_pass
from tests.broker.chaos.world import ChaosWorld
from tests.broker.feed import START


def goes_on(world: ChaosWorld) -> None:
    """Wait until slots are released that came after now."""
    slot = START + world.feed.slot

    for flow in (*world.asked, *world.curated):

        def on(topic: str = flow.topology.releases_topic) -> bool:
            return any(json.loads(value)["slot"] >= slot for value in said(world, topic))

        must(world.until(on, 90), f"{flow.topology.privacy.method} did not go on")


def said(world: ChaosWorld, topic: str) -> list[bytes]:
    """All that was ever written, without headers."""
    return [m.value() for m in everything(world.boot, topic) if not header(m.value())]


def coordinator_away(world: ChaosWorld) -> str:
    """Nobody coordinates for ten slots; what has passed its hold by then cannot be asked for."""
    stop_all(world)
    for crew in world.crews:
        crew.start(away="coordinate")
    slots_pass(world, 10)
    stop_all(world)
    start_all(world)
    goes_on(world)
    return ", ".join(flow.topology.privacy.method for flow in world.asked)


def backlog(world: ChaosWorld) -> str:
    """Nobody works while fifty slots come; then they lie there, all at once."""
    stop_all(world)
    what = disturbed(world, 50, ahead=50)
    start_all(world)
    goes_on(world)
    return what


def forwarder_killed(world: ChaosWorld) -> str:
    """A worker is killed when a request is in one partition, and in no other."""
    flow = world.random.choice(world.asked)
    between = Path(f"{world.crews[0].between}-{flow.topology.name}")
    between.touch()
    killed = world.until(lambda: not between.exists(), 120)
    between.unlink(missing_ok=True)
    must(killed, "nobody forwarded anything")
    return flow.topology.privacy.method


def asked_again(world: ChaosWorld) -> str:
    """All requests are forwarded once more: the group begins at the topic's start, and knows
    nothing of what it had forwarded.
    """
    flow = world.random.choice(world.asked)
    forward = flow.topology.role("perturb").forward
    stop_all(world)
    reset(world, flow, forward.group)
    start_all(world)
    return flow.topology.privacy.method


def hostile_server(world: ChaosWorld) -> str:
    """Whoever has the server writes where it may, into the topics of requests and of sums: requests
    again and in another order, of other users, budgets and phases, of slots that it has no sums of,
    and what is no request; sums again that it has used.
    """
    flow, rnd = world.random.choice(world.asked), world.random
    terms, topology = flow.topology.method.protocol.terms, flow.topology
    asked = lambda: said(world, topology.requests_topic)  # noqa: E731
    must(world.until(lambda: len(asked()) > 5, 60), "nothing was asked")
    old, sums = asked(), said(world, topology.sums_topic)[:-20]
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
    again = [*rnd.sample(sums, min(5, len(sums))), b"{}"]
    for topic, values in ((topology.requests_topic, made), (topology.sums_topic, again)):
        flow.forged |= {(b"forged", value) for value in values}
        append(world.boot, topic, *((0, b"forged", value) for value in values))
    return flow.topology.privacy.method
