"""Apply all patches to one file: return the outcome, or report every problem."""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from repoagent.git.files import REGULAR, Content, FileChange
from repoagent.patch import model, splice
from repoagent.patch.locate.choose import place_hunks
from repoagent.patch.locate.exact import EXACT, Match, Placement, is_blank
from repoagent.patch.model import FileText, Hunk, HunkLine
from repoagent.patch.parse.markers import is_bare_fence
from repoagent.patch.refusal import PLACING, PatchError, PatchErrors
from repoagent.patch.targets import ParsesWorse, PatchFiles, PatchOutcome, PatchTarget

_CONFLICT = re.compile(r"(?:<{7}|>{7})(?: |\r?$)|={7}\r?$")
_MARK = "\ufeff"  # byte-order mark
# Characters that a tool copies from a file but no model writes. Surrogates are bytes that are not UTF-8.
_NOT_UTF8 = re.compile("[\udc80-\udcff]")
_BYTES_OF_TOOLS = re.compile(f"[\0\r{_MARK}\udc80-\udcff]")
_NOT_ASCII = re.compile("[\r\x80-\uffff]")
_BOMS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_MOVES = {"rename": "renamed", "copy": "copied"}


class DuplicateHunks(PatchError):
    """Two identical hunks are meant for two locations, but the file has only one such location."""


