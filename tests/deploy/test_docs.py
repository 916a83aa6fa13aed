"""The docs site: it builds without a warning, leads nowhere that is not there, and has a page for
each registered name, a line for each key, metric and command, and a place for each section of the
READMEs.
"""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import sys
from collections import Counter
from html.parser import HTMLParser
from math import e

import pytest

import ldp_kafka as lk
from ldp_kafka.cli import COMMANDS
from ldp_kafka.errors import Dropped, Reason
from ldp_kafka.metrics import NAMES
from ldp_kafka.statistics import STATISTICS
from ldp_kafka.topology.schema import schema
from tests.deploy.code_blocks import ROOT

DOCS = ROOT / "deploy" / "docs"
REGISTRIES = {
    "mechanisms": lk.MECHANISMS,
    "methods": lk.METHODS,
    "protocols": lk.PROTOCOLS,
    "statistics": STATISTICS,
}
SECTIONS = runpy.run_path(str(DOCS / "sections.py"))


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """The folder of the built site: as `poe docs` builds it, but for the folder."""
    folder = tmp_path_factory.mktemp("site")
    done = build(DOCS / "mkdocs.yml", folder)
    assert done.returncode == 0, done.stderr[-4000:]
    return folder


def build(config, folder):
    # with --quiet MkDocs counts no warnings
    command = ["build", "--strict", "--config-file", config, "--site-dir", folder]
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", *map(str, command)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )


class Read(HTMLParser):
    """What a page links and loads, its anchors, and its text."""

    def __init__(self, text):
        super().__init__()
        self.links, self.loaded, self.ids, self.text = [], [], Counter(), ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        elif (
            tag == "link"
            and found.get("href")
            and found["rel"] not in {"canonical", "next", "prev"}
        ):
            self.loaded.append(found["href"])
        elif found.get("src"):
            self.loaded.append(found["src"])
        if "id" in found:
            self.ids[found["id"]] += 1

    def handle_data(self, data):
        self.text += data


@pytest.fixture(scope="session")
def pages(site):
    return {
        path.relative_to(site).as_posix(): Read(path.read_text("utf-8"))
        for path in site.rglob("*.html")
    }


def test_every_name_has_its_page(pages):
    """And its docstring is on it."""
    for kind, registry in REGISTRIES.items():
        for name, made in registry.items():
            page = pages[f"reference/{kind}/{name}/index.html"]
            assert f"{made.__module__}.{made.__qualname__}" in page.ids
            first = (made.__doc__ or "").split()[:4]
            assert " ".join(first).replace("`", "") in " ".join(page.text.split())
            assert f"reference/{kind}/{name}/" in "".join(
                os.path.normpath(f"reference/{kind}/{link}/") + "/ "
                for link in pages[f"reference/{kind}/index.html"].links
            )


def test_everything_that_is_public_is_there(pages):
    """The members of ``lk.__all__``, by the name of what they are."""
    found = {
        name
        for page in ("", "classes/", "errors/")
        for name in pages[f"reference/python/{page}index.html"].ids
    }
    for name in lk.__all__:
        one = getattr(lk, name)
        if isinstance(one, type) or callable(one):
            assert f"{one.__module__}.{one.__qualname__}" in found


def test_keys_commands_metrics_and_reasons_are_there(pages):
    """All of them, from where the code has them."""
    text = pages["reference/keys/index.html"].text
    for kind in ("topology", "edge"):
        for name, found in schema(kind)["properties"].items():
            defined = schema(kind).get("$defs", {}).get(found.get("$ref", "").rpartition("/")[2])
            for key in (defined or found).get("properties", {}):
                assert f"{name}.{key}" in text
            assert name in text
    assert pages["reference/commands/index.html"].ids.keys() >= {
        f"ldp-kafka-{name}" for name in COMMANDS
    }
    text = pages["reference/metrics/index.html"].text
    assert not [name for name in (*NAMES, *Dropped) if name not in text]
    text = pages["reference/dead-letters/index.html"].text
    assert not [reason for reason in Reason if reason not in text]


