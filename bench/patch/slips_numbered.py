"""Line numbers before the lines of a diff."""

from __future__ import annotations

from bench.patch.draft import Draft
from bench.patch.model import ADDED, DELETED
from bench.patch.slip import ANSWER, BLOCKS, RAW, slip

FORMS = ("{n:>4} | {t}", "{n}: {t}", "{n:>5} {t}", "{n}\t{t}", "{n:04d} {t}")


@slip("line-numbered", RAW, "marks blank numbered trailing", blur=1)
def numbered(draft: Draft) -> bool:
    """A number before each line of a hunk, in one of the ways tools show them."""
    form = draft.rng.choice(FORMS)
    for hunk in draft.hunks:
        row, new = hunk.old + 1, hunk.new + 1
        for line in hunk.lines:
            count = new if line.kind == ADDED else row
            line.raw = form.format(n=count, t=line.kind + line.text)
            row, new = row + (line.kind != ADDED), new + (line.kind != DELETED)
    return bool(draft.hunks) and not any(line.bare_end for hunk in draft.hunks for line in hunk.lines)


@slip("line-numbered-counting", RAW, "marks blank numbered trailing several", blur=1)
def counting(draft: Draft) -> bool:
    """The lines of the diff itself numbered from 1, headers too. Not with a repeated hunk: the copy counts anew."""
    number = 0
    for part in draft.parts:
        head = []
        for text in part.head:
            number += 1
            head.append(f"{number:>3} | {text}")
        part.head = head
        for hunk in part.hunks:
            if any(line.bare_end for line in hunk.lines):
                return False
            hunk.written()
            if hunk.header is not None:
                above = hunk.header.split("\n")
                hunk.header = "\n".join(f"{number + n:>3} | {text}" for n, text in enumerate(above, 1))
                number += len(above)
            for line in hunk.lines:
                number += 1
                line.raw = f"{number:>3} | {line.kind}{line.text}"
    draft.marks = ("```", "```")
    return bool(draft.hunks)


@slip("two-number-columns", RAW, "marks blank numbered trailing", blur=1)
def columns(draft: Draft) -> bool:
    """Old and new number before each line, as review tools show them."""
    for hunk in draft.hunks:
        row, new = hunk.old + 1, hunk.new + 1
        for line in hunk.lines:
            left = "" if line.kind == ADDED else str(row)
            right = "" if line.kind == DELETED else str(new)
            line.raw = f"{left:>5} {right:>5} {line.kind}{line.text}"
            row, new = row + (line.kind != ADDED), new + (line.kind != DELETED)
    return bool(draft.hunks) and not any(line.bare_end for hunk in draft.hunks for line in hunk.lines)


@slip("crlf-answer", ANSWER, "newlines")
def crlf_answer(draft: Draft) -> bool:
    """The whole answer with CRLF, of a file that has LF."""
    draft.wraps.append(lambda text: text.replace("\n", "\r\n"))
    return True


@slip("format-patch-mail", BLOCKS, "fence prose")
def mail(draft: Draft) -> bool:
    draft.marks, draft.outro = ("", ""), ""
    paths = [f" {part.change.path} | 4 ++--" for part in draft.parts]
    draft.blocks[0].prose = "\n".join([
        "From 0123456789abcdef0123456789abcdef01234567 Mon Sep 17 00:00:00 2001", "From: A Dev <dev@example.com>",
        "Date: Mon, 2 Nov 2026 10:00:00 +0000", "Subject: [PATCH] Do it right", "", "It was wrong.", "---", *paths,
        f" {len(paths)} file changed, 2 insertions(+), 2 deletions(-)",
    ])  # fmt: skip
    draft.blocks[-1].lines += ["-- ", "2.39.5", ""]
    return all(not block.prose or number == 0 for number, block in enumerate(draft.blocks))


@slip("plan-in-tags", BLOCKS, "prose")
def tags(draft: Draft) -> bool:
    """Thought in tags above, with a sketch of a diff that is none."""
    draft.blocks[
        0
    ].prose = (
        "<thinking>\nThe line `- old` should become `+ new`.\nI must keep @@ headers right.\n</thinking>"
    )
    return True
