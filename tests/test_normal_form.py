"""NFC is one function under every Python."""

from __future__ import annotations

import hashlib
import sys
import unicodedata

from ldp_kafka.normal_form import nfc

DIGEST = "140b8f99fc7b719287c12f8d1e8420eec638ef863c5673b7a38220db798c2f0c"
SIDES = ("{}", "a{}\u0323\u0301", "\u0301{}", "\U000105d2{}\U000113c9")
BLOCK = 2**12


def test_every_character_has_one_normal_form():
    """Alone, and between letters and accents; the digest is that of Unicode 14.0, 15.0 and 15.1.
    What is not known parts the texts on its sides.
    """
    found = hashlib.sha256()
    for first in range(0, sys.maxunicode + 1, BLOCK):
        block = [chr(code) for code in range(first, first + BLOCK) if not 0xD800 <= code < 0xE000]
        texts = [[side.format(one) for one in block] for side in SIDES]
        forms = [[*map(nfc, each)] for each in texts]
        found.update("".join(map("\n".join, zip(*forms, strict=True))).encode())
        if unicodedata.unidata_version == "14.0.0":
            plain = "\n".join(map("\n".join, texts))
            assert "\n".join(map("\n".join, forms)) == unicodedata.normalize("NFC", plain), first
        unknown = [one for one in block if unicodedata.category(one) == "Cn"]
        text = "".join(f"{one}e\u0301" for one in (*unknown, ""))
        assert nfc(text) == text.replace("e\u0301", "\u00e9")
    assert found.hexdigest() == DIGEST


def test_later_characters_part_texts():
    """Which Unicode 15 and 16 sort and compose: an accent of Nag Mundari, letters of Kirat Rai."""
    later = "a\U0001e4ef\u0323", "\U00016d67\U00016d67", "\U000105d2\u0307", "\U000113c5"
    for text in later:
        assert nfc(text) == text
        assert nfc(f"e\u0301-{text}") == f"\u00e9-{text}"
        assert nfc(f"{text}-e\u0301") == f"{text}-\u00e9"
