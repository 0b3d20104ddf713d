"""Load the configuration: `load_settings` merges the defaults, the user's file, the repository's file (which is
untrusted), git's configuration, the environment and flags; later layers take precedence.

`set_value` and `unset_value` change one value in a TOML file and keep its comments and order.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from repoagent import tracing
from repoagent.config.options import OPTIONS, Option, Value, find_option, find_or_refuse, fold_key
from repoagent.config.settings import Setting, Settings, user_file
from repoagent.errors import UsageError
from repoagent.storage.atomic import read_regular, write_whole

if TYPE_CHECKING:
    from tomlkit import TOMLDocument

    from repoagent.storage.layout import Layout

PREFIX = "REPOAGENT_"
LARGEST = 1024 * 1024  # bytes of a configuration file


class LayerValue(NamedTuple):
    """One value of a layer: the dotted key as spelled there, the unparsed value, and its origin."""

    key: str
    value: object
    origin: str


def load_settings(
    layout: Layout | None,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    flags: Mapping[str, object] | None = None,
) -> Settings:
    """Merge all layers. `layout` is None outside a repository.

    `flags` has the values of command-line options by setting; None for an option that was not used. `Settings.warnings`
    has a sentence for each ignored value, which has an unknown key or may not be set by a repository. Raises UsageError
    for invalid TOML and invalid values.
    """
    env = os.environ if env is None else env
    entries = _defaults()
    warnings = _merge(entries, from_user_file(user_file(env)))
    if layout is not None and (data := read_regular(layout.config, most=LARGEST)) is not None:
        warnings += _merge(entries, from_toml(layout.config, data), is_shared=True)
    # the name of a flag is the last word of its key
    used = [
        LayerValue(key, value, f"flag --{key.rpartition('.')[2].replace('_', '-')}")
        for key, value in (flags or {}).items()
        if value is not None
    ]
    # REPOAGENT_EDIT__SCOPE is `edit.scope`; an empty variable counts as unset
    variables = [
        LayerValue(name[len(PREFIX) :].lower().replace("__", "."), value, f"environment {name}")
        for name, value in sorted(env.items())
        if name.startswith(PREFIX) and value and name != tracing.VARIABLE
    ]
    for layer in (_from_git(cwd or Path.cwd()), variables, used):
        warnings += _merge(entries, layer)
    return Settings(entries, tuple(warnings), None if layout is None else f"file:{layout.config}")


def with_repository(settings: Settings, layout: Layout, data: bytes, *, alone: bool = False) -> Settings:
    """Return `settings` with `data` in place of the contents of `.repoagent/config.toml`. With `alone`, use only the
    defaults and `data`. Raises what `load_settings` raises."""
    entries = _defaults()
    user = user_file(os.environ)
    if not alone:
        _merge(entries, from_user_file(user))
    _merge(entries, from_toml(layout.config, data), is_shared=True)
    if not alone:
        below = {"default", f"file:{user}", f"file:{layout.config}"}
        entries |= {key: setting for key, setting in settings.entries.items() if setting.origin not in below}
    return Settings(entries, settings.warnings)


def _defaults() -> dict[str, Setting]:
    return {o.key: Setting(o.key, o.default, "default", o) for o in OPTIONS if not o.is_family}


def _merge(entries: dict[str, Setting], layer: Iterable[LayerValue], *, is_shared: bool = False) -> list[str]:
    """Merge `layer` into `entries`, if `is_shared` only the values that a repository may set; return the warnings."""
    unknown: list[str] = []
    forbidden: list[str] = []
    higher: list[str] = []
    origin = ""
    for raw in layer:
        origin = _short_origin(raw.origin)
        if (match := find_option(raw.key)) is None:
            if raw.origin.startswith("environment"):
                unknown.append(origin)
            else:
                unknown.append(f"repoagent.{raw.key}" if raw.origin.startswith("git") else raw.key)
            continue
        key, option = match
        if is_shared and not option.repository_may_set:  # not parsed: an invalid value must not raise
            forbidden.append(key)
            continue
        value = _parse(option, key, raw.value, raw.origin)
        if is_shared:
            current = entries[key]
            is_limited = option.only_lower and isinstance(current.value, (int, float))
            if option.why_not_from_repository(value):
                forbidden.append(f"{key} = {_short(raw.value)}")
                continue
            if is_limited and not (isinstance(value, (int, float)) and value <= current.value):  # type: ignore[operator]
                higher.append(f"{key} = {_short(raw.value)}")
                continue
            if option.only_unset and current.origin != "default":
                continue
        entries[key] = Setting(key, value, raw.origin, option)
    warnings = []
    if unknown:
        where = "" if unknown[0].startswith(PREFIX) else f"{origin}: "
        warnings.append(f"{where}ignored unknown option{'s' * (len(unknown) > 1)} {', '.join(unknown)}")
    if forbidden:
        own = "use `git config repoagent.KEY VALUE` to set it yourself"
        warnings.append(f"{origin} may not set {', '.join(forbidden)}: ignored ({own})")
    if higher:
        warnings.append(f"{origin} may only lower a limit: ignored {', '.join(higher)}")
    return warnings


def _parse(option: Option, key: str, value: object, origin: str) -> Value:
    try:
        return option.kind.parse(value)
    except ValueError:
        problem = f"invalid value {_short(value)} for {key}; it takes {option.kind.allowed}"
        raise UsageError(f"{_short_origin(origin)}: {problem}") from None


def _short_origin(origin: str) -> str:
    return origin.removeprefix("file:").removeprefix("environment ").removeprefix("flag ")


def _short(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."


# The readers of the layers


def from_user_file(path: Path) -> Iterator[LayerValue]:
    """The values of the user's file; none if it is missing. Raises UsageError if it cannot be read."""
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}; fix its permissions") from error
    if len(data) > LARGEST:
        raise UsageError(f"{path} is larger than {LARGEST // 1024} KiB; make it smaller")
    yield from from_toml(path, data)


