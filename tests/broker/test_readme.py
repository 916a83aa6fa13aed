"""The lines of README and of how-to/own-topic.md, pasted into one shell: from a topology to
releases on the embedded broker.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from ldp_kafka.runtime.wire.codec import decode
from ldp_kafka.topology import load
from tests.deploy.code_blocks import ROOT, blocks

HERE = Path(__file__).relative_to(ROOT).as_posix()
SLOTS, CLOSED = 24, 20  # in the file that is replayed, and at least released of them


def steps(page, language):
    """The fenced blocks that a page leaves to this file, in their order."""
    found = [each for each in blocks(ROOT / page) if each.language == language]
    return [each.text for each in found if each.elsewhere == HERE]


def shell(folder):
    """A bash in which ``ldp-kafka`` is what is tested; no other broker of this machine is seen."""
    program = folder / "bin" / "ldp-kafka"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m ldp_kafka "$@"\n')
    program.chmod(0o700)
    left_out = {"LDP_KAFKA_BOOTSTRAP", "LDP_KAFKA_EDGE_KEY", "LDP_KAFKA_EDGE_KEY_FILE"}
    return {
        **{name: value for name, value in os.environ.items() if name not in left_out},
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "XDG_RUNTIME_DIR": str(folder),
    }


def means(address):
    """The slots of which a mean was released: read until there are enough, for a minute."""
    consumer = Consumer(
        {"bootstrap.servers": address, "group.id": "reader", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["smart-meters.releases"])
    found, until = {}, time.monotonic() + 60
    while len(found) < CLOSED and time.monotonic() < until:
        message = consumer.poll(0.5)
        if message is not None and not message.error():
            found |= {one.slot: one for one in decode(message.value()) if one.statistic == "mean"}
    consumer.close()
    return found


@pytest.mark.parametrize("page", ["README.md", "deploy/docs/pages/how-to/own-topic.md"])
def test_a_page_is_pasted_line_by_line(page, tmp_path):
    """Nothing blocks, nothing fails, and releases come that are right."""
    (text,) = steps(page, "yaml")
    (tmp_path / "meters.yaml").write_text(text)
    *lines, follow = (block for block in steps(page, "sh") if "activate" not in block)
    assert follow.count(" --follow\n") == 1  # which ends with Ctrl-C
    shown = follow.replace(" --follow", "")
    script = f"set -e\n{''.join(lines)}head -1 run.log\nread -r\n{shown}kill %1\nwait\n"
    with subprocess.Popen(
        ["bash", "-c", script],
        cwd=tmp_path,
        env=shell(tmp_path),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as done:
        said = ""
        for line in done.stdout:
            said += line
            if match := re.match(r"embedded broker: ([0-9.:]+)", line):
                found = means(match[1])
                break
        else:
            raise AssertionError(said[-2000:])
        table, _ = done.communicate("\n", timeout=60)
    assert len(found) >= CLOSED
    assert {one.reports for one in found.values()} == {500}
    assert table.count(" 500 ") >= CLOSED and "95 % interval" in table
    assert load(tmp_path / "meters.yaml").name == "smart-meters"
    assert all(abs(one.value - 2500) < 6 * one.standard_error for one in found.values())
