"""The lines of a text that a finding speaks of, and the text with its suggestion in it."""

from __future__ import annotations

import io

from repoagent.review.change import Change
from repoagent.review.finding import Finding, Place, Report, Suggestion


def split_lines(text: bytes) -> list[bytes]:
    """Lines with their ending; only a line feed ends one, as for git."""
    return io.BytesIO(text).readlines()


def shown(line: bytes) -> str:
    """A line as text without its ending; what is no UTF-8 as surrogates."""
    return line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8", "surrogateescape")


def text_lines(text: str) -> list[str]:
    """The lines of a text without their endings; none of an empty one."""
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")] if text else []


def lines_of(report: Report, place: Place) -> list[str]:
    """The lines of the new text at `place`; [] when it is not at hand, or the place is not in it."""
    text = report.by_file.get(place.path)
    if text is None or place.old or place.start < 1:
        return []
    return [shown(line) for line in split_lines(text)[place.start - 1 : place.end]]


def before_and_after(report: Report, suggestion: Suggestion) -> tuple[bytes, bytes] | None:
    """The text, and the text with the suggestion in it; None when it does not fit what is at hand."""
    place, text = suggestion.place, report.by_file.get(suggestion.place.path)
    if text is None or place.old or not 1 <= place.start <= place.end:
        return None
    lines = split_lines(text)
    if place.end > len(lines):
        return None
    new = suggestion.text.encode("utf-8", "surrogateescape")
    if new and not new.endswith(b"\n") and place.end < len(lines):
        new += b"\n"
    return text, b"".join(lines[: place.start - 1]) + new + b"".join(lines[place.end :])


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
    """The first and the last line of a finding in the text that the change leaves; None for the whole file, and for
    lines that are gone."""
    place = finding.place
    if place.old or place.start < 1:
        return None
    return place.start, max(place.start, place.end)
