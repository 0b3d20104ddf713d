"""Answers that are cut, undecided or not all there."""

from __future__ import annotations

from dataclasses import replace

from bench.patch.draft import Draft
from bench.patch.model import ADDED, DELETED
from bench.patch.refusal import answered, refusal


@refusal("cut in the middle")
def cut(made: Draft) -> str | None:
    """The answer ends in the middle of an added line."""
    places = [n for n, line in enumerate(made.hunks[-1].lines) if line.kind == ADDED and len(line.text) > 12]
    if not places or made.hunks[-1].lines[-1].kind == ADDED:
        return None
    hunk = made.hunks[-1]
    hunk.number(*hunk.numbers())
    place = made.rng.choice(places)
    line = hunk.lines[place]
    hunk.lines = [*hunk.lines[:place], replace(line, text=line.text[: len(line.text) // 2])]
    made.outro = ""
    return answered(made).rstrip("\n").removesuffix("```").rstrip("\n")


@refusal("cut between changes")
def cut_between(made: Draft) -> str | None:
    """The answer ends at a line's end, but the lines that were to be added are not all there."""
    hunk = made.hunks[-1]
    rows = [n for n, line in enumerate(hunk.lines) if line.kind == ADDED]
    if len(rows) < 4 or rows[-1] - rows[0] != len(rows) - 1:
        return None
    hunk.number(*hunk.numbers())
    hunk.lines = hunk.lines[: rows[1] + 1]
    made.outro = ""
    return answered(made).rstrip("\n").removesuffix("```").rstrip("\n")


@refusal("cut deletion")
def cut_deletion(made: Draft) -> str | None:
    """The deleted lines are there, of those that replace them none."""
    hunk = made.hunks[-1]
    kinds = "".join(line.kind for line in hunk.lines)
    at = kinds.find(DELETED + ADDED)
    if at < 0 or kinds.count(ADDED) < 3:
        return None
    hunk.number(*hunk.numbers())
    hunk.lines = hunk.lines[: at + 1]
    made.outro = ""
    return answered(made).rstrip("\n").removesuffix("```").rstrip("\n")


@refusal("cut: files missing", files=2)
def cut_files(made: Draft) -> str | None:
    """The second file's diff stops after its names."""
    made.parts[1].hunks = []
    made.outro = ""
    return answered(made).rstrip("\n").removesuffix("```").rstrip("\n")


@refusal("either or")
def either(made: Draft) -> str | None:
    """Two versions of the same place, and the choice is left to the reader."""
    made.outro = ""
    rows = [line for hunk in made.hunks for line in hunk.lines if line.kind == ADDED and line.text.strip()]
    if not rows:
        return None
    made.intro, second = made.rng.choice([
        ("You can do it in two ways.\n\n**Option A:**", "**Option B:**"), ("Either:", "or:"),
        ("There are two options.\n\nOption 1 (simple):", "Option 2 (faster):"), ("Use this:", "Alternatively:"),
    ])  # fmt: skip
    first = answered(made)
    made.intro = second
    for line in rows:
        line.text += ";"
    return f"{first}\n{answered(made)}\nChoose the one that you like better.\n"


@refusal("whole file, rest unchanged")
def whole_elided(made: Draft) -> str | None:
    """A file as a whole, of which most is "unchanged"."""
    change = made.changes[0]
    assert change.after is not None
    lines = [line.removesuffix("\r") for line in change.after.lines]
    if not 40 <= len(lines) <= 400 or "```" in "\n".join(lines):
        return None
    mark = "#" if made.seed.language in ("Python", "Ruby", "Shell", "YAML", "TOML") else "//"
    said = made.rng.choice(
        [
            "... rest unchanged",
            "... existing code ...",
            "(rest of the file stays the same)",
            "... remaining code unchanged ...",
        ]
    )
    body = "\n".join([*lines[:15], f"{mark} {said}"])
    return f"Here is the new `{change.path}`:\n\n```{change.path}\n{body}\n```\n"


@refusal("merge conflict as answer")
def conflict(made: Draft) -> str | None:
    """Markers of a merge among the added lines: what is meant was not decided."""
    for hunk in made.hunks:
        rows = [n for n, line in enumerate(hunk.lines) if line.kind == ADDED]
        if rows:
            line = hunk.lines[rows[0]]
            marks = ["<<<<<<< HEAD", line.text, "=======", line.text + " // theirs", ">>>>>>> theirs"]
            hunk.lines[rows[0] : rows[0] + 1] = [replace(line, text=text, bare_end=False) for text in marks]
            known = made.changes[0].before
            return (
                None if known and any(text.startswith("<<<<<<<") for text in known.lines) else answered(made)
            )
    return None


@refusal("deleted file is another")
def deletes_other(made: Draft) -> str | None:
    """The file is to go, but the lines quoted of it are not its own."""
    path = made.changes[0].path
    lines = [
        f"diff --git a/{path} b/{path}",
        "deleted file mode 100644",
        f"--- a/{path}",
        "+++ /dev/null",
        "@@ -1,3 +0,0 @@",
    ]
    return (
        "```diff\n"
        + "\n".join([*lines, "-class Unrelated:", "-    name = 'nothing of this file'", "-    size = 417"])
        + "\n```\n"
    )


@refusal("no change")
def nothing(made: Draft) -> str | None:
    """Prose, and code that is quoted, not changed."""
    change = made.changes[0]
    assert change.before is not None
    lines = [line.removesuffix("\r") for line in change.before.lines[:12]]
    if any(line.startswith("```") for line in lines):
        return None
    return "The code is right as it is:\n\n```\n" + "\n".join(lines) + "\n```\n\nI would not change it.\n"
