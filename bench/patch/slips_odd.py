"""Files with odd bytes: far from the hunks, or inside their lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bench.patch.draft import Draft, hunks
from bench.patch.model import edited
from bench.patch.slip import ANSWER, FILE, slip
from bench.patch.slips_bytes import all_plain, is_crlf


@slip("invalid-bytes-elsewhere", FILE, "bytes context drift order-of-hunks")
def invalid(draft: Draft) -> bool:
    """A few bytes that are no UTF-8, far from any hunk."""
    return _elsewhere(draft, "\udcff\udcfe", "caf\u00e9")


@slip("nul-elsewhere", FILE, "bytes context drift order-of-hunks")
def nul(draft: Draft) -> bool:
    draft.may_refuse = True  # a file with a NUL may be taken for a binary one
    return _elsewhere(draft, "\0", "")


@slip("lone-cr-elsewhere", FILE, "bytes newlines context drift order-of-hunks")
def lone_cr(draft: Draft) -> bool:
    return _elsewhere(draft, "\r", "one\rtwo")


@slip("odd-line-breaks-elsewhere", FILE, "bytes context drift order-of-hunks")
def odd_elsewhere(draft: Draft) -> bool:
    return _elsewhere(draft, "\x0c", "a\u2028b\u0085c\x0bd")


def _elsewhere(draft: Draft, one: str, other: str) -> bool:
    if not all_plain(draft):
        return False
    for change in draft.changes:
        assert change.before
        assert change.after
        near = {row for hunk in hunks(change, 12) for line in hunk.lines if (row := line.row) is not None}
        far = [
            row
            for row in range(len(change.before.lines))
            if row not in near and len(change.before.lines[row]) > 4
        ]
        if len(far) < 2:
            return False
        lines = list(change.before.lines)
        for row, text in zip(draft.rng.sample(far, 2), (one, other), strict=True):
            lines[row] = lines[row][:2] + text + lines[row][2:]
        change.before = replace(change.before, lines=tuple(lines))
        change.after = replace(change.after, lines=edited(lines, change.edits))
    return True


@slip("odd-line-breaks-inside", FILE, "bytes")
def odd_inside(draft: Draft) -> bool:
    """Form feeds and U+2028 in the lines of the hunks: no line ends there."""
    if not all_plain(draft):
        return False
    char = draft.rng.choice(["\x0c", "\u2028", "\u0085", "\x0b", "\x1c"])
    for change in draft.changes:
        change.rewrite(
            lambda lines: [
                line[:3] + char + line[3:] if len(line) > 9 and len(line) % 3 == 0 else line for line in lines
            ]
        )
    return any(
        char in line.text for change in draft.changes for hunk in hunks(change, 3) for line in hunk.lines
    )


@slip("form-feed-lines", FILE, "bytes")
def form_feeds(draft: Draft) -> bool:
    """Blank lines of the file that hold a form feed."""
    if not all_plain(draft):
        return False
    for change in draft.changes:
        change.rewrite(lambda lines: [line or "\x0c" for line in lines])
    return any(
        "\x0c" in line.text for change in draft.changes for hunk in hunks(change, 3) for line in hunk.lines
    )


@slip("non-english", FILE, "bytes")
def non_english(draft: Draft) -> bool:
    """Chinese, Cyrillic, accents and emoji in the lines of the hunks."""
    if not all_plain(draft):
        return False
    words = {
        "the": "\u7684\u6587\u4ef6", "with": "\u0441", "value": "\u7ed3\u679c", "name": "pr\u00e9nom",
        "error": "\u043e\u0448\u0438\u0431\u043a\u0430", "test": "t\u00ebst", "is": "\u306f", "data": "\U0001f4be",
    }  # fmt: skip

    def told(lines: Sequence[str]) -> list[str]:
        return [" ".join(words.get(word, word) for word in line.split(" ")) for line in lines]

    for change in draft.changes:
        change.rewrite(told)
    return any(
        not line.text.isascii()
        for change in draft.changes
        for hunk in hunks(change, 3)
        for line in hunk.lines
    )


@slip("decomposed-accents", FILE, "bytes typography")
def decomposed(draft: Draft) -> bool:
    """The file has letters as letter and accent; the answer has them as one: the same to the eye."""
    if not all_plain(draft):
        return False
    draft.may_refuse = True
    for change in draft.changes:
        change.rewrite(lambda lines: [line.replace("en", "e\u0301n") for line in lines])
        if any("e\u0301" in line for edit in change.edits for line in edit.added):
            return False  # which form a new line should have is not said
    draft.wraps.append(lambda text: text.replace("e\u0301", "\u00e9"))
    return any(
        "e\u0301" in line.text for change in draft.changes for hunk in hunks(change, 3) for line in hunk.lines
    )


@slip("executable", FILE, "mode")
def executable(draft: Draft) -> bool:
    """An executable file stays one."""
    for change in draft.changes:
        change.both(mode="100755")
    return True


@slip("large-file", FILE, "size")
def large(draft: Draft) -> bool:
    """The changed file in the middle of 20,000 lines."""
    change = draft.changes[0]
    draft.changes = [change]
    if not change.before or not change.after or len(change.before.lines) < 300 or is_crlf(change.before):
        return False
    own, total = change.before.lines, 20_000
    above: list[str] = []
    number = 0
    while len(above) < total // 2:
        number += 1
        above += [
            f"{line} {number}" if line.strip() else line for line in own[: draft.rng.randrange(100, 300)]
        ]
    below = [f"{line} {number}b" if line.strip() else line for line in (*own, *above)][
        : max(0, total - len(above) - len(own))
    ]
    change.before = replace(change.before, lines=(*above, *own, *below), final_newline=True)
    change.edits = [replace(e, start=e.start + len(above), end=e.end + len(above)) for e in change.edits]
    change.after = replace(change.after, lines=edited(change.before.lines, change.edits), final_newline=True)
    return True


@slip("answer-with-byte-order-mark", ANSWER, "answer-start")
def answer_mark(draft: Draft) -> bool:
    draft.outermost.append(lambda text: "\ufeff" + text)
    return True