def test_links_lead_somewhere(pages, site):
    """To a file of the site and to an anchor on it. MkDocs looks at links in Markdown; these are
    those that come of it.
    """
    count = 0
    for path, page in pages.items():
        if path == "404.html":  # whose links begin at the site's root
            continue
        for link in page.links:
            if re.match(r"[a-z]+:", link):
                continue
            count += 1
            target, _, anchor = link.partition("#")
            file = (site / path).parent / target if target else site / path
            file = file / "index.html" if file.is_dir() else file
            assert file.is_file(), (path, link)
            there = os.path.relpath(file, site)
            if anchor and there in pages and not anchor.startswith("__"):
                assert anchor in pages[there].ids, (path, link)
    assert count > 1000


def test_no_anchor_is_there_twice(pages):
    """A link to it would lead to the first."""
    for path, page in pages.items():
        own = {name: count for name, count in page.ids.items() if not name.startswith("__")}
        assert not [name for name, count in own.items() if count > 1], path


def test_pages_ask_no_other_host(pages, site):
    """Not for a font, a script, a picture or a style."""
    for path, page in pages.items():
        assert not [one for one in page.loaded if re.match(r"(?:[a-z]+:)?//", one)], path
    for style in site.rglob("*.css"):
        assert not re.findall(r"url\([\"']?(?:https?:)?//", style.read_text("utf-8")), style


def test_every_section_is_on_one_page():
    """Of each file that pages include; no sentence is there twice, and none is left out."""
    texts = {path: path.read_text("utf-8") for path in (DOCS / "pages").rglob("*.md")}
    included = Counter(
        (found["file"], found["slug"])
        for text in texts.values()
        for found in SECTIONS["INCLUDE"].finditer(text)
    )
    assert max(included.values()) == 1
    for file in {file for file, _ in included}:
        slugs = {slug for each, slug in included if each == file}
        every = SECTIONS["headings"]((ROOT / file).read_text("utf-8"))
        assert slugs == {None} or slugs == {slug for _, level, slug in every if level < 3}, file


def test_sections():
    """What is taken of a file, and what becomes of lists and links."""
    text = (
        "# A\n\nintro\n\n## B c\n\n```sh\n# no heading\n```\n\n### D\n\n- x\n  - y\n    z\n\n## E\n"
    )
    body, slugs = SECTIONS["section"](text, "b-c")
    assert slugs == ["b-c", "d"]
    assert body.startswith("\n```sh\n# no heading")
    assert body.rstrip().endswith("z")
    assert SECTIONS["section"](text, "a") == ("\nintro\n", ["a"])
    assert SECTIONS["section"](text, None)[1] == ["a", "b-c", "d", "e"]
    with pytest.raises(KeyError):
        SECTIONS["section"](text, "f")
    assert SECTIONS["nested"]("- a\n  b\n  - c\n    d\n\n  ```\n    e\n  ```\nf") == (
        "- a\n    b\n    - c\n        d\n\n    ```\n      e\n    ```\nf"
    )


@pytest.mark.parametrize(
    ("link", "found"),
    [
        ("README.md#b", "../b/#b"),
        ("#b", "../b/#b"),
        ("deploy/docs/pages/one/b.md", "../b/"),
        ("deploy/docs/pages/one/b.md#two", "../b/#two"),
        ("deploy/docs/pages/one/a.md#first", "#first"),
        ("#a", "#a"),
        ("pyproject.toml", "../files/pyproject.toml"),
        ("deploy/docs/pages/picture.svg", "../picture.svg"),
    ],
)
def test_links_between_files_become_links_between_pages(link, found, tmp_path):
    (tmp_path / "README.md").write_text(f"# Top\n\n## A\n\n[x]({link})\n\n## B\n\nhere\n")
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "deploy/docs/pages").mkdir(parents=True)
    (tmp_path / "deploy/docs/pages/picture.svg").touch()
    texts = {
        "one/a.md": "# One\n\n## First\n\n<!-- include: README.md#a -->\n",
        "one/b.md": "# Two\n\n<!-- include: README.md#b -->\n",
    }
    pages = SECTIONS["Pages"](tmp_path, texts)
    [is_] = re.findall(r"\]\((.*?)\)", pages.render("one/a.md", texts["one/a.md"]))
    assert is_ == found.replace("../b/", "b.md")
    assert pages.copies == ({"pyproject.toml"} if "toml" in link else set())


