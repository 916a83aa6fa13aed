"""`ldp-kafka audit` of two topics of reports on a real broker."""

from __future__ import annotations

import json

import numpy as np
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

import ldp_kafka as lk
from ldp_kafka.cli import main
from ldp_kafka.records import Reports
from ldp_kafka.runtime.wire.reports import write_reports

REPORTS = 40_000


def test_two_topics(kafka, prefix, capsys):
    """Batches, from every partition, up to the present end: what the mechanism claims holds, half
    of it does not.
    """
    client, mechanism = (
        AdminClient({"bootstrap.servers": kafka}),
        lk.mechanism("grr", epsilon=2.0, categories=4),
    )
    names = [f"{prefix}-{x}.reports" for x in (0, 1)]
    for made in client.create_topics([NewTopic(name, 2, 1) for name in names]).values():
        made.result(20)
    producer = Producer({"bootstrap.servers": kafka})
    ids = np.random.default_rng(1).integers(0, 2**63, (2000, 2)).astype(np.uint64)
    for x, name in enumerate(names):
        values = mechanism.perturb(np.full(REPORTS, x), lk.randomness.system())
        for offset, part in enumerate(np.split(values, REPORTS // 2000)):
            batch = Reports(ids, np.full(2000, 5), part, 1.0, "00" * 16, offset, None)
            producer.produce(name, write_reports(batch), partition=offset % 2)
    producer.flush(30)
    words = ["audit", "--topics", *names, "--bootstrap-servers", kafka, "--json"]
    words += ["--alpha", "1e-6"]
    assert main([*words, "--epsilon", "2"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert 1.7 < found["epsilon_lower"] <= 2
    assert main([*words, "--epsilon", "1"]) == 1
    capsys.readouterr()
    assert (
        main(
            [
                "audit",
                "--topics",
                names[0],
                f"{prefix}-none",
                "--bootstrap-servers",
                kafka,
                "--epsilon",
                "1",
            ]
        )
        != 0
    )
    assert "no topic" in capsys.readouterr().err
