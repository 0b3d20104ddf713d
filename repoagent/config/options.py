"""What the value of an option may be; each kind reads TOML values and the plain text of git or a variable.

The one table of options: what can be configured, what it may be, and what a repository may say about it.

`.repoagent/config.toml` comes with somebody else's repository. It may not name a command, an address, a key
or a price, may not widen what an edit reaches, and may only lower what an edit can cost.
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
    """`parse` takes what a layer gave (text, or a TOML value) and returns the value, or raises ValueError;
    `allowed` says in words what it takes."""

    allowed: str
    parse: Callable[[object], Value]


def text(allowed: str = "a text", pattern: str = r"(?s).*\S.*") -> OptionType:
    """A text that matches `pattern` as a whole."""
    whole_text = re.compile(pattern)

    def parse(raw: object) -> str:
        if isinstance(raw, str) and whole_text.fullmatch(raw):
            return raw
        raise ValueError

    return OptionType(allowed, parse)


def whole(minimum: int = 0) -> OptionType:
    """A whole number from `minimum` up; k, m and g count as in git."""

    def parse(raw: object) -> int:
        if isinstance(raw, str) and (match := re.fullmatch(r"\s*([0-9]{1,18})([kmgKMG]?)\s*", raw)):
            raw = int(match[1]) * _UNITS[match[2].lower()]
        if isinstance(raw, int) and not isinstance(raw, bool) and raw >= minimum:
            return raw
        raise ValueError

    return OptionType(f"a whole number, {minimum} or more", parse)


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
    """On or off, in git's words for it."""

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
    """A list of texts; in plain text, where there are no lists, one a line."""

    def parse(raw: object) -> tuple[str, ...]:
        items = raw
        if isinstance(raw, str):  # no `splitlines`: what it takes for an end may stand in a line of others
            items = re.split(r"\r?\n", raw.removesuffix("\n")) if raw else ()
        if isinstance(items, (list, tuple)) and all(isinstance(item, str) and item.strip() for item in items):
            return tuple(items)
        raise ValueError

    return OptionType("a list of texts (one a line, outside TOML)", parse)


def or_none(kind: OptionType) -> OptionType:
    """`kind`, or the word none, which takes back what a lower layer says."""

    def parse(raw: object) -> Value:
        return None if isinstance(raw, str) and raw.lower() == "none" else kind.parse(raw)

    return OptionType(f"{kind.allowed}, or none", parse)


DEFAULT_MODEL = "anthropic/claude-sonnet-5-5"


class Option(NamedTuple):
    """One thing that can be configured.

    `key` is dotted; a `*` in it stands for a name of the user's choice. What `.repoagent/config.toml` says
    about it is ignored unless `repository_may_set`; with `only_lower` it counts there only below what is set
    already, with `only_like` only when the pattern matches all of it: it may be `only_what`, with `only_unset` only
    where the user's own configuration says nothing. A `secret` value is never printed.
    """

    key: str
    kind: OptionType
    default: Value
    doc: str
    repository_may_set: bool = True
    only_lower: bool = False
    only_like: re.Pattern[str] | None = None
    only_what: str = "a name, no command or file"
    only_unset: bool = False
    secret: bool = False

    @property
    def is_family(self) -> bool:
        """Whether the key holds a name of the user's choice."""
        return "*" in self.key


_limit = partial(Option, only_lower=True)
_own = partial(Option, repository_may_set=False)
_MODEL = text("PROVIDER/NAME, local/PATH.gguf, command:CMD, manual or replay:FILE")
_TRAILER = text("the name of a trailer: letters, digits and dashes", r"[A-Za-z][A-Za-z0-9-]*")
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
# A provider's model is a mere name; `command:` runs a program, `local/` and `replay:` open files.
_REMOTE = re.compile(r"(?!local/)[a-z][a-z0-9_-]*/\S+|manual")

