"""Other forms than a unified diff: envelopes, search and replace, files as a whole."""

from __future__ import annotations

from bench.patch.draft import Block, Draft
from bench.patch.model import ADDED, DELETED, Change, File, Hunk
from bench.patch.slip import RAW, slip

FORM = "form fence names numbers marks blank numbered gaps heading planted edge end order bytes-end prose"


def edits_only(draft: Draft) -> bool:
    """Every file is edited in place; no line says where the file ends."""
    return all(_in_place(part.change) for part in draft.parts)


def _in_place(change: Change) -> bool:
    before, after = change.before, change.after
    if before is None or after is None or change.moved or change.copy:
        return False
    return before.mode == after.mode and before.final_newline and after.final_newline


def _envelope(draft: Draft, heads: str) -> list[str]:
    lines = ["*** Begin Patch"]
    for part in draft.parts:
        lines.append(f"*** Update File: {part.change.path}")
        for hunk in part.hunks:
            name = hunk.heading.strip()
            lines.append(
                {"bare": "@@", "heading": f"@@ {name}".rstrip(), "numbers": "@@ -1,2 +1,2 @@"}[heads]
            )
            lines += [line.kind + line.text for line in hunk.lines]
            assert part.change.before
            if heads != "numbers" and hunk.lines[-1].row == len(part.change.before.lines) - 1:
                lines.append("*** End of File")
    return [*lines, "*** End Patch"]


def _enveloped(name: str, heads: str, info: str | None) -> None:
    @slip(name, RAW, FORM, blur=1)
    def do(draft: Draft) -> bool:
        if not edits_only(draft) or not draft.hunks:
            return False
        draft.blocks = [Block(draft.intro, _envelope(draft, heads), info or "")]
        if info is None:
            draft.marks = ("", "")
        return True


_enveloped("envelope", "bare", None)
_enveloped("envelope-headings", "heading", None)
_enveloped("envelope-numbers", "numbers", None)
_enveloped("envelope-fenced", "bare", "")
_enveloped("envelope-fenced-patch", "heading", "patch")


@slip("envelope-no-first-at", RAW, FORM, blur=1)
def envelope_no_at(draft: Draft) -> bool:
    """No `@@` above the first hunk of a file."""
    if not edits_only(draft) or not draft.hunks:
        return False
    lines = _envelope(draft, "bare")
    kept = [
        line for n, line in enumerate(lines) if not (line == "@@" and lines[n - 1].startswith("*** Update"))
    ]
    draft.blocks, draft.marks = [Block(draft.intro, kept, "")], ("", "")
    return True


@slip("envelope-moved", RAW, FORM + " path", blur=1)
def envelope_moved(draft: Draft) -> bool:
    if not edits_only(draft) or not draft.hunks:
        return False
    change = draft.parts[0].change
    assert change.after
    old = change.path
    new = f"moved/{old}"
    lines = _envelope(draft, "bare")
    at = lines.index(f"*** Update File: {old}")
    lines.insert(at + 1, f"*** Move to: {new}")
    change.after = File(
        new,
        change.after.lines,
        change.after.final_newline,
        change.after.mode,
        change.after.encoding,
        change.after.bom,
    )
    draft.blocks, draft.marks = [Block(draft.intro, lines, "")], ("", "")
    return True


@slip(
    "envelope-add-delete",
    RAW,
    FORM
    + " status drift context indent trailing typography html rewrite pairs elision fused order-of-hunks"
    + " bytes newlines mode",
    files=2,
)
def envelope_add_delete(draft: Draft) -> bool:
    """One file added, one deleted."""
    if not edits_only(draft) or len(draft.parts) < 2:
        return False
    new, old = draft.parts[0].change, draft.parts[1].change
    if not new.after or new.after.mode != "100644" or len(new.after.lines) > 400:
        return False
    draft.parts = draft.parts[:2]
    draft.changes = [new, old]
    new.before, new.edits = None, []
    body = [f"+{line}" for line in new.after.lines]
    old_path = old.path
    old.after, old.edits = None, []
    lines = [
        "*** Begin Patch",
        f"*** Add File: {new.path}",
        *body,
        f"*** Delete File: {old_path}",
        "*** End Patch",
    ]
    draft.blocks, draft.marks = [Block(draft.intro, lines, "")], ("", "")
    return not any("\r" in line for line in body)


