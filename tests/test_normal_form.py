"""NFC is one function under every Python."""

from __future__ import annotations

import hashlib
import sys
import unicodedata

from ldp_kafka.normal_form import nfc

DIGEST = "140b8f99fc7b719287c12f8d1e8420eec638ef863c5673b7a38220db798c2f0c"
SIDES = ("{}", "a{}\u0323\u0301", "\u0301{}", "\U000105d2{}\U000113c9")


def test_every_character_has_one_normal_form():
    """Alone, and between letters and accents; the digest is that of Unicode 14.0, 15.0 and 15.1."""
    found = hashlib.sha256()
    for code in range(sys.maxunicode + 1):
        if not 0xD800 <= code < 0xE000:
            texts = [side.format(chr(code)) for side in SIDES]
            forms = [nfc(text) for text in texts]
            found.update("\n".join(forms).encode())
            if unicodedata.unidata_version == "14.0.0":
                assert forms == [unicodedata.normalize("NFC", text) for text in texts], code
            if unicodedata.category(chr(code)) == "Cn":
                assert nfc(chr(code) + "e\u0301" + chr(code)) == chr(code) + "\u00e9" + chr(code)
    assert found.hexdigest() == DIGEST


def test_later_characters_part_texts():
    """Which Unicode 15 and 16 sort and compose: an accent of Nag Mundari, letters of Kirat Rai."""
    later = "a\U0001e4ef\u0323", "\U00016d67\U00016d67", "\U000105d2\u0307", "\U000113c5"
    for text in later:
        assert nfc(text) == text
        assert nfc(f"e\u0301-{text}") == f"\u00e9-{text}"
        assert nfc(f"{text}-e\u0301") == f"{text}-\u00e9"
