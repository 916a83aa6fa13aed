"""Certificates that are renewed while a worker runs."""

from __future__ import annotations

import pytest

from ldp_kafka.errors import BrokerError
from ldp_kafka.runtime.worker.certificates import Certificates


@pytest.fixture
def files(tmp_path):
    """The files of two sides, and what has read them."""
    for name in ("ca.pem", "own.pem", "own.key"):
        (tmp_path / name).write_text(name)
    edge = {
        "bootstrap.servers": "b:1",
        "ssl.ca.location": str(tmp_path / "ca.pem"),
        "ssl.certificate.location": str(tmp_path / "own.pem"),
        "ssl.key.pem": "-----",
    }
    collector = {"ssl.key.location": str(tmp_path / "own.key"), "ssl.ca.location": "probe"}
    return tmp_path, Certificates([edge, collector])


def test_files_that_are_what_they_were_end_nothing(files):
    files[1].check()


@pytest.mark.parametrize("name", ["ca.pem", "own.pem", "own.key"])
def test_one_that_was_renewed_asks_for_a_new_process(files, name):
    """Whatever side it is of; written anew, or another one in its place."""
    folder, made = files
    (folder / "new").write_text("new")
    (folder / "new").rename(folder / name)
    with pytest.raises(BrokerError, match=f"{name} was renewed"):
        made.check()


def test_a_link_to_another_file_is_a_renewal(files):
    """As where Kubernetes mounts a secret."""
    folder, _ = files
    (folder / "link").symlink_to(folder / "ca.pem")
    made = Certificates([{"ssl.ca.location": str(folder / "link")}])
    made.check()
    (folder / "link").unlink()
    made.check()  # a new process could not read it
    (folder / "link").symlink_to(folder / "own.pem")
    with pytest.raises(BrokerError, match="link was renewed"):
        made.check()
