"""The gate, which decides on every command, edit and tool call: by a rule, by the mode, or by asking the user."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import cache
from pathlib import Path
from typing import Literal, get_args

from repoagent.agent.approvals.rules import (
    HiddenFiles,
    Rule,
    can_do_no_harm,
    only_reads,
    propose_patterns,
    sets_harmlessly,
)
from repoagent.agent.approvals.shell_parser import read_command
from repoagent.agent.approvals.shell_words import ParsedCommand, SimpleCommand, Word
from repoagent.config.layers import from_user_file
from repoagent.dataclass import dataclass

Mode = Literal["ask", "auto-edit", "auto", "read-only"]
MODES: tuple[Mode, ...] = get_args(Mode)
# What a command may touch: "all" that its sandbox allows; "shown": without hidden files; "read": also read-only.
May = Literal["all", "shown", "read"]


@dataclass(frozen=True)
class ApprovalRequest:
    """An operation that may need approval.

    kind: "command", "python", "edit", "write", "browse", "tool" or "delegate"; "delete" or "sensitive" for something
        that a command has already done.
    what: the operation, as shown to the user.
    patterns: the rules that an "always" answer would add; empty if "always" is not offered.
    why: the reason for asking.
    sandbox: the name of the sandbox; "" for none.
    """

    kind: str
    what: str
    patterns: tuple[str, ...] = ()
    why: str = ""
    sandbox: str = ""


@dataclass(frozen=True)
class Verdict:
    """The decision on a request.

    always: add the request's patterns to the rules of this run.
    keep: add them to the repository's rules, too.
    reason: why the request was refused, for the model.
    by: who or what decided, for the audit log.
    may: what the command may access; "all" only if a rule or an answer of the user allows the command.
    """

    allowed: bool
    always: bool = False
    reason: str = ""
    by: str = ""
    may: May = "all"
    keep: bool = False


Asker = Callable[[ApprovalRequest], Verdict]  # a terminal, a stream of JSON, or a refusal

Audit = Callable[[Mapping[str, object]], None]

_CONFINED = {"command", "python"}
_NOWHERE = {"/dev/null", "/dev/stdout", "/dev/stderr"}
_READS = "reads only"


_NOT_INTERACTIVE = Verdict(
    False, reason="user approval is required, but this run is not interactive", by="nobody"
)


@dataclass
class Gate:
    """Allows or refuses operations.

    asker: asks the user.
    allow, deny: the rules; an "always" answer adds to `allow`.
    added: the patterns that "always" answers added.
    remember: saves the patterns of an "always" answer for later runs in this repository.
    audit: records each decision.
    sandbox: the name of the sandbox for commands; "" for none.
    why_none: a sentence that explains why there is no sandbox.
    hidden: the files of the work tree that models may not see.
    writable: folders outside the work tree that commands may write to.
    protected: paths that commands may not write to.
    path: the PATH of the commands.
    """

    mode: Mode
    asker: Asker = lambda request: _NOT_INTERACTIVE
    allow: tuple[Rule, ...] = ()
    deny: tuple[Rule, ...] = ()
    added: list[str] = field(default_factory=list)
    remember: Callable[[Sequence[str]], None] = lambda patterns: None
    audit: Audit = lambda event: None
    sandbox: str = ""
    why_none: str = ""
    hidden: HiddenFiles = HiddenFiles()
    writable: tuple[Path, ...] = ()
    protected: tuple[Path, ...] = ()
    path: str | None = None

    def decide(self, request: ApprovalRequest) -> Verdict:
        """Decide on a request. Deny rules win in every mode.

        The patterns of an "always" answer are added to `allow`. Exceptions from `asker` and `remember` propagate.
        """
        reading = read_command(request.what) if request.kind == "command" else None
        check = _Check(self, reading)
        verdict = self._denied(request, reading) or self._unasked(request, check) or self._ask(request, check)
        event = {"kind": "decision", "of": request.kind, "what": request.what, "allowed": verdict.allowed}
        event |= {"by": verdict.by, **({"reason": verdict.reason} if verdict.reason else {})}
        self.audit(event)
        return verdict

    def only_reads(self, request: ApprovalRequest) -> bool:
        return _Check(self, read_command(request.what)).passes() == _READS

    def _denied(self, request: ApprovalRequest, reading: ParsedCommand | None) -> Verdict | None:
        for rule in self.deny:
            if rule.names(request.kind, request.what):
                return _no(f"the user's rule `{rule.pattern}` denies it.", f"deny rule {rule.pattern}")
            for command in reading.commands if reading else ():
                if rule.may_deny(command):
                    denies = "denies" if all(word.literal for word in command.words) else "may deny"
                    reason = f"the user's rule `{rule.pattern}` {denies} `{command.raw}`."
                    return _no(reason, f"deny rule {rule.pattern}")
        denies_commands = any(rule.kind == "command" for rule in self.deny)
        if reading and reading.doubt and denies_commands and self.mode == "auto":
            reason = f"cannot tell whether the user's rules deny this command: {reading.doubt}. "
            return _no(reason + "Write it in a simpler form.", "deny rules")
        return None

    def _unasked(self, request: ApprovalRequest, check: _Check) -> Verdict | None:
        """Decide without asking: commands that only read, allow rules, and the mode."""
        kind, mode = request.kind, self.mode
        if check.reading is not None and (by := check.passes()):
            return Verdict(True, by=by, may="read" if self.sandbox and by == _READS else "all")
        if check.reading is None and mode != "read-only":
            for rule in self.allow:
                if rule.names(kind, request.what):
                    return Verdict(True, by=f"rule {rule.pattern}")
        if kind == "delegate":
            return Verdict(True, by="the subagent's own approvals")
        if mode == "read-only":
            if kind == "browse":
                return None
            if check.reading is None:
                return _no("the mode is read-only.", "mode read-only")
            few = "" if self.sandbox else " (without a sandbox, few commands qualify)"
            doubt = check.reading.doubt and f"this command is ambiguous ({check.reading.doubt})"
            why = doubt or check.why_hidden() or f"cannot be sure that this command only reads{few}"
            return _no(f"the mode is read-only: {why}.", "mode read-only")
        if kind in {"edit", "write"} and mode in {"auto", "auto-edit"}:
            return Verdict(True, by=f"mode {mode}")
        if kind not in _CONFINED or mode != "auto":
            return None
        if not self.sandbox:
            why = self.why_none or "no sandbox is available."
            return _no(f"mode auto runs commands only in a sandbox: {why} Use `--mode ask`.", "mode auto")
        if any(map(check.hidden.named_by_git, check.commands)):
            return None
        return Verdict(True, by=f"mode auto, in {self.sandbox}", may="shown")

    def _ask(self, request: ApprovalRequest, check: _Check) -> Verdict:
        if request.kind in _CONFINED:
            request = replace(request, sandbox=self.sandbox)
        if check.reading is not None:
            ambiguous = f"the command is ambiguous: {check.reading.doubt}" if check.reading.doubt else ""
            request = replace(request, patterns=check.patterns(), why=ambiguous or check.why_hidden())
        return self.ask(request)

    def ask(self, request: ApprovalRequest) -> Verdict:
        """Ask the user, and add the patterns of an "always" answer to `allow`."""
        verdict = self.asker(request)
        if not verdict.allowed:
            return replace(verdict, reason=verdict.reason or "the user said no.", by=verdict.by or "person")
        if verdict.always and request.patterns:
            if verdict.keep:
                self.remember(request.patterns)
            self.allow = (*self.allow, *map(Rule, request.patterns))
            self.added += request.patterns
            scope = "always" if verdict.keep else "for this run"
            return replace(verdict, by=verdict.by or f"person, {scope}: {', '.join(request.patterns)}")
        return replace(verdict, always=False, keep=False, by=verdict.by or "person")


class _Check:
    """The checks of the commands of one request. The hidden files are cached, because that searches all folders."""

    def __init__(self, gate: Gate, reading: ParsedCommand | None) -> None:
        self.gate, self.reading = gate, reading
        self.commands = reading.commands if reading else ()
        self.moves = any(command.name == "cd" for command in self.commands)
        self.hidden = replace(gate.hidden, withheld=cache(gate.hidden.withheld))

    def passes(self, further: Sequence[Rule] = ()) -> str:
        """Why all commands pass without asking, also by `further` rules; "" if any does not."""
        if self.reading is None or self.reading.doubt or not self.commands:
            return ""
        if any(command.name == "xargs" for command in self.commands) and self.hidden.withheld():
            return ""  # its files are named by the output of another command
        passed = [self.passes_one(command, further) for command in self.commands if command.role == "runs"]
        return ", ".join(dict.fromkeys(passed)) if all(passed) else ""

    def passes_one(self, command: SimpleCommand, further: Sequence[Rule] = ()) -> str:
        """Why this command passes; "" if it does not."""
        gate = self.gate
        silent = replace(command, writes=tuple(word for word in command.writes if word.text not in _NOWHERE))
        if gate.sandbox:
            reads = only_reads(silent) and not self.hidden.named_by(silent)
        else:
            reads = not self.moves and can_do_no_harm(silent, self.hidden, gate.path)
        if sets_harmlessly(silent) or (reads and not self.hidden.may_be_shown_by(silent)):
            return _READS
        if gate.mode == "read-only" or not all(map(self.may_write, silent.writes)):
            return ""
        if any(word.text.startswith(("/dev/tcp", "/dev/udp")) or not word.literal for word in command.reads):
            return ""
        return next((f"rule {rule.pattern}" for rule in (*gate.allow, *further) if rule.allows(command)), "")

    def why_hidden(self) -> str:
        """The reason if a command that only reads may show a hidden file; else ""."""
        if any(only_reads(command) and self.hidden.may_be_shown_by(command) for command in self.commands):
            return "this command may show a file that is hidden from the model; name other files or commits"
        return ""

    def may_write(self, target: Word) -> bool:
        """Whether a redirection writes to an allowed folder, outside .git and .repoagent."""
        if not target.literal or target.text.startswith("~"):
            return False
        if self.moves and not target.text.startswith("/"):
            return False
        top = self.hidden.top.resolve()
        path = (top / target.text).resolve()
        protected = [keep for keep in map(Path.resolve, self.gate.protected) if not top.is_relative_to(keep)]
        if path.is_relative_to(top) and not any(map(path.is_relative_to, protected)):
            return not {".git", ".repoagent"}.intersection(
                part.lower() for part in path.relative_to(top).parts
            )
        return any(path.is_relative_to(folder.resolve()) for folder in self.gate.writable)

    def patterns(self) -> tuple[str, ...]:
        """The rules that "always" would add for commands that do not pass; none if they would not be enough."""
        rest = tuple(c for c in self.commands if not (c.role == "runs" and self.passes_one(c)))
        patterns = propose_patterns(replace(self.reading, commands=rest)) if self.reading else ()
        return patterns if patterns and self.passes(tuple(map(Rule, patterns))) else ()


def _no(reason: str, by: str) -> Verdict:
    return Verdict(False, reason=reason, by=by)


def user_rules(file: Path, key: str = "run.allow") -> tuple[str, ...]:
    """The rules in the user's configuration `file`, read directly because a value in `git config` would override them.
    Raises UsageError if the file cannot be read or is not TOML."""
    for raw in from_user_file(file):
        if raw.key.replace("-", "_").lower() == key:
            return tuple(map(str, raw.value)) if isinstance(raw.value, list) else (str(raw.value),)
    return ()
