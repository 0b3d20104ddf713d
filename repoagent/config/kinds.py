"""What the value of an option may be; each kind reads TOML values and the plain text of git or a variable."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import NamedTuple

Value = str | int | float | bool | tuple[str, ...] | None

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}  # as git reads whole numbers
_ON = {"true", "yes", "on", "1"}
_OFF = {"false", "no", "off", "0", ""}


class Kind(NamedTuple):
    """`parse` takes what a layer gave (text, or a TOML value) and returns the value, or raises ValueError;
    `allowed` says in words what it takes."""

    allowed: str
    parse: Callable[[object], Value]


def text(allowed: str = "a text", pattern: str = r"(?s).*\S.*") -> Kind:
    """A text that matches `pattern` as a whole."""
    whole_text = re.compile(pattern)

    def parse(raw: object) -> str:
        if isinstance(raw, str) and whole_text.fullmatch(raw):
            return raw
        raise ValueError

    return Kind(allowed, parse)


def whole(minimum: int = 0) -> Kind:
    """A whole number from `minimum` up; k, m and g count as in git."""

    def parse(raw: object) -> int:
        if isinstance(raw, str) and (match := re.fullmatch(r"\s*([0-9]{1,18})([kmgKMG]?)\s*", raw)):
            raw = int(match[1]) * _UNITS[match[2].lower()]
        if isinstance(raw, int) and not isinstance(raw, bool) and raw >= minimum:
            return raw
        raise ValueError

    return Kind(f"a whole number, {minimum} or more", parse)


def number() -> Kind:
    """A finite number, 0 or more."""

    def parse(raw: object) -> float:
        if isinstance(raw, bool) or not isinstance(raw, (str, int, float)):
            raise ValueError
        try:
            value = float(raw)
        except OverflowError:
            raise ValueError from None
        if not math.isfinite(value) or value < 0:
            raise ValueError
        return value

    return Kind("a number, 0 or more", parse)


def switch() -> Kind:
    """On or off, in git's words for it."""

    def parse(raw: object) -> bool:
        if isinstance(raw, bool):
            return raw
        if isinstance(raw, str) and raw.lower() in _ON | _OFF:
            return raw.lower() in _ON
        raise ValueError

    return Kind("true or false", parse)


def one_of(*names: str) -> Kind:
    """One of a few words."""

    def parse(raw: object) -> str:
        if isinstance(raw, str) and raw.lower() in names:
            return raw.lower()
        raise ValueError

    return Kind(f"{', '.join(names[:-1])} or {names[-1]}", parse)


def texts() -> Kind:
    """A list of texts; in plain text, where there are no lists, one a line."""

    def parse(raw: object) -> tuple[str, ...]:
        items = raw
        if isinstance(raw, str):  # no `splitlines`: what it takes for an end may stand in a line of others
            items = re.split(r"\r?\n", raw.removesuffix("\n")) if raw else ()
        if isinstance(items, (list, tuple)) and all(isinstance(item, str) and item.strip() for item in items):
            return tuple(items)
        raise ValueError

    return Kind("a list of texts (one a line, outside TOML)", parse)


def or_none(kind: Kind) -> Kind:
    """`kind`, or the word none, which takes back what a lower layer says."""

    def parse(raw: object) -> Value:
        return None if isinstance(raw, str) and raw.lower() == "none" else kind.parse(raw)

    return Kind(f"{kind.allowed}, or none", parse)
