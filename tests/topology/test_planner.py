"""Plans: predictions against simulation, and every warning where it belongs and nowhere else."""

import json
import math

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.statistics import Frequencies, Mean
from ldp_kafka.statistics.mean import INPUTS
from ldp_kafka.statistics.per_user import release_error
from ldp_kafka.statistics.prediction import law_error
from ldp_kafka.topology import cautions, loads, plan
from tests.cases import cases

BASE = """\
topology: meters
input: {{slot: 1h, {input}}}
privacy: {{method: {method}, epsilon: {epsilon}, window: {window}, {shape}}}
output: {{statistics: [{statistics}]}}
"""


def topology(
    method="sw_direct", statistics="mean", epsilon=1.0, window=10, shape=None, source="lateness: 1"
):
    shape = shape or ("categories: 4" if method == "lpu" else "domain: [0, 10]")
    given = {"method": method, "statistics": statistics, "epsilon": epsilon, "window": window}
    return loads(BASE.format(**given, shape=shape, input=source))


def band(repeats):
    """Relative half-width that a sample standard deviation of normal draws leaves once in a
    million: 10 % when there are enough.
    """
    return 4.9 / math.sqrt(2 * repeats)


REPEATS = 1300  # band 9.6 %


@pytest.mark.parametrize("epsilon", [0.5, 3.0, 20.0])
def test_the_predicted_error_of_a_mean_is_the_simulated_one(epsilon):
    users, method = 500, topology(epsilon=epsilon, window=2).method
    noisiest = max(INPUTS, key=lambda value: law_error(method, value, users))
    values = np.full(REPEATS * users, noisiest)
    reports = method.mechanism.perturb(values, lk.randomness.seeded(11)).reshape(REPEATS, users)
    means = [method.crowd(method.mechanism.support(row)).value for row in reports]
    predicted = Mean(method).predict(users)
    assert predicted.reports == users
    assert band(REPEATS) < 0.1
    assert abs(np.std(means) / predicted.error - 1) < band(REPEATS)


@pytest.mark.parametrize(("epsilon", "categories"), [(0.5, 3), (2.0, 8)])
def test_the_predicted_error_of_frequencies_is_the_simulated_one(epsilon, categories):
    shape = f"categories: {categories}"
    method = topology("lpu", "frequencies", epsilon=epsilon, window=1, shape=shape).method
    values = np.zeros(REPEATS * 500, int)
    reports = method.mechanism.perturb(values, lk.randomness.seeded(12)).reshape(REPEATS, 500)
    found = np.std([method.crowd(method.mechanism.support(row)).value for row in reports], axis=0)
    # the largest of several
    assert abs(found.max() / Frequencies(method).predict(500).error - 1) < band(REPEATS) + 0.03


def test_errors_fall_with_the_root_of_the_reports():
    mean = Mean(topology().method)
    assert mean.error(100) / mean.error(10_000) == pytest.approx(10, rel=0.05)
    assert mean.error(2**20) / mean.error(2**24) == pytest.approx(4, rel=1e-6)


def test_the_bias_of_feedback_does_not_fall():
    """An interval of any number of reports is as long as the biases of all crowds that have their
    mean lie apart: once or twice the largest, as it is to one side of a value or to both.
    """
    method = topology("capp", "mean").method
    mean = Mean(method)
    lasting = mean.error(2**36)
    assert mean.error(2**34) == pytest.approx(lasting, rel=0.02)
    assert 1 < lasting * 2 * 1.96 / (method.feedback_bias * 10) < 2


def test_the_error_of_one_release_is_that_of_the_law():
    """sw_direct has no memory, so its law gives the same number exactly."""
    method = topology(epsilon=4.0, window=2).method
    worst = 0.0
    for value in (0.0, 0.25, 0.5, 0.75, 1.0):
        law = method.mechanism.law(value)
        weights = np.array([weight / law.denominator for weight in law.weights])
        off = (method.released(law.support) - 10 * value) ** 2
        worst = max(worst, math.sqrt(float(weights @ off)))
    assert release_error(method) == pytest.approx(worst, rel=0.1)