def sides(hunk: Hunk) -> tuple[list[str], list[str]]:
    old = [line.text for line in hunk.lines if line.kind != ADDED]
    new = [line.text for line in hunk.lines if line.kind != DELETED]
    return old, new


def _marks(draft: Draft) -> bool:
    """No line that could be taken for a mark of the form."""
    marks = ("<<<<<<<", "=======", ">>>>>>>", "```")
    return not any(line.text.startswith(marks) for hunk in draft.hunks for line in hunk.lines)


def _block(hunk: Hunk) -> list[str]:
    old, new = sides(hunk)
    return ["<<<<<<< SEARCH", *old, "=======", *new, ">>>>>>> REPLACE"]


def _replaced(name: str, where: str) -> None:
    @slip(name, RAW, FORM, blur=1)
    def do(draft: Draft) -> bool:
        """A block for each hunk; `where` the file is named."""
        if not edits_only(draft) or not _marks(draft) or not draft.hunks:
            return False
        draft.blocks = []
        for part in draft.parts:
            path = part.change.path
            for number, hunk in enumerate(part.hunks):
                lines = _block(hunk)
                prose, info = "", draft.seed.language.lower().split(" ")[0]
                if where == "above":
                    prose = path
                elif where == "inside":
                    lines = [path, *lines]
                elif where == "bold":
                    prose = f"**`{path}`**"
                elif where == "info":
                    info = f"{info}:{path}"
                elif where == "once":
                    prose = path if number == 0 else ""
                draft.blocks.append(Block(prose, lines, info))
        if where == "bare":
            draft.marks = ("", "")
            for block, path in zip(
                draft.blocks, [part.change.path for part in draft.parts for _ in part.hunks], strict=True
            ):
                block.lines = [path, *block.lines]
        return True


_replaced("search-replace", "above")
_replaced("search-replace-name-inside", "inside")
_replaced("search-replace-name-bold", "bold")
_replaced("search-replace-name-in-info", "info")
_replaced("search-replace-name-once", "once")
_replaced("search-replace-no-fence", "bare")


@slip("search-replace-one-fence", RAW, FORM, blur=1)
def one_fence(draft: Draft) -> bool:
    """All blocks of a file in one fence."""
    if not edits_only(draft) or not _marks(draft) or not draft.hunks:
        return False
    draft.blocks = [
        Block(part.change.path, [line for hunk in part.hunks for line in [*_block(hunk), ""]][:-1], "")
        for part in draft.parts
    ]
    return all(part.hunks for part in draft.parts)


@slip("search-replace-minimal", RAW, FORM + " context drift elision", blur=1)
def minimal(draft: Draft) -> bool:
    """Only what changes, without context; it stands there once."""
    if not edits_only(draft) or not _marks(draft) or not draft.hunks:
        return False
    draft.blocks = []
    for part in draft.parts:
        before = part.change.before
        assert before
        for edit in part.change.edits:
            old = [line.removesuffix("\r") for line in before.lines[edit.start : edit.end]]
            whole = "\n" + "\n".join(line.removesuffix("\r") for line in before.lines) + "\n"
            if not old or len("".join(old).strip()) < 8 or whole.count("\n" + "\n".join(old) + "\n") != 1:
                return False
            new = [line.removesuffix("\r") for line in edit.added]
            lines = ["<<<<<<< SEARCH", *old, "=======", *new, ">>>>>>> REPLACE"]
            draft.blocks.append(Block(part.change.path, lines, ""))
    return True
