"""The heading after `@@`: which places of a hunk stand under it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from repoagent.patch.locate.fit import Fit
from repoagent.patch.locate.match import LEVELS, WHITESPACE, FileIndex, indent_of

_KEYWORD = (
    r"(?:class|def|fn|func|function|fun|interface|struct|enum|trait|impl|module|namespace|object|type|record"
    r"|method)"
)
_NAME = r"[A-Za-z_$][\w$]*"
_PARTED = re.compile(r"[ \t]+(?:>|»|→|›|::|/)[ \t]+")
_DOTTED = re.compile(
    rf"(?:{_KEYWORD}[ \t]+)?({_NAME}(?:(?:\.|::|#){_NAME})+)[ \t]*(?:\([^()]*\))?[ \t]*[:{{]?$"
)
_PART = re.compile(
    rf"(?:[\w$]+[ \t]+)*?{_KEYWORD}[ \t]+({_NAME})\b|({_NAME})[ \t]*(?:\([^()]*\))?[ \t]*[:{{]?$"
)


def under_heading(section: str, fits: Sequence[Fit], index: FileIndex) -> Sequence[Fit] | None:
    """The fits that stand under the line which the hunk's header quotes, or within the definitions that it names one in
    another (`class A > def f(self):`, `A.f`); None when there is no such line."""
    wanted = LEVELS[WHITESPACE](section)
    if len(wanted) < 3:
        return None
    keys = index.keys(WHITESPACE)
    headings = {
        row for row, key in enumerate(keys) if key.startswith(wanted) or (len(key) > 5 and wanted == key)
    }
    if headings:
        return _below(headings, fits, index.lines)
    names = _path(section)
    found = [set(_defining(name, index.lines)) for name in names]
    if not found or not all(found):
        return None
    for rows in found:
        fits = _below(rows, fits, index.lines)
    return fits


def _below(headings: set[int], fits: Sequence[Fit], lines: Sequence[str]) -> Sequence[Fit]:
    """The fits for which the nearest line above that could be a heading like those is one of them.

    The reach of a heading ends at a line of the same depth or less that starts with a letter, or as it does (with a
    quote in JSON).
    """
    depth = min(_depth(lines[heading]) for heading in headings)
    signs = {lines[heading].lstrip()[:1] for heading in headings}
    within: list[bool] = []
    inside = False
    for row, line in enumerate(lines):
        inside = inside or row in headings
        within.append(inside)
        text = line.lstrip()
        if row not in headings and text and (text[0].isalpha() or text[0] == "_" or text[0] in signs):
            inside = inside and _depth(line) > depth
    return [fit for fit in fits if within and within[min(fit.first, len(within) - 1)]]


def _depth(line: str) -> int:
    return len(indent_of(line).expandtabs(4))


def _path(section: str) -> list[str]:
    """The names of definitions, outermost first, that a heading gives one in another; none for any other heading."""
    dotted = _DOTTED.match(section)
    if dotted is not None:
        return re.split(r"\.|::|#", dotted[1])
    parts = _PARTED.split(section)
    found = [_PART.match(part.strip()) for part in parts]
    names = [match[1] or match[2] for match in found if match is not None]
    return names if len(parts) > 1 and len(names) == len(parts) else []


def _defining(name: str, lines: Sequence[str]) -> Iterator[int]:
    """The rows that define `name`: with a keyword before it, or as a function with its brace."""
    sure = re.compile(rf"(?:[\w$]+[ \t]+)*?{_KEYWORD}[ \t]+(?:\([^()]*\)[ \t]*)?{re.escape(name)}(?![\w$])")
    method = re.compile(
        rf"(?:[\w$<>\[\],.*&?]+[ \t]+)*[*&]*{re.escape(name)}[ \t]*\([^(){{}};=]*\)[^(){{}};=]*(\{{?)$"
    )
    for row, line in enumerate(lines):
        if name not in line or len(line) > 400:
            continue
        text = line.strip()
        found = sure.match(text) or method.match(text)
        if found is None:
            continue
        below = lines[row + 1].strip() if row + 1 < len(lines) else ""
        if found.re is sure or found[1] or below == "{":
            yield row
