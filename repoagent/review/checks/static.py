"""The static rules over a change, within a bound of time; and `parse-error`, a file that no longer parses."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from repoagent.dataclass import dataclass
from repoagent.review.change import Change, ChangedFile
from repoagent.review.checks.history_context import is_text
from repoagent.review.finding import Finding, Level, Location
from repoagent.review.rules import level_of

if TYPE_CHECKING:
    from repoagent.config.settings import Settings
    from repoagent.git.worktree import WorkTree

SECONDS = 3.0  # of processor time for all rules together: a busy machine changes nothing of the answer
LARGEST = 2 << 20  # bytes of a text that is looked at
_MODULES = {
    "conflict-marker": "repoagent.review.checks.added_lines:find_conflict_markers",
    "parse-error": "repoagent.review.checks.static:find_parse_errors",
    "removed-symbol": "repoagent.review.checks.removed_symbol:find_removed_symbols",
    "debug-leftover": "repoagent.review.checks.added_lines:find_debug_leftovers",
    # last: its rules take a third of a second to load, where a line looks random
    "secret": "repoagent.review.checks.added_lines:find_secrets",
}
_C = (".c", ".h", ".cc", ".cpp", ".cxx", ".hh", ".hpp", ".hxx")
_LINE = re.compile(r"\bline (\d+)")


class StaticAnswer(NamedTuple):
    """`secrets` are the values that must not be printed with the code around a finding."""

    findings: tuple[Finding, ...] = ()
    unseen: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, repr=False)
class StaticContext:
    """What a rule is given. `files` are those of the change with a text; `findings` those of the rules before."""

    top: Path
    change: Change
    levels: Mapping[str, Level]
    files: tuple[ChangedFile, ...]
    deadline: float
    findings: list[Finding] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)
    secrets: list[str] = field(default_factory=list)

    def texts(self, file: ChangedFile) -> tuple[bytes, bytes] | None:
        """The text before and after, b"" for none; None where one is not at hand, binary or too large."""
        old, new = self.change.read_old(file), self.change.read_new(file)
        if (old is None and file.old_blob) or (new is None and file.status != "deleted"):
            return None
        found = old or b"", new or b""
        return None if any(len(text) > LARGEST or b"\0" in text[:8000] for text in found) else found

    def late(self) -> bool:
        return time.process_time() > self.deadline


def static_findings(change: Change, worktree: WorkTree, settings: Settings) -> StaticAnswer:
    """What the static rules that are on say of `change`."""
    levels = {rule: level for rule in _MODULES if (level := level_of(rule, settings))}
    if not levels or not change.files:
        return StaticAnswer()
    ignored = _ignored(change, worktree)
    texts = tuple(file for file in change.files if is_text(file))
    files = tuple(file for file in texts if not ignored(file.path))
    context = StaticContext(worktree.top, change, levels, files, time.process_time() + SECONDS)
    if len(files) < len(texts):
        count = len(texts) - len(files)
        context.unseen.append(f"{count} file{'s' * (count > 1)} listed in .repoagentignore")
    for rule, where in _MODULES.items():
        if rule in levels:
            if context.late():
                context.unseen.append(f"the rule {rule} was not applied: the review took too long")
                continue
            module, _, name = where.partition(":")
            find: Callable[[StaticContext], list[Finding]] = getattr(import_module(module), name)
            context.findings.extend(find(context))
    return StaticAnswer(tuple(context.findings), tuple(context.unseen), tuple(context.secrets))


def _ignored(change: Change, worktree: WorkTree) -> Callable[[str], bool]:
    """Whether `.repoagentignore` names a path; of a change that may be another person's, as the file was before it."""
    from repoagent.edit.guards.scope import IGNORE_FILE
    from repoagent.review.untrusted import is_foreign, tree_of
    from repoagent.storage.atomic import read_regular

    texts = tree_of(change, worktree).texts(IGNORE_FILE) if is_foreign(change) else None
    data = texts[0] if texts else read_regular(worktree.top / IGNORE_FILE, most=LARGEST)
    if not data:
        return lambda path: False
    from repoagent.edit.guards.ignore_file import IgnoreFile

    return IgnoreFile(data).match_file


def find_parse_errors(context: StaticContext) -> list[Finding]:
    """One finding for each file that parsed before the change and does not after it."""
    found = []
    conflicts = {finding.place.path for finding in context.findings}
    for file in context.files:
        if file.status not in ("modified", "renamed") or file.path in conflicts:
            continue
        if context.late():
            context.unseen.append("whether all files still parse: the review took too long")
            break
        if file.path.endswith(_C) and not _may_break_c(context.change, file):
            continue
        texts = context.texts(file)
        broken = no_longer_parses(file.path, *texts) if texts else None
        if texts is None or broken is None:
            continue
        language, detail = broken
        lines = texts[1].split(b"\n")
        number = min(int(match[1]), len(lines)) if (match := _LINE.search(detail)) else 0
        found.append(
            Finding(
                "parse-error", context.levels["parse-error"], f"{file.path} no longer parses as {language}: {detail}",
                Location(file.path, number, number), "The version before this change parsed.", key="parse",
                quote=lines[number - 1].decode("utf-8", "replace") if number else "",
            )
        )  # fmt: skip
    return found


def _may_break_c(change: Change, file: ChangedFile) -> bool:
    from repoagent.syntax.c_errors import may_add_faults

    return any(may_add_faults(b"".join(one.removed), b"".join(one.added)) for one in change.read_lines(file))


@cache
def no_longer_parses(path: str, old: bytes, new: bytes) -> tuple[str, str] | None:
    """The language, and what is wrong on which line, if the text before had no such error; None otherwise."""
    from repoagent.syntax.languages import language_of

    language = language_of(path, new)
    if language is None or not old or (language == "python" and _is_python(new)):
        return None
    if language in ("c", "cpp"):
        # Macros make the grammar useless, so both texts are read as tokens: the definitions around the change alone,
        # each line at its number. A macro may end with its own `;`.
        from repoagent.syntax.c_errors import new_c_faults

        faults = [one for one in new_c_faults(*_around_change(old, new)) if not one.said.startswith("a `;`")]
        return (language, faults[0].said) if faults else None
    from repoagent.syntax.parser import error_count
    from repoagent.syntax.regressions import parses_worse

    said = parses_worse(path, old, new)
    if said is None or error_count(path, old):
        return None
    reason = said.partition(" would no longer parse as ")[2]
    language, _, detail = reason.rstrip(".").partition(": ")
    return language, detail


def _is_python(text: bytes) -> bool:
    import ast
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return False
    return True


def _around_change(old: bytes, new: bytes) -> tuple[bytes, bytes]:
    """Both texts from the last `}` at the start of a line before the change to the first one after it; the lines before
    are empty, so that their numbers hold."""
    before, after = old.split(b"\n"), new.split(b"\n")
    shorter = min(len(before), len(after))
    head = next((n for n in range(shorter) if before[n] != after[n]), shorter)
    tail = next((n for n in range(shorter - head) if before[-1 - n] != after[-1 - n]), shorter - head)
    while head and not before[head - 1].startswith(b"}"):
        head -= 1
    while tail and not before[len(before) - tail - 1].startswith(b"}"):
        tail -= 1

    def part(lines: list[bytes]) -> bytes:
        return b"\n".join([*[b""] * head, *lines[head : len(lines) - tail]])

    return part(before), part(after)