OPTIONS: tuple[Option, ...] = (
    Option("model", _MODEL, DEFAULT_MODEL, "the model that is asked", only_like=_REMOTE, only_unset=True),
    _own(
        "fallback",
        texts(),
        (),
        "models to go on with, in this order, when one is overloaded or can't be reached",
    ),
    _own(
        "summary.model",
        or_none(_MODEL),
        None,
        "the model that writes summaries; none: the model that is asked",
    ),
    _own(
        "summary.share",
        switch(),
        False,
        "whether summaries of commits are taken from git notes, and added there",
    ),
    _own("effort", or_none(_EFFORT), None, "how much a model thinks, where it can be told"),
    _own("temperature", or_none(number()), None, "how freely a model words its reply, where it can be told"),
    _own("stop", texts(), (), "texts at which a reply ends, where a provider has such a thing"),
    _own("cache", one_of("5m", "1h", "off"), "5m", "how long a provider keeps the beginning of a prompt"),
    _own(
        "protocol",
        one_of("auto", "tags", "tools"),
        "auto",
        "how a model is offered look-ups and commands: as tags in its text, or as native tools",
    ),
    _limit("max_turns", whole(1), 10, "how many times a model may be asked for one edit"),
    _limit("max_tokens", _COUNT, None, "how many tokens one edit may use, in and out together"),
    _limit("max_cost", _DOLLARS, None, "how many US dollars one edit may cost"),
    _limit("max_cost_per_day", _DOLLARS, None, "how many US dollars all edits of a day may cost together"),
    _limit("max_output_tokens", _COUNT, None, "how long one reply may be, in tokens"),
    _limit("timeout", number(), 600.0, "for how many seconds a silent model is waited for"),
    _own("check", _COMMAND, None, "a command that has to succeed before an edit is committed"),
    _own(
        "check.timeout",
        or_none(number()),
        1800.0,
        "after how many seconds a check is ended, which fails it; none: never",
    ),
    _own(
        "check.unconfined",
        switch(),
        False,
        "whether a check of an unseen change runs outside of the sandbox; see `repoagent help docs/security.md`",
    ),
    Option("commit.trailers", switch(), True, "whether a commit says which model helped, and in which edit"),
    _own("commit.trailer", _TRAILER, "Assisted-by", "the trailer that names the model"),
    _own(
        "edit.scope",
        _SCOPE,
        "files",
        "what may change: the named files, their neighbors too, or the repository",
    ),
    Option(
        "edit.format",
        one_of("auto", *_FORMS),
        "auto",
        "what a model is asked for: a diff, search/replace blocks, whole files or whole functions",
    ),
    _own(
        "edit.sensitive",
        texts(),
        (),
        "further files whose change is asked about apart, as in .gitignore; see `repoagent help docs/security.md`",
    ),
    _own("edit.parse_check", switch(), True, "whether a change is refused after which a file parses worse"),
    _limit(
        "edit.inline_limit",
        whole(),
        64 * 1024,
        "up to how many bytes a file is shown whole; of a larger one its outline and the parts that matter",
    ),
    Option("context", texts(), (), "further files that each prompt shows"),
    _limit(
        "context_limit",
        whole(),
        8_000,
        "how many tokens of such files a prompt shows, with AGENTS.md and its like",
    ),
    Option("history.commits", whole(), 3, "how many recent commits of a file a prompt shows"),
    _own("history.background", switch(), True, "whether the index of the history is built in the background"),
    *(
        Option(
            f"review.rules.{rule}", _LEVEL, level, f"how much a finding of {rule} matters; off: none is made"
        )
        for rule, level in _RULES.items()
    ),
    Option(
        "review.fail_on",
        one_of("note", "warning", "error", "never"),
        "error",
        "from which level on a finding makes `repoagent review` end with exit code 1",
    ),
    _own("review.model", or_none(_MODEL), None, "the model that reviews each change; none: history alone"),
    _limit(
        "review.context_limit",
        whole(1),
        24_000,
        "how many tokens of the change one call of a review shows",
    ),
    _limit("review.max_calls", whole(1), 20, "how many times a model may be asked for one review"),
    _limit("review.max_seconds", number(), 300.0, "for how many seconds a model may be asked for one review"),
    Option(
        "run.mode",
        one_of("ask", "auto-edit", "auto", "read-only"),
        "ask",
        "what a run may do without a question; see `repoagent help docs/approvals.md`",
        only_like=re.compile("read-only"),
        only_what="read-only",
    ),
    _limit("run.max_turns", whole(1), 100, "how many times a model may be asked in one run"),
    _limit("run.max_time", _DOLLARS, None, "how many seconds one run may take"),
    _own(
        "run.timeout",
        number(),
        120.0,
        "after how many seconds a command of a run is ended, unless it says so",
    ),
    _own(
        "run.allow",
        texts(),
        (),
        "commands that run without a question, as patterns; see `repoagent help docs/approvals.md`",
    ),
    _own(
        "run.deny",
        texts(),
        (),
        "commands that never run, as patterns; see `repoagent help docs/approvals.md`",
    ),
    _own("run.network", switch(), False, "whether commands in the sandbox reach the network"),
    _own("run.browse", switch(), False, "whether a run may fetch public pages, each host when you agree"),
    _own("run.write", texts(), (), "further folders that commands in the sandbox may write to"),
    _own(
        "run.memory", or_none(whole(1)), None, "how many bytes of memory a command and its children may take"
    ),
    _own("run.processes", or_none(whole(1)), 512, "how many processes a command may have at once"),
    _own("run.before_turn", _COMMAND, None, "a command before each turn of a run; what it prints is told"),
    _own("run.after_edit", _COMMAND, None, "a command after each edit of a run; what it prints is told"),
    _own("run.before_finish", _COMMAND, None, "a command that has to succeed before a run counts as done"),
    _own("run.tools", texts(), (), "programs that are tools of a run; see `repoagent help docs/plugins.md`"),
    _own("run.skills", texts(), (), "further folders with skills of your own"),
    _own("tool.*", text(), None, "a setting of a plugged-in tool, as tool.NAME.KEY"),
    Option("memory.enabled", switch(), True, "whether an edit is remembered with its file", only_unset=True),
    Option(
        "memory.limit",
        whole(),
        256 * 1024,
        "above how many bytes the oldest exchanges of a file's conversation go to its archive; 0: never",
    ),
    _own(
        "conversations.keep_days",
        or_none(whole()),
        None,
        "for how many days what was said about files is kept, of older exchanges a line each; none: for ever",
    ),
    _own("sent.keep_days", whole(), 30, "for how many days the exact text of each request is kept"),
    _own("color", _WHEN, "auto", "whether output is coloured"),
    _own("alias.*", _MODEL, None, "another name for a model"),
    _own(
        "providers.*.base_url", text("a URL", r"https?://\S+"), None, "where a provider's models are reached"
    ),
    _own("providers.*.api_key_env", _VARIABLE, None, "the environment variable that holds its key"),
    _own("providers.*.api_key_command", text("a shell command"), None, "a command that prints its key"),
    _own(
        "providers.*.traits",
        texts(),
        (),
        "how it differs from the common protocol: see `repoagent help docs/models.md`",
    ),
    _own("models.*.input", number(), None, "US dollars per million input tokens of a model"),
    _own("models.*.output", number(), None, "US dollars per million output tokens of a model"),
    _own("models.*.cache_read", number(), None, "US dollars per million tokens read from the prompt cache"),
    _own("models.*.cache_write", number(), None, "US dollars per million tokens written to the prompt cache"),
    _own("models.*.context", whole(1), None, "how many tokens a model takes in, in and out together"),
    _own("models.*.max_output", whole(1), None, "how many tokens a model can write in one reply"),
    _own("models.*.media", texts(), (), "what a model takes beside text: image, pdf"),
    _own("models.*.protocol", one_of("tags", "tools"), None, "what protocol = auto means for a model"),
    _own("models.*.format", one_of(*_FORMS), None, "what a model is asked for when edit.format is auto"),
)


