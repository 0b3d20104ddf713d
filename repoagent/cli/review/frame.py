"""The code a finding speaks of, with line numbers and marks, and its suggestion as a diff."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from repoagent.cli.screen.clean import clean, columns, width
from repoagent.cli.screen.glance import front
from repoagent.review.finding import Finding, Report
from repoagent.review.output.lines import before_and_after, shown, split_lines, text_lines

if TYPE_CHECKING:
    from repoagent.cli.review.report import Page

_AROUND = 2  # lines before and after those of the finding
_MOST = 12  # lines of the finding itself: of more the first and the last ones
_END = 3
_TAB = 8
_DIFF = 60  # lines of a suggestion


def frame(report: Report, finding: Finding, page: Page) -> Iterator[str]:
    """The marked lines with those around them; of lines that are gone what was quoted of them; nothing for a file."""
    place = finding.place
    if place.start < 1:
        return
    text = report.by_file.get(place.path)
    known = [] if text is None or place.old else split_lines(text)
    first, last = place.start, max(place.start, place.end)
    if first > len(known):
        lines = text_lines(finding.quote)
        marked = {place.start + index: line for index, line in enumerate(lines)}
        yield from _numbered(
            marked, place.start, place.start + len(lines) - 1, page, "-" if place.old else ">"
        )
        return
    begin, end = max(1, first - _AROUND), min(len(known), last + _AROUND)
    numbered = {number: shown(known[number - 1]) for number in range(begin, end + 1)}
    yield from _numbered(numbered, first, min(last, len(known)), page, ">")


def _numbered(lines: dict[int, str], first: int, last: int, page: Page, mark: str) -> Iterator[str]:
    if not lines:
        return
    gutter = len(str(max(lines)))
    bar = "|" if page.ascii else "│"
    style = ("red",) if mark == "-" else ("bold", "red")
    skipped = range(first + _MOST - _END, last - _END + 1) if last - first + 1 > _MOST else range(0)
    for number, line in lines.items():
        if number in skipped:
            if number == skipped.start:
                dots = "..." if page.ascii else "…"
                yield page.paint(f"{'':{gutter + 3}}{bar} {dots} {len(skipped)} more lines", "dim")
            continue
        on = first <= number <= last
        sign = page.paint(mark, *style) if on else " "
        count = page.paint(f"{number:>{gutter}}", *(() if on else ("dim",)))
        room = None if page.width is None else page.width - gutter - 6
        code = _cut(_expanded(line), room, page)
        yield f" {sign} {count} {page.paint(bar, 'dim')} {page.paint(code, *(() if on else ('dim',)))}".rstrip()


def _expanded(line: str) -> str:
    """The line clean, with spaces for its tabs: the gutter would put them elsewhere."""
    return _tabless(clean(line).replace("\n", "^J"))


def _spaced(line: str) -> str:
    """A line of a diff with spaces for its tabs."""
    return line[:1] + _tabless(line[1:])


def _tabless(text: str) -> str:
    if "\t" not in text:
        return text
    out, column = [], 0
    for character in text:
        step = _TAB - column % _TAB if character == "\t" else width(character, column)
        out.append(" " * step if character == "\t" else character)
        column += step
    return "".join(out)


def _cut(code: str, room: int | None, page: Page) -> str:
    if room is None or columns(code) <= room:
        return code
    dots = "..." if page.ascii else "…"
    return front(code, room - len(dots)) + dots


def suggested(report: Report, finding: Finding, page: Page) -> list[str]:
    """The suggestion as a diff without its head; [] where there is none, or where it does not fit the text."""
    suggestion = finding.suggestion
    texts = None if suggestion is None else before_and_after(report, suggestion)
    if suggestion is None or texts is None or texts[0] == texts[1]:
        return []
    from repoagent.cli.screen.diffview import render
    from repoagent.patch.canonical import canonical_diff
    from repoagent.repo.change import REGULAR, FileChange

    path = suggestion.place.path
    diff = canonical_diff([FileChange(path, path, texts[0], texts[1], REGULAR, REGULAR)])
    hunks = diff[diff.find("\n@@ ") + 1 :] if "\n@@ " in diff else ""
    if not hunks:  # a binary file
        return []
    spaced = "".join(f"{_spaced(line)}\n" for line in hunks.removesuffix("\n").split("\n"))
    shown_diff = render(spaced, color=page.color, columns=page.width and page.width - 2)
    lines = shown_diff.removesuffix("\n").split("\n")
    more = [f"  and {len(lines) - _DIFF} more lines"] if len(lines) > _DIFF else []
    elsewhere = f" in {clean(path)}" if path != finding.place.path else ""
    return [f"  suggested{elsewhere}:", *(f"  {line}" for line in lines[:_DIFF]), *more]
