"""Topologies for Confluent Cloud and Amazon MSK are valid, with their variables set or not; what is
misspelt or half given is named, with its file, its line, and what to write.
"""

from __future__ import annotations

import re

import pytest

from ldp_kafka.cli import main
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.runtime.kafka.oauth import for_librdkafka
from ldp_kafka.topology import load
from tests.cases import cases

TEXT = """\
topology: t
kafka:
  bootstrap_servers: {brokers}
  client:
{options}
input: {{slot: 1h}}
privacy: {{method: sw_direct, epsilon: 1.0, window: 3, domain: [0, 10]}}
output: {{statistics: [mean]}}
"""
SASL = "security.protocol: SASL_SSL"
API_KEY = [
    SASL,
    "sasl.mechanisms: PLAIN",
    "sasl.username: ${CLUSTER_KEY}",
    "sasl.password: ${CLUSTER_SECRET}",
]
OAUTH = [
    SASL,
    "sasl.mechanisms: OAUTHBEARER",
    "sasl.oauthbearer.method: oidc",
    "sasl.oauthbearer.client.id: ${CLIENT_ID}",
    "sasl.oauthbearer.client.secret: ${CLIENT_SECRET}",
    "sasl.oauthbearer.token.endpoint.url: https://login.example/oauth2/token",
    "sasl.oauthbearer.scope: api://kafka/.default",
    "sasl.oauthbearer.extensions: logicalCluster=lkc-abc123,identityPoolId=pool-xyz9",
]
SCRAM = [
    SASL,
    "sasl.mechanism: SCRAM-SHA-512",
    "sasl.username: ${MSK_USER}",
    "sasl.password: ${MSK_PASSWORD}",
]
IAM = [
    SASL,
    "sasl.mechanism: OAUTHBEARER",
    "sasl.oauthbearer.method: msk-iam",
    "sasl.oauthbearer.config: region=eu-central-1",
]
CONFLUENT = "pkc-12345.eu-central-1.aws.confluent.cloud:9092"
MSK = "b-1.meters.abc.c2.kafka.eu-central-1.amazonaws.com:9096"


def written(tmp_path, options, brokers=CONFLUENT):
    path = tmp_path / "t.yaml"
    lines = "\n".join(f"    {option}" for option in options)
    path.write_text(TEXT.format(brokers=brokers, options=lines))
    return path


@pytest.mark.parametrize("known", [True, False])
@cases(
    ("brokers", "options"),
    [
        (CONFLUENT, API_KEY),
        (CONFLUENT, OAUTH),
        (MSK, SCRAM),
        (MSK, IAM),
        (MSK, [*IAM[:-1], "sasl.oauthbearer.config: 'region=eu-west-1, profile=meters'"]),
    ],
)
def test_what_such_services_need_is_valid(brokers, options, known, tmp_path, monkeypatch, capsys):
    path = written(tmp_path, options, brokers)
    variables = re.findall(r"\$\{(\w+)}", path.read_text())
    for variable in variables:
        monkeypatch.setenv(variable, "word") if known else monkeypatch.delenv(variable, False)
    if known or not variables:
        assert main(["validate", str(path)]) == 0, capsys.readouterr().err
        assert ": valid; " in capsys.readouterr().out
        return
    # one block serves both sides, which everybody needs
    assert main(["validate", str(path)]) == 2
    assert variables[0] in capsys.readouterr().err


def test_librdkafka_is_given_all_of_it(tmp_path, monkeypatch):
    """And the file of this machine's authorities, which it does not find by itself."""
    monkeypatch.setenv("CLIENT_ID", "me")
    monkeypatch.setenv("CLIENT_SECRET", "word")
    client = load(str(written(tmp_path, OAUTH))).edge_kafka.client
    monkeypatch.setattr("ldp_kafka.runtime.kafka.oauth.bundle", lambda: "/the/bundle.pem")
    for own in ({}, {"https.ca.location": "probe"}):
        whole = {**client, "https.ca.location": "/the/bundle.pem"}
        assert for_librdkafka({**client, **own}) == whole
    for own in ({"https.ca.pem": "text"}, {"https.ca.location": "/a"}):
        assert for_librdkafka({**client, **own}) == {**client, **own}
    with pytest.raises(ConfigurationError, match=r"https\.ca\.location must be a file"):
        for_librdkafka({**client, "https.ca.location": str(tmp_path)})
    monkeypatch.setattr("ldp_kafka.runtime.kafka.installed.version", lambda _: "2.10.1")
    assert for_librdkafka(client) == client, "it has no such option"


