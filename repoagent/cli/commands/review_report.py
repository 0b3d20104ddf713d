"""The text report of a review: each finding with its code, its commits and its suggestion as a diff."""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from repoagent.cli.ui.table import Page, age_text
from repoagent.display_text import display_width, one_line, plural, sanitize
from repoagent.errors import Busy, Refused
from repoagent.review.change import split_lines
from repoagent.review.finding import RULES, Finding, Level, Report, save_last
from repoagent.review.report_formats import before_and_after, shown, text_lines

if TYPE_CHECKING:
    from repoagent.cli.ui.terminal import Terminal
    from repoagent.storage.layout import Layout

_READABLE = 100  # columns of running text
_COMMITS = 5
_AROUND = 2  # lines before and after those of the finding
_MOST, _END = 12, 3  # lines of the finding itself; of a longer one, the first and last lines
_DIFF = 60  # lines of a suggestion
_STYLES = {Level.ERROR: ("bold", "red"), Level.WARNING: ("bold", "yellow"), Level.NOTE: ("bold", "blue")}


def reaches_level(reports: Iterable[Report], word: str) -> bool:
    """Whether any finding is at the level `word` or above; always False for "never"."""
    worst = [level for report in reports if (level := report.worst()) is not None]
    return word != "never" and bool(worst) and max(worst) >= Level[word.upper()]


def save_for_dismissal(dirs: Layout, report: Report) -> None:
    """Save the report for `review dismiss`; ignore a failure to write it."""
    with suppress(Refused, Busy):
        save_last(dirs, report)


def show_report(
    report: Report, terminal: Terminal, *, top: Path | None = None, level: int = Level.NOTE, hint: str = ""
) -> None:
    """Write the report to standard output, and its notes and the list of what was not reviewed to standard error.

    With `top`, paths are relative to the current folder, so that a terminal can open them. Of findings below `level`,
    only the heading is shown. `hint` follows the findings.
    """
    page = Page.of(terminal)
    text: Iterable[str] = lines(report, page, top=top, level=level, hint=hint)
    if os.environ.get("GITHUB_ACTIONS") == "true":
        # GitHub's runner reads such lines as commands
        text = (re.sub(r"^(\s*):(?=:)", r"\1: ", line.replace("##[", "## [")) for line in text)
    page.write(text, terminal)
    for sentence in report.unseen:
        terminal.warn(f"not checked: {sentence}")
    for sentence in report.notes:
        terminal.note(sentence, "dim")


def lines(
    report: Report,
    page: Page,
    *,
    top: Path | None = None,
    level: int = Level.NOTE,
    hint: str = "",
    now: float | None = None,
) -> Iterator[str]:
    """The lines of the report: the findings, the most important first, and the totals; see `show_report`."""
    from repoagent.llm.usage import cost_text

    now = time.time() if now is None else now
    rules = list(RULES)

    def importance(finding: Finding) -> tuple[int, int, float]:
        rule = rules.index(finding.rule) if finding.rule in RULES else len(rules)
        return -finding.level, rule, -(finding.confidence or 0.0)

    for finding in sorted(report.findings, key=importance):
        word, location = finding.level.word, finding.location
        title = f"{word} {one_line(finding.rule)}: {one_line(finding.title) or '(no title)'}"
        first, *rest = Page(page.width).wrap(title)
        yield page.paint(word, *_STYLES[finding.level]) + page.paint(first.removeprefix(word), "bold")
        yield from (page.paint(line, "bold") for line in rest)
        name = one_line(location.path if top is None else os.path.relpath(top / location.path))
        line = f":{location.start}" if location.start else ""
        removed = " (removed)" if location.old and line else ""
        yield f"  {page.paint(name + line, 'cyan')}{removed}  {page.paint(f'[{finding.id}]', 'dim')}"
        if finding.level < level:
            continue
        parts = _frame(report, finding, page), _body(finding, page), _evidence(finding, page, now)
        for part in (*parts, _suggested(report, finding, page)):
            if part_lines := list(part):
                yield from ["", *part_lines]
        yield ""
    for text in (hint, "hide one with: repoagent review dismiss ID"):
        if text and report.findings:
            yield page.paint(text, "dim")
    sources = [f"{plural(len(report.rules), 'rule')}, {plural(report.files, 'file')}", "no model asked"]
    if report.model:
        price = "" if report.cost is None else f", {cost_text(report.cost)}"
        sources[1] = f"{one_line(report.model)}, {report.tokens:,} tokens{price}"
    sources += [f"{len(report.dismissed):,} dismissed"] if report.dismissed else []
    sources += [f"{report.dropped:,} dropped as unverifiable"] if report.dropped else []
    levels = Counter(finding.level for finding in report.findings)
    counts = ", ".join(plural(levels[level], level.word) for level in sorted(levels, reverse=True))
    total = f"{counts or 'no findings'} in {one_line(report.title) or 'the change'} ({'; '.join(sources)})"
    yield from page.wrap(total, *([] if report.findings else ["green"]))


