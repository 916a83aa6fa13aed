"""Packages of plug-ins, as the pages on own mechanisms and methods have them."""

from __future__ import annotations

import base64
import hashlib
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ldp_kafka import plugins
from tests.deploy.code_blocks import ROOT, blocks

__all__ = ["ALTERNATE", "ANSWER", "page", "present"]


def page(name: str) -> dict[str, str]:
    """The files that a page says to save."""
    found = blocks(ROOT / "deploy" / "docs" / "pages" / "how-to" / name)
    return {one.file: one.text for one in found if one.file}


ANSWER = page("own-mechanism.md")["diary_answer.py"]
ALTERNATE = page("own-method.md")["diary_alternate.py"]


@contextmanager
def present(
    folder: Path, name: str, files: Mapping[str, str], entry_points: str = ""
) -> Iterator[None]:
    """A package as pip leaves it, for a while: files, and a RECORD of them."""
    known = {group: dict(registry) for group, registry in plugins.ENTRY_POINTS.items()}
    about = f"{name.replace('-', '_')}-1.0.dist-info"
    lines = []
    for path, text in files.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        digest = hashlib.sha256(text.encode()).digest()
        code = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        lines.append(f"{path},sha256={code},{len(text.encode())}")
    (folder / about).mkdir(parents=True)
    (folder / about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (folder / about / "RECORD").write_text("\n".join([*lines, f"{about}/RECORD,,"]) + "\n")
    if entry_points:
        (folder / about / "entry_points.txt").write_text(entry_points)
    before = set(sys.modules)
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for module in set(sys.modules) - before:
            if str(folder) in str(getattr(sys.modules[module], "__file__", "")):
                del sys.modules[module]
        for group, registry in plugins.ENTRY_POINTS.items():
            for mine in registry.keys() - known[group].keys():
                del registry[mine]
                plugins._PLUGINS.pop(mine, None)
