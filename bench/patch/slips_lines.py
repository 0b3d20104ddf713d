"""Slips in the lines of hunks: marks, white space, typography, escapes, order and line numbers."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from bench.patch.draft import Draft
from bench.patch.model import ADDED, CONTEXT, DELETED, Hunk, Line
from bench.patch.slip import LINES, RAW, hunk_slip, in_file, slip

TYPOGRAPHY = str.maketrans({"'": "\u2019", "-": "\u2013"})
NOT_CONTEXT = re.compile(r"@@|diff |index |\.\.\.|```|#+ ?\.\.\.|\*\*\*|<<<|>>>|=======")


def _lines(draft: Draft) -> list[Line]:
    return [line for hunk in draft.hunks for line in hunk.lines]


def _replaced(lines: list[Line], alter: Callable[[str], str]) -> bool:
    """Alter the text of lines; return whether any changed."""
    before = [line.text for line in lines]
    for line in lines:
        line.text = alter(line.text)
    return before != [line.text for line in lines]


# White space at the end of lines, and blank lines


@slip("blank-context-bare", RAW, "blank")
def blank_bare(draft: Draft) -> bool:
    blank = [line for line in _lines(draft) if line.kind == CONTEXT and not line.text]
    for line in blank:
        line.raw = ""
    return bool(blank)


@hunk_slip("blank-added-bare", RAW, "blank", blur=1)
def blank_added_bare(draft: Draft, hunk: Hunk) -> bool:
    changed = False
    for before, line, after in zip(hunk.lines, hunk.lines[1:], hunk.lines[2:], strict=False):
        if line.kind == before.kind == after.kind == ADDED and not line.text:
            line.raw, changed = "", True
    return changed


def _old_lines(draft: Draft, alter: Callable[[str], str]) -> bool:
    changed = _replaced([line for line in _lines(draft) if line.kind != ADDED], alter)
    draft.blur = max(draft.blur, 2)
    return changed


@slip("trailing-space-lost", LINES, "trailing")
def trailing_lost(draft: Draft) -> bool:
    """Context and deleted lines without trailing white space, unless a change consists in that."""
    for hunk in draft.hunks:
        old, new = ({line.text.rstrip() for line in hunk.lines if line.kind == k} for k in (DELETED, ADDED))
        if old & new:
            return False
    return _old_lines(draft, str.rstrip)


@slip("trailing-space-added", LINES, "trailing")
def trailing_added(draft: Draft) -> bool:
    spaces = ["", " ", "  ", "\t"]
    return _old_lines(draft, lambda text: text + draft.rng.choice(spaces) if text else text)


# Marks


def _unmarked(draft: Draft, share: float) -> bool:
    """A share of the context lines lacks its mark; none may look like a marked line."""
    changed = False
    for line in _lines(draft):
        if line.kind == CONTEXT and line.text.strip():
            if not line.text[0].isalnum() and line.text[0] not in " \t_({[<\"'}])$@#/*.":
                return False
            if NOT_CONTEXT.match(line.text.strip()):
                return False
            if draft.rng.random() < share:
                line.raw, changed = line.text, True
    return changed


slip("context-without-space", RAW, "marks blank", blur=2)(partial(_unmarked, share=1.0))
slip("some-context-without-space", RAW, "marks blank", blur=2)(partial(_unmarked, share=0.4))


@slip("marks-spaced", RAW, "marks", blur=2)
def spaced(draft: Draft) -> bool:
    """A space after each mark, also in context: `+ x` for `+x`."""
    lines = _lines(draft)
    for line in lines:
        line.raw = f"{line.kind} {line.text}" if line.text else line.kind
    draft.may_refuse = True
    return bool(lines) and not any(line.kind == ADDED and line.text.isspace() for line in lines)


@slip("bare-end-lost", LINES, "end")
def marker_lost(draft: Draft) -> bool:
    """No final newline, and no marker for it."""
    changed = False
    for part in draft.parts:
        before, after = part.change.before, part.change.after
        for line in (line for hunk in part.hunks for line in hunk.lines if line.bare_end):
            if not (before and after) or before.final_newline != after.final_newline:
                return False
            line.bare_end, changed = False, True
    return changed


@slip("bare-end-misplaced", LINES, "end")
def marker_misplaced(draft: Draft) -> bool:
    """The marker below a hunk that does not reach the end of the file."""
    for part in draft.parts:
        change = part.change
        if part.hunks and change.before and change.after and change.ended:
            last = part.hunks[-1].lines[-1]
            if last.kind == CONTEXT and last.row is not None and last.row < len(change.before.lines) - 3:
                last.bare_end = True
                return True
    return False


# Typography and escapes


def _context(draft: Draft) -> list[Line]:
    return [line for line in _lines(draft) if line.kind == CONTEXT and line.raw is None]


@slip("smart-punctuation", LINES, "typography", blur=2)
def smart(draft: Draft) -> bool:
    quotes = re.compile(r'"([^"]*)"')
    return _replaced(_context(draft), lambda text: quotes.sub("\u201c\\1\u201d", text).translate(TYPOGRAPHY))


@slip("no-break-spaces", LINES, "typography", blur=2)
def no_break(draft: Draft) -> bool:
    """U+00A0 for some spaces within context."""

    def put(text: str) -> str:
        head = len(text) - len(text.lstrip())
        return text[:head] + text[head:].replace(" ", "\u00a0", 1)

    return _replaced(_context(draft), put)


def _escaped(draft: Draft, table: dict[str, str]) -> bool:
    """Escape the whole diff as a web page does."""
    lines = _lines(draft)
    if any(re.search(r"&[#\w]+;", line.text) for line in lines):
        return False  # an entity that is there already would be ambiguous
    tells = False
    for line in lines:
        text = line.text.translate(str.maketrans(table))
        tells = tells or (text != line.text and line.kind != ADDED)
        line.text = text
    groups = [[line for line in hunk.lines if "&" in line.text] for hunk in draft.hunks]
    return tells and all(not some or any(line.kind != ADDED for line in some) for some in groups)


HTML = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
slip("html-escaped", LINES, "html typography", blur=2)(partial(_escaped, table=HTML))
slip("html-escaped-quotes", LINES, "html typography", blur=2)(
    partial(_escaped, table=HTML | {'"': "&quot;", "'": "&#39;"})
)


# Pairs and order


@hunk_slip("equal-pairs", LINES, "pairs")
def equal_pairs(draft: Draft, hunk: Hunk) -> bool:
    """One or two context lines deleted and added again."""
    lines = enumerate(hunk.lines)
    picked = [n for n, line in lines if line.kind == CONTEXT and line.text.strip() and not line.bare_end]
    for number in sorted(draft.rng.sample(picked, min(2, len(picked))), reverse=True):
        line = hunk.lines[number]
        draft.may_refuse |= not in_file(draft, line)  # a line that the file lacks cannot be deleted
        hunk.lines[number : number + 1] = [Line(DELETED, line.text, line.row), Line(ADDED, line.text)]
    return bool(picked)


def _leading(lines: list[Line], kind: str) -> list[Line]:
    return lines[: next((n for n, line in enumerate(lines) if line.kind != kind), len(lines))]


def _reordered(
    draft: Draft, hunk: Hunk, order: Callable[[list[Line], list[Line]], list[Line] | None]
) -> bool:
    """Reorder deleted lines and the added ones that replace them, unless `order` returns None."""
    lines: list[Line] = []
    rest, changed = hunk.lines, False
    while rest:
        deleted = _leading(rest, DELETED)
        added = _leading(rest[len(deleted) :], ADDED)
        run = rest[: max(len(deleted) + len(added), 1)]
        new = None if any(line.bare_end for line in run) else order(deleted, added)
        lines, changed = lines + (new or run), changed or bool(new)
        rest = rest[len(run) :]
    hunk.lines = lines
    return changed


def _added_first(deleted: list[Line], added: list[Line]) -> list[Line] | None:
    return added + deleted if deleted and added else None


def _interleaved(deleted: list[Line], added: list[Line]) -> list[Line] | None:
    pairs = zip(deleted, added, strict=False)
    return [line for pair in pairs for line in pair] if len(deleted) == len(added) > 1 else None


# `+` lines above the `-` lines that they replace; `-a +b -c +d` for `-a -c +b +d`
hunk_slip("added-before-deleted", LINES, "order")(partial(_reordered, order=_added_first))
hunk_slip("interleaved", LINES, "order")(partial(_reordered, order=_interleaved))


# Indentation: the expected bytes keep that of the file


def _texts(hunk: Hunk) -> list[Line]:
    return [line for line in hunk.lines if line.text.strip()]


def _indent(line: Line) -> str:
    return line.text[: len(line.text) - len(line.text.lstrip())]


def _known(hunk: Hunk) -> bool:
    """Whether two lines of the file can tell how far the hunk is shifted."""
    return sum(line.kind != ADDED for line in _texts(hunk)) >= 2


def _indent_slip(name: str) -> Callable[[Callable[[Draft], bool]], Callable[[Draft], bool]]:
    """Register a slip in indentation. It does not apply if an added line is only white space: how much that line should
    have after a shift is unknown."""

    def add(do: Callable[[Draft], bool]) -> Callable[[Draft], bool]:
        slip(name, LINES, "indent trailing", blur=2)(
            lambda draft: (
                not any(line.kind == ADDED and line.text.isspace() for line in _lines(draft)) and do(draft)
            )
        )
        return do

    return add


@_indent_slip("dedented")
def dedented(draft: Draft) -> bool:
    changed = False
    for hunk in draft.hunks:
        lines = _texts(hunk)
        prefix = min(map(_indent, lines), key=len, default="")
        if not prefix:
            continue
        if not _known(hunk) or not all(line.text.startswith(prefix) for line in lines):
            return False
        changed = _replaced(lines, lambda text: text[len(prefix) :])  # noqa: B023 (called at once)
    return changed


def _shift(draft: Draft, by: int) -> bool:
    """Shift all lines of all hunks right by `by` columns, or left if it is negative."""
    for hunk in draft.hunks:
        lines = _texts(hunk)
        tabs = any(re.match(r" *\t", line.text) for line in lines)
        if not _known(hunk) or tabs or not all(line.text.startswith(" " * -by) for line in lines):
            return False
        _replaced(lines, lambda text: " " * by + text if by > 0 else text[-by:])
    return bool(draft.hunks)


# the width is drawn even if an added line is only white space
slip("indented-more", LINES, "indent trailing", blur=2)(lambda draft: _drawn(draft, [2, 4, 8], 1))
slip("indented-less", LINES, "indent trailing", blur=2)(lambda draft: _drawn(draft, [1, 2, 4], -1))


def _drawn(draft: Draft, widths: list[int], sign: int) -> bool:
    by = sign * draft.rng.choice(widths)
    spaces = any(line.kind == ADDED and line.text.isspace() for line in _lines(draft))
    return not spaces and _shift(draft, by)


@_indent_slip("one-hunk-shifted")
def one_shifted(draft: Draft) -> bool:
    if len(draft.hunks) < 2:
        return False
    hunk = draft.rng.choice(draft.hunks)
    lines = _texts(hunk)
    tabs = any(line.text.startswith("\t") for line in lines)
    return _known(hunk) and not tabs and _replaced(lines, lambda text: "    " + text)


@_indent_slip("tabs-to-spaces")
def to_spaces(draft: Draft) -> bool:
    width = draft.rng.choice([2, 4, 4, 8])
    changed = False
    for hunk in draft.hunks:
        lines = _texts(hunk)
        if any(set(_indent(line)) - {"\t"} for line in lines):
            return False
        deep = {line.kind == ADDED for line in lines if _indent(line)}
        if deep == {True}:
            return False  # no line of the file shows how wide a tab is
        for line in lines:
            line.text = " " * (width * len(_indent(line))) + line.text.lstrip("\t")
        changed = changed or bool(deep)
    return changed


@_indent_slip("spaces-to-tabs")
def to_tabs(draft: Draft) -> bool:
    lines = [line for hunk in draft.hunks for line in _texts(hunk)]
    widths = {len(_indent(line)) for line in lines} - {0}
    if any(set(_indent(line)) - {" "} for line in lines) or not widths:
        return False
    unit = min(widths)
    if unit not in (2, 4) or any(width % unit for width in widths):
        return False
    for hunk in draft.hunks:
        own = any(line.kind != ADDED and line.text.startswith(" ") for line in _texts(hunk))
        if not own and any(line.kind == ADDED and line.text.startswith(" ") for line in hunk.lines):
            return False
    for line in lines:
        line.text = "\t" * (len(_indent(line)) // unit) + line.text.lstrip()
    return True


@_indent_slip("two-for-four")
def two_for_four(draft: Draft) -> bool:
    """Indentation by 2 in the answer where the file has 4."""
    lines = [line for hunk in draft.hunks for line in _texts(hunk)]
    heads = [_indent(line) for line in lines]
    if any(set(head) - {" "} or len(head) % 4 for head in heads) or not any(heads):
        return False
    for hunk in draft.hunks:
        own = {len(_indent(line)) for line in _texts(hunk) if line.kind != ADDED}
        new = {len(_indent(line)) for line in _texts(hunk) if line.kind == ADDED}
        if len(own) < 2 or not new <= own:
            return False
    for line, head in zip(lines, heads, strict=True):
        line.text = line.text[len(head) // 2 :]
    return True


def _flush_left(draft: Draft, kind: str, other: str) -> bool:
    """Remove the indentation of lines of one kind; lines of the other keep theirs."""
    for hunk in draft.hunks:
        if not any(line.kind == other and line.text.startswith((" ", "\t")) for line in hunk.lines):
            return False
    lines = [line for line in _lines(draft) if line.kind == kind and (kind == CONTEXT or line.text.strip())]
    return _replaced(lines, str.lstrip)


slip("context-flush-left", LINES, "indent trailing", blur=2)(
    partial(_flush_left, kind=CONTEXT, other=DELETED)
)
slip("deleted-flush-left", LINES, "indent trailing", blur=2)(
    partial(_flush_left, kind=DELETED, other=CONTEXT)
)


# Numbers before lines

FORMS = ("{n:>4} | {t}", "{n}: {t}", "{n:>5} {t}", "{n}\t{t}", "{n:04d} {t}")


def _counted(draft: Draft, form: Callable[[Line, int, int], str]) -> bool:
    """Write each line as `form` does from its numbers in the old and the new file."""
    for hunk in draft.hunks:
        row, new = hunk.old + 1, hunk.new + 1
        for line in hunk.lines:
            line.raw = form(line, row, new)
            row, new = row + (line.kind != ADDED), new + (line.kind != DELETED)
    return bool(draft.hunks) and not any(line.bare_end for line in _lines(draft))


@slip("line-numbered", RAW, "marks blank numbered trailing", blur=1)
def numbered(draft: Draft) -> bool:
    """A number before each line of a hunk, in one of the ways that tools show it."""
    form = draft.rng.choice(FORMS)
    return _counted(
        draft,
        lambda line, row, new: form.format(n=new if line.kind == ADDED else row, t=line.kind + line.text),
    )


@slip("two-number-columns", RAW, "marks blank numbered trailing", blur=1)
def columns(draft: Draft) -> bool:
    """The old and the new number before each line, as review tools show them."""

    def form(line: Line, row: int, new: int) -> str:
        left, right = "" if line.kind == ADDED else row, "" if line.kind == DELETED else new
        return f"{left:>5} {right:>5} {line.kind}{line.text}"

    return _counted(draft, form)


@slip("line-numbered-counting", RAW, "marks blank numbered trailing several", blur=1)
def counting(draft: Draft) -> bool:
    """The lines of the diff are numbered from 1, headers included. Not with a repeated hunk: its copy counts again."""
    number = 0

    def counted(texts: list[str]) -> list[str]:
        nonlocal number
        number += len(texts)
        return [f"{number - len(texts) + n:>3} | {text}" for n, text in enumerate(texts, 1)]

    for part in draft.parts:
        part.head = counted(part.head)
        for hunk in part.hunks:
            if any(line.bare_end for line in hunk.lines):
                return False
            hunk.written()
            if hunk.header is not None:
                hunk.header = "\n".join(counted(hunk.header.split("\n")))
            for line in hunk.lines:
                (line.raw,) = counted([line.kind + line.text])
    draft.marks = ("```", "```")
    return bool(draft.hunks)
