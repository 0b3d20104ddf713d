"""The table of options: keys, types, defaults, and what the file of a repository may set.

`.repoagent/config.toml` comes with somebody else's repository. It may not name a command, an address, a key or a price,
may not widen what an edit reaches, and may only lower limits.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

from repoagent.errors import UsageError

Value = str | int | float | bool | tuple[str, ...] | None

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}  # as git reads whole numbers
_ON = {"true", "yes", "on", "1"}
_OFF = {"false", "no", "off", "0", ""}


class OptionType(NamedTuple):
    """`parse` converts text (of git or a variable) or a TOML value, or raises ValueError; `allowed` describes the
    values in messages."""

    allowed: str
    parse: Callable[[object], Value]


def text(allowed: str = "text", pattern: str = r"(?s).*\S.*") -> OptionType:
    """Text that matches all of `pattern`."""
    whole_text = re.compile(pattern)

    def parse(raw: object) -> str:
        if isinstance(raw, str) and whole_text.fullmatch(raw):
            return raw
        raise ValueError

    return OptionType(allowed, parse)


def whole(minimum: int = 0) -> OptionType:
    """An integer of at least `minimum`, with git's suffixes k, m and g."""

    def parse(raw: object) -> int:
        if isinstance(raw, str) and (match := re.fullmatch(r"\s*([0-9]{1,18})([kmgKMG]?)\s*", raw)):
            raw = int(match[1]) * _UNITS[match[2].lower()]
        if isinstance(raw, int) and not isinstance(raw, bool) and raw >= minimum:
            return raw
        raise ValueError

    return OptionType(f"an integer, {minimum} or more", parse)


def number() -> OptionType:
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

    return OptionType("a number, 0 or more", parse)


def switch() -> OptionType:
    """A boolean, in git's spellings."""

    def parse(raw: object) -> bool:
        if isinstance(raw, bool):
            return raw
        if isinstance(raw, str) and raw.lower() in _ON | _OFF:
            return raw.lower() in _ON
        raise ValueError

    return OptionType("true or false", parse)


def one_of(*names: str) -> OptionType:
    """One of a few words."""

    def parse(raw: object) -> str:
        if isinstance(raw, str) and raw.lower() in names:
            return raw.lower()
        raise ValueError

    return OptionType(f"{', '.join(names[:-1])} or {names[-1]}", parse)


def texts() -> OptionType:
    """A list of strings; in text, one per line."""

    def parse(raw: object) -> tuple[str, ...]:
        items = raw
        if isinstance(raw, str):  # not `splitlines`, which also splits at form feeds and the like
            items = re.split(r"\r?\n", raw.removesuffix("\n")) if raw else ()
        if isinstance(items, (list, tuple)) and all(isinstance(item, str) and item.strip() for item in items):
            return tuple(items)
        raise ValueError

    return OptionType("a list of strings (outside TOML, one per line)", parse)


def or_none(kind: OptionType) -> OptionType:
    """`kind`, or the word none, which unsets the value of a lower layer."""

    def parse(raw: object) -> Value:
        return None if isinstance(raw, str) and raw.lower() == "none" else kind.parse(raw)

    return OptionType(f"{kind.allowed}, or none", parse)


DEFAULT_MODEL = "anthropic/claude-sonnet-5-5"


class Option(NamedTuple):
    """An option.

    `key` is dotted; a `*` in it is a name of the user's choice. A value in `.repoagent/config.toml` is ignored unless
    `repository_may_set`; with `only_lower` it must be lower than the one set already, with `only_like` it must match
    the pattern (described by `only_what`), with `only_unset` it counts only where the user's own configuration has no
    value. A `secret` value is never printed.
    """

    key: str
    kind: OptionType
    default: Value
    doc: str
    repository_may_set: bool = True
    only_lower: bool = False
    only_like: re.Pattern[str] | None = None
    only_what: str = "a name, not a command or a file"
    only_unset: bool = False
    secret: bool = False

    @property
    def is_family(self) -> bool:
        """Whether the key contains a name of the user's choice."""
        return "*" in self.key


_limit = partial(Option, only_lower=True)
_own = partial(Option, repository_may_set=False)
_MODEL = text("PROVIDER/NAME, local/PATH.gguf, command:CMD, manual or replay:FILE")
_TRAILER = text("the name of a trailer (letters, digits, dashes)", r"[A-Za-z][A-Za-z0-9-]*")
_COMMAND = or_none(text("a shell command"))
_SCOPE = one_of("files", "neighbors", "repo")
_FORMS = ("diff", "search", "whole", "function")
_EFFORT = one_of("low", "medium", "high", "xhigh", "max")
_VARIABLE = text("the name of an environment variable", r"[A-Za-z_][A-Za-z0-9_]*")
_WHEN = one_of("auto", "always", "never")
_COUNT = or_none(whole(1))
_DOLLARS = or_none(number())
_LEVEL = one_of("off", "note", "warning", "error")
_RULES = {
    "secret": "error",
    "conflict-marker": "error",
    "parse-error": "error",
    "removed-symbol": "error",
    "debug-leftover": "warning",
    "partner-missing": "warning",
    "fix-prone": "note",
    "unusual-size": "note",
    "unusual-width": "note",
    "generated-edited": "note",
    "vendored-edited": "note",
    "api-changed": "warning",
    "review-relaxed": "warning",
    "correctness": "warning",
    "security": "error",
    "tests": "note",
    "compatibility": "warning",
}
# Only the name of a provider's model: `command:` runs a program, `local/` and `replay:` open files.
_REMOTE = re.compile(r"(?!local/)[a-z][a-z0-9_-]*/\S+|manual")

