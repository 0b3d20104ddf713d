"""Other forms than a unified diff: envelopes, search and replace, whole files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from bench.patch.draft import Block, Draft, shown
from bench.patch.model import ADDED, CONTEXT, DELETED, Hunk, Part
from bench.patch.slip import RAW, SlipFunction, slip

FORM = "form fence names numbers marks blank numbered gaps heading planted edge end order bytes-end prose"
WHOLE = FORM + " context drift indent trailing typography html pairs elision fused order-of-hunks rewrite"
MARKS = ("<<<<<<<", "=======", ">>>>>>>", "```")


def _form(
    name: str, about: str = FORM, *, blur: int = 1, files: int = 1
) -> Callable[[SlipFunction], SlipFunction]:
    """Register a slip that uses another form. Every file must be edited in place and end in a newline."""

    def add(do: SlipFunction) -> SlipFunction:
        def checked(draft: Draft) -> bool:
            fits = all(part.change.in_place and part.change.ended for part in draft.parts)
            return fits and (bool(draft.hunks) or not blur) and do(draft)

        slip(name, RAW, about, blur=blur, files=files)(checked)
        return do

    return add


def _bare(draft: Draft, lines: list[str]) -> bool:
    draft.blocks, draft.marks = [Block(draft.intro, lines, "")], ("", "")
    return True


# Envelopes


def _envelope(draft: Draft, heads: str) -> list[str]:
    lines = ["*** Begin Patch"]
    for part in draft.parts:
        lines.append(f"*** Update File: {part.change.path}")
        for hunk in part.hunks:
            lines.append(heads.format(hunk.heading.strip()).rstrip())
            lines += [line.kind + line.text for line in hunk.lines]
            last = len(part.change.before.lines) - 1
            if "-1" not in heads and hunk.lines[-1].row == last:
                lines.append("*** End of File")
    return [*lines, "*** End Patch"]


def _enveloped(draft: Draft, heads: str, info: str | None = None) -> bool:
    lines = _envelope(draft, heads)
    if info is None:
        return _bare(draft, lines)
    draft.blocks = [Block(draft.intro, lines, info)]
    return True


_form("envelope")(partial(_enveloped, heads="@@"))
_form("envelope-headings")(partial(_enveloped, heads="@@ {}"))
_form("envelope-numbers")(partial(_enveloped, heads="@@ -1,2 +1,2 @@"))
_form("envelope-fenced")(partial(_enveloped, heads="@@", info=""))
_form("envelope-fenced-patch")(partial(_enveloped, heads="@@ {}", info="patch"))


@_form("envelope-no-first-at")
def envelope_no_at(draft: Draft) -> bool:
    lines = _envelope(draft, "@@")
    starts = [n for n, line in enumerate(lines) if line == "@@" and lines[n - 1].startswith("*** Update")]
    return _bare(draft, [line for n, line in enumerate(lines) if n not in starts])


@_form("envelope-moved", FORM + " path")
def envelope_moved(draft: Draft) -> bool:
    change = draft.parts[0].change
    lines, old = _envelope(draft, "@@"), change.path
    lines.insert(lines.index(f"*** Update File: {old}") + 1, f"*** Move to: moved/{old}")
    change.after = replace(change.after, path=f"moved/{old}")
    return _bare(draft, lines)


@_form("envelope-add-delete", WHOLE + " status bytes newlines mode", blur=0, files=2)
def envelope_add_delete(draft: Draft) -> bool:
    if len(draft.parts) < 2:
        return False
    draft.parts = draft.parts[:2]
    draft.changes = new, old = [part.change for part in draft.parts]
    if new.after.mode != "100644" or len(new.after.lines) > 400:
        return False
    body, gone = [f"+{line}" for line in new.after.lines], old.path
    new.before, new.edits, old.after, old.edits = None, [], None, []
    lines = ["*** Begin Patch", f"*** Add File: {new.path}", *body]
    lines += [f"*** Delete File: {gone}", "*** End Patch"]
    return _bare(draft, lines) and not any("\r" in line for line in body)


# Search and replace


def sides(hunk: Hunk) -> tuple[list[str], list[str]]:
    old = [line.text for line in hunk.lines if line.kind != ADDED]
    return old, [line.text for line in hunk.lines if line.kind != DELETED]


def _unmarked(draft: Draft) -> bool:
    """Whether no line of a hunk looks like a mark of the form."""
    return not any(line.text.startswith(MARKS) for hunk in draft.hunks for line in hunk.lines)


def _block(old: list[str], new: list[str]) -> list[str]:
    return ["<<<<<<< SEARCH", *old, "=======", *new, ">>>>>>> REPLACE"]


def _replaced(
    draft: Draft, prose: str = "", first: str = "", info: str = "{language}", once: bool = False
) -> bool:
    """One block for each hunk; the prose above, the first line or the info string names the file."""
    if not _unmarked(draft):
        return False
    draft.blocks = []
    for part in draft.parts:
        values = {"path": part.change.path, "language": draft.seed.language.lower().split(" ")[0]}
        for number, hunk in enumerate(part.hunks):
            above = "" if once and number else prose.format_map(values)
            lines = [first.format_map(values)] if first else []
            draft.blocks.append(Block(above, lines + _block(*sides(hunk)), info.format_map(values)))
    return True


@_form("search-replace-no-fence")
def replaced_bare(draft: Draft) -> bool:
    draft.marks = ("", "")
    return _replaced(draft, first="{path}")


_form("search-replace")(partial(_replaced, prose="{path}"))
_form("search-replace-name-inside")(partial(_replaced, first="{path}"))
_form("search-replace-name-bold")(partial(_replaced, prose="**`{path}`**"))
_form("search-replace-name-in-info")(partial(_replaced, info="{language}:{path}"))
_form("search-replace-name-once")(partial(_replaced, prose="{path}", once=True))


@_form("search-replace-one-fence")
def one_fence(draft: Draft) -> bool:

    def lines(part: Part) -> list[str]:
        return [line for hunk in part.hunks for line in (*_block(*sides(hunk)), "")][:-1]

    draft.blocks = [Block(part.change.path, lines(part), "") for part in draft.parts]
    return _unmarked(draft) and all(part.hunks for part in draft.parts)


@_form("search-replace-minimal", FORM + " context drift elision")
def minimal(draft: Draft) -> bool:
    """Only the changed lines, which occur once in the file, without context."""
    if not _unmarked(draft):
        return False
    draft.blocks = []
    for part in draft.parts:
        lines = list(map(shown, part.change.before.lines))
        whole = "\n".join(["", *lines, ""])
        for edit in part.change.edits:
            old = lines[edit.start : edit.end]
            if len("".join(old).strip()) < 8 or whole.count("\n".join(["", *old, ""])) != 1:
                return False
            draft.blocks.append(Block(part.change.path, _block(old, list(map(shown, edit.added))), ""))
    return True


@_form("markless-hunks", FORM + " context drift")
def markless(draft: Draft) -> bool:
    """Search and replace in words; an applier need not understand it."""
    draft.may_refuse = True
    draft.blocks = []
    for part in draft.parts:
        for old, new in map(sides, part.hunks):
            lines = ["Replace:", "```", *old, "```", "with:", "```", *new, "```"]
            draft.blocks.append(Block(f"In `{part.change.path}`", lines, ""))
    draft.marks = ("", "")
    return all(line.kind in (CONTEXT, ADDED, DELETED) for hunk in draft.hunks for line in hunk.lines)


# Files as a whole


def _whole(draft: Draft, prose: str, info: str) -> bool:
    """The file as it should become, named in the prose or in the info string."""
    draft.blocks = []
    for part in draft.parts:
        lines = list(map(shown, part.change.after.lines))
        if len(lines) > 500 or any(line.lstrip().startswith(("```", "~~~", "<<<<<<<")) for line in lines):
            return False
        if any("..." in line or "existing code" in line for line in lines) or not lines[-1].strip():
            return False
        language = draft.seed.language.lower().split(" ", maxsplit=1)[0]
        values = {"path": part.change.path, "language": language}
        draft.blocks.append(Block(prose.format_map(values), lines, info.format_map(values)))
    return True


for _name, _prose, _info in (
    ("info", "", "{path}"),
    ("colon", "", "{language}:{path}"),
    ("above", "`{path}`:", "{language}"),
    ("heading", "### {path}\n\nThe whole file:", "{language}"),
    ("bold", "**{path}**", "{language}"),
):
    _form(f"whole-file-{_name}", WHOLE + " size", blur=0)(partial(_whole, prose=_prose, info=_info))
