"""Slips in how a diff stands in the answer: fences, prose, quotations, lists, line numbers."""

from __future__ import annotations

from bench.patch.draft import Draft
from bench.patch.slip import ANSWER, BLOCKS, NAMES, RAW, slip

INFOS = {
    "fence-patch": "patch",
    "fence-python": "python",
    "fence-plain": "",
    "fence-text": "text",
    "fence-console": "console",
}
PROSE = (
    "First, the import that is missing:", "Then the condition is turned round.\n\n- keeps the order\n- no new names",
    "* the second part\n* nothing else changes",
    "Next we adjust this place (see above):", "## Step 2\n\nThe call itself.",
    "+ this adds the option\n- this drops the old one", "1. Change the default\n2. Use it here",
)  # fmt: skip


def _info(name: str, info: str) -> None:
    @slip(name, BLOCKS, "fence")
    def fence(draft: Draft) -> bool:
        for block in draft.blocks:
            block.info = info
        return bool(draft.blocks)


for _name, _word in INFOS.items():
    _info(_name, _word)


@slip("fence-info-extra", BLOCKS, "fence")
def info_extra(draft: Draft) -> bool:
    for block, part in zip(draft.blocks, draft.parts, strict=False):
        block.info = draft.rng.choice(["diff:{}", "diff {}", 'diff title="{}"', "diff file={}"]).format(
            part.change.path
        )
    return bool(draft.blocks)


@slip("fence-tilde", BLOCKS, "fence")
def tilde(draft: Draft) -> bool:
    draft.marks = ("~~~", "~~~")
    return not any(line.startswith("~~~") for block in draft.blocks for line in block.lines)


@slip("fence-longer", BLOCKS, "fence")
def longer(draft: Draft) -> bool:
    draft.marks = ("`````", "`````")
    return True


@slip("no-fence", BLOCKS, "fence")
def no_fence(draft: Draft) -> bool:
    draft.marks = ("", "")
    return True


@slip("no-fence-no-prose", BLOCKS, "fence prose")
def bare(draft: Draft) -> bool:
    draft.marks, draft.outro = ("", ""), ""
    for block in draft.blocks:
        block.prose = ""
    return True


@slip("fence-not-closed", BLOCKS, "fence end-of-answer")
def not_closed(draft: Draft) -> bool:
    """The last fence; all lines are there."""
    draft.outro = ""
    draft.wraps.append(lambda text: text.rstrip("\n").removesuffix("```"))
    return True


@slip("prose-long", BLOCKS, "prose")
def prose(draft: Draft) -> bool:
    draft.blocks[0].prose = (
        "Looking at the code, the problem is this:\n\n```\nTraceback (most recent call last):\n  ...\n"
        "KeyError: 'x'\n```\n\n"
        "- the value is read before it is set\n- nobody notices\n\nSo the fix:"
    )
    draft.outro = (
        "Explanation:\n\n- `-` lines go, `+` lines come\n+ no test changes\n\nRun `make test` to see."
    )
    return True


@slip("prose-between-files", NAMES, "prose", files=2)
def prose_between(draft: Draft) -> bool:
    for part in draft.parts:
        part.prose = [draft.rng.choice(PROSE)]
    return len(draft.parts) > 1


@slip("prose-between-unfenced", NAMES, "prose fence", files=2)
def prose_between_unfenced(draft: Draft) -> bool:
    """Files without a fence, prose between them."""
    for part in draft.parts:
        part.prose = [draft.rng.choice([text for text in PROSE if text[0].isalpha()])]
    draft.marks = ("", "")
    return len(draft.parts) > 1


@slip("fence-for-each-file", NAMES, "prose", files=2)
def separate(draft: Draft) -> bool:
    draft.separate = True
    return len(draft.parts) > 1


@slip("blank-lines-between-hunks", RAW, "gaps")
def gaps(draft: Draft) -> bool:
    """A blank line between hunks, which is none of the file's."""
    found = False
    for part in draft.parts:
        for hunk in part.hunks[1:]:
            hunk.written()
            if hunk.header:
                hunk.header = "\n" + hunk.header
                found = True
    return found


@slip("blank-line-before-hunk", RAW, "gaps")
def gap_first(draft: Draft) -> bool:
    for part in draft.parts:
        part.head.append("")
    return bool(draft.hunks)


@slip("quoted", ANSWER, "wrap")
def quoted(draft: Draft) -> bool:
    def wrap(text: str) -> str:
        return "".join(f"> {line}\n" if line else ">\n" for line in text.rstrip("\n").split("\n"))

    draft.wraps.append(wrap)
    return True


@slip("quoted-diff-only", BLOCKS, "wrap fence")
def quoted_diff(draft: Draft) -> bool:
    draft.marks = ("", "")
    for block in draft.blocks:
        block.lines = [f"> {line}" if line else ">" for line in block.lines]
    return True


@slip("indented-answer", ANSWER, "wrap")
def indented(draft: Draft) -> bool:
    """All of it, fence and diff, four spaces in."""
    draft.wraps.append(lambda text: "".join(f"    {line}\n" if line else "\n" for line in text.split("\n")))
    return True


@slip("indented-no-fence", BLOCKS, "wrap fence")
def indented_bare(draft: Draft) -> bool:
    """The old Markdown way to show code: four spaces, no fence."""
    draft.marks = ("", "")
    for block in draft.blocks:
        block.lines = ["", *(f"    {line}" if line else "" for line in block.lines), ""]
    return True


@slip("in-a-list", ANSWER, "wrap")
def in_list(draft: Draft) -> bool:
    """Below an item of a list, indented with it; the fence too."""
    width = draft.rng.choice([2, 3, 4])
    head = {2: "- ", 3: "1. ", 4: "  - "}[width]

    def wrap(text: str) -> str:
        lines = text.rstrip("\n").split("\n")
        return f"{head}Change the file:\n\n" + "".join(
            " " * width + line + "\n" if line else "\n" for line in lines
        )

    draft.wraps.append(wrap)
    return True


@slip("fence-indented-diff-not", BLOCKS, "wrap fence")
def fence_indented(draft: Draft) -> bool:
    draft.marks = ("   ```", "   ```")
    return True
