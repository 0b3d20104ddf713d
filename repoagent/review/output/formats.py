"""The formats by name, and the one function that renders them."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from repoagent.review.change import Change
from repoagent.review.finding import Report

_RENDERERS = {
    "json": "repoagent.review.output.data:render",
    "sarif": "repoagent.review.output.sarif:render",
    "github": "repoagent.review.output.github:render",
    "gitlab": "repoagent.review.output.gitlab:render",
    "rdjson": "repoagent.review.output.rdjson:render",
    "markdown": "repoagent.review.output.markdown:render",
}
FORMATS = tuple(_RENDERERS)


def render(report: Report, format: str, *, top: Path, change: Change | None = None) -> bytes:
    """The whole document in UTF-8, with its last newline. `format` is one of FORMATS, else ValueError.

    `top` is where the work tree is, for the forms that name files as they are on disk (none names a path of this
    machine). `change` says which lines differ; without it no suggestion is offered to be applied at a click.
    """
    if format not in FORMATS:
        raise ValueError(f"{format!r} is no format of a report; there are: {', '.join(FORMATS)}")
    module, _, function = _RENDERERS[format].partition(":")
    text: str = getattr(import_module(module), function)(report, change=change)
    return text.encode("utf-8")
