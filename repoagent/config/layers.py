"""`load` merges the layers (later wins; the repository's file is untrusted), `set_value` and `unset_value` change one
value in a TOML file and keep its comments and order.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING

from repoagent.config.options import OPTIONS, Option, Value, find, find_or_refuse, fold, nearest
from repoagent.config.settings import (
    Raw,
    Setting,
    Settings,
    from_environment,
    from_flags,
    from_git,
    from_repository_file,
    from_toml,
    from_user_file,
    user_file,
    variable,
)
from repoagent.errors import UsageError
from repoagent.storage.atomic import read_regular, write_whole

if TYPE_CHECKING:
    from tomlkit import TOMLDocument

    from repoagent.storage.layout import Layout


def load(
    layout: Layout | None,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    flags: Mapping[str, object] | None = None,
) -> Settings:
    """Merge all layers. `layout` is None outside a repository; `flags` are by option key, None for not given.

    Raises UsageError for invalid TOML and for a value that its option does not take. `Settings.warnings` has a sentence
    per layer on what was ignored: unknown keys, and keys that a repository may not set.
    """
    env = os.environ if env is None else env
    entries = {o.key: Setting(o.key, o.default, "default", o) for o in OPTIONS if not o.is_family}
    warnings: list[str] = []
    warnings += _take(entries, from_user_file(user_file(env)))
    if layout is not None:
        shared = from_repository_file(layout.config)
        warnings += _take_from_repository(entries, shared, layout.config)
    warnings += _take(entries, from_git(cwd or Path.cwd()))
    warnings += _take(entries, from_environment(env))
    warnings += _take(entries, from_flags(flags or {}))
    theirs = None if layout is None else f"file:{layout.config}"
    return Settings(entries, tuple(warnings), theirs)


def with_repository(settings: Settings, layout: Layout, data: bytes, *, alone: bool = False) -> Settings:
    """`settings` with `data` in place of `.repoagent/config.toml`; the layers above it stay.

    With `alone`, only the defaults and `data`. Raises as `load`.
    """
    entries = {o.key: Setting(o.key, o.default, "default", o) for o in OPTIONS if not o.is_family}
    user = user_file(os.environ)
    if not alone:
        _take(entries, from_user_file(user))
    _take_from_repository(entries, from_toml(layout.config, data), layout.config)
    if not alone:
        below = {"default", f"file:{user}", f"file:{layout.config}"}
        entries |= {key: one for key, one in settings.entries.items() if one.origin not in below}
    return Settings(entries, settings.warnings)


def parse(option: Option, key: str, value: object, origin: str) -> Value:
    """The value of an option from text or TOML. Raises UsageError with its origin, key, value and the allowed
    values."""
    try:
        return option.kind.parse(value)
    except ValueError:
        shown = "" if option.secret else f" {_short(value)}"
        raise UsageError(
            f"{_place(origin)}: invalid value{shown} for {key}; it takes {option.kind.allowed}"
        ) from None


def why_not_from_repository(option: Option, value: Value) -> str | None:
    """Why a repository may not set `value`, as a clause; None where it may."""
    if not option.repository_may_set:
        return f"only you can set {option.key}"
    if option.only_like and not (isinstance(value, str) and option.only_like.fullmatch(value)):
        return f"{option.key} may only be {option.only_what} in a repository"
    return None


def _take(entries: dict[str, Setting], layer: Iterable[Raw]) -> list[str]:
    """Merge `layer` into `entries`; returns the warnings."""
    unknown: list[Raw] = []
    for raw in layer:
        if (found := find(raw.key)) is None:
            unknown.append(raw)
        else:
            key, option = found
            entries[key] = Setting(key, parse(option, key, raw.value, raw.origin), raw.origin, option)
    return _unknown(unknown)


def _take_from_repository(entries: dict[str, Setting], layer: Iterable[Raw], path: Path) -> list[str]:
    """As `_take`, but only of what a repository may set."""
    unknown: list[Raw] = []
    forbidden: list[str] = []
    higher: list[str] = []
    for raw in layer:
        if (found := find(raw.key)) is None:
            unknown.append(raw)
            continue
        key, option = found
        if not option.repository_may_set:  # not parsed: an invalid value must not raise
            forbidden.append(key)
            continue
        value = parse(option, key, raw.value, raw.origin)
        if why_not_from_repository(option, value):
            forbidden.append(f"{key} = {_short(raw.value)}")
        elif option.only_unset and entries[key].origin != "default":
            continue
        elif option.only_lower and not _is_lower(value, entries[key].value):
            higher.append(f"{key} = {_short(raw.value)}")
        else:
            entries[key] = Setting(key, value, raw.origin, option)
    warnings = _unknown(unknown)
    if forbidden:
        warnings.append(
            f"{path} may not set {', '.join(forbidden)}: ignored (use `git config repoagent.KEY VALUE` to set it "
            "yourself)"
        )
    if higher:
        warnings.append(f"{path} may only lower a limit: ignored {', '.join(higher)}")
    return warnings


def _is_lower(value: Value, current: Value) -> bool:
    if not isinstance(current, (int, float)):
        return True  # no limit so far
    return isinstance(value, (int, float)) and value <= current


def _unknown(raws: list[Raw]) -> list[str]:
    if not raws:
        return []
    names = []
    for raw in raws:
        near = nearest(raw.key)
        if near is not None and raw.origin.startswith("environment"):
            near = variable(near)
        names.append(f"{raw.spelled} (did you mean {near}?)" if near else raw.spelled)
    where = "" if raws[0].origin.startswith("environment") else f"{_place(raws[0].origin)}: "
    return [f"{where}ignored unknown option{'s' * (len(names) > 1)} {', '.join(names)}"]


def _place(origin: str) -> str:
    """An origin in a message."""
    return origin.removeprefix("file:").removeprefix("environment ").removeprefix("flag ")


def _short(value: object, limit: int = 60) -> str:
    shown = repr(value)
    return shown if len(shown) <= limit else f"{shown[: limit - 3]}..."


def set_value(path: Path, key: str, text: str, *, repository: bool = False) -> Value:
    """Set `key` to the value of `text` in the TOML file `path`, which is created when missing; returns the value.

    `repository`: the file belongs to a repository, which may not set all options. Raises UsageError for an unknown key,
    for a value that the option does not take or the file may not set, and for invalid TOML; Refused where it is not a
    regular file.
    """
    spelled, option = find_or_refuse(key)
    value = parse(option, spelled, text, "config")
    if repository and (reason := why_not_from_repository(option, value)):
        raise UsageError(
            f"{reason}: omit --shared to set it in your own file, or use `git config "
            f"repoagent.{_in_git(spelled)} VALUE` to set it for this repository"
        )
    document = _read(path)
    _put(document, _parts(spelled), value, path)
    write_whole(path, document.as_string().encode(), private=not repository)
    return value


def unset_value(path: Path, key: str, *, repository: bool = False) -> bool:
    """Remove `key` from the TOML file `path`; False where it is not in it. Raises as `set_value`."""
    spelled, _ = find_or_refuse(key)
    document = _read(path)
    if not _remove(document, _parts(spelled)):
        return False
    write_whole(path, document.as_string().encode(), private=not repository)
    return True


def _parts(key: str) -> list[str]:
    """The tables of a key, and its own name: `models.openai/gpt-4.1.input` has three parts."""
    first, _, rest = key.partition(".")
    middle, _, last = rest.rpartition(".")
    return [part for part in (first, middle, last) if part]


def _remove(table: MutableMapping[str, object], parts: list[str]) -> bool:
    """Remove a key in either spelling: nested, or as one quoted key."""
    whole = _spelled_there(table, ".".join(parts))
    if whole in table:
        del table[whole]
        return True
    inner = table.get(_spelled_there(table, parts[0]))
    return len(parts) > 1 and isinstance(inner, MutableMapping) and _remove(inner, parts[1:])


def _read(path: Path) -> TOMLDocument:
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        return tomlkit.parse(read_regular(path) or b"")
    except (TOMLKitError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not valid TOML: {error}") from error


def _put(table: MutableMapping[str, object], parts: list[str], value: Value, path: Path) -> None:
    import tomlkit

    *outer, last = parts
    for part in outer:
        name = _spelled_there(table, part)
        if name not in table:
            table[name] = tomlkit.table()
        inner = table[name]
        if not isinstance(inner, MutableMapping):
            if find(name) is None:
                raise UsageError(f"{path}: {name} must be a table, but it is a value")
            last = ".".join(parts)  # `check` has a value, so `check.timeout` is one key, in quotes
            break
        table = inner
    written = "none" if value is None else list(value) if isinstance(value, tuple) else value
    table[_spelled_there(table, last)] = written


def _spelled_there(table: MutableMapping[str, object], part: str) -> str:
    """The key as the file spells it (`maxTurns`), or else as in the table."""
    return next((name for name in table if fold(name) == fold(part)), part)


def _in_git(key: str) -> str:
    """`max_turns` as a key of git, which has no underscores."""
    head, _, last = key.rpartition(".")
    return f"{head}.{last.replace('_', '-')}" if head else last.replace("_", "-")
