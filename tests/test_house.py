"""Who may import whom, and what an import costs."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import pytest

import ldp_kafka
from ldp_kafka.statistics import STATISTICS
from tests.cases import cases

ROOT = Path(ldp_kafka.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))

# Each room may import those in lines before its own, and itself.
ORDER = """
errors normal_form version
randomness
records
mechanisms
accounting
methods
plugins
named
statistics
checks
audits evaluation topology
metrics
runtime
cli
__init__ __main__
"""
# The same inside the runtime; rooms of one rank are strangers to each other.
RUNTIME = """
__init__
sealing
log
runs
wire partitioning keys
stages
roles
local
recovery
brokers
kafka
worker tools device replay releases sample
demo frame status coverage
compare
"""
RANK, RUNTIME_RANK = (
    {room: rank for rank, rooms in enumerate(text.strip().split("\n")) for room in rooms.split()}
    for text in (ORDER, RUNTIME)
)
# of one rank, and strangers to each other
BESIDE = [{"audits", "evaluation"}, {"topology"}]
# may import upward inside a function, so that their own import stays light
FRONT = {"__init__", "__main__", "cli"}

# Third-party package -> the only files or folders that may import it; what is not here may be
# imported nowhere but by these.
ONLY = {
    "aws_msk_iam_sasl_signer": ("runtime/kafka/msk.py",),
    "botocore": ("runtime/kafka/msk.py",),
    "click": ("cli", "runtime/demo"),
    "confluent_kafka": ("runtime",),
    "cryptography": ("randomness", "runtime/sealing.py", "topology/logins.py"),
    "faust": ("runtime/worker",),
    "jsonschema": ("topology",),
    "matplotlib": ("runtime/demo", "runtime/releases", "evaluation", "audits"),
    "mode": ("runtime/worker",),
    "numpy": ("",),
    "orjson": ("runtime/wire",),
    "prometheus_client": ("metrics",),
    "pyarrow": ("runtime",),
    "rich": ("cli", "runtime/demo", "runtime/releases"),
    "ruamel": ("topology",),
    "scipy": ("accounting", "evaluation"),
    "uvloop": ("runtime",),
    "yaml": ("topology",),
}
LIGHT = {
    *("faust", "mode", "confluent_kafka", "prometheus_client", "yaml", "ruamel"),
    *("scipy", "pyarrow", "orjson", "jsonschema", "click", "rich", "matplotlib", "pytest"),
    "cryptography",
}


class Import(NamedTuple):
    """One import of one module."""

    file: str
    line: int
    module: str
    lazy: bool  # inside a function
    typing: bool  # under TYPE_CHECKING: never happens


def imports(path):
    """Every import of a file, with the names that ``from package import`` takes from a package as
    modules of their own.
    """
    found = []

    def visit(node, lazy, typing):
        for child in ast.iter_child_nodes(node):
            inside = lazy or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            unreal = typing or (
                isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test)
            )
            names = []
            if isinstance(child, ast.Import):
                names = [alias.name for alias in child.names]
            elif isinstance(child, ast.ImportFrom):
                assert not child.level, f"{path}: relative imports hide where they lead"
                assert child.module
                names = [f"{child.module}.{alias.name}" for alias in child.names]
            found.extend(
                Import(str(path.relative_to(ROOT)), getattr(child, "lineno", 0), name, lazy, unreal)
                for name in names
            )
            visit(child, inside, unreal)

    visit(ast.parse(path.read_text(encoding="utf-8")), False, False)
    return found


@cache
def all_imports():
    """Of every file: read once, and not while tests are collected."""
    return [one for path in FILES for one in imports(path)]


def of_ours():
    """Imports of our own modules."""
    return [one for one in all_imports() if one.module.split(".")[0] == "ldp_kafka"]


def room_of(file):
    """The first part of a file's path: the package's rooms."""
    return Path(file).parts[0].removesuffix(".py")


def target(module):
    """The room that an import of ours leads to: ``ldp_kafka.method`` is the package itself."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in RANK else "__init__"


def test_every_room_has_its_place():
    """A new room must be put in order, or it could import anything."""
    assert {room_of(str(path.relative_to(ROOT))) for path in FILES} <= RANK.keys()