def without(options, name):
    return [each for each in options if not each.startswith(f"{name}:")]


def instead(options, name, value):
    return [f"{name}: {value}" if each.startswith(f"{name}:") else each for each in options]


OF = "sasl.oauthbearer."
WRONG = [
    # half given
    (without(OAUTH, f"{OF}client.id"), 4, "", f"{OF}client.id must be given where {OF}method is"),
    (without(OAUTH, f"{OF}client.secret"), 4, "", f"{OF}client.secret must be given where {OF}me"),
    (without(OAUTH, f"{OF}token.endpoint.url"), 4, "", f"{OF}token.endpoint.url must be given whe"),
    (without(OAUTH, f"{OF}method"), 4, "", f"{OF}method must be oidc or msk-iam"),
    (without(IAM, f"{OF}config"), 4, "", f"{OF}config must be given where {OF}method is msk-iam"),
    (without(API_KEY, "sasl.password"), 4, "", "sasl.password must be given where sasl.mechanism"),
    (without(SCRAM, "sasl.mechanism"), 4, "", "sasl.mechanism must be one of PLAIN, SCRAM-SHA-256"),
    # misspelt
    (
        [each.replace("client.id", "clientid") for each in OAUTH],
        8,
        f"{OF}clientid",
        f"(did you mean {OF}client.id?)",
    ),
    (
        [each.replace("token.endpoint.url", "token.endpoint.uri") for each in OAUTH],
        10,
        f"{OF}token.endpoint.uri",
        f"(did you mean {OF}token.endpoint.url?)",
    ),
    (
        [each.replace("oauthbearer", "oauthbarer") for each in OAUTH],
        7,
        "sasl.oauthbarer.method",
        f"(did you mean {OF}method?)",
    ),
    # no such choice
    (instead(OAUTH, f"{OF}method", "default"), 7, f"{OF}method", "must be oidc or msk-iam"),
    (instead(IAM, "sasl.mechanism", "AWS_MSK_IAM"), 6, "sasl.mechanism", "method: msk-iam and"),
    (instead(OAUTH, "sasl.mechanisms", "OAUTH"), 6, "sasl.mechanisms", "must be one of PLAIN,"),
    (
        instead(OAUTH, f"{OF}token.endpoint.url", "login.example/token"),
        10,
        f"{OF}token.endpoint.url",
        "must be an address that begins with https://",
    ),
    (
        instead(OAUTH, f"{OF}token.endpoint.url", "http://login.example/token"),
        10,
        f"{OF}token.endpoint.url",
        "must be an address that begins with https://",
    ),
    (
        instead(OAUTH, f"{OF}extensions", "lkc-abc123"),
        12,
        f"{OF}extensions",
        "must be NAME=VALUE with commas between, such as logicalCluster=",
    ),
    (
        instead(OAUTH, f"{OF}extensions", "auth=Bearer x"),
        12,
        f"{OF}extensions",
        "must be NAME=VALUE with commas between",
    ),
    (instead(IAM, f"{OF}config", "eu-central-1"), 8, f"{OF}config", "must be region=REGION, such"),
    # of something else
    ([*OAUTH, "sasl.username: me"], 13, "sasl.username", "is not used where sasl.mechanism is OAU"),
    ([*API_KEY, f"{OF}scope: a"], 9, f"{OF}scope", "is not used where sasl.mechanism is PLAIN"),
    ([*IAM, f"{OF}scope: a"], 9, f"{OF}scope", f"is not used where {OF}method is msk-iam"),
    ([*OAUTH, f"{OF}config: a=b"], 13, f"{OF}config", f"is not used where {OF}method is oidc"),
    (OAUTH[1:], 6, f"{OF}method", "is not used where security.protocol is PLAINTEXT"),
    (
        [*OAUTH, "https.ca.location: a", "https.ca.pem: b"],
        14,
        "https.ca.pem",
        "must not be given where https.ca.location is",
    ),
    # as Java clients and others have it
    (
        [*SCRAM, "sasl.jaas.config: ScramLoginModule required"],
        9,
        "sasl.jaas.config",
        "is an option of Java clients: give sasl.mechanism (PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512)",
    ),
    (
        [*IAM, "sasl.client.callback.handler.class: software.amazon.msk.IAMClientCallbackHandler"],
        9,
        "sasl.client.callback.handler.class",
        f"with {OF}method: msk-iam and {OF}config: region=REGION",
    ),
    (
        [*OAUTH, "sasl.login.callback.handler.class: OAuthBearerLoginCallbackHandler"],
        13,
        "sasl.login.callback.handler.class",
        f"with {OF}method: oidc, {OF}client.id, {OF}client.secret and {OF}token.endpoint.url",
    ),
    (
        [*OAUTH, f"{OF}client.credentials.client.id: me"],
        13,
        f"{OF}client.credentials.client.id",
        f"give {OF}client.id",
    ),
    (
        [*OAUTH, f"{OF}grant.type: urn:ietf:params:oauth:grant-type:jwt-bearer"],
        13,
        f"{OF}grant.type",
        "leave it out, client credentials are what",
    ),
]


