"""The formats by name, and the one function that renders them."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from repoagent.review.change import Change
from repoagent.review.finding import Report

FORMATS = ("json", "sarif", "github", "gitlab", "rdjson", "markdown")  # each a module with `render`
_MODULES = {"json": "data"}


def render(report: Report, format: str, *, top: Path, change: Change | None = None) -> bytes:
    """The whole document in UTF-8, with its last newline. `format` is one of FORMATS, else ValueError.

    `top` is where the work tree is, for the forms that name files as they are on disk (none names a path of this
    machine). `change` says which lines differ; without it no suggestion is offered to be applied at a click.
    """
    if format not in FORMATS:
        raise ValueError(f"{format!r} is no format of a report; there are: {', '.join(FORMATS)}")
    module = import_module(f"{__package__}.{_MODULES.get(format, format)}")
    text: str = module.render(report, change=change)
    return text.encode("utf-8")
