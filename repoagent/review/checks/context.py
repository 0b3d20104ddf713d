"""The input of a static check, which is a generator of findings; `run.CHECKS` lists them. Helpers that several checks
share are at the end."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from repoagent.dataclass import dataclass
from repoagent.review.change import Change, ChangedFile, Lines
from repoagent.review.finding import Finding, Level, Location

if TYPE_CHECKING:
    import ast

    from repoagent.git.worktree import WorkTree

LARGEST = 2 << 20  # bytes of a text that checks read


class CheckOutcome(NamedTuple):  # a dataclass would take 1 ms more of each commit
    """`notes` are sentences about the whole outcome, `unseen` phrases for parts that were not checked. `secrets` are
    values that must not be printed with the code around a finding."""

    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, repr=False)
class CheckContext:
    """What a check reads. `levels` has the enabled rules, `files` the readable files of the change.

    A check stops when `remaining` is negative, and
    adds to `unseen` a phrase for each part that it could not check. `findings` are those of earlier checks, `secrets`
    are values that must not be printed.
    """

    worktree: WorkTree
    change: Change
    levels: Mapping[str, Level]
    remaining: Callable[[], float]  # seconds for these checks
    files: tuple[ChangedFile, ...] = ()
    findings: list[Finding] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)
    secrets: list[str] = field(default_factory=list)

    @property
    def top(self) -> Path:
        return self.worktree.top

    def finding(
        self, rule: str, title: str, location: Location, body: str, key: str = "", *, quote: str = ""
    ) -> Finding:  # fmt: skip
        """A finding of `rule` with its configured level."""
        return Finding(rule, self.levels[rule], title, location, body, key, quote)

    def texts(self, file: ChangedFile) -> tuple[bytes, bytes] | None:
        """The old and the new text, b"" if the file does not exist; None if one is unavailable, binary or too large."""
        old, new = self.change.read_old(file), self.change.read_new(file)
        if (old is None and file.old_blob) or (new is None and file.status != "deleted"):
            return None
        texts = old or b"", new or b""
        return None if any(len(text) > LARGEST or b"\0" in text[:8000] for text in texts) else texts


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
    return bool(files) and all(_has_only_comments(change, file) for file in files)


def _has_only_comments(change: Change, file: ChangedFile) -> bool:
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
