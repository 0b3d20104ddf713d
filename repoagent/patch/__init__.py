"""A model's diff becomes bytes: parse -> locate -> apply -> verify. Pure functions, no files, no git.

`apply_answer` is the whole of it; the modules are read in its order:

- `marks`, `wrapping`, `numbering`, `bare`, `fences`, `spans`: where in the answer the patches stand, and
  their lines as they read
- `parse`, `parse_diff`, `hunks`, `envelope`, `parse_blocks`, `heredoc`, `prose`: these -> `FilePatch` and `Hunk`
- `names`, `paths`, `target`, `decide`, `strict`: which file is meant, and which names are never written
- `place`, `locate`, `match`, `chains`, `align`, `held`, `choose`, `explain`: a hunk -> its place, or why not
- `indent`, `splice`, `whole`: a placed hunk -> changed lines of the file, all else untouched to the byte
- `verify`: what may not happen, whatever the answer says
- `canonical`, `linediff`: the change as git would show it
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from repoagent.patch.apply import Applied, apply_answer, apply_patches, read_answer
    from repoagent.patch.canonical import canonical_diff
    from repoagent.patch.fit import Placement
    from repoagent.patch.hunk import FilePatch
    from repoagent.patch.linediff import differing
    from repoagent.patch.paths import bad_path, known_path
    from repoagent.patch.problems import NoPatch, PatchRefused, Problem
    from repoagent.patch.spans import Span, patch_spans
    from repoagent.patch.text import SourceText, Text, decode

__all__ = [
    "Applied",
    "FilePatch",
    "NoPatch",
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
    "PatchRefused": "problems",
    "Placement": "fit",
    "Problem": "problems",
    "SourceText": "text",
    "Span": "spans",
    "Text": "text",
    "apply_answer": "apply",
    "apply_patches": "apply",
    "bad_path": "paths",
    "canonical_diff": "canonical",
    "decode": "text",
    "differing": "linediff",
    "known_path": "paths",
    "patch_spans": "spans",
    "read_answer": "apply",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
