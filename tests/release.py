"""`poe release`: the wheel and the sdist, made and tried where nothing else is installed.

The wheel is installed into an environment of its own, first without its extras: the core must do
its work with what it says that it needs. Then with the extra ``kafka``: the command runs, and a
topology that the wheel brings is replayed and released, far from any checkout.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from ldp_kafka.version import __version__

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
CORE = """
import numpy as np, ldp_kafka as lk
m = lk.mechanism("grr", epsilon=4.0, categories=3)
found = m.estimate(m.perturb(np.zeros(10_000, int), lk.randomness.system()))
assert abs(found.value[0] - 1) < 0.1, found
"""


def run(*words: str | Path, **settings: object) -> None:
    """A command that must end with 0, where none of this checkout is on the path."""
    own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run([*map(str, words)], check=True, env=own, **settings)


def main() -> int:
    """Make both, and try the wheel."""
    run(sys.executable, "-m", "build", "--outdir", DIST, ROOT, cwd=ROOT.parent)
    wheel = DIST / f"ldp_kafka-{__version__}-py3-none-any.whl"
    with tempfile.TemporaryDirectory() as folder:
        venv.create(Path(folder) / "venv", with_pip=True)
        programs = Path(folder) / "venv" / "bin"
        run(programs / "pip", "install", "-q", wheel)
        run(programs / "python", "-c", CORE, cwd=folder)
        run(programs / "pip", "install", "-q", f"{wheel}[kafka,plots]")
        run(programs / "ldp-kafka", "--version", cwd=folder)
        run(programs / "ldp-kafka", "demo", cwd=folder)
    print(*sorted(path.name for path in DIST.glob(f"ldp_kafka-{__version__}*")), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
