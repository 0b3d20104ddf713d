"""The merged configuration (`Settings`): values by key, each with its origin; and the path of the user's file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, TypeVar

from repoagent.config.options import OPTIONS, Option, Value, find_option
from repoagent.dataclass import dataclass

T = TypeVar("T", str, int, float, bool, tuple[str, ...])


class Setting(NamedTuple):
    """A value and its `origin`: "default", "file:PATH", "git config (SCOPE)", "environment NAME" or "flag --NAME"."""

    key: str
    value: Value
    origin: str
    option: Option

    @property
    def shown(self) -> str:
        """The value as text for the user."""
        if self.value is None:
            return ""
        if isinstance(self.value, bool):
            return "true" if self.value else "false"
        if isinstance(self.value, tuple):
            return ", ".join(self.value)
        return f"{self.value:g}" if isinstance(self.value, float) else str(self.value)


@dataclass(frozen=True)
class Settings:
    """All settings. Methods that read a value raise KeyError for an unknown key, TypeError for a value of another type.

    warnings: sentences about ignored values.
    theirs: the origin of settings from the repository's file.
    """

    entries: Mapping[str, Setting]
    warnings: tuple[str, ...] = ()
    theirs: str | None = None

    def setting(self, key: str) -> Setting:
        """The setting for `key`, spelled as in the table of options."""
        if key in self.entries:
            return self.entries[key]
        if (match := find_option(key)) is None or match[0] != key:
            raise KeyError(key)
        return Setting(key, match[1].default, "default", match[1])

    def get(self, key: str) -> Value:
        """The value of `key`; None if it is not set."""
        return self.setting(key).value

    __getitem__ = get

    def __iter__(self) -> Iterator[Setting]:
        """All settings, in table order; of a family, those that are set."""
        order = {option.key: number for number, option in enumerate(OPTIONS)}
        return iter(sorted(self.entries.values(), key=lambda s: (order[s.option.key], s.key)))

    def origin(self, key: str) -> str:
        """The origin of the value of `key`."""
        return self.setting(key).origin

    def _typed(self, kind: type[T], key: str) -> T:
        value = self.get(key)
        if type(value) is not kind:
            raise TypeError(f"{key} is {value!r}, not {kind.__name__}")
        return value

    def text(self, key: str) -> str:
        return self._typed(str, key)

    def whole(self, key: str) -> int:
        return self._typed(int, key)

    def number(self, key: str) -> float:
        return self._typed(float, key)

    def switch(self, key: str) -> bool:
        return self._typed(bool, key)

    def texts(self, key: str) -> tuple[str, ...]:
        return self._typed(tuple, key)

    def text_or_none(self, key: str) -> str | None:
        return None if self.get(key) is None else self.text(key)

    def whole_or_none(self, key: str) -> int | None:
        return None if self.get(key) is None else self.whole(key)

    def number_or_none(self, key: str) -> float | None:
        return None if self.get(key) is None else self.number(key)

    def names(self, family: str) -> dict[str, str]:
        """The values in a family of string options, by name: {"fast": "anthropic/…"} for `alias`."""
        settings = [s for s in self.entries.values() if s.option.key == f"{family}.*"]
        return {s.key.partition(".")[2]: self.text(s.key) for s in settings}

    def family(self, name: str) -> dict[str, dict[str, Value]]:
        """The values of `providers` or `models` by name: {"openai": {"base_url": "https://…"}}."""
        table: dict[str, dict[str, Value]] = {}
        for key, setting in self.entries.items():
            if setting.option.is_family and key.startswith(f"{name}."):
                chosen, last = key.partition(".")[2].rsplit(".", 1)
                table.setdefault(chosen, {})[last] = setting.value
        return table


def user_file(env: Mapping[str, str]) -> Path:
    """The user's configuration file: `$XDG_CONFIG_HOME/repoagent/config.toml`."""
    home = Path(env.get("XDG_CONFIG_HOME", ""))
    # By the XDG specification, a relative path counts as unset.
    base = home if home.is_absolute() else Path(env.get("HOME") or Path.home(), ".config")
    return base / "repoagent" / "config.toml"