def apply_targets(
    group: Sequence[PatchTarget], files: PatchFiles, before: Content | None = None
) -> PatchOutcome:
    """Apply all patches to one file, each to the same content: `before`, or by default that of the source.

    Raises PatchError or PatchErrors if they cannot be applied.
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
        return _new_file(group, files)
    old = before or files.sources[first.source]
    data = old.data
    hunks, blocks = _distinct_hunks(group)
    if first.path is None:
        if any(hunk.added for hunk in hunks):
            raise PatchError(
                "malformed", "the diff both deletes the file and adds lines to it. Send one or the other."
            )
        text = model.decode_text(data)
        quoted: Sequence[Hunk] = [hunk for hunk in hunks if hunk.old]
        if text is None and quoted:
            raise PatchError(
                "binary", "this file is binary or in an unknown encoding; its lines cannot be compared."
            )
        needed: set[str] = set()
        if text is not None:  # the file must contain the lines: otherwise the diff is for another file
            text, quoted = _in_same_form(text, quoted, data, group, files)
            for match in place_hunks(quoted, text, strict=files.strict):
                needed |= match.hunk.tolerances | ({match.level} & PLACING.keys())
        deleted = sum(len(hunk.deleted) for hunk in hunks)
        if files.strict and first.patch.form == "diff" and (text is None or deleted != len(text.lines)):
            raise PatchError(
                "strict", "not tolerated in strict mode: the diff does not delete every line of the file."
            )
        change = FileChange(first.source, None, old, None)
        return PatchOutcome(change, (Placement(first.source, 0, 1, "deleted", tuple(sorted(needed))),))
    after, placements = _new_content(group, hunks, blocks, data, files)
    if after != data:
        whole = any(target.patch.whole is not None for target in group)
        check_result(first.path, data, after, files.parses_worse, may_empty=files.strict and not whole)
    mode = next((target.patch.mode for target in reversed(group) if target.patch.mode), old.mode)
    new = Content(after, mode)
    if first.patch.action == "copy":
        return PatchOutcome(FileChange.at(first.path, None, new), placements)
    return PatchOutcome(FileChange(first.source, first.path, old, new), placements)


def _distinct_hunks(group: Sequence[PatchTarget]) -> tuple[list[Hunk], list[set[int]]]:
    """The distinct hunks, numbered from 1, with the tolerances of parsing; and for each the blocks with it. A hunk
    without a header counts again in the same block, or in blocks with only the file name between them: it may be for
    another location."""
    tolerances: dict[tuple[Hunk, int], frozenset[str]] = {}
    blocks: dict[tuple[Hunk, int], set[int]] = {}
    repetitions: Counter[tuple[Hunk, int]] = Counter()
    last = run = -1  # the last block, and the first one of its run
    for target in group:
        block = target.patch.block
        if block != last and (block != last + 1 or target.patch.prose.strip() not in {"", target.patch.name}):
            run = block
        last = block
        for hunk in target.patch.hunks:
            plain = replace(hunk, number=1, tolerances=frozenset())
            key = plain, repetitions[plain, run] if plain == Hunk(plain.lines) else 0
            repetitions[plain, run] += 1
            earlier = tolerances.get(key, frozenset())
            tolerances[key] = earlier | hunk.tolerances | target.patch.tolerances
            blocks.setdefault(key, set()).add(block)
    hunks = [
        replace(hunk, number=number, tolerances=needed)
        for number, ((hunk, _), needed) in enumerate(tolerances.items(), 1)
    ]
    return hunks, list(blocks.values())


def _new_content(
    group: Sequence[PatchTarget],
    hunks: Sequence[Hunk],
    blocks: Sequence[set[int]],
    data: bytes,
    files: PatchFiles,
) -> tuple[bytes, tuple[Placement, ...]]:
    """The new bytes of a known file, and where its hunks were placed."""
    first = group[0]
    move = _MOVES.get(first.patch.action)
    placements: tuple[Placement, ...] = (Placement(first.name, 0, 1, move),) if move else ()
    wholes = [(target.patch.rows, target.patch.whole) for target in group if target.patch.whole is not None]
    if not hunks and not wholes:
        if not move and not any(target.patch.mode for target in group):
            raise PatchError(
                "cut-off", "the diff names this file but does not change it. Send the complete diff."
            )
        return data, placements or (Placement(first.name, 0, 1, "mode"),)
    text = model.decode_text(data)
    if text is None:
        raise PatchError(
            "binary", "this file is binary or in an unknown encoding; it cannot be edited as text."
        )
    text, hunks = _in_same_form(text, hunks, data, group, files)
    final_newline = None
    if wholes:
        contents = [(rows, model.in_encoding_of(text, whole)) for rows, whole in wholes]
        for target in group:
            if target.patch.whole is not None and "header" in target.patch.tolerances:
                splice.check_claimed_whole(target.patch.whole, text)
        if hunks or (len(set(contents)) > 1 and any(rows is None for rows, _ in contents)):
            raise PatchError("overlap", "the answer contains several versions of this file. Send only one.")
        contents = list(dict.fromkeys(contents))
        parts = splice.merged(
            part for rows, whole in contents for part in splice.whole_splices(whole, text, rows)
        )
        last = parts[-1] if parts else None
        # If the text ends right before a fence line of the file, that line closed the fence early.
        cut = last is not None and not last.lines and last.end == len(text.lines)
        if last is not None and cut and is_bare_fence(text.lines[last.start]):
            raise PatchError(
                "cut-off",
                f"the fence ends at line {last.start + 1}, where the file itself has a fence, so the rest may be "
                "missing. Use four backticks for the outer fence, or send a diff.",
            )
        for rows, _ in contents:
            level = "whole-file" if rows is None else "whole-part"
            placements += (Placement(first.name, 0, rows[0] + 1 if rows else 1, level),)
    else:
        distinct: dict[object, Match] = {}  # without a repetition that has no location of its own
        for match in place_hunks(hunks, text, strict=files.strict):
            plain = replace(match.hunk, number=1, tolerances=frozenset())
            distinct.setdefault((plain, match.rows), match)
        matches = list(distinct.values())
        _check_duplicates(hunks, blocks, matches)
        problems: list[PatchError] = []
        parts = []
        for match in matches:
            try:
                parts += splice.splices(match, text, matches)
            except PatchError as problem:
                problems.append(problem)
        if problems:
            raise PatchErrors(problems)
        if len({target.patch.block for target in group}) > 1:
            _check_reverted(matches, parts)
        parts = splice.merged(parts)
        final_newline = splice.end_of_file(matches, text)
        for match in matches:
            needed = match.hunk.tolerances | ({match.level} & PLACING.keys())
            level = match.level
            if level == EXACT:  # the level is the loosest tolerance that it needed
                form = "search-replace" if first.patch.form == "search-replace" else EXACT
                level = next((name for name in PLACING if name in needed), form)
            number, tolerances = match.hunk.number, tuple(sorted(needed))
            placements += (Placement(first.name, number, match.first + 1, level, tolerances),)
    added = [line for part in parts for line in part.lines]
    if not _strict_diffs(group, files):
        _check_no_elision(added, text.lines)
    markers = {line[:7] for line in added if _CONFLICT.match(line)}
    if {"<" * 7, "=" * 7, ">" * 7} <= markers and not any(map(_CONFLICT.match, text.lines)):
        raise PatchError(
            "conflict-markers",
            "the added lines contain merge conflict markers (`<<<<<<<`, `=======`, `>>>>>>>`). Send the resolved "
            "lines.",
        )
    return encoded(splice.spliced(text, parts, final_newline)), placements


def _in_same_form(
    text: FileText, hunks: Sequence[Hunk], data: bytes, group: Sequence[PatchTarget], files: PatchFiles
) -> tuple[FileText, Sequence[Hunk]]:
    """The file and the hunks in a comparable form: raw bytes, as in git, for a diff with bytes that only tools write,
    or `--strict`, if it fits; else text, with the hunks in the file's encoding."""
    lines = [line for hunk in hunks for line in hunk.lines]
    signs = _BYTES_OF_TOOLS
    if text.encoding == "latin-1":
        # If only added lines have letters in UTF-8, a model may have written them, and they are to be converted.
        is_converted = {line.kind for line in lines if not line.text.isascii()} == {model.ADD}
        signs = _NOT_UTF8 if is_converted else _NOT_ASCII
    is_diff = all(target.patch.form == "diff" for target in group)
    if is_diff and (files.strict or any(signs.search(line.raw) for line in lines)):
        raw = model.raw_text(data)
        raw_hunks = [_with_lines(hunk, lambda line: replace(line, text=line.raw, cr=False)) for hunk in hunks]
        with suppress(PatchError, PatchErrors):
            place_hunks(raw_hunks, raw, strict=True)
            return raw, raw_hunks
    if text.bom and any(line.text.startswith(_MARK) for line in lines):
        # A hunk adds or removes the byte-order mark, as a part of the first line.
        text = replace(text, lines=(_MARK + "".join(text.lines[:1]), *text.lines[1:]), bom=b"")
    elif not files.strict:  # a mark that the file does not have
        hunks = [
            _with_lines(hunk, lambda line: replace(line, text=line.text.removeprefix(_MARK)))
            if any(line.text.startswith(_MARK) for line in hunk.old[:1])
            else hunk
            for hunk in hunks
        ]
    if text.encoding == "latin-1":
        hunks = [
            _with_lines(hunk, lambda line: replace(line, text=model.in_encoding_of(text, line.text)))
            for hunk in hunks
        ]
    return text, hunks


