"""Render a report in a format by name, and as repoagent's own JSON.

Also helpers for all formats: text without control characters that is always writable as UTF-8, and the lines of a text
that a finding or its suggestion concerns.
"""

from __future__ import annotations

import json
import re
import unicodedata
from importlib import import_module
from pathlib import Path

from repoagent import display_text
from repoagent.review.change import Change, split_lines
from repoagent.review.finding import Finding, Location, Report, Suggestion, as_data

_RENDERERS = {
    "json": "repoagent.review.output.formats:render_json",
    "sarif": "repoagent.review.output.sarif:render",
    "github": "repoagent.review.output.ci:render_github",
    "gitlab": "repoagent.review.output.ci:render_gitlab",
    "rdjson": "repoagent.review.output.ci:render_rdjson",
    "markdown": "repoagent.review.output.markdown:render",
}
FORMATS = tuple(_RENDERERS)


def render(report: Report, format: str, *, top: Path, change: Change | None = None) -> bytes:
    """The document in UTF-8. `format` is one of FORMATS, else ValueError.

    `top` is the work tree; no format contains it. `change` has the lines that differ; without it, no suggestion can be
    applied with a click.
    """
    if format not in FORMATS:
        raise ValueError(f"unknown format {format!r}; the formats are: {', '.join(FORMATS)}")
    module, _, function = _RENDERERS[format].partition(":")
    text: str = getattr(import_module(module), function)(report, change=change)
    return text.encode("utf-8")


VERSION = 1


def render_json(report: Report, *, change: Change | None = None) -> str:
    """The report as JSON. Bytes of a path that are not UTF-8 are surrogate escapes."""
    return json.dumps(report_data(report), indent=2) + "\n"


def report_data(report: Report) -> dict[str, object]:
    """The content of `render_json`."""
    worst = report.worst()
    return {
        "version": VERSION,
        "title": report.title,
        "base": report.base or None,
        "head": report.head or None,
        "files": report.files,
        "rules": list(report.rules),
        "worst": None if worst is None else worst.word,
        "findings": [as_data(finding) for finding in report.findings],
        "dismissed": [as_data(finding) for finding in report.dismissed],
        "dropped": report.dropped,
        "unseen": list(report.unseen),
        "notes": list(report.notes),
        "model": report.model or None,
        "tokens": report.tokens,
        "cost": report.cost,
    }


_VISIBLE = "\t\n\u200c\u200d"  # white space, and joiners in letters and emoji


def plain(text: str) -> str:
    """`text` with control and bidirectional characters made visible, except newlines and tabs; CRLF becomes LF."""
    if text.isascii() and text.isprintable():
        return text
    text = text.replace("\r\n", "\n")
    return "".join(
        display_text.visible(character) if _is_control(character) else character for character in text
    )


def plain_line(text: str) -> str:
    """As `plain`, on one line with single spaces."""
    return " ".join(plain(text).split())


def writable(text: str) -> str:
    """`text` with U+FFFD for surrogate escapes, which UTF-8 cannot encode."""
    return re.sub("[\ud800-\udfff]", "\ufffd", text)


def shorten(text: str, most: int) -> str:
    """`text` cut to at most `room` characters, with an ellipsis."""
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def count(number: int, singular: str, plural: str = "") -> str:
    """`1 file`, `2 files`."""
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def _is_control(character: str) -> bool:
    return character not in _VISIBLE and unicodedata.category(character) in {"Cc", "Cf", "Cs", "Zl", "Zp"}


def shown(line: bytes) -> str:
    """A line as text without its ending, with surrogate escapes."""
    return line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8", "surrogateescape")


def text_lines(text: str) -> list[str]:
    """The lines of a text without their endings; [] for an empty one."""
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")] if text else []


def lines_of(report: Report, location: Location) -> list[str]:
    """The lines of the new text at `place`; [] if the text or the lines are missing."""
    text = report.by_file.get(location.path)
    if text is None or location.old or location.start < 1:
        return []
    return [shown(line) for line in split_lines(text)[location.start - 1 : location.end]]


def before_and_after(report: Report, suggestion: Suggestion) -> tuple[bytes, bytes] | None:
    """The new text, and the same with the suggestion applied; None if it does not fit."""
    location, text = suggestion.location, report.by_file.get(suggestion.location.path)
    if text is None or location.old or not 1 <= location.start <= location.end:
        return None
    lines = split_lines(text)
    if location.end > len(lines):
        return None
    new = suggestion.text.encode("utf-8", "surrogateescape")
    if new and not new.endswith(b"\n") and location.end < len(lines):
        new += b"\n"
    return text, b"".join(lines[: location.start - 1]) + new + b"".join(lines[location.end :])


def added_lines(change: Change | None, path: str) -> frozenset[int]:
    """The numbers of the lines of `path` that the change adds or rewrites."""
    if change is None:
        return frozenset()
    return frozenset(
        number
        for file in change.files
        if file.path == path and file.status != "deleted"
        for lines in change.read_lines(file)
        for number in range(lines.new, lines.new + len(lines.added))
    )


def region(finding: Finding) -> tuple[int, int] | None:
    """The first and the last line of a finding in the new text; None for the whole file and for removed lines."""
    location = finding.location
    if location.old or location.start < 1:
        return None
    return location.start, max(location.start, location.end)
