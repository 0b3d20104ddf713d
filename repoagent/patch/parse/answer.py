"""An answer's text -> the patches in it, one `FilePatch` for each file of each block."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace

from repoagent.patch.hunk import FilePatch, Words
from repoagent.patch.parse.bare import is_bullet
from repoagent.patch.parse.blocks import parse_search_replace, parse_whole
from repoagent.patch.parse.diff import parse_diff
from repoagent.patch.parse.envelope import parse_envelope
from repoagent.patch.parse.fences import CODE, DIFF, ENVELOPE, SEARCH_REPLACE, SHELL
from repoagent.patch.parse.heredoc import parse_heredocs
from repoagent.patch.parse.marks import SEARCH, is_bare_fence, is_mail, starts_diff
from repoagent.patch.parse.prose import alternative, completes, last_counts, takes_back_last, words
from repoagent.patch.parse.spans import Block, blocks, too_large
from repoagent.patch.problems import Misfit

_REACH = 4000  # characters below a diff that are looked at
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
    """Everything that an answer asks for, in its order.

    Raises Misfit for a patch that is broken beyond reading. A fence that names no file is taken for a whole
    file only when it is the single block of the answer, or where `loose` (see `patch_spans`); its names are
    then None. `known` are names of files, where they are known: one is read as a name whatever it looks like.
    `ended`: nothing cut the answer off, so hunks without counts in a fence that is never closed are complete.
    """
    found = blocks(answer, loose=loose, known=known)
    if too_large(answer, found):
        raise Misfit("too-large", "the answer is too large to be read. Send the change in parts.")
    found = [part for block in found for part in _parted(block)]
    patches: list[FilePatch] = []
    name: str | None = None
    end = 0
    since: list[str] = []  # what was said after the last block with a patch
    for number, block in enumerate(found):
        prose = answer[end : block.span.start]
        end = block.span.end
        kind = block.span.kind
        if kind == SEARCH_REPLACE:
            some = parse_search_replace(block, name, known)
            name = some[-1].new if some else name
        elif kind == DIFF:
            some = _named(parse_diff(block.lines), block, ended=ended)
            some = _inherited(some, block, patches, found[number - 1] if number else None)
            if not some:
                _check_prose("\n".join(block.lines), patches)  # an `@@` line, and nothing of a hunk after it
        elif kind == ENVELOPE:
            some = _complete(parse_envelope(block.lines, closed=block.closed), block, ended=ended)
        elif kind == SHELL:
            some = parse_heredocs(block.lines, known)
        elif kind == CODE and len(found) > 1 and not loose:
            some = []
        else:
            nameless = replace(block, name=None) if kind == CODE else block
            some = [parse_whole(_with_name(nameless) if loose else nameless)]
        if kind == DIFF and (number + 1 == len(found) or found[number + 1].span != block.span):
            _check_torn(block, some, answer[end : end + _REACH].split("\n"))
        since += [prose, block.words]
        if some:
            patches += _marked(some, block, number, prose, "\n\n".join(since))
            since = []
        _check_prose(prose, patches)
    _check_prose(answer[end:], patches)
    return _with_last_words(patches, "\n\n".join([*since, answer[end:]]))


def _with_last_words(patches: list[FilePatch], prose: str) -> list[FilePatch]:
    """The patches, with what the words after the last of them say of it. Raises Misfit where they take it back."""
    if not patches:
        return patches
    if takes_back_last(prose):
        text = "the words after the last patch take it back. Send the patch that counts, and nothing else."
        raise Misfit("ambiguous", text)
    if patches[-1].block == patches[0].block or not last_counts(prose):
        return patches
    last = patches[-1].block
    return [
        replace(patch, words=Words.WITHDRAWS, prose=prose) if patch.block == last else patch
        for patch in patches
    ]


def _parted(block: Block) -> list[Block]:
    """A fence of diffs or SEARCH/REPLACE blocks, cut where a line in it takes back what stands above."""
    if not block.fenced or block.span.kind not in {DIFF, SEARCH_REPLACE}:
        return [block]
    starts = _starts_patch if block.span.kind == DIFF else _starts_search
    parts: list[Block] = []
    lines = block.lines
    first, said = 0, ""
    at = next((row for row in range(len(lines)) if starts(lines, row)), len(lines))
    if at < len(lines):
        said = "\n".join(lines[:at])
    for row in range(at + 1, len(lines)):
        if not starts(lines, row):
            continue
        above = row
        while above > max(first, row - _MOST_WORDS) and lines[above - 1][:1] not in _SIGNS:
            above -= 1
        spoken = "\n".join(lines[above:row])
        if spoken.strip() and words(spoken):
            parts.append(replace(block, lines=lines[first:above], words=said, closed=True))
            first, said = row, spoken
    return [*parts, replace(block, lines=lines[first:], words=said)]


_SIGNS = frozenset({" ", "+", "-", "@", "\\", ">", "<", "="})
_MOST_WORDS = 12  # lines


def _starts_patch(lines: Sequence[str], at: int) -> bool:
    return lines[at][:1] in {"@", "-", "d", "I"} and starts_diff(lines, at)


def _starts_search(lines: Sequence[str], at: int) -> bool:
    return SEARCH.match(lines[at]) is not None


def _check_prose(prose: str, patches: Sequence[FilePatch]) -> None:
    """Raises Misfit when a hunk stands in what was taken for prose: a part of the change would be lost in silence."""
    lost = _LOST.search(prose)
    if lost is not None and any(patch.form == "diff" for patch in patches):
        line = lost[0].strip().splitlines()[0][:80]
        text = f"the hunk at `{line}` stands outside of any diff. Send the whole change as one diff."
        raise Misfit("malformed", text)


def _check_torn(block: Block, some: Sequence[FilePatch], below: Sequence[str]) -> None:
    """Raises Misfit where the lines `below` a diff tell that the fence which ends it is a line of its last hunk."""
    if not block.closed or not some or not some[-1].hunks or some[-1].hunks[-1].exact_counts:
        return
    if not block.fenced:
        if not is_bare_fence(below[0]):
            return
        below = below[1:]
    end = next((row for row, line in enumerate(below) if _NEXT.match(line)), len(below))
    more = end < len(below) and below[end].startswith(("@@", "--- ", "diff "))
    below = below[:end]
    sure = [row for row, line in enumerate(below) if line[:1] in {"+", "-"} and not is_bullet(line)]
    last_fence = max((row for row, line in enumerate(below) if is_bare_fence(line)), default=-1)
    first_text = next((row for row, line in enumerate(below) if _TEXT.match(line)), end)
    if below[:1] and below[0].rstrip("\r"):
        torn = (
            any(row < first_text or row < last_fence for row in sure)
            or 0 < last_fence < first_text
            or (more and first_text == end)
        )
    else:
        torn = some[-1].hunks[-1].short and any(row < first_text for row in sure)
    if torn:
        text = (
            "a line of back-ticks or tildes ends the fence in the middle of a hunk. Put a space before each "
            "unchanged line, or open the fence with four back-ticks."
        )
        raise Misfit("malformed", text)


def _marked(some: Sequence[FilePatch], block: Block, number: int, prose: str, since: str) -> list[FilePatch]:
    """The patches of a block with its number, what its wrapping needed, and what was said right before it and
    `since` the patch above. The message of a mail or a commit takes nothing back."""
    said = words(since) if number > 0 and not any(map(is_mail, since.split("\n"))) else Words.NEUTRAL
    return [
        replace(
            patch,
            block=number,
            unclosed=block.fenced and not block.closed,
            words=said,
            prose=since if number > 0 else "",
            completes=number > 0 and completes(since),
            alternative=alternative(prose),
            tolerances=patch.tolerances | block.tolerances,
        )
        for patch in some
    ]


def _with_name(block: Block) -> Block:
    """A fence whose info string may be a file without an extension: `bin/wait-for`, or the only word beside a
    language."""
    words = [word.strip("\"'`") for word in block.info.split()]
    name = next((word for word in words if "/" in word), words[1] if len(words) == 2 else None)
    return block if block.name else replace(block, name=name)


def _complete(patches: list[FilePatch], block: Block, *, ended: bool) -> list[FilePatch]:
    """The patches of a block, of which the last is not taken for cut where only the closing fence is missing: the
    answer `ended`, its last hunk has no counts, and the end of the block is nothing but lines of that hunk."""
    hunk = patches[-1].hunks[-1] if patches and patches[-1].hunks else None
    if hunk is None or hunk.counts is not None or not hunk.changes or not (ended and block.fenced):
        return patches
    last = next((line for line in reversed(block.lines) if line.strip()), "")
    bare = any(line.bare and line.text.strip() for line in hunk.lines)
    if bare or not last.startswith((" ", "+", "-")):
        return patches
    lines = hunk.lines
    while lines[-1].bare:  # what follows its last line, not a line of it
        lines = lines[:-1]
    hunks = (*patches[-1].hunks[:-1], replace(hunk, lines=lines))
    return [*patches[:-1], replace(patches[-1], hunks=hunks, cut=False)]


def _named(patches: Sequence[FilePatch], block: Block, *, ended: bool = False) -> list[FilePatch]:
    """A diff without headers takes the name beside its fence; an open fence, or an open end, may be a cut."""
    named = [
        replace(patch, new=block.name) if patch.old is None and patch.new is None else patch
        for patch in patches
    ]
    if named and named[-1].hunks and not block.closed:
        last = named[-1].hunks[-1]
        complete = last.whole if block.fenced else not (last.short and block.lines[-1].strip())
        named[-1] = replace(named[-1], cut=not complete)
    if named and not block.closed and not named[-1].hunks and named[-1].action == "create":
        named[-1] = replace(named[-1], cut=True)
    return _complete(named, block, ended=ended)


def _inherited(
    some: Sequence[FilePatch], block: Block, earlier: Sequence[FilePatch], before: Block | None
) -> list[FilePatch]:
    """A bare `@@` after prose goes on with the file of the diff before it in the same fence, or of the bare diff
    before it: no header stands between."""
    if not some or before is None or before.span.kind != DIFF or not earlier:
        return list(some)
    if before.span != block.span and (block.fenced or before.fenced):
        return list(some)
    first, last = some[0], earlier[-1]
    if first.old is not None or first.new is not None or last.action != "edit":
        return list(some)
    return [replace(first, old=last.old, new=last.new), *some[1:]]