def test_lpu_reports_once_a_window():
    found = plan(topology("lpu", "frequencies", window=8), users=1000)
    assert found.predictions[0].reports == 125
    assert found.single.messages == 2
    assert found.batched.messages == 2


def test_a_plan_in_numbers():
    found = plan(topology("capp", "mean, per_user"), users=1000)
    assert found.epsilon_per_report == 0.071428
    assert found.state_bytes_per_user == 16 + 8 + 8 + 4 * 14 + 4 + 8 + 8 + 8
    assert (found.batched.messages, found.single.messages) == (2, 1002)
    assert 1000 * 48 < found.batched.bytes < found.single.bytes
    assert [prediction.statistic for prediction in found.predictions] == ["mean", "per_user"]
    assert found.guarantee_line.endswith(
        "; not anonymous: reports of a user can be linked by a pseudonym"
    )
    text = "\n".join(found.lines())
    assert all(topic.name in text for topic in found.topics)
    assert "reports that one changed window can alter: 14" in text


@pytest.mark.parametrize(
    ("method", "more", "said"),
    [
        ("capp", "", "0.071428 a report"),
        ("ba_sw", "", "0.05 the first report"),
        ("capp", ", calibration: published", "0.1 a report"),
    ],
)
def test_the_price_of_a_report_or_of_the_first(method, more, said):
    """Later reports of ba_sw take what earlier slots have left."""
    found = plan(topology(method, "per_user", shape=f"domain: [0, 10]{more}"))
    assert found.lines()[2] == f"spending     epsilon {said}"


def test_what_a_plan_prints_is_true():
    """What truly holds and what was promised, rounded up; the slots of which it is true, counted
    out.
    """
    shape = "domain: [0, 1], calibration: published"
    found = plan(topology("capp", "per_user", 1.2345601, 1, shape))
    assert any("epsilon 1.23457 is true of the first 1 slots" in said for said in found.warnings)
    assert "spending     epsilon 1.23456 a report" in found.lines()  # in whole millionths


def test_a_plan_is_json_without_infinities():
    for method, statistics, more in (
        ("capp", "per_user", "domain: [0, 1], calibration: published"),
        ("lpu", "frequencies", "categories: 3"),
        ("sw_direct", "mean", "domain: [0, 1]"),
    ):
        found = plan(topology(method, statistics, shape=more))
        data = json.loads(json.dumps(found.as_json(), allow_nan=False))
        keys = "topology fingerprint guarantee topics predictions warnings state_bytes_per_user"
        assert {*keys.split(), "per_slot"} <= set(data)


EMBEDDED = "one kafka block"
PUBLISHED = "domain: [0, 1], calibration: published"
LPU = {"method": "lpu", "statistics": "frequencies", "epsilon": 0.01}
OF_MESSAGE = "the reports of one raw message can be linked"
NO_TICKS = "gets no ticks, so a partition without events holds every release back"
EQUAL_SHARES = "frequencies: an equal share for each, off by at most 0.433, beats a release of 100"
BY_PARTITION = "a user's reports can be linked by their partition"
WARNINGS = [
    ({}, 1000, EMBEDDED),
    (
        {"method": "capp", "statistics": "per_user", "shape": PUBLISHED},
        1000,
        "true of the first 10 slots of a stream and of none beyond",
    ),
    (
        {"method": "etm", "statistics": "per_user", "window": 3, "shape": PUBLISHED},
        1000,
        "calibration published: nothing is guaranteed, not even of the first slots of a stream",
    ),
    ({"method": "capp", "statistics": "mean"}, 1000, "use sw_direct for crowds"),
    ({}, 1000, BY_PARTITION),
    ({"source": "format: arrow"}, 1000, BY_PARTITION),
    ({"source": "gaps: allow"}, 1000, "one event a message shows the collector the order"),
    ({"source": "format: arrow, gaps: allow"}, 1000, OF_MESSAGE),
    ({"source": "create: false"}, 1000, NO_TICKS),
    ({}, 1000, "partitioning trusted"),
    ({"source": "gaps: allow"}, 1000, "gaps allow"),
    ({"statistics": "per_user"}, 1000, "linkable"),
    ({"statistics": "per_user"}, 1000, "nothing beats a constant"),
    ({"epsilon": 0.1}, 10, "mean: the domain's midpoint"),
    (LPU, 1000, EQUAL_SHARES),
    ({}, 10_001, "the embedded broker has room for about 10,000 users"),
    ({}, 10_000_000, "raise runtime.shards"),
]


