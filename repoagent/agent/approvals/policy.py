"""The gate that every command, edit and tool call passes: by a rule, by the mode, or by asking the user."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import cache
from pathlib import Path
from typing import Literal, get_args

from repoagent.agent.approvals.read_only_commands import (
    Blobs,
    Known,
    can_do_no_harm,
    git_names,
    may_show,
    names_off_limits,
    only_reads,
)
from repoagent.agent.approvals.rules import Rule, ignores_case, propose, sets_harmlessly
from repoagent.agent.approvals.shell_parser import read_command
from repoagent.agent.approvals.shell_words import Reading, Simple, Word
from repoagent.config.layers import from_user_file
from repoagent.dataclass import dataclass

Mode = Literal["ask", "auto-edit", "auto", "read-only"]
MODES: tuple[Mode, ...] = get_args(Mode)
# What a command may touch: all that its sandbox allows; that without hidden files; the latter, and read-only.
May = Literal["all", "shown", "read"]


@dataclass(frozen=True)
class ApprovalRequest:
    """An operation that may need approval.

    kind: "command", "edit", "write", "browse", "python", "tool" or "delegate"; "delete" or "sensitive" for what a
    command has already done. what: the text for the user: the command, the summary of a diff, the URL. patterns: the
    rules that "always" would add, one per simple command; empty if "always" is not offered. why: the reason for the
    question. sandbox: the name of the sandbox, "" for none. cwd: the folder of a command, relative to the top.
    """

    kind: str
    what: str
    patterns: tuple[str, ...] = ()
    why: str = ""
    sandbox: str = ""
    cwd: str = ""


@dataclass(frozen=True)
class Verdict:
    """The decision. always: add its patterns to the rules of this run; keep: also to those of the repository. reason:
    why it was refused, for the model. by: who or what decided, for the audit. may: what a command may touch; less than
    "all" unless the user allowed it, by an answer or a rule."""

    allowed: bool
    always: bool = False
    reason: str = ""
    by: str = ""
    may: May = "all"
    keep: bool = False


Asker = Callable[[ApprovalRequest], Verdict]  # a terminal, a stream of JSON, or a refusal

Audit = Callable[[Mapping[str, object]], None]

_CHANGES = {"edit", "write"}
_CONFINED = {"command", "python"}
_NOWHERE = {"/dev/null", "/dev/stdout", "/dev/stderr"}
_OURS = {".git", ".repoagent"}
_READS = "reads only"


def _not_interactive(request: ApprovalRequest) -> Verdict:
    return Verdict(False, reason="approval needs a user, and this run is not interactive", by="nobody")


def _nothing(*_: object) -> None:
    pass


@dataclass
class Gate:
    """Allow or refuse operations.

    allow, deny: rules; "always" adds to `allow`. asker: asks the user. remember: saves the patterns of an "always" for
    later runs in this repository. audit: records each decision. sandbox: the name of the sandbox of commands, "" for
    none; why_none: then a sentence with the reason. top, writable: the work tree, and other folders that commands may
    write to; kept: protected paths anywhere. path: the PATH of commands. off_limits: why a path of the work tree is
    hidden from models, None if it is not. withheld: the hidden files, and their names in git. blobs: whether any of
    some git object names is the content of a hidden file.
    """

    mode: Mode
    asker: Asker = _not_interactive
    allow: tuple[Rule, ...] = ()
    deny: tuple[Rule, ...] = ()
    remember: Callable[[Sequence[str]], None] = _nothing
    audit: Audit = _nothing
    sandbox: str = ""
    why_none: str = ""
    top: Path = field(default_factory=Path)
    writable: tuple[Path, ...] = ()
    kept: tuple[Path, ...] = ()
    path: str | None = None
    off_limits: Callable[[str], str | None] = lambda _: None
    withheld: Callable[[], Mapping[str, Known]] = dict
    blobs: Blobs = lambda _: False
    _unseen_now: Callable[[], Mapping[str, Known]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._unseen_now = self.withheld

    def decide(self, request: ApprovalRequest) -> Verdict:
        """Decide. Deny rules win in every mode; the patterns of an "always" are added to `allow`.

        Raises what the asker raises (when the user stops the run), and what `remember` does.
        """
        reading = read_command(request.what) if request.kind == "command" else None
        self._unseen_now = cache(self.withheld)  # once for each decision: it looks at all folders
        verdict = (
            self._denied(request, reading) or self._by_itself(request, reading) or self._ask(request, reading)
        )
        self.audit(
            {
                "kind": "decision",
                "of": request.kind,
                "what": request.what,
                "allowed": verdict.allowed,
                "by": verdict.by,
                **({"reason": verdict.reason} if verdict.reason else {}),
            }
        )
        return verdict

    def only_reads(self, request: ApprovalRequest) -> bool:
        """Whether a command is known to do nothing but read."""
        self._unseen_now = cache(self.withheld)
        return self._passes(read_command(request.what), request.cwd) == _READS

    def _denied(self, request: ApprovalRequest, reading: Reading | None) -> Verdict | None:
        for rule in self.deny:
            if rule.names(request.kind, request.what):
                return _no(f"the user's rule `{rule.pattern}` denies it.", f"deny rule {rule.pattern}")
            for command in reading.commands if reading else ():
                if rule.may_deny(command, any_case=ignores_case(self.path)):
                    sure = all(word.literal for word in command.words)
                    may = "denies" if sure else "may deny"
                    reason = f"the user's rule `{rule.pattern}` {may} `{command.raw}`."
                    return _no(reason, f"deny rule {rule.pattern}")
        denies_commands = any(rule.kind == "command" for rule in self.deny)
        if reading and reading.doubt and denies_commands and self.mode == "auto":
            reason = (
                f"cannot tell whether the user's rules deny it: {reading.doubt}. Write the command in a simpler "
                "form."
            )
            return _no(reason, "deny rules")
        return None

    def _by_itself(self, request: ApprovalRequest, reading: Reading | None) -> Verdict | None:
        """Decide without asking: commands that only read, allow rules, and the mode."""
        if reading is not None and (by := self._passes(reading, request.cwd)):
            return Verdict(True, by=by, may="read" if self.sandbox and by == _READS else "all")
        if self.mode == "read-only":
            return self._when_reading(request, reading)
        if reading is None:
            for rule in self.allow:
                if rule.names(request.kind, request.what):
                    return Verdict(True, by=f"rule {rule.pattern}")
        if request.kind == "delegate":
            return Verdict(True, by="its own approvals")
        if request.kind in _CHANGES and self.mode in {"auto", "auto-edit"}:
            return Verdict(True, by=f"mode {self.mode}")
        if request.kind in _CONFINED and self.mode == "auto":
            if self.sandbox and reading and any(self._git_names(c, request.cwd) for c in reading.commands):
                return None
            if self.sandbox:
                return Verdict(True, by=f"mode auto, in {self.sandbox}", may="shown")
            why = self.why_none or "no sandbox is available."
            return _no(f"mode auto runs commands only in a sandbox: {why} Use `--mode ask`.", "mode auto")
        return None

    def _when_reading(self, request: ApprovalRequest, reading: Reading | None) -> Verdict | None:
        if request.kind == "delegate":
            return Verdict(True, by="its own approvals")
        if request.kind == "browse":
            return None
        if reading is not None:
            where = "" if self.sandbox else " (without a sandbox, only a few are)"
            why = reading.doubt or self._unseen(reading, request.cwd)
            why = why or f"this command is not known to only read{where}"
            return _no(f"the mode is read-only: {why}.", "mode read-only")
        return _no("the mode is read-only.", "mode read-only")

    def _passes(self, reading: Reading, cwd: str) -> str:
        """Why all commands of a text pass without asking; "" if any does not."""
        if reading.doubt or not reading.commands:
            return ""
        if any(command.name == "xargs" for command in reading.commands) and self._unseen_now():
            return ""  # its files are named by the output of another command
        moves = any(command.name == "cd" for command in reading.commands)
        passed: dict[str, None] = {}
        for command in reading.commands:
            if command.role != "runs":
                continue
            by = self._passes_one(command, cwd, moves=moves)
            if not by:
                return ""
            passed[by] = None
        return ", ".join(passed)

    def _passes_one(self, command: Simple, cwd: str, *, moves: bool) -> str:
        silent = replace(command, writes=tuple(word for word in command.writes if word.text not in _NOWHERE))
        if sets_harmlessly(silent):
            return _READS
        if self._only_reads(silent, cwd, moves=moves):
            return _READS
        if self.mode == "read-only":
            return ""
        if not all(self._may_write(word, cwd, moves=moves) for word in silent.writes):
            return ""
        if any(word.text.startswith(("/dev/tcp", "/dev/udp")) or not word.literal for word in command.reads):
            return ""
        return next((f"rule {rule.pattern}" for rule in self.allow if rule.allows(command)), "")

    def _only_reads(self, command: Simple, cwd: str, *, moves: bool) -> bool:
        """Whether the command only reads, and no hidden file."""
        if self.sandbox:
            reads = only_reads(command) and not names_off_limits(command, self.top, cwd, self.off_limits)
        else:
            reads = not moves and can_do_no_harm(command, self.top, cwd, self.path, self.off_limits)
        return reads and not self._may_show(command, cwd)

    def _may_show(self, command: Simple, cwd: str) -> bool:
        unsure = command.name == "git" and any(word.kind == "open" for word in command.words)
        return unsure or self._git_names(command, cwd) or may_show(command, self.top, cwd, self._unseen_now())

    def _git_names(self, command: Simple, cwd: str) -> bool:
        """Whether git would show a file that the sandbox hides on disk but not in the object database."""
        return git_names(command, cwd, self.off_limits, self._unseen_now(), self.blobs)

    def _unseen(self, reading: Reading, cwd: str) -> str:
        """The reason if a command that only reads may show a hidden file; else ""."""
        if any(only_reads(command) and self._may_show(command, cwd) for command in reading.commands):
            return "it may show a file that is hidden from the model; name other files or commits"
        return ""

    def _may_write(self, target: Word, cwd: str, *, moves: bool) -> bool:
        """Whether a redirection writes to an allowed folder, outside .git and .repoagent."""
        if not target.literal or target.text.startswith("~") or (moves and not target.text.startswith("/")):
            return False
        top = self.top.resolve()
        path = (top / cwd / target.text).resolve()
        protected = [keep for keep in map(Path.resolve, self.kept) if not top.is_relative_to(keep)]
        if any(path.is_relative_to(keep) for keep in protected):
            return any(path.is_relative_to(folder.resolve()) for folder in self.writable)
        if path.is_relative_to(top):
            return not _OURS.intersection(part.lower() for part in path.relative_to(top).parts)
        return any(path.is_relative_to(folder.resolve()) for folder in self.writable)

    def _ask(self, request: ApprovalRequest, reading: Reading | None) -> Verdict:
        request = replace(
            request, sandbox=request.sandbox or (self.sandbox if request.kind in _CONFINED else "")
        )
        if reading is not None:
            request = replace(request, patterns=request.patterns or self._patterns(reading, request.cwd))
            request = replace(request, why=request.why or self._why(reading, request.cwd))
        verdict = self.asker(request)
        if not verdict.allowed:
            return replace(verdict, reason=verdict.reason or "the user said no.", by=verdict.by or "person")
        if verdict.always and request.patterns:
            if verdict.keep:
                self.remember(request.patterns)
            self.allow = (*self.allow, *map(Rule, request.patterns))
            how = "always" if verdict.keep else "for this run"
            return replace(verdict, by=verdict.by or f"person, {how}: {', '.join(request.patterns)}")
        return replace(verdict, always=False, keep=False, by=verdict.by or "person")

    def _patterns(self, reading: Reading, cwd: str) -> tuple[str, ...]:
        """The rules that "always" would add for commands that do not pass; none if they would not be enough."""
        moves = any(command.name == "cd" for command in reading.commands)
        rest = tuple(
            c for c in reading.commands if not (c.role == "runs" and self._passes_one(c, cwd, moves=moves))
        )
        patterns = propose(replace(reading, commands=rest))
        widened = replace(self, allow=(*self.allow, *map(Rule, patterns)))
        return patterns if patterns and widened._passes(reading, cwd) else ()

    def _why(self, reading: Reading, cwd: str) -> str:
        if reading.doubt:
            return f"the command is ambiguous: {reading.doubt}"
        return self._unseen(reading, cwd)


def _no(reason: str, by: str) -> Verdict:
    return Verdict(False, reason=reason, by=by)


def kept_rules(file: Path, key: str = "run.allow") -> tuple[str, ...]:
    """The rules in the user's configuration `file`; a list in `git config` would otherwise hide them. Raises UsageError
    if the file cannot be read or is not TOML."""
    for raw in from_user_file(file):
        if raw.key.replace("-", "_").lower() == key:
            return tuple(map(str, raw.value)) if isinstance(raw.value, list) else (str(raw.value),)
    return ()
