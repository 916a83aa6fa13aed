"""Two keys for tests that hand one in where users do: drawn once, since a key whose bytes follow a
pattern is refused there.
"""

from __future__ import annotations

KEY = bytes.fromhex("a1a53ad65d9b95b8cac9bdd5ed59dc81ff0e06b2ae5ab5f0c92a0d8b6e3a43f7")
OTHER = bytes.fromhex("3c5b17f0e88d4a26b1c27d90546ef3a80d9a61e7c4fb2e8877136ad0952cbe41")
