"""What a scripted model knows: the requests to the Messages API, and nothing else.

`Sight` reads the protocol, the user's prompts, the observations and the model's own replies from a request. A rule gets
what it needs from it: `see.lines("a.py")`, `see.ran("make test")`, `see.found("regular expression")`. If that is not in
the prompt, the rule ends with the reply that requests it (`Say`), as a model would; with a refusal if it was refused.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape

from tests.llm.providers.messages_server import Received

Rule = Callable[["Sight"], str]

_QUOTED = re.compile(r'<(\w[\w-]*)([^<>\n]*?)((?: id="[0-9a-f]{6,}")?)>\n(.*?)</\1\3>', re.DOTALL)
_ACTION = re.compile(
    r"^<([a-z_]+)((?: [a-z_]+=\"[^\"\n]*\")*)(?:/>|>(.*?)</\1[^>\n]*>)", re.DOTALL | re.MULTILINE
)
_PATCH = re.compile(r"^```diff\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_DATA = {"commit", "note"}


class Say(Exception):
    """The reply of a model that lacks information."""


@dataclass(frozen=True)
class Done:
    """An action of the model and its result; `seen` is None if it was not performed."""

    kind: str
    args: Mapping[str, str]
    body: str
    seen: str | None = None

    @property
    def applied(self) -> bool:
        return self.kind == "edit" and self.seen is not None and self.seen.startswith("Applied")

    @property
    def exit(self) -> int:
        """The exit code of a command; -1 if it was refused, stopped or is unknown."""
        found = re.match(r"exit (\d+)", self.seen or "")
        return int(found[1]) if found else -1

    @property
    def output(self) -> str:
        return "".join(quoted(self.seen or "", "output"))


@dataclass(frozen=True)
class Shown:
    """Lines of a file in the result of `read`: by number, with the hash of the file."""

    lines: Mapping[int, str]
    blob: str


@dataclass(frozen=True)
class Sight:
    system: str
    messages: tuple[tuple[str, str], ...]
    extra: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, received: Received) -> Sight:
        return cls(received.system, tuple(received.turns))

    @cached_property
    def nonce(self) -> str:
        """The mark of the program's own text in this conversation."""
        found = re.search(r"^<observation-([0-9a-f]{8}) kind=", self._of("user"), re.MULTILINE)
        return found[1] if found else "?"

    @cached_property
    def tags(self) -> frozenset[str]:
        """The actions listed in the prompt."""
        return frozenset(re.findall(r"^- <([a-z_]+)[ >/]", self.system, re.MULTILINE)) | (
            _DATA if "<commit>" in self.system else set()
        )

    @property
    def may_edit(self) -> bool:
        return "```diff" in self.system

    @cached_property
    def words(self) -> str:
        """All prompts of the user, in order."""
        said = [self._observation.sub("", text) for role, text in self.messages if role == "user"]
        return "\n".join(text.strip() for text in said if text.strip())

    @cached_property
    def observations(self) -> tuple[tuple[str, str], ...]:
        """(kind, text) of each observation, in order."""
        return tuple(
            (kind, text) for role, said in self.messages if role == "user" for kind, text in self._seen(said)
        )

    @cached_property
    def done(self) -> tuple[Done, ...]:
        """The visible actions of the model since the last prompt, each with its result."""
        made: list[Done] = []
        for number, (role, text) in enumerate(self.messages):
            if role != "assistant":
                continue
            after = self.messages[number + 1][1] if number + 1 < len(self.messages) else ""
            seen = list(self._seen(after))
            for action in actions(text):
                match = next((one for one in seen if one[0] == action.kind), None)
                if match:
                    seen.remove(match)
                made.append(Done(action.kind, action.args, action.body, match[1] if match else None))
        return tuple(made)

    @cached_property
    def changed_at(self) -> int:
        """The index in `done` after the last edit of the files."""
        return max((n for n, one in enumerate(self.done) if one.applied), default=-1)

    # requests of rules

    def last(self, kind: str, **args: str) -> Done | None:
        found = [
            one
            for one in self.done
            if one.kind == kind and all(one.args.get(key) == value for key, value in args.items())
        ]
        return found[-1] if found else None

    def results(self, kind: str) -> list[str]:
        """The texts of all observations of a kind."""
        return [text for other, text in self.observations if other == kind]

    def shown(self, path: str) -> Shown | None:
        """The visible current content of a file: reads after its last edit."""
        start = 0
        for number, one in enumerate(self.done):
            if one.applied and f"/{path}\n" in one.body:
                start = number + 1
        lines: dict[int, str] = {}
        blob = ""
        for one in self.done[start:]:
            if one.kind != "read" or one.seen is None:
                continue
            for name, args, _, body in _QUOTED.findall(one.seen):
                given = dict(re.findall(r'(\w+)="([^"]*)"', args))
                if name != "file" or given.get("path") != path:
                    continue
                first = int(given.get("lines", "1-").split("-")[0] or 1)
                if given.get("blob") != blob:
                    lines, blob = {}, given.get("blob", "")
                lines.update(enumerate(body.removesuffix("\n").split("\n"), first))
        return Shown(lines, blob) if lines or blob else None

    def lines(self, path: str) -> list[str]:
        """The lines of a file; requests them if they are not in the prompt."""
        found = self.shown(path)
        if found is not None:
            return [found.lines[number] for number in sorted(found.lines)]
        tried = self.last("read", path=path)
        if tried is not None and tried.seen is not None and "there is no file" in tried.seen:
            raise Say(f"<reject>there is no {path}: {tried.seen}</reject>")
        raise Say(f'<read path="{escape(path)}"/>')

    def known(self, path: str) -> Mapping[int, str]:
        """The visible lines of a file, by number."""
        found = self.shown(path)
        return found.lines if found is not None else {}

    def found(self, pattern: str, *, anew: bool = False) -> list[tuple[str, int, str]]:
        """(path, line, text) of the results of a search for `pattern`; with `anew`, again after each change."""
        since = self.changed_at + 1 if anew else 0
        tried = [
            one for one in self.done[since:] if one.kind == "search" and one.args.get("pattern") == pattern
        ]
        if not tried or tried[-1].seen is None:
            raise Say(f'<search pattern="{escape(pattern)}"/>')
        rows = "".join(quoted(tried[-1].seen, "matches")).splitlines()
        split = (re.match(r"(.+?):(\d+):(.*)", row) for row in rows)
        return [(match[1], int(match[2]), match[3]) for match in split if match]

    def ran(self, command: str, *, again: bool = True, **args: str) -> Done:
        """A command with its result; requests it again after each change unless `again` is false."""
        since = self.changed_at + 1 if again else 0
        for one in reversed(self.done[since:]):
            if one.kind == "run" and one.body.strip() == command and one.seen is not None:
                return one
        given = "".join(f' {key}="{value}"' for key, value in args.items())
        raise Say(f"<run{given}>{command}</run>")

    def once(self, kind: str, reply: str, **args: str) -> str:
        """The result of an action, requested with `reply` if it has not been done."""
        tried = self.last(kind, **args)
        if tried is None or tried.seen is None:
            raise Say(reply)
        return tried.seen

    # helpers

    @cached_property
    def _observation(self) -> re.Pattern[str]:
        return re.compile(
            rf'<observation-{self.nonce} kind="([\w-]+)">\n(.*?)\n?</observation-{self.nonce}>', re.DOTALL
        )

    def _seen(self, text: str) -> list[tuple[str, str]]:
        return self._observation.findall(text)

    def _of(self, role: str) -> str:
        return "\n".join(text for who, text in self.messages if who == role)