@cases(("how", "users", "said"), WARNINGS)
def test_each_warning_where_it_belongs(how, users, said):
    assert sum(said in warning for warning in plan(topology(**how), users).warnings) == 1


HOPELESS = """
topology: shares
input: {{slot: 1h}}
privacy: {{method: {method}, epsilon: {epsilon}, window: 10, {shape}}}
output: {{statistics: [{statistic}]}}
"""


@pytest.mark.parametrize("method", ["lbu", "lsp", "lpu", "lpa"])
@cases(
    ("statistic", "shape", "constant"),
    [
        ("frequencies", "categories: 2", 1 / 2),
        ("frequencies", "categories: 100", 99**0.5 / 100),
        ("mean", "domain: [0, 10]", 5.0),
    ],
)
def test_a_hopeless_release_is_warned_of(method, statistic, shape, constant):
    """Where a constant is off by less, and by how much it is; nothing is said where none is."""
    for epsilon, users, useful in ((0.01, 500, False), (5.0, 1_000_000, True)):
        made = HOPELESS.format(method=method, epsilon=epsilon, shape=shape, statistic=statistic)
        found = plan(loads(made), users)
        (prediction,) = found.predictions
        assert prediction.constant == pytest.approx(constant)
        assert prediction.useful == (prediction.error < constant) == useful
        said = [warning for warning in found.warnings if "beats a release of" in warning]
        assert len(said) == (not useful)
        for each in said:
            assert each.startswith(
                f"{statistic}: {prediction.guess}, off by at most {constant:.3g}, beats"
            )


@cases("number", [2, 3, 40])
def test_no_constant_is_better_than_equal_shares(number):
    """At the worst category, of which all users are."""

    def worst(guess):
        return max(float(np.sqrt(np.mean((guess - row) ** 2))) for row in np.eye(number))

    shares = Frequencies(lk.method("lpu", epsilon=1.0, window=1, categories=number))
    assert worst(np.full(number, 1 / number)) == pytest.approx(shares.constant)
    rng = np.random.default_rng(5)
    for guess in (*rng.dirichlet(np.ones(number), 50), np.full(number, 0.5), np.zeros(number)):
        assert worst(guess) >= shares.constant - 1e-12


LOST = "what all reports of a user lose together has no bound that can be proved"


@pytest.mark.parametrize(
    ("refresh", "calibration", "said"),
    [
        (1, "sound", f"refresh: {LOST}"),
        (100, "sound", "refresh: what truly holds is epsilon"),
        (1, "published", "calibration published: what all reports"),
    ],
)
def test_what_refresh_costs_is_not_put_down_to_the_calibration(refresh, calibration, said):
    """And no horizon is promised on which epsilon would be true: every refresh grants it anew."""
    made = loads(f"""\
topology: meters
input: {{slot: 1h}}
privacy:
  {{method: gaussian_direct, level: user, epsilon: 1, delta: 1.0e-5, horizon: 1000,
  refresh: {refresh}, domain: [0, 1], calibration: {calibration}}}
output: {{statistics: [mean]}}
""")
    warnings = plan(made, 1000).warnings
    assert sum(warning.startswith(said) for warning in warnings) == 1
    assert not any("is true of the first" in warning for warning in warnings)
    assert calibration == "published" or not any("published" in warning for warning in warnings)


def test_nothing_is_said_of_what_is_in_order(monkeypatch):
    good = """\
topology: meters
kafka: {edge: {bootstrap_servers: a:1}, collector: {bootstrap_servers: b:1}}
input: {slot: 1h, format: arrow, partitioning: murmur2}
privacy: {method: sw_direct, epsilon: 10, window: 2, domain: [0, 10]}
output: {statistics: [mean]}
edge: {budget_file: "${BUDGET_FILE}"}
"""
    monkeypatch.delenv("BUDGET_FILE", raising=False)
    (batches,) = plan(loads(good)).warnings
    assert batches.startswith("a user's reports can be linked by their partition")  # true of any