@pytest.mark.parametrize(
    ("link", "found"),
    [
        ("../../../../README.md#b", "b.md#b"),
        ("../../../../README.md#a", "#a"),
        ("../../../../pyproject.toml", "../files/pyproject.toml"),
        ("b.md#none", "b.md#none"),  # MkDocs looks at links between pages
        ("picture.svg#only-light", "picture.svg#only-light"),
    ],
)
def test_links_of_a_page_are_as_github_resolves_them(link, found, tmp_path):
    """Those out of the pages' folder change; those in code, and within the folder, stay."""
    (tmp_path / "README.md").write_text("# Top\n\n## A\n\nx\n\n## B\n\nhere\n")
    (tmp_path / "pyproject.toml").touch()
    code = "```\n[x](../../../../README.md#b)\n```\n"
    include = "<!-- include: README.md#a -->\nSee it.\n"
    texts = {
        "one/a.md": f"# One\n\n[x]({link})\n\n{code}\n{include}\nend\n",
        "one/b.md": "# Two\n\n<!-- include: README.md#b -->\n",
    }
    text = SECTIONS["Pages"](tmp_path, texts).render("one/a.md", texts["one/a.md"])
    assert text.startswith(f"# One\n\n[x]({found})\n\n{code}")
    assert "See it." not in text  # which is for readers on GitHub
    assert text.rstrip().endswith("x\n\nend")


def test_what_is_included_is_named_on_github():
    """Where a page has nothing of its own, a link below the comment leads to the text."""
    folder = DOCS / "pages"
    for page in folder.rglob("*.md"):
        for found in SECTIONS["INCLUDE"].finditer(page.read_text("utf-8")):
            target = os.path.relpath(ROOT / found["file"], page.parent)
            anchor = f"#{found['slug']}" if found["slug"] else ""
            assert found["instead"] == f"\nSee [{found['file']}]({target}{anchor}).", page


# by the build of the site, of a docstring
MADE = {"../python/classes.md#ldp_kafka.methods.protocols.base.Protocol"}


@pytest.mark.parametrize(
    "page",
    [
        path.relative_to(ROOT).as_posix()
        for path in sorted(ROOT.rglob("*.md"))
        if not {"build", "node_modules"} & {*path.relative_to(ROOT).parts}
        and not any(part[0] == "." for part in path.relative_to(ROOT).parts)
    ],
)
def test_links_lead_somewhere_on_github(page):
    """Each to a file of the repo, and to a heading that is in that file."""
    text = (ROOT / page).read_text("utf-8")
    outside = "\n".join(line for _, line, outside in SECTIONS["unfenced"](text) if outside)
    for link in SECTIONS["LINK"].findall(re.sub(r"`[^`\n]*`", "``", outside)):
        if link in MADE:
            continue
        path, _, anchor = link.partition("#")
        file = (ROOT / page).parent / path if path else ROOT / page
        assert file.exists(), link
        assert file.resolve().is_relative_to(ROOT), link
        if anchor and file.suffix == ".md":
            there = SECTIONS["headings"](file.read_text("utf-8"))
            assert anchor in {slug for _, _, slug in there}, link


@pytest.mark.parametrize(
    "link",
    [
        "README.md#none",
        "other.md",
        "none.py",
        "deploy/docs/pages/none.md",
        "deploy/docs/pages/a.md#none",
    ],
)
def test_a_link_to_nothing_is_an_error(link, tmp_path):
    (tmp_path / "README.md").write_text(f"# Top\n\n## A\n\n[x]({link})\n")
    texts = {"a.md": "# One\n\n<!-- include: README.md#a -->\n"}
    with pytest.raises(KeyError, match=r"README\.md links"):
        SECTIONS["Pages"](tmp_path, texts).render("a.md", texts["a.md"])


