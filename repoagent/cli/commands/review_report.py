"""The text report of a review: each finding with its code, its commits and its suggestion as a diff."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from repoagent.cli.ui.sanitize import clean, display_width, one_line, paint, width
from repoagent.cli.ui.table import ago, columns, front, shorten
from repoagent.cli.ui.terminal import has_utf8
from repoagent.review.change import split_lines
from repoagent.review.finding import Finding, Level, Report
from repoagent.review.output.formats import before_and_after, shown, text_lines

if TYPE_CHECKING:
    from repoagent.cli.ui.terminal import Terminal

_LEAST = 40  # columns
_READABLE = 100  # columns of running text
_COMMITS = 5
_HEADS = 5  # findings in the short form
_MANY = 5  # findings from which on a report needs a summary
_TOP = 3  # findings that are named at its end
_INDENT = "  "
_STYLES = {Level.ERROR: ("bold", "red"), Level.WARNING: ("bold", "yellow"), Level.NOTE: ("bold", "blue")}


class Page(NamedTuple):
    """The layout: `width` in columns (None: unlimited); `where` is the top, to make paths relative to the current
    folder."""

    width: int | None
    color: bool
    ascii: bool
    now: float
    where: Path | None = None

    def paint(self, text: str, *styles: str) -> str:
        return paint(text, *styles) if self.color else text


class Brief(NamedTuple):
    """The short form for hooks: findings of rules `below` a level (None: all) are headings only; `why` tells how to see
    the rest."""

    below: Level | None
    why: str


def show(report: Report, terminal: Terminal, *, top: Path | None = None, brief: Brief | None = None) -> None:
    """Write the report to standard output, and what was not reviewed and other notes to standard error.

    With `top`, paths are relative to the current folder, so that a terminal can open them.
    """
    page = Page(
        max(_LEAST, terminal.width) if terminal.shows else None,
        terminal.color,
        not has_utf8(os.environ),
        time.time(),
        top,
    )
    told = lines(report, page, brief)
    if os.environ.get("GITHUB_ACTIONS") == "true":
        told = map(_in_a_log, told)
    terminal.styled("".join(f"{line}\n" for line in told))
    for sentence in report.unseen:
        terminal.warn(f"not reviewed: {sentence}")
    for sentence in report.notes:
        terminal.note(sentence, "dim")


def _in_a_log(line: str) -> str:
    """The line, escaped so that GitHub's runner does not read it as a workflow command."""
    line = line.replace("##[", "## [")
    return line.replace("::", ": :", 1) if line.lstrip().startswith("::") else line


def lines(report: Report, page: Page, brief: Brief | None = None) -> Iterator[str]:
    """The lines of the report, the totals last. With many findings, a summary comes first, the findings are sorted by
    file, and the most important ones are repeated at the end."""
    heads = 0
    many = brief is None and len(report.findings) > _MANY
    if many:
        yield from _summary(report, page)
    path = None
    for finding in _by_file(report.findings) if many else report.findings:
        if brief and _is_small(finding, brief):
            heads += 1
            if heads <= _HEADS:
                yield from _head(finding, page)
            continue
        if many and finding.location.path != path:
            path = finding.location.path
            here = [one for one in report.findings if one.location.path == path]
            yield page.paint(_path(path, page), "bold", "cyan") + page.paint(f"  {_counts(here)}", "dim")
            yield ""
        yield from _whole(report, finding, page)
    if heads > _HEADS:
        yield f"and {heads - _HEADS:,} more"
    if many:
        yield page.paint(f"the {_TOP} most important:", "bold")
        for finding in sorted(report.findings, key=_importance)[:_TOP]:
            yield from _head(finding, page)
    for hint in (brief.why if brief and heads else "", "hide one with: repoagent review dismiss ID"):
        if hint and report.findings:
            yield page.paint(hint, "dim")
    yield from _wrapped(_sum(report), page, *(() if report.findings else ("green",)))


def _whole(report: Report, finding: Finding, page: Page) -> Iterator[str]:
    """A finding with its code, text, commits and suggestion."""
    yield from _head(finding, page)
    code = list(frame(report, finding, page))
    change = suggested(report, finding, page)
    text = list(_body(finding, page))
    for part in (code, text, list(_evidence(finding, page)), change):
        if part:
            yield ""
            yield from part
    yield ""


