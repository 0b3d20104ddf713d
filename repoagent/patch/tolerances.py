"""The names of what is forgiven in a patch. Each can be seen in the result, and `strict` forgives none."""

from __future__ import annotations

READING = {
    "counts": "The lengths in an `@@` line are not those of the hunk.",
    "numbers": "An `@@` line has no numbers, or a hunk has no `@@` line.",
    "header": "A `---` or `+++` line is missing, or the file is named in another way than a diff names it.",
    "path": "The file's name is absolute, has a strange prefix, or is only the end of the real one.",
    "blank-context": "A blank line of the file stands in the hunk without its leading space.",
    "bare-context": "Lines of context have lost their leading space.",
    "quoted": "The diff stands in a quotation, with `>` before each line.",
    "numbered": "The lines of the diff have line numbers before them, or right after their signs.",
    "indented": "The diff as a whole is indented, in a list or a quotation.",
    "colours": "The diff was copied with a terminal's colour codes.",
    "invisible": "Marks of no width stand before a line.",
    "marked-context": "A line is deleted and added again unchanged.",
}
"""Forgiven while an answer is read."""

PLACING = {
    "trailing-space": "Lines differ in white space at their end.",
    "punctuation": "Typographic quotes, dashes and spaces stand for plain ones, or the other way round.",
    "whitespace": "Lines differ in their white space: indentation, tabs for spaces.",
    "html": "The answer came with `&lt;` for `<` and the like.",
    "elision": "A line such as `...` stands for lines of the file that were left out.",
    "split": "Several places of the file were run together in one hunk.",
    "fuzzy-context": "Lines of context are wrong, missing or too many; deleted lines are there as written.",
}
"""Forgiven while a hunk is placed."""

TOLERANCES = {**READING, **PLACING}
