"""Parse an answer: one `FilePatch` for each file of each block.

The prose around patches matters too: it may withdraw or correct earlier patches, or offer a choice. If a hunk can be
read in several ways, the lines of the file decide."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace

from repoagent.patch.errors import PatchError
from repoagent.patch.locate.exact import (
    EXACT,
    TRAILING_SPACE,
    WHITESPACE,
    FileIndex,
    indent_of,
    index_of,
    is_blank,
)
from repoagent.patch.model import ADD, CONTEXT, FilePatch, Hunk, Line, Revision, decode
from repoagent.patch.parse import retractions
from repoagent.patch.parse.blocks import Block, blocks, too_large
from repoagent.patch.parse.fences import CODE, DIFF, ENVELOPE, SEARCH_REPLACE
from repoagent.patch.parse.formats import parse_envelope, parse_search_replace, parse_whole
from repoagent.patch.parse.markers import SEARCH, is_bare_fence, is_bullet, is_mail, starts_diff
from repoagent.patch.parse.unified import parse_diff

_REACH = 4000  # characters below a diff to search
_MOST_PROSE = 12  # lines of prose between two diffs in one fence
_SIGNS = frozenset({" ", "+", "-", "@", "\\", ">", "<", "="})
_TEXT = re.compile(r"(?![ \t]*(?:`{3,}|~{3,})[ \t]*\r?$)[^\s+-]")
_NEXT = re.compile(r"[ \t]*(?:`{3,}|~{3,})[ \t]*[^`~\s]|diff -|--- |@@|<<<<|\*\*\* ")
_LOST = re.compile(
    r"^[ \t>|:│→\d]{0,40}@@(?: -\d{1,9}(?:,\d{1,9})? \+\d{1,9}(?:,\d{1,9})? @@|[ \t]*\r?$)"
    r"|^-[^-\s][^\n]*\n(?:[^\n]*\n){0,40}?\+[^+\s]",
    re.MULTILINE,
)


def parse(
    answer: str, *, loose: bool = False, known: Collection[str] = (), ended: bool = False
) -> list[FilePatch]:
    """All patches of an answer, in order.

    Raises PatchError for a patch that cannot be parsed. A fence without a file name is a whole file only if it is the
    only block of the answer, or if `loose` (see `patch_spans`); its names are None then. `known` are names of files,
    which are recognized in any form. `ended`: the answer is complete, so hunks without counts in an unclosed fence are
    complete.
    """
    parts = blocks(answer, loose=loose, known=known)
    if too_large(answer, parts):
        raise PatchError("too-large", "the answer is too large. Send the change in parts.")
    parts = [part for block in parts for part in _split_at_prose(block)]
    patches: list[FilePatch] = []
    name: str | None = None
    end = 0
    since: list[str] = []  # the prose after the last block with a patch
    for number, block in enumerate(parts):
        prose = answer[end : block.span.start]
        end = block.span.end
        kind = block.span.kind
        if kind == SEARCH_REPLACE:
            parsed = parse_search_replace(block, name, known)
            name = parsed[-1].new if parsed else name
        elif kind == DIFF:
            parsed = _parse_diff_block(block, patches, parts[number - 1] if number else None, ended=ended)
            if not parsed:
                _check_prose("\n".join(block.lines), patches)  # an `@@` line without a hunk
            if number + 1 == len(parts) or parts[number + 1].span != block.span:
                _check_ends_in_hunk(block, parsed, answer[end : end + _REACH].split("\n"))
        elif kind == ENVELOPE:
            parsed = parse_envelope(block.lines, closed=block.closed)
            parsed = _without_false_cut(parsed, block, ended=ended)
        elif kind == CODE and (not block.lines or (len(parts) > 1 and not loose)):
            parsed = []
        else:
            block_name = None if kind == CODE else block.name
            parsed = [
                parse_whole(replace(block, name=block_name or (_name_in_info(block) if loose else None)))
            ]
        since += [prose, block.prose]
        if parsed:
            patches += _with_prose(parsed, block, number, prose, "\n\n".join(since))
            since = []
        _check_prose(prose, patches)
    _check_prose(answer[end:], patches)
    if not patches:
        return patches
    prose = "\n\n".join([*since, answer[end:]])
    if retractions.withdraws_last(prose):
        text = "the text after the last patch withdraws it. Send only the final patch."
        raise PatchError("ambiguous", text)
    last = patches[-1].block
    if last == patches[0].block or not retractions.is_only_last(prose):
        return patches
    return [
        replace(patch, revision=Revision.WITHDRAWS, prose=prose) if patch.block == last else patch
        for patch in patches
    ]


def _split_at_prose(block: Block) -> list[Block]:
    """Split a fence of diffs or SEARCH/REPLACE blocks at prose that revises the patches above it."""
    if not block.fenced or block.span.kind not in {DIFF, SEARCH_REPLACE}:
        return [block]
    lines = block.lines
    if block.span.kind == DIFF:
        starts = [row for row, line in enumerate(lines) if line[:1] in "@-dI" and starts_diff(lines, row)]
    else:
        starts = [row for row, line in enumerate(lines) if SEARCH.match(line)]
    parts: list[Block] = []
    first, prose = 0, "\n".join(lines[: starts[0]]) if starts else ""
    for row in starts[1:]:
        above = row
        while above > max(first, row - _MOST_PROSE) and lines[above - 1][:1] not in _SIGNS:
            above -= 1
        between = "\n".join(lines[above:row])
        if between.strip() and retractions.revision_of(between):
            parts.append(replace(block, lines=lines[first:above], prose=prose, closed=True))
            first, prose = row, between
    return [*parts, replace(block, lines=lines[first:], prose=prose)]


def _check_prose(prose: str, patches: Sequence[FilePatch]) -> None:
    """Raise PatchError for a hunk in text parsed as prose: a part of the change would be lost silently."""
    lost = _LOST.search(prose)
    if lost is not None and any(patch.form == "diff" for patch in patches):
        line = lost[0].strip().splitlines()[0][:80]
        text = f"the hunk at `{line}` is outside of any diff. Send the whole change as one diff."
        raise PatchError("malformed", text)


def _check_ends_in_hunk(block: Block, parsed: Sequence[FilePatch], below: Sequence[str]) -> None:
    """Raise PatchError if the lines `below` a diff show that the fence that ends it is a line of its last hunk."""
    if not block.closed or not parsed or not parsed[-1].hunks or parsed[-1].hunks[-1].exact_counts:
        return
    if not block.fenced:
        if not is_bare_fence(below[0]):
            return
        below = below[1:]
    end = next((row for row, line in enumerate(below) if _NEXT.match(line)), len(below))
    more = end < len(below) and below[end].startswith(("@@", "--- ", "diff "))
    below = below[:end]
    changed = [row for row, line in enumerate(below) if line[:1] in {"+", "-"} and not is_bullet(line)]
    last_fence = max((row for row, line in enumerate(below) if is_bare_fence(line)), default=-1)
    first_text = next((row for row, line in enumerate(below) if _TEXT.match(line)), end)
    if below[:1] and below[0].rstrip("\r"):
        in_hunk = (
            any(row < first_text or row < last_fence for row in changed)
            or 0 < last_fence < first_text
            or (more and first_text == end)
        )
    else:
        in_hunk = parsed[-1].hunks[-1].is_short and any(row < first_text for row in changed)
    if in_hunk:
        text = (
            "a line of backticks or tildes ends the fence in the middle of a hunk. Put a space before each "
            "unchanged line, or open the fence with four backticks."
        )
        raise PatchError("malformed", text)


def _with_prose(
    parsed: Sequence[FilePatch], block: Block, number: int, before: str, since: str
) -> list[FilePatch]:
    """The patches of a block with its number, its tolerances, and the effect of the prose right `before` it and `since`
    the previous patch. The message of a mail or a commit withdraws nothing."""
    if number == 0:
        since = ""
    is_message = any(map(is_mail, since.split("\n")))
    return [
        replace(
            patch,
            block=number,
            unclosed=block.fenced and not block.closed,
            revision=Revision.NEUTRAL if is_message else retractions.revision_of(since),
            prose=since,
            keeps_rest=retractions.keeps_rest(since),
            alternative=retractions.offers_choice(before),
            tolerances=patch.tolerances | block.tolerances,
        )
        for patch in parsed
    ]


def _name_in_info(block: Block) -> str | None:
    """A file name without an extension in the info string of a fence: `bin/wait-for`, or the only word after a
    language."""
    names = [word.strip("\"'`") for word in block.info.split()]
    return next((name for name in names if "/" in name), names[1] if len(names) == 2 else None)


def _parse_diff_block(
    block: Block, earlier: Sequence[FilePatch], before: Block | None, *, ended: bool
) -> list[FilePatch]:
    """The patches of a diff; without headers they get the name of the fence. The last patch is cut if the fence, or the
    end of a bare diff, is open.

    A bare `@@` after prose continues the file of the previous diff in the same fence, or of the previous bare diff.
    """
    patches = [
        replace(patch, new=block.name) if patch.old is None and patch.new is None else patch
        for patch in parse_diff(block.lines)
    ]
    if not patches:
        return []
    last = patches[-1]
    if last.hunks and not block.closed:
        hunk = last.hunks[-1]
        complete = hunk.is_complete if block.fenced else not (hunk.is_short and block.lines[-1].strip())
        patches[-1] = replace(last, cut=not complete)
    elif not last.hunks and not block.closed and last.action == "create":
        patches[-1] = replace(last, cut=True)
    patches = _without_false_cut(patches, block, ended=ended)
    first = patches[0]
    if (
        before is not None
        and before.span.kind == DIFF
        and earlier
        and (before.span == block.span or not (block.fenced or before.fenced))
        and first.old is None
        and first.new is None
        and earlier[-1].action == "edit"
    ):
        patches[0] = replace(first, old=earlier[-1].old, new=earlier[-1].new)
    return patches


def _without_false_cut(patches: list[FilePatch], block: Block, *, ended: bool) -> list[FilePatch]:
    """The patches of a block. The last one is not cut if only the closing fence is missing: the answer `ended`, its
    last hunk has no counts, and the block ends with lines of that hunk."""
    hunk = patches[-1].hunks[-1] if patches and patches[-1].hunks else None
    if hunk is None or hunk.counts is not None or not hunk.changes or not (ended and block.fenced):
        return patches
    last = next((line for line in reversed(block.lines) if line.strip()), "")
    bare = any(line.bare and line.text.strip() for line in hunk.lines)
    if bare or not last.startswith((" ", "+", "-")):
        return patches
    lines = hunk.lines
    while lines[-1].bare:  # below the hunk
        lines = lines[:-1]
    hunks = (*patches[-1].hunks[:-1], replace(hunk, lines=lines))
    return [*patches[:-1], replace(patches[-1], hunks=hunks, cut=False)]


def decide_readings(patch: FilePatch, data: bytes) -> FilePatch:
    """`patch` with one reading of each hunk, decided by the file `data`, and with the line of the heading as context in
    envelope hunks without context. Raises PatchError if two readings fit, or none of several, and for a hunk without
    effect that must have lost its signs."""
    if all(hunk.changes and not hunk.alternatives and not _only_adds(hunk) for hunk in patch.hunks):
        return patch
    text = decode(data)
    if text is None:
        return patch
    index = index_of(text.lines)
    hunks = []
    for hunk in patch.hunks:
        if patch.form == "envelope" and _only_adds(hunk):
            hunk = _below_heading(hunk, index)
        hunk = _decide_reading(hunk, index, patch.form)
        _check_signs(hunk, index)
        hunks.append(hunk)
    return replace(patch, hunks=tuple(hunks))


def _check_signs(hunk: Hunk, index: FileIndex) -> None:
    """Raise PatchError for a hunk without changes if its lines are not in the file: it was misread."""
    if hunk.changes or "marked-context" in hunk.tolerances:
        return
    declared = hunk.counts is not None and hunk.counts[0] != hunk.counts[1]
    texts = [line.text for line in hunk.old if not is_blank(line.text)]
    if declared or not all(index.find([text], WHITESPACE) for text in texts):
        raise PatchError(
            "malformed",
            "no line of this hunk begins with `+` or `-`. Send it with a space, `-` or `+` as the first "
            "character of each line.",
            hunk.number,
        )


def _decide_reading(hunk: Hunk, index: FileIndex, form: str) -> Hunk:
    if not hunk.alternatives:
        return hunk
    others = (replace(alternative, number=hunk.number) for alternative in hunk.alternatives)
    options = list(dict.fromkeys([replace(hunk, alternatives=()), *others]))
    for level in (EXACT, TRAILING_SPACE, WHITESPACE):
        fitting = [option for option in options if index.find([line.text for line in option.old], level)]
        if len(fitting) == 1 or (fitting and form != "search-replace"):
            return fitting[0]
        if fitting:
            break
    if form == "search-replace":
        raise PatchError(
            "malformed",
            "the text of this SEARCH/REPLACE block contains a divider line, so it is unclear where SEARCH ends. "
            "Send the change as a unified diff.",
            hunk.number,
        )
    # If none fits as a whole, choose the option with the most lines, and all deleted lines, in the file; the first
    # option if it has any line there, or if two have equally many.
    present = index.rows(EXACT)
    located = []
    for option in options:
        deleted = (line.text for line in option.deleted if not is_blank(line.text))
        count = sum(line.text in present for line in option.old if not is_blank(line.text))
        located.append(count if all(text in present for text in deleted) else 0)
    first_has_any = any(line.text in present for line in options[0].old if not is_blank(line.text))
    most = max(located)
    return (
        options[0] if first_has_any or not most or located.count(most) > 1 else options[located.index(most)]
    )


def _only_adds(hunk: Hunk) -> bool:
    """Whether the hunk has only a heading and added lines."""
    return bool(hunk.headings) and bool(hunk.lines) and all(line.kind == ADD for line in hunk.lines)


def _below_heading(hunk: Hunk, index: FileIndex) -> Hunk:
    """Place an addition without context right below the line that its heading quotes, if there is one such line and
    nothing shows that the addition belongs further down."""
    rows: list[int] = []  # of the last heading, each below a row of the previous heading
    for depth, heading in enumerate(hunk.headings):
        equal = [row for row, line in enumerate(index.lines) if line.strip() == heading.strip()]
        rows = [row for row in equal if row > rows[0]] if depth and rows else equal
        if not rows or (depth < len(hunk.headings) - 1 and len(rows) > 1):
            return hunk
    if len(rows) != 1:
        return hunk
    row = rows[0]
    below = next((line for line in index.lines[row + 1 :] if not is_blank(line)), "")
    added = next((line.text for line in hunk.lines if not is_blank(line.text)), "")
    if below.lstrip().startswith(('"""', "'''", 'r"""')) or indent_of(below) != indent_of(added):
        return hunk
    return replace(hunk, lines=(Line(CONTEXT, index.lines[row]), *hunk.lines))
