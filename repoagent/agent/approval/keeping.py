"""What "always" keeps: patterns in `run.allow` of the user's own configuration."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from repoagent.config.sources import from_user_file
from repoagent.config.write import set_value
from repoagent.errors import UsageError
from repoagent.store.locks import locked


def keep_rules(file: Path, patterns: Iterable[str]) -> tuple[str, ...]:
    """Add `patterns` to `run.allow` in the user's configuration `file` (TOML, made when missing), and return what
    stands there then. Comments and order of the file stay; what is there already is not added again.

    Raises UsageError for a pattern of several lines, and a file that is no TOML, Refused or Busy where it can't be
    written.
    """
    patterns = tuple(patterns)
    for pattern in patterns:
        if pattern.splitlines() != [pattern]:
            raise UsageError(f"{pattern!r} can't be kept as a rule: it is none, or more than one line")
    with locked(file.with_name(f".{file.name}.lock"), what="your configuration"):
        rules = tuple(dict.fromkeys([*kept_rules(file), *patterns]))
        set_value(file, "run.allow", "\n".join(rules))
    return rules


def kept_rules(file: Path, key: str = "run.allow") -> tuple[str, ...]:
    """The rules that stand in the user's configuration `file`: they hold beside those of `git config`, which would hide
    them as a list. Raises UsageError for a file that can't be read or is no TOML."""
    for raw in from_user_file(file):
        if raw.key.replace("-", "_").lower() == key:
            return tuple(map(str, raw.value)) if isinstance(raw.value, list) else (str(raw.value),)
    return ()
