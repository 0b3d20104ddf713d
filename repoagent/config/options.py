"""The table of options: keys, types, defaults, and whether a repository's file may set them.

`.repoagent/config.toml` may come from another author. It may not set a command, an address, a key or a price, may not
widen the scope of an edit, and may only lower limits.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from repoagent.errors import UsageError

Value = str | int | float | bool | tuple[str, ...] | None

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}  # as in git
_ON = {"true", "yes", "on", "1"}
_OFF = {"false", "no", "off", "0", ""}


class OptionType(NamedTuple):
    """The type of an option. `parse` converts text or a TOML value; it raises ValueError if the value is invalid.
    `allowed` describes the valid values."""

    allowed: str
    parse: Callable[[object], Value]


def text(allowed: str, pattern: str = r"(?s).*\S.*") -> OptionType:
    """The type of an option whose text matches `pattern` in full."""

    def parse(raw: object) -> str:
        if isinstance(raw, str) and re.fullmatch(pattern, raw):
            return raw
        raise ValueError

    return OptionType(allowed, parse)


def whole(minimum: int = 0) -> OptionType:
    """The type of an option that is an integer, at least `minimum`; git's suffixes k, m and g are allowed."""

    def parse(raw: object) -> int:
        if isinstance(raw, str) and (match := re.fullmatch(r"\s*([0-9]{1,18})([kmgKMG]?)\s*", raw)):
            raw = int(match[1]) * _UNITS[match[2].lower()]
        if isinstance(raw, int) and not isinstance(raw, bool) and raw >= minimum:
            return raw
        raise ValueError

    return OptionType(f"an integer, {minimum} or more", parse)


def one_of(*names: str) -> OptionType:
    """The type of an option that takes one of these words, in upper or lower case."""

    def parse(raw: object) -> str:
        if isinstance(raw, str) and raw.lower() in names:
            return raw.lower()
        raise ValueError

    return OptionType(f"{', '.join(names[:-1])} or {names[-1]}", parse)


def or_none(kind: OptionType) -> OptionType:
    """The type `kind`, extended to accept "none", which unsets a value from a lower layer."""

    def parse(raw: object) -> Value:
        return None if isinstance(raw, str) and raw.lower() == "none" else kind.parse(raw)

    return OptionType(f"{kind.allowed}, or none", parse)


def _number(raw: object) -> float:
    try:
        value = float(raw) if isinstance(raw, (str, int, float)) and not isinstance(raw, bool) else -1.0
    except OverflowError:
        raise ValueError from None
    if not math.isfinite(value) or value < 0:
        raise ValueError
    return value


def _switch(raw: object) -> bool:
    if isinstance(raw, bool):
        return raw
    if isinstance(raw, str) and raw.lower() in _ON | _OFF:  # as in git
        return raw.lower() in _ON
    raise ValueError


def _texts(raw: object) -> tuple[str, ...]:
    if isinstance(raw, str):  # not `splitlines`, which also splits at form feeds and the like
        raw = re.split(r"\r?\n", raw.removesuffix("\n")) if raw else ()
    if isinstance(raw, (list, tuple)) and all(isinstance(item, str) and item.strip() for item in raw):
        return tuple(raw)
    raise ValueError


