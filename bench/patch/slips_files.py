"""Slips of whole files: line endings, encodings, odd bytes and paths, text that looks like a diff, new and moved files.

They alter the changes before hunks are built. The diff shows a file as a model sees it.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from bench.patch.draft import Draft, hunks
from bench.patch.model import Change, File
from bench.patch.slip import FILE, slip

ELSEWHERE = "bytes context drift order-of-hunks"
PLANTED = "planted fence marks numbered wrap context numbers"
NEW = "bytes newlines status rewrite fused edge drift"
GONE = "status rewrite fused edge drift"
NEEDS_HUNKS = "status rewrite numbers order fused context drift typography indent trailing pairs end html"
NEEDS_HUNKS += " order-of-hunks names gaps"


def all_plain(draft: Draft) -> bool:
    return all(c.before and c.after and not c.before.bom and not is_crlf(c.before) for c in draft.changes)


def is_crlf(file: File) -> bool:
    return any(line.endswith("\r") for line in file.lines)


def _far_rows(change: Change) -> list[int]:
    near = {line.row for hunk in hunks(change, 12) for line in hunk.lines}
    return [row for row in range(len(change.before.lines)) if row not in near]


def _rewritten(
    draft: Draft, lines: Callable[[Sequence[str]], Sequence[str]], shows: Callable[[str], bool]
) -> bool:
    """Rewrite the lines of all plain files; return whether `shows` holds for a line of a hunk."""
    if not all_plain(draft):
        return False
    for change in draft.changes:
        change.rewrite(lines)
    every = (hunk for change in draft.changes for hunk in hunks(change, 3))
    return any(shows(line.text) for hunk in every for line in hunk.lines)


# Line endings


@slip("crlf-file", FILE, "bytes newlines")
def crlf_file(draft: Draft) -> bool:
    """A CRLF file and an LF diff."""
    if not all_plain(draft) or not all(change.ended for change in draft.changes):
        return False
    for change in draft.changes:
        change.rewrite(lambda lines: [line + "\r" for line in lines])
    return True


@slip("crlf-file-crlf-answer", FILE, "bytes newlines")
def crlf_both(draft: Draft) -> bool:
    draft.wraps.append(lambda text: text.replace("\n", "\r\n"))
    return crlf_file(draft)


@slip("mixed-endings", FILE, "bytes newlines context drift order-of-hunks")
def mixed(draft: Draft) -> bool:
    """CRLF only in a part of the file far from any hunk, or everywhere but there."""
    if not all_plain(draft):
        return False
    for change in draft.changes:
        far = _far_rows(change)
        if not change.ended or len(far) < 5:
            return False
        around = draft.rng.random() < 0.5
        picked, tail = set(far[: len(far) // 2 + 1]), "\r" if around else ""
        lines = [
            line + ("\r" if (row in picked) != around else "") for row, line in enumerate(change.before.lines)
        ]
        change.rebase(
            lines, [replace(edit, added=tuple(line + tail for line in edit.added)) for edit in change.edits]
        )
    return True


@slip("no-final-newline", FILE, "bytes-end")
def no_final(draft: Draft) -> bool:
    """No final newline before or after; a hunk that reaches the end has the marker."""
    if any(change.before and is_crlf(change.before) for change in draft.changes):
        return False
    for change in draft.changes:
        change.both(final_newline=False)
    return all(_ends_bare(file) for change in draft.changes for file in (change.before, change.after))


def _ends_bare(file: File | None) -> bool:
    """Whether a diff can show the last line: not if it is empty and has no newline."""
    return file is None or file.final_newline or file.lines[-1:] != ("",)


@slip("no-final-newline-unsaid", FILE, "bytes-end end status")
def no_final_unsaid(draft: Draft) -> bool:
    """The same without the marker: the file keeps its ending. Never with slips that create or delete a file, since
    nothing else tells how a new file ends."""
    if not no_final(draft) or not any(
        change.before and change.edits and change.edits[-1].end >= len(change.before.lines) - 3
        for change in draft.changes
    ):
        return False
    draft.wraps.insert(0, lambda text: text.replace("\n\\ No newline at end of file", ""))
    return True


def _final(draft: Draft, *, before: bool) -> bool:
    """The last line changes and the file gains or loses its final newline: only one side has the marker."""
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


slip("final-newline-added", FILE, "bytes-end end")(partial(_final, before=False))
slip("final-newline-taken", FILE, "bytes-end end")(partial(_final, before=True))


# Encodings and odd bytes


@slip("byte-order-mark", FILE, "bytes")
def mark(draft: Draft) -> bool:
    if not all_plain(draft):
        return False
    for change in draft.changes:
        change.both(bom=codecs.BOM_UTF8)
    return True


@slip("byte-order-mark-first-line", FILE, "bytes")
def mark_first(draft: Draft) -> bool:
    return any(change.edits and change.edits[0].start <= 3 for change in draft.changes) and mark(draft)


@slip("latin-1", FILE, "bytes")
def latin(draft: Draft) -> bool:
    """A Latin-1 file with a letter that UTF-8 encodes otherwise."""
    return _encoded(draft, "latin-1", b"", "\u00fc")


@slip("utf-16", FILE, "bytes")
def utf_16(draft: Draft) -> bool:
    if draft.rng.random() < 0.7:
        return _encoded(draft, "utf-16-le", codecs.BOM_UTF16_LE, "\u00e9")
    return _encoded(draft, "utf-16-be", codecs.BOM_UTF16_BE, "\u00e9")


def _encoded(draft: Draft, encoding: str, bom: bytes, letter: str) -> bool:
    """Encode the files with `encoding`, after replacing one vowel before each `n` with `letter`."""
    if not all_plain(draft):
        return False
    vowel = draft.rng.choice("aou")
    for change in draft.changes:
        change.rewrite(lambda lines: [line.replace(f"{vowel}n", f"{letter}n") for line in lines])
        own = "\n".join(change.before.lines)
        text = "\n".join([own, *(line for edit in change.edits for line in edit.added)])
        if letter not in (own if encoding == "latin-1" else text):
            return False  # the encoding would make no difference
        if encoding == "latin-1" and any(ord(char) > 255 for char in text):
            return False
        change.both(encoding=encoding, bom=bom)
    return all(change.edits for change in draft.changes)


def _elsewhere(draft: Draft, one: str, other: str, *, may_refuse: bool = False) -> bool:
    """Put odd characters into two lines far from any hunk."""
    draft.may_refuse |= may_refuse
    if not all_plain(draft):
        return False
    for change in draft.changes:
        far = [row for row in _far_rows(change) if len(change.before.lines[row]) > 4]
        if len(far) < 2:
            return False
        lines = list(change.before.lines)
        for row, text in zip(draft.rng.sample(far, 2), (one, other), strict=True):
            lines[row] = lines[row][:2] + text + lines[row][2:]
        change.rebase(lines)
    return True


slip("invalid-bytes-elsewhere", FILE, ELSEWHERE)(partial(_elsewhere, one="\udcff\udcfe", other="caf\u00e9"))
# a NUL may make a file look binary
slip("nul-elsewhere", FILE, ELSEWHERE)(partial(_elsewhere, one="\0", other="", may_refuse=True))
slip("lone-cr-elsewhere", FILE, ELSEWHERE + " newlines")(partial(_elsewhere, one="\r", other="one\rtwo"))
slip("odd-line-breaks-elsewhere", FILE, ELSEWHERE)(
    partial(_elsewhere, one="\x0c", other="a\u2028b\u0085c\x0bd")
)


@slip("odd-line-breaks-inside", FILE, "bytes")
def odd_inside(draft: Draft) -> bool:
    """Form feeds, U+2028 and the like within lines of the hunks: no line ends there."""
    if not all_plain(draft):
        return False
    char = draft.rng.choice(["\x0c", "\u2028", "\u0085", "\x0b", "\x1c"])

    def put(line: str) -> str:
        return line[:3] + char + line[3:] if len(line) > 9 and len(line) % 3 == 0 else line

    return _rewritten(draft, lambda lines: list(map(put, lines)), lambda text: char in text)


@slip("form-feed-lines", FILE, "bytes")
def form_feeds(draft: Draft) -> bool:
    return _rewritten(draft, lambda lines: [line or "\x0c" for line in lines], lambda text: "\x0c" in text)


@slip("non-english", FILE, "bytes")
def non_english(draft: Draft) -> bool:
    """Chinese, Cyrillic, accents and emoji in the lines of the hunks."""
    words = {
        "the": "\u7684\u6587\u4ef6", "with": "\u0441", "value": "\u7ed3\u679c", "name": "pr\u00e9nom",
        "error": "\u043e\u0448\u0438\u0431\u043a\u0430", "test": "t\u00ebst", "is": "\u306f", "data": "\U0001f4be",
    }  # fmt: skip

    def translated(line: str) -> str:
        return " ".join(words.get(word, word) for word in line.split(" "))

    return _rewritten(draft, lambda lines: list(map(translated, lines)), lambda text: not text.isascii())


@slip("decomposed-accents", FILE, "bytes typography")
def decomposed(draft: Draft) -> bool:
    """The file has combining accents; the answer has precomposed letters, which look the same."""
    draft.may_refuse = True
    draft.wraps.append(lambda text: text.replace("e\u0301", "\u00e9"))
    shown = _rewritten(
        draft,
        lambda lines: [line.replace("en", "e\u0301n") for line in lines],
        lambda text: "e\u0301" in text,
    )  # which form a new line should have is unknown
    added = (line for change in draft.changes for edit in change.edits for line in edit.added)
    return shown and not any("e\u0301" in line for line in added)


@slip("executable", FILE, "mode")
def executable(draft: Draft) -> bool:
    for change in draft.changes:
        change.both(mode="100755")
    return True


@slip("large-file", FILE, "size")
def large(draft: Draft) -> bool:
    """The first file grown to 20,000 lines, with its changes in the middle."""
    change = draft.changes[0]
    draft.changes = [change]
    if not change.before or not change.after or len(change.before.lines) < 300 or is_crlf(change.before):
        return False
    own, total = change.before.lines, 20_000
    above: list[str] = []
    number = 0
    while len(above) < total // 2:
        number += 1
        chunk = own[: draft.rng.randrange(100, 300)]
        above += [f"{line} {number}" if line.strip() else line for line in chunk]
    below = [f"{line} {number}b" if line.strip() else line for line in (*own, *above)]
    below = below[: max(0, total - len(above) - len(own))]
    edits = [edit.shifted(len(above)) for edit in change.edits]
    change.rebase((*above, *own, *below), edits, final_newline=True)
    return True


# Paths

MARK = "\u00fcber-"
# Text that may follow a name; tools leave it outside the quotes.
_AFTER = re.compile(r"(?:\t.*| \d{4}-\d\d-\d\d .*| \((?:original|modified)\))?\s*$")


def _c_style(line: str) -> str:
    """Quote the names in a header line as git and GNU diff do for names that are not ASCII. Names in backticks or
    asterisks stay, since whoever writes those does not escape names. MARK tells a header from a changed line that
    begins with `-- ` or `++ `."""
    if MARK not in line:
        return line
    if line.startswith(("--- ", "+++ ", "*** a/")) and line[4:5] not in {"`", "*"}:
        after = _AFTER.search(line)
        assert after
        return f"{line[:4]}{_quoted(line[4 : after.start()])}{after[0]}"
    if line.startswith("diff --git a/"):
        names = line.removeprefix("diff --git ").rstrip()
        half = len(names) // 2
        return f"diff --git {_quoted(names[:half])} {_quoted(names[half + 1 :])}"
    return line


def _quoted(name: str) -> str:
    text = name.strip('"').replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}" for byte in text.encode()) + '"'


def _path(draft: Draft, name: str, form: str) -> bool:
    for change in draft.changes:
        folder, slash, base = change.path.rpartition("/")
        change.both(path=form.format(path=change.path, folder=folder + slash, base=base))
    if name == "path-c-style":
        draft.wraps.append(lambda text: "\n".join(_c_style(line) for line in text.split("\n")))
    return len({change.path for change in draft.changes}) == len(draft.changes)


for _name, _form in {
    "path-with-spaces": "{folder}my {base}",
    "path-not-ascii": "{folder}\u00fcber-\u6587{base}",
    "path-c-style": "{folder}" + MARK + "{base}",
    "path-brackets": "{folder}[id]({base})",
    "path-like-prefix": "a/b/{path}",
    "path-dotfile": "{folder}.{base}",
    "path-no-folder": "{base}",
}.items():
    slip(_name, FILE, "path")(partial(_path, name=_name, form=_form))


@slip("same-base-names", FILE, "path extra")
def same_base(draft: Draft) -> bool:
    """There is another file of the same base name; the answer gives the whole path."""
    for change in draft.changes:
        if change.before is None:
            return False
        other = replace(change.before, path=f"other/place/{change.path.rpartition('/')[2]}")
        draft.extra[other.path] = other.content
    return True


# Text that looks like diffs, fences, marks or elisions

DIFF = ("--- a/old/name.py", "+++ b/new/name.py", "@@ -1,3 +1,3 @@", " kept", "-gone", "+come")
FENCED = ("```diff", *DIFF, "```")
ENVELOPE = ("*** Begin Patch", "*** Update File: some/file.py", "@@", "-old", "+new", "*** End Patch")


def plant(change: Change, row: int, lines: Sequence[str]) -> None:
    """Insert lines above `row` that the file had all along."""
    own = list(change.before.lines)
    own[row:row] = [line + change.tail for line in lines]
    change.rebase(own, [edit.shifted(len(lines)) if edit.start >= row else edit for edit in change.edits])


def _planted(draft: Draft, lines: Sequence[str], *, above: bool) -> bool:
    """Plant lines next to a change of the first file."""
    change = draft.changes[0]
    if not change.before or not change.after or not change.edits:
        return False
    edit = draft.rng.choice(change.edits)
    row = max(0, edit.start - 1) if above else edit.end + 1
    if row > len(change.before.lines) - 1 or any(other.start < row < other.end for other in change.edits):
        return False
    plant(change, row, lines)
    return True


for _name, _lines, _above in (
    ("context-has-fence", ("```python", "print(1)", "```"), True),
    ("context-has-fence-below", ("", "```"), False),
    ("context-has-diff", DIFF, True),
    ("context-has-fenced-diff", FENCED, True),
    ("context-has-conflict", ("<<<<<<< HEAD", "ours = 1", "=======", "theirs = 2", ">>>>>>> topic"), True),
    (
        "context-has-search-replace",
        ("<<<<<<< SEARCH", "old text", "=======", "new text", ">>>>>>> REPLACE"),
        True,
    ),
    ("context-has-envelope", ENVELOPE, False),
    ("context-has-ellipsis", ("    ...",), True),
    ("context-has-comment-ellipsis", ("# ... existing code ...",), True),
    ("context-has-quotation", ("> quoted", "> ```", "> + more"), True),
    ("context-has-numbers", ("  12 | one", "  13 | two", "  14 | three"), True),
):
    slip(_name, FILE, PLANTED)(partial(_planted, lines=_lines, above=_above))


def _adding(draft: Draft, lines: Sequence[str]) -> bool:
    change = draft.changes[0]
    if not change.before or not change.after or not change.edits:
        return False
    if change.edits[-1].end >= len(change.before.lines) - 4:
        return False
    number = draft.rng.randrange(len(change.edits))
    edit = change.edits[number]
    change.edits[number] = replace(edit, added=(*edit.added, *(line + change.tail for line in lines)))
    change.rebase(change.before.lines)
    return True


for _name, _lines in {
    "adds-fence": ("", "```sh", "make", "```", ""),
    "adds-fenced-diff": FENCED,
    "adds-diff": DIFF,
    "adds-conflict-test": ('    text = """', "=======", '"""'),
    "adds-plus-plus": ("++ counter", "++ b/other.py", "- - -"),
    "adds-ellipsis": ("class Later:", "    ...", "    items: tuple[int, ...]"),
    "adds-html-entities": ("<p>a &amp; b &lt; c</p>",),
    "adds-typography": ("\u201cquoted\u201d \u2013 it\u2019s",),
    "adds-tag": ("<finish>no</finish>", "<run>ls</run>"),
}.items():
    slip(_name, FILE, PLANTED + " rewrite indent")(partial(_adding, lines=_lines))


@slip("deletes-dashes", FILE, "planted marks context numbers rewrite")
def dashes(draft: Draft) -> bool:
    """A deleted line begins with `-- ` and so reads as a header; the counts are right."""
    change = draft.changes[0]
    if not change.before or not change.after or not change.edits or not change.edits[0].added:
        return False
    start = change.edits[0].start
    plant(change, start, ("-- a/select the rows", "-- of the table"))
    first = change.edits[0]
    change.edits[0] = replace(first, start=start, added=(f"++ of it{change.tail}", *first.added))
    change.rebase(change.before.lines)
    return True


# Files that are created, deleted, moved or given another mode


def _short(draft: Draft) -> Change | None:
    """The first change, if its file is short enough to write out; keeps one other change at most."""
    change = draft.changes[0]
    if not change.before or not change.after or max(len(change.after.lines), len(change.before.lines)) > 400:
        return None
    draft.changes = draft.changes[:2]
    return change


@slip("new-file", FILE, NEW)
def new(draft: Draft) -> bool:
    change = _short(draft)
    if change is None or change.after.bom or change.after.lines[0].endswith("\r"):
        return False  # a diff shows neither a byte-order mark nor carriage returns
    change.before, change.edits = None, []
    return True


@slip("new-file-plain", FILE, NEW + " names")
def new_plain(draft: Draft) -> bool:
    """Only `/dev/null` tells that the file is new."""
    if not new(draft) or draft.changes[0].after.mode != "100644":
        return False  # no line gives its mode
    draft.changes = draft.changes[:1]
    path = draft.changes[0].path

    def shorter(text: str) -> str:
        start = text.find(f"diff --git a/{path}")
        return text if start < 0 else text[:start] + text[text.index("--- /dev/null", start) :]

    draft.wraps.append(shorter)
    return True


@slip("new-file-no-numbers", FILE, NEW + " numbers", combines=False)
def new_unnumbered(draft: Draft) -> bool:
    change = draft.changes[0]
    draft.wraps.append(lambda text: text.replace(f"@@ -0,0 +1,{len(change.after.lines)} @@", "@@ @@"))
    return new(draft) and len(draft.changes) == 1


@slip("new-file-blank-bare", FILE, NEW + " blank", combines=False)
def new_blank(draft: Draft) -> bool:
    """A new file whose blank lines lack the plus."""
    after = draft.changes[0].after
    draft.wraps.append(lambda text: text.replace("\n+\n", "\n\n").replace("\n+\n", "\n\n"))
    return bool(after and after.lines[-1].strip() and new(draft) and "" in after.lines[1:-1])


@slip("deleted-file", FILE, GONE)
def deleted(draft: Draft) -> bool:
    change = _short(draft)
    if change is None:
        return False
    change.after, change.edits = None, []
    return True


@slip("deleted-file-no-lines", FILE, GONE, combines=False)
def deleted_bare(draft: Draft) -> bool:
    """The header deletes the file; its lines are left out."""
    if not deleted(draft):
        return False
    draft.changes = draft.changes[:1]
    path = draft.changes[0].path
    head = "diff --git a/{0} b/{0}\ndeleted file mode 100644"
    form = draft.rng.choice([head, head + "\nindex 3f1c2ab..0000000\n--- a/{0}\n+++ /dev/null"])
    draft.wraps.append(lambda text: f"{draft.intro}\n\n```diff\n{form.format(path)}\n```\n")
    return True


def _altered(
    draft: Draft, *, moved: bool = False, mode: bool = False, copy: bool = False, edited: bool = True
) -> bool:
    """Move or copy the first file or change its mode; unless `edited`, none of its lines changes."""
    change = draft.changes[0]
    if not change.before or not change.after:
        return False
    if not edited:
        change.edits, change.after = [], change.before
    change.copy = copy
    if moved:
        folder, slash, base = change.path.rpartition("/")
        change.after = replace(change.after, path=f"{folder}{slash}moved/new_{base}")
    if mode:
        change.after = replace(change.after, mode="100755" if change.before.mode == "100644" else "100644")
    return True


slip("renamed", FILE, f"path {NEEDS_HUNKS}")(partial(_altered, moved=True, edited=False))
slip("renamed-and-edited", FILE, "status path names")(partial(_altered, moved=True))
slip("copied", FILE, "status path names copy")(partial(_altered, moved=True, copy=True))
slip("mode-changed", FILE, f"mode {NEEDS_HUNKS}")(partial(_altered, mode=True, edited=False))
slip("mode-changed-and-edited", FILE, "status mode names")(partial(_altered, mode=True))


@slip("renamed-by-names-only", FILE, "status path names", combines=False)
def renamed_plain(draft: Draft) -> bool:
    """Only the different names on the two sides tell of the rename."""
    draft.changes = draft.changes[:1]
    old = draft.changes[0].path
    draft.may_refuse = True

    def bare(text: str) -> str:
        start = text.index("diff --git ")
        return text[:start] + text[text.index(f"--- a/{old}", start) :]

    draft.wraps.append(bare)
    return _altered(draft, moved=True)
