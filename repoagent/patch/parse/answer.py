"""Parse an answer: one `FilePatch` for each file of each block.

The prose around patches may withdraw or correct earlier patches, or offer a choice. If a hunk can be read in several
ways, the lines of the file decide.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace

from repoagent.patch.locate.exact import EXACT, TRAILING_SPACE, WHITESPACE, index_of, is_blank
from repoagent.patch.model import FilePatch, Revision, decode_text
from repoagent.patch.parse import diff_formats, markers, retractions
from repoagent.patch.parse.blocks import CODE, DIFF, ENVELOPE, SEARCH_REPLACE, Block, find_blocks, too_large
from repoagent.patch.refusal import PatchError

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


def parse_answer(
    answer: str, *, loose: bool = False, known: Collection[str] = (), ended: bool = False
) -> list[FilePatch]:
    """Return all patches of an answer, in order. Raises PatchError for a patch that cannot be parsed.

    A fence without a file name is a whole file only if it is the only block, or if `loose` (see `patch_spans`); the
    names of its patch are None. If the answer has `ended`, hunks without counts in an unclosed fence are complete.
    """
    parts = find_blocks(answer, loose=loose, known=known)
    if too_large(answer, parts):
        raise PatchError("too-large", "the answer is too large. Send the change in parts.")
    parts = [part for block in parts for part in _split_at_prose(block)]
    patches: list[FilePatch] = []
    name: str | None = None
    end = 0
    since: list[str] = []  # the prose after the last block with a patch
    for number, block in enumerate(parts):
        prose = answer[end : block.start]
        end, kind = block.end, block.kind
        if kind == SEARCH_REPLACE:
            parsed = diff_formats.parse_search_replace(block.lines, block.name or name, known)
            name = parsed[-1].new if parsed else name
        elif kind == DIFF:
            parsed = _parse_diff_block(block, patches, parts[number - 1] if number else None, ended=ended)
            if not parsed:
                _check_prose("\n".join(block.lines), patches)  # an `@@` line without a hunk
            if number + 1 == len(parts) or parts[number + 1].start != block.start:
                _check_ends_in_hunk(block, parsed, answer[end : end + _REACH].split("\n"))
        elif kind == ENVELOPE:
            parsed = diff_formats.parse_envelope(block.lines, closed=block.closed)
            parsed = _without_false_cut(parsed, block, ended=ended)
        elif kind == CODE and (not block.lines or (len(parts) > 1 and not loose)):
            parsed = []
        elif block.unclear_end:
            raise PatchError(
                "cut-off",
                f"a fence without a language closes {block.name or 'the file'}, but may be part of its text, so the "
                "rest may be missing. Use four backticks for the outer fence, or send a diff.",
            )
        else:
            whole_name = None if kind == CODE else block.name
            if (
                loose and not whole_name
            ):  # without an extension: `bin/wait-for`, or the only word after a language
                words = [word.strip("\"'`") for word in (block.fence.info if block.fence else "").split()]
                whole_name = next(
                    (word for word in words if "/" in word), words[1] if len(words) == 2 else None
                )
            whole = "".join(line.removesuffix("\r") + "\n" for line in block.lines)
            parsed = [FilePatch(None, whole_name, "whole-file", whole=whole, cut=not block.closed)]
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
    """Split a fence at prose that revises the patches above it."""
    if block.fence is None or block.kind not in {DIFF, SEARCH_REPLACE}:
        return [block]
    lines = block.lines
    if block.kind == DIFF:
        starts = [
            row for row, line in enumerate(lines) if line[:1] in "@-dI" and markers.starts_diff(lines, row)
        ]
    else:
        starts = [row for row, line in enumerate(lines) if markers.SEARCH.match(line)]
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
    """Raise PatchError if the lines `below` show that the fence that ends a diff is a line of its last hunk."""
    if not block.closed or not parsed or not parsed[-1].hunks or parsed[-1].hunks[-1].exact_counts:
        return
    if block.fence is None:
        if not markers.is_bare_fence(below[0]):
            return
        below = below[1:]
    end = next((row for row, line in enumerate(below) if _NEXT.match(line)), len(below))
    more = end < len(below) and below[end].startswith(("@@", "--- ", "diff "))
    below = below[:end]
    changed = [
        row for row, line in enumerate(below) if line[:1] in {"+", "-"} and not markers.is_bullet(line)
    ]
    last_fence = max((row for row, line in enumerate(below) if markers.is_bare_fence(line)), default=-1)
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
    """The patches of a block with the effect of the prose right `before` it and `since` the previous patch. The message
    of a mail or a commit withdraws and offers nothing."""
    if any(map(markers.is_mail, since.split("\n"))):
        before = since = ""
    if number == 0:
        since = ""
    return [
        replace(
            patch,
            block=number,
            unclosed=block.fence is not None and not block.closed,
            revision=retractions.revision_of(since),
            prose=since,
            alternative=retractions.offers_choice(before),
            tolerances=patch.tolerances | block.tolerances,
        )
        for patch in parsed
    ]


def _parse_diff_block(
    block: Block, earlier: Sequence[FilePatch], before: Block | None, *, ended: bool
) -> list[FilePatch]:
    """The patches of a diff. The last is cut if the fence, or the end of a bare diff, is open. A bare `@@` after prose
    continues the file of the previous diff in the same fence, or of the previous bare diff."""
    patches = [
        replace(patch, new=block.name) if patch.old is None and patch.new is None else patch
        for patch in diff_formats.parse_diff(block.lines)
    ]
    if not patches:
        return []
    last = patches[-1]
    if last.hunks and not block.closed:
        hunk = last.hunks[-1]
        complete = hunk.is_complete if block.fence else not (hunk.is_short and block.lines[-1].strip())
        patches[-1] = replace(last, cut=not complete)
    elif not last.hunks and not block.closed and last.action == "create":
        patches[-1] = replace(last, cut=True)
    patches = _without_false_cut(patches, block, ended=ended)
    first = patches[0]
    if (
        before is not None
        and before.kind == DIFF
        and earlier
        and (before.start == block.start or not (block.fence or before.fence))
        and first.old is None
        and first.new is None
        and earlier[-1].action == "edit"
    ):
        patches[0] = replace(first, old=earlier[-1].old, new=earlier[-1].new)
    return patches


def _without_false_cut(patches: list[FilePatch], block: Block, *, ended: bool) -> list[FilePatch]:
    """The last patch is not cut if only the closing fence is missing: the answer `ended`, and the block ends with lines
    of a last hunk without counts."""
    hunk = patches[-1].hunks[-1] if patches and patches[-1].hunks else None
    if hunk is None or hunk.counts is not None or not hunk.changes or not (ended and block.fence):
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
    """Return `patch` with the reading of each SEARCH/REPLACE block that fits `data`.

    Raises PatchError if two readings fit or none of several does, and for a hunk without `+` and `-`.
    """
    if all(hunk.changes and not hunk.alternatives for hunk in patch.hunks):
        return patch
    text = decode_text(data)
    if text is None:
        return patch
    index = index_of(text.lines)
    hunks = []
    for hunk in patch.hunks:
        for level in (EXACT, TRAILING_SPACE, WHITESPACE) if hunk.alternatives else ():
            options = dict.fromkeys(replace(option, number=hunk.number) for option in hunk.alternatives)
            fitting = [option for option in options if index.find([line.text for line in option.old], level)]
            if fitting:
                break
        if hunk.alternatives and len(fitting) != 1:
            raise PatchError(
                "malformed",
                "the text of this SEARCH/REPLACE block contains a divider line, so it is unclear where SEARCH ends. "
                "Send the change as a unified diff.",
                hunk.number,
            )
        hunk = fitting[0] if hunk.alternatives else hunk
        if not hunk.changes and "marked-context" not in hunk.tolerances:
            declared = hunk.counts is not None and hunk.counts[0] != hunk.counts[1]
            texts = [line.text for line in hunk.old if not is_blank(line.text)]
            if declared or not all(index.find([text], WHITESPACE) for text in texts):  # it was misread
                raise PatchError(
                    "malformed",
                    "no line of this hunk begins with `+` or `-`. Send it with a space, `-` or `+` as the first "
                    "character of each line.",
                    hunk.number,
                )
        hunks.append(hunk)
    return replace(patch, hunks=tuple(hunks))