@cases(("options", "line", "key", "said"), WRONG)
@pytest.mark.parametrize("known", [True, False])
def test_what_is_wrong_is_named(options, line, key, said, known, tmp_path, monkeypatch, capsys):
    """Also where the variables of a side's secrets are not set here: as in two blocks, of which
    `validate` only says that they are open.
    """
    path = written(tmp_path, options)
    text = path.read_text()
    for variable in re.findall(r"\$\{(\w+)}", text):
        monkeypatch.setenv(variable, "word") if known else monkeypatch.delenv(variable, False)
    where = f"kafka.client{key and '.'}{key}"
    if not known:
        block = text.partition("  client:\n")[2].partition("input:")[0]
        sides = f"  edge:\n    client:\n{block}  collector: {{bootstrap_servers: c:1}}\n"
        text = text.replace(f"  client:\n{block}", sides.replace("\n    s", "\n      s"))
        path.write_text(text.replace("\n    https", "\n      https"))
        line, where = line + 1, where.replace("kafka.", "kafka.edge.")
    assert main(["validate", str(path)]) == 2
    found = capsys.readouterr().err
    assert f"{path}:{line}: {where}: " in found, found
    assert said in found
    assert "word" not in found.replace("password", "")


@pytest.mark.parametrize("options", [OAUTH, IAM, SCRAM], ids=["oidc", "msk-iam", "scram"])
def test_what_a_variable_leaves_open_is_not_wrong(options, tmp_path, monkeypatch, capsys):
    """Of each option at a time, and of all."""
    monkeypatch.delenv("OPEN", raising=False)
    for variable in re.findall(r"\$\{(\w+)}", "\n".join(options)):
        monkeypatch.setenv(variable, "word")
    names = [each.partition(":")[0] for each in options]
    for chosen in (*([name] for name in names), names):
        made = [
            f"{name}: ${{OPEN}}" if name in chosen else each
            for name, each in zip(names, options, strict=True)
        ]
        inner = "".join(f"      {each}\n" for each in made)
        path = written(tmp_path, ["client.id: x"])
        block = f"  edge:\n    client:\n{inner}  collector: {{bootstrap_servers: c:1}}\n"
        path.write_text(path.read_text().replace("  client:\n    client.id: x\n", block))
        assert main(["validate", str(path)]) == 0, chosen
        assert f"kafka.edge.client.{chosen[0]}: " in capsys.readouterr().err
