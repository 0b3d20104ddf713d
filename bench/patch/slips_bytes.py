"""Files that are not plain: line endings, encodings, no final newline. The diff is as a model sees it."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Sequence
from dataclasses import replace

from bench.patch.draft import Draft, hunks
from bench.patch.model import Change, File, edited
from bench.patch.slip import FILE, slip


def all_plain(draft: Draft) -> bool:
    return all(
        change.before and change.after and not change.before.bom and not is_crlf(change.before)
        for change in draft.changes
    )


def is_crlf(file: File) -> bool:
    return any(line.endswith("\r") for line in file.lines)


def _lines(change: Change, alter: Callable[[Sequence[str]], Sequence[str]]) -> None:
    change.rewrite(alter)


@slip("crlf-file", FILE, "bytes newlines")
def crlf_file(draft: Draft) -> bool:
    """A CRLF file, an LF diff."""
    if not all_plain(draft):
        return False
    for change in draft.changes:
        assert change.before
        assert change.after
        if not change.before.final_newline or not change.after.final_newline:
            return False
        change.rewrite(lambda lines: [line + "\r" for line in lines])
    return True


@slip("crlf-file-crlf-answer", FILE, "bytes newlines")
def crlf_both(draft: Draft) -> bool:
    draft.wraps.append(lambda text: text.replace("\n", "\r\n"))
    return crlf_file(draft)


@slip("mixed-endings", FILE, "bytes newlines context drift order-of-hunks")
def mixed(draft: Draft) -> bool:
    """CRLF in a part of the file that no hunk is near; or in all but such a part."""
    if not all_plain(draft):
        return False
    for change in draft.changes:
        assert change.before
        assert change.after
        if not (change.before.final_newline and change.after.final_newline):
            return False
        near = {row for hunk in hunks(change, 12) for line in hunk.lines if (row := line.row) is not None}
        far = [row for row in range(len(change.before.lines)) if row not in near]
        if len(far) < 5:
            return False
        around = draft.rng.random() < 0.5
        picked = set(far[: len(far) // 2 + 1])
        lines = tuple(
            line + ("\r" if (row in picked) != around else "") for row, line in enumerate(change.before.lines)
        )
        change.edits = [
            replace(edit, added=tuple(line + ("\r" if around else "") for line in edit.added))
            for edit in change.edits
        ]
        change.before = replace(change.before, lines=lines)
        change.after = replace(change.after, lines=edited(lines, change.edits))
    return True


@slip("no-final-newline", FILE, "bytes-end")
def no_final(draft: Draft) -> bool:
    """Before and after without one; where a hunk reaches the end, it says so."""
    if any(change.before and is_crlf(change.before) for change in draft.changes):
        return False
    for change in draft.changes:
        change.both(final_newline=False)
    return all(_ends_bare(file) for change in draft.changes for file in (change.before, change.after))


def _ends_bare(file: File | None) -> bool:
    """A last line that is empty and has no newline is no line: a diff of it could not be."""
    return file is None or file.final_newline or file.lines[-1:] != ("",)


@slip("no-final-newline-unsaid", FILE, "bytes-end end status")
def no_final_unsaid(draft: Draft) -> bool:
    """The same, and a hunk at the end of the file doesn't say so: what the file had stays (so not with the slips that
    make or remove a file: nothing else tells how a new one ends)."""
    if not no_final(draft) or not any(_reaches_end(change) for change in draft.changes):
        return False
    draft.wraps.insert(0, lambda text: text.replace("\n\\ No newline at end of file", ""))
    return True


def _reaches_end(change: Change) -> bool:
    return bool(change.before and change.edits and change.edits[-1].end >= len(change.before.lines) - 3)


@slip("final-newline-added", FILE, "bytes-end end")
def final_added(draft: Draft) -> bool:
    """The last line is changed, and the file gets its newline: the marker stands at the old side only."""
    return _final(draft, before=False)


@slip("final-newline-taken", FILE, "bytes-end end")
def final_taken(draft: Draft) -> bool:
    return _final(draft, before=True)


def _final(draft: Draft, *, before: bool) -> bool:
    change = draft.changes[0]
    draft.changes = [change]
    if not change.before or not change.after or is_crlf(change.before) or not change.edits:
        return False
    last = change.edits[-1]
    if last.end != len(change.before.lines) or not last.added or last.start == last.end:
        return False
    change.before = replace(change.before, final_newline=before)
    change.after = replace(change.after, final_newline=not before)
    return _ends_bare(change.before) and _ends_bare(change.after)


@slip("byte-order-mark", FILE, "bytes")
def mark(draft: Draft) -> bool:
    if not all_plain(draft):
        return False
    for change in draft.changes:
        change.both(bom=codecs.BOM_UTF8)
    return True


@slip("byte-order-mark-first-line", FILE, "bytes")
def mark_first(draft: Draft) -> bool:
    """The mark, and a hunk at the first line, which has none."""
    return any(change.edits and change.edits[0].start <= 3 for change in draft.changes) and mark(draft)


@slip("latin-1", FILE, "bytes")
def latin(draft: Draft) -> bool:
    """A Latin-1 file; a hunk has a letter that is one byte in it."""
    return _encoded(draft, "latin-1", b"", "\u00fc")


@slip("utf-16", FILE, "bytes")
def utf_16(draft: Draft) -> bool:
    little = draft.rng.random() < 0.7
    return _encoded(
        draft,
        "utf-16-le" if little else "utf-16-be",
        codecs.BOM_UTF16_LE if little else codecs.BOM_UTF16_BE,
        "\u00e9",
    )


def _encoded(draft: Draft, encoding: str, bom: bytes, letter: str) -> bool:
    """The file in another encoding, with `letter` for some letters of it."""
    if not all_plain(draft):
        return False
    vowel = draft.rng.choice("aou")
    for change in draft.changes:
        change.rewrite(lambda lines: [line.replace(f"{vowel}n", f"{letter}n") for line in lines])
        assert change.before
        text = "\n".join([*change.before.lines, *(line for edit in change.edits for line in edit.added)])
        if encoding == "latin-1" and letter not in "\n".join(change.before.lines):
            return False  # nothing would tell the file from one in UTF-8
        if letter not in text:
            return False
        if encoding == "latin-1":
            try:
                text.encode("latin-1")
            except UnicodeEncodeError:
                return False
        change.both(encoding=encoding, bom=bom)
    return all(
        len({edit.added for edit in change.edits} | {()}) > 1 or change.edits for change in draft.changes
    )
