"""What users see of the mistakes that they make in their first topology: that of
how-to/own-topic.md, changed in one place. `test_loader` has what else a file may hold.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ldp_kafka.cli import main
from ldp_kafka.methods.runnable import names
from tests.cases import cases, table

PAGE = Path(__file__).parents[2] / "deploy" / "docs" / "pages" / "how-to" / "own-topic.md"

# (what somebody did, what stood there, what stands there now, what `validate` says of meters.yaml)
MISTAKES = table(r"""
a space in the name | topology: smart-meters | topology: smart meters |
    1: topology: must be text of 1 to 200 letters, digits, dots, dashes and underscores, a letter or
    digit first; got "smart meters"
no name | topology: smart-meters\n |  | 1: topology: must be given
a key of Compose files | topology: smart-meters | topology: smart-meters\nversion: 3 |
    2: version: unknown key; known here: topology, plugins, kafka, input, privacy, output, edge,
    runtime
a tab |   topic: smart | \ttopic: smart |
    6: this is no valid YAML: a tab cannot indent: write spaces
one space too few |   topic: smart |  topic: smart |
    7: this is no valid YAML: keys of one section must begin in one column, and those below a key
    further right, all of them with spaces; text that holds a colon and a space must be in quotes
no colon |   format: json |   format json |
    8: this is no valid YAML: a key must be followed by a colon and a space
a quote that stays open |   user: $.meter_id |   user: "$.meter_id |
    9: this is no valid YAML: the quote that begins in this line must be closed
