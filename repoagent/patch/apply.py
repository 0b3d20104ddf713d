"""Apply all patches of one file: its outcome, or every problem."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from repoagent.git.files import FileChange
from repoagent.patch.errors import PLACING, PatchError, PatchErrors
from repoagent.patch.files import Files, Outcome, Target
from repoagent.patch.locate.choose import place_hunks
from repoagent.patch.locate.exact import EXACT, Match, Placement, is_blank
from repoagent.patch.model import ADD, FilePatch, Hunk, Line, Text, as_in, decode, split_lines
from repoagent.patch.parse.markers import is_bare_fence
from repoagent.patch.splice import (
    Splice,
    check_said_whole,
    end_of_file,
    merged,
    overlap,
    spliced,
    splices,
    whole_splices,
)
from repoagent.patch.verify import check_added, check_conflict, check_result


class Twins(PatchError):
    """Two identical hunks for two places, of which the file has only one."""


def apply_targets(group: Sequence[Target], files: Files, before: bytes | None = None) -> Outcome:
    """Apply all patches of one file, each read against the same bytes (`before`, or the source's).

    Raises PatchError or PatchErrors.
    """
    first = group[0]
    if any((target.source, target.path) != (first.source, first.path) for target in group):
        raise PatchError(
            "overlap",
            "the answer changes this file in one part and moves or deletes it in another. Send one change for it.",
        )
    if any(target.patch.binary for target in group):
        raise PatchError("binary", "binary diffs are not supported; only text can be edited.")
    if first.source is None:
        return _new(group, files)
    source = files.sources[first.source]
    data = source.data if before is None else before
    hunks = _numbered(group)
    if first.path is None:
        return _deleted(first.source, hunks, data, source.mode)
    after, placements, parts, ends = _content(first, group, hunks, data, files)
    if after != data:
        whole = any(target.patch.whole is not None for target in group)
        check_result(first.path, data, after, files.parses_worse, may_empty=files.strict and not whole)
    mode = next((target.patch.mode for target in reversed(group) if target.patch.mode), source.mode)
    if first.patch.action == "copy":
        return Outcome(FileChange(None, first.path, None, after, None, mode), placements)
    change = FileChange(first.source, first.path, data, after, source.mode, mode)
    return Outcome(change, placements, parts, ends)


def _numbered(group: Sequence[Target]) -> list[Hunk]:
    """All hunks with what reading them and their patch needed, counted through from 1; a repeated one once."""
    once: dict[Hunk, frozenset[str]] = {}
    for target in group:
        for hunk in target.patch.hunks:
            plain = _plain(hunk)
            once[plain] = once.get(plain, frozenset()) | hunk.tolerances | target.patch.tolerances
    return [
        replace(hunk, number=number, tolerances=tolerances)
        for number, (hunk, tolerances) in enumerate(once.items(), 1)
    ]


def hunk_numbers(group: Sequence[Target]) -> Callable[[Hunk], int]:
    """A function that gives the number under which a problem reports a hunk of the group."""
    known = {_plain(hunk): hunk.number for hunk in _numbered(group)}
    return lambda hunk: known[_plain(hunk)]


def _plain(hunk: Hunk) -> Hunk:
    return replace(hunk, number=1, tolerances=frozenset())


def _content(
    first: Target, group: Sequence[Target], hunks: Sequence[Hunk], data: bytes, files: Files
) -> tuple[bytes, tuple[Placement, ...], tuple[Splice, ...], bool | None]:
    """The new bytes of a known file, and what they are made of (see `Outcome`)."""
    forms = {"renamed": "rename", "copied": "copy"}
    moved = tuple(
        Placement(first.name, 0, 1, level) for level, action in forms.items() if first.patch.action == action
    )
    whole = [(target.patch.rows, target.patch.whole) for target in group if target.patch.whole is not None]
    if not hunks and not whole:
        if not moved and not any(target.patch.mode for target in group):
            raise PatchError(
                "cut-off", "the diff names this file but does not change it. Send it again, complete."
            )
        return data, moved or (Placement(first.name, 0, 1, "mode"),), (), None
    text = decode(data)
    if text is None:
        raise PatchError(
            "binary", "this file is binary or in an unknown encoding; it cannot be edited as text."
        )
    whole = [(rows, as_in(text, lines)) for rows, lines in whole if lines is not None]
    hunks = _as_in(text, hunks)
    if whole:
        for target in group:
            if target.patch.whole is not None and "header" in target.patch.tolerances:
                check_said_whole(target.patch.whole, text)
        if hunks or (len(set(whole)) > 1 and any(rows is None for rows, _ in whole)):
            raise PatchError("overlap", "the answer contains this file in more than one form. Send only one.")
        parts = merged(
            part for rows, lines in dict.fromkeys(whole) for part in whole_splices(lines, text, rows)
        )
        _check_torn(parts, text)
        placements = tuple(_whole_placement(first.name, rows) for rows, _ in dict.fromkeys(whole))
        final_newline = None
    else:
        placed = place_hunks(hunks, text, strict=files.strict)
        _check_twins(group, placed)
        parts = _merged(placed, text, one=len({target.patch.block for target in group}) == 1)
        final_newline = end_of_file(placed, text)
        placements = tuple(_placement(first, match) for match in placed)
    added = [line for part in parts for line in part.lines]
    check_added(added, text.lines)
    check_conflict(added, text.lines)
    after = encoded(spliced(text, parts, final_newline))
    return after, moved + placements, tuple(parts), final_newline


def _check_torn(parts: Sequence[Splice], text: Text) -> None:
    """Raises PatchError where a whole file ends right before a fence line of the file: that has closed its fence."""
    last = parts[-1] if parts else None
    if last is None or last.lines or last.end != len(text.lines) or not is_bare_fence(text.lines[last.start]):
        return
    said = (
        f"the fence ends at line {last.start + 1}, where the file itself has a fence, so the rest may be missing. "
        "Use four backticks for the outer fence, or send a diff."
    )
    raise PatchError("cut-off", said)


def _check_twins(group: Sequence[Target], placed: Sequence[Match]) -> None:
    """Raises Twins where two equal hunks have headers that name two places, and both went to one: the other place is
    not there. It is one hunk sent twice where its header is the same, or differs a little in another block. The reverse
    too: two hunks of a block that change the same lines differently name one place, and went to two."""
    places = {match.hunk.number: match for match in placed}
    blocks: dict[Hunk, set[int]] = {}
    for target in group:
        for hunk in target.patch.hunks:
            blocks.setdefault(_plain(hunk), set()).add(target.patch.block)
    twins: dict[tuple[Line, ...], Hunk] = {}
    versions: dict[object, Hunk] = {}
    for hunk in _numbered(group):
        if hunk.start is not None and hunk.exact_counts and hunk.old:
            shown = frozenset(blocks[_plain(hunk)]), hunk.start, tuple(line.text for line in hunk.old)
            version = versions.setdefault(shown, hunk)
            if version.lines != hunk.lines:
                text = (
                    f"hunks {version.number} and {hunk.number} change the same lines (line {hunk.start}) "
                    "differently. Send only the correct one, or fix their line numbers."
                )
                raise Twins("overlap", text, hunk.number)
        twin = twins.setdefault(hunk.lines, hunk)
        one, other = places.get(twin.number), places.get(hunk.number)
        if twin is hunk or one is None or other is None or one.claimed() != other.claimed():
            continue
        differ = (None not in (twin.start, hunk.start) and twin.start != hunk.start) + (
            "" not in (twin.section, hunk.section) and twin.section != hunk.section
        )
        if differ > blocks[_plain(twin)].isdisjoint(blocks[_plain(hunk)]):
            text = (
                f"hunks {twin.number} and {hunk.number} are identical and their headers name two places, but the "
                f"file has only one, at line {other.first + 1}. Leave one out, or copy the lines of the other place."
            )
            raise Twins("overlap", text, hunk.number)


def _as_in(text: Text, hunks: Sequence[Hunk]) -> Sequence[Hunk]:
    if text.encoding != "latin-1":
        return hunks
    return [
        replace(hunk, lines=tuple(replace(line, text=as_in(text, line.text)) for line in hunk.lines))
        for hunk in hunks
    ]


def _merged(placed: Sequence[Match], text: Text, *, one: bool) -> list[Splice]:
    """The splices of all hunks. What a hunk deletes and adds again is context in `one` diff; in a later one of several
    it may be meant to stay as it is, whatever the others say."""
    problems: list[PatchError] = []
    parts: list[Splice] = []
    for match in placed:
        try:
            parts += splices(match, text, placed)
        except PatchError as problem:
            problems.append(problem)
    if problems:
        raise PatchErrors(problems)
    if not one:
        _refuse_overlaps(placed, parts)
    return merged(parts)


def _refuse_overlaps(placed: Sequence[Match], parts: Sequence[Splice]) -> None:
    """Raise PatchError where a hunk claims lines that another one changes."""
    changing: dict[int, list[int]] = {}
    for at, part in enumerate(parts):
        for row in range(part.start, part.end):
            changing.setdefault(row, []).append(at)
    for match in placed:
        own = match.hunk.number
        rows = [row for row, end in match.claimed() if row < end]
        others = [at for row in rows for at in changing.get(row, ()) if parts[at].hunk != own]
        if others:
            part = parts[min(others)]
            raise overlap(own, part.hunk, part.start)


def _placement(target: Target, match: Match) -> Placement:
    """Where a hunk went. Its level is the loosest thing that placing it needed."""
    needed = match.hunk.tolerances | ({match.level} & PLACING.keys())
    level = match.level
    if level == EXACT:
        form = "search-replace" if target.patch.form == "search-replace" else EXACT
        level = next((name for name in PLACING if name in needed), form)
    return Placement(target.name, match.hunk.number, match.first + 1, level, tuple(sorted(needed)))


def _whole_placement(path: str, rows: tuple[int, int] | None) -> Placement:
    return (
        Placement(path, 0, 1, "whole-file") if rows is None else Placement(path, 0, rows[0] + 1, "whole-part")
    )


def encoded(text: Text) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        char = error.object[error.start]
        raise PatchError(
            "encoding",
            f"the file is encoded in {text.encoding}, which lacks {char!r}. Use characters of that encoding.",
        ) from None


def _new(group: Sequence[Target], files: Files) -> Outcome:
    """A file that is made. Raises PatchError when it isn't clear what it shall hold."""
    first = group[0]
    bodies = {(target.patch.whole, tuple(hunk.lines for hunk in target.patch.hunks)) for target in group}
    if len(bodies) > 1:
        raise PatchError("overlap", "the answer contains several versions of this new file. Send only one.")
    text = replace(_new_text(first.patch), errors="surrogateescape")  # bytes of another encoding than UTF-8
    spaced = not files.strict and first.patch.whole is None and _is_spaced(text.lines)
    if spaced:
        text = replace(text, lines=tuple(line.removeprefix(" ") for line in text.lines))
    data = encoded(text)
    path = first.name
    check_added([line for line in text.lines if any(map(str.isalpha, line))], ())
    check_result(path, b"", data, files.parses_worse)
    change = FileChange(None, path, None, data, None, first.patch.mode or "100644")
    needed = ("whitespace",) if spaced else ()
    return Outcome(change, (Placement(path, 0, 1, "new-file", needed),))


def _is_spaced(lines: Sequence[str]) -> bool:
    """Whether each sign of a new file had a space after it: all its lines are indented, and some by one space."""
    text = [line for line in lines if line.strip()]
    return len(text) > 1 and all(line[0] == " " for line in text) and any(line[1] != " " for line in text)


def _new_text(patch: FilePatch) -> Text:
    """The lines of a new file. A blank line may lack its `+`, and so may all lines together."""
    if patch.whole is not None:
        return Text(*split_lines(patch.whole))
    lines = [line for hunk in patch.hunks for line in hunk.lines]
    wrong = [line for line in lines if line.kind != ADD and not (line.bare and is_blank(line.text))]
    if wrong and not all(line.bare for line in lines):
        text = f"every line of a new file must begin with `+`; this one does not: {wrong[0].text!r}."
        raise PatchError("malformed", text, 1)
    endings = ["\r\n" if line.cr else "\n" for line in lines]
    if lines and patch.hunks[-1].new_marker:
        endings[-1] = ""
    return Text(tuple(line.text for line in lines), tuple(endings))


def _deleted(path: str, hunks: Sequence[Hunk], data: bytes, mode: str) -> Outcome:
    """A file that goes. What the diff quotes of it must be there: otherwise another text was meant."""
    if any(hunk.added for hunk in hunks):
        raise PatchError(
            "malformed", "the diff both deletes the file and adds lines to it. Send one or the other."
        )
    text = decode(data) if hunks else None
    if text is not None:
        place_hunks(_as_in(text, [hunk for hunk in hunks if hunk.old]), text)
    return Outcome(FileChange(path, None, data, None, mode, None), (Placement(path, 0, 1, "deleted"),))
