"""Read each layer as it stands: keys in the layer's own spelling, values not yet looked at."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from repoagent import trace
from repoagent.config.options import find
from repoagent.errors import UsageError

PREFIX = "REPOAGENT_"
LARGEST = 1024 * 1024  # bytes of a file of configuration


class Raw(NamedTuple):
    """One value as a layer gives it: the dotted key, how the layer spells it, the value, where it stands."""

    key: str
    spelled: str
    value: object
    origin: str


def user_file(env: Mapping[str, str]) -> Path:
    """Where a person's own configuration stands: `$XDG_CONFIG_HOME/repoagent/config.toml`."""
    home = Path(env.get("XDG_CONFIG_HOME", ""))
    # The XDG specification says that a relative path there counts as not set.
    base = home if home.is_absolute() else Path(env.get("HOME") or Path.home(), ".config")
    return base / "repoagent" / "config.toml"


def from_user_file(path: Path) -> Iterator[Raw]:
    """The values of a person's own file; nothing when there is none. UsageError when it can't be read."""
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise UsageError(f"{path} can't be read ({error.strerror}); put that right") from error
    if len(data) > LARGEST:
        raise UsageError(
            f"{path} has more than {LARGEST // 1024} KiB, too much for a configuration: make it smaller"
        )
    yield from from_toml(path, data)


def from_repository_file(path: Path) -> Iterator[Raw]:
    """The values of the repository's file; nothing when there is none. Refused when it is no regular file."""
    from repoagent.store.atomic import read_regular

    if (data := read_regular(path, most=LARGEST)) is not None:
        yield from from_toml(path, data)


def from_toml(path: Path, data: bytes) -> Iterator[Raw]:
    """The leaves of a TOML text that stands in `path`. UsageError, with the place, when it is none."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    try:
        table = tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:  # not UTF-8 and too large numbers are ValueErrors too
        raise UsageError(f"{path} is not valid TOML: {error}") from error
    for key, value in leaves(table):
        yield Raw(key, key, value, f"file:{path}")


def leaves(table: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    """What nested tables hold, by dotted key."""
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def from_git(cwd: Path) -> Iterator[Raw]:
    """What `git config` says under repoagent.*, in all scopes and git's own order; one call of git. Of a bare
    repository that only stands in a folder above nothing is read."""
    from repoagent.repo.run import git_output
    from repoagent.repo.worktree import settings_folder

    command = ("config", "-z", "--show-scope", "--get-regexp", r"^repoagent\.")
    output = git_output(settings_folder(cwd), *command, ok=(0, 1)).stdout.decode("utf-8", "surrogateescape")
    fields = output.split("\0")[:-1]
    lists: dict[str, list[str]] = {}
    for scope, field in zip(fields[::2], fields[1::2], strict=True):
        name, has_value, text = field.partition("\n")
        key = name.partition(".")[2]
        value: object = text if has_value else True  # a name alone is git's way to say true
        if has_value and (found := find(key)) and isinstance(found[1].default, tuple):
            # git says a list by naming a key several times; an empty value takes back what was before
            lists[key] = [*lists.get(key, ()), text] if text else []
            value = lists[key]
        yield Raw(key, name, value, f"git config ({scope})")


def from_environment(env: Mapping[str, str]) -> Iterator[Raw]:
    """REPOAGENT_MAX_COST is `max_cost`, REPOAGENT_EDIT__SCOPE is `edit.scope`; an empty one is not set."""
    for name, value in sorted(env.items()):
        if name.startswith(PREFIX) and value and name != trace.VARIABLE:
            yield Raw(name[len(PREFIX) :].lower().replace("__", "."), name, value, f"environment {name}")


def variable(key: str) -> str:
    """The environment variable that sets `key`."""
    return PREFIX + key.replace(".", "__").replace("-", "_").upper()


def from_flags(flags: Mapping[str, object]) -> Iterator[Raw]:
    """Flags by the key they set; None is one that was not given. A flag is the last word of its key."""
    for key, value in flags.items():
        if value is not None:
            flag = f"--{key.rpartition('.')[2].replace('_', '-')}"
            yield Raw(key, flag, value, f"flag {flag}")
