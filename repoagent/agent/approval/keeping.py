"""The rules of the user's own configuration, which hold in every repository."""

from __future__ import annotations

from pathlib import Path

from repoagent.config.sources import from_user_file


def kept_rules(file: Path, key: str = "run.allow") -> tuple[str, ...]:
    """The rules that stand in the user's configuration `file`: they hold beside those of `git config`, which would hide
    them as a list. Raises UsageError for a file that can't be read or is no TOML."""
    for raw in from_user_file(file):
        if raw.key.replace("-", "_").lower() == key:
            return tuple(map(str, raw.value)) if isinstance(raw.value, list) else (str(raw.value),)
    return ()