def find(key: str) -> tuple[str, Option] | None:
    """The option that `key` names and the key's own spelling, or None.

    git's keys know neither underscores nor case, so dashes, underscores and case count only in a name of the
    user's choice: `maxTurns`, `max-turns` and `MAX_TURNS` are `max_turns`.
    """
    parts = key.split(".")
    for option in OPTIONS:
        wanted = option.key.split(".")
        if not option.is_family:
            if _same(parts, wanted):
                return option.key, option
            continue
        head, *tail = wanted[0], *wanted[2:]
        chosen = parts[1 : len(parts) - len(tail)]
        if _same((parts[0], *parts[len(parts) - len(tail) :]), (head, *tail)) and (name := ".".join(chosen)):
            return ".".join((head, name, *tail)), option
    return None


def nearest(key: str) -> str | None:
    """The known key that `key` is probably meant to be, or None when nothing is near."""
    from difflib import get_close_matches

    folded = {fold(option.key): option.key for option in OPTIONS}
    near = get_close_matches(fold(key), list(folded), n=1)
    return folded[near[0]] if near else None


def find_or_refuse(key: str) -> tuple[str, Option]:
    """`find` for a key that a person gave. Raises UsageError, with the nearest key, when it is no option."""
    if (found := find(key)) is None:
        near = nearest(key)
        raise UsageError(f"{key} is no option" + (f"; did you mean {near}?" if near else ""))
    return found


def fold(part: str) -> str:
    """A key, or a part of one, with all that does not count taken away."""
    return part.replace("-", "").replace("_", "").lower()


def _same(these: Iterable[str], those: Iterable[str]) -> bool:
    return [fold(part) for part in these] == [fold(part) for part in those]
