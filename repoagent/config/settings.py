"""The merged configuration (`Settings`: values by key, each with its origin), and the readers of the layers: files,
git, environment and flags. A reader keeps the layer's own spelling of a key and does not parse values.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, TypeVar

from repoagent import tracing
from repoagent.config.options import OPTIONS, Option, Value, find
from repoagent.dataclass import dataclass
from repoagent.errors import UsageError

T = TypeVar("T", str, int, float, bool, tuple[str, ...])


class Setting(NamedTuple):
    """A value and its `origin`: "default", "file:PATH", "git config (SCOPE)", "environment NAME" or "flag --NAME"."""

    key: str
    value: Value
    origin: str
    option: Option

    @property
    def shown(self) -> str:
        """The value as text for the user, a secret masked."""
        if self.value is None:
            return ""
        if self.option.secret:
            return "***"
        if isinstance(self.value, bool):
            return "true" if self.value else "false"
        if isinstance(self.value, tuple):
            return ", ".join(self.value)
        return f"{self.value:g}" if isinstance(self.value, float) else str(self.value)


@dataclass(frozen=True)
class Settings:
    """All settings. `warnings` are sentences about what was ignored, for standard error. `theirs` is the origin of the
    settings that come with the repository."""

    entries: Mapping[str, Setting]
    warnings: tuple[str, ...] = ()
    theirs: str | None = None

    def setting(self, key: str) -> Setting:
        """The setting of `key`, spelled as in the table. Raises KeyError for an unknown key."""
        if key in self.entries:
            return self.entries[key]
        if (found := find(key)) is None or found[0] != key:
            raise KeyError(key)
        return Setting(key, found[1].default, "default", found[1])

    def get(self, key: str) -> Value:
        """The value of `key`; None where it is not set. Raises KeyError for an unknown key."""
        return self.setting(key).value

    __getitem__ = get

    def __iter__(self) -> Iterator[Setting]:
        """All settings, in the order of the table; of a family, those that are set."""
        order = {option.key: place for place, option in enumerate(OPTIONS)}
        return iter(sorted(self.entries.values(), key=lambda s: (order[s.option.key], s.key)))

    def origin(self, key: str) -> str:
        """Where the value of `key` came from."""
        return self.setting(key).origin

    def text(self, key: str) -> str:
        """A string that always has a value."""
        return _as(str, key, self.get(key))

    def whole(self, key: str) -> int:
        """An integer that always has a value."""
        return _as(int, key, self.get(key))

    def number(self, key: str) -> float:
        """A number that always has a value."""
        return _as(float, key, self.get(key))

    def switch(self, key: str) -> bool:
        """A boolean."""
        return _as(bool, key, self.get(key))

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of strings."""
        return _as(tuple, key, self.get(key))

    def text_or_none(self, key: str) -> str | None:
        """A string, or None where it is not set."""
        return None if self.get(key) is None else self.text(key)

    def whole_or_none(self, key: str) -> int | None:
        """An integer, or None where it is not set (no limit)."""
        return None if self.get(key) is None else self.whole(key)

    def number_or_none(self, key: str) -> float | None:
        """A number, or None where it is not set."""
        return None if self.get(key) is None else self.number(key)

    def names(self, family: str) -> dict[str, str]:
        """The values of a family of strings by name: {"fast": "anthropic/…"} of `alias`."""
        return {
            key.partition(".")[2]: self.text(key)
            for key, setting in self.entries.items()
            if setting.option.key == f"{family}.*"
        }

    def family(self, name: str) -> dict[str, dict[str, Value]]:
        """The values of `providers` or `models`: {"openai": {"base_url": "https://…"}}."""
        table: dict[str, dict[str, Value]] = {}
        for key, setting in self.entries.items():
            if setting.option.is_family and key.startswith(f"{name}."):
                _, middle = key.split(".", 1)
                chosen, last = middle.rsplit(".", 1)
                table.setdefault(chosen, {})[last] = setting.value
        return table


def _as(kind: type[T], key: str, value: Value) -> T:
    if type(value) is not kind:
        raise TypeError(f"{key} is {value!r}, no {kind.__name__}")
    return value


PREFIX = "REPOAGENT_"
LARGEST = 1024 * 1024  # bytes of a file of configuration


class Raw(NamedTuple):
    """One value as a layer gives it: the dotted key, how the layer spells it, the value, where it stands."""

    key: str
    spelled: str
    value: object
    origin: str


def user_file(env: Mapping[str, str]) -> Path:
    """The user's configuration file: `$XDG_CONFIG_HOME/repoagent/config.toml`."""
    home = Path(env.get("XDG_CONFIG_HOME", ""))
    # The XDG specification says that a relative path there counts as not set.
    base = home if home.is_absolute() else Path(env.get("HOME") or Path.home(), ".config")
    return base / "repoagent" / "config.toml"


def from_user_file(path: Path) -> Iterator[Raw]:
    """The values of the user's file, none without it. Raises UsageError for a file that cannot be read."""
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


def from_repository_file(path: Path) -> Iterator[Raw]:
    """The values of the repository's file, none without it. Raises Refused where it is not a regular file."""
    from repoagent.storage.atomic import read_regular

    if (data := read_regular(path, most=LARGEST)) is not None:
        yield from from_toml(path, data)


def from_toml(path: Path, data: bytes) -> Iterator[Raw]:
    """The values in a TOML document, the content of `path`. Raises UsageError, with the position, for invalid TOML."""
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
    """The values of nested tables by dotted key."""
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def from_git(cwd: Path) -> Iterator[Raw]:
    """The values of repoagent.* in `git config`, of all scopes in git's order, with one call of git. Ignores a bare
    repository in a folder above."""
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
        if has_value and (found := find(key)) and isinstance(found[1].default, tuple):
            # a list in git is a key that occurs several times; an empty value clears it
            lists[key] = [*lists.get(key, ()), text] if text else []
            value = lists[key]
        yield Raw(key, name, value, f"git config ({scope})")


def from_environment(env: Mapping[str, str]) -> Iterator[Raw]:
    """REPOAGENT_MAX_COST is `max_cost`, REPOAGENT_EDIT__SCOPE is `edit.scope`; an empty one counts as unset."""
    for name, value in sorted(env.items()):
        if name.startswith(PREFIX) and value and name != tracing.VARIABLE:
            yield Raw(name[len(PREFIX) :].lower().replace("__", "."), name, value, f"environment {name}")


def variable(key: str) -> str:
    """The environment variable that sets `key`."""
    return PREFIX + key.replace(".", "__").replace("-", "_").upper()


def from_flags(flags: Mapping[str, object]) -> Iterator[Raw]:
    """Flags by the key that they set, None for those not given. A flag has the name of the last word of its key."""
    for key, value in flags.items():
        if value is not None:
            flag = f"--{key.rpartition('.')[2].replace('_', '-')}"
            yield Raw(key, flag, value, f"flag {flag}")