OPTIONS: tuple[Option, ...] = (
    Option("model", _MODEL, DEFAULT_MODEL, "the default model", only_like=_REMOTE, only_unset=True),
    _own(
        "fallback",
        texts(),
        (),
        "models to fall back to, in this order, when one is overloaded or unreachable",
    ),
    _own("summary.model", or_none(_MODEL), None, "the model that writes summaries; none: the default model"),
    _own("summary.share", switch(), False, "share commit summaries with others through git notes"),
    _own("effort", or_none(_EFFORT), None, "how much a model thinks, where the provider supports it"),
    _own("temperature", or_none(number()), None, "sampling temperature, where the provider supports it"),
    _own("stop", texts(), (), "stop sequences, where the provider supports them"),
    _own("cache", one_of("5m", "1h", "off"), "5m", "lifetime of the provider's prompt cache"),
    _own(
        "protocol",
        one_of("auto", "tags", "tools"),
        "auto",
        "how a model calls tools: as tags in its text, or natively",
    ),
    _limit("max_turns", whole(1), 10, "maximum model calls per edit"),
    _limit("max_tokens", _COUNT, None, "maximum tokens per edit, input and output together"),
    _limit("max_cost", _DOLLARS, None, "maximum cost of one edit, in US dollars"),
    _limit("max_cost_per_day", _DOLLARS, None, "maximum cost of all edits of a day, in US dollars"),
    _limit("max_output_tokens", _COUNT, None, "maximum tokens of one reply"),
    _limit("timeout", number(), 600.0, "seconds to wait for a model that sends nothing"),
    _own("check", _COMMAND, None, "a command that must succeed before an edit is committed"),
    _own(
        "check.timeout", or_none(number()), 1800.0, "seconds until a check is stopped, and fails; none: never"
    ),
    _own(
        "check.unconfined",
        switch(),
        False,
        "run the check of a change that you have not seen outside the sandbox; see `repoagent help docs/security.md`",
    ),
    Option("commit.trailers", switch(), True, "add trailers with the model and the edit to each commit"),
    _own("commit.trailer", _TRAILER, "Assisted-by", "the trailer that names the model"),
    _own(
        "edit.scope",
        _SCOPE,
        "files",
        "what an edit may change: the named files, their neighbors too, or the repository",
    ),
    Option(
        "edit.format",
        one_of("auto", *_FORMS),
        "auto",
        "the output format of a model: a diff, search/replace blocks, whole files or whole functions",
    ),
    _own(
        "edit.sensitive",
        texts(),
        (),
        "more files to ask about before changing them, as in .gitignore; see `repoagent help docs/security.md`",
    ),
    _own("edit.parse_check", switch(), True, "refuse a change that adds syntax errors"),
    _limit(
        "edit.inline_limit",
        whole(),
        64 * 1024,
        "maximum bytes of a file that is shown whole; of a larger one, its outline and the relevant parts",
    ),
    Option("context", texts(), (), "more files to show in each prompt"),
    _limit(
        "context_limit",
        whole(),
        8_000,
        "maximum tokens of these files, and of AGENTS.md and similar files, in a prompt",
    ),
    Option("history.commits", whole(), 3, "number of recent commits of a file in a prompt"),
    _own("history.background", switch(), True, "build the history index in the background"),
    *(
        Option(f"review.rules.{rule}", _LEVEL, level, f"level of {rule} findings; off: none")
        for rule, level in _RULES.items()
    ),
    Option(
        "review.fail_on",
        one_of("note", "warning", "error", "never"),
        "error",
        "the lowest level at which `repoagent review` exits with 1",
    ),
    _own(
        "review.model",
        or_none(_MODEL),
        None,
        "the model that reviews each change; none: only the rules on history",
    ),
    _limit(
        "review.context_limit", whole(1), 24_000, "maximum tokens of the change in one model call of a review"
    ),
    _limit("review.max_calls", whole(1), 20, "maximum model calls per review"),
    _limit("review.max_seconds", number(), 300.0, "maximum seconds of model calls per review"),
    Option(
        "run.mode",
        one_of("ask", "auto-edit", "auto", "read-only"),
        "ask",
        "what a run may do without asking; see `repoagent help docs/approvals.md`",
        only_like=re.compile("read-only"),
        only_what="read-only",
    ),
    _limit("run.max_turns", whole(1), 100, "maximum model calls per run"),
    _limit("run.max_time", _DOLLARS, None, "maximum seconds per run"),
    _own(
        "run.timeout",
        number(),
        120.0,
        "seconds until a command of a run is stopped, unless the model sets its own limit",
    ),
    _own(
        "run.allow",
        texts(),
        (),
        "patterns of commands to run without asking; see `repoagent help docs/approvals.md`",
    ),
    _own(
        "run.deny", texts(), (), "patterns of commands never to run; see `repoagent help docs/approvals.md`"
    ),
    _own("run.network", switch(), False, "let commands in the sandbox use the network"),
    _own("run.browse", switch(), False, "let a run fetch public web pages, after asking for each host"),
    _own("run.write", texts(), (), "more folders that commands in the sandbox may write to"),
    _own("run.memory", or_none(whole(1)), None, "maximum bytes of memory of a command and its children"),
    _own("run.processes", or_none(whole(1)), 512, "maximum processes of a command"),
    _own(
        "run.before_turn",
        _COMMAND,
        None,
        "a command to run before each turn of a run; the model gets its output",
    ),
    _own(
        "run.after_edit",
        _COMMAND,
        None,
        "a command to run after each edit of a run; the model gets its output",
    ),
    _own("run.before_finish", _COMMAND, None, "a command that must succeed before a run is done"),
    _own(
        "run.tools", texts(), (), "programs that a run may use as tools; see `repoagent help docs/plugins.md`"
    ),
    _own("run.skills", texts(), (), "more folders with skills"),
    _own("tool.*", text(), None, "a setting of a plug-in tool, as tool.NAME.KEY"),
    Option("memory.enabled", switch(), True, "remember each edit with its file", only_unset=True),
    Option(
        "memory.limit",
        whole(),
        256 * 1024,
        "maximum bytes of a file's conversation before its oldest exchanges are archived; 0: no limit",
    ),
    _own(
        "conversations.keep_days",
        or_none(whole()),
        None,
        "days to keep conversations on files, before each exchange becomes one line; none: forever",
    ),
    _own("sent.keep_days", whole(), 30, "days to keep the exact text of each request"),
    _own("color", _WHEN, "auto", "color the output"),
    _own("alias.*", _MODEL, None, "another name for a model"),
    _own("providers.*.base_url", text("a URL", r"https?://\S+"), None, "the base URL of a provider"),
    _own("providers.*.api_key_env", _VARIABLE, None, "the environment variable that holds its key"),
    _own("providers.*.api_key_command", text("a shell command"), None, "a command that prints its key"),
    _own(
        "providers.*.traits",
        texts(),
        (),
        "how it differs from the common protocol; see `repoagent help docs/models.md`",
    ),
    _own("models.*.input", number(), None, "US dollars per million input tokens of a model"),
    _own("models.*.output", number(), None, "US dollars per million output tokens of a model"),
    _own("models.*.cache_read", number(), None, "US dollars per million tokens read from the prompt cache"),
    _own("models.*.cache_write", number(), None, "US dollars per million tokens written to the prompt cache"),
    _own("models.*.context", whole(1), None, "context window of a model, in tokens"),
    _own("models.*.max_output", whole(1), None, "maximum tokens of one reply of a model"),
    _own("models.*.media", texts(), (), "input types of a model next to text: image, pdf"),
    _own("models.*.protocol", one_of("tags", "tools"), None, "the protocol of a model when protocol is auto"),
    _own("models.*.format", one_of(*_FORMS), None, "the output format of a model when edit.format is auto"),
)


