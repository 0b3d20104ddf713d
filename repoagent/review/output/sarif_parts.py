"""Places and fixes as SARIF has them."""

from __future__ import annotations

import os
from urllib.parse import quote_from_bytes

from repoagent.review.finding import Report, Suggestion
from repoagent.review.output.lines import shown, split_lines


def uri(path: str) -> str:
    """A path as a relative reference (RFC 3986): its bytes, all but the unreserved ones and the slash in percent."""
    return quote_from_bytes(os.fsencode(path), safe="/")


def location(path: str, lines: tuple[int, int] | None) -> dict[str, object]:
    """Lines of a file, counted from 1, or all of it."""
    place: dict[str, object] = {"artifactLocation": _artifact(path)}
    if lines is not None:
        place["region"] = {"startLine": lines[0], "endLine": lines[1]}
    return {"physicalLocation": place}


def fix(report: Report, suggestion: Suggestion) -> dict[str, object] | None:
    """The suggestion, when it can be said in Unicode and in lines of the text at hand.

    The region goes from the start of the first line to the start of the line after the last one; where there is none,
    to its end, in UTF-16 code units.
    """
    place, text = suggestion.place, suggestion.text
    source = report.by_file.get(place.path)
    if source is None or place.old or any("\ud800" <= one <= "\udfff" for one in text):
        return None
    lines = split_lines(source)
    if not 1 <= place.start <= place.end <= len(lines):
        return None
    deleted = {"startLine": place.start, "startColumn": 1, "endLine": place.end + 1, "endColumn": 1}
    if not lines[place.end - 1].endswith(b"\n"):
        units = len(shown(lines[place.end - 1]).encode("utf-16-le", "surrogatepass")) // 2
        deleted |= {"endLine": place.end, "endColumn": units + 1}
        text = text.removesuffix("\n")
    return {
        "description": {"text": "The lines as repoagent suggests them."},
        "artifactChanges": [
            {
                "artifactLocation": _artifact(place.path),
                "replacements": [{"deletedRegion": deleted, "insertedContent": {"text": text}}],
            }
        ],
    }


def _artifact(path: str) -> dict[str, object]:
    return {"uri": uri(path), "uriBaseId": "%SRCROOT%"}