def parse_toml(data: bytes) -> dict[str, Any]:
    """The tables of a TOML document. Raises ValueError or RecursionError if it is invalid."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    return tomllib.loads(data.decode())


def from_toml(path: Path, data: bytes) -> Iterator[LayerValue]:
    """The values in the TOML document `data`. If it is invalid, raises UsageError with the position of the error."""
    try:
        tables = [("", parse_toml(data))]
    except (ValueError, RecursionError) as error:  # ValueError also for invalid UTF-8 and too large numbers
        raise UsageError(f"{path} is not valid TOML: {error}") from error
    while tables:
        prefix, table = tables.pop(0)
        for name, value in table.items():
            if isinstance(value, dict):
                tables.append((f"{prefix}{name}.", value))
            else:
                yield LayerValue(f"{prefix}{name}", value, f"file:{path}")


def _from_git(cwd: Path) -> Iterator[LayerValue]:
    """The values of repoagent.* in `git config`, in git's order. Ignores a bare repository in a parent folder."""
    from repoagent.git.process import git_output
    from repoagent.git.worktree import settings_folder

    command = ("config", "-z", "--show-scope", "--get-regexp", r"^repoagent\.")
    output = git_output(settings_folder(cwd), *command, ok=(0, 1)).stdout.decode("utf-8", "surrogateescape")
    fields = output.split("\0")[:-1]
    lists: dict[str, list[str]] = {}
    for scope, field in zip(fields[::2], fields[1::2], strict=True):
        name, has_value, text = field.partition("\n")
        key = name.partition(".")[2]
        value: object = text if has_value else True  # in git, a name without a value is true
        if has_value and (match := find_option(key)) and isinstance(match[1].default, tuple):
            # a list in git is a key that occurs several times; an empty value clears it
            value = lists[key] = [*lists.get(key, ()), text] if text else []
        yield LayerValue(key, value, f"git config ({scope})")


# Changing a TOML file


def set_value(path: Path, key: str, text: str, *, repository: bool = False) -> Value:
    """Set `key` to the value of `text` in the TOML file `path`, and return the value. A missing file is created.

    `repository` says that the file belongs to a repository, which may not set all options. Raises UsageError for an
    unknown key, for a value that is invalid or that the file may not set, and for invalid TOML; Refused if the file is
    not a regular file.
    """
    import tomlkit

    spelled, option = find_or_refuse(key)
    value = _parse(option, spelled, text, "config")
    if repository and (reason := option.why_not_from_repository(value)):
        head, dot, last = spelled.rpartition(".")
        git_key = f"repoagent.{head}{dot}{last.replace('_', '-')}"  # git has no underscores
        raise UsageError(
            f"{reason}: omit --shared to set it in your own configuration, or use `git config {git_key} VALUE` to set "
            "it for this repository"
        )
    document = _read(path)
    table: MutableMapping[str, object] = document
    *outer, last = parts = _parts(spelled)
    for part in outer:
        name = _spelled_in(table, part)
        inner = table.setdefault(name, tomlkit.table())
        if not isinstance(inner, MutableMapping):
            if find_option(name) is None:
                raise UsageError(f"{path}: {name} must be a table, not a value")
            last = ".".join(parts)  # `check` has a value, so `check.timeout` is one key, in quotes
            break
        table = table[name]  # type: ignore[assignment]
    table[_spelled_in(table, last)] = (
        "none" if value is None else list(value) if isinstance(value, tuple) else value
    )
    write_whole(path, document.as_string().encode(), private=not repository)
    return value


def unset_value(path: Path, key: str, *, repository: bool = False) -> bool:
    """Remove `key` from the TOML file `path`; return whether it was there. Raises what `set_value` raises."""
    document = _read(path)
    if not _remove(document, _parts(find_or_refuse(key)[0])):
        return False
    write_whole(path, document.as_string().encode(), private=not repository)
    return True


def _parts(key: str) -> list[str]:
    """The tables of a key, and its last part: `models.openai/gpt-4.1.input` has three parts."""
    first, _, rest = key.partition(".")
    middle, _, last = rest.rpartition(".")
    return [part for part in (first, middle, last) if part]


def _remove(table: MutableMapping[str, object], parts: list[str]) -> bool:
    """Remove a key in either spelling: nested, or as one quoted key."""
    whole = _spelled_in(table, ".".join(parts))
    if whole in table:
        del table[whole]
        return True
    inner = table.get(_spelled_in(table, parts[0]))
    return len(parts) > 1 and isinstance(inner, MutableMapping) and _remove(inner, parts[1:])


def _read(path: Path) -> TOMLDocument:
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        return tomlkit.parse(read_regular(path) or b"")
    except (TOMLKitError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not valid TOML: {error}") from error


def _spelled_in(table: MutableMapping[str, object], part: str) -> str:
    """The key as spelled in the file (`maxTurns`), otherwise as in the table of options."""
    return next((name for name in table if fold_key(name) == fold_key(part)), part)
