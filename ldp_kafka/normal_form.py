"""Unicode's normalization form C (UAX 15) as Unicode 14.0 has it, whatever Python's own Unicode is.

Ids and names are in it, and with them what is drawn for a user: a log must be folded to the same
reports under a later Python. Python 3.11, the oldest that is supported, has Unicode 14.0.
"""

from __future__ import annotations

import re
from unicodedata import is_normalized, normalize

__all__ = ["nfc"]

_UNKNOWN = """
    378-379 380-383 38B 38D 3A2 530-590 5C8-5CF 5EB-5EE 5F5-5FF 70E 74B-7BF 7FB-7FC 82E-83F 85C-897
    984-992 9A9 9B1-9BB 9C5-9C6 9C9-9CA 9CF-9D6 9D8-9DB 9DE 9E4-9E5 9FF-A12 A29 A31 A34 A37 A3A-A3B
    A3D-A4A A4E-A58 A5D A5F-ABB AC6-ACA ACE-B12 B29-B3B B45-B46 B49-B4A B4E-B54 B58-B5B B5E-B91
    B96-BBD BC3-BC5 BC9 BCE-BD6 BD8-C3B C45 C49 C4E-C54 C57-CBB CC5 CC9 CCE-CD4 CD7-D11 D45 D49
    D50-D53 D64-DC9 DCB-DCE DD5-DD7 DE0-E00 E3B-E3E E5C-EA6 EBE-EC7 ECE-EFF F48 F6D-F70 F98 FBD
    FCD-FFF 10C6-10CF 1249-135C 137D-16FF 1716-171E 1737-177F 17DE-187F 18AB-192F 193C-19DD
    1A1C-1A5F 1A7D-1A7E 1A8A-1AAF 1ACF-1AFF 1B4D-1B4F 1B7F 1BF4-1BFB 1C38-1CCF 1CFB-1CFF 1F16-1F17
    1F1E-1F1F 1F46-1F47 1F4E-1F4F 1F58 1F5A 1F5C 1F5E 1F7E-1F7F 1FB5 1FC5 1FD4-1FD5 1FDC 1FF0-1FF1
    1FF5 1FFF 2065-20CF 20F1-20FF 218C-218F 2427-245F 2B74-2B96 2CF4-2D7E 2D97-2DDF 2E5E-2FFF 3040
    3097-3098 3100-321F A48D-A63F A6F8-A7F1 A82D-A87F A8C6-A8DF A954-A97F A9CE-AA5B AAC3-AADA
    AAF7-AB6F ABEE-ABFF D7A4-D7FF FA6E-FA6F FADA-FB1C FB37 FB3D FB3F FB42 FB45 FBC3-FE1F FE53-101CF
    101FE-102DF 102FC-1034F 1037B-10A0B 10A14-10A37 10A3B-10A3E 10A49-10ABF 10AE7-10CF9 10D28-10EAA
    10EAE-10F2F 10F5A-10F6F 10F8A-10FFF 1104E-11051 11076-1107E 110C3-110FF 11135-1114F 11177-1117F
    111E0-11212 1123F-112AF 112EB-1133A 11345-11346 11349-1134A 1134E-11356 11358-11365 1136D-1136F
    11375-113FF 1145C 11462-1147F 114C8-1157F 115B6-115B7 115DE-115FF 11645-1167F 116BA-1171C
    1172C-117FF 1183C-11917 11936 11939-1193A 11947-119D9 119E5-119FF 11A48-11A4F 11AA3-11C37
    11C46-11D3E 11D48-11D92 11D99-16AEF 16AF6-16AFF 16B46-16FEF 16FF2-1BC9B 1BCA4-1D128 1D1EB-1D1FF
    1D246-1DFFF 1E007 1E019-1E01A 1E022 1E025 1E02B-1E12F 1E13E-1E28F 1E2AF-1E2BF 1E2FA-1E8C6
    1E8D7-1E8FF 1E94C-1FFFF 2A6E0-2F7FF 2FA1E-10FFFF
"""
"""Ranges of all characters that Unicode 14.0 does not know, and of some that are the same in every
text: no accents, without parts, and no parts of others. To NFC in 14.0 all of them are alike.
"""
_KNOWN = re.compile(
    f"[^{''.join(re.sub(r'[0-9A-F]+', lambda code: chr(int(code[0], 16)), _UNKNOWN).split())}]+"
)


def nfc(text: str) -> str:
    """The text in NFC. A character that Unicode 14.0 does not know stays as it is, and the texts on
    its sides are normalized by themselves: those are the same in every later Unicode, by its
    stability policy.

    Examples
    --------
    >>> nfc("e" + chr(0x301)) == chr(0xE9)
    True
    """
    # a text that is normalized in a later Unicode is so in 14.0, as each part of it is in both
    if text.isascii() or is_normalized("NFC", text):
        return text
    return _KNOWN.sub(lambda known: normalize("NFC", known[0]), text)