def _summary(report: Report, page: Page) -> Iterator[str]:
    """The totals, and the number of findings and files of each rule."""
    yield from _wrapped(_sum(report), page, "bold")
    by_rule: dict[tuple[Level, str], list[Finding]] = {}
    for finding in sorted(report.findings, key=_importance):
        by_rule.setdefault((finding.level, finding.rule), []).append(finding)
    wide = max(columns(one_line(f"{level.word} {rule}")) for level, rule in by_rule)
    for (level, rule), findings in by_rule.items():
        files = len({one.location.path for one in findings})
        name = one_line(f"{level.word} {rule}")
        row = f"{' ' * (wide - columns(name))}  {len(findings):>3}  in {files:,} file{'s' * (files != 1)}"
        yield from _wrapped(f"{_INDENT}{name}{row}", page)
    yield ""


def _by_file(findings: Sequence[Finding]) -> list[Finding]:
    """The findings file by file, the file with the most important one first, and in a file by line."""
    best: dict[str, tuple[int, int, float]] = {}
    for finding in findings:
        best[finding.location.path] = min(
            best.get(finding.location.path, _importance(finding)), _importance(finding)
        )
    return sorted(
        findings, key=lambda one: (best[one.location.path], one.location.path, -one.level, one.location.start)
    )


def _importance(finding: Finding) -> tuple[int, int, float]:
    """Sorts findings: by level, then in the order of the table of rules, then by how sure they are."""
    from repoagent.review.rules import RULES

    rules = list(RULES)
    rule = rules.index(finding.rule) if finding.rule in RULES else len(rules)
    return -finding.level, rule, -(finding.confidence or 0.0)


def _is_small(finding: Finding, brief: Brief) -> bool:
    """Whether its head is enough; what a model found is shown whole."""
    from repoagent.review.rules import RULES

    known = RULES.get(finding.rule)
    return (
        known is not None and known.source != "model" and (brief.below is None or finding.level < brief.below)
    )


def _is_model_s(finding: Finding) -> bool:
    from repoagent.review.rules import RULES

    return finding.rule in RULES and RULES[finding.rule].source == "model"


def _head(finding: Finding, page: Page) -> Iterator[str]:
    level = finding.level.word
    head = f"{level} {one_line(finding.rule)}"
    title = one_line(finding.title) or "(no title)"
    room = None if page.width is None else page.width
    first = list(_fitted(f"{head}: {title}", room))
    styles = _STYLES[finding.level]
    for place, line in enumerate(first):
        if not place and line.startswith(head):
            yield (
                page.paint(level, *styles)
                + line[len(level) : len(head)]
                + page.paint(line[len(head) :], "bold")
            )
        else:
            yield page.paint(line, "bold")
    name = _path(finding.location.path, page)
    number = f":{finding.location.start}" if finding.location.start else ""
    removed = " (removed)" if finding.location.old and number else ""
    mark = f"[{finding.id}]"
    if (
        page.width is not None and columns(name) + len(_INDENT) > 2 * page.width
    ):  # a terminal cannot open a shortened path
        name = shorten(name, page.width - len(_INDENT) - len(number) - len(removed), _dots(page))
    yield _INDENT + page.paint(name + number, "cyan") + removed + "  " + page.paint(mark, "dim")


def _path(path: str, page: Page) -> str:
    if page.where is not None:
        path = os.path.relpath(page.where / path)
    return one_line(path)


def _body(finding: Finding, page: Page) -> Iterator[str]:
    room = None if page.width is None else min(page.width, _READABLE) - len(_INDENT)
    if room is not None and _is_model_s(finding):
        from repoagent.cli.ui.markdown import Markdown

        markdown = Markdown(lambda: room, color=page.color, utf8=not page.ascii)
        shown = markdown.feed(finding.body.strip()) + markdown.rest()
        yield from (f"{_INDENT}{line}".rstrip() for line in shown.removesuffix("\n").split("\n"))
        return
    for paragraph in finding.body.strip().replace("\r\n", "\n").split("\n"):
        if not paragraph.strip():
            if finding.body.strip():
                yield ""
            continue
        text = one_line(paragraph.expandtabs(4).rstrip())
        indent = text[: len(text) - len(text.lstrip(" "))][:20]
        for line in _fitted(text.lstrip(" "), None if room is None else room - len(indent)):
            yield _INDENT + indent + line


