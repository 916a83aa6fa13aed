"""The words for why a release states no error."""

from __future__ import annotations

import re
from pathlib import Path

from ldp_kafka.methods.unstated import UNSTATED

PAGE = Path(__file__).parents[2] / "deploy" / "docs" / "pages" / "reference" / "records.md"


def test_the_page_has_a_row_for_each_word():
    text = PAGE.read_text("utf-8")
    table = text.partition("<!-- begin reasons -->\n")[2].partition("<!-- end reasons -->")[0]
    rows = "".join(f"| `{word}` | {UNSTATED[word]} |\n" for word in sorted(UNSTATED))
    assert table == f"| `error_reason` | why no error is stated |\n|---|---|\n{rows}"


def test_a_word_is_a_word_and_its_sentences_are_whole():
    for word, said in UNSTATED.items():
        assert re.fullmatch(r"[a-z]+(_[a-z]+)*", word)
        assert said[0].isupper()
        assert said.endswith(".")