def _with_lines(hunk: Hunk, changed: Callable[[HunkLine], HunkLine]) -> Hunk:
    return replace(hunk, lines=tuple(map(changed, hunk.lines)))


def _check_duplicates(hunks: Sequence[Hunk], blocks: Sequence[set[int]], matches: Sequence[Match]) -> None:
    """Raise DuplicateHunks if two equal hunks, whose headers name two locations, are at one; equal headers, or slightly
    different ones in another block, mean one hunk sent twice. Also for the reverse: two hunks of a block that change
    the same lines differently."""
    by_number = {match.hunk.number: match for match in matches}
    equal: dict[tuple[HunkLine, ...], Hunk] = {}
    versions: dict[object, Hunk] = {}
    for hunk, own_blocks in zip(hunks, blocks, strict=True):
        if hunk.start is not None and hunk.exact_counts and hunk.old:
            key = frozenset(own_blocks), hunk.start, tuple(line.text for line in hunk.old)
            version = versions.setdefault(key, hunk)
            if version.lines != hunk.lines:
                text = (
                    f"hunks {version.number} and {hunk.number} change the same lines (line {hunk.start}) "
                    "differently. Send only the correct one, or fix their line numbers."
                )
                raise DuplicateHunks("overlap", text, hunk.number)
        twin = equal.setdefault(hunk.lines, hunk)
        earlier, later = by_number.get(twin.number), by_number.get(hunk.number)
        if twin is hunk or earlier is None or later is None or earlier.claimed() != later.claimed():
            continue
        differences = (None not in (twin.start, hunk.start) and twin.start != hunk.start) + (
            "" not in (twin.section, hunk.section) and twin.section != hunk.section
        )
        if differences > own_blocks.isdisjoint(blocks[twin.number - 1]):
            text = (
                f"hunks {twin.number} and {hunk.number} are identical, and their headers name two locations, but both "
                f"fit the file only at line {later.first + 1}. Send only one of them, or copy the lines of the "
                "other location exactly."
            )
            raise DuplicateHunks("overlap", text, hunk.number)


