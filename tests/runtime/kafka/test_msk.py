"""Tokens for Amazon MSK: Amazon's signer is asked for what the topology says, and signs without a
network; what fails is said without what it holds.
"""

from __future__ import annotations

import base64
import sys
import time
from urllib.parse import parse_qs, urlsplit

import pytest

from ldp_kafka.errors import BrokerError, ConfigurationError
from ldp_kafka.runtime.kafka.msk import CONFIG, problem, signed
from ldp_kafka.runtime.kafka.oauth import for_librdkafka, tokens_of
from tests import needs

signer = needs.package("aws_msk_iam_sasl_signer.MSKAuthTokenProvider")
SECRET = "s3cret-of-amazon"
REGION = {CONFIG: "region=eu-central-1"}
MSK = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.method": "msk-iam",
}


@pytest.fixture
def login(monkeypatch, tmp_path):
    """Credentials in the environment and in a profile; no metadata service."""
    (tmp_path / "credentials").write_text(
        f"[meters]\naws_access_key_id = AKIDMETERS\naws_secret_access_key = {SECRET}\n"
    )
    for name, value in {
        "AWS_ACCESS_KEY_ID": "AKIDHERE",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "credentials"),
        "AWS_CONFIG_FILE": str(tmp_path / "none"),
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_DEFAULT_PROFILE"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("login")
@pytest.mark.parametrize(
    ("config", "who"),
    [
        ("region=eu-central-1", "AKIDHERE"),
        ("region=eu-central-1,profile=meters", "AKIDMETERS"),
    ],
)
def test_a_signed_address(config, who):
    """What a broker of MSK looks at: the action, the region, who signs, and for how long."""
    token = signed({CONFIG: config})
    assert 800 < token.seconds <= 900
    address = base64.urlsafe_b64decode(token.text + "=" * (-len(token.text) % 4)).decode()
    asked = parse_qs(urlsplit(address).query)
    assert urlsplit(address).netloc == "kafka.eu-central-1.amazonaws.com"
    assert asked["Action"] == ["kafka-cluster:Connect"]
    assert asked["X-Amz-Credential"][0].startswith(f"{who}/")
    assert asked["X-Amz-Expires"] == ["900"]
    assert SECRET not in address


def test_a_role_is_assumed(monkeypatch):
    told = []
    until = int((time.time() + 900) * 1000)
    monkeypatch.setattr(
        signer,
        "generate_auth_token_from_role_arn",
        lambda *given: told.append(given) or ("token", until),
    )
    arn = "arn:aws:iam::1:role/meters"
    assert signed({CONFIG: f"region=us-east-1,role_arn={arn}"}).text == "token"
    assert told == [("us-east-1", arn)]


@pytest.mark.usefixtures("login")
def test_it_is_given_to_librdkafka():
    """Whose config has no word of ours."""
    client = {**MSK, **REGION, "linger.ms": "5"}
    settings = for_librdkafka(client)
    text, until = settings.pop("oauth_cb")(client[CONFIG])
    assert text == tokens_of(client).get() and 800 < until - time.time() <= 900
    assert settings == {
        name: value for name, value in client.items() if name != "sasl.oauthbearer.method"
    }


def test_no_credentials(login, monkeypatch):
    """Before a client is made, which would wait for ten seconds and not say why."""
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    begin = time.monotonic()
    with pytest.raises(ConfigurationError, match=r"no credentials .* sts get-caller-identity"):
        for_librdkafka({**MSK, CONFIG: "region=eu-west-3"})
    with pytest.raises(ConfigurationError, match="ProfileNotFound"):
        for_librdkafka({**MSK, CONFIG: "region=eu-west-3,profile=nobody"})
    assert time.monotonic() - begin < 10


def test_who_gives_credentials_is_away(monkeypatch):
    from botocore.exceptions import ClientError, EndpointConnectionError

    def fails(error):
        def raises(*_):
            raise error

        monkeypatch.setattr(signer, "generate_auth_token", raises)

    for error, kind, words in (
        (EndpointConnectionError(endpoint_url=SECRET), BrokerError, "EndpointConnectionError"),
        (refusal(ClientError, "Throttling"), BrokerError, "Throttling"),
        (refusal(ClientError, "AccessDenied"), ConfigurationError, "AccessDenied"),
        (ValueError(SECRET), ConfigurationError, "ValueError"),
    ):
        fails(error)
        with pytest.raises(kind, match=words) as caught:
            signed(REGION)
        assert SECRET not in str(caught.value)


def refusal(kind, code):
    return kind({"Error": {"Code": code, "Message": SECRET}}, "AssumeRole")


def test_without_the_extra(monkeypatch):
    """It says what to install; nothing else needs it."""
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", None)
    monkeypatch.setattr("ldp_kafka.runtime.kafka.msk.find_spec", lambda _: None)
    with pytest.raises(ConfigurationError, match=r"pip install '\.\[msk\]'"):
        signed(REGION)
    monkeypatch.setattr("ldp_kafka.runtime.kafka.installed.version", lambda _: "2.12.1")
    with pytest.raises(ConfigurationError, match=r"confluent-kafka 2\.13 or later, found 2\.12:"):
        signed(REGION)


@pytest.mark.parametrize(
    "config",
    [
        "",
        "eu-central-1",
        "region=Frankfurt",
        "profile=meters",
        "region=eu-central-1,rolearn=x",
        "region=eu-central-1,profile=a,role_arn=b",
    ],
)
def test_what_the_option_must_be(config):
    assert problem({CONFIG: config})
    with pytest.raises(ConfigurationError, match="must "):  # where nobody has looked at options
        for_librdkafka({**MSK, CONFIG: config})
    assert not problem({CONFIG: "region=us-gov-west-1, role_arn=arn:aws:iam::1:role/x"})
