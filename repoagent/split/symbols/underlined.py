"""The outline of text without a grammar: underlined headings as in reStructuredText, `== Title` as in AsciiDoc."""

from __future__ import annotations

import re

from repoagent.split.languages import is_binary
from repoagent.split.symbols.headings import sections
from repoagent.split.symbols.names import clean
from repoagent.split.symbols.symbol import Symbol
from repoagent.split.trees import source_text

_UNDERLINED = (".rst", ".rest", ".txt", ".text")
_ASCIIDOC = (".adoc", ".asciidoc", ".asc")
_NAMES = frozenset(
    {"README", "NEWS", "CHANGES", "CHANGELOG", "INSTALL", "HACKING", "TODO", "CONTRIBUTING", "COPYING"}
)
_LINE = re.compile(rb"([=\-~^\"'`#*+:.<>_])\1{2,}[ \t]*\r?$")
_EQUALS = re.compile(rb"(={1,6})[ \t]+(\S.*)")
_FENCE = re.compile(rb"(-{4,}|\.{4,}|={4,}|\+{4,}|/{4,}|```+)[ \t]*\r?$")
_LONGEST = 200  # a title in bytes
_LACKING = 2  # characters that an underline may be too short


def is_plain_text(path: str) -> bool:
    """Whether a file is, by its name, text whose headings can be found without a grammar."""
    name = path.rsplit("/", 1)[-1]
    return name.lower().endswith(_UNDERLINED + _ASCIIDOC) or name in _NAMES


def underlined(path: str, data: bytes) -> tuple[Symbol, ...]:
    """One symbol per heading. A style of underline is of the level at which it is first seen, as reStructuredText has
    it; in running text a line is no heading unless a blank line, or a line like the one below, is above it."""
    if is_binary(data):
        return ()
    lines = source_text(data).split(b"\n")
    found = _asciidoc(lines) if path.lower().endswith(_ASCIIDOC) else _lined(lines)
    return sections(found, len(lines) - (not lines[-1]))


def _lined(lines: list[bytes]) -> list[tuple[int, int, str]]:
    found: list[tuple[int, int, str]] = []
    levels: dict[tuple[bytes, bool], int] = {}
    for row in range(1, len(lines)):
        line, title = lines[row], lines[row - 1].rstrip()
        if line[:1] not in _MARKS or not title or len(title) > _LONGEST or not _LINE.match(line):
            continue
        above = lines[row - 2].rstrip() if row > 1 else b""
        over = bool(above) and above == line.rstrip()
        if (above and not over) or _LINE.match(title) or (title[:1].isspace() and not over):
            continue
        words = clean(title, 120)
        if len(line.rstrip()) < len(words) - _LACKING:
            continue
        level = levels.setdefault((line[:1], over), len(levels) + 1)
        found.append((row - 2 if over else row - 1, level, words))
    return found


_MARKS = frozenset(bytes((c,)) for c in b"=-~^\"'`#*+:.<>_")


def _asciidoc(lines: list[bytes]) -> list[tuple[int, int, str]]:
    found: list[tuple[int, int, str]] = []
    fence = b""
    for row, line in enumerate(lines):
        if match := _FENCE.match(line):
            fence = b"" if fence == match[1] else fence or match[1]
        elif not fence and (match := _EQUALS.match(line)):
            found.append((row, len(match[1]), clean(match[2], 120)))
    return found
