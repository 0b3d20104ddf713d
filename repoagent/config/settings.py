"""The merged configuration: values by key, each with where it came from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypeVar

from repoagent.config.kinds import Value
from repoagent.config.options import OPTIONS, Option, find
from repoagent.dataclass import dataclass

T = TypeVar("T", str, int, float, bool, tuple[str, ...])


class Setting(NamedTuple):
    """A value and where it is from: "default", "file:PATH", "git config (SCOPE)", "environment NAME" or
    "flag --NAME"."""

    key: str
    value: Value
    origin: str
    option: Option

    @property
    def shown(self) -> str:
        """The value as a text for a person; a secret is masked."""
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
    """All settings; `warnings` are sentences about what was ignored, for standard error. `theirs` is the origin of what
    comes with the repository."""

    entries: Mapping[str, Setting]
    warnings: tuple[str, ...] = ()
    theirs: str | None = None

    def setting(self, key: str) -> Setting:
        """The setting of `key`, spelled as in the table. KeyError for a key that is no option."""
        if key in self.entries:
            return self.entries[key]
        if (found := find(key)) is None or found[0] != key:
            raise KeyError(key)
        return Setting(key, found[1].default, "default", found[1])

    def get(self, key: str) -> Value:
        """The value of `key`; None where it is not set. KeyError for a key that is no option."""
        return self.setting(key).value

    __getitem__ = get

    def __iter__(self) -> Iterator[Setting]:
        """Every setting, in the order of the table; of the families those that are set."""
        order = {option.key: place for place, option in enumerate(OPTIONS)}
        return iter(sorted(self.entries.values(), key=lambda s: (order[s.option.key], s.key)))

    def origin(self, key: str) -> str:
        """Where the value of `key` came from."""
        return self.setting(key).origin

    def text(self, key: str) -> str:
        """A text that is always set."""
        return _as(str, key, self.get(key))

    def whole(self, key: str) -> int:
        """A whole number that is always set."""
        return _as(int, key, self.get(key))

    def number(self, key: str) -> float:
        """A number that is always set."""
        return _as(float, key, self.get(key))

    def switch(self, key: str) -> bool:
        """On or off."""
        return _as(bool, key, self.get(key))

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts."""
        return _as(tuple, key, self.get(key))

    def text_or_none(self, key: str) -> str | None:
        """A text, or None when it is not set."""
        return None if self.get(key) is None else self.text(key)

    def whole_or_none(self, key: str) -> int | None:
        """A whole number, or None when it is not set (a limit that is not set limits nothing)."""
        return None if self.get(key) is None else self.whole(key)

    def number_or_none(self, key: str) -> float | None:
        """A number, or None when it is not set."""
        return None if self.get(key) is None else self.number(key)

    def names(self, family: str) -> dict[str, str]:
        """What is set of a family of texts: {"fast": "anthropic/…"} of `alias`."""
        return {
            key.partition(".")[2]: self.text(key)
            for key, setting in self.entries.items()
            if setting.option.key == f"{family}.*"
        }

    def family(self, name: str) -> dict[str, dict[str, Value]]:
        """What is set of `providers` or `models`: {"openai": {"base_url": "https://…"}}."""
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
