"""The floor: consume, copy, produce the same bytes, with confluent-kafka and nothing else. ``python
-m tests.bench.raw_loop BOOTSTRAP FROM TO COUNT PASSES``
"""

from __future__ import annotations

import sys
import time

import numpy as np
from confluent_kafka import Consumer, Producer, TopicPartition


def main(boot: str, source: str, target: str, count: int, passes: int) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": boot,
            "group.id": f"{target}-raw",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    producer = Producer(
        {"bootstrap.servers": boot, "linger.ms": 5, "queue.buffering.max.kbytes": 262144}
    )
    for _ in range(passes):  # over an input that is short for it
        consumer.assign([TopicPartition(source, 0, 0)])
        done = 0
        while done < count:
            for message in consumer.consume(min(1000, count - done), 1.0):
                value = message.value()
                np.frombuffer(value, np.uint8).copy()
                while True:
                    try:
                        producer.produce(target, value=value, partition=0)
                        break
                    except BufferError:
                        producer.poll(0.05)
                done += 1
            producer.poll(0)
    producer.flush(60)
    time.sleep(600)  # until it is told to stop


if __name__ == "__main__":
    main(*sys.argv[1:4], *map(int, sys.argv[4:6]))