def test_the_picture_is_true():
    """Its bars are whole distributions, whose odds keep the limit that it names; those of streams
    as far apart as can be reach it. What its text says is in it.
    """
    picture = runpy.run_path(str(DOCS / "picture.py"))
    first, second = (picture["probabilities"](picture[name]) for name in ("FIRST", "SECOND"))
    assert sum(first.values()) == pytest.approx(1) == sum(second.values())
    odds = [first[output] / second[output] for output in first]
    assert f"{max(odds):.1f}" == "2.2"
    assert max(odds) <= e
    assert min(odds) >= 1 / e
    high, low = (picture["probabilities"]((value,) * 3) for value in (1.0, 0.0))
    assert e * (1 - 1e-5) < high[1, 1, 1] / low[1, 1, 1] <= e
    assert "2.2 : 1" in (DOCS / "pages" / "guarantee.md").read_text("utf-8")
    for name, content in picture["files"]().items():
        assert content == picture["files"]()[name]  # the same bytes each time
        shown = (picture["HERE"] / name).read_text("utf-8")
        drawn = content.decode()
        for each in (r"<!-- (.*?) -->", r"fill: (#\w+)", r"stroke: (#\w+)"):
            assert re.findall(each, shown) == re.findall(each, drawn)
        # another matplotlib may lay it out a little differently
        where = [[*map(float, re.findall(r"-?\d+\.\d+", text))] for text in (shown, drawn)]
        assert where[0] == pytest.approx(where[1], abs=2), name


def test_sureness_is_what_the_table_says():
    """The odds, and how sure they make, of each epsilon."""
    text = (DOCS / "pages" / "guarantee.md").read_text("utf-8")
    rows = re.findall(r"^\| ([\d.]+) \| ([\d.]+) : 1 \| (\d+) % \|$", text, re.MULTILINE)
    assert len(rows) == 5
    for epsilon, odds, sure in rows:
        exact = e ** float(epsilon)
        assert float(odds) == pytest.approx(exact, rel=0.04)
        assert int(sure) == round(100 * exact / (1 + exact))


def test_docstrings_as_markdown():
    """Literal blocks, powers, and what stands behind a parameter's name."""
    markdown = runpy.run_path(str(DOCS / "docstrings.py"))["markdown"]
    assert markdown("So::\n\n    x = 2**3\n") == "So:\n\n    x = 2**3\n"
    assert markdown("at most 2**20 of ``a**b``") == "at most 2\\*\\*20 of ``a**b``"
    assert markdown(
        "A.\n\nParameters\n----------\na, b : what\n    they are\n\nNotes\n-----\nx : y"
    ) == ("A.\n\nParameters\n----------\na, b\n    what\n    they are\n\nNotes\n-----\nx : y")
    text = "A.\n\nReturns\n-------\n{}how many: all\n{}of them\n\nRaises\n------\n"
    assert markdown(text.format("", "")) == text.format(":\n    ", "    ")
    text = "A.\n\n{}>>> 2**3\n8{}\n\nB.\n\nExamples\n--------\n>>> 1\n1"
    assert markdown(text.format("", "")) == text.format("```pycon\n", "\n```")
    assert 'identifier="ldp_kafka.errors.Reason"' in markdown("see `ldp_kafka.errors.Reason`")


def test_a_broken_link_stops_the_build(tmp_path):
    """Warnings are errors."""
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "index.md").write_text("# A\n\n[x](#none)\n")
    settings = (DOCS / "mkdocs.yml").read_text().partition("\nvalidation:")[2].partition("\n\n")[0]
    (tmp_path / "mkdocs.yml").write_text(
        f"site_name: x\ndocs_dir: pages\nvalidation:{settings}\nplugins: []\n"
    )
    done = build(tmp_path / "mkdocs.yml", tmp_path / "site")
    assert done.returncode == 1
    assert "#none" in done.stderr


def test_no_power_of_a_number_became_bold(site):
    """Markdown takes the marks of ``2**20 and 2**17`` in plain text for bold letters."""
    pages = sorted(site.rglob("*.html"))
    assert pages
    eaten = re.compile(r"\d<(?:strong|em)>|</(?:strong|em)>\d")
    assert [page for page in pages if eaten.search(page.read_text("utf-8"))] == []


def test_search_finds_pages(site):
    """The index that the search box reads has the tutorial and the reference."""
    found = json.loads((site / "search" / "search_index.json").read_text())["docs"]
    places = {one["location"].partition("#")[0] for one in found}
    assert {"tutorial/", "reference/methods/capp/"} <= places
