"""A model's diff becomes bytes: parse -> locate -> apply -> verify. Pure functions, no files, no git.

`apply_answer` is the whole of it; the modules are read in its order:

- `spans`, `parse`, `parse_diff`, `parse_blocks`: the answer's text -> `FilePatch` and `Hunk`
- `paths`: which file is meant, and which names are never written
- `place`, `locate`, `match`, `chains`, `align`, `held`, `choose`, `explain`: a hunk -> its place, or why not
- `indent`, `splice`, `whole`: a placed hunk -> changed lines of the file, all else untouched to the byte
- `verify`: what may not happen, whatever the answer says
- `canonical`, `linediff`: the change as git would show it
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from repoagent.patch.apply import Applied, apply_answer
    from repoagent.patch.canonical import canonical_diff
    from repoagent.patch.fit import Placement
    from repoagent.patch.paths import bad_path
    from repoagent.patch.problems import NoPatch, PatchRefused, Problem
    from repoagent.patch.spans import Span, patch_spans
    from repoagent.patch.text import SourceText, Text, decode

__all__ = [
    "Applied",
    "NoPatch",
    "PatchRefused",
    "Placement",
    "Problem",
    "SourceText",
    "Span",
    "Text",
    "apply_answer",
    "bad_path",
    "canonical_diff",
    "decode",
    "patch_spans",
]

_HOME = {
    "Applied": "apply",
    "NoPatch": "problems",
    "PatchRefused": "problems",
    "Placement": "fit",
    "Problem": "problems",
    "SourceText": "text",
    "Span": "spans",
    "Text": "text",
    "apply_answer": "apply",
    "bad_path": "paths",
    "canonical_diff": "canonical",
    "decode": "text",
    "patch_spans": "spans",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
