"""The options of a run that is gone on with: which of them hold on, and which have to be said again.

What only narrows a run, or says what becomes of its change, holds on. What gives it power over the person's machine,
work or money does not: a yes is for the process that it was said to.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from repoagent.store.masking import mask

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import SimpleNamespace

    from repoagent.config import Settings
    from repoagent.work.home import Home

_BY_WIDTH = ("read-only", "ask", "auto-edit", "auto")  # of the modes, the narrowest first
_LIMITS = {  # option: key of the configuration
    "max_turns": "run.max_turns",
    "max_tokens": "max_tokens",
    "max_cost": "max_cost",
    "max_time": "run.max_time",
}
_HOLD_ON = ("check", "commit_per_edit", "no_commit", "signoff")
_AGAIN = (
    "model", "effort", "agent", "allow", "network", "no_sandbox", "include_dirty", "no_verify", "allow_sensitive",
    "check_unconfined", "no_parse_check",
)  # fmt: skip
_EVERY = ("mode", *_LIMITS, *_HOLD_ON, *_AGAIN)
_EITHER = {"commit_per_edit", "no_commit"}  # who says one of them now takes back what was said of the other


def said(given: SimpleNamespace) -> dict[str, object]:
    """The options that were said, as `run.json` keeps them; what holds a key or token is kept as its name alone."""
    found: dict[str, object] = {}
    for name in _EVERY:
        value = getattr(given, name, None)
        if value in (None, False, (), "") or (name, value) == ("agent", "model"):
            continue
        value = list(value) if isinstance(value, tuple) else value
        found[name] = value if mask(str(value)) == str(value) else None
    return found


def hold_on(given: SimpleNamespace, settings: Settings, home: Home) -> str:
    """Put into `given` what the run `home` was told before and what holds on; what became of all of it, in a sentence,
    or "" where there is nothing to say."""
    from repoagent.work.home import refreshed
    from repoagent.work.home.listing import Run
    from repoagent.work.home.process import host
    from repoagent.work.home.record import Record

    if given.forget or not home.folder.is_dir():
        return ""
    record = refreshed(Run(home, Record(), "")).record
    here = record.host == host()
    now = said(given)
    kept: dict[str, object] = {}
    again: dict[str, object] = {}
    for name, value in record.said.items():
        if (
            name not in _EVERY
            or name in now
            or getattr(given, name, None) == ""
            or (name in _EITHER and _EITHER & now.keys())
        ):
            continue
        if _holds_on(name, value, settings, here=here):
            kept[name] = value
            setattr(given, name, value)
        elif hasattr(given, name):
            again[name] = value
    parts = [
        f"{words}: {spelled(options)}"
        for words, options in (("as before", kept), ("not as before, unless you say it again", again))
        if options
    ]
    return "; ".join(parts)


def spelled(options: Mapping[str, object]) -> str:
    """Options as they are written on a command line."""
    return ", ".join(_spelled(name, value) for name, value in options.items())


def _spelled(name: str, value: object) -> str:
    option = f"--{name.replace('_', '-')}"
    if value is None or value is True:
        return option
    values = value if isinstance(value, list) else [value]
    return " ".join(f"{option} {shlex.quote(str(one))}" for one in values)


def _holds_on(name: str, value: Any, settings: Settings, *, here: bool) -> bool:
    """Whether it may hold on; only what has the type that the option has. A command comes from no other machine."""
    if name == "mode":
        default = settings.text("run.mode")
        return value in _BY_WIDTH and _BY_WIDTH.index(value) <= _BY_WIDTH.index(default)
    if name in _LIMITS:
        whole = name in {"max_turns", "max_tokens"}
        if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)):
            return False
        most = settings.get(_LIMITS[name])
        return value >= whole and (not isinstance(most, int | float) or value <= most)
    if name == "check":
        return here and isinstance(value, str)
    return name in _HOLD_ON and value is True