def find(key: str) -> tuple[str, Option] | None:
    """The option of `key` and the spelling of the key in the table, or None.

    Keys of git have neither underscores nor case, so `maxTurns`, `max-turns` and `MAX_TURNS` are `max_turns`. Only a
    name of the user's choice is compared exactly.
    """
    parts = key.split(".")
    for option in OPTIONS:
        words = option.key.split(".")
        if not option.is_family:
            if _same(parts, words):
                return option.key, option
            continue
        head, *tail = words[0], *words[2:]
        chosen = parts[1 : len(parts) - len(tail)]
        if _same((parts[0], *parts[len(parts) - len(tail) :]), (head, *tail)) and (name := ".".join(chosen)):
            return ".".join((head, name, *tail)), option
    return None


def nearest(key: str) -> str | None:
    """The known key that is most similar to `key`, or None."""
    from difflib import get_close_matches

    folded = {fold(option.key): option.key for option in OPTIONS}
    near = get_close_matches(fold(key), list(folded), n=1)
    return folded[near[0]] if near else None


def find_or_refuse(key: str) -> tuple[str, Option]:
    """As `find`. Raises UsageError, with the nearest key, for an unknown one."""
    if (found := find(key)) is None:
        near = nearest(key)
        raise UsageError(f"unknown option {key}" + (f"; did you mean {near}?" if near else ""))
    return found


def fold(part: str) -> str:
    """A key, or a part of one, without dashes, underscores and case."""
    return part.replace("-", "").replace("_", "").lower()


def _same(these: Iterable[str], those: Iterable[str]) -> bool:
    return [fold(part) for part in these] == [fold(part) for part in those]