def stranger(room, other):
    """Whether a room may not know the other."""
    if room in FRONT and other in FRONT:
        return False
    if other == "__init__":
        # the whole house: only what is above all rooms that it opens at import
        return RANK[room] < RANK["runtime"]
    if RANK[room] == RANK[other]:
        return any((room in side) != (other in side) for side in BESIDE)
    return RANK[other] > RANK[room]


def test_imports_go_down():
    """errors, records, randomness <- mechanisms <- accounting <- methods <- statistics <- topology
    <- runtime <- cli; checks, audits and evaluation stand beside topology.
    """
    wrong = [
        one
        for one in of_ours()
        if not one.typing
        and stranger(room_of(one.file), target(one.module))
        and not (one.lazy and room_of(one.file) in FRONT)
    ]
    assert not wrong


def inner(parts):
    """The room of the runtime that a path or a module leads to."""
    return parts[1].removesuffix(".py") if len(parts) > 1 else "__init__"


def inner_stranger(room, other):
    """Whether a room of the runtime may not know the other."""
    mine, theirs = RUNTIME_RANK[room], RUNTIME_RANK[other]
    return theirs > mine or (theirs == mine and room != other)


def test_imports_go_down_inside_the_runtime():
    """sealing <- log <- wire, partitioning, keys <- stages <- roles <- local <- recovery <- brokers
    <- kafka <- worker, tools, device, replay, releases, sample <- demo, status; imports in
    functions and for types too.
    """
    inside = [one for one in of_ours() if room_of(one.file) == "runtime"]
    found = {
        (inner(Path(one.file).parts), inner(one.module.split(".")[1:])): one
        for one in inside
        if target(one.module) == "runtime"
    }
    assert {room for pair in found for room in pair} <= RUNTIME_RANK.keys()
    assert not [one for pair, one in found.items() if inner_stranger(*pair)]
    assert len(found) > 20


@cases(
    ("room", "other"),
    [
        ("log", "wire"),
        ("stages", "roles"),
        ("recovery", "kafka"),
        ("kafka", "worker"),
        ("tools", "worker"),
        ("worker", "tools"),
        ("device", "demo"),
    ],
)
def test_the_runtimes_rule_has_teeth(room, other):
    assert inner_stranger(room, other)


def test_only_the_front_imports_upward_lazily():
    """And types may not be borrowed from above either, but by the front."""
    wrong = [
        one
        for one in of_ours()
        if one.typing
        and stranger(room_of(one.file), target(one.module))
        and room_of(one.file) not in FRONT
    ]
    assert not wrong


def test_the_worker_is_for_the_runner_only():
    """What imports Faust is loaded by whoever starts a worker, when it starts one."""
    users = [
        one
        for one in of_ours()
        if one.module.startswith("ldp_kafka.runtime.worker.app")
        and not one.file.startswith("runtime/worker/")
    ]
    assert all(one.lazy and room_of(one.file) in {"runtime", "cli"} for one in users), users


def test_third_parties_stay_where_they_belong():
    """faust only in runtime/worker, confluent_kafka only in runtime, prometheus_client only in
    metrics, YAML only in topology, scipy only in accounting and evaluation.
    """
    theirs = [
        one
        for one in all_imports()
        if one.module.split(".")[0] not in {*sys.stdlib_module_names, "ldp_kafka"}
    ]
    wrong = [
        one
        for one in theirs
        if not any(
            one.file == place or place == "" or one.file.startswith(place + "/")
            for place in ONLY.get(one.module.split(".")[0], ())
        )
    ]
    assert not wrong


@cases("path", FILES)
def test_all_is_sorted_and_true(path):
    """Every file says what it offers, in the order that ruff keeps (constants, classes, functions),
    and offers it.
    """
    tree = ast.parse(path.read_text(encoding="utf-8"))
    module = import_module(".".join(path.relative_to(ROOT.parent).with_suffix("").parts))
    names = getattr(module, "__all__", None)
    if names is None:
        docstrings = all(isinstance(node, ast.Expr) for node in tree.body)
        own = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
        assert docstrings or path.name == "version.py" or (path.name == "__init__.py" and not own)
        return
    assert names == sorted(set(names), key=_kind_and_name)
    assert all(hasattr(module, name) for name in names)


