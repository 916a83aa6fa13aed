"""What type checkers and editors are told: the parameters of each name, the types that calls give,
and the public names.
"""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.methods import DelayMethod
from tests import needs
from tests.cases import cases
from tests.typing import calls, stubs

ROOT = Path(__file__).parents[2]
CALLS = Path(calls.__file__)

BAD = """\
lk.mechanism("grr", epsilon=1.0, categoris=4)
lk.mechanism("grr", epsilon="1", categories=4)
lk.mechanism("grr", epsilon=1.0, domain=(0.0, 1.0))
lk.mechanism("grr", epsilon=1.0)
lk.mechanism("gr", epsilon=1.0, categories=4)
lk.mechanism("square_wave", epsilon=1.0, domain=4)
lk.mechanism("adaptive", epsilon=1.0, categories=4, minimize="size")
lk.mechanism("grr", epsilon=1.0, categories=4).perturbe
lk.method("capp", epsilon=1.0, window=10)
lk.method("capp", epsilon=1.0, window=10, categories=4)
lk.method("lpu", epsilon=1.0, window=10, domain=(0.0, 1.0))
lk.method("capp", epsilon=1.0, windw=10, domain=(0.0, 1.0))
lk.method("capp", epsilon=1.0, window="10", domain=(0.0, 1.0))
lk.method("capp", epsilon=1.0, window=10, domain=(0.0, 1.0), mechanism="square")
lk.method("capp", epsilon=1.0, window=10, domain=(0.0, 1.0), calibration="paper")
lk.method("cap", epsilon=1.0, window=10, domain=(0.0, 1.0))
lk.method("naive", epsilon=1.0, delay=10, domain=(0.0, 1.0), mechanism="laplace")
lk.method("naive", epsilon=1.0, delay=10, domain=(0.0, 1.0), setting="slide")
lk.method("naive", epsilon=1.0, delay=10, domain=(0.0, 1.0)).step_()
lk.protocol("lpa", epsilon=1.0, window=4, categorys=3)
lk.protocol("lpa", epsilon=1.0, window=4, categories=3, smooth="spline")
lk.protocol("lpx", epsilon=1.0, window=4, categories=3)
lk.decode("text")
lk.decode(b"")[0].slot
lk.encode(17)
lk.load_topology("meters.yaml").epsilonn
lk.releases("meters.yaml", follows=True)
lk.Clint
"""


def checked(*files):
    """What mypy says of files, with the settings of the project: a line an error."""
    needs.package("mypy")
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return [line for line in done.stdout.splitlines() if ": error: " in line]


@pytest.fixture(scope="module")
def errors(tmp_path_factory):
    """Of the good calls and of the bad ones: mypy reads the package once for both."""
    bad = tmp_path_factory.mktemp("typing") / "bad_calls.py"
    bad.write_text("import ldp_kafka as lk\n\n" + BAD, encoding="utf-8")
    return checked(str(CALLS), str(bad))


def test_what_the_stub_stands_for_is_checked_too():
    """mypy reads the stub in its place, unless it is named."""
    assert checked(str(stubs.STUB.with_suffix(".py"))) == []


def test_good_calls_have_the_types_that_they_say(errors):
    assert [line for line in errors if "bad_calls.py" not in line] == []


def test_every_bad_call_is_an_error(errors):
    said = {int(line.split(":")[1]) for line in errors if "bad_calls.py" in line}
    lines = dict(enumerate(BAD.splitlines(), 3))
    assert [text for number, text in lines.items() if number not in said] == []


@cases(
    "call",
    [
        calls.mechanisms,
        calls.every_mechanism_is_a_mechanism,
        calls.methods,
        calls.protocols,
        calls.names_of_the_run,
        calls.records,
        calls.late_names,
    ],
)
def test_good_calls_run(call):
    """What a type checker lets pass is what the run takes."""
    call()


def test_the_stub_is_what_the_classes_say():
    """`poe stubs` writes it."""
    assert stubs.STUB.read_text(encoding="utf-8") == stubs.text()


def overloads():
    """(function, name, {parameter: its words, or None}) of each overload in the stub."""
    for node in ast.parse(stubs.STUB.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            name, *_ = node.args.args
            every = {
                each.arg: [
                    leaf.value
                    for leaf in ast.walk(each.annotation)
                    if isinstance(leaf, ast.Constant) and isinstance(leaf.value, str)
                ]
                for each in node.args.kwonlyargs
            }
            yield node.name, name.annotation.slice.value, every


TYPICAL = {
    "epsilon": 2.0,
    "delta": 1e-5,
    "window": 4,
    "horizon": 8,
    "delay": 4,
    "dimension": 2,
    "domain": (1.0, 2.0),
    "categories": 4,
}
"""Of what a name needs, and of what it needs one of."""
ONE_OF = ("horizon", "domain")


def typical(taken):
    """What a name is made with that takes these parameters."""
    return {
        key: TYPICAL[key]
        for key, each in taken.items()
        if key in TYPICAL and (not stubs.optional(key, each) or key in ONE_OF)
    }


@cases(("function", "name", "every"), overloads())
def test_what_the_stub_offers_is_taken_and_what_it_does_not_is_refused(function, name, every):
    """Each parameter by its name, and each word of those that are one of a few words."""
    make = getattr(lk, function)
    registry = {"mechanism": lk.MECHANISMS, "method": lk.METHODS, "protocol": lk.PROTOCOLS}
    taken = stubs.parameters(registry[function][name])
    assert taken.keys() == every.keys()
    usual = typical(taken)
    make(name, **usual)
    for key, each in taken.items():
        if stubs.optional(key, each) and key not in stubs.BY_NAME and key not in usual:
            make(name, **usual, **{key: each.default})
    for key in (key for key in usual if not stubs.optional(key, taken[key])):
        with pytest.raises((TypeError, ValueError)):
            make(name, **{other: value for other, value in usual.items() if other != key})
    for key, words in every.items():
        if not words:
            continue
        if key not in stubs.BY_NAME:
            for word in words:
                try:
                    make(name, **usual | {key: word})
                except lk.errors.ConfigurationError as error:
                    refused = error
                    assert not str(refused).startswith(key), "for something else than the word"
        with pytest.raises(lk.errors.ConfigurationError, match=key):
            make(name, **usual | {key: "other"})
    with pytest.raises(TypeError):
        make(name, **usual, misspelt=1)


def test_completion_shows_the_public_names_and_no_others():
    """Those that come when they are asked for too."""
    assert dir(lk) == sorted(lk.__all__)
    assert {"Client", "AsyncClient", "ConfigurationError", "Record", "errors"} <= set(dir(lk))
    assert dir(lk.errors) == sorted(lk.errors.__all__)
    assert {"Reason", "BadRecord"} <= set(dir(lk.errors))
    for module in (lk, lk.errors):
        assert all(getattr(module, name) is not None for name in dir(module))


def test_help_shows_the_docstrings():
    """The stub has none: they are those of the functions."""
    for each in (lk.mechanism, lk.method, lk.protocol):
        assert inspect.getdoc(each)


def test_record_is_what_decode_gives():
    letter = lk.DeadLetter("meters.raw", 0, 7, 0, lk.errors.Reason.USER)
    for record in (lk.Event("m1", 0, 1.0), lk.Tick(5), letter):
        (found,) = lk.decode(lk.encode(record))
        assert isinstance(found, lk.Record)
    assert not isinstance(np.float64(1.0), lk.Record)
    assert not isinstance(DelayMethod, lk.Record)
