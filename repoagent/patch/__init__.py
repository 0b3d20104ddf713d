"""A model's diff becomes bytes: parse -> locate -> apply -> verify. Pure functions, no files, no git.

`apply_answer` (in `apply`) is the whole of it. In its order:

- `parse/`: the answer's text -> `FilePatch` and `Hunk` (`hunk`); `tolerances`, `strict`: what reading forgave
- `paths`, `target`: which file is meant, and which names are never written
- `readings`, `outcome`: several patches of one file, and what they come to together
- `locate/`: a hunk -> its place in the lines of the file (`text`), or why not (`problems`)
- `splice/`: a placed hunk -> changed lines of the file, all else untouched to the byte
- `verify`: what may not happen, whatever the answer says
- `canonical`, `linediff`: the change as git would show it
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from repoagent.door import door

if TYPE_CHECKING:
    from repoagent.patch.apply import Applied, apply_answer, apply_patches, read_answer
    from repoagent.patch.canonical import canonical_diff
    from repoagent.patch.files import Outcome
    from repoagent.patch.hunk import FilePatch
    from repoagent.patch.linediff import differing
    from repoagent.patch.locate.fit import Placement
    from repoagent.patch.parse.spans import Span, patch_spans
    from repoagent.patch.paths import bad_path, known_path
    from repoagent.patch.problems import NoPatch, PatchRefused, Problem
    from repoagent.patch.text import SourceText, Text, decode

__all__ = [
    "Applied",
    "FilePatch",
    "NoPatch",
    "Outcome",
    "PatchRefused",
    "Placement",
    "Problem",
    "SourceText",
    "Span",
    "Text",
    "apply_answer",
    "apply_patches",
    "bad_path",
    "canonical_diff",
    "decode",
    "differing",
    "known_path",
    "patch_spans",
    "read_answer",
]

_HOME = {
    "Applied": "apply",
    "FilePatch": "hunk",
    "NoPatch": "problems",
    "Outcome": "files",
    "PatchRefused": "problems",
    "Placement": "locate.fit",
    "Problem": "problems",
    "SourceText": "text",
    "Span": "parse.spans",
    "Text": "text",
    "apply_answer": "apply",
    "apply_patches": "apply",
    "bad_path": "paths",
    "canonical_diff": "canonical",
    "decode": "text",
    "differing": "linediff",
    "known_path": "paths",
    "patch_spans": "parse.spans",
    "read_answer": "apply",
}

__getattr__ = door(__name__, _HOME)