def _body(finding: Finding, page: Page) -> Iterator[str]:
    room = None if page.width is None else min(page.width, _READABLE) - 2
    body = finding.body.strip().replace("\r\n", "\n")
    if room is not None and finding.rule in RULES and RULES[finding.rule].source == "model":
        from repoagent.cli.ui.markdown import Markdown

        markdown = Markdown(lambda: room, color=page.color)
        text = markdown.feed(body) + markdown.rest()
        yield from (f"  {line}".rstrip() for line in text.removesuffix("\n").split("\n"))
        return
    for paragraph in body.split("\n") if body else ():
        yield from Page(room).wrap(one_line(paragraph.expandtabs(4).rstrip()), indent="  ")


def _evidence(finding: Finding, page: Page, now: float) -> Iterator[str]:
    for commit in finding.evidence[:_COMMITS]:
        date = time.strftime("%Y-%m-%d", time.gmtime(max(0, min(commit.time, 2**37))))
        short, since = one_line(commit.commit[:10]), age_text(max(0.0, now - commit.time))
        line = f"  {short} {date} {one_line(commit.subject) or '(no subject)'}"
        if page.width is None or display_width(line) + display_width(since) + 4 <= page.width:
            line += f"  ({since})"
        rest = page.cut(line)[2 + len(short) :]
        yield f"  {page.paint(short, 'yellow')}{page.paint(rest[:11], 'dim')}{rest[11:]}"
    if (more := len(finding.evidence) - _COMMITS) > 0:
        yield f"  and {plural(more, 'more commit')}"


def _frame(report: Report, finding: Finding, page: Page) -> Iterator[str]:
    """The marked lines with context, or removed lines as quoted; nothing for a whole file."""
    location = finding.location
    first, last = location.start, max(location.start, location.end)
    if first < 1:
        return
    text = report.by_file.get(location.path)
    source = [] if text is None or location.old else split_lines(text)
    if first > len(source):
        numbered = dict(enumerate(text_lines(finding.quote), first))
        last = first + len(numbered) - 1
    else:
        begin, end = max(1, first - _AROUND), min(len(source), last + _AROUND)
        numbered = {number: shown(source[number - 1]) for number in range(begin, end + 1)}
        last = min(last, len(source))
    mark, style = ("-", ("red",)) if location.old else (">", ("bold", "red"))
    gutter = len(str(max(numbered, default=0)))
    skipped = range(first + _MOST - _END, last - _END + 1) if last - first + 1 > _MOST else range(0)
    for number, line in numbered.items():
        if number in skipped:
            if number == skipped.start:
                yield page.paint(f"{'':{gutter + 3}}│ … {len(skipped)} more lines", "dim")
            continue
        marked = first <= number <= last
        faint = () if marked else ("dim",)
        room = None if page.width is None else page.width - gutter - 6
        code = page.paint(page.cut(one_line(line.expandtabs(8)), room), *faint)
        count = page.paint(f"{number:>{gutter}}", *faint)
        yield f" {page.paint(mark, *style) if marked else ' '} {count} {page.paint('│', 'dim')} {code}".rstrip()


def _suggested(report: Report, finding: Finding, page: Page) -> Iterator[str]:
    """The suggestion as a diff without headers; nothing if it does not fit the text."""
    suggestion = finding.suggestion
    texts = None if suggestion is None else before_and_after(report, suggestion)
    if suggestion is None or texts is None or texts[0] == texts[1]:
        return
    from repoagent.cli.ui.diff import render_diff
    from repoagent.git.files import Content, FileChange
    from repoagent.patch.render import canonical_diff

    path = suggestion.location.path
    diff = canonical_diff([FileChange.at(path, Content(texts[0]), Content(texts[1]))])
    _, mark, hunks = diff.partition("\n@@ ")
    if not mark:  # a binary file
        return
    text = render_diff(f"@@ {hunks}".expandtabs(8), color=page.color, columns=page.width and page.width - 2)
    diff_lines = text.removesuffix("\n").split("\n")
    yield f"  suggested{f' in {sanitize(path)}' if path != finding.location.path else ''}:"
    yield from (f"  {line}" for line in diff_lines[:_DIFF])
    if len(diff_lines) > _DIFF:
        yield f"  and {len(diff_lines) - _DIFF} more lines"
