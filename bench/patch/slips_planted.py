"""Files whose own lines look like diffs, fences, marks or elisions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from bench.patch.draft import Draft, hunks
from bench.patch.model import Change, Edit, edited
from bench.patch.slip import FILE, NAMES, slip


def plant(change: Change, row: int, lines: Sequence[str]) -> None:
    """Lines that were in the file all along, above `row`."""
    assert change.before
    assert change.after
    tail = "\r" if change.before.lines[0].endswith("\r") else ""
    own = list(change.before.lines)
    own[row:row] = [line + tail for line in lines]
    change.edits = [
        replace(edit, start=edit.start + len(lines), end=edit.end + len(lines)) if edit.start >= row else edit
        for edit in change.edits
    ]
    change.before = replace(change.before, lines=tuple(own))
    change.after = replace(change.after, lines=edited(own, change.edits))


DIFF = ("--- a/old/name.py", "+++ b/new/name.py", "@@ -1,3 +1,3 @@", " kept", "-gone", "+come")
FENCED = ("```diff", *DIFF, "```")
CONFLICT = ("<<<<<<< HEAD", "ours = 1", "=======", "theirs = 2", ">>>>>>> topic")
BLOCK = ("<<<<<<< SEARCH", "old text", "=======", "new text", ">>>>>>> REPLACE")
ENVELOPE = ("*** Begin Patch", "*** Update File: some/file.py", "@@", "-old", "+new", "*** End Patch")


def _planted(name: str, lines: Sequence[str], *, above: bool) -> None:
    @slip(name, FILE, "planted fence marks numbered wrap context numbers", combines=True)
    def do(draft: Draft) -> bool:
        """Such lines stand in the file beside a change."""
        change = draft.changes[0]
        if not change.before or not change.after or not change.edits:
            return False
        edit = draft.rng.choice(change.edits)
        row = edit.start - (1 if above and edit.start else 0) if above else edit.end + 1
        if row > len(change.before.lines) - 1 or any(other.start < row < other.end for other in change.edits):
            return False
        plant(change, row, lines)
        return True


_planted("context-has-fence", ("```python", "print(1)", "```"), above=True)
_planted("context-has-fence-below", ("", "```"), above=False)
_planted("context-has-diff", DIFF, above=True)
_planted("context-has-fenced-diff", FENCED, above=True)
_planted("context-has-conflict", CONFLICT, above=True)
_planted("context-has-search-replace", BLOCK, above=True)
_planted("context-has-envelope", ENVELOPE, above=False)
_planted("context-has-ellipsis", ("    ...",), above=True)
_planted("context-has-comment-ellipsis", ("# ... existing code ...",), above=True)
_planted("context-has-quotation", ("> quoted", "> ```", "> + more"), above=True)
_planted("context-has-numbers", ("  12 | one", "  13 | two", "  14 | three"), above=True)


def _adding(name: str, lines: Sequence[str]) -> None:
    @slip(name, FILE, "planted fence marks numbered wrap context numbers rewrite indent")
    def do(draft: Draft) -> bool:
        """Such lines are added to the file."""
        return _with(
            draft, lambda edit, tail: replace(edit, added=(*edit.added, *(line + tail for line in lines)))
        )


def _with(draft: Draft, alter: Callable[[Edit, str], Edit]) -> bool:
    change = draft.changes[0]
    if (
        not change.before
        or not change.after
        or not change.edits
        or change.edits[-1].end >= len(change.before.lines) - 4
    ):
        return False
    tail = "\r" if change.before.lines[0].endswith("\r") else ""
    number = draft.rng.randrange(len(change.edits))
    change.edits[number] = alter(change.edits[number], tail)
    change.after = replace(change.after, lines=edited(change.before.lines, change.edits))
    return True


_adding("adds-fence", ("", "```sh", "make", "```", ""))
_adding("adds-fenced-diff", FENCED)
_adding("adds-diff", DIFF)
_adding("adds-conflict-test", ('    text = """', "=======", '"""'))
_adding("adds-plus-plus", ("++ counter", "++ b/other.py", "- - -"))
_adding("adds-ellipsis", ("class Later:", "    ...", "    items: tuple[int, ...]"))
_adding("adds-html-entities", ("<p>a &amp; b &lt; c</p>",))
_adding("adds-typography", ("\u201cquoted\u201d \u2013 it\u2019s",))
_adding("adds-tag", ("<finish>no</finish>", "<run>ls</run>"))


@slip("deletes-dashes", FILE, "planted marks context numbers rewrite")
def dashes(draft: Draft) -> bool:
    """A deleted line begins with `-- `, so that it reads as a header; counts are right."""
    change = draft.changes[0]
    if not change.before or not change.after or not change.edits or len(change.edits[0].added) == 0:
        return False
    edit = change.edits[0]
    tail = "\r" if change.before.lines[0].endswith("\r") else ""
    rows = ("-- a/select the rows", "-- of the table")
    plant(change, edit.start, rows)
    change.edits[0] = replace(
        change.edits[0], start=edit.start, added=(f"++ of it{tail}", *change.edits[0].added)
    )
    assert change.before
    change.after = replace(change.after, lines=edited(change.before.lines, change.edits))
    return len(hunks(change, 3)) > 0


@slip("git-header-only-names", NAMES, "names")
def git_only(draft: Draft) -> bool:
    """`diff --git` and hunks, without `---` and `+++`."""
    for part in draft.parts:
        change = part.change
        if not change.before or not change.after or change.moved or change.before.mode != change.after.mode:
            return False
        part.head = [f"diff --git a/{change.path} b/{change.path}", "index 3f1c2ab..9d04e17 100644"]
    return True