class Option(NamedTuple):
    """A configuration option. A `*` in `key` is a placeholder for a name that the user chooses.

    repository_may_set: whether a value in `.repoagent/config.toml` counts.
    only_lower: such a value may not exceed the value of lower layers.
    only_like: such a value must match this pattern, which `only_what` describes.
    only_unset: such a value counts only if the user's file has no value.
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

    @property
    def is_family(self) -> bool:
        """Whether the key contains a name that the user chooses."""
        return "*" in self.key

    def why_not_from_repository(self, value: Value) -> str | None:
        """The reason why a repository may not set `value`, as a clause; None if it may."""
        if not self.repository_may_set:
            return f"only you can set {self.key}"
        if self.only_like and not (isinstance(value, str) and self.only_like.fullmatch(value)):
            return f"in a repository, {self.key} may only be {self.only_what}"
        return None


DEFAULT_MODEL = "anthropic/claude-sonnet-5-5"

_limit = partial(Option, only_lower=True)
_own = partial(Option, repository_may_set=False)
_SWITCH = OptionType("true or false", _switch)
_NUMBER = OptionType("a number, 0 or more", _number)
_TEXTS = OptionType("a list of strings (outside TOML, one per line)", _texts)
_COUNT = whole(1)
_MODEL = text("PROVIDER/NAME, local/PATH.gguf, command:CMD, manual or replay:FILE")
_TRAILER = text("the name of a trailer (letters, digits, dashes)", r"[A-Za-z][A-Za-z0-9-]*")
_COMMAND = or_none(text("a shell command"))
_FORMATS = ("diff", "search", "whole", "function")
_VARIABLE = text("the name of an environment variable", r"[A-Za-z_][A-Za-z0-9_]*")
_COUNT_OR_NONE = or_none(_COUNT)
_NUMBER_OR_NONE = or_none(_NUMBER)
_MODEL_OR_NONE = or_none(_MODEL)
_RULES = {
    **dict.fromkeys(("secret", "conflict-marker", "parse-error", "removed-symbol"), "error"),
    **dict.fromkeys(("debug-leftover", "partner-missing"), "warning"),
    **dict.fromkeys(("review-relaxed", "correctness"), "warning"),
    "security": "error",
    "tests": "note",
    "compatibility": "warning",
}
# Only names of models of providers: `command:` runs a program, `local/` and `replay:` open files.
_REMOTE = re.compile(r"(?!local/)[a-z][a-z0-9_-]*/\S+|manual")

OPTIONS: tuple[Option, ...] = (
    Option("model", _MODEL, DEFAULT_MODEL, "the default model", only_like=_REMOTE, only_unset=True),
    _own(
        "fallback",
        _TEXTS,
        (),
        "models to fall back to, in this order, when one is overloaded or cannot be reached over the network",
    ),
    _own("summary.model", _MODEL_OR_NONE, None, "the model that writes summaries; none: the default model"),
    _own(
        "effort",
        or_none(one_of("low", "medium", "high", "xhigh", "max")),
        None,
        "the model's reasoning effort",
    ),
    _own("temperature", _NUMBER_OR_NONE, None, "sampling temperature, where the provider supports it"),
    _own("cache", one_of("5m", "1h", "off"), "5m", "lifetime of the provider's prompt cache"),
    _own("protocol", one_of("auto", "tags", "tools"), "auto", "how a model calls tools: as tags or natively"),
    _limit("max_turns", _COUNT, 10, "maximum model calls per edit"),
    _limit("max_tokens", _COUNT_OR_NONE, None, "maximum tokens per edit, input and output together"),
    _limit("max_cost", _NUMBER_OR_NONE, None, "maximum cost of one edit, in US dollars"),
    _limit("max_cost_per_day", _NUMBER_OR_NONE, None, "maximum cost of all edits in a day, in US dollars"),
    _limit("max_output_tokens", _COUNT_OR_NONE, None, "maximum tokens of one reply"),
    _limit("timeout", _NUMBER, 600.0, "seconds without any output before a model call times out"),
    _own("check", _COMMAND, None, "a command that must succeed before an edit is committed"),
    _own(
        "check.timeout", _NUMBER_OR_NONE, 1800.0, "seconds before a check is stopped and fails; none: never"
    ),
    _own("check.unconfined", _SWITCH, False, "run the check outside the sandbox, even for unseen changes"),
    Option("commit.trailers", _SWITCH, True, "name the model and the edit in trailers of each commit"),
    _own("commit.trailer", _TRAILER, "Assisted-by", "the trailer that names the model"),
    _own(
        "edit.scope",
        one_of("files", "neighbors", "repo"),
        "files",
        "what an edit may change besides the named files",
    ),
    Option("edit.format", one_of("auto", *_FORMATS), "auto", "how a model writes a change"),
    _own("edit.sensitive", _TEXTS, (), "more files whose changes you must confirm, in .gitignore syntax"),
    _own("edit.parse_check", _SWITCH, True, "refuse a change that adds syntax errors"),
    _limit("edit.inline_limit", whole(), 64 * 1024, "size in bytes up to which a file is shown in full"),
    Option("context", _TEXTS, (), "more files to show in each prompt"),
    _limit("context_limit", whole(), 8_000, "maximum tokens of context files and AGENTS.md in a prompt"),
    Option("history.commits", whole(), 3, "number of a file's recent commits to show in a prompt"),
    _own("history.background", _SWITCH, True, "build the history index in the background"),
    *(
        Option(
            f"review.rules.{rule}",
            one_of("off", "note", "warning", "error"),
            level,
            f"level of {rule} findings; off: not reported",
        )
        for rule, level in _RULES.items()
    ),
    Option(
        "review.fail_on",
        one_of("note", "warning", "error", "never"),
        "error",
        "the lowest finding level that makes `repoagent review` exit with 1",
    ),
    _own(
        "review.model", _MODEL_OR_NONE, None, "the model for reviews; none: only the rules that need no model"
    ),
    _limit("review.context_limit", _COUNT, 24_000, "maximum tokens of a change to send per model call"),
    _limit("review.max_calls", _COUNT, 20, "maximum model calls per review"),
    _limit("review.max_seconds", _NUMBER, 300.0, "maximum seconds for model calls per review"),
    Option(
        "run.mode",
        one_of("ask", "auto-edit", "auto", "read-only"),
        "ask",
        "what a run may do without asking",
        only_like=re.compile("read-only"),
        only_what="read-only",
    ),
    _limit("run.max_turns", _COUNT, 100, "maximum model calls per run"),
    _limit("run.max_time", _NUMBER_OR_NONE, None, "maximum seconds per run"),
    _own("run.timeout", _NUMBER, 120.0, "seconds before a command is stopped, unless the model sets a limit"),
    _own("run.allow", _TEXTS, (), "patterns of commands to run without asking"),
    _own("run.deny", _TEXTS, (), "patterns of commands never to run"),
    _own("run.network", _SWITCH, False, "let commands in the sandbox use the network"),
    _own("run.browse", _SWITCH, False, "let a run fetch public web pages, after asking about each host"),
    _own("run.write", _TEXTS, (), "more folders that commands in the sandbox may write to"),
    _own("run.memory", _COUNT_OR_NONE, None, "maximum bytes of memory for a command and its children"),
    _own("run.processes", _COUNT_OR_NONE, 512, "maximum number of processes for a command"),
    _own("run.before_turn", _COMMAND, None, "a command to run before each turn; the model gets its output"),
    _own("run.after_edit", _COMMAND, None, "a command to run after each edit; the model gets its output"),
    _own("run.before_finish", _COMMAND, None, "a command that must succeed before a run is done"),
    _own("run.tools", _TEXTS, (), "programs that a run may use as tools"),
    _own("run.skills", _TEXTS, (), "more folders with skills"),
    Option("memory.enabled", _SWITCH, True, "record each edit in the memory of its files", only_unset=True),
    Option("memory.limit", whole(), 256 * 1024, "maximum bytes of a file's conversation; 0: no limit"),
    _own("conversations.keep_days", or_none(whole()), None, "days to keep exchanges in full; none: forever"),
    _own("sent.keep_days", whole(), 30, "days to keep the exact text of each request"),
    _own("color", one_of("auto", "always", "never"), "auto", "whether to color the output"),
    _own("alias.*", _MODEL, None, "another name for a model"),
    _own("providers.*.base_url", text("a URL", r"https?://\S+"), None, "the base URL of a provider"),
    _own("providers.*.api_key_env", _VARIABLE, None, "the environment variable with a provider's API key"),
    _own("providers.*.traits", _TEXTS, (), "how the server's API differs from OpenAI's"),
    _own("models.*.input", _NUMBER, None, "US dollars per million input tokens of a model"),
    _own("models.*.output", _NUMBER, None, "US dollars per million output tokens of a model"),
    _own("models.*.cache_read", _NUMBER, None, "US dollars per million tokens read from the prompt cache"),
    _own("models.*.cache_write", _NUMBER, None, "US dollars per million tokens written to the prompt cache"),
    _own("models.*.context", _COUNT, None, "a model's context window, in tokens"),
    _own("models.*.max_output", _COUNT, None, "maximum number of tokens in one reply"),
    _own("models.*.media", _TEXTS, (), "input types that a model accepts besides text: image, pdf"),
    _own(
        "models.*.protocol", one_of("tags", "tools"), None, "the protocol for a model when `protocol` is auto"
    ),
    _own("models.*.format", one_of(*_FORMATS), None, "a model's output format when `edit.format` is auto"),
)


def fold_key(part: str) -> str:
    """A key, or a part of one, in lower case and without dashes and underscores."""
    return part.replace("-", "").replace("_", "").lower()


def find_option(key: str) -> tuple[str, Option] | None:
    """The spelling of `key` in the table, and its option; None if the key is unknown.

    As in git, case, `_` and `-` do not matter, except in a name that the user chooses.
    """
    folded = fold_key(key)
    for option in OPTIONS:
        head, star, tail = option.key.partition("*")
        if not star and folded == fold_key(option.key):
            return option.key, option
        if star and folded.startswith(fold_key(head)) and folded.endswith(fold_key(tail)):
            _, *middle = key.split(".")
            name = ".".join(middle[: len(middle) - tail.count(".")])
            if name:
                return f"{head}{name}{tail}", option
    return None


def find_or_refuse(key: str) -> tuple[str, Option]:
    """Like `find_option`, but raises UsageError, with the nearest key, for an unknown key."""
    from difflib import get_close_matches

    if (match := find_option(key)) is None:
        keys = {fold_key(option.key): option.key for option in OPTIONS}
        near = get_close_matches(fold_key(key), list(keys), n=1)
        raise UsageError(f"unknown option {key}" + (f"; did you mean {keys[near[0]]}?" if near else ""))
    return match
