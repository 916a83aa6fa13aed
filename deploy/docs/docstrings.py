"""Our docstrings as Markdown: they are numpydoc, with marks of reStructuredText."""

from __future__ import annotations

import re
from textwrap import indent
from typing import Any

from griffe import Extension, Object

__all__ = ["Marks", "markdown"]

# doctests, indented blocks and code keep what they have
CODE = re.compile(r"(``.+?``|`[^`\n]+`|^ *(?:>>>|\.\.\.).*$|^    .*$)", re.MULTILINE)
# an item of a section: its name, or names, and the beginning of what it is
SECTION = re.compile(
    r"^(?:Parameters|Attributes|Raises)\n-+\n(?:.+\n?|\n(?!\w.*\n---))*",
    re.MULTILINE,
)
ITEM = re.compile(r"^(\*{0,2}\w[^\n:]*?) : (.+)$", re.MULTILINE)
# what is returned has no name, and its type is in the signature
RETURNED = re.compile(r"^((?:Returns|Yields)\n-+\n)((?:\S.*\n?)+)", re.MULTILINE)
POWER = re.compile(r"(?<=[\w)])\*{1,2}(?=[\w(-])")
# a section has its own way with doctests
DOCTEST = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)
EXAMPLES = re.compile(r"^Examples\n-+$", re.MULTILINE)
NAME = re.compile(r"`(ldp_kafka(?:\.\w+)+)`")


def markdown(text: str) -> str:
    """A docstring with literal blocks, powers and references to names as Markdown has them. Behind
    a parameter's name stands what it is, in words: types are in the signature.
    """
    text = SECTION.sub(lambda found: ITEM.sub(r"\1\n    \2", found[0]), text)
    text = RETURNED.sub(lambda found: f"{found[1]}:\n{indent(found[2], '    ')}", text)
    found = EXAMPLES.search(text)
    end = found.start() if found else len(text)
    text = DOCTEST.sub(r"```pycon\n\g<0>\n```", text[:end]) + text[end:]
    text = re.sub(r"^::$\n*", "", text, flags=re.MULTILINE)
    text = re.sub(r"(?<=\S)::$", ":", text, flags=re.MULTILINE)
    parts = CODE.split(text)
    parts[::2] = [POWER.sub(lambda stars: "\\*" * len(stars[0]), part) for part in parts[::2]]
    return NAME.sub(r'<autoref optional identifier="\1"><code>\1</code></autoref>', "".join(parts))


class Marks(Extension):
    """Rewrites each docstring before it is read."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Once for each function, class, module and attribute."""
        if obj.docstring is not None:
            obj.docstring.value = markdown(obj.docstring.value)
