"""The one table of rules: what each finds, how much that matters by default, and where it is explained."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from repoagent.errors import UsageError
from repoagent.review.finding import Level

if TYPE_CHECKING:
    from repoagent.config.settings import Settings

OFF = "off"
PAGE = "docs/review.md"


class Rule(NamedTuple):
    """A kind of finding. `default` is None for a rule that is off unless it is asked for; `line` says in one line what
    it finds, `page` where it is explained."""

    id: str
    default: Level | None
    source: Literal["static", "history", "model"]
    line: str

    @property
    def page(self) -> str:
        return f"{PAGE}#{self.id}"


_RULES = (
    Rule("secret", Level.ERROR, "static", "A key, a token or a password is added."),
    Rule("conflict-marker", Level.ERROR, "static", "A conflict marker of git is part of the change."),
    Rule("parse-error", Level.ERROR, "static", "A file that parsed before the change no longer does."),
    Rule(
        "removed-symbol",
        Level.ERROR,
        "static",
        "A name is gone that other code still imports or calls.",
    ),
    Rule("debug-leftover", Level.WARNING, "static", "A line looks left over from debugging."),
    Rule("partner-missing", Level.WARNING, "history", "A file that usually changes along was left out."),
    Rule(
        "fix-prone",
        Level.NOTE,
        "history",
        "Changes of this file were followed by fixes more often than usual.",
    ),
    Rule("unusual-size", Level.NOTE, "history", "The change has far more lines than is usual here."),
    Rule("unusual-width", Level.NOTE, "history", "The change touches far more files than is usual here."),
    Rule("generated-edited", Level.NOTE, "history", "A generated file changed, but not what it is made of."),
    Rule("vendored-edited", Level.NOTE, "history", "Somebody else's file was edited where it was copied to."),
    Rule(
        "api-changed",
        Level.WARNING,
        "history",
        "A public symbol is gone or has another signature, and its usual callers are untouched.",
    ),
    Rule(
        "review-relaxed",
        Level.WARNING,
        "history",
        "The change makes its own review, or later ones, more lenient.",
    ),
    Rule("correctness", Level.WARNING, "model", "A changed line does something wrong."),
    Rule("security", Level.ERROR, "model", "A changed line opens a way to attack."),
    Rule("tests", Level.NOTE, "model", "Changed behaviour that no test shows, or a test that shows nothing."),
    Rule("compatibility", Level.WARNING, "model", "Something that others rely on works in another way."),
)
RULES = {rule.id: rule for rule in _RULES}


def option(rule: str) -> str:
    """The configuration key that holds the level of a rule."""
    return f"review.rules.{rule}"


def level_of(rule: str, settings: Settings) -> Level | None:
    """How much findings of this rule matter as the settings say; None when it is off. KeyError for no rule."""
    word = settings.text(option(RULES[rule].id))
    return None if word == OFF else Level[word.upper()]


def parse_levels(given: tuple[str, ...]) -> dict[str, str]:
    """What `--rule ID=LEVEL` said, as settings by key. Raises UsageError for a rule or a level that does not exist."""
    found: dict[str, str] = {}
    words = (OFF, *(level.word for level in Level))
    for text in given:
        rule, equals, word = text.partition("=")
        if rule not in RULES:
            raise UsageError(f"there is no rule {rule!r}; there are: {', '.join(RULES)}")
        if not equals or word.lower() not in words:
            raise UsageError(f"--rule {text}: say {rule}=LEVEL with one of {', '.join(words)}")
        found[option(rule)] = word.lower()
    return found