def _evidence(finding: Finding, page: Page) -> Iterator[str]:
    for one in finding.evidence[:_COMMITS]:
        date = time.strftime("%Y-%m-%d", time.gmtime(max(0, min(one.time, 2**37))))
        short, since = one_line(one.commit[:10]), ago(max(0.0, page.now - one.time))
        subject = one_line(one.subject) or "(no subject)"
        line = f"{_INDENT}{short} {date} {subject}"
        with_age = f"{line}  ({since})"
        line = with_age if page.width is None or columns(with_age) <= page.width else line
        if page.width is not None and columns(line) > page.width:
            line = front(line, page.width - len(_dots(page))) + _dots(page)
        start = len(_INDENT) + len(short)
        yield (
            _INDENT
            + page.paint(short, "yellow")
            + page.paint(line[start : start + 11], "dim")
            + line[start + 11 :]
        )
    if len(finding.evidence) > _COMMITS:
        more = len(finding.evidence) - _COMMITS
        yield f"{_INDENT}and {more} more commit{'' if more == 1 else 's'}"


def _sum(report: Report) -> str:
    title = one_line(report.title) or "the change"
    told = _counts(report.findings)
    more = [f"{_count(len(report.rules), 'rule')}, {_count(report.files, 'file')}"]
    if report.model:
        more.append(f"{one_line(report.model)}, {report.tokens:,} tokens{_cost(report.cost)}")
    else:
        more.append("no model asked")
    if report.dismissed:
        more.append(f"{len(report.dismissed):,} dismissed")
    if report.dropped:
        more.append(
            f"{report.dropped:,} could not be verified and {'was' if report.dropped == 1 else 'were'} dropped"
        )
    return f"{told or 'no findings'} in {title} ({'; '.join(more)})"


def _counts(findings: Sequence[Finding]) -> str:
    """`1 error, 2 warnings`."""
    counts = Counter(finding.level for finding in findings)
    return ", ".join(
        _count(counts[level], level.word) for level in sorted(Level, reverse=True) if counts[level]
    )


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"


def _cost(cost: float | None) -> str:
    from repoagent.llm.usage import cost_text

    if cost is None:
        return ""
    return f", ${cost:.2f}" if cost >= 0.01 else f", {cost_text(cost)}"


def _wrapped(text: str, page: Page, *styles: str) -> Iterator[str]:
    for line in _fitted(text, page.width):
        yield page.paint(line, *styles)


def _fitted(text: str, room: int | None) -> Iterator[str]:
    """Words in lines of at most `room` columns; longer words are broken."""
    if room is None:
        yield text
        return
    line = ""
    for word in text.split(" "):
        if line and columns(line) + 1 + columns(word) > room:
            yield line
            line = word
        else:
            line = f"{line} {word}" if line else word
        while columns(line) > room:
            start = front(line, room) or line[0]
            yield start
            line = line[len(start) :]
    yield line


def _dots(page: Page) -> str:
    return "..." if page.ascii else "…"


_AROUND = 2  # lines before and after those of the finding
_MOST = 12  # lines of the finding itself; of more, the first and the last
_END = 3
_TAB = 8
_DIFF = 60  # lines of a suggestion


def frame(report: Report, finding: Finding, page: Page) -> Iterator[str]:
    """The marked lines with context; removed lines as the finding quotes them; nothing for a whole file."""
    place = finding.location
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
    """The line without control characters, with tabs expanded before the gutter shifts them."""
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
    if room is None or display_width(code) <= room:
        return code
    dots = "..." if page.ascii else "…"
    return front(code, room - len(dots)) + dots


def suggested(report: Report, finding: Finding, page: Page) -> list[str]:
    """The suggestion as a diff without headers; [] for none, or if it does not fit the text."""
    suggestion = finding.suggestion
    texts = None if suggestion is None else before_and_after(report, suggestion)
    if suggestion is None or texts is None or texts[0] == texts[1]:
        return []
    from repoagent.cli.ui.diff import render
    from repoagent.git.files import REGULAR, FileChange
    from repoagent.patch.render import canonical_diff

    path = suggestion.location.path
    diff = canonical_diff([FileChange(path, path, texts[0], texts[1], REGULAR, REGULAR)])
    hunks = diff[diff.find("\n@@ ") + 1 :] if "\n@@ " in diff else ""
    if not hunks:  # a binary file
        return []
    spaced = "".join(f"{_spaced(line)}\n" for line in hunks.removesuffix("\n").split("\n"))
    shown_diff = render(spaced, color=page.color, columns=page.width and page.width - 2)
    lines = shown_diff.removesuffix("\n").split("\n")
    more = [f"  and {len(lines) - _DIFF} more lines"] if len(lines) > _DIFF else []
    elsewhere = f" in {clean(path)}" if path != finding.location.path else ""
    return [f"  suggested{elsewhere}:", *(f"  {line}" for line in lines[:_DIFF]), *more]