def _check_reverted(matches: Sequence[Match], parts: Sequence[splice.Splice]) -> None:
    """Raise PatchError if a hunk changes lines that one of another block deletes and adds again: it may revert that
    change."""
    changing: dict[int, list[splice.Splice]] = {}
    for part in parts:
        for row in range(part.start, part.end):
            changing.setdefault(row, []).append(part)
    for match in matches:
        own = match.hunk.number
        for row in (row for row, end in match.claimed() if row < end):
            if other := next((part for part in changing.get(row, ()) if part.hunk != own), None):
                raise splice.overlap(own, other.hunk, other.start)


def encoded(text: FileText) -> bytes:
    """Return the bytes of `text`. Raises PatchError for a character that its encoding lacks."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        char = error.object[error.start]
        raise PatchError(
            "encoding",
            f"the file is encoded in {text.encoding}, which lacks {char!r}. Use only characters that it has.",
        ) from None


def _new_file(group: Sequence[PatchTarget], files: PatchFiles) -> PatchOutcome:
    """Raises PatchError if the content is unclear."""
    first = group[0]
    bodies = {(target.patch.whole, tuple(hunk.lines for hunk in target.patch.hunks)) for target in group}
    if len(bodies) > 1:
        raise PatchError("overlap", "the answer contains several versions of this new file. Send only one.")
    nonblank: list[str] = []
    if first.patch.whole is not None:
        text = FileText(*model.split_lines(first.patch.whole))
    else:
        lines = [line for hunk in first.patch.hunks for line in hunk.lines]
        # Blank lines may lack the `+`, or all lines may lack it.
        wrong = [line for line in lines if line.kind != model.ADD and not (line.bare and is_blank(line.text))]
        if wrong and not all(line.bare for line in lines):
            message = f"every line of a new file must begin with `+`; this one does not: {wrong[0].text!r}."
            raise PatchError("malformed", message, 1)
        endings = ["\n"] * len(lines)
        if lines and first.patch.hunks[-1].new_marker:
            endings[-1] = ""
        text = FileText(tuple(line.raw for line in lines), tuple(endings))
        nonblank = [line for line in text.lines if line.strip()]
    text = replace(text, errors="surrogateescape")  # bytes that are not UTF-8
    # If all lines are indented, and some by one space, then the model wrote a space after each `+`.
    spaced = (
        not files.strict
        and len(nonblank) > 1
        and all(line[0] == " " for line in nonblank)
        and any(line[1] != " " for line in nonblank)
    )
    if spaced:
        text = replace(text, lines=tuple(line.removeprefix(" ") for line in text.lines))
    data = encoded(text)
    if not _strict_diffs(group, files):
        _check_no_elision([line for line in text.lines if any(map(str.isalpha, line))], ())
    check_result(first.name, b"", data, files.parses_worse)
    change = FileChange.at(first.name, None, Content(data, first.patch.mode or REGULAR))
    needed = ("whitespace",) if spaced else ()
    return PatchOutcome(change, (Placement(first.name, 0, 1, "new-file", needed),))


def check_result(
    path: str, before: bytes, after: bytes, parses_worse: ParsesWorse | None, *, may_empty: bool = False
) -> None:
    """Raise PatchError if the new content is empty or parses worse than the old content.

    `may_empty`: the new content may be empty, because the patch deletes every line.
    """
    if not may_empty and not _is_empty(before) and _is_empty(after):
        raise PatchError(
            "empties-file",
            "the change leaves the file empty. To delete the file, send `deleted file mode 100644` and "
            "`+++ /dev/null`.",
        )
    worse = parses_worse(path, before, after) if parses_worse is not None else None
    if worse:
        raise PatchError(
            "parses-worse",
            f"{worse} Check the added lines and send the whole change again. (The "
            "user can skip this check with --no-parse-check.)",
        )


def _is_empty(data: bytes) -> bool:
    bom = next((bom for bom in _BOMS if data.startswith(bom)), b"")
    return not data[len(bom) :].strip(b"\0 \t\r\n\v\f")


def _strict_diffs(group: Sequence[PatchTarget], files: PatchFiles) -> bool:
    return files.strict and all(target.patch.form == "diff" for target in group)


def _check_no_elision(added: Sequence[str], before: Sequence[str]) -> None:
    present = set(before)
    for line in added:
        if line not in present and model.is_explicit_elision(line):
            raise splice.elided(line)