def quoted(text: str, name: str) -> list[str]:
    """The content of the fences called `name`."""
    return [body for label, _, _, body in _QUOTED.findall(text) if label == name]


def actions(reply: str) -> list[Done]:
    """The actions of a reply by these rules, in order; its patches count as one action."""
    patches = _PATCH.search(reply)
    plain = _PATCH.sub("", reply)
    found = [
        Done(name, dict(re.findall(r'([a-z_]+)="([^"\n]*)"', args)), body)
        for name, args, body in _ACTION.findall(plain)
        if name not in _DATA
    ]
    for one in found:
        one.args.update({key: _plain(value) for key, value in one.args.items()})  # type: ignore[attr-defined]
    ends = [one for one in found if one.kind in {"finish", "reject"}]
    rest = [one for one in found if one not in ends]
    return [*([Done("edit", {}, reply)] if patches else []), *rest, *ends]


def _plain(text: str) -> str:
    for entity, char in (("&quot;", '"'), ("&#x27;", "'"), ("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")):
        text = text.replace(entity, char)
    return text


def patch(path: str, old: Sequence[str], new: Sequence[str]) -> str:
    """A diff from the seen lines to the wanted lines, as a model writes it: with wrong line numbers."""
    rows = list(difflib.unified_diff(list(old), list(new), f"a/{path}", f"b/{path}", n=3, lineterm=""))
    return "\n".join("@@" if row.startswith("@@") else row for row in rows) + "\n"


def created(path: str, text: str) -> str:
    rows = "".join(f"+{line}\n" for line in text.splitlines())
    return f"--- /dev/null\n+++ b/{path}\n@@\n{rows}"


def deleted(path: str, old: Sequence[str]) -> str:
    return f"--- a/{path}\n+++ /dev/null\n@@\n" + "".join(f"-{line}\n" for line in old)


def edit(*patches: str) -> str:
    return "```diff\n" + "".join(patches) + "```\n"


def finish(subject: str, said: str, **args: str) -> str:
    given = "".join(f' {key}="{value}"' for key, value in args.items())
    return f"<commit>\n{subject}\n</commit>\n<finish{given}>{said}</finish>"


def answer(rule: Rule, received: Received) -> str:
    """The reply of a model that follows `rule` within the limits of its prompt."""
    see = Sight.of(received)
    try:
        reply = rule(see)
    except Say as said:
        reply = str(said)
    for one in actions(reply):
        if one.kind == "edit" and not see.may_edit:
            return "I was not told how to change a file here: what shall I do?"
        if one.kind != "edit" and one.kind not in see.tags:
            return f"I know no action {one.kind} here: what shall I do?"
    return reply
