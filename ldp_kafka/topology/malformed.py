"""What to say, and to write, where a file is no YAML: what the parser says is meant for whoever
writes parsers.
"""

from __future__ import annotations

import re
from typing import Any

__all__ = ["no_yaml"]

_INDENT = (
    "keys of one section must begin in one column, and those below a key further right, all of"
    " them with spaces"
)
_SAYS = (
    # (the parser's context, its problem, what to say, whether it began where the context is)
    (r"", r"'\\t'", "a tab cannot indent: write spaces", False),
    (r"", r"character '(.)' that cannot", r"text cannot begin with \1: put it in quotes", False),
    (r"quoted", r"end of", "the quote that begins in this line must be closed", True),
    (
        r"flow sequence",
        r"expected",
        "a list that begins with [ must have commas between its items, and end with ]",
        True,
    ),
    (
        r"flow mapping",
        r"expected",
        "what begins with { must have commas between its keys, and end with }",
        True,
    ),
    (r"simple key", r"expected ':'", "a key must be followed by a colon and a space", True),
    (
        r"",
        r"mapping values",
        f"{_INDENT}; text that holds a colon and a space must be in quotes",
        False,
    ),
    (r"block", r"<block end>", _INDENT, False),
    (r"", r"another document", "a file must hold one document: take out --- and the rest", False),
    (r"", r"undefined alias", "text cannot begin with *: put it in quotes", False),
    (r"anchor", r"expected", "text cannot begin with &: put it in quotes", False),
    (
        r"double-quoted",
        r"unknown escape",
        r"a backslash in double quotes must be written \\\\, or the text in single quotes",
        False,
    ),
)


def no_yaml(error: Any) -> tuple[str, int | None]:
    """What is wrong, and the line that it is in, of an error of the parser that has marks.

    Examples
    --------
    >>> from ruamel.yaml.scanner import ScannerError
    >>> no_yaml(ScannerError(problem="found character '@' that cannot start any token"))
    ('this is no valid YAML: text cannot begin with @: put it in quotes', None)
    """
    context, problem = error.context or "", error.problem or ""
    for where, what, words, began in _SAYS:
        if re.search(where, context) and (found := re.search(what, problem)):
            said, mark = found.expand(words), error.context_mark if began else error.problem_mark
            break
    else:
        mark = error.problem_mark or error.context_mark
        said = " ".join(part for part in (context, problem) if part)
        said += "; text with such characters must be in quotes"
    return f"this is no valid YAML: {said}", mark.line + 1 if mark else None
