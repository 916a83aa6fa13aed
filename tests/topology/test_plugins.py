"""Mechanisms and methods of other packages in a topology: which are found, refused, and bound."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka import plugins
from ldp_kafka.checks import check_method
from ldp_kafka.errors import ConfigurationError, TopologyError
from ldp_kafka.runtime.worker.foreign import said
from ldp_kafka.topology import loads
from tests.packages import ALTERNATE, ANSWER, present

TEXT = """
topology: diary
{plugins}
input: {{slot: 1d}}
privacy: {{method: {method}, epsilon: 2.0, window: 3, {shape}}}
output: {{statistics: [{statistics}]}}
"""
PLAIN = """
import ldp_kafka as lk
from ldp_kafka.mechanisms.sum_noise import SumNoise
from ldp_kafka.methods.delay.base import VALUE

NOISE_VERSION = 1


class Plain(lk.DelayMethod):
    name = "plain"
    noises = ("point",)
    reason = None

    def prepare(self):
        self.adder = SumNoise(self.spend / 10**6, self.reach, 2**32)

    def take(self, window, values, some):
        noisy = self.adder.perturb(values, window.at_random(some, VALUE, values))
        self.keep(window, window.place, noisy / 2**32, self.adder.variance / 2**64, some)


METHODS = {"plain": Plain}
"""
GROUPS = {"answer": "mechanisms", "alternate": "methods"}


def answering(plugins="plugins: [diary_answer]", method="lpu", name="answer"):
    shape = f"mechanism: {name}, categories: 4"
    return TEXT.format(plugins=plugins, method=method, shape=shape, statistics="frequencies")


def alternating(plugins="plugins: [diary_alternate]"):
    return TEXT.format(
        plugins=plugins, method="alternate", shape="domain: [0, 10]", statistics="mean"
    )


def point(name, target):
    return f"[ldp_kafka.{GROUPS[name]}]\n{name} = {target}\n"


@pytest.fixture
def answer(tmp_path):
    with present(tmp_path / "site", "diary-answer", {"diary_answer.py": ANSWER}):
        yield


@pytest.fixture
def alternate(tmp_path):
    with present(tmp_path / "site", "diary.alternate", {"diary_alternate.py": ALTERNATE}):
        yield


def refused(text):
    with pytest.raises(TopologyError) as found:
        loads(text)
    return str(found.value)


def test_a_mechanism_of_a_listed_module(answer):
    """It perturbs, as the class does."""
    topology = loads(answering())
    assert type(topology.method.mechanism).__name__ == "Answer"
    assert topology.method.mechanism.epsilon == 2.0
    (plugin,) = topology.plugged
    assert (plugin.module, plugin.distribution) == ("diary_answer", "diary-answer")


def test_a_method_of_a_listed_module(alternate):
    """Its parts are asked for as those of ours are."""
    topology = loads(alternating())
    assert topology.guarantee.influence == 2
    assert topology.plugged[0].distribution == "diary-alternate"
    streams = np.full((3, 4), 5.0)
    released = topology.method.release(streams, lk.randomness.seeded(1))
    assert np.isnan(released[:, 1::2]).all() and np.isfinite(released[:, ::2]).all()


def test_a_method_of_windows(tmp_path):
    """By public hooks; it holds the whole contract, and is run as ours are."""
    shape = {"plugins": "plugins: [plain]", "statistics": "per_user"}
    with present(tmp_path, "plain", {"plain.py": PLAIN}):
        topology = loads(TEXT.format(method="plain", shape="delay: 2, domain: [0, 10]", **shape))
        assert (topology.guarantee.window, topology.guarantee.influence) == (3, 3)
        check_method(lambda: lk.METHODS["plain"](epsilon=1.0, delay=2, domain=(0.0, 1.0)), length=4)
    wrong = PLAIN.replace(
        "values, window.at_random(some, VALUE, values)", "values, lk.randomness.system()"
    )
    with present(tmp_path / "other", "plain", {"plain.py": wrong}):
        said = refused(TEXT.format(method="plain", shape="delay: 2, domain: [0, 10]", **shape))
        assert "noise_is_keyed" in said


def test_entry_points_need_no_list(tmp_path):
    """Neither in a topology nor in Python."""
    with present(
        tmp_path,
        "diary-answer",
        {"diary_answer.py": ANSWER},
        point("answer", "diary_answer:Answer"),
    ):
        assert lk.mechanism("answer", epsilon=1.0, categories=3).categories == 3
        listed, not_listed = loads(answering()), loads(answering(plugins=""))
        assert listed.fingerprint == not_listed.fingerprint


def test_what_is_not_listed_is_not_used(answer):
    """Also where another topology of this process has listed it."""
    said = refused(answering(plugins=""))
    assert "privacy.mechanism: must be one of" in said
    loads(answering())
    said = refused(answering(plugins=""))
    assert "answer is of diary_answer: list it under plugins" in said


def test_names_of_ours_stay_ours(tmp_path):
    """A listed module may not take one; an entry point of one is never asked."""
    text = ANSWER.replace('{"answer": Answer}', '{"grr": Answer}')
    points = "[ldp_kafka.mechanisms]\ngrr = diary_answer:Answer\n"
    with present(tmp_path, "diary-answer", {"diary_answer.py": text}, points):
        made = lk.mechanism("grr", epsilon=1.0, categories=3)
        assert type(made).__module__.startswith("ldp_kafka.")
        assert "the name is one of ldp_kafka's own" in refused(answering(name="grr"))


def test_names_of_another_plug_in_stay_its(tmp_path):
    files = {"diary_answer.py": ANSWER, "other.py": ANSWER}
    with present(tmp_path, "diary-answer", files):
        said = refused(answering(plugins="plugins: [diary_answer, other]"))
    assert "plugins[1]" in said and "the plug-in diary_answer has that name already" in said


def test_two_entry_points_of_one_name(tmp_path):
    files = {"diary_answer.py": ANSWER}
    first = present(tmp_path / "1", "one", files, point("answer", "diary_answer:Answer"))
    second = present(tmp_path / "2", "two", {}, point("answer", "elsewhere:Answer"))
    with first, second, pytest.raises(ConfigurationError, match="several packages name answer"):
        lk.mechanism("answer", epsilon=1.0, categories=3)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("NOISE_VERSION = 1", "", "must state NOISE_VERSION"),
        ("NOISE_VERSION = 1", "NOISE_VERSION = True", "must state NOISE_VERSION"),
        ("NOISE_VERSION = 1", "NOISE_VERSION = 0", "must state NOISE_VERSION"),
        ("MECHANISMS = ", "OTHERS = ", "has neither MECHANISMS nor METHODS"),
        ('{"answer": Answer}', '{"answer": 5}', "must be a class or function with the parameters"),
        ('{"answer": Answer}', '{"Answer!": Answer}', "a name must be of a-z"),
        ("import numpy as np", "import nothing_of_that_name", "cannot import diary_answer"),
        (
            "NOISE_VERSION = 1",
            "raise RuntimeError('x')",
            "cannot import diary_answer: RuntimeError",
        ),
    ],
)
def test_what_is_no_plug_in(tmp_path, old, new, said):
    assert old in ANSWER
    with present(tmp_path, "diary-answer", {"diary_answer.py": ANSWER.replace(old, new)}):
        assert said in refused(answering())


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("lk.SlotMethod", "object", "must be a class derived from ldp_kafka.Method"),
        ('name = "alternate"', 'name = "lpu"', "must have the class attribute name"),
    ],
)
def test_what_is_no_method(tmp_path, old, new, said):
    text = ALTERNATE.replace(old, new)
    with present(tmp_path, "diary-alternate", {"diary_alternate.py": text}):
        assert said in refused(alternating())


def test_code_of_no_package(tmp_path, monkeypatch):
    """Nobody could say which release a worker has."""
    (tmp_path / "diary_answer.py").write_text(ANSWER)
    monkeypatch.syspath_prepend(tmp_path)
    assert "is of no installed package" in refused(answering())
    del importlib.sys.modules["diary_answer"]


def test_code_that_lies_elsewhere(tmp_path, monkeypatch):
    """An installed module that takes its class from one that is not."""
    (tmp_path / "loose.py").write_text(ANSWER)
    monkeypatch.syspath_prepend(tmp_path)
    shim = 'from loose import Answer\nNOISE_VERSION = 1\nMECHANISMS = {"answer": Answer}\n'
    with present(tmp_path / "site", "diary-answer", {"diary_answer.py": shim}):
        assert "the plug-in loose is of no installed package" in refused(answering())
    del importlib.sys.modules["loose"]


def test_code_that_was_changed_where_it_lies(tmp_path):
    with present(tmp_path, "diary-answer", {"diary_answer.py": ANSWER}):
        with (tmp_path / "diary_answer.py").open("a") as file:
            file.write("CHANGED = True\n")
        assert "is not as diary-answer was installed" in refused(answering())


def test_all_of_a_plug_in_or_nothing(tmp_path):
    """It does not matter which topology was read before."""
    text = ANSWER.replace('{"answer": Answer}', '{"answer_one": Answer, "grr": Answer}')
    with present(tmp_path / "1", "diary-answer", {"diary_answer.py": text}):
        for _ in range(2):
            assert "the name is one of ldp_kafka's own" in refused(answering(name="answer_one"))
        assert "answer_one" not in lk.MECHANISMS
    both = ANSWER + 'METHODS = {"answer": Answer}\n'
    with present(tmp_path / "2", "diary-answer", {"diary_answer.py": both}):
        for _ in range(2):
            assert "a mechanism and a method of one name" in refused(answering())
    with present(tmp_path / "3", "no-table", {"diary_answer.py": "MECHANISMS = [1]\n"}):
        assert "MECHANISMS of the plug-in diary_answer must be a dictionary" in refused(answering())


def test_a_name_of_an_entry_point_stays_its(tmp_path):
    points = point("answer", "other:Answer")
    with (
        present(tmp_path / "1", "theirs", {"other.py": ANSWER}, points),
        present(tmp_path / "2", "diary-answer", {"diary_answer.py": ANSWER}),
    ):
        assert "other has that name, by its entry point" in refused(answering())


def test_nobody_says_what_a_plug_in_raises(tmp_path):
    """Its text may show a value, whichever class it has."""
    raising = "raise lk.errors.ConfigurationError(f'cannot take {values}')"
    text = ANSWER.replace("word = randomness", f"{raising}\n        word = randomness")
    assert text != ANSWER
    with present(tmp_path, "diary-answer", {"diary_answer.py": text}):
        plugins.load("diary_answer")
        answer = lk.MECHANISMS["answer"](1.0, 31337)
        with pytest.raises(ConfigurationError, match="31336") as caught:
            answer.perturb(np.array([31336]), lk.randomness.seeded(1))
        assert said(caught.value) == "ConfigurationError"
    with pytest.raises(ConfigurationError) as caught:
        loads("topology: diary")
    assert "must be given" in said(caught.value)


def digests(folder, name, files, text):
    with present(folder, name, files):
        topology = loads(text)
        return topology.fingerprint, topology.layout


def test_what_noise_and_state_are_bound_to(tmp_path):
    """Noise to the package and its noise version, the state to its code as well; neither to where
    the package lies.
    """
    text = answering()
    one = digests(tmp_path / "1", "diary-answer", {"diary_answer.py": ANSWER}, text)
    same = digests(tmp_path / "2", "Diary_Answer", {"diary_answer.py": ANSWER}, text)
    assert one == same
    released = ANSWER.replace('"""Randomized', '"""Plain randomized')
    fingerprint, layout = digests(
        tmp_path / "3", "diary-answer", {"diary_answer.py": released}, text
    )
    assert fingerprint == one[0] and layout != one[1]
    noisier = ANSWER.replace("NOISE_VERSION = 1", "NOISE_VERSION = 2")
    assert digests(tmp_path / "4", "diary-answer", {"diary_answer.py": noisier}, text)[0] != one[0]
    assert digests(tmp_path / "5", "theirs", {"diary_answer.py": ANSWER}, text)[0] != one[0]


def test_a_topology_without_a_plug_in_of_its_own(answer):
    """What it lists and does not name binds it to nothing."""
    text = answering(name="grr")
    assert loads(text).fingerprint == loads(text.replace("plugins: [diary_answer]", "")).fingerprint
    assert loads(text).layout == loads(text.replace("plugins: [diary_answer]", "")).layout


@pytest.mark.parametrize(
    ("old", "new", "check"),
    [
        ("self.lie = int(2**32 /", "self.lie = 1 + 0 * int(2**32 /", "epsilon"),
        ("Fraction(self.truth, self.lie)", "Fraction(2)", "certificate_is_true"),
        (
            "randomness.words(len(values), 1, first=first)[:, 0]",
            "np.random.default_rng().integers(0, 2**32, len(values))",
            "randomness_has_one_door",
        ),
        (
            "return self.categories, self.truth, self.lie\n",
            "return (self.categories,)\n",
            "tables_tell_mechanisms_apart",
        ),
        ("(code,) = self.checked([value])", "code = value", "bad_values_are_refused"),
    ],
)
def test_a_mechanism_that_breaks_its_contract_is_refused(tmp_path, old, new, check):
    """Before any worker reads a value: no topology can be had of it."""
    assert old in ANSWER
    with present(tmp_path, "diary-answer", {"diary_answer.py": ANSWER.replace(old, new)}):
        said = refused(answering())
    assert check in said


@pytest.mark.parametrize(
    ("old", "new", "check"),
    [
        ("(who.values,))", "(who.values * 0 + np.random.randint(2**31),))", "noise_is_keyed"),
        (
            "return lk.Step(answers,",
            "answers[1:] = answers[:1]\n        return lk.Step(answers,",
            "release_is_step",
        ),
    ],
)
def test_a_method_that_breaks_its_contract_is_refused(tmp_path, old, new, check):
    assert old in ALTERNATE
    with present(tmp_path, "diary-alternate", {"diary_alternate.py": ALTERNATE.replace(old, new)}):
        said = refused(alternating())
    assert check in said and "privacy.method" in said
