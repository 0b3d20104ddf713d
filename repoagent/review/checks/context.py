"""The input of a check: the change, and for history rules also the history before it.

A check is a generator of findings in a `CheckContext`; `run.CHECKS` lists them. Helpers that several checks share are
at the end.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from repoagent.dataclass import dataclass
from repoagent.review.change import Change, ChangedFile, Lines
from repoagent.review.finding import Evidence, Finding, Level, Location

if TYPE_CHECKING:
    import ast

    from repoagent.git.worktree import WorkTree
    from repoagent.history.cochange.score import View
    from repoagent.review.checks.file_origin import Attributes
    from repoagent.review.checks.statistics import Habits

LARGEST = 2 << 20  # bytes of a text that static checks read
MOST = 200  # files of a change that history checks read
SHOWN = 5  # commits that support a finding


class HistorySource(NamedTuple):
    """The history before a change: the index, or until that exists the last commits of the changed files.

    `view` is None if there is no history; `author` is the id of the change's author; `state` is "whole", "building" or
    "none"; `mined` is the number of commits in the index.
    """

    view: View | None = None
    author: int | None = None
    state: str = "none"
    mined: int = 0
    note: str = ""


@dataclass(frozen=True, eq=False, repr=False)
class CheckContext:
    """What a check reads. `levels` has the enabled rules; `habits` is None until learned.

    `files` are the readable files of the change, for the static checks. A check stops when `remaining` is negative, and
    adds to `unseen` a phrase for each part that it could not check. `findings` are those of earlier checks, `secrets`
    are values that must not be printed.
    """

    worktree: WorkTree
    change: Change
    levels: Mapping[str, Level]
    remaining: Callable[[], float]  # seconds for these checks
    files: tuple[ChangedFile, ...] = ()
    history: HistorySource = HistorySource()
    habits: Habits | None = None
    findings: list[Finding] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)
    secrets: list[str] = field(default_factory=list)

    @property
    def top(self) -> Path:
        return self.worktree.top

    @property
    def view(self) -> View | None:
        """The history before the change; None if there is none."""
        return self.history.view

    def finding(
        self, rule: str, title: str, location: Location, body: str, key: str = "", *, quote: str = "",
        evidence: tuple[Evidence, ...] = (), confidence: float | None = None,
    ) -> Finding:  # fmt: skip
        """A finding of `rule` with its configured level."""
        level = self.levels[rule]
        return Finding(rule, level, title, location, body, key, quote, evidence, confidence=confidence)

    def texts(self, file: ChangedFile) -> tuple[bytes, bytes] | None:
        """The old and the new text, b"" if the file does not exist; None if one is unavailable, binary or too large."""
        old, new = self.change.read_old(file), self.change.read_new(file)
        if (old is None and file.old_blob) or (new is None and file.status != "deleted"):
            return None
        texts = old or b"", new or b""
        return None if any(len(text) > LARGEST or b"\0" in text[:8000] for text in texts) else texts

    @cached_property
    def changed(self) -> frozenset[str]:
        """All paths of the change, before and after."""
        return frozenset(path for file in self.change.files for path in (file.path, file.old_path))

    @cached_property
    def file_ids(self) -> dict[str, int]:
        """The ids of the changed files that have a history, by their new paths; only the first 200 of the change."""
        if self.view is None:
            return {}
        existed = [file for file in self.change.files[:MOST] if file.status != "added"]
        ids = {file.path: self.view.file(os.fsencode(file.old_path)) for file in existed}
        return {path: number for path, number in ids.items() if number is not None}

    @cached_property
    def _modified(self) -> list[str]:
        return [file.path for file in self.change.files if file.status in ("modified", "renamed")][:MOST]

    @cached_property
    def marked(self) -> frozenset[str]:
        """Of the first 200 files that existed before, those that may be generated; and the attribute files that may
        mark them."""
        from repoagent.review.checks.file_origin import attribute_files, marked

        return frozenset(marked(self.top, self.change, [*attribute_files(self._modified), *self._modified]))

    @cached_property
    def attributes(self) -> Attributes:
        """The linguist attributes of the `marked` files."""
        from repoagent.review.checks.file_origin import ATTRIBUTE_FILE, Attributes, attributes

        own = (self.worktree.common_dir / "info" / "attributes").exists()
        searched = self.change.kind in ("staged", "commit", "range") and not own
        # `git check-attr` is slow even if there is nothing to report
        if searched and not any(path.rpartition("/")[2] == ATTRIBUTE_FILE for path in self.marked):
            return Attributes()
        return attributes(self.top, self.change, self._modified)

    def evidence(self, numbers: Sequence[int]) -> tuple[Evidence, ...]:
        """The newest of these commits as evidence, read with one git call."""
        ids = self.view.ids(numbers[:SHOWN]) if self.view else {}
        return evidence_of(self.top, [ids[number] for number in numbers[:SHOWN] if number in ids])


def evidence_of(top: Path, ids: Sequence[str]) -> tuple[Evidence, ...]:
    """The commits as evidence, by their full ids; skips those that no longer exist."""
    from datetime import datetime

    from repoagent.history.render import read_headers

    headers = read_headers(top, ids)
    evidence = []
    for header in (headers[commit] for commit in ids if commit in headers):
        time = datetime.fromisoformat(header.date.replace("Z", "+00:00"))
        evidence.append(Evidence(header.commit, int(time.timestamp()), header.subject))
    return tuple(evidence)


def is_text(file: ChangedFile) -> bool:
    """Whether the file is regular on both sides: not a submodule or a symbolic link."""
    return all(mode in ("", "100644", "100755") for mode in (file.old_mode, file.new_mode))


def parse_python(text: bytes) -> ast.Module | None:
    """The syntax tree; None if this Python cannot parse the text."""
    import ast
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


# Changes of comments only. This reads the texts of the files, so call it only if a rule has a finding.

LARGEST_PROGRAM = 1 << 20  # bytes of a Python text
FEW, LONG = 20, 1000  # corrected lines of prose, and bytes of one
ALIKE = 0.85  # similarity of a corrected line to the old one
PROSE = (".md", ".markdown", ".rst", ".txt", ".adoc")
DIRECTIVES = (b"#!", b"//go:", b"// +build")

_STARRED = re.compile(rb"//|/\*|\*(?=[\s/]|$)")  # but not `*p = 1`
_HASH = re.compile(rb"#")
_DASHES = re.compile(rb"--(?:\s|$)")
_SUFFIXES = {
    _STARRED: (
        "c h cc cpp cxx hh hpp hxx cs css dart go java js jsx kt mjs cjs php proto rs scala scss swift ts tsx zig"
    ),
    _HASH: "bash cfg cmake conf mk pl py pyi r rb sh tcl toml yaml yml",
    _DASHES: "hs lua sql",
}
_MARKS = {suffix: mark for mark, suffixes in _SUFFIXES.items() for suffix in suffixes.split()}


def is_comment(path: str, line: bytes) -> bool:
    """Whether the line is empty or only a comment."""
    stripped = line.strip()
    if not stripped:
        return True
    mark = _MARKS.get(path.rpartition(".")[2].lower())
    if mark is None or stripped.startswith(DIRECTIVES):
        return False
    if mark is _STARRED and b"*/" in stripped:  # the end of a comment, without code after it
        return stripped.endswith(b"*/") and stripped.find(b"/*") <= 0
    return mark.match(stripped) is not None


def only_comments(change: Change, *files: ChangedFile) -> bool:
    """Whether only comments and empty lines changed in these files; in Python also docstrings and layout, in prose also
    corrections of a few lines. False for an added or deleted file and one without changed lines."""
    return bool(files) and all(_only_comments(change, file) for file in files)


def _only_comments(change: Change, file: ChangedFile) -> bool:
    if file.status != "modified" or file.old_mode != file.new_mode:
        return False
    hunks = change.read_lines(file)
    lines = [line for hunk in hunks for line in (*hunk.removed, *hunk.added)]
    if not lines:
        return False
    if all(is_comment(file.path, line) for line in lines):
        return True
    if file.path.lower().endswith(PROSE):
        return len(lines) <= FEW and all(map(_is_correction, hunks))
    if not file.path.endswith((".py", ".pyi")):
        return False
    programs = [_program(text) for text in (change.read_old(file), change.read_new(file))]
    return None not in programs and programs[0] == programs[1]


def _is_correction(hunk: Lines) -> bool:
    """Whether each line changed only slightly, as by the correction of a word."""
    from difflib import SequenceMatcher

    return len(hunk.removed) == len(hunk.added) and all(
        SequenceMatcher(None, old[:LONG], new[:LONG], autojunk=False).ratio() >= ALIKE
        for old, new in zip(hunk.removed, hunk.added, strict=True)
    )


def _program(text: bytes | None) -> str | None:
    """The syntax tree of a Python file as text, without docstrings; None if it cannot be read."""
    import ast

    tree = parse_python(text) if text is not None and len(text) <= LARGEST_PROGRAM else None
    if tree is None:
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            match node.body:
                case [ast.Expr(ast.Constant(str())), *_]:
                    del node.body[0]
    try:
        return ast.dump(tree)
    except RecursionError:
        return None
