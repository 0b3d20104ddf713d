"""What went wrong with a program, in one sentence: its own words, and what to do."""

from __future__ import annotations

import re

from repoagent.errors import ModelError
from repoagent.llm.model import Retryable
from repoagent.llm.providers.command.programs import completed, named, program, without_keys
from repoagent.llm.providers.command.text import Said, plain

_CANT_RUN = 126  # and 127, of every shell: there is no such program
_NOT_FOUND = 127
_SHOWN = 400  # characters of a program's own words
_PASSING = re.compile(
    r"rate.?limit|too many requests|overloaded|temporarily unavailable"
    r"|(?:http|status|code|error)\W{0,3}(?:429|500|502|503|529)\b",
    re.IGNORECASE,
)
# A subscription or an account that has run out: waiting some seconds does not help.
_SPENT = re.compile(r"usage limit|hit your|quota|credit|billing|upgrade|\bresets?\b", re.IGNORECASE)
_LOGIN = re.compile(
    r"log ?in\b|logged (?:in|out)|api.?key|no key found|unauthori[sz]ed|authenticat|\b401\b", re.IGNORECASE
)
_OLD = re.compile(r"(?:unknown|unexpected|unrecogni[sz]ed|no such) (?:option|argument|flag)", re.IGNORECASE)


def failure(command: str, ended_for: str, code: int, said: Said, stderr: str) -> ModelError:
    """The error for a run that gave no reply: `ended_for` is why it was ended, `code` how it ended by itself."""
    name = f"`{named(command)}`"
    if ended_for:
        advice = "raise `timeout` in the configuration" if "finish" in ended_for else "check what it prints"
        return ModelError(f"{name} {ended_for} and was stopped: {advice}")
    words = said.error or ending(plain(stderr)) or (ending(said.text) if code else "")
    words = without_keys(" ".join(words.split()))
    words = words if len(words) <= _SHOWN else f"…{words[-_SHOWN:]}"
    shown = f": {words}" if words else ""
    known = program(command)
    if code in (_CANT_RUN, _NOT_FOUND):
        advice = (
            f"to install it: {known.install}" if known and code == _NOT_FOUND else "check --model command:..."
        )
        return ModelError(f"{name} can't be run{shown}; {advice}")
    if not said.known and not code:
        return ModelError(
            f"{name} printed something that is not in the form that was expected of it: update the program, "
            "or give it `--output-format text`"
        )
    how = "" if said.error else f" with signal {-code}" if code < 0 else f" with exit code {code}"
    what = f"failed{how}" if code or said.error else "printed no reply"
    if _PASSING.search(words) and not _SPENT.search(words):
        return Retryable(f"{name} {what}{shown}", usage=said.usage)
    advice = ""
    if known and known.login and _LOGIN.search(words):
        advice = f"; {known.login}"
    elif _OLD.search(words) and completed(command) != command:
        advice = (
            f"; it was run as `{named(completed(command))}`, which an older version does not know: update it"
        )
    return ModelError(f"{name} {what}{shown}{advice}")


def ending(text: str) -> str:
    """The last whole lines of `text` that say something, a few hundred characters of them."""
    kept: list[str] = []
    for line in reversed(text.splitlines()):
        words = " ".join(line.split())
        if not words:
            continue
        if kept and len(" ".join([words, *kept])) > _SHOWN:
            break
        kept.insert(0, words)
    return " ".join(kept)
