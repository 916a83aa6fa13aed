"""Single events at a steady rate, an open loop: each is sent when it is due, whoever keeps up with
it or not. ``python -m tests.bench.generator BOOTSTRAP TOPIC RATE SECONDS USERS FILE`` writes the
moment at which each was sent into FILE (``-``: nowhere), and prints how late they were as JSON.
"""

from __future__ import annotations

import json
import sys
import time
from array import array
from collections.abc import Callable, Iterator

import numpy as np
from confluent_kafka import Producer

LINGER = 1  # milliseconds
REST = 0.001  # seconds that it sleeps at least where nothing is due
ROOM = 2_000_000  # messages that the client may hold


def due(
    rate: float,
    total: int,
    late: array,
    now: Callable[[], float] = time.time,
    sleep: Callable[[float], object] = time.sleep,
) -> Iterator[int]:
    """The number of each event when it is due; notes how many seconds late the first one of each
    burst is.
    """
    begin, count = now(), 0
    while count < total:
        passed = now() - begin
        burst = min(int(passed * rate) + 1, total)
        if burst <= count:
            sleep(max(count / rate - passed, REST))
            continue
        late.append(passed - count / rate)
        yield from range(count, burst)
        count = burst


def message(number: int, users: int, seconds: float) -> tuple[bytes, bytes]:
    """(key, value): users take turns."""
    user = f"meter-{number % users:06d}"
    text = f'{{"user":"{user}","time":{int(seconds * 1000)},"value":{number * 7 % 100}.5}}'
    return user.encode(), text.encode()


def lateness(late: array) -> dict[str, float]:
    """Milliseconds."""
    p50, p99, most = 1000 * np.percentile(late, (50, 99, 100))
    return {"p50": p50, "p99": p99, "most": most}


def main(boot: str, topic: str, rate: float, seconds: float, users: int, file: str) -> None:
    producer = Producer(
        {
            "bootstrap.servers": boot,
            "linger.ms": LINGER,
            "enable.idempotence": True,  # offsets follow the numbers
            "queue.buffering.max.messages": ROOM,
        }
    )
    producer.list_topics(topic, timeout=15)  # connected before the first is due
    late, sent, keep = array("d"), array("d"), file != "-"
    for number in due(rate, int(rate * seconds), late):
        moment = time.time()
        key, value = message(number, users, moment)
        while True:
            try:
                producer.produce(topic, value, key, partition=0)
                break
            except BufferError:
                producer.poll(0.01)
        producer.poll(0)
        if keep:
            sent.append(moment)
    if producer.flush(60):
        raise RuntimeError("the broker did not take the input")
    if keep:
        np.asarray(sent).tofile(file)
    print(json.dumps({"events": int(rate * seconds), **lateness(late)}))


if __name__ == "__main__":
    at, into, *numbers, path = sys.argv[1:7]
    main(at, into, float(numbers[0]), float(numbers[1]), int(numbers[2]), path)
