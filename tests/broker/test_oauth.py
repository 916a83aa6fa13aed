"""OAUTHBEARER on a real broker that verifies tokens: every role, with tokens that expire and
sessions that end while they work. The collector's side logs in with a client's id and secret, the
edge's as with Amazon MSK.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ldp_kafka.runtime.device.producer import device_producer
from tests.broker.flow import Flow
from tests.broker.oauth import LIBRDKAFKA, LOGIN, OIDC, TLS, bearer_broker

LIFETIME, SESSION = 10.0, 5.0  # seconds
LONG = 600.0
REPO = Path(__file__).parents[2]

AMAZONS = "aws_msk_iam_sasl_signer"
# What stands in for Amazon's signer: it makes what this broker takes, and a line each time
SIGNER = f"""
import os, time

class MSKAuthTokenProvider:
    @staticmethod
    def generate_auth_token_from_profile(region, profile):
        with open(os.environ["TEST_SIGNED"], "a") as out:
            print(region, profile, file=out)
        return os.environ["TEST_TOKEN"], int((time.time() + {LIFETIME}) * 1000)
"""
MSK = (
    "sasl.oauthbearer.method: msk-iam\nsasl.oauthbearer.config: region=eu-central-1,profile=meters"
)


@pytest.fixture(scope="module")
def bearer(can_start, tmp_path_factory):
    with bearer_broker(tmp_path_factory.mktemp("oauth"), LIFETIME, SESSION) as made:
        yield made


@pytest.fixture(scope="module")
def signed(bearer, tmp_path_factory):
    """A file with a line for each token that was signed."""
    folder = tmp_path_factory.mktemp("signer")
    (folder / f"{AMAZONS}.py").write_text(SIGNER)
    with pytest.MonkeyPatch.context() as patch:
        patch.delitem(sys.modules, AMAZONS, raising=False)
        patch.syspath_prepend(folder)
        patch.setenv("PYTHONPATH", str(folder))
        patch.setenv("TEST_TOKEN", bearer.issuer.token("edge", LONG))
        patch.setenv("TEST_SIGNED", str(folder / "signed"))
        yield folder / "signed"


@pytest.fixture(scope="module")
def flow(bearer, signed, tmp_path_factory):
    """A topology; no worker runs."""
    made = Flow(
        bearer.plain,
        tmp_path_factory.mktemp("flow"),
        "test-oauth-" + random.SystemRandom().randbytes(6).hex(),
        text=bearer.text(TLS, edge=MSK, collector=OIDC + LOGIN),
        ready=lambda topology, _: bearer.ready(topology.file),
    )
    yield made
    made.close()


def run(path: Path, role: str, **more) -> subprocess.Popen:
    """A worker that imports what this test puts in its way."""
    words = [sys.executable, "-m", "ldp_kafka", "run", str(path), "--role", role]
    return subprocess.Popen(words, cwd=REPO, **more)


def test_workers_whose_tokens_expire(bearer, flow, signed):
    """All arrives, though no session lasts longer than a few seconds, and the endpoint is away for
    longer than the last token holds. Clients of both logins have new ones as they go on; no log has
    any.
    """
    for role in ("perturb", "collect"):
        flow.workers.append((role, run(flow.path, role, stdout=flow.log, stderr=flow.log)))
    rnd, slots = random.Random(1), 5
    for number in range(slots):
        flow.slot(rnd, number, 60)
    flow.until_acknowledged()
    bearer.issuer.issued.clear()
    before, until = len(signed.read_text().splitlines()), time.time() + 60
    bearer.issuer.away = {LIBRDKAFKA}
    time.sleep(LIFETIME)
    bearer.issuer.away = set()
    while not (
        ("collector", LIBRDKAFKA) in bearer.issuer.issued
        and len(signed.read_text().splitlines()) > before
    ):
        assert time.time() < until, bearer.issuer.issued
        flow.slot(rnd, slots, 60)
        slots += 1
        time.sleep(1)
    flow.finish(slots)
    verdict = flow.settled()
    flow.stop()
    assert verdict.clean and verdict.reports > 200 and verdict.releases > 5, verdict
    assert {*signed.read_text().splitlines()} == {"eu-central-1 meters"}
    log = flow.log_path.read_text()
    assert "-secret" not in log, "a client's secret"
    assert "eyJ" not in log, "a token"


def test_a_device_logs_in_so_too(flow):
    """It has the edge's login, and writes where that may."""
    told = []
    producer = device_producer(flow.topology)
    topic = flow.topology.dead_letters_topic
    producer.produce(topic, value=b"{}", partition=0, on_delivery=lambda *said: told.append(said))
    until = time.time() + 20
    while not told and time.time() < until:
        producer.poll(0.1)
    assert [error for error, _ in told] == [None]


@pytest.mark.parametrize(
    ("right", "wrong", "code", "said"),
    [
        ("collector-secret", "wrong-word", 2, "are sasl.oauthbearer.client.id and sasl.oauthb"),
        ("https.ca.location:", "client.id:", 2, "do https.ca.location or https.ca.pem name who"),
        ("https://localhost:", "https://localhost:1/", 75, "does not answer (Connection refused)"),
    ],
)
def test_a_login_that_cannot_be_had(bearer, flow, tmp_path, right, wrong, code, said):
    """It says which option is wrong, without the secret; that an endpoint is away is no fault of
    theirs.
    """
    path, text = tmp_path / "other.yaml", flow.path.read_text()
    assert right in text
    path.write_text(text.replace(right, wrong))
    with run(path, "collect", stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        out, error = process.communicate(timeout=60)
    assert process.returncode == code, error
    assert said in error and bearer.address in error
    assert "wrong-word" not in out + error and "collector-secret" not in out + error
