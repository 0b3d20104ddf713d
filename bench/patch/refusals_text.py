"""Answers whose text does not fit the file."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from bench.patch.draft import Draft, hunks, shown
from bench.patch.model import CONTEXT, DELETED, Edit, File, Hunk, Line, edited
from bench.patch.refusal import answered, refusal


def _deletions(made: Draft) -> list[tuple[Hunk, Line]]:
    return [
        (hunk, line)
        for hunk in made.hunks
        for line in hunk.lines
        if line.kind == DELETED and len(line.text.strip()) > 8
    ]


def _miswritten(
    name: str, pattern: str, alter: Callable[[Draft, re.Match[str]], str], *, blank: bool = True
) -> None:
    """`blank`: the miswritten line must differ from every line of the file even without white space."""

    @refusal(name)
    def do(made: Draft) -> str | None:
        """One deleted line says something else than the file's does, and no other line of the file is so."""
        part = made.parts[0]
        assert part.change.before is not None
        known = {_bare(line, blank) for line in part.change.before.lines}
        for _, line in _deletions(made):
            found = list(re.finditer(pattern, line.text))
            if not found:
                continue
            match = made.rng.choice(found)
            text = line.text[: match.start()] + alter(made, match) + line.text[match.end() :]
            if _bare(text, blank) not in known:
                line.text = text
                return answered(made)
        return None


def _bare(text: str, blank: bool) -> str:
    return re.sub(r"\s+", "", text) if blank else text.strip()


def _letter(made: Draft, match: re.Match[str]) -> str:
    at = made.rng.randrange(len(match[0]))
    return match[0][:at] + ("x" if match[0][at] != "x" else "y") + match[0][at + 1 :]


_miswritten("deleted: other identifier", r"\b[A-Za-z_]{5,}\b", lambda made, match: f"new_{match[0]}")
_miswritten("deleted: one letter", r"[A-Za-z]{4,}", _letter)
_miswritten("deleted: other number", r"\b\d+\b", lambda made, match: str(int(match[0]) + 1))
_miswritten(
    "deleted: other string",
    r"(?<=[\"'])[A-Za-z][\w ]{2,}(?=[\"'])",
    lambda made, match: match[0][:-1] + ("s" if match[0][-1] != "s" else "d"),
)
_miswritten(
    "deleted: space in a string",
    r"\"[^\"]*\w \w[^\"]*\"",
    lambda made, match: re.sub(r"(\w) (\w)", r"\1\2", match[0], count=1),
    blank=False,
)
_miswritten(
    "deleted: operator",
    r" (==|!=|<=|>=|\+|\*|&&|\|\|) ",
    lambda made, match: " != " if match[1] != "!=" else " == ",
)
_miswritten("deleted: letter case", r"\b[a-z]{5,}\b", lambda made, match: match[0].capitalize())
_miswritten("deleted: a word more", r"(?<=\w) (?=\w)", lambda made, match: " not ")


@refusal("deleted line invented")
def invented(made: Draft) -> str | None:
    """Between deleted lines that are there, one that is not."""
    for hunk, line in _deletions(made):
        hunk.lines.insert(hunk.lines.index(line) + 1, Line(DELETED, "    legacy_cleanup(self.handle)"))
        return answered(made)
    return None


@refusal("context gone")
def context_gone(made: Draft) -> str | None:
    """All context is of another file; nothing is deleted."""
    for hunk in made.hunks:
        if any(line.kind == DELETED for line in hunk.lines):
            return None
        for number, line in enumerate(line for line in hunk.lines if line.kind == CONTEXT):
            line.text = f"    handler_{number}.dispatch(message, timeout={number * 7})"
    return answered(made)


@refusal("deleted lines of another file", files=2)
def other_file(made: Draft) -> str | None:
    """The hunks of one file under the other's name."""
    first, second = made.parts
    one, other = first.change.before, second.change.before
    assert one is not None
    assert other is not None
    known = {shown(line).strip() for line in one.lines}
    gone = [
        line.text
        for hunk in second.hunks
        for line in hunk.lines
        if line.kind == DELETED and line.text.strip()
    ]
    if not gone or any(text.strip() in known for text in gone):
        return None
    first.hunks = second.hunks
    made.parts = [first]
    return answered(made)


@refusal("already applied")
def already(made: Draft) -> str | None:
    return _stale(made, 1.0)


@refusal("partly applied")
def partly(made: Draft) -> str | None:
    return _stale(made, 0.5)


def _stale(made: Draft, share: float) -> str | None:
    """The file has some of the edits already; each replaces text that is nowhere else."""
    change = made.changes[0]
    assert change.before is not None
    edits = [edit for edit in change.edits if _replaces(change.before, edit)]
    if len(edits) < len(change.edits) or (share < 1 and len(edits) < 2):
        return None
    if len(hunks(change, 3)) < len(edits):
        return None
    answer = answered(made)
    done = edits[: max(1, int(len(edits) * share))]
    change.before = replace(change.before, lines=edited(change.before.lines, done))
    left = "\n".join(change.before.lines)
    if any("\n".join(change.before.lines[e.start : e.end]) in left and not e.added for e in done):
        return None
    return answer


def _replaces(file: File, edit: Edit) -> bool:
    """Do lines go of which each stands there once, and lines come that are new?"""
    old = file.lines[edit.start : edit.end]
    return (
        bool(old)
        and any(len(line.strip()) > 8 for line in edit.added)
        and all(
            len(line.strip()) > 8 and sum(line.strip() in other for other in (*file.lines, *edit.added)) == 1
            for line in old
        )
    )


@refusal("stale source")
def stale(made: Draft) -> str | None:
    """A line that the answer deletes has been changed in the file meanwhile."""
    change = made.changes[0]
    assert change.before is not None
    answer = answered(made)
    for edit in change.edits:
        for row in range(edit.start, edit.end):
            line = change.before.lines[row]
            match = re.search(r"[A-Za-z_]{5,}", line)
            if match and sum(line.strip() == other.strip() for other in change.before.lines) == 1:
                lines = list(change.before.lines)
                lines[row] = line[: match.start()] + "renamed_" + line[match.start() :]
                change.before = replace(change.before, lines=tuple(lines))
                return answer
    return None