a list that stays open | [0.0, 8000.0] | [0.0, 8000.0 |
    18: this is no valid YAML: a list that begins with [ must have commas between its items, and end
    with ]
an address without quotes around a colon and a space | localhost:9092 | localhost: 9092 |
    3: this is no valid YAML: keys of one section must begin in one column, and those below a key
    further right, all of them with spaces; text that holds a colon and a space must be in quotes
a sign that YAML keeps for itself |   value: $.kwh |   value: @kwh |
    10: this is no valid YAML: text cannot begin with @: put it in quotes
two documents | input: | ---\ninput: |
    5: this is no valid YAML: a file must hold one document: take out --- and the rest
a field's bare name |   user: $.meter_id |   user: meter_id |
    9: input.user: must be a field path such as $.a.b, $['a b'] or $.a[0], or a list of them; got
    "meter_id"
a field's name with a space |   user: $.meter_id |   user: $.meter id |
    9: input.user: a field path goes on with .name, ['any text'] or [position]; got ' id' after
    '$.meter'
one field for two things |   value: $.kwh |   value: $.ts |
    5: input: user, value and time must be three different fields
a key without a value |   value: $.kwh |   value: |
    10: input.value: must be a field path such as $.a.b, $['a b'] or $.a[0]; got nothing
a plural |   value: $.kwh |   values: $.kwh | 10: input.values: unknown key (did you mean value?)
a word in place of a slot's length |   slot: 1h |   slot: hourly |
    12: input.slot: must be a duration such as 250ms, 30s, 15m, 1h or 1d; got "hourly"
a slot's length in words |   slot: 1h |   slot: 1 hour |
    12: input.slot: must be a duration such as 250ms, 30s, 15m, 1h or 1d; got "1 hour": write 1h
a slot's length without a unit |   slot: 1h |   slot: 3600 |
    12: input.slot: must be a duration such as 250ms, 30s, 15m, 1h or 1d; got 3600: write its unit
    too, such as 3600s
a time in place of slots |   lateness: 2 |   lateness: 2h |
    13: input.lateness: must be a whole number; got "2h": it is a number of slots, each as long as
    input.slot says
a number in quotes |   partitions: 2 |   partitions: "2" |
    7: input.partitions: must be a whole number; got "2": leave out the quotes
true in quotes |   partitions: 2 |   create: "true" |
    7: input.create: must be true or false; got "true": leave out the quotes
a format that is not read |   format: json |   format: csv |
    8: input.format: must be one of json, arrow; got "csv"
capitals |   format: json |   format: JSON |
    8: input.format: must be one of json, arrow; got "JSON" (did you mean json?)
a mechanism in place of a method | method: sw_direct | method: laplace |
    15: privacy.method: must be one of METHODS; got "laplace": laplace is a mechanism, and stands in
    privacy.mechanism
a method's parameter left out | method: sw_direct | method: budget_split |
    14: privacy.dimension: must be given for budget_split: coordinates of a vector, 1..1024
a parameter of another method | method: sw_direct | method: sw_direct\n  delta: 1e-6 |
    16: privacy.delta: is no parameter of sw_direct: leave it out; its own: cover
a method of another level | method: sw_direct | method: sw_direct\n  level: event |
    16: privacy.level: must be w-event for sw_direct: its guarantee is of that level
a decimal comma | epsilon: 2.0 | epsilon: 2,0 |
    16: privacy.epsilon: must be a number; got "2,0": write 2.0
a time in place of a window | window: 4 | window: 4h |
    17: privacy.window: must be a whole number; got "4h": it is a number of slots, each as long as
    input.slot says
a domain of one number | [0.0, 8000.0] | 8000 |
    18: privacy.domain: must be a list; got 8000: such as [0.0, 7280.0]
a domain of three numbers | [0.0, 8000.0] | [0, 4000, 8000] |
    18: privacy.domain: must have 2 items: such as [0.0, 7280.0]; got [0, 4000, 8000]
a unit in the domain | [0.0, 8000.0] | [0, 8kW] | 18: privacy.domain[1]: must be a number; got "8kW"
a statistic that there is not | [mean] | [average] |
    20: output.statistics[0]: must be one of distribution, frequencies, mean, per_stream, per_user,
    user_means; got "average"
a statistic without brackets | [mean] | mean |
    20: output.statistics: must be a list; got "mean": such as [mean]
a threshold outside the domain | [mean] | [mean]\n  events: {above: 9000} |
    21: output.events.above: must lie between 0 and 8000, as the mean does
a statistic that has no bins | [mean] | [mean]\n  bins: 16 |
    21: output.bins: must be given with distribution or user_means only
a section in one line | edge:\n  key_file: ${LDP_KAFKA_EDGE_KEY_FILE} | edge: edge.key |
    21: edge: must be a mapping; got "edge.key": its keys are key_file, budget_file, deployment
a variable as in a shell | ${LDP_KAFKA_EDGE_KEY_FILE} | $LDP_KAFKA_EDGE_KEY_FILE |
    22: edge.key_file: must be written ${LDP_KAFKA_EDGE_KEY_FILE} where it is a variable,
    $$LDP_KAFKA_EDGE_KEY_FILE where it is text
a variable that is not closed | ${LDP_KAFKA_EDGE_KEY_FILE} | ${LDP_KAFKA_EDGE_KEY_FILE |
    22: edge.key_file: must hold ${NAME} or ${NAME:-default}; write $${ for these characters
    themselves
a variable that is not set | localhost:9092 | ${MY_BROKERS} |
    3: kafka.bootstrap_servers: the environment variable MY_BROKERS must be set, or have a default:
    ${MY_BROKERS:-default}
an address of the web | localhost:9092 | http://localhost:9092 |
    3: kafka.bootstrap_servers: must be host:port, several with commas between, or embedded: no
    http://, no spaces, a port from 1 to 65535
addresses with a space between | localhost:9092 | kafka-1:9092 kafka-2:9092 |
    3: kafka.bootstrap_servers: must be host:port, several with commas between, or embedded: no
    http://, no spaces, a port from 1 to 65535
one of the addresses is none | localhost:9092 | kafka-1:9092,kafka-2:http |
    3: kafka.bootstrap_servers: must be host:port, several with commas between, or embedded: no
    http://, no spaces, a port from 1 to 65535; address 2 is none
addresses as a list | localhost:9092 | [kafka-1:9092, kafka-2:9092] |
    3: kafka.bootstrap_servers: must be text; got ["kafka-1:9092", "kafka-2:9092"]: such as
    kafka-1:9092,kafka-2:9092
options as a list | client: {} | client: [security.protocol] |
    4: kafka.client: must be a mapping of options to text, such as security.protocol: SASL_SSL
a misspelt option | client: {} | client: {security.protcol: SSL} |
    4: kafka.client.security.protcol: is no option of librdkafka (did you mean
    security.protocol?)
a protocol that there is not | client: {} | client: {security.protocol: TLS} |
    4: kafka.client.security.protocol: must be one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL
an option of Java clients | client: {} | client: {ssl.truststore.password: secret} |
    4: kafka.client.ssl.truststore.password: is an option of Java clients: write the store as PEM
    (openssl pkcs12 -in STORE.p12 -out both.pem) and give ssl.ca.location, which has no password
a login without TLS | client: {} | client: {sasl.username: me} |
    4: kafka.client.sasl.username: is not used where security.protocol is PLAINTEXT: it must be
    SASL_SSL (or SASL_PLAINTEXT)
a login without a password | client: {} | client: {security.protocol: SASL_SSL, sasl.mechanism:
    PLAIN, sasl.username: me} | 4: kafka.client: sasl.password must be given where sasl.mechanism is
    PLAIN
""")


@pytest.fixture(scope="module")
def block():
    """The topology of how-to/own-topic.md, without its comments."""
    blocks = re.findall(r"```yaml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    (found,) = (each for each in blocks if each.startswith("topology: smart-meters "))
    return re.sub(r" +#.*", "", found).replace("${LDP_KAFKA_BOOTSTRAP:-embedded}", "localhost:9092")


@pytest.fixture
def validate(block, tmp_path, monkeypatch, capsys):
    """What `ldp-kafka validate meters.yaml` says of it with one change, and its exit code."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LDP_KAFKA_EDGE_KEY_FILE", "edge.key")
    monkeypatch.delenv("MY_BROKERS", raising=False)

    def run(old, new):
        assert old in block
        Path("meters.yaml").write_text(block.replace(old, new, 1), encoding="utf-8")
        code = main(["validate", "meters.yaml"])
        out, err = capsys.readouterr()
        return code, out, err

    return run


def test_the_block_itself_is_valid(validate):
    code, out, err = validate("topology", "topology")
    assert (code, err) == (0, "") and out.startswith("meters.yaml: valid; ")


@cases(("done", "old", "new", "said"), MISTAKES)
def test_each_mistake_is_said_with_its_place_and_its_cure(validate, done, old, new, said):
    """In one line."""
    expected = said.replace("METHODS", ", ".join(names()))
    assert validate(old, new) == (2, "", f"meters.yaml:{expected}\n")
    assert re.match(r"[0-9]+: ([a-z_.0-9\[\]]+|this is no valid YAML): ", said), done
