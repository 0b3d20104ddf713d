"""Files as a whole, and a form of no tool."""

from __future__ import annotations

from bench.patch.draft import Block, Draft
from bench.patch.model import ADDED, CONTEXT, DELETED, Part
from bench.patch.slip import RAW, slip
from bench.patch.slips_forms import FORM, edits_only, sides


def _whole(name: str, where: str) -> None:
    @slip(
        name,
        RAW,
        FORM
        + " context drift indent trailing typography html pairs elision fused order-of-hunks rewrite size",
    )
    def do(draft: Draft) -> bool:
        """The file as it is to be; `where` it is named."""
        if not edits_only(draft):
            return False
        draft.blocks = []
        for part in draft.parts:
            after = part.change.after
            assert after
            lines = [line.removesuffix("\r") for line in after.lines]
            if len(lines) > 500 or any(line.lstrip().startswith(("```", "~~~", "<<<<<<<")) for line in lines):
                return False
            if any("..." in line or "existing code" in line for line in lines) or not lines[-1].strip():
                return False
            draft.blocks.append(_whole_block(part, lines, where, draft.seed.language.lower()))
        return True


def _whole_block(part: Part, lines: list[str], where: str, language: str) -> Block:
    path = part.change.path
    language = language.split(" ", maxsplit=1)[0]
    return {
        "info": Block("", lines, path),
        "colon": Block("", lines, f"{language}:{path}"),
        "above": Block(f"`{path}`:", lines, language),
        "heading": Block(f"### {path}\n\nThe whole file:", lines, language),
        "bold": Block(f"**{path}**", lines, language),
    }[where]


for _where in ("info", "colon", "above", "heading", "bold"):
    _whole(f"whole-file-{_where}", _where)


@slip("markless-hunks", RAW, FORM + " context drift", blur=1)
def markless(draft: Draft) -> bool:
    """Search and replace with other words: the way some tools say it. Need not be known."""
    if not edits_only(draft) or not draft.hunks:
        return False
    draft.may_refuse = True
    draft.blocks = []
    for part in draft.parts:
        for hunk in part.hunks:
            old, new = sides(hunk)
            lines = ["Replace:", "```", *old, "```", "with:", "```", *new, "```"]
            draft.blocks.append(Block(f"In `{part.change.path}`", lines, ""))
    draft.marks = ("", "")
    return all(line.kind in (CONTEXT, ADDED, DELETED) for hunk in draft.hunks for line in hunk.lines)
