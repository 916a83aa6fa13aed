"""No circles: modules depend on each other in one direction, whatever hides an import."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from tests.test_house import FILES, ROOT, Import, all_imports, imports


def name_of(path):
    """Dotted name of a file of the package; a package's name is its ``__init__``."""
    parts = ("ldp_kafka", *Path(path).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


LOADERS = {"import_module", "__import__"}
MODULES = {name_of(path.relative_to(ROOT)) for path in FILES}


def graph(found: Iterable[Import], modules: Iterable[str]) -> Mapping[str, set[str]]:
    """Which module imports which others. A name that is no module leads to the module that it is
    taken from: the package's ``__init__`` where that is a package.
    """
    known, edges = set(modules), defaultdict[str, set[str]](set)
    for one in found:
        target = one.module
        if target.partition(".")[0] != "ldp_kafka":
            continue
        while target not in known:
            target = target.rpartition(".")[0]
            assert target, f"{one.file}:{one.line} imports {one.module}: no such module"
        edges[name_of(one.file)].add(target)
    return edges


def circles(edges: Mapping[str, set[str]]) -> list[set[str]]:
    """Strongly connected components of more than one module (Tarjan, 1972), and modules that
    import themselves.
    """
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[set[str]] = []

    def visit(module):
        index[module] = low[module] = len(index)
        stack.append(module)
        for other in sorted(edges.get(module, ())):
            if other not in index:
                visit(other)
                low[module] = min(low[module], low[other])
            elif other in stack:
                low[module] = min(low[module], index[other])
        if low[module] == index[module]:
            at = stack.index(module)
            part = set(stack[at:])
            del stack[at:]
            if len(part) > 1 or module in edges.get(module, ()):
                found.append(part)

    for module in sorted(edges):
        if module not in index:
            visit(module)
    return found


def test_there_is_no_circle():
    """Imports in functions and under TYPE_CHECKING count like all others: hiding one mends
    nothing. None is allowed, not even to keep `import ldp_kafka` light: the rooms that the package
    opens inside its functions know nothing of the package's own names.
    """
    assert circles(graph(all_imports(), MODULES)) == []


def test_no_import_is_spelled_as_a_string():
    """What is imported by a text would be missing in the graph: only what the user names is."""
    calls = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and getattr(node.func, "attr", getattr(node.func, "id", "")) in LOADERS
        and not (node.args and isinstance(node.args[0], ast.Name))
    ]
    assert calls == []


# Each is a package of files: name -> text. The circle is found however the import is spelled.
PLANTED = {
    "plain": {"a": "import ldp_kafka.b", "b": "from ldp_kafka import a"},
    "in a function": {"a": "def f():\n    from ldp_kafka.b import g", "b": "import ldp_kafka.a"},
    "for types alone": {
        "a": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ldp_kafka.b import B",
        "b": "from ldp_kafka.a import f",
    },
    "over the package": {
        "p/__init__": "from ldp_kafka.p.a import f",
        "p/a": "def f():\n    from ldp_kafka.p import NAME",
    },
    "of three": {
        "a": "from ldp_kafka.b import f",
        "b": "from ldp_kafka.p.c import f",
        "p/__init__": "",
        "p/c": "def f():\n    import ldp_kafka.a",
    },
    "with itself": {"a": "def f():\n    from ldp_kafka.a import g"},
}


@pytest.mark.parametrize("files", PLANTED.values(), ids=PLANTED.keys())
def test_a_planted_circle_is_found(files, tmp_path, monkeypatch):
    """One circle, of all modules but an empty ``__init__``; with one edge cut there is none."""
    monkeypatch.setattr("tests.test_house.ROOT", tmp_path)
    made = {**files, "outside": "import ldp_kafka.a", "__init__": ""}
    found = []
    for name, text in made.items():
        path = tmp_path / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        found += imports(path)
    modules = {name_of(f"{name}.py") for name in made} | {"ldp_kafka.a"}
    circle = {name_of(f"{name}.py") for name, text in files.items() if text}
    assert circles(graph(found, modules)) == [circle]
    cut = [one for one in found if one.file != f"{min(files)}.py"]
    assert circles(graph(cut, modules)) == []
