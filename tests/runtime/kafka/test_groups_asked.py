"""A question about a group whose coordinator is found too late. In a process of its own: librdkafka
may end it.
"""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest
from confluent_kafka import libversion

PROGRAM = """
import ctypes, sys, time
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from ldp_kafka.runtime.brokers.embedded import EmbeddedBroker
from ldp_kafka.runtime.brokers.librdkafka import librdkafka
from ldp_kafka.runtime.kafka.admin.asking import describe_groups

FIND_COORDINATOR = 10  # the request's number
push = librdkafka().rd_kafka_mock_push_request_errors_array
ints = ctypes.c_int * 1
push.restype = None
push.argtypes = [ctypes.c_void_p, ctypes.c_int16, ctypes.c_size_t, ctypes.POINTER(ctypes.c_int)]

def given_up(client, groups, seconds):
    client.describe_consumer_groups(groups, request_timeout=seconds)[groups[0]].result()

with EmbeddedBroker() as broker:
    client = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    client.list_topics(timeout=10)
    push(broker._running(), FIND_COORDINATOR, 1, ints(KafkaError.COORDINATOR_NOT_AVAILABLE))
    try:
        {"waited": describe_groups, "given up": given_up}[sys.argv[1]](client, ["a group"], 0.02)
    except KafkaException as error:
        print(error.args[0].name(), flush=True)
    time.sleep(2)  # the coordinator is found
    del client
    print("ended in order")
"""


@pytest.mark.parametrize(
    ("how", "code", "said"),
    [
        ("waited", 0, b"_TIMED_OUT\nended in order\n"),
        pytest.param(
            "given up",
            -signal.SIGABRT,
            b"_TIMED_OUT\n",
            id="the twin crashes",
            marks=pytest.mark.skipif(
                libversion()[1] > 0x021000FF, reason="a librdkafka newer than 2.16 may be mended"
            ),
        ),
    ],
)
def test_who_asks_about_a_group_survives_its_coordinator(how, code, said):
    for _ in range(9):  # it may be answered in time
        made = subprocess.run(
            [sys.executable, "-c", PROGRAM, how], capture_output=True, timeout=60, check=False
        )
        if made.stdout.startswith(b"_TIMED_OUT"):
            break
    assert (made.returncode, made.stdout) == (code, said)
