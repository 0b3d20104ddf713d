"""What the fences of a small model's answer are: a whole file, the part that was shown, or definitions by name.

A large model says which lines it means; a small one just writes code. What it writes is taken for what it can only
be, and what could be two things is not taken. Nothing is decided here about whether the result is good.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from repoagent.edit.small.fitting import Piece, Shown, pieces_of
from repoagent.edit.small.remarks import with_remarks
from repoagent.edit.small.unasked import with_unasked_put_back
from repoagent.patch import FilePatch, PatchRefused, Problem, known_path

_EXAMPLE = re.compile(
    r"\s*(?:(?:#|//)\s*(?:example|usage|sample|test)|print\(|console\.log\(|if __name__ ==)", re.IGNORECASE
)
_SHOWS = re.compile(
    r"\b(?:example|usage|sample|tests?|prints?|log|main|demo|output|show|display|script|call|run)",
    re.IGNORECASE,
)


def understood(
    patches: Sequence[FilePatch],
    files: Mapping[str, Shown],
    request: str,
    may_create: Callable[[str], bool],
    missing: Sequence[str] = (),
) -> list[FilePatch]:
    """The patches, each whole text with the file and the lines that it is for. Diffs and the like stay as they are.

    `missing` are the files that are to be made.

    What is not understood is left out when it names no file and something else is understood; else it stays as it is.
    Raises PatchRefused for what is for a file of which a part was shown, and is not that.
    """
    taken: list[FilePatch] = []
    strange: list[FilePatch] = []
    for patch in patches:
        if patch.whole is None or patch.cut:
            taken.append(patch)
            continue
        path, lines = _path(patch, _lines(patch.whole), files, may_create)
        if path in files:
            lines = _without_example(lines, files[path].lines, request)
        pieces = pieces_of(files[path], lines) if path in files else None
        if pieces is None and path in files and files[path].parts:
            names = " and ".join(name for _, names in files[path].parts for name in names)
            text = f"your answer is not the whole new {names or 'part of it'}."
            raise PatchRefused([Problem(path, 0, "unknown-part", text)])
        if pieces is None and patch.new is None and not files and len(missing) == 1:
            taken.append(replace(patch, new=missing[0]))
        elif pieces is None and patch.new is None:
            strange.append(patch)
        elif path not in files:
            taken.append(replace(patch, new=path or patch.new))
        else:
            file = files[path]
            for piece in pieces or [Piece(None, tuple(lines))]:
                old = file.lines[slice(*piece.rows)] if piece.rows else file.lines
                kept = with_unasked_put_back(path, old, piece.lines, request, file.source)
                text = _joined(with_remarks(path, old, kept, request))
                taken.append(replace(patch, new=path, rows=piece.rows, whole=text))
    return _without_repeats(taken, files) or strange


def _lines(whole: str) -> list[str]:
    """The lines without blank ones at both ends."""
    lines = whole.removeprefix("\ufeff").split("\n")
    while lines and not lines[-1].strip():
        lines.pop()
    while lines and not lines[0].strip():
        del lines[0]
    return lines


def _without_example(lines: list[str], old: Sequence[str], request: str) -> list[str]:
    """Without calls at the end that only show how the code is used, where neither file nor request has such."""
    if _SHOWS.search(request) or any(line == line.lstrip() and _EXAMPLE.match(line) for line in old):
        return lines
    known = {line.strip() for line in old}
    margin = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    for row, line in enumerate(lines[1:], 1):
        at_margin = len(line) - len(line.lstrip()) <= margin
        if (
            at_margin
            and _EXAMPLE.match(line)
            and not any(rest.strip() in known - {""} for rest in lines[row:])
        ):
            return _lines(_joined(lines[:row]))
    return lines


def _joined(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _path(
    patch: FilePatch, lines: list[str], files: Mapping[str, Shown], may_create: Callable[[str], bool]
) -> tuple[str, list[str]]:
    """The file that a fence is for, "" for none, and its lines without one that only names the file."""
    said = (
        re.fullmatch(r"(?:#|//|--|/\*|<!--|;)\s*(?:file(?:name)?:\s*)?(\S+?)\s*(?:\*/|-->)?", lines[0])
        if lines
        else None
    )
    known = known_path([said[1].lstrip("/")], files) if said and "." in said[1] else None
    if known and lines[0] not in files[known].lines[:1]:
        lines = lines[1:]
        if patch.new is None:
            return known, lines
    if patch.new is not None:
        name = patch.new.removeprefix("./")
        if path := known_path([name], files):
            return path, lines
        same = [path for path in files if path.rpartition("/")[2] == name.rpartition("/")[2]]
        if len(same) == 1 and not may_create(name):
            return same[0], lines
        near = list(files) if len(files) == 1 else difflib.get_close_matches(name, files, n=2, cutoff=0.8)
        return (near[0] if len(near) == 1 and not may_create(name) else ""), lines
    fitting = [path for path in files if pieces_of(files[path], lines) is not None]
    return (fitting[0] if len(fitting) == 1 else ""), lines


def _without_repeats(patches: Sequence[FilePatch], files: Mapping[str, Shown]) -> list[FilePatch]:
    """Without a fence that only shows a file as it is, where another one changes it."""

    def same(patch: FilePatch) -> bool:
        shown = files.get(patch.new or "")
        return (
            patch.whole is not None
            and patch.rows is None
            and shown is not None
            and (_lines(patch.whole) == _lines(_joined(shown.lines)))
        )

    return [
        patch
        for patch in patches
        if not (same(patch) and any(other.new == patch.new and not same(other) for other in patches))
    ]