@cases("users", [0, -1, 1.5, True, "1", 10**11])
def test_users_are_a_positive_whole_number(users):
    with pytest.raises(ConfigurationError, match="users must be"):
        plan(topology(), users)


WINDOWS = """
topology: streams
input: {slot: 1d}
privacy:
  {trust: curator, level: event, method: naive, epsilon: EPSILON, delay: DELAY, domain: [0, 100]}
output: {statistics: [per_stream]}
"""


def test_a_list_that_waits_takes_its_length():
    """Beside what a number takes, 8 bytes of each coordinate more: as it is written."""
    text = (
        "topology: t\ninput: {slot: 1h, lateness: 2, per_slot: LAST}\nprivacy: {method:"
        " budget_split, epsilon: 4.0, window: 4, domain: [0, 1], dimension: 5}\n"
        "output: {statistics: [mean]}\n"
    )
    at_once, waits, added = (
        plan(loads(text.replace("LAST", each)), 1000).state_bytes_per_user
        for each in ("first", "last", "sum")
    )
    assert waits - at_once == 3 * (16 + 5 * 8 + 8)  # digest, numbers, and how many lists they are
    assert added - at_once == 3 * (16 + 2 * 5 * 8 + 8)  # what is added, and what is taken away


def test_a_plan_of_windows_says_how_many_values_wait():
    """32 bytes of each slot of a batch, and of those that may be late; and that their records are
    too many to be listed, before they are.
    """
    text = WINDOWS.replace("EPSILON", "1.0")
    for setting, slots in (("batch", 5), ("sliding", 2)):
        made = loads(text.replace("DELAY", f"4, setting: {setting}"))
        fields = made.method.fields.values()
        own = sum(np.dtype(each.dtype).itemsize * max(each.length, 1) for each in fields)
        assert made.open_slots == slots
        assert plan(made, 1000).state_bytes_per_user == 16 + own + 32 * slots
    assert topology().open_slots == 0
    batch = text.replace("DELAY", "100")
    sliding = text.replace("DELAY", "100, setting: sliding")
    assert loads(sliding.replace("1d", "1d, lateness: 7")).open_slots == 8
    said = "up to 25,856 records of 101 open slots, and their list about 724 kB"
    for text, users, warned in (
        (batch, 1000, True),
        (batch, 200, False),
        (batch + "runtime: {shards: 128}\n", 1000, False),
        (sliding, 1000, False),
        (sliding.replace("1d", "1d, lateness: 100"), 1000, True),
    ):
        warnings = list(cautions.warnings(loads(text), (), users, 0))
        assert sum("lower runtime.shards" in each for each in warnings) == warned
        assert not warned or any(said in each for each in warnings)


def test_a_plan_of_windows_says_which_method_to_take():
    """And that nothing beats the midpoint, where nothing does; it simulates no data."""
    good = plan(loads(WINDOWS.replace("EPSILON", "1.0").replace("DELAY", "20")), 50)
    assert good.delays.take.method == "segment_mean"
    assert [line for line in good.lines() if line.startswith("take         segment_mean (segment")]
    assert good.as_json()["delays"]["take"] == "segment_mean"
    [releases] = [line for line in good.lines() if line.startswith("releases")]
    assert releases == "releases     for 50 streams a slot: 50 messages, 30 kB, one a stream"
    [trust] = [line for line in good.lines() if line.startswith("trust")]
    assert "the curator (streams-curate) sees the values of all streams" in trust
    bad = plan(loads(WINDOWS.replace("EPSILON", "0.01").replace("DELAY", "2")), 50, drift=0.5)
    assert bad.delays.take is None
    assert any(line.startswith("take         nothing") for line in bad.lines())
    long = loads(WINDOWS.replace("EPSILON", "1.0").replace("DELAY", "1000"))
    assert plan(long, 50).delays is None
    week = WINDOWS.replace("level: event", "level: w-event, window: 7")
    whole = plan(loads(week.replace("EPSILON", "7.0").replace("DELAY", "20")), 50)
    assert whole.delays.epsilon == 1.0
