"""The names that models.toml has, read as lines: for completion, which can't wait for a parser of TOML.

A test holds it to what `catalogue` makes of the same file.
"""

from __future__ import annotations

from pathlib import Path

_TABLE = '[models."'


def names() -> dict[str, str]:
    """Aliases with the spec that they stand for, and the specs of models, each with ""."""
    found: dict[str, str] = {}
    inside = False
    for line in Path(__file__).with_name("models.toml").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            inside = line.startswith("[aliases]")
        if line.startswith(_TABLE):
            found[line.removeprefix(_TABLE).partition('"')[0]] = ""
        elif inside and "=" in line:
            name, _, spec = line.partition("=")
            found[name.strip().strip('"')] = spec.strip().strip('"')
    return found
