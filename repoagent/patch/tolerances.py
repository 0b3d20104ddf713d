"""The names of what is forgiven in a patch, and what to say of each. `strict` forgives none."""

from __future__ import annotations

READING = {
    "counts": "the lengths in the `@@` line were wrong",
    "numbers": "the `@@` line had no numbers, or was missing",
    "header": "the `---` or `+++` line was missing or unusual",
    "path": "the file was named by something else than its path",
    "blank-context": "blank lines lacked their leading space",
    "bare-context": "context lines lacked their leading space",
    "quoted": "the `>` before each line was dropped",
    "numbered": "line numbers before the text were dropped",
    "indented": "the indentation of the whole diff was dropped",
    "colours": "terminal colour codes were dropped",
    "invisible": "invisible characters before the text were dropped",
    "marked-context": "a line deleted and added again unchanged was taken for context",
}
"""Forgiven while an answer is read."""

PLACING = {
    "trailing-space": "lines matched after ignoring trailing white space; the file's was kept",
    "punctuation": "lines matched after ignoring typographic punctuation; the file's was kept",
    "whitespace": "lines matched after ignoring white space; the file's was kept",
    "html": "HTML escapes such as `&lt;` were decoded",
    "elision": "a line such as `...` was taken for lines of the file, which were kept",
    "split": "the parts of the hunk were placed separately, as the file has other lines between them",
    "fuzzy-context": "some context lines are not in the file; the file's own were kept",
}
"""Forgiven while a hunk is placed: what the lines differed in, and whose text the file has now."""

TOLERANCES = {**READING, **PLACING}
SPACED = "the space after each `+` was dropped"  # "whitespace" in a new file, which has nothing to match
