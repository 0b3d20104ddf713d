"""A report in the forms that programs and code hosts read: JSON, SARIF, annotations, Code Quality, rdjson, Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repoagent.door import door

if TYPE_CHECKING:
    from repoagent.review.output.formats import FORMATS, render

__all__ = ["FORMATS", "render"]

_HOME = {"FORMATS": "formats", "render": "formats"}

__getattr__ = door(__name__, _HOME)