def _kind_and_name(name):
    return (0 if name.isupper() and name[1:] else 1 if name[0].isupper() else 2, name)


def test_nobody_is_sent_to_an_index():
    """This package is on none: extras are installed of a checkout, or of its wheel. Where a command
    is broken in two, its parts are read together.
    """
    here = ROOT.parent
    pages = [path for path in here.rglob("*.md") if path.name != "CHANGELOG.md"]
    asks = re.compile(r"pip\s+install[^\n&]{0,60}?\bldp[-_]kafka(\[|['\"`)\s]|$)")
    found = [
        str(path.relative_to(here))
        for path in [*FILES, *pages]
        if asks.search(re.sub(r"\"\s*\n\s*f?\"", "", path.read_text("utf-8")))
    ]
    assert not found


@cases("name", ldp_kafka.__all__)
def test_the_front_offers_what_it_says(name):
    """The public names exist."""
    assert hasattr(ldp_kafka, name)


def loaded(code):
    """Modules in a fresh interpreter after some code."""
    run = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys, json; print(json.dumps(sorted(sys.modules)))"],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT.parent,
        timeout=60,
    )
    return set(json.loads(run.stdout))


@pytest.mark.parametrize(
    "code",
    [
        "import ldp_kafka",
        "import ldp_kafka.checks",
        "import ldp_kafka as lk; lk.mechanism('grr', epsilon=1.0, categories=3).law(0)",
    ],
)
def test_the_core_is_light(code):
    """The core, and the contract that is shipped with it, load numpy and nothing else of ours or
    theirs.
    """
    modules = loaded(code)
    assert not modules & LIGHT
    assert not {
        module
        for module in modules
        if module.startswith(
            ("ldp_kafka.runtime", "ldp_kafka.topology", "ldp_kafka.metrics", "ldp_kafka.cli")
        )
    }


def test_the_core_runs_on_cryptography_alone():
    """A draw loads it, and no more."""
    modules = loaded(
        "import os; import ldp_kafka as lk; source = lk.randomness.keyed(os.urandom(32));"
        " lk.method('sw_direct', epsilon=1.0, window=2, domain=(0.0, 1.0)).release([[0.5, 0.2]],"
        " source, users=['a'], first_slot=0)"
    )
    assert modules & LIGHT == {"cryptography"}


def test_registries_are_literal():
    """MECHANISMS, METHODS and STATISTICS are dicts written out, sorted, whose keys are their
    classes' names.
    """
    for room, name in (
        ("mechanisms", "MECHANISMS"),
        ("methods", "METHODS"),
        ("statistics", "STATISTICS"),
    ):
        tree = ast.parse((ROOT / room / "__init__.py").read_text(encoding="utf-8"))
        (table,) = [
            node.value
            for node in tree.body
            if isinstance(node, ast.AnnAssign) and getattr(node.target, "id", "") == name
        ]
        assert isinstance(table, ast.Dict)
        keys = [ast.literal_eval(key) for key in table.keys if key]
        assert keys == sorted(keys) == list(getattr(import_module(f"ldp_kafka.{room}"), name))
    assert all(kind.name == key for key, kind in ldp_kafka.METHODS.items())
    assert all(kind.name == key for key, kind in STATISTICS.items())


@cases(
    ("room", "other"),
    [
        ("randomness", "mechanisms"),
        ("mechanisms", "accounting"),
        ("accounting", "methods"),
        ("methods", "statistics"),
        ("methods", "topology"),
        ("methods", "__init__"),
        ("statistics", "topology"),
        ("checks", "topology"),
        ("topology", "evaluation"),
        ("evaluation", "runtime"),
        ("topology", "runtime"),
        ("runtime", "cli"),
        ("metrics", "cli"),
    ],
)
def test_the_rule_has_teeth(room, other):
    """One way is forbidden, the other is not."""
    assert stranger(room, other)
    assert not stranger(other, room) or {room, other} in (
        {"checks", "topology"},
        {"topology", "evaluation"},
    )
