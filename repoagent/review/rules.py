"""The table of rules with their descriptions and default levels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from repoagent.errors import UsageError
from repoagent.review.finding import Level

if TYPE_CHECKING:
    from repoagent.config.settings import Settings

OFF = "off"


class Rule(NamedTuple):
    """A kind of finding. `default` is None for a rule that is off by default; `line` is its description."""

    id: str
    default: Level | None
    source: Literal["static", "history", "model"]
    line: str


_NOTE, _WARNING, _ERROR = Level.NOTE, Level.WARNING, Level.ERROR
_RULES = (
    Rule("secret", _ERROR, "static", "The change adds a key, a token or a password."),
    Rule("conflict-marker", _ERROR, "static", "The change contains a conflict marker of git."),
    Rule("parse-error", _ERROR, "static", "A file that parsed before the change no longer does."),
    Rule("removed-symbol", _ERROR, "static", "Other code still imports or calls a removed name."),
    Rule("debug-leftover", _WARNING, "static", "A line looks left over from debugging."),
    Rule("partner-missing", _WARNING, "history", "A file that usually changes along is missing."),
    Rule(
        "review-relaxed", _WARNING, "history", "The change makes its own review, or later ones, more lenient."
    ),
    Rule("correctness", _WARNING, "model", "A changed line does something wrong."),
    Rule("security", _ERROR, "model", "A changed line makes an attack possible."),
    Rule("tests", _NOTE, "model", "Changed behavior has no test, or a test checks nothing."),
    Rule("compatibility", _WARNING, "model", "Something that others rely on behaves differently."),
)
RULES = {rule.id: rule for rule in _RULES}


def level_of(rule: str, settings: Settings) -> Level | None:
    """The configured level of a rule; None if it is off. Raises KeyError for an unknown rule."""
    word = settings.text(f"review.rules.{RULES[rule].id}")
    return None if word == OFF else Level[word.upper()]


def parse_levels(values: tuple[str, ...]) -> dict[str, str]:
    """The values of `--rule` (ID=LEVEL) as settings by key. Raises UsageError for an unknown rule or level."""
    levels: dict[str, str] = {}
    words = (OFF, *(level.word for level in Level))
    for text in values:
        rule, equals, word = text.partition("=")
        if rule not in RULES:
            raise UsageError(f"unknown rule {rule!r}; the rules are: {', '.join(RULES)}")
        if not equals or word.lower() not in words:
            raise UsageError(f"--rule {text}: use {rule}=LEVEL, where LEVEL is one of {', '.join(words)}")
        levels[f"review.rules.{rule}"] = word.lower()
    return levels
