"""Change one value in a TOML file and leave the rest, comments and order too, as its owner wrote it."""

from __future__ import annotations

from collections.abc import MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING

from repoagent.config.kinds import Value
from repoagent.config.layers import parse, why_not_from_repository
from repoagent.config.options import find, find_or_refuse, fold
from repoagent.errors import UsageError
from repoagent.store.atomic import read_regular, write_whole

if TYPE_CHECKING:
    from tomlkit import TOMLDocument


def set_value(path: Path, key: str, text: str, *, repository: bool = False) -> Value:
    """Set `key` to what `text` means in the TOML file `path`, made when missing; the value that was written.

    `repository` says that the file comes with a repository, so that some options have no place there.
    Raises UsageError for an unknown key, for a value that the option does not take or the file may not give,
    and for a file that is no TOML; Refused when it is no regular file.
    """
    spelled, option = find_or_refuse(key)
    value = parse(option, spelled, text, "config")
    if repository and (reason := why_not_from_repository(option, value)):
        raise UsageError(
            f"{reason}: leave out --shared to set it in your own file, or use `git config "
            f"repoagent.{_in_git(spelled)} VALUE` to set it for this repository"
        )
    document = _read(path)
    _put(document, _parts(spelled), value, path)
    write_whole(path, document.as_string().encode(), private=not repository)
    return value


def unset_value(path: Path, key: str, *, repository: bool = False) -> bool:
    """Remove `key` from the TOML file `path`; False when it is not in there. Raises as `set_value`."""
    spelled, _ = find_or_refuse(key)
    document = _read(path)
    if not _remove(document, _parts(spelled)):
        return False
    write_whole(path, document.as_string().encode(), private=not repository)
    return True


def _parts(key: str) -> list[str]:
    """The tables that hold a key, and its own name: `models.openai/gpt-4.1.input` is three parts."""
    first, _, rest = key.partition(".")
    middle, _, last = rest.rpartition(".")
    return [part for part in (first, middle, last) if part]


def _remove(table: MutableMapping[str, object], parts: list[str]) -> bool:
    """Remove a key, in whichever way the table spells it: nested, or as one key in quotes."""
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
                raise UsageError(f"{path}: {name} is a value there, but it has to be a table")
            last = ".".join(parts)  # `check` has a value, so `check.timeout` is one key, in quotes
            break
        table = inner
    written = "none" if value is None else list(value) if isinstance(value, tuple) else value
    table[_spelled_there(table, last)] = written


def _spelled_there(table: MutableMapping[str, object], part: str) -> str:
    """The key as the file already spells it (`maxTurns`), or as we do."""
    return next((name for name in table if fold(name) == fold(part)), part)


def _in_git(key: str) -> str:
    """`max_turns` as git can spell it: its keys have no underscores."""
    head, _, last = key.rpartition(".")
    return f"{head}.{last.replace('_', '-')}" if head else last.replace("_", "-")
