"""One judge per kind of file: it gets bytes and returns units and seams. None uses the splitter."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from bench.split.marks import Marks

_HOME = {
    "python": "pythons.marks", "json": "markup.json_marks", "yaml": "yamls.marks", "markdown": "texts.markdown_marks",
    "css": "markup.css_marks", "html": "markup.marks", "xml": "markup.marks", "text": "texts.marks",
    "rst": "texts.marks", "bash": "trees.shell_marks",
}  # fmt: skip
BRACKETS = ("javascript", "typescript", "tsx", "java", "go", "rust", "c", "cpp", "bash")
KINDS = ("python", *BRACKETS[:8], "json", "yaml", "xml", "markdown", "html", "css", "bash", "rst", "text")


class Unjudged(Exception):
    """The judge's parser cannot read the file, so it has no verdicts."""


def marks_of(kind: str, text: bytes) -> Marks:
    """The units and seams of a file. Raises Unjudged if it cannot be read as `kind`."""
    module, _, name = _HOME.get(kind, "trees.marks").partition(".")
    judge: Callable[[str, bytes], Marks] = getattr(import_module(f"bench.split.judges.{module}"), name)
    return judge(kind, text)
